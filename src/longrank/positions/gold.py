"""Evidence that people marked: span files, FiRA's snippets, and the passages of MS MARCO v2."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from longrank.core.contracts import Tokenizer
from longrank.core.errors import BadLine, BadSpan, DataError, SpanOutsideDocument, UnknownDocument
from longrank.core.fingerprint import fingerprint
from longrank.core.types import CharSpan, Document, GoldSpan, Qrels, Query, TokenSpan
from longrank.corpora.formats.files import numbered_lines
from longrank.positions.estimators import Located, not_located
from longrank.positions.records import PairRecord

SNIPPETS = "fira-snippets"
_RAW_LABEL, _RAW_SNIPPET, _RAW_QUERY = 1, 5, 6
_BYTE_SPANS = re.compile(r"\((\d+),\s*(\d+)\)")


@dataclass(frozen=True)
class GoldEstimator:
    """Gives back the marked spans of a query and document; spans in tokens need the tokenizer that counted them."""

    spans: Mapping[tuple[str, str], Sequence[CharSpan | TokenSpan]]
    tokenizer: Tokenizer | None = None

    @property
    def identity(self) -> str:
        """Changes with the spans."""
        return fingerprint([(*pair, *marked) for pair, marked in sorted(self.spans.items())])

    def locate(self, query: Query, document: Document) -> Located:
        """The marked spans in characters, sorted."""
        marked = self.spans.get((query.id, document.id), ())
        if not marked:
            return not_located("gold", "no span is marked for this query and document")
        spans = sorted({self._chars(span, document) for span in marked})
        return Located(tuple(spans), "gold")

    def _chars(self, span: CharSpan | TokenSpan, document: Document) -> CharSpan:
        if isinstance(span, CharSpan):
            if span.stop > len(document.text):
                raise SpanOutsideDocument(
                    f"span {span.start}-{span.stop} lies outside {document.id!r} ({len(document.text)} characters). "
                    "Was it counted in bytes or in another text?"
                )
            return span
        if self.tokenizer is None or self.tokenizer.name != span.tokenizer:
            given = "no tokenizer was given" if self.tokenizer is None else f"{self.tokenizer.name!r} was given"
            raise SpanOutsideDocument(
                f"span {span.start}-{span.stop} in {document.id!r} counts tokens of {span.tokenizer!r}, but {given}"
            )
        return self.tokenizer.tokenize(document.text).chars(span)


def gold_estimator(spans: Iterable[GoldSpan], tokenizer: Tokenizer | None = None) -> GoldEstimator:
    """An estimator over the spans of a span file or collection.

    >>> estimator = gold_estimator([GoldSpan("q", "d", CharSpan(4, 9), "hand")])
    >>> estimator.locate(Query("q", "?"), Document("d", "the quick fox")).spans
    (CharSpan(start=4, stop=9),)
    """
    grouped: defaultdict[tuple[str, str], list[CharSpan | TokenSpan]] = defaultdict(list)
    for gold in spans:
        grouped[gold.query_id, gold.document_id].append(gold.span)
    return GoldEstimator(dict(grouped), tokenizer)


@dataclass(frozen=True, slots=True)
class SnippetGrades:
    """Grades of all snippets of one document for one query, in document order."""

    query_id: str
    document_id: str
    grades: tuple[int, ...]

    def record(self, *, at_least: int, snippet_tokens: int | None = None) -> PairRecord:
        """The pair with every snippet of at least this grade as relevant; lengths and positions count snippets.

        With ``snippet_tokens`` they count tokens as if every snippet had so many: an approximation.
        """
        each, unit = snippet_tokens or 1, snippet_unit(snippet_tokens)
        relevant = tuple(place for place, grade in enumerate(self.grades) if grade >= at_least)
        return PairRecord(
            self.query_id,
            self.document_id,
            len(self.grades) * each,
            tuple(TokenSpan(place * each, (place + 1) * each, unit) for place in relevant),
            "gold",
            slots=len(self.grades),
            relevant_slots=relevant,
            reason="" if relevant else f"no snippet has grade {at_least} or more",
        )


def snippet_unit(snippet_tokens: int | None) -> str:
    """What positions of snippets count: the snippets, or tokens of snippets that are all taken for equally long."""
    return SNIPPETS if snippet_tokens is None else f"{SNIPPETS} taken for {snippet_tokens} tokens"


def read_fira(path: Path | str) -> list[SnippetGrades]:
    """Snippet judgements of FiRA: lines ``qid Q0 docid_snippet grade``, snippets numbered in document order."""
    path = Path(path)
    grades: dict[tuple[str, str], int] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        columns = line.split()
        if len(columns) != 4 or not columns[3].lstrip("-").isdigit():
            raise BadLine(path, number, "expected 'qid Q0 docid_snippet grade'")
        key = (columns[0], _checked_snippet(columns[2], path, number))
        if key in grades:
            raise BadLine(path, number, f"snippet {columns[2]!r} is judged twice for query {columns[0]!r}")
        grades[key] = int(columns[3])
    return _by_document(grades)


def read_fira_raw(path: Path | str) -> list[SnippetGrades]:
    """FiRA's raw release, one annotator's label a row, by majority; of equally frequent labels the highest wins.

    Tab-separated with a header; the label (such as ``2_GOOD_ANSWER``) is the second column, the snippet the sixth,
    the query the seventh.
    """
    path = Path(path)
    votes: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    text = "\n".join(line for _, line in numbered_lines(path))
    for number, row in enumerate(csv.reader(io.StringIO(text), delimiter="\t"), start=1):
        if number == 1 or not row:
            continue
        label = row[_RAW_LABEL].partition("_")[0] if len(row) > _RAW_QUERY else ""
        if not label.isdigit():
            raise BadLine(path, number, "expected a label such as '2_GOOD_ANSWER' in column 2 of at least 7")
        votes[row[_RAW_QUERY], _checked_snippet(row[_RAW_SNIPPET], path, number)][int(label)] += 1
    majority = {key: max(counts, key=lambda grade: (counts[grade], grade)) for key, counts in votes.items()}
    return _by_document(majority)


def _checked_snippet(name: str, path: Path, line: int) -> str:
    document, _, number = name.rpartition("_")
    if not document or not number.isdigit():
        raise BadLine(path, line, f"{name!r} is not a document id, an underscore and a snippet number")
    return name


def _by_document(grades: Mapping[tuple[str, str], int]) -> list[SnippetGrades]:
    documents: defaultdict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for (query_id, snippet), grade in grades.items():
        document_id, _, number = snippet.rpartition("_")
        documents[query_id, document_id][int(number)] = grade
    return [
        SnippetGrades(query_id, document_id, tuple(by_number[number] for number in sorted(by_number)))
        for (query_id, document_id), by_number in documents.items()
    ]


@dataclass(frozen=True, slots=True)
class MarcoPassage:
    """A passage of MS MARCO v2 and the bytes of its document's body that it was taken from."""

    id: str
    document_id: str
    text: str
    byte_spans: tuple[tuple[int, int], ...]


