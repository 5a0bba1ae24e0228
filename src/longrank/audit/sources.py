"""What an audit is made of: queries with their evidence, passages that come close, and filler without an answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from longrank.audit.settings import LEAST_QUERIES, AuditSettings
from longrank.chunking.splitters import Sentences
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.contracts import Retriever, Tokenizer
from longrank.core.errors import DataError
from longrank.core.seeds import generator
from longrank.core.types import CharSpan, Collection, Document, Query, TokenSpan
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.evidence import plain_text, text_key
from longrank.synthetic.toy import ToySettings, make_toy

_MOST_EVIDENCE_TOKENS = 200
_LEAST_FILLER_TOKENS = 8
MOST_FILLERS = 20_000
HARD_PER_QUERY = 12
_TOY_FILLERS = 4_000
_BLOCK_PASSAGES = 384  # passages of one block of the encyclopedia; namesakes live in one block


@dataclass(frozen=True, slots=True)
class Filler:
    """A passage that answers no query of the audit, and the document it was taken from."""

    text: str
    origin: str = ""


@dataclass(frozen=True)
class Source:
    """Queries with one relevant passage each, hard passages, and filler.

    ``barred`` names for each query the origins whose filler it must not meet, its relevant documents above all.
    ``left_out`` says how many queries could not be used, by reason.
    """

    name: str
    queries: tuple[Query, ...]
    evidence: Mapping[str, str]
    hard: Mapping[str, tuple[str, ...]]
    filler: tuple[Filler, ...]
    barred: Mapping[str, frozenset[str]]
    left_out: Mapping[str, int]

    def __post_init__(self) -> None:
        without = next((query.id for query in self.queries if not self.hard.get(query.id)), None)
        if without is not None:
            raise DataError(f"query {without!r} has no hard passage: half of the distractors need one each")


def toy_source(queries: int, *, seed: int = 0, tokenizer: Tokenizer | None = None) -> Source:
    """The toy world's test queries and evidence, its close passages as hard ones, and filler about other entities.

    >>> source = toy_source(3)
    >>> len(source.queries), source.name
    (3, 'toy')
    """
    settings = ToySettings(seed=seed, train=0, dev=0, test=queries)
    world = make_toy(settings, tokenizer or WordTokenizer())
    ids = world.splits["test"]
    # filler starts a block later, so that no filler passage names an entity that is asked about
    start = settings.passage_count + _BLOCK_PASSAGES
    passages = Encyclopedia(seed).passages(start + _TOY_FILLERS, start=start)
    return Source(
        name="toy",
        queries=tuple(world.toy.queries[query_id] for query_id in ids),
        evidence={query_id: world.evidence[query_id] for query_id in ids},
        hard={query_id: world.negatives[query_id] for query_id in ids},
        filler=tuple(Filler(passage.text) for passage in passages),
        barred={},
        left_out={},
    )


def evidence_limit(length: int) -> int:
    """Tokens that the relevant passage may have in documents of a length: a third, and never more than 200."""
    return min(_MOST_EVIDENCE_TOKENS, length // 3)


def cut_passages(collection: Collection, *, tokens: int, tokenizer: Tokenizer) -> dict[str, Document]:
    """The collection's documents as passages of whole sentences, at most so many tokens, named ``document#number``."""
    splitter, passages = Sentences(tokens), {}
    for document in collection.documents.values():
        split = splitter.split(tokenizer.tokenize(document.text))
        for number, span in enumerate(split.spans):
            chars = split.source.chars(span)
            text = document.text[chars.start : chars.stop].strip()
            if text:
                passages[f"{document.id}#{number}"] = Document(f"{document.id}#{number}", text)
    return passages


