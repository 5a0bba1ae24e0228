"""Passages are counted in batches, and as they would be one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer, token_lengths
from longrank.core.contracts import Tokenizer
from longrank.core.errors import DataError, MissingExtra, UnknownDocument
from longrank.core.types import Document
from longrank.synthetic import passages
from longrank.synthetic.passages import count_passages, open_passages, store_passages

TEXTS = ["One otter, two otters.", "", "naïve Zürich 東京 \U0001f9a6", "a" * 500, "unbelievably \t\n spaced"]


def tokenizers() -> Iterator[Tokenizer]:
    yield WordTokenizer()
    try:
        yield bert_tokenizer()
    except MissingExtra:
        return


@pytest.mark.parametrize("tokenizer", list(tokenizers()), ids=lambda one: one.name)
@pytest.mark.parametrize("batch", [1, 2, 1024])
def test_batches_count_what_single_texts_count(
    tokenizer: Tokenizer, batch: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(passages, "_BATCH", batch)
    documents = [Document(f"p{number}", text) for number, text in enumerate(TEXTS)]
    expected = [len(tokenizer.tokenize(text)) for text in TEXTS]
    assert token_lengths(tokenizer, TEXTS) == expected
    counted = count_passages(iter(documents), tokenizer)
    assert counted.tokens.tolist() == expected
    stored = store_passages(tmp_path / "stored", iter(documents), tokenizer, ids={"p3"})
    assert stored.tokens.tolist() == expected
    assert list(stored.texts) == list(counted.texts) == TEXTS
    assert stored.rows == {"p3": 3}
    assert open_passages(tmp_path / "stored").tokenizer == tokenizer.name


def test_only_a_batch_is_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passages, "_BATCH", 4)
    read = 0
    seen: list[int] = []

    def stream() -> Iterator[Document]:
        nonlocal read
        for read in range(1, 13):
            yield Document(f"p{read}", "word")

    class Noting:
        """Ids asked for; notes how many passages had been read by then."""

        def __contains__(self, name: object) -> bool:
            seen.append(read)
            return False

        def __iter__(self) -> Iterator[str]:
            return iter(())

        def __len__(self) -> int:
            return 0

    store_passages(tmp_path / "stored", stream(), WordTokenizer(), ids=Noting())
    assert seen == [4] * 4 + [8] * 4 + [12] * 4


def test_folders_of_other_things_and_unknown_passages_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").touch()
    with pytest.raises(DataError, match="is not a folder of passages"):
        store_passages(tmp_path / "mine", [], WordTokenizer(), ids=())
    with pytest.raises(DataError, match="store_passages"):
        open_passages(tmp_path / "mine")
    with pytest.raises(UnknownDocument, match="'p9' is judged"):
        count_passages([Document("p0", "word")], WordTokenizer()).row("p9")
