"""The inference engine: tokenise once, never encode padding, batches of a bounded number of tokens."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

import torch

from longrank.chunking.batching import token_budget_batches
from longrank.core.errors import BadScore, ModelError, TruncatedInput
from longrank.core.types import Document, Query, Scores, SplitText
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.rankers.layouts import chosen

if TYPE_CHECKING:
    from longrank.rankers.neural import NeuralRanker

DEFAULT_BUDGET = 2048  # tokens a batch; larger batches fall out of a CPU's cache
_STATES_BUDGET = 16_384  # tokens whose states are held at once for aggregators that read token states
STATES_LIMIT = 2**19  # token states, over all layers kept, that one document may need at once
_ROWS_BUDGET = 1_000_000  # tokens of documents whose rows are held at once where only chunk vectors are kept


def score_documents(ranker: "NeuralRanker", query: Query, documents: Sequence[Document], *, budget: int) -> Scores:
    """Scores in the order given; memory is bounded by the budget and one document's text and states.

    A document that needs more than ``STATES_LIMIT`` token states at once is refused.
    """
    asked = ranker.backbone.tokenizer.tokenize(query.text)
    needs: Needs = ranker.aggregator.needs  # type: ignore[assignment]
    values: list[float] = []
    cut_documents = cut_tokens = 0
    split = (ranker.split([document])[0] for document in documents)  # one by one: all at once may not fit
    for group in _document_groups(split, needs, layers=ranker.backbone.layers + 1):
        read = chosen(ranker.layout, asked, group)
        rows = ranker.layout.rows(ranker.backbone, asked, read)
        encoded = _encode_distinct(ranker.backbone, rows, needs=needs, budget=budget)
        states = ranker.layout.states(encoded, ranker.backbone.specials, asked, read)
        values += ranker.aggregator(states).float().tolist()
        cut = [document.cut_tokens for document in read]
        cut_documents += sum(tokens > 0 for tokens in cut)
        cut_tokens += sum(cut)
    if not torch.isfinite(torch.tensor(values)).all():
        raise BadScore(f"the ranker gave a score that is not finite for query {query.id!r}: its weights are damaged")
    return Scores(values, cut_documents, cut_tokens, ranker.layout.unread(asked))


def check_query_is_read(cut_tokens: int) -> None:
    """Raise if a query is cropped, for strict reading."""
    if cut_tokens:
        raise TruncatedInput(
            f"the query is longer than this ranker reads ({cut_tokens} of its tokens would be cut): shorten it, make "
            f"the ranker with more query_tokens, or use strict=False"
        )


def _encode_distinct(backbone: Backbone, rows: Sequence[Row], *, needs: Needs, budget: int) -> Encoded:
    """The states of all rows; where one vector a row is kept, a row that comes again is not encoded again.

    Near copies of a document, as audits and deduplicating searches send them, share most of their chunks.
    """
    if needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY):
        return encode_in_batches(backbone, rows, needs=needs, budget=budget)
    places: dict[bytes, int] = {}
    first: list[Row] = []
    numbers = []
    for row in rows:
        number = places.setdefault(_mark(row), len(first))
        if number == len(first):
            first.append(row)
        numbers.append(number)
    encoded = encode_in_batches(backbone, first, needs=needs, budget=budget)
    if len(first) == len(rows):
        return encoded
    return Encoded(encoded.pooled[numbers], None, tuple(len(row) for row in rows))


def _mark(row: Row) -> bytes:
    """A short hash of all that a row's states depend on: keeping the row itself would double the memory."""
    attended = b"" if row.attended is None else row.attended.tobytes()
    parts = b"|".join((row.ids.tobytes(), row.types.tobytes(), attended, str(row.global_tokens).encode()))
    return blake2b(parts, digest_size=16).digest()


def encode_in_batches(backbone: Backbone, rows: Sequence[Row], *, needs: Needs, budget: int) -> Encoded:
    """The states of all rows, in their order, computed in batches of rows of like length."""
    batches = token_budget_batches([len(row) for row in rows], budget=budget)
    parts = [backbone.encode([rows[i] for i in batch], needs=needs) for batch in batches]
    if len(parts) == 1 and batches[0] == list(range(len(rows))):
        return parts[0]
    order = torch.tensor([i for batch in batches for i in batch])
    back = torch.argsort(order)
    lengths = tuple(len(row) for row in rows)
    pooled = torch.cat([part.pooled for part in parts])[back.to(parts[0].pooled.device)]
    if parts[0].tokens is None:
        return Encoded(pooled, None, lengths)
    pieces: list[torch.Tensor] = []
    for part in parts:
        if part.tokens is not None:
            pieces += torch.split(part.tokens, list(part.lengths), dim=1)
    return Encoded(pooled, torch.cat([pieces[int(i)] for i in back], dim=1), lengths)


def _document_groups(documents: Iterable[SplitText], needs: Needs, *, layers: int) -> Iterator[list[SplitText]]:
    """As many documents as may be held at once: many where only chunk vectors are kept, few where token states are."""
    keeps_states = bool(needs & (Needs.TOKENS | Needs.LAYERS | Needs.QUERY))
    kept_layers = layers if needs & Needs.LAYERS else 1
    budget = _STATES_BUDGET // kept_layers if keeps_states else _ROWS_BUDGET
    group: list[SplitText] = []
    held = 0
    for document in documents:
        size = sum(len(span) for span in document.spans)
        if keeps_states and size * kept_layers > STATES_LIMIT:
            raise ModelError(
                f"a document of {len(document.source):,} tokens needs {size * kept_layers:,} token states at once, and "
                f"the most is {STATES_LIMIT:,}: let the splitter keep fewer tokens (max_chunks, max_tokens), or use a "
                f"ranker that keeps one vector a chunk, such as 'maxp'"
            )
        if group and held + size > budget:
            yield group
            group, held = [], 0
        group.append(document)
        held += size
    if group:
        yield group
