"""Steps that tell of collections and rankers rather than score: positions, sizes, run-times and audits."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.disk import write_atomic
from longrank.core.errors import DataError
from longrank.core.settings import parse_settings, to_spec
from longrank.core.types import Collection, Document, Query, Spec
from longrank.experiments.job import CARD, COSTS, FACTS, GRADES, PROFILE, Job

if TYPE_CHECKING:
    from longrank.positions.profile import PositionProfile
    from longrank.rankers.neural import NeuralRanker


def make_positions(job: Job) -> None:
    """Where the evidence of a collection's relevant pairs stands."""
    from longrank.positions.gold import gold_estimator
    from longrank.positions.profiling import profile_positions, save_profile

    collection, tokenizer = job.collection().collection, _tokenizer(job.settings["tokenizer"])
    if "passages" in job.inputs:
        profile = _matched(job, collection, tokenizer)
    else:
        estimator = gold_estimator(collection.spans, tokenizer)
        profile = profile_positions(collection, estimator, tokenizer, sample=job.settings["sample"])
    save_profile(profile, job.folder / PROFILE)


def _matched(job: Job, collection: Collection, tokenizer: Tokenizer) -> "PositionProfile":
    """Where another collection's relevant passages of the same queries stand, by the papers' approximate match."""
    from longrank.positions.recovering import Passage, recover, recovered_profile

    passages = job.collection("passages").collection
    wanted = [
        Passage(passage_id, query_id, passages.documents[passage_id].text)
        for query_id in job.collection().queries("test")
        for passage_id in sorted(passages.qrels.relevant(query_id, at_least=job.settings.get("grade", 1)))
        if passage_id in passages.documents
    ]
    return recovered_profile(recover(wanted[: job.settings["sample"]], collection), collection, tokenizer)


def make_judged(job: Job) -> None:
    """Where the pieces stand that a chat model finds relevant, and every piece's grade."""
    from longrank.chat.registry import CHATS
    from longrank.positions.judgements import judge_pairs, write_grades
    from longrank.positions.judging import ChunkJudge
    from longrank.positions.profiling import relevant_pairs, save_profile

    collection, tokenizer = job.collection().collection, _tokenizer(job.settings["tokenizer"])
    pairs = relevant_pairs(collection, sample=job.settings["sample"])
    with job.keeping_replies(to_spec(job.step.hints["chat"])) as chat:
        judged = judge_pairs(collection, ChunkJudge(CHATS.build(chat), tokenizer), pairs)
    tally = judged.tally
    facts = {
        "judge": " ".join(str(part) for part in (chat.name, chat.params.get("model", "")) if part),
        "pieces": tally.chunks,
        "pieces_without_grade": tally.unreadable + tally.failed,
        "documents_not_read_to_the_end": sum(document.unseen_tokens > 0 for document in judged.documents),
    }
    write_atomic(job.folder / FACTS, json.dumps(facts, sort_keys=True))
    write_grades(judged, job.folder / GRADES)
    save_profile(judged.profile(at_least=job.settings["grade"]), job.folder / PROFILE)


def make_snippets(job: Job) -> None:
    """Which snippets of documents people found relevant, counted in snippets or, approximately, in tokens."""
    from longrank.positions.gold import read_fira, snippet_unit
    from longrank.positions.profile import PositionProfile
    from longrank.positions.profiling import save_profile

    path, grade, tokens = Path(job.step.hints["file"]), job.settings["grade"], job.settings.get("tokens")
    if not path.is_file():
        raise DataError(f"no file {path} of judged snippets; get it from its authors, or name another in the file")
    records = tuple(one.record(at_least=grade, snippet_tokens=tokens) for one in read_fira(path))
    save_profile(PositionProfile(path.stem, snippet_unit(tokens), records), job.folder / PROFILE)


def make_statistics(job: Job) -> None:
    """Counts and mean lengths of a collection."""
    from longrank.positions.statistics import collection_statistics

    found = collection_statistics(job.collection().collection, _tokenizer("bert"))
    write_atomic(job.folder / FACTS, json.dumps(asdict(found), sort_keys=True))


def _tokenizer(name: str) -> Tokenizer:
    return bert_tokenizer() if name == "bert" else WordTokenizer()


def make_costs(job: Job) -> None:
    """Run-times of rankers on the same documents, and the tokens that trained ones read."""
    from longrank.evaluation.efficiency import measure_costs
    from longrank.rankers.ready import build_ready

    opened, candidates = job.collection(), job.candidates()
    held_out = opened.queries(job.settings.get("split", "test"), job.settings.get("fold"))
    query_ids = [q for q in held_out if candidates.scores.get(q)][: job.settings["queries"]]
    work: list[tuple[Query, list[Document]]] = [
        (
            opened.collection.queries[q],
            [opened.collection.documents[d] for d in candidates.ranking(q)[: job.settings["depth"]]],
        )
        for q in query_ids
    ]
    rankers = {name: job.model(name) for name in job.settings["rankers"]}
    costs = measure_costs(rankers, work, rounds=job.settings["rounds"])
    ready = {name: build_ready(_asked_anew(to_spec(s))) for name, s in job.step.hints.get("untrained", {}).items()}
    if ready:
        costs |= measure_costs(ready, work, rounds=job.settings["rounds"], clock=time.perf_counter)
    tokens = {name: sum(_tokens(ranker, q, batch) for q, batch in work) for name, ranker in rankers.items()}
    documents = sum(len(batch) for _, batch in work)
    write_atomic(job.folder / FACTS, json.dumps({"tokens": tokens, "documents": documents}, sort_keys=True))
    write_atomic(job.folder / COSTS, json.dumps({name: cost.seconds for name, cost in costs.items()}))


def _asked_anew(ranker: Spec) -> Spec:
    """The ranker whose chat model looks up no earlier reply."""
    chat = ranker.params.get("chat")
    if not isinstance(chat, Spec):
        return ranker
    asked = {name: value for name, value in chat.params.items() if name != "cache"}
    return Spec(ranker.name, {**ranker.params, "chat": Spec(chat.name, asked)})


def _tokens(ranker: "NeuralRanker", query: Query, documents: list[Document]) -> int:
    asked = ranker.backbone.tokenizer.tokenize(query.text)
    return sum(len(row) for row in ranker.layout.rows(ranker.backbone, asked, ranker.split(documents)))


def make_audit(job: Job) -> None:
    """The card of a trained ranker's audit for position bias."""
    from longrank.audit.card import make_card, write_card
    from longrank.audit.design import make_design
    from longrank.audit.run import audit
    from longrank.audit.settings import AuditSettings
    from longrank.audit.sources import toy_source

    settings = parse_settings(AuditSettings, job.settings, source=job.step.label)
    design = make_design(toy_source(settings.queries, seed=settings.seed), settings, _tokenizer("words"))
    name = job.step.label.removeprefix("audit ")
    journal = job.folder / "responses.jsonl"
    done = audit(job.model(), design, name=name, identity=job.step.fingerprint, journal=journal)
    write_card(make_card(done), job.folder / CARD)
    journal.unlink()
