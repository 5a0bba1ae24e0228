"""Backbones as sentence embedders, and long texts as chunks that fit them."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import inference_mode

from longrank.chunking.batching import token_budget_batches
from longrank.chunking.splitters import Greedy
from longrank.core.contracts import Splitter, Tokenizer
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.types import Document, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.device import usable_device
from longrank.encoders.rows import Needs, Row, Specials
from longrank.retrieval.dense import Chunk, Dense, DenseSettings, Embed, EncoderSettings, Floats
from longrank.retrieval.index import titled


def backbone_embedder(backbone: Backbone, *, token_budget: int = 8192, max_tokens: int = 256) -> Embed:
    """An embedder that gives the backbone's pooled state of each text (choose its pooling when loading it).

    A text longer than the backbone reads at once is read in windows of ``max_tokens``, whose states are averaged by
    length: nothing is cut.
    """
    room = min(max_tokens, backbone.max_tokens) - 2

    def embed(texts: Sequence[str]) -> Floats:
        windows = [_windows(backbone.tokenizer.tokenize(text), room) for text in texts]
        rows = [_row(ids, backbone.specials) for window in windows for ids in window]
        states = np.empty((len(rows), backbone.dim), dtype=np.float32)
        with inference_mode():
            for batch in token_budget_batches([len(row) for row in rows], budget=token_budget):
                states[batch] = (
                    backbone.encode([rows[i] for i in batch], needs=Needs.CHUNKS).pooled.float().cpu().numpy()
                )
        sizes = np.array([len(window) for window in windows], dtype=np.int64)
        weights = np.array([max(len(ids), 1) for window in windows for ids in window], dtype=np.float32)
        starts = np.cumsum(sizes) - sizes
        sums: Floats = np.add.reduceat(states * weights[:, None], starts, axis=0)
        return (sums / np.add.reduceat(weights, starts)[:, None]).astype(np.float32)

    return embed


def chunker(tokenizer: Tokenizer, splitter: Splitter) -> Chunk:
    """A function that gives the text of each span of a splitter; an empty text is its own only chunk."""

    def chunk(text: str) -> list[str]:
        parts = splitter.split(tokenizer.tokenize(text))
        spans = [parts.source.chars(span) for span in parts.spans]
        return [text[span.start : span.stop] for span in spans]

    return chunk


def open_dense(
    documents: Iterable[Document],
    folder: Path,
    encoder: EncoderSettings,
    settings: DenseSettings | None = None,
    *,
    rebuild: bool = False,
    device: str = "cpu",
    remote_code: str | None = None,
) -> Dense:
    """The documents' vectors below ``folder``, embedded where they are not there yet; other documents are refused.

    Every model, pooling and length of chunks has a folder of its own, so that several may be kept side by side.
    ``remote_code`` is that of ``pretrained``.
    """
    place_of_model = usable_device(device)
    backbone = _backbone(encoder, remote_code).to(place_of_model)
    embed = backbone_embedder(backbone, max_tokens=max(256, encoder.chunk_tokens + 2))
    settings = (settings or DenseSettings()).model_copy(update={"model": _model_name(encoder)})
    kept = settings.model_dump(exclude={"batch_texts"})
    place = folder / f"dense-{fingerprint(kept, encoder.model_dump(exclude={'model'}))}"
    if encoder.title:
        documents = (replace(document, text=titled(document)) for document in documents)
    if place.is_dir() and not rebuild:
        return Dense.open(place, embed, model=settings.model, documents=documents)
    chunk = chunker(backbone.tokenizer, Greedy(encoder.chunk_tokens))
    return Dense.build(documents, place, embed, chunk=chunk, settings=settings)


def _backbone(encoder: EncoderSettings, remote_code: str | None) -> Backbone:
    from longrank.encoders.pretrained import minilm, pretrained

    if encoder.model is None:
        return minilm(pooling=encoder.token_pooling).eval()
    return pretrained(encoder.model, pooling=encoder.token_pooling, remote_code=remote_code).eval()


def _model_name(encoder: EncoderSettings) -> str:
    """The model's name with a hash of its weights, because a folder's content may change."""
    if encoder.model is None:
        return "minilm"
    folder = Path(encoder.model)
    weights = sorted((*folder.glob("*.safetensors"), *folder.glob("*.bin"))) if folder.is_dir() else []
    return f"{folder.name}-{fingerprint([file_hash(path) for path in weights])}" if weights else encoder.model


def _windows(text: TokenizedText, room: int) -> list[np.ndarray[tuple[int], np.dtype[np.int32]]]:
    return [text.ids[start : start + room] for start in range(0, max(len(text), 1), room)]


def _row(ids: np.ndarray[tuple[int], np.dtype[np.int32]], specials: Specials) -> Row:
    before = [] if specials.cls is None else [specials.cls]
    after = [] if specials.sep is None else [specials.sep]
    framed = np.concatenate([before, ids, after]).astype(np.int32)
    if not len(framed):  # a decoder has no frame, and an empty row no state
        framed = np.array([specials.pad], dtype=np.int32)
    return Row(framed, np.zeros(len(framed), dtype=np.int32))
