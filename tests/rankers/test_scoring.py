"""The engine encodes what it must, and nothing twice."""

from collections.abc import Sequence

import pytest

from longrank.core.types import Document, Query, Spec
from longrank.encoders.rows import Encoded, Needs, Row
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.zoo import build_ranker
from longrank.testing import tiny_spec

QUERY = Query("q", "which wood is the bridge made of")
PARTS = ["alpha beta gamma delta", "one two three four", "red green blue grey"]
COPIES = [Document(str(n), " ".join(PARTS[(n + k) % 3] for k in range(3))) for n in range(3)]  # rotations of each other


def four_word_chunks(name: str, **lengths: int) -> NeuralRanker:
    return build_ranker(Spec(name, {**tiny_spec(name).params, "size": 4, **lengths}))


def count_rows(ranker: NeuralRanker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    encoded: list[int] = []
    encode = ranker.backbone.encode

    def counting(rows: Sequence[Row], *, needs: Needs) -> Encoded:
        encoded.append(len(rows))
        return encode(rows, needs=needs)

    monkeypatch.setattr(ranker.backbone, "encode", counting)
    return encoded


@pytest.mark.parametrize("name", ["maxp", "parade-transformer"])
def test_chunks_that_documents_share_are_encoded_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = four_word_chunks(name, stride=4, max_tokens=12)
    alone = [ranker.score(QUERY, [document]).values[0] for document in COPIES]
    encoded = count_rows(ranker, monkeypatch)
    together = ranker.score(QUERY, COPIES).values
    assert sum(encoded) == 3  # of nine chunks, three are different
    assert together == pytest.approx(alone, abs=1e-6)


def test_rankers_that_read_token_states_encode_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = four_word_chunks("cedr-knrm")
    encoded = count_rows(ranker, monkeypatch)
    ranker.score(QUERY, COPIES)
    assert sum(encoded) == 9
