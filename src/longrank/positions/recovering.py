"""The papers' recovery of passages: which document each comes from, and where in it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from longrank.core.contracts import Retriever, Tokenizer
from longrank.core.progress import track
from longrank.core.types import Collection, Query
from longrank.positions.estimators import Located, not_located
from longrank.positions.matching import FEWEST_WORDS, PassageMatcher, PreparedText, prepare
from longrank.positions.profile import PositionProfile
from longrank.positions.records import PairRecord, pair_record

_KEPT = 2_000  # prepared documents: the same few are candidates of many passages


@dataclass(frozen=True, slots=True)
class Passage:
    """A relevant passage whose place in a document is wanted."""

    id: str
    query_id: str
    text: str


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

    @lru_cache(maxsize=_KEPT)
    def prepared(document_id: str) -> PreparedText:
        return prepare(collection.documents[document_id].text)

    def best(passage: Passage, candidates: Sequence[str], stage: str) -> Recovered | None:
        target = prepare(passage.text)
        found: list[tuple[float, int, str, Located]] = []
        for document_id in candidates:
            if document_id not in collection.documents:
                continue
            located = matcher.match(target, prepared(document_id))
            if located:
                found.append((-located.ratio, located.spans[0].start, document_id, located))
        if not found:
            return None
        _, _, document_id, located = min(found, key=lambda entry: entry[:3])
        return Recovered(passage, document_id, located, stage)

    results: list[Recovered] = []
    for passage in track(passages, "recovering", total=len(passages)):
        judged = sorted(collection.qrels.relevant(passage.query_id))
        result = best(passage, judged, "relevant")
        if result is None and retriever is not None and passage.text.strip():
            run = retriever.retrieve([Query(passage.id, passage.text)], depth=depth)
            result = best(passage, run.ranking(passage.id), "retrieved")
        results.append(result or Recovered(passage, None, _why_not(passage, judged), "none"))
    return results


def recovered_profile(results: Sequence[Recovered], collection: Collection, tokenizer: Tokenizer) -> PositionProfile:
    """Where recovered passages sit, a record for each query and document; a passage that was not found is one too.

    The record of a passage that was not found has no document.
    """
    places: defaultdict[tuple[str, str], list[Located]] = defaultdict(list)
    lost: list[PairRecord] = []
    for result in results:
        if result.document_id is None:
            lost.append(PairRecord(result.passage.query_id, "", 0, (), "none", 0.0, reason=result.located.reason))
        else:
            places[result.passage.query_id, result.document_id].append(result.located)
    records: list[PairRecord] = []
    for (query_id, document_id), found in sorted(places.items()):
        weakest = min(found, key=lambda located: located.ratio)
        spans = tuple(sorted({span for located in found for span in located.spans}))
        text = tokenizer.tokenize(collection.documents[document_id].text)
        records.append(pair_record(query_id, document_id, text, Located(spans, weakest.method, weakest.ratio)))
    return PositionProfile(collection.name, tokenizer.name, (*records, *lost))


def _why_not(passage: Passage, judged: Sequence[str]) -> Located:
    words = len(passage.text.split())
    if words < FEWEST_WORDS:
        return not_located("none", f"the passage has {words} words, at least {FEWEST_WORDS} are needed")
    return not_located("none", f"no candidate holds the passage ({len(judged)} relevant documents tried)")
