"""Passages found in documents by the papers' procedure, exactly, without its cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Protocol

from longrank.core.errors import SettingsError
from longrank.core.fingerprint import fingerprint
from longrank.core.settings import Settings
from longrank.core.types import Document, Query
from longrank.positions.compiled import LONGEST_PASSAGE, CodedText, code_text, compiled_is_worth_it, search_coded
from longrank.positions.estimators import Located, not_located
from longrank.positions.subsequence import BestWindow, FullIndex, OneOffIndex, WordTarget, best_window
from longrank.positions.substring import long_common_substring
from longrank.positions.words import NormalText, at_least, word_offsets

FEWEST_WORDS = 5
NO_TEXT = "the document has no words"


class MatchSettings(Settings):
    """Thresholds of the papers: substring in characters, else subsequence in words inside a wider window."""

    substring: float = 0.8
    subsequence: float = 0.7
    window: float = 1.2


@dataclass(frozen=True)
class PreparedText:
    """A text whose forms for comparison are made when first needed, and kept: for texts that are matched often."""

    original: str

    @cached_property
    def words(self) -> list[str]:
        """The words, lower-cased."""
        return self.original.lower().split()

    @cached_property
    def normal(self) -> NormalText:
        """The text with single blanks."""
        return NormalText(self.original, " ".join(self.words), *word_offsets(self.original))

    @cached_property
    def target(self) -> WordTarget:
        """The text as a passage to look for."""
        return WordTarget(tuple(self.words))

    @cached_property
    def index(self) -> FullIndex:
        """The text as a document to look in."""
        return FullIndex(self.words)

    @cached_property
    def coded(self) -> CodedText:
        """The text for the compiled search."""
        return code_text(self.original)


@dataclass(frozen=True)
class PassageMatcher:
    """The papers' procedure: longest common substring, else longest common subsequence in sliding windows.

    >>> matcher = PassageMatcher()
    >>> match = matcher.match("the cat sat on a mat", "Long ago The cat sat  on a mat by the door")
    >>> match.method, match.spans
    ('substring', (CharSpan(start=9, stop=30),))
    """

    settings: MatchSettings = field(default_factory=MatchSettings)

    def __post_init__(self) -> None:
        if not 0.5 < self.settings.substring <= 1 or not 0 < self.settings.subsequence <= 1 or self.settings.window < 1:
            raise SettingsError(
                f"substring must lie in (.5, 1], subsequence in (0, 1] and window be 1 or more, got {self.settings!r}"
            )

    def match(self, passage: str | PreparedText, document: str | PreparedText) -> Located:
        """Where the passage stands in the document; texts that are matched often are prepared first."""
        target = prepare(passage) if isinstance(passage, str) else passage
        if compiled_is_worth_it() and target.coded.words <= LONGEST_PASSAGE:
            coded, searched = target.coded, code_text(document) if isinstance(document, str) else document.coded
            search = partial(search_coded, coded, searched)
            return self._match(coded.normal.text, coded.words, searched.normal, search)
        if isinstance(document, PreparedText):
            search = partial(best_window, target.target, document.index)
            return self._match(target.normal.text, len(target.words), document.normal, search)
        words = document.lower().split()
        search = partial(best_window, target.target, OneOffIndex(words))
        return self._match(target.normal.text, len(target.words), NormalText(document, " ".join(words)), search)

    def _match(self, text: str, words: int, document: NormalText, search: "_Search") -> Located:
        """The procedure, for a passage of so many words; ``search`` looks for the best window in the document."""
        if words < FEWEST_WORDS:
            return not_located("none", f"the passage has {words} words, at least {FEWEST_WORDS} are needed")
        if not document.text:
            return not_located("none", NO_TEXT)
        chosen = self.settings
        common = long_common_substring(text, document.text, shortest=at_least(chosen.substring, len(text)))
        if common is not None:
            span = document.chars(common.start, common.start + common.length)
            return Located((span,), "substring", common.length / len(text))
        needed = at_least(chosen.subsequence, words)
        best = search(width=at_least(chosen.window, words), needed=needed)
        if best is None:
            return not_located("none", f"no window shares {needed} of the passage's {words} words in order")
        return Located((document.word_chars(best.first_word, best.last_word),), "subsequence", best.common / words)


class _Search(Protocol):
    def __call__(self, *, width: int, needed: int) -> BestWindow | None: ...


def prepare(text: str) -> PreparedText:
    """A text in the form the matcher compares, for texts that are matched more than once."""
    return PreparedText(text)


class Matcher(Protocol):
    """Anything that finds one passage in one text."""

    def match(self, passage: str, document: str) -> Located:
        """Where the passage stands in the document."""
        ...


@dataclass(frozen=True)
class MatchingEstimator:
    """Locates a query's relevant passages in a document, by the papers' procedure or by any other ``match``."""

    passages: Mapping[str, Sequence[str]]
    matcher: Matcher

    @property
    def identity(self) -> str:
        """Changes with the passages and with how they are looked for."""
        return fingerprint(self.passages, type(self.matcher).__name__, repr(self.matcher))

    def locate(self, query: Query, document: Document) -> Located:
        """Every passage of the query that the document holds, in order of position; the weakest ratio is reported."""
        return locate_passages(self.passages.get(query.id, ()), document, self.matcher)


def locate_passages(passages: Sequence[str], document: Document, matcher: Matcher) -> Located:
    """The spans of those passages that were found, sorted; none, with the last reason, if no passage was."""
    if not passages:
        return not_located("none", "the query has no passages to look for")
    tried = [matcher.match(passage, document.text) for passage in passages]
    found = [located for located in tried if located]
    if not found:
        return tried[-1]
    weakest = min(found, key=lambda located: located.ratio)
    spans = tuple(sorted({span for located in found for span in located.spans}))
    return Located(spans, weakest.method, weakest.ratio, any(located.ambiguous for located in found))
