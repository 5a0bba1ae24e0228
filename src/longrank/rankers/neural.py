"""A ranker by composition: splitter + layout + backbone + aggregator."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from longrank.chunking.splitters import positive
from longrank.core.contracts import Splitter
from longrank.core.errors import ModelError, TruncatedInput
from longrank.core.types import Document, Query, Scores, Spec, SplitText
from longrank.encoders.backbone import Backbone
from longrank.rankers.layouts import Layout
from longrank.rankers.ranking import Ranked, rank_texts
from longrank.rankers.scoring import DEFAULT_BUDGET, check_query_is_read, score_documents

if TYPE_CHECKING:
    from longrank.rankers.explain import Explanation


class NeuralRanker(nn.Module):
    """The only trainable ranker: what it computes is what its four parts say."""

    def __init__(self, splitter: Splitter, layout: Layout, backbone: Backbone, aggregator: nn.Module) -> None:
        super().__init__()
        _check_fits(splitter, layout, backbone)
        self.splitter = splitter
        self.layout = layout
        self.backbone = backbone
        self.aggregator = aggregator
        self.spec: Spec | None = None  # set by build_ranker; what a checkpoint stores
        self.trained = False
        self.strict = False
        self.token_budget = DEFAULT_BUDGET

    def split(self, documents: Sequence[Document]) -> list[SplitText]:
        """The spans of each document that the model will read."""
        return [self.splitter.split(self.backbone.tokenizer.tokenize(document.text)) for document in documents]

    def forward(self, query: Query, documents: Sequence[Document]) -> Tensor:
        """Scores [docs] with their graph, all rows in one batch: for training."""
        asked = self.backbone.tokenizer.tokenize(query.text)
        split = self.split(documents)
        rows = self.layout.rows(self.backbone, asked, split)
        encoded = self.backbone.encode(rows, needs=self.aggregator.needs)  # type: ignore[arg-type]
        scores: Tensor = self.aggregator(self.layout.states(encoded, self.backbone.specials, asked, split))
        return scores

    @torch.inference_mode()
    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One score a document; what was not read is counted, or refused when ``strict``."""
        was_training = self.training
        self.eval()
        try:
            scores = score_documents(self, query, documents, budget=self.token_budget)
        finally:
            self.train(was_training)
        if self.strict:
            check_query_is_read(scores.cut_query_tokens)
        if self.strict and scores.cut_documents:
            raise TruncatedInput(
                f"{scores.cut_documents} of {len(documents)} documents are longer than this ranker reads "
                f"({scores.cut_tokens} tokens would be cut): use a ranker that reads more, or strict=False"
            )
        return scores

    def rank(self, query: str, documents: Sequence[str], *, top_k: int | None = None) -> list[Ranked]:
        """The documents best first; ties keep the order given."""
        return rank_texts(self, query, documents, top_k=top_k)

    def predict(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One score a (query, document) pair, as users of sentence-transformers know it."""
        return [self.score(Query("q", query), [Document("d", text)]).values[0] for query, text in pairs]

    def explain(self, query: str, document: str) -> "Explanation":
        """What each chunk adds to the score, and the best span in characters."""
        from longrank.rankers.explain import explain

        return explain(self, Query("query", query), Document("document", document))

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Trainable parameters of the backbone and of the rest: they learn at different rates."""
        parts: dict[str, Any] = {"backbone": self.backbone, "aggregator": self.aggregator}
        return {name: [p for p in part.parameters() if p.requires_grad] for name, part in parts.items()}


def _check_fits(splitter: Splitter, layout: Layout, backbone: Backbone) -> None:
    positive(query_tokens=layout.query_tokens)
    fixed = layout.query_tokens + backbone.specials.framing
    if fixed + splitter.longest > backbone.max_tokens:
        room = backbone.max_tokens - fixed
        raise ModelError(
            f"{layout.query_tokens} query tokens, {backbone.specials.framing} special ones and chunks of "
            f"{splitter.longest} do not fit a backbone of {backbone.max_tokens} positions: use "
            f"{f'chunks of at most {room}' if room > 0 else 'fewer query tokens'}, or a backbone that reads more"
        )
