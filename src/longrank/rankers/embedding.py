"""Bi-encoders as rankers: query and chunks are embedded apart, and meet in a dot product."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrank.chunking.batching import token_budget_batches
from longrank.chunking.splitters import EvenWindows, Greedy, Sliding, Truncate, positive
from longrank.core.contracts import Splitter
from longrank.core.errors import BadScore, ModelError, TruncatedInput
from longrank.core.types import Document, IntArray, Query, Scores, SplitText, TokenSpan
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Needs, Row
from longrank.rankers import masked
from longrank.rankers.published import Compat
from longrank.rankers.ranking import Ranked, rank_texts
from longrank.rankers.scoring import DEFAULT_BUDGET, check_query_is_read
from longrank.rankers.spreading import SpreadBackbone

ChunkPooling = Literal["max", "mean"]
Reading = Literal["first", "long", "chunk-max", "chunk-mean", "late-max", "late-mean"]


class EmbeddingRanker(nn.Module):
    """Cosine of query and document chunks, the best chunk or their mean deciding.

    With ``late`` chunking a document is encoded as far as the backbone reads at once, and only then pooled chunk by
    chunk: a chunk's vector knows what stands around it. ``batch_rows`` encodes so many rows together, in their order,
    which matters only to backbones whose states depend on the batch.
    """

    def __init__(
        self,
        backbone: Backbone | SpreadBackbone,
        splitter: Splitter,
        *,
        chunks: ChunkPooling = "max",
        late: bool = False,
        query_prefix: str = "",
        document_prefix: str = "",
        query_tokens: int = 64,
        batch_rows: int | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__()
        positive(query_tokens=query_tokens)
        self.backbone = backbone
        self.splitter = splitter
        self.chunks: ChunkPooling = chunks
        self.late = late
        self.query_prefix = query_prefix
        self.document_prefix = document_prefix
        self.query_tokens = min(query_tokens, document_room(backbone, ""))
        self.batch_rows = batch_rows
        self.strict = strict
        if splitter.longest > self.room:
            raise ModelError(
                f"chunks of {splitter.longest} tokens, the prefix and the special tokens do not fit a backbone of "
                f"{backbone.max_tokens} positions: use chunks of at most {self.room}"
            )
        self.eval()  # it is not trained here, and a new module would leave with dropout on

    @property
    def room(self) -> int:
        """Tokens of a document that fit one row, beside its prefix and the special tokens."""
        return document_room(self.backbone, self.document_prefix)

    @torch.inference_mode()
    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One cosine a document, with the count of what was not read."""
        if not documents:
            return Scores([])
        split = [self.splitter.split(self.backbone.tokenizer.tokenize(document.text)) for document in documents]
        cut = [document.cut_tokens for document in split]
        asked = self.backbone.tokenizer.tokenize(self.query_prefix + query.text).ids
        cut_query = max(0, len(asked) - self.query_tokens)
        if self.strict:
            check_query_is_read(cut_query)
        if self.strict and any(cut):
            raise TruncatedInput(
                f"{sum(c > 0 for c in cut)} of {len(documents)} documents are longer than this ranker reads "
                f"({sum(cut)} tokens would be cut): use chunks of the whole document, or strict=False"
            )
        was_training = self.training
        self.eval()
        try:
            vector = self._query_vector(asked)
            vectors = self._late_vectors(split) if self.late else self._chunk_vectors(split)
        finally:
            self.train(was_training)
        counts = [len(document.spans) for document in split]
        similar = torch.split(vectors @ vector, counts)
        padded = nn.utils.rnn.pad_sequence(list(similar), batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor(counts)[:, None]
        pool = masked.maximum if self.chunks == "max" else masked.mean
        values = pool(padded, mask, dim=1)
        if not values.isfinite().all():
            raise BadScore(f"the model gave a score that is not finite for query {query.id!r}: its weights are damaged")
        return Scores(values.tolist(), sum(c > 0 for c in cut), sum(cut), cut_query)

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first; ties keep the order given."""
        return rank_texts(self, query, documents, top_k=top_k)

    def _query_vector(self, asked: IntArray) -> Tensor:
        (states,) = self._encode([self._row(asked[: self.query_tokens])], Needs.CHUNKS)
        return F.normalize(states, dim=-1)

    def _chunk_vectors(self, split: Sequence[SplitText]) -> Tensor:
        """Normed vectors of all chunks, each encoded by itself."""
        prefix = self._prefix()
        rows = [
            self._row(np.concatenate([prefix, document.source.ids[span.start : span.stop]]))
            for document in split
            for span in document.spans
        ]
        if self.batch_rows is not None:
            return F.normalize(torch.stack(self._encode(rows, Needs.CHUNKS)), dim=-1)
        distinct = {row.ids.tobytes(): row for row in rows}  # documents often share chunks: boilerplate, copies, audits
        found = dict(zip(distinct, self._encode(list(distinct.values()), Needs.CHUNKS), strict=True))
        return F.normalize(torch.stack([found[row.ids.tobytes()] for row in rows]), dim=-1)

    def _late_vectors(self, split: Sequence[SplitText]) -> Tensor:
        """Normed vectors of all chunks, each the mean of its tokens' states in a row as long as the backbone reads."""
        prefix = self._prefix()
        lead = len(prefix) + (self.backbone.specials.cls is not None)
        groups = [(document, group) for document in split for group in _within(document.spans, self.room)]
        rows = [
            self._row(np.concatenate([prefix, document.source.ids[group[0].start : group[-1].stop]]))
            for document, group in groups
        ]
        vectors = []
        for states, (_, group) in zip(self._encode(rows, Needs.TOKENS), groups, strict=True):
            text = states[lead:] if len(states) > lead else states
            for span in group:
                inside = text[span.start - group[0].start : span.stop - group[0].start]
                vectors.append((inside if len(inside) else states).mean(0))
        return F.normalize(torch.stack(vectors), dim=-1)

    def _encode(self, rows: Sequence[Row], needs: Needs) -> list[Tensor]:
        """For each row its pooled state, or its token states where those are needed, on the CPU in single precision."""
        found: list[Tensor] = [torch.empty(0)] * len(rows)
        for batch in self._batches([len(row) for row in rows]):
            encoded = self.backbone.encode([rows[i] for i in batch], needs=needs)
            parts: Sequence[Tensor] = encoded.pooled.unbind(0)
            if needs & Needs.TOKENS and encoded.tokens is not None:
                parts = torch.split(encoded.tokens[-1], list(encoded.lengths))
            for i, part in zip(batch, parts, strict=True):
                found[i] = part.float().cpu()
        return found

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        if self.batch_rows is None:
            return token_budget_batches(lengths, budget=DEFAULT_BUDGET)
        starts = range(0, len(lengths), self.batch_rows)
        return [list(range(start, min(start + self.batch_rows, len(lengths)))) for start in starts]

    def _prefix(self) -> IntArray:
        return self.backbone.tokenizer.tokenize(self.document_prefix).ids

    def _row(self, ids: IntArray) -> Row:
        specials = self.backbone.specials
        cls = [specials.cls] if specials.cls is not None else []
        sep = [specials.sep] if specials.sep is not None else []
        framed = np.concatenate([cls, ids, sep]).astype(np.int32)
        if not len(framed):  # a decoder has no frame, and an empty row no state
            framed = np.array([specials.pad], dtype=np.int32)
        return Row(framed, np.zeros_like(framed))


def embedding_ranker(
    backbone: Backbone | SpreadBackbone,
    *,
    reading: Reading = "chunk-max",
    tokens: int | None = None,
    size: int = 200,
    stride: int = 150,
    query_prefix: str = "",
    document_prefix: str = "",
    query_tokens: int = 64,
    strict: bool = False,
) -> EmbeddingRanker:
    """A ranker of any sentence-embedding backbone, by the way it reads a long document.

    ``first`` embeds the first ``tokens`` (477 unless given), ``long`` as many as fit the backbone or ``tokens``; these
    cut, and count what they cut. ``chunk-max`` and ``chunk-mean`` embed even windows of ``size``, ``stride`` apart, the
    ``late`` ones chunks of ``size`` within long rows.
    """
    room = document_room(backbone, document_prefix)
    splitters: dict[str, Splitter] = {
        "first": Truncate(min(tokens or 477, room)),
        "long": Truncate(min(tokens or room, room)),
        "chunk": EvenWindows(min(size, room), min(stride, size, room), tokens),
        "late": Greedy(min(size, room)) if tokens is None else Sliding(min(size, room), min(size, room), tokens),
    }
    kind, _, pooling = reading.partition("-")
    return EmbeddingRanker(
        backbone,
        splitters[kind],
        chunks="mean" if pooling == "mean" else "max",
        late=kind == "late",
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        query_tokens=query_tokens,
        strict=strict,
    )


def e5_4k(
    backbone: Backbone, *, tokens: int = 1431, query_tokens: int = 32, short_tokens: int = 512, compat: Compat = None
) -> EmbeddingRanker:
    """E5 with 4,096 positions (Zhu et al. 2024) as the papers use it: lengths include the special tokens.

    Texts carry E5's prefixes and each row's own length decides how its positions are spread. Under
    ``compat="published"`` there are no prefixes, and the longest of 32 rows decides for all.
    """
    published = compat == "published"
    spread = SpreadBackbone(backbone, short_tokens=short_tokens, compat=compat)
    prefix = "" if published else "passage: "
    frame = (backbone.specials.cls is not None) + (backbone.specials.sep is not None)
    kept = tokens - frame - len(backbone.tokenizer.tokenize(prefix))
    return EmbeddingRanker(
        spread,
        Truncate(max(1, kept)),
        query_prefix="" if published else "query: ",
        document_prefix=prefix,
        query_tokens=query_tokens - frame,
        batch_rows=32 if published else None,
    )


def document_room(backbone: Backbone | SpreadBackbone, prefix: str) -> int:
    """Tokens of a document that fit one row of a backbone, beside a prefix and the special tokens."""
    specials = backbone.specials
    frame = (specials.cls is not None) + (specials.sep is not None)
    return backbone.max_tokens - frame - len(backbone.tokenizer.tokenize(prefix))


def _within(spans: Sequence[TokenSpan], room: int) -> list[list[TokenSpan]]:
    """Neighbouring spans that fit into one row together."""
    groups: list[list[TokenSpan]] = []
    for span in spans:
        if groups and span.stop - groups[-1][0].start <= room:
            groups[-1].append(span)
        else:
            groups.append([span])
    return groups
