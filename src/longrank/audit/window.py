"""How much of a document a black box reads, from its scores alone, in a number of calls that grows with log(length).

A document of plain words is scored with and without the query's words in one region of it. If the score does not move,
the region is not read. Halving the region finds the borders of what is read to the word.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from longrank.audit.response import asking_again, checked_scores
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.contracts import Ranker, Tokenizer
from longrank.core.errors import BudgetSpent, LongrankError, ModelError, SettingsError
from longrank.core.types import Document, Query

Cut = Literal["nothing", "end", "start", "middle", "unclear"]
Combines = Literal["whole text", "best chunk", "mean of chunks", "sum of chunks", "unclear"]
Gives = Literal["document", "longer of query and document", "neither"]

LONGEST = 8_192
# frequent words that most vocabularies hold whole, none of which is in a query below
_PLAIN_TEXT = (
    "time people year day man world life hand part child eye woman place work week case point company number group "
    "problem fact water room mother area money story month lot right study book word business side kind head house"
)
_PLAIN = tuple(_PLAIN_TEXT.split())
_QUERIES = (
    "copper lantern festival",
    "glacier violin museum",
    "desert submarine recipe",
    "pepper astronomy bridge",
    "orchard thunder chess",
)
# what long queries are padded with: in no document
_PADDING_TEXT = "crystal engine marble parrot saddle trumpet velvet whistle zebra anchor basket candle dolphin falcon"
_PADDING = tuple(_PADDING_TEXT.split())
_RERUNS = 4
_NOISE_FACTOR = 6.0
_SMALLEST = 1e-6  # of a score's size: below it float32 arithmetic differs between batches
_BLOCK = 12  # words of evidence in the tests of how chunks are combined
_DILUTED, _KEPT = 0.7, 0.9  # share of a chunk's signal left in a text twice as long: mean of chunks, sum of chunks


@dataclass(frozen=True, slots=True)
class Window:
    """What a ranker reads of a document.

    ``words`` and ``characters`` are the size of what is read beside a query of ``query_words`` words; None means the
    whole of the longest text tried. ``tokens`` is the same in the tokens of ``tokenizer``. ``cut`` says which part is
    lost, ``gives_way`` what gets shorter when the query is long, ``query_cut`` whether a long query lost its end,
    ``combines`` how the parts of what is read make one score. ``agreeing`` of ``asked`` queries gave this window.
    """

    words: int | None
    characters: int | None
    tokens: int | None
    tokenizer: str
    cut: Cut
    gives_way: Gives
    query_cut: bool
    query_words: int
    combines: Combines
    noise: float
    agreeing: int
    asked: int
    documents: int
    longest: int

    @property
    def suffix_cut(self) -> bool:
        """Whether documents that differ only at their end get the same score."""
        return self.cut == "end"


def probe_window(
    ranker: Ranker, *, longest: int = LONGEST, queries: int = 3, tokenizer: Tokenizer | None = None
) -> Window:
    """The window of a ranker, from texts of at most ``longest`` words; several queries vote, the mode wins.

    >>> from longrank.audit.planted import Windowed, WordMatch
    >>> window = probe_window(Windowed(WordMatch.fitted(["plain words"]), 37), longest=256)
    >>> window.words, window.cut
    (37, 'end')
    """
    if longest < 64 or not 1 <= queries <= len(_QUERIES):
        raise SettingsError(f"a probe needs texts of 64 words or more and 1 to {len(_QUERIES)} queries")
    asker = _Asker(ranker)
    asker.noise = max(asker.noise_of(text, longest) for text in _QUERIES[:queries])
    votes = [_borders(asker, text, longest) for text in _QUERIES[:queries]]
    (cut, head, tail), agreeing = Counter(votes).most_common(1)[0]
    query = _QUERIES[votes.index((cut, head, tail))]
    read = _read_text(cut, head, tail, longest)
    counted = tokenizer or WordTokenizer()
    size = None if cut in ("nothing", "unclear") else head + tail
    gives_way, query_cut = _gives_way(asker, query, size, longest) if cut == "end" and size else ("neither", False)
    return Window(
        words=size,
        characters=None if size is None else len(read),
        tokens=None if size is None else len(counted.tokenize(read)),
        tokenizer=counted.name,
        cut=cut,
        gives_way=gives_way,
        query_cut=query_cut,
        query_words=len(query.split()),
        combines=_combines(asker, query, longest if size is None else size) if cut != "unclear" else "unclear",
        noise=asker.noise,
        agreeing=agreeing,
        asked=queries,
        documents=asker.documents,
        longest=longest,
    )


class _Asker:
    """Scores of texts made of words, each asked once, and how many were."""

    def __init__(self, ranker: Ranker) -> None:
        self._ranker = ranker
        self._known: dict[tuple[str, tuple[str, ...]], float] = {}
        self.documents = 0
        self.noise = 0.0

    def score(self, query: str, text: list[str]) -> float:
        key = (query, tuple(text))
        if key not in self._known:
            self._known[key] = self._fresh(query, text)
        return self._known[key]

    def noise_of(self, query: str, longest: int) -> float:
        """The greatest change of a score that is asked several times."""
        text = _text(min(longest, 512), [(0, _BLOCK)], query)
        with asking_again():  # a memory would hide how much the ranker's own answers differ
            scores = [self._fresh(query, text) for _ in range(_RERUNS)]
        return max(scores) - min(scores)

    def differ(self, query: str, one: list[str], other: list[str]) -> bool:
        a, b = self.score(query, one), self.score(query, other)
        return abs(a - b) > self.tolerance(a, b)

    def tolerance(self, *scores: float) -> float:
        return _NOISE_FACTOR * self.noise + _SMALLEST * max(map(abs, scores))

    def _fresh(self, query: str, text: list[str]) -> float:
        self.documents += 1
        try:
            reply = self._ranker.score(Query("probe", query), [Document("probe", " ".join(text))])
        except LongrankError:
            raise
        except Exception as error:  # anyone's code may raise anything
            kind = f"{type(error).__name__}: {error}"[:200]
            raise ModelError(f"the ranker failed on a text of {len(text)} words ({kind})") from error
        return checked_scores(reply, 1).values[0]


def _text(length: int, marked: list[tuple[int, int]], query: str) -> list[str]:
    """Plain words with the query's words, over and over, in the marked regions."""
    return _marked(length, [(region, query) for region in marked])