def read_marco_passages(path: Path | str) -> Iterator[MarcoPassage]:
    """Passages of an MS MARCO v2 file: JSON lines with pid, passage, spans such as '(0,10),(11,30)', and docid."""
    path = Path(path)
    for number, line in numbered_lines(path):
        try:
            record = json.loads(line)
            spans = tuple((int(a), int(b)) for a, b in _BYTE_SPANS.findall(record["spans"]))
            passage = MarcoPassage(record["pid"], record["docid"], record["passage"], spans)
        except (ValueError, KeyError, TypeError) as error:
            raise BadLine(path, number, f"not a passage of MS MARCO v2 ({error!r})") from None
        if not spans:
            raise BadLine(path, number, f"passage {passage.id!r} has no byte spans")
        yield passage


def marco_span(passage: MarcoPassage, document: Document, *, body_start: int = 0) -> CharSpan:
    """Characters of ``document.text`` from the passage's first to its last byte.

    Byte spans count in the body alone, which begins at character ``body_start`` of the text.
    """
    body = document.text[body_start:].encode()
    first, last = passage.byte_spans[0][0], passage.byte_spans[-1][1]
    if first > last or last > len(body):
        raise SpanOutsideDocument(
            f"bytes {first}-{last} of {passage.id!r} lie outside {document.id!r} ({len(body)} bytes)"
        )
    try:
        start = body_start + len(body[:first].decode())
        stop = start + len(body[first:last].decode())
    except UnicodeDecodeError:
        raise BadSpan(f"bytes {first}-{last} of {passage.id!r} cut a character of {document.id!r} in two") from None
    if document.text[start:stop].split()[:3] != passage.text.split()[:3]:
        raise DataError(
            f"bytes {first}-{last} of {document.id!r} do not hold passage {passage.id!r}. Do they count in the body, "
            f"and does the body begin at character {body_start} of the text?"
        )
    return CharSpan(start, stop)


def marco_gold(
    passages: Iterable[MarcoPassage],
    judgements: Qrels,
    documents: Mapping[str, Document],
    *,
    at_least: int = 1,
    body_start: Callable[[Document], int] = lambda document: 0,
) -> Iterator[GoldSpan]:
    """The spans of relevant passages; ``judgements`` are on passages, ``body_start`` says where a body begins."""
    queries: defaultdict[str, list[str]] = defaultdict(list)
    for query_id in judgements:
        for passage_id in judgements.relevant(query_id, at_least=at_least):
            queries[passage_id].append(query_id)
    for passage in passages:
        if passage.id not in queries:
            continue
        document = documents.get(passage.document_id)
        if document is None:
            raise UnknownDocument(f"passage {passage.id!r} belongs to {passage.document_id!r}, which is not there")
        span = marco_span(passage, document, body_start=body_start(document))
        for query_id in sorted(queries[passage.id]):
            yield GoldSpan(query_id, document.id, span, "msmarco-v2")
