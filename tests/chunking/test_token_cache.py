"""Tokens on disk are the tokenizer's own, and the folder stays within its limit."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longrank.chunking.token_cache import CacheSize, DiskTokenizer, cache_on_disk, identity
from longrank.chunking.tokenizers import CachedTokenizer, WordTokenizer
from longrank.core.errors import SettingsError
from longrank.core.types import TokenizedText
from longrank.encoders.tiny import tiny

WORDS = WordTokenizer()


def segments(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.tokens"))


def same(found: TokenizedText, wanted: TokenizedText) -> bool:
    return (found.text, found.tokenizer) == (wanted.text, wanted.tokenizer) and all(
        getattr(found, column).dtype == np.int32 and getattr(found, column).tolist() == getattr(wanted, column).tolist()
        for column in ("ids", "char_starts", "char_stops")
    )


class NoTokenizing(Exception):
    """Raised where the cache should have answered."""


@pytest.fixture
def silenced(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """After ``silenced.undo`` is not called, tokenising anew fails: what comes back comes from disk."""

    def refuse(self: WordTokenizer, text: str) -> TokenizedText:
        raise NoTokenizing(text)

    monkeypatch.setattr("longrank.chunking.tokenizers.WordTokenizer.tokenize", refuse)
    return monkeypatch


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=6), wide=st.booleans())
def test_a_text_read_from_disk_is_the_tokenised_text(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], wide: bool
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    inner = WordTokenizer(2**20 if wide else 8192)  # ids above 65,535 need four bytes
    first = DiskTokenizer(inner, folder)
    for text in texts:
        first.tokenize(text)
    first.flush()
    again = DiskTokenizer(inner, folder)
    assert all(same(again.tokenize(text), inner.tokenize(text)) for text in texts)
    assert all(same(first.tokenize(text), inner.tokenize(text)) for text in texts)


def test_the_next_process_need_not_tokenise(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    code = (
        "import sys; from pathlib import Path; from longrank.chunking.tokenizers import *;"
        "from longrank.chunking.token_cache import *;"
        "DiskTokenizer(WordTokenizer(), Path(sys.argv[1])).tokenize('a long time ago')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)  # written as the program ends
    wanted = WORDS.tokenize("a long time ago")
    request.getfixturevalue("silenced")
    disk = DiskTokenizer(WORDS, tmp_path)
    assert same(disk.tokenize("a long time ago"), wanted)
    with pytest.raises(NoTokenizing):
        disk.tokenize("another text")


def test_ids_take_two_bytes_where_they_fit(tmp_path: Path) -> None:
    text = " ".join(f"w{i}" for i in range(1000))
    for vocabulary in (8192, 2**20):
        disk = DiskTokenizer(WordTokenizer(vocabulary), tmp_path / str(vocabulary))
        disk.tokenize(text)
        disk.flush()
    narrow, wide = (segments(tmp_path / str(v))[0].stat().st_size for v in (8192, 2**20))
    assert wide - narrow == 2 * 1000
    assert narrow == 32 + 32 + 1000 * (2 + 4 + 4)  # head, one entry, columns


def test_enough_new_tokens_become_a_segment(tmp_path: Path) -> None:
    disk = DiskTokenizer(WORDS, tmp_path, size=CacheSize(segment_tokens=5))
    disk.tokenize("one two three")
    assert segments(tmp_path) == []
    disk.tokenize("four five")
    assert len(segments(tmp_path)) == 1


def test_the_oldest_segments_go_when_the_folder_is_full_and_what_was_mapped_stays(tmp_path: Path) -> None:
    # a segment of one text of 10 tokens: 32 + 32 + 10 * (2 + 4 + 4) = 164 bytes; three of them are 492
    disk = DiskTokenizer(WORDS, tmp_path, size=CacheSize(max_bytes=400, segment_tokens=1))
    texts = [" ".join([word] * 10) for word in ("old", "middle", "new")]
    for age, text in zip((300, 200, 100), texts, strict=True):
        known = set(segments(tmp_path))
        disk.tokenize(text)
        for path in set(segments(tmp_path)) - known:
            os.utime(path, (time.time() - age,) * 2)
    assert sum(path.stat().st_size for path in segments(tmp_path)) == 328
    assert all(same(disk.tokenize(text), WORDS.tokenize(text)) for text in texts)
    silent = DiskTokenizer(WORDS, tmp_path)
    assert [text in _known(silent, texts) for text in texts] == [False, True, True]


def _known(disk: DiskTokenizer, texts: list[str]) -> set[str]:
    """Texts that a cache finds without tokenising: what is new costs another segment."""
    found = set()
    for text in texts:
        before = len(segments(disk.folder))
        disk.tokenize(text)
        disk.flush()
        if len(segments(disk.folder)) == before:
            found.add(text)
    return found


def test_a_text_larger_than_the_whole_cache_is_tokenised_and_not_kept(tmp_path: Path) -> None:
    disk = DiskTokenizer(WORDS, tmp_path, size=CacheSize(max_bytes=100, segment_tokens=1))
    assert same(disk.tokenize("a b c d e f g"), WORDS.tokenize("a b c d e f g"))
    assert segments(tmp_path) == []


@pytest.mark.parametrize("damage", ["cut", "empty", "foreign", "index"])
def test_a_damaged_segment_is_passed_over(tmp_path: Path, damage: str) -> None:
    disk = DiskTokenizer(WORDS, tmp_path)
    disk.tokenize("a long time ago")
    disk.flush()
    (path,) = segments(tmp_path)
    whole = path.read_bytes()
    flipped = whole[:40] + bytes([whole[40] ^ 255]) + whole[41:]
    path.write_bytes({"cut": whole[:-1], "empty": b"", "foreign": b"x" * len(whole), "index": flipped}[damage])
    again = DiskTokenizer(WORDS, tmp_path)
    assert same(again.tokenize("a long time ago"), WORDS.tokenize("a long time ago"))


def test_tokenizers_of_one_name_and_different_ids_share_nothing(tmp_path: Path) -> None:
    small, large = WordTokenizer(100), WordTokenizer(8192)
    assert small.name == large.name
    assert identity(small) != identity(large)
    for inner in (small, large):
        disk = DiskTokenizer(inner, tmp_path)
        disk.tokenize("some words to read")
        disk.flush()
    assert same(DiskTokenizer(small, tmp_path).tokenize("some words to read"), small.tokenize("some words to read"))


def test_the_disk_cache_goes_under_the_memory_of_a_backbone_once(tmp_path: Path) -> None:
    backbone = tiny()
    disk = cache_on_disk(backbone.tokenizer, tmp_path)
    assert isinstance(backbone.tokenizer, CachedTokenizer)
    assert backbone.tokenizer.inner is disk
    with pytest.raises(SettingsError, match="already"):
        cache_on_disk(backbone.tokenizer, tmp_path)
    backbone.save(tmp_path)  # the cache is not part of the model
    assert '"words-v1"' in (tmp_path / "encoder.json").read_text()
