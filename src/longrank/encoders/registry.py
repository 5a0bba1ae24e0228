"""Backbones by name."""

from longrank.core.registry import Registry
from longrank.encoders.backbone import Backbone
from longrank.encoders.pretrained import minilm, pretrained
from longrank.encoders.tiny import tiny

BACKBONES: Registry[Backbone] = Registry("backbone")
BACKBONES.add("minilm", paper="Wang et al. 2020; Reimers and Gurevych 2019")(minilm)
BACKBONES.add("pretrained")(pretrained)
BACKBONES.add("tiny")(tiny)
