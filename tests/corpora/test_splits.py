from pathlib import Path

import pytest

from longrank.core.errors import DataError
from longrank.corpora.splits import read_split, write_splits


def test_a_written_split_comes_back(tmp_path: Path) -> None:
    write_splits(tmp_path, {"train": ("q1", "q2"), "test": ()})
    assert read_split(tmp_path, "train") == ("q1", "q2")
    assert read_split(tmp_path, "test") == ()
    with pytest.raises(DataError, match="no split 'dev'; it has train, test"):
        read_split(tmp_path, "dev")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"test": [', "is not valid JSON"),
        (b"\xff", "is not valid JSON"),
        (b"[]", "must be a JSON object of lists"),
        (b'{"test": "q1"}', "must be a JSON object of lists"),
        (b'{"test": [1]}', "must be a JSON object of lists"),
        (b"{}", "no split 'test'; it has none"),
    ],
)
def test_a_damaged_file_of_splits_is_refused_in_words(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "splits.json").write_bytes(data)
    with pytest.raises(DataError, match=f"splits.json.*{said}"):
        read_split(tmp_path, "test")