def _marked(length: int, marks: list[tuple[tuple[int, int], str]]) -> list[str]:
    """Plain words with some words, over and over, in each marked region."""
    text = [_PLAIN[at % len(_PLAIN)] for at in range(length)]
    for (start, stop), given in marks:
        words = given.split()
        text[start:stop] = [words[at % len(words)] for at in range(stop - start)]
    return text


def _borders(asker: _Asker, query: str, length: int, *, marks: str = "") -> tuple[Cut, int, int]:
    """What is cut, and how many words are read at the start and at the end, found by marking regions."""
    plain, marks = _text(length, [], query), marks or query

    def read(start: int, stop: int) -> bool:
        return asker.differ(query, plain, _text(length, [(start, stop)], marks))

    first, last = read(0, 1) or read(0, _BLOCK), read(length - 1, length) or read(length - _BLOCK, length)
    middle = length // 2
    if first and last:
        if read(middle, middle + _BLOCK):
            return "nothing", length, 0
        return (
            "middle",
            _first_false(lambda at: read(at, middle), 0, middle),
            length - _last_unread(read, middle, length),
        )
    if first:
        return "end", _first_false(lambda at: read(at, length), 0, length), 0
    if last:
        return "start", 0, length - _last_unread(read, 0, length)
    return "unclear", 0, 0


def _last_unread(read: Callable[[int, int], bool], start: int, length: int) -> int:
    """The first place that is read of a text whose end is: words from ``start`` up to it change nothing."""
    return _first_false(lambda at: not read(start, at), start + 1, length + 1) - 1


def _first_false(true_at: Callable[[int], bool], low: int, high: int) -> int:
    """The first place in low..high where a falling condition fails; it is taken to hold before and fail at ``high``."""
    while low < high:
        middle = (low + high) // 2
        if true_at(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _read_text(cut: Cut, head: int, tail: int, length: int) -> str:
    text = _text(length, [], "")
    return " ".join(text[:head] + text[length - tail :] if tail else text[:head])


def _gives_way(asker: _Asker, query: str, window: int, longest: int) -> tuple[Gives, bool]:
    """Who gets shorter when the query grows to most of the window, and whether the query then loses its end.

    A query of most of the window leaves the document the rest (the document gives way), half of the window (the longer
    gives way), or all of it (query and document are cut apart).
    """
    asked = query.split()
    total = window + len(asked)
    size = max((4 * total) // 5, len(asked))
    padding = [_PADDING[at % len(_PADDING)] for at in range(size - len(asked))]
    try:
        cut, head, _ = _borders(asker, " ".join([*asked, *padding]), longest, marks=query)
        plain, marked = _text(longest, [], query), _text(longest, [(0, len(asked))], query)
        query_cut = not asker.differ(" ".join([*padding, *asked]), plain, marked)
    except BudgetSpent:
        raise
    except LongrankError:  # a ranker may refuse such a query: nothing is learnt then
        return "neither", False
    if cut != "end":
        head = 0 if cut == "unclear" else window
    if head >= window - 1:
        return "neither", query_cut
    near_half = abs(head - total / 2) < abs(head - (total - size))
    return ("longer of query and document" if near_half else "document"), query_cut


def _combines(asker: _Asker, query: str, length: int) -> Combines:
    """How two distant pieces of evidence make one score: the better counts, they add up, or they mix."""
    block = min(_BLOCK, length // 4)
    if block < 1:
        return "unclear"
    start, end = (0, block), (length - block, length)
    none, one, other, both = (asker.score(query, _text(length, m, query)) for m in ([], [start], [end], [start, end]))
    tolerance = asker.tolerance(none, one, other, both)
    signal = max(one, other) - none
    if signal <= 4 * tolerance:
        return "unclear"
    if abs(both - max(one, other)) <= tolerance + 1e-4 * signal:
        return "best chunk" if _chunks_are_apart(asker, query, length, block) else "whole text"
    near = asker.score(query, _text(length, [(0, 2 * block)], query))
    adds_up = abs((both - none) - (one - none) - (other - none)) <= tolerance + 0.02 * signal
    # evidence that counts the same near and far apart is a bag of words, however it is normalised
    if not adds_up or abs(near - both) <= tolerance + 1e-4 * signal:
        return "whole text"
    half = length // 2
    short = asker.score(query, _text(half, [(0, block)], query)) - asker.score(query, _text(half, [], query))
    left = (one - none) / short if short > 0 else 1.0
    if left < _DILUTED:
        return "mean of chunks"
    return "sum of chunks" if left > _KEPT else "whole text"


def _chunks_are_apart(asker: _Asker, query: str, length: int, block: int) -> bool:
    """Whether some of the query's words at the start and the others at the end score as the better of the two.

    A ranker that only asks which words occur, or stops counting them, also makes nothing of the same words twice.
    """
    first, *rest = query.split()
    start, end = ((0, block), first), ((length - block, length), " ".join(rest))
    one, other, both = (asker.score(query, _marked(length, marks)) for marks in ([start], [end], [start, end]))
    return abs(both - max(one, other)) <= asker.tolerance(one, other, both)