def collection_source(
    collection: Collection,
    passages: Mapping[str, Document],
    retriever: Retriever,
    *,
    settings: AuditSettings,
    tokenizer: Tokenizer | None = None,
) -> Source:
    """A source from a user's own texts; ``passages`` come from ``cut_passages`` and are what the retriever searches.

    Evidence is the gold span of a relevant document, or the whole document where it is short. Hard passages are the
    best ones retrieved from documents that are neither judged relevant, nor a copy of one that is, nor hold the
    evidence; filler comes from such documents too. Queries without evidence or hard passages are left out and counted;
    fewer than eight that remain are refused. Filler is cut so short that every slot has a place of its own at the
    smallest length.
    """
    if not any(collection.qrels.grades.values()):
        raise DataError(
            f"collection {collection.name!r} has no judgements, and an audit needs documents judged relevant: is its "
            "qrels.txt (BEIR: qrels/test.tsv) missing?"
        )
    counted, seed, shortest = tokenizer or WordTokenizer(), settings.seed, settings.lengths[0]
    limit = evidence_limit(shortest)
    evidence, left_out = _evidence(collection, counted, limit)
    fillers = cut_passages(
        collection, tokens=max(_LEAST_FILLER_TOKENS, (shortest - limit) // settings.slots), tokenizer=counted
    )
    chosen = _sampled(sorted(evidence), settings.queries, seed)
    asked = [collection.queries[query_id] for query_id in chosen]
    found = retriever.retrieve(asked, depth=HARD_PER_QUERY * 4)
    filler = tuple(Filler(p.text, _origin(p.id)) for p in _limited(list(fillers.values()), seed))
    met = {one.origin for one in filler} | {_origin(p) for query in asked for p in found.ranking(query.id)}
    barred = _barred(collection, {query.id: evidence[query.id] for query in asked}, met)
    hard = {}
    for query in asked:
        close = (p for p in found.ranking(query.id) if _origin(p) not in barred[query.id])
        hard[query.id] = tuple(passages[p].text for p in islice(close, HARD_PER_QUERY))
    usable = tuple(query for query in asked if hard[query.id])
    left_out["nothing close was retrieved"] = len(asked) - len(usable)
    left_out = {why: count for why, count in left_out.items() if count}
    if len(usable) < LEAST_QUERIES:
        why = f" (left out: {counted_reasons(left_out)})" if left_out else ""
        needed = f"Needed are relevant documents of at most {limit} tokens, or longer ones with a spans.jsonl"
        advice = "Ask for more queries" if len(chosen) < len(evidence) else needed
        raise DataError(
            f"collection {collection.name!r} has {len(usable)} queries to audit with{why}, and a verdict takes at "
            f"least {LEAST_QUERIES}. {advice}."
        )
    return Source(
        name=collection.name,
        queries=usable,
        evidence={query.id: evidence[query.id] for query in usable},
        hard={query.id: hard[query.id] for query in usable},
        filler=filler,
        barred={query.id: barred[query.id] for query in usable},
        left_out=left_out,
    )


def counted_reasons(left_out: Mapping[str, int]) -> str:
    """Why queries were left out, each reason with its count.

    >>> counted_reasons({"no relevant document": 3, "nothing close was retrieved": 28})
    'no relevant document: 3, nothing close was retrieved: 28'
    """
    return ", ".join(f"{why}: {count}" for why, count in left_out.items())


def _evidence(collection: Collection, tokenizer: Tokenizer, limit: int) -> tuple[dict[str, str], dict[str, int]]:
    """A relevant passage for each query that has a short one, best grade first, and counts of those that have none."""
    spans = {(gold.query_id, gold.document_id): gold.span for gold in reversed(collection.spans)}
    found, left_out = {}, {"empty query": 0, "no relevant document": 0, "evidence too long or unknown": 0}
    for query_id, query in collection.queries.items():
        if not query.text.strip():
            left_out["empty query"] += 1
            continue
        grades = collection.qrels.grades.get(query_id, {})
        relevant = sorted(collection.qrels.relevant(query_id), key=lambda d: (-grades[d], d))
        known = [document_id for document_id in relevant if document_id in collection.documents]
        texts = (_passage(collection.documents[d], spans.get((query_id, d)), tokenizer) for d in known)
        short = next((t for t in texts if 0 < len(tokenizer.tokenize(t)) <= limit), None)
        if short is not None:
            found[query_id] = short
        else:
            left_out["evidence too long or unknown" if known else "no relevant document"] += 1
    return found, left_out


def _origin(passage_id: str) -> str:
    return passage_id.rpartition("#")[0]


def _barred(collection: Collection, evidence: Mapping[str, str], met: Iterable[str]) -> dict[str, frozenset[str]]:
    """For each query its relevant documents, and of those met the copies of these and all with its evidence."""
    barred = {query_id: set(collection.qrels.relevant(query_id)) for query_id in evidence}
    copied: dict[bytes, list[str]] = {}
    for query_id, relevant in barred.items():
        for document_id in relevant & collection.documents.keys():
            copied.setdefault(text_key(collection.documents[document_id].text), []).append(query_id)
    passages, asking = {query_id: plain_text(text) for query_id, text in evidence.items()}, dict[str, list[str]]()
    for query_id, passage in passages.items():
        # looked for only where its longest word stands; the first and last one may have been cut
        asking.setdefault(max(passage.split()[1:-1], key=len, default=""), []).append(query_id)
    for document_id in met:
        text = plain_text(collection.documents[document_id].text)
        hopeful = (query_id for word in asking.keys() & {"", *text.split()} for query_id in asking[word])
        holding = [query_id for query_id in hopeful if passages[query_id] in text]
        for query_id in (*holding, *copied.get(text_key(text), ())):
            barred[query_id].add(document_id)
    return {query_id: frozenset(ids) for query_id, ids in barred.items()}


def _passage(document: Document, span: CharSpan | TokenSpan | None, tokenizer: Tokenizer) -> str:
    if isinstance(span, TokenSpan):
        span = tokenizer.tokenize(document.text).chars(span) if span.tokenizer == tokenizer.name else None
    return document.text if span is None else document.text[span.start : span.stop]


def _sampled(ids: Sequence[str], count: int, seed: int) -> list[str]:
    if count >= len(ids):
        return list(ids)
    return [ids[at] for at in sorted(generator("audit/queries", seed).choice(len(ids), count, replace=False).tolist())]


def _limited(passages: list[Document], seed: int) -> list[Document]:
    if len(passages) <= MOST_FILLERS:
        return passages
    kept = np.sort(generator("audit/filler", seed).choice(len(passages), MOST_FILLERS, replace=False))
    return [passages[at] for at in kept.tolist()]
