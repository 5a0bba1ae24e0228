"""Bi-encoders as rankers: query and chunks are embedded apart, and meet in a dot product."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from longrank.core.contracts import Splitter
from longrank.core.types import Document, IntArray, Query, Scores, TokenizedText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Needs, Row
from longrank.rankers import masked
from longrank.rankers.ranking import Ranked, rank_texts
from longrank.rankers.scoring import DEFAULT_BUDGET, encode_in_batches

ChunkPooling = Literal["max", "mean"]


class EmbeddingRanker(nn.Module):
    """Cosine of query and document chunks, the best chunk or their mean deciding."""

    def __init__(
        self,
        backbone: Backbone,
        splitter: Splitter,
        *,
        chunks: ChunkPooling = "max",
        query_prefix: str = "",
        document_prefix: str = "",
        query_tokens: int = 64,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.splitter = splitter
        self.chunks: ChunkPooling = chunks
        self.query_prefix = query_prefix
        self.document_prefix = document_prefix
        self.query_tokens = query_tokens

    @torch.inference_mode()
    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One cosine a document, with the count of what was not read."""
        if not documents:
            return Scores([])
        asked = self.backbone.tokenizer.tokenize(self.query_prefix + query.text)
        vector = self._embed([asked.ids[: self.query_tokens]])[0]
        split = [self.splitter.split(self.backbone.tokenizer.tokenize(document.text)) for document in documents]
        counts = [len(document.spans) for document in split]
        prefix = self.backbone.tokenizer.tokenize(self.document_prefix).ids
        pieces = [_piece(prefix, document.source, s.start, s.stop) for document in split for s in document.spans]
        similar = torch.split(self._embed(pieces) @ vector, counts)
        padded = nn.utils.rnn.pad_sequence(list(similar), batch_first=True)
        mask = torch.arange(padded.shape[1]) < torch.tensor(counts)[:, None]
        pool = masked.maximum if self.chunks == "max" else masked.mean
        cut = [document.cut_tokens for document in split]
        return Scores(pool(padded, mask, dim=1).tolist(), sum(c > 0 for c in cut), sum(cut))

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first; ties keep the order given."""
        return rank_texts(self, query, documents, top_k=top_k)

    def _embed(self, pieces: Sequence[IntArray]) -> Tensor:
        rows = [self._row(piece) for piece in pieces]
        encoded = encode_in_batches(self.backbone, rows, needs=Needs.CHUNKS, budget=DEFAULT_BUDGET)
        return F.normalize(encoded.pooled.float(), dim=-1).cpu()

    def _row(self, ids: IntArray) -> Row:
        specials = self.backbone.specials
        cls = [specials.cls] if specials.cls is not None else []
        sep = [specials.sep] if specials.sep is not None else []
        framed = np.concatenate([cls, ids, sep]).astype(np.int32)
        return Row(framed, np.zeros_like(framed))


def _piece(prefix: IntArray, source: TokenizedText, start: int, stop: int) -> IntArray:
    return np.concatenate([prefix, source.ids[start:stop]])
