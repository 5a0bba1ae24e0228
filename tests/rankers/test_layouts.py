"""Where the tokens of query and chunks are found again after encoding, and arithmetic over padding."""

import numpy as np
import pytest
import torch

from longrank.chunking.splitters import Greedy
from longrank.core.types import Query, SplitText
from longrank.encoders.rows import Needs
from longrank.encoders.tiny import tiny
from longrank.rankers import masked
from longrank.rankers.layouts import Joint, Layout, Selected, Separate, Uncontextual
from longrank.rankers.published import PaddedJoint
from longrank.rankers.states import ChunkStates

BACKBONE = tiny(dim=16, layers=2)
QUERY = BACKBONE.tokenizer.tokenize(Query("q", "red green blue").text)
TEXTS = ["a b c d e f g", "", "h i", "j"]
EVERYTHING = Needs.CHUNKS | Needs.TOKENS | Needs.LAYERS | Needs.QUERY


def documents() -> list[SplitText]:
    return [Greedy(3).split(BACKBONE.tokenizer.tokenize(text)) for text in TEXTS]


def states_of(layout: Layout) -> ChunkStates:
    rows = layout.rows(BACKBONE, QUERY, documents())
    with torch.inference_mode():
        return layout.states(BACKBONE.encode(rows, needs=EVERYTHING), BACKBONE.specials, QUERY, documents())


def alone(ids: list[int], types: list[int]) -> torch.Tensor:
    """All layers of one input through transformers itself: [layers, length, dim]."""
    inputs = {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}
    with torch.inference_mode():
        return torch.stack(BACKBONE.model(**inputs, output_hidden_states=True).hidden_states)[:, 0]


def test_joint_states_are_those_of_the_query_and_the_chunk_in_one_input() -> None:
    states = states_of(Joint(2))
    asked = QUERY.ids[:2].tolist()
    assert states.tokens is not None and states.query is not None
    assert states.chunk_mask.sum(1).tolist() == [3, 1, 1, 1]
    assert states.sizes is not None and states.sizes.tolist() == [[3, 3, 1], [0, 0, 0], [2, 0, 0], [1, 0, 0]]
    for doc, split in enumerate(documents()):
        for chunk, span in enumerate(split.spans):
            ids = split.source.ids[span.start : span.stop].tolist()
            expected = alone([1, *asked, 2, *ids, 2], [0] * 4 + [1] * (len(ids) + 1))
            torch.testing.assert_close(states.chunks[doc, chunk], expected[-1, 0], atol=1e-5, rtol=1e-5)
            for layer in range(3):
                found = states.tokens.layer(layer)[doc, chunk, : len(ids)]
                torch.testing.assert_close(found, expected[layer, 4 : 4 + len(ids)], atol=1e-5, rtol=1e-5)
                if chunk == 0:
                    torch.testing.assert_close(
                        states.query.layer(layer)[doc], expected[layer, 1:3], atol=1e-5, rtol=1e-5
                    )


def test_separate_states_are_those_of_two_inputs() -> None:
    states = states_of(Separate(2))
    assert states.tokens is not None and states.query is not None
    asked = alone([1, 2, *QUERY.ids[:2].tolist(), 2], [0] * 5)
    for doc, split in enumerate(documents()):
        torch.testing.assert_close(states.query.layer()[doc], asked[-1, 2:4], atol=1e-5, rtol=1e-5)
        for chunk, span in enumerate(split.spans):
            ids = split.source.ids[span.start : span.stop].tolist()
            expected = alone([1, 2, *ids, 2], [0, 0, *[1] * len(ids), 1])
            found = states.tokens.layer()[doc, chunk, : len(ids)]
            torch.testing.assert_close(found, expected[-1, 2 : 2 + len(ids)], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "layout", [Joint(2), Separate(2), Uncontextual(2), Selected(Joint(2), 3), PaddedJoint(3, 2), PaddedJoint(3, 4)]
)
def test_ids_stand_where_the_states_are(layout: Layout) -> None:
    states = states_of(layout)
    assert states.tokens is not None and states.query is not None
    whole = states.tokens.by_document()
    for doc, split in enumerate(documents()):
        assert whole.ids[doc][whole.mask[doc]].tolist() == split.source.ids.tolist()
        assert states.query.ids[doc][states.query.mask[doc]].tolist() == QUERY.ids[: layout.query_tokens].tolist()


def test_a_document_without_gaps_has_its_chunks_side_by_side() -> None:
    states = states_of(Joint(2))
    assert states.tokens is not None
    whole = states.tokens.by_document()
    assert whole.mask.tolist() == [[True] * 7, [False] * 7, [True] * 2 + [False] * 5, [True] + [False] * 6]
    torch.testing.assert_close(whole.layer()[0, 3:6], states.tokens.layer()[0, 1])


def test_a_hidden_chunk_takes_its_tokens_with_it() -> None:
    hidden = states_of(Joint(2)).without(1)
    assert hidden.chunk_mask[0].tolist() == [True, False, True]
    assert hidden.tokens is not None
    kept = hidden.tokens.by_document()
    assert kept.ids[0][kept.mask[0]].tolist() == documents()[0].source.ids[[0, 1, 2, 6]].tolist()


def test_nothing_real_gives_zero() -> None:
    values, mask = torch.tensor([[3.0, -5.0], [1.0, 2.0]]), torch.tensor([[False, False], [False, True]])
    for over in (masked.total, masked.mean, masked.maximum):
        assert over(values, mask, dim=1).tolist() == [0.0, 2.0]
    assert masked.softmax(values, mask, dim=1).tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert masked.top(values, mask, 3).tolist() == [[0.0] * 3, [2.0] * 3]


def test_real_entries_come_first_in_their_order() -> None:
    place, mask = masked.real_first(torch.tensor([[False, True, False, True], [False, False, True, False]]))
    assert place[0].tolist() == [1, 3]
    assert mask.tolist() == [[True, True], [True, False]]
    assert int(place[1, 0]) == 2


def test_a_row_is_never_empty() -> None:
    nothing = BACKBONE.tokenizer.tokenize("")
    for layout in (Joint(2), Separate(2), Uncontextual(2)):
        rows = layout.rows(BACKBONE, nothing, [Greedy(3).split(nothing)])
        assert min(len(row) for row in rows) == 3
        assert np.concatenate([row.types for row in rows]).max() <= 1
