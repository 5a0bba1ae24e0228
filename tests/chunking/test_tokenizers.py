from collections.abc import Callable

import pytest

from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer
from longrank.core.contracts import Tokenizer


@pytest.mark.parametrize("make", [WordTokenizer, bert_tokenizer])
def test_half_of_a_surrogate_pair_moves_no_other_token(make: Callable[[], Tokenizer]) -> None:
    text = "one \ud83d two"
    found = make().tokenize(text)
    words = [text[a:b] for a, b in zip(found.char_starts.tolist(), found.char_stops.tolist(), strict=True)]
    assert [word for word in words if word != "\ud83d"] == ["one", "two"]
    assert found.text == text


def test_a_text_with_half_of_a_surrogate_pair_is_counted() -> None:
    assert bert_tokenizer().lengths(["one two", "one \ud83d two"]) == [2, 2]
