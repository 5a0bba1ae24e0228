"""Text to index terms: lower-case unicode words, with English stop words and stems on request."""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from longrank.core.errors import MissingExtra
from longrank.core.settings import Settings

_STOP_WORDS = (
    "a about above after again against all also am an and any are as at be because been before being "
    "below between both but by can could did do does doing down during each few for from further had "
    "has have having he her here hers him his how i if in into is it its itself just me more most my "
    "no nor not now of off on once only or other our ours out over own s same she should so some such "
    "t than that the their theirs them then there these they this those through to too under until up "
    "upon very was we were what when where which while who whom why will with would you your yours "
)
ENGLISH_STOP_WORDS = frozenset(_STOP_WORDS.split())

ASCII_WORD = re.compile(r"[a-z0-9_]+")
# one term a character where a script writes no spaces: Han, and Hiragana
SINGLES = "\u3041-\u309f\u2e80-\u2fdf\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


class AnalysisSettings(Settings):
    """Which words become terms."""

    stop_words: Literal["none", "english"] = "none"
    stemming: Literal["none", "english"] = "none"


class Analyzer:
    """Texts to terms, the same way for documents and queries.

    Text outside ASCII is put into Unicode form NFKC first, so composed and decomposed letters are one term; combining
    marks stay in their word; Han and Hiragana give one term a character; emoji and other symbols give none.

    >>> Analyzer(AnalysisSettings(stop_words="english")).terms("The Cafe\u0301 of 東京 🙂")
    ['café', '東', '京']
    """

    def __init__(self, settings: AnalysisSettings | None = None) -> None:
        self.settings = settings or AnalysisSettings()
        self._stop = ENGLISH_STOP_WORDS if self.settings.stop_words == "english" else frozenset()
        self._stem = _english_stemmer() if self.settings.stemming == "english" else str

    @property
    def drops_words(self) -> bool:
        """Whether some words become no term."""
        return bool(self._stop)

    def words(self, text: str) -> list[str]:
        """Words of the text in order, before stop words and stems."""
        if text.isascii():
            return ASCII_WORD.findall(text.lower())
        return _unicode_word().findall(unicodedata.normalize("NFKC", text).lower())

    def term(self, word: str) -> str | None:
        """The term a word is indexed as, None for a stop word."""
        return None if word in self._stop else self._stem(word)

    def terms(self, text: str) -> list[str]:
        """Terms of the text in order."""
        return [term for term in map(self.term, self.words(text)) if term is not None]


@lru_cache(maxsize=1)
def _unicode_word() -> re.Pattern[str]:
    # Python's \w leaves combining marks out, which would cut Devanagari, Thai or Hebrew words in pieces
    characters = map(chr, range(0x20000))  # no mark lies beyond
    marks = "".join(re.escape(c) for c in characters if unicodedata.category(c)[0] == "M")
    return re.compile(f"[{SINGLES}]|(?:(?![{SINGLES}])\\w)(?:(?![{SINGLES}])[\\w{marks}])*")


def _english_stemmer() -> Callable[[str], str]:
    try:
        import Stemmer
    except ImportError:
        raise MissingExtra("PyStemmer", "stemming", purpose="English stemming") from None
    stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return stem
