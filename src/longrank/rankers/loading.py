"""A ranker by name, spec, file or folder."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from torch import nn

from longrank.core.addresses import shown_address
from longrank.core.contracts import Ranker
from longrank.core.errors import ModelError, SettingsError
from longrank.core.settings import to_spec
from longrank.core.types import Spec
from longrank.encoders.device import usable_device
from longrank.encoders.pretrained import minilm, sentence_pooling
from longrank.rankers import checkpoint
from longrank.rankers.cross_encoder import cross_encoder, is_cross_encoder
from longrank.rankers.embedding import EmbeddingRanker, embedding_ranker
from longrank.rankers.lengths import with_lengths
from longrank.rankers.listwise import ListwiseRanker
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.pointwise import PointwiseRanker
from longrank.rankers.ranking import TextRanker
from longrank.rankers.ready import READY, build_ready
from longrank.rankers.zoo import RANKERS

R = TypeVar("R", bound=Ranker)


def load(
    name: str | Path | Spec,
    *,
    read: Literal["firstp", "maxp"] = "maxp",
    query_tokens: int | None = None,
    device: str = "cpu",
    remote_code: str | None = None,
) -> TextRanker:
    """A ranker ready to score.

    A checkpoint folder, the folder of a published cross-encoder (``read`` says how it reads long text), ``"minilm"``, a
    ``Spec`` of a ranker that needs no training ("rankgpt", "embedding" and the like), or a TOML file with its
    ``name`` and ``[params]``.

    ``"minilm"`` is the embedding model of the extra ``minilm``, which reads a document of any length in windows and
    keeps the best: it needs no training and no network. ``query_tokens`` is how much of a query is read, if not as much
    as in training, or 32 tokens by a cross-encoder and 64 by minilm. ``remote_code`` is for backbones with Python code
    of their own.
    """
    usable_device(device)
    if query_tokens is not None and query_tokens < 1:
        raise SettingsError(f"query_tokens is how much of a query is read, at least 1, got {query_tokens}")
    return on_device(_found(name, read=read, query_tokens=query_tokens, remote_code=remote_code), device)


def _found(
    name: str | Path | Spec, *, read: Literal["firstp", "maxp"], query_tokens: int | None, remote_code: str | None
) -> TextRanker:
    if str(name) == "minilm":
        return embedding_ranker(minilm(pooling="mean").eval(), query_tokens=query_tokens or 64)
    spec = named_spec(name, {} if query_tokens is None else {"query_tokens": query_tokens})
    if spec is not None:
        return cast(TextRanker, build_ready(spec))
    folder = Path(str(name))
    if is_cross_encoder(folder):
        return cross_encoder(folder, read=read, query_tokens=query_tokens or 32, remote_code=remote_code)
    if folder.is_dir():
        ranker = checkpoint.load(folder, remote_code=remote_code)
        return ranker if query_tokens is None else with_lengths(ranker, {"query_tokens": query_tokens})
    untrained = [entry.name for entry in READY]
    near = difflib.get_close_matches(str(name), ["minilm", *untrained, *(entry.name for entry in RANKERS)], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ModelError(
        f"no ranker {shown_address(str(name))!r}.{hint} Give a folder that longrank saved, a cross-encoder's, "
        f"'minilm', a TOML file, or one of {', '.join(untrained)}"
    )


def named_spec(name: str | Path | Spec, params: Mapping[str, Any] | None = None) -> Spec | None:
    """The spec of a ranker that needs no training, by its name, spec or TOML file; None for a folder.

    ``params`` go over those of the file. ``backbone`` and ``model`` may be a folder or hub id, ``chat`` may be
    ``provider:model``.

    >>> named_spec("rankgpt", {"chat": "openai:gpt-4o-mini"}).params["chat"]
    Spec(name='openai', params={'model': 'gpt-4o-mini'})
    """
    spec = name if isinstance(name, Spec) else _spec_of(str(name))
    if spec is None:
        return None
    if spec.name in {entry.name for entry in RANKERS}:
        raise ModelError(
            f"{spec.name!r} has to be trained first: `longrank train`, then give the folder of a checkpoint"
        )
    return Spec(READY[spec.name].name, {k: _part(k, v) for k, v in {**spec.params, **(params or {})}.items()})


def _spec_of(name: str) -> Spec | None:
    path = Path(name)
    if path.suffix == ".toml":
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SettingsError(f"no file {name}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{name} is not valid TOML: {error}") from None
        return to_spec(table)
    if path.exists() or name not in {entry.name for entry in (*READY, *RANKERS)}:
        return None
    return Spec(name)


def _part(name: str, value: Any) -> Any:
    """A part in its short form as the spec it stands for."""
    if not isinstance(value, str):
        return value
    if name == "chat":
        provider, colon, model = value.partition(":")
        if not colon or not model:
            raise SettingsError(f"a chat model is 'provider:model', such as openai:gpt-4o-mini, not {value!r}")
        return Spec(provider, {"model": model})
    if name == "backbone":
        if value == "minilm":
            return Spec("minilm", {"pooling": "mean"})
        return Spec("pretrained", {"model": value, "pooling": sentence_pooling(value)})
    return value


def on_device(ranker: R, device: str) -> R:
    """The ranker with its model on a device; a device that is not there is refused, and so is one for a chat model."""
    place = usable_device(device)
    if isinstance(ranker, nn.Module):
        ranker.to(place)
    elif isinstance(ranker, PointwiseRanker) and hasattr(ranker.scorer, "language_model"):
        ranker.scorer.language_model.model.to(place)
    elif isinstance(model := getattr(ranker, "model", None), nn.Module):  # of transformers or sentence-transformers
        model.to(place)
    elif device != "cpu":
        raise SettingsError(f"this ranker computes elsewhere, and cannot be put on {device!r}: leave --device out")
    return ranker


def strictly(ranker: TextRanker) -> TextRanker:
    """The ranker, which from now on refuses to cut a document or the query."""
    if isinstance(ranker, (NeuralRanker, EmbeddingRanker)):
        ranker.strict = True
        return ranker
    if isinstance(ranker, PointwiseRanker):
        return replace(ranker, strict=True)
    if isinstance(ranker, ListwiseRanker):
        ranker.settings = ranker.settings.model_copy(update={"strict": True})
        return ranker
    raise SettingsError("this ranker does not say what it cuts: strict reading cannot be asked of it")
