"""Passages found in documents by the papers' procedure, exactly, without its cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from longrank.core.contracts import Retriever
from longrank.core.errors import SettingsError
from longrank.core.settings import Settings
from longrank.core.types import Collection, Document, Query
from longrank.positions.estimators import Located, not_located
from longrank.positions.subsequence import FullIndex, OneOffIndex, WordIndex, WordTarget, best_window
from longrank.positions.substring import long_common_substring
from longrank.positions.words import NormalText, at_least

FEWEST_WORDS = 5
NO_TEXT = "the document has no words"


class MatchSettings(Settings):
    """Thresholds of the papers: substring in characters, else subsequence in words inside a wider window."""

    substring: float = 0.8
    subsequence: float = 0.7
    window: float = 1.2


@dataclass(frozen=True, slots=True)
class Passage:
    """A relevant passage whose place in a document is wanted."""

    id: str
    query_id: str
    text: str


@dataclass(frozen=True)
class PreparedText:
    """A text in the form the matcher compares, made once and matched often."""

    normal: NormalText

    @cached_property
    def target(self) -> WordTarget:
        """The text as a passage to look for."""
        return WordTarget(tuple(self.normal.words))

    @cached_property
    def index(self) -> FullIndex:
        """The text as a document to look in."""
        return FullIndex(self.normal.words)


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
        target = PreparedText(NormalText.of(passage)) if isinstance(passage, str) else passage
        if isinstance(document, str):
            normal = NormalText.of(document)
            return self._match(target, normal, OneOffIndex(normal.words))
        return self._match(target, document.normal, document.index)

    def _match(self, passage: PreparedText, document: NormalText, index: WordIndex) -> Located:
        words = len(passage.normal.words)
        if words < FEWEST_WORDS:
            return not_located("none", f"the passage has {words} words, at least {FEWEST_WORDS} are needed")
        if not document.words:
            return not_located("none", NO_TEXT)
        text = passage.normal.text
        shortest = at_least(self.settings.substring, len(text))
        common = long_common_substring(text, document.text, shortest=shortest)
        if common is not None:
            span = document.chars(common.start, common.start + common.length)
            return Located((span,), "substring", common.length / len(text))
        needed, width = at_least(self.settings.subsequence, words), at_least(self.settings.window, words)
        best = best_window(passage.target, index, width=width, needed=needed)
        if best is None:
            return not_located("none", f"no window shares {needed} of the passage's {words} words in order")
        span = document.word_chars(best.first_word, best.last_word)
        return Located((span,), "subsequence", best.common / words)


def prepare(text: str) -> PreparedText:
    """A text in the form the matcher compares, for texts that are matched more than once."""
    return PreparedText(NormalText.of(text).with_offsets())


@dataclass(frozen=True, slots=True)
class Recovered:
    """A passage and the document it was found in; ``stage`` says which candidates that document was among."""

    passage: Passage
    document_id: str | None
    located: Located
    stage: str


def recover(
    passages: Sequence[Passage],
    collection: Collection,
    *,
    matcher: PassageMatcher | None = None,
    retriever: Retriever | None = None,
    depth: int = 5,
) -> list[Recovered]:
    """Each passage with the best place for it: first among documents relevant to its query, then among retrieved ones.

    Within a stage the higher ratio wins, then the earlier position, then the smaller document id. Without a retriever
    only the first stage is tried.
    """
    matcher = matcher or PassageMatcher()
    prepared: dict[str, PreparedText] = {}

    def best(passage: Passage, candidates: Sequence[str], stage: str) -> Recovered | None:
        target = prepare(passage.text)
        found: list[tuple[float, int, str, Located]] = []
        for document_id in candidates:
            if document_id not in collection.documents:
                continue
            if document_id not in prepared:
                prepared[document_id] = prepare(collection.documents[document_id].text)
            located = matcher.match(target, prepared[document_id])
            if located:
                found.append((-located.ratio, located.spans[0].start, document_id, located))
        if not found:
            return None
        _, _, document_id, located = min(found, key=lambda entry: entry[:3])
        return Recovered(passage, document_id, located, stage)

    results: list[Recovered] = []
    for passage in passages:
        judged = sorted(collection.qrels.relevant(passage.query_id))
        result = best(passage, judged, "relevant")
        if result is None and retriever is not None and passage.text.strip():
            run = retriever.retrieve([Query(passage.id, passage.text)], depth=depth)
            result = best(passage, run.ranking(passage.id), "retrieved")
        results.append(result or Recovered(passage, None, _why_not(passage, judged), "none"))
    return results


def _why_not(passage: Passage, judged: Sequence[str]) -> Located:
    words = len(passage.text.split())
    if words < FEWEST_WORDS:
        return not_located("none", f"the passage has {words} words, at least {FEWEST_WORDS} are needed")
    return not_located("none", f"no candidate holds the passage ({len(judged)} relevant documents tried)")


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
