"""A ranker by name or folder."""

from pathlib import Path
from typing import Literal

from longrank.chunking.splitters import Sliding
from longrank.core.errors import ModelError
from longrank.encoders.pretrained import minilm
from longrank.rankers import checkpoint
from longrank.rankers.cross_encoder import cross_encoder, is_cross_encoder
from longrank.rankers.embedding import EmbeddingRanker
from longrank.rankers.neural import NeuralRanker


def load(name: str | Path, *, read: Literal["firstp", "maxp"] = "maxp") -> NeuralRanker | EmbeddingRanker:
    """A ranker ready to score: a checkpoint folder, the folder of a published cross-encoder, or ``"minilm"``.

    ``"minilm"`` is the embedding model of the extra ``minilm``, which reads a document of any length in windows and
    keeps the best: it needs no training and no network. ``read`` says how a published cross-encoder reads long text.
    """
    folder = Path(name)
    if str(name) == "minilm":
        return EmbeddingRanker(minilm(pooling="mean").eval(), Sliding(200, 150))
    if is_cross_encoder(folder):
        return cross_encoder(folder, read=read)
    if folder.is_dir():
        return checkpoint.load(folder)
    raise ModelError(f"no ranker {str(name)!r}: give a folder that longrank saved, a cross-encoder's, or 'minilm'")
