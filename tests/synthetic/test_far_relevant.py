"""FarRelevant and its counterbalanced forms: planted once, where the policy says, and nowhere else."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import DataError, SettingsError
from longrank.core.fingerprint import fingerprint
from longrank.core.types import Collection, Document, Qrels, Query, Run
from longrank.corpora.catalog.folder import load_folder
from longrank.corpora.formats.jsonl import read_documents, read_queries
from longrank.corpora.formats.trec import read_qrels
from longrank.corpora.splits import read_split
from longrank.synthetic.assembling import Placing, Policy
from longrank.synthetic.evidence import Division
from longrank.synthetic.far_relevant import (
    FarRelevant,
    FarRelevantSettings,
    Made,
    far_relevant,
    hard_passages,
    same_topic,
)
from longrank.synthetic.passages import store_passages
from longrank.synthetic.writing import write_far_relevant

WORDS = WordTokenizer()
NQ = Path(__file__).parents[3] / "shared" / "data" / "nq-open"


def passages(count: int, *, seed: int = 0, shortest: int = 4, longest: int = 12) -> list[Document]:
    """Passages of different lengths; 'w<i>' stands in passage i alone."""
    lengths = np.random.default_rng(seed).integers(shortest, longest + 1, size=count).tolist()
    return [Document(f"p{i}", " ".join([f"w{i}"] * n), f"topic{i % 10}") for i, n in enumerate(lengths)]


def collection(count: int, relevant: dict[str, list[int]], *, extra: tuple[Document, ...] = ()) -> Collection:
    documents = {one.id: one for one in (*passages(count), *extra)}
    queries = {name: Query(name, " ".join(f"w{i}" for i in row)) for name, row in relevant.items()}
    return Collection("small", documents, queries, Qrels({q: {f"p{i}": 1 for i in r} for q, r in relevant.items()}))


def single(queries: int, count: int = 400) -> Collection:
    return collection(count, {f"q{i}": [i] for i in range(queries)})


def make(source: Collection, **fields: Any) -> FarRelevant:
    placing = fields.pop("placing", Placing(boundary=60, max_tokens=160))
    return far_relevant(source, WORDS, FarRelevantSettings(placing=placing, **fields))


def start(made: Made) -> int:
    return made.spans[0].start


judged = st.dictionaries(
    st.integers(0, 30).map(lambda i: f"q{i}"),
    st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True),
    min_size=1,
    max_size=12,
)
policies = st.sampled_from(["beyond", "msmarco", "uniform", "early", "middle", "late"])


@settings(max_examples=30, deadline=None)
@given(relevant=judged, policy=policies, seed=st.integers(0, 99), together=st.integers(1, 2), literal=st.booleans())
def test_planted_passages_stand_once_where_the_spans_say_and_within_the_limits(
    relevant: dict[str, list[int]], policy: Policy, seed: int, together: int, literal: bool
) -> None:
    together = min(together, max(map(len, relevant.values())))
    placing = Placing(
        policy=policy, boundary=60, max_tokens=160, min_tokens=80, reading="literal" if literal else "consistent"
    )
    source = collection(200, relevant)
    maker = make(source, placing=placing, seed=seed, division=Division(relevant=together))
    evidence = {i for row in relevant.values() for i in row}
    made = list(maker.documents())
    assert Counter(one.query_id for one in made) == {
        q: len(row) // together for q, row in relevant.items() if len(row) >= together
    }
    for one in made:
        counted = WORDS.tokenize(one.document.text)
        assert len(counted) == one.tokens <= 160
        assert len(one.chars) == len(one.spans) == together
        for chars, tokens in zip(one.chars, one.spans, strict=True):
            text = one.document.text[chars.start : chars.stop]
            assert counted.tokens(chars) == tokens
            assert source.documents[f"p{text.split()[0][1:]}"].text == text
            assert policy != "beyond" or tokens.start >= 60
        held = {int(word[1:]) for word in one.document.text.split()}
        own = {int(name.removeprefix("p")) for name in one.document.id.split("_")[1:]}
        assert held & evidence == own  # no relevant passage, of any query, is filler
        assert len(own) == together


@settings(max_examples=25, deadline=None)
@given(relevant=judged, seed=st.integers(0, 99))
def test_every_document_that_holds_a_querys_evidence_is_judged_relevant_to_it_and_no_other(
    relevant: dict[str, list[int]], seed: int
) -> None:
    double = Document("p900", passages(41)[40].text.upper())  # passage 40 again, in capitals
    made = make(collection(200, relevant, extra=(double,)), seed=seed).collection()
    for query_id, row in relevant.items():
        words = {f"w{i}" for i in row}
        holders = {name for name, one in made.documents.items() if words & set(one.text.lower().split())}
        assert holders == made.qrels.relevant(query_id)
    for gold in made.spans:
        text = made.documents[gold.document_id].text[gold.span.start : gold.span.stop]
        assert text.split()[0] in {f"w{i}" for i in relevant[gold.query_id]}


def test_documents_are_named_after_query_and_passage_one_for_each_pair() -> None:
    made = make(collection(200, {"q1": [3, 5], "q2": [8]})).collection()
    assert list(made.documents) == ["q1_p3", "q1_p5", "q2_p8"]
    assert made.qrels.grades == {"q1": {"q1_p3": 1, "q1_p5": 1}, "q2": {"q2_p8": 1}}


def test_the_consistent_reading_has_lengths_of_all_sizes_and_the_literal_one_full_documents() -> None:
    source = single(300)
    placing = Placing(boundary=60, max_tokens=160)
    consistent = [one.tokens for one in make(source, placing=placing).documents()]
    literal = [
        one.tokens for one in make(source, placing=Placing(**{**dict(placing), "reading": "literal"})).documents()
    ]
    # a document is full when no further passage of at most 12 tokens fits
    assert min(literal) > 160 - 12
    # drawn from 60 + 8 on average to 160, and up to 12 tokens are left free: about 110
    assert np.mean(consistent) == pytest.approx(110, abs=6)
    assert min(consistent) < 85


def test_uniform_places_are_equally_likely_and_thirds_stay_in_their_third() -> None:
    source = single(1500, 2000)
    depths: dict[str, list[float]] = {}
    for policy in ("uniform", "early", "middle", "late"):
        placing = Placing(policy=policy, max_tokens=160, lengths=(160,))
        made = list(make(source, placing=placing).documents())
        depths[policy] = [start(one) / (one.tokens - len(one.spans[0])) for one in made]
    # Kolmogorov-Smirnov against the uniform law; places are about 1/19 apart, which adds half of that
    ordered = np.sort(depths["uniform"])
    distance = np.abs(ordered - (np.arange(1500) + 0.5) / 1500).max()
    assert distance < 1.63 / 1500**0.5 + 0.5 / 19
    assert max(depths["early"]) < 0.45
    assert min(depths["late"]) > 0.55
    assert 0.22 < min(depths["middle"]) < max(depths["middle"]) < 0.78


def test_msmarcos_shares_say_in_which_chunk_the_evidence_starts() -> None:
    made = list(make(single(3000, 3600), placing=Placing(policy="msmarco", boundary=60, max_tokens=240)).documents())
    chunks = Counter(start(one) // 60 for one in made)
    # 85.9, 9.1 and 2.6%; the fourth chunk has 1.2% and what would start in the fifth and sixth, unless it has no room
    for chunk, share in enumerate((0.859, 0.091)):
        assert chunks[chunk] / 3000 == pytest.approx(share, abs=3 * (share * (1 - share) / 3000) ** 0.5)
    assert (chunks[2] + chunks[3]) / 3000 == pytest.approx(0.05, abs=0.012)
    assert chunks[3] > 0
    # within the first chunk starts are spread: half of it is passed as often as not, up to a passage of 4 to 12 tokens
    within = [start(one) for one in made if start(one) < 60]
    assert 18 < np.median(within) < 31


def test_length_cells_are_taken_in_turn_and_filled() -> None:
    made = list(make(single(90), placing=Placing(policy="uniform", lengths=(40, 80, 160))).documents())
    for i, one in enumerate(made):
        cell = (40, 80, 160)[i % 3]
        assert cell - 12 < one.tokens <= cell


def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    source = single(1100, 1500)
    maker = make(source, distractors=1)
    write_far_relevant(maker, tmp_path / "one", origin={})
    write_far_relevant(maker, tmp_path / "two", origin={}, workers=2)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_another_seed_gives_other_documents_of_the_same_needs() -> None:
    one, same, other = (make(single(20), seed=seed).collection() for seed in (1, 1, 2))
    assert one == same
    assert one.documents.keys() == other.documents.keys()
    assert all(one.documents[name] != other.documents[name] for name in one.documents)


@pytest.mark.parametrize("form", ["jsonl", "beir", "flexneuart"])
def test_written_folders_load_as_what_was_made(tmp_path: Path, form: Any) -> None:
    maker = make(single(30), distractors=2, division=Division(test=10, dev=5))
    written = write_far_relevant(maker, tmp_path / "out", format=form, origin={"licence": "as the source"})
    made = maker.collection()
    loaded = load_folder(tmp_path / "out")
    assert dict(loaded.documents) == dict(made.documents)
    assert set(loaded.spans) == set(made.spans)
    if form == "beir":
        assert set(loaded.queries) == set(read_split(tmp_path / "out", "test"))
        parts = [load_folder(tmp_path / "out", split=name).qrels.grades for name in ("train", "dev", "test")]
        assert {q: dict(row) for part in parts for q, row in part.items()} == made.qrels.grades
    else:
        assert loaded.queries == made.queries
        assert loaded.qrels.grades == made.qrels.grades
    assert (written.documents, written.queries) == (90, 30)
    origin = json.loads((tmp_path / "out" / "origin.json").read_text())
    assert origin["licence"] == "as the source"
    assert origin["settings"]["placing"]["boundary"] == 60
    gold = [line.split("\t") for line in (tmp_path / "out" / "gold.tsv").read_text().splitlines()[1:]]
    assert Counter(row[2] for row in gold) == {"evidence": 30, "distractor": 60}


def test_splits_share_no_passage_and_have_the_sizes_asked_for() -> None:
    # q0-q1 share a passage, q2-q3 another
    relevant = {"q0": [0, 1], "q1": [1], "q2": [2], "q3": [2, 3], **{f"q{i}": [i] for i in range(4, 40)}}
    for seed in range(8):
        maker = make(collection(200, relevant), division=Division(seed=seed, dev=6, test=7))
        assert {name: len(ids) for name, ids in maker.splits.items()} == {"train": 27, "dev": 6, "test": 7}
        where = {query_id: name for name, ids in maker.splits.items() for query_id in ids}
        assert where["q0"] == where["q1"] and where["q2"] == where["q3"]


def test_distractors_hold_a_hard_passage_of_the_filler_and_are_as_long_as_the_document_of_their_query() -> None:
    source = single(40)
    run = Run(
        "bm25", {f"q{i}": {f"p{j}": 1 / (j + 1) for j in (i, 39 - i, 100 + i, 200 + i, 300 + i)} for i in range(40)}
    )
    wanted = FarRelevantSettings(placing=Placing(policy="uniform", lengths=(60, 120), max_tokens=120), distractors=3)
    made = list(far_relevant(source, WORDS, wanted, hard=hard_passages(run)).documents())
    assert len(made) == 40 * 4
    for i in range(40):
        positive, *others = made[4 * i : 4 * i + 4]
        planted = {one.document.text[one.chars[0].start : one.chars[0].stop].split()[0] for one in others}
        assert planted == {f"w{100 + i}", f"w{200 + i}", f"w{300 + i}"}  # the others of the run are evidence
        cell = (60, 120)[i % 2]
        assert all(cell - 12 < one.tokens <= cell for one in (positive, *others))
        assert all(one.grades == {f"q{i}": 0} for one in others)


def test_passages_of_the_same_title_are_on_the_same_topic() -> None:
    found = same_topic(collection(40, {"q": [3]}))
    assert found == {"q": ("p3", "p13", "p23", "p33")}


def test_a_judged_passage_that_is_not_there_has_no_topic() -> None:
    source = collection(40, {"q": [3], "r": [400]})
    assert same_topic(source) == {"q": ("p3", "p13", "p23", "p33"), "r": ()}


def test_reserved_passages_are_never_filler() -> None:
    reserved = [f"p{i}" for i in range(20, 380)]
    maker = far_relevant(
        single(10), WORDS, FarRelevantSettings(placing=Placing(boundary=20, max_tokens=80)), reserved=reserved
    )
    held = {word for one in maker.documents() for word in one.document.text.split()}
    assert not held & {f"w{i}" for i in range(20, 380)}


def test_a_collection_of_evidence_only_must_be_divided_first() -> None:
    source = single(200, 200)
    with pytest.raises(DataError, match="evidence=800"):
        make(source)
    maker = make(source, division=Division(evidence=60))
    assert len(maker.queries) == 60
    assert len(maker.pool.rows) == 140
    assert maker.divided.dropped["queries given to the filler"] == 140


def test_passages_too_long_for_a_document_are_left_out_and_counted(tmp_path: Path) -> None:
    long = Document("long", "endless " * 150)
    source = collection(100, {"q0": [0]}, extra=(long,))
    grades = {**source.qrels.grades, "q1": {"long": 1}}
    queries = {**source.queries, "q1": Query("q1", "endless")}
    maker = make(Collection("small", source.documents, queries, Qrels(grades)))
    write_far_relevant(maker, tmp_path / "out", origin={})
    assert list(load_folder(tmp_path / "out").queries) == ["q0"]
    dropped = json.loads((tmp_path / "out" / "origin.json").read_text())["dropped"]
    assert dropped["queries whose passages fit no document"] == 1


@pytest.mark.parametrize("slots", [0, 3])
def test_documents_that_do_not_fit_are_counted_where_their_query_stays(tmp_path: Path, slots: int) -> None:
    long = Document("long", "endless " * 150)
    source = collection(100, {"q0": [0, 1]}, extra=(long,))
    judged = Collection("small", source.documents, source.queries, Qrels({"q0": {"p0": 1, "p1": 1, "long": 1}}))
    written = write_far_relevant(make(judged, slots=slots), tmp_path / "out", origin={})
    origin = json.loads((tmp_path / "out" / "origin.json").read_text())
    assert origin["dropped"]["relevant documents whose passages do not fit"] == 1
    assert origin["dropped"] == written.dropped
    assert written.documents == 2 * max(1, slots)


def test_distractors_that_do_not_fit_are_counted_and_nothing_else_is(tmp_path: Path) -> None:
    long = Document("long", "endless " * 150)
    source = collection(100, {"q0": [0], "q1": [1]}, extra=(long,))
    wanted = FarRelevantSettings(placing=Placing(boundary=60, max_tokens=160), distractors=1)
    hard = {"q0": ["long"], "q1": ["p50"]}
    written = write_far_relevant(far_relevant(source, WORDS, wanted, hard=hard), tmp_path / "out", origin={})
    assert written.dropped["distractor documents whose passage does not fit"] == 1
    assert written.documents == 3
    hard["q0"] = ["p51"]
    whole = write_far_relevant(far_relevant(source, WORDS, wanted, hard=hard), tmp_path / "two", origin={})
    assert not any("documents" in reason for reason in whole.dropped)


def test_passages_on_disk_give_the_same_documents_as_passages_in_memory(tmp_path: Path) -> None:
    source = single(30)
    wanted = FarRelevantSettings(placing=Placing(boundary=60, max_tokens=160))
    stored = store_passages(tmp_path / "passages", source.documents.values(), WORDS, ids={f"p{i}" for i in range(30)})
    on_disk = far_relevant(source, WORDS, wanted, passages=stored).collection()
    assert on_disk == far_relevant(source, WORDS, wanted).collection()


@pytest.mark.parametrize(
    "wrong",
    [
        {"boundary": 160, "max_tokens": 160},
        {"lengths": (2000,)},
        {"min_tokens": 2000},
        {"policy": "first"},
        {"policy": "msmarco", "boundary": 0},
    ],
)
def test_placings_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Placing.model_validate(wrong)


def test_more_queries_than_can_be_split_apart_are_refused() -> None:
    with pytest.raises(SettingsError, match="ask for fewer"):
        make(single(5), division=Division(test=9))


def test_natural_questions_make_a_far_relevant_collection() -> None:
    if not NQ.is_dir():
        pytest.skip("needs shared/data/nq-open beside the repository")
    documents = {one.id: one for one in read_documents(NQ / "docs.jsonl.gz")}
    queries = {one.id: one for one in read_queries(NQ / "queries.jsonl.gz")}
    source = Collection("nq-open", documents, queries, read_qrels(NQ / "qrels.txt.gz"))
    division = Division(evidence=800, dev=50, test=100)
    maker = far_relevant(source, WORDS, FarRelevantSettings(division=division))
    assert len(maker.pool.rows) == 1800
    made = maker.collection()
    lengths = [len(WORDS.tokenize(one.text)) for one in made.documents.values()]
    assert len(made.documents) >= 800
    assert max(lengths) <= 1431
    for query_id in list(made.queries)[::80]:
        evidence = [documents[name].text for name in source.qrels.relevant(query_id)]
        holders = {name for name, one in made.documents.items() if any(text in one.text for text in evidence)}
        assert holders == made.qrels.relevant(query_id)


def test_the_recipe_is_pinned() -> None:
    texts = [[one.id, one.text] for one in make(single(40), distractors=1).collection().documents.values()]
    assert fingerprint(texts) == "52ca65540cc02506"


@settings(max_examples=15, deadline=None)
@given(slots=st.integers(2, 9), seed=st.integers(0, 99))
def test_counterfactuals_differ_in_nothing_but_the_place_of_the_evidence(slots: int, seed: int) -> None:
    source = single(6)
    made = list(make(source, placing=Placing(policy="uniform", lengths=(160,)), slots=slots, seed=seed).documents())
    assert [one.document.id for one in made] == [f"q{i}_p{i}_s{k}" for i in range(6) for k in range(slots)]
    for i in range(6):
        versions = made[slots * i : slots * (i + 1)]
        evidence = source.documents[f"p{i}"].text
        fillers = set()
        for one in versions:
            text = one.document.text
            before, after = text[: one.chars[0].start], text[one.chars[0].stop :]
            assert text[one.chars[0].start : one.chars[0].stop] == evidence
            fillers.add(" ".join(f"{before} {after}".split()))
        assert len(fillers) == 1
        starts = [start(one) for one in versions]
        assert starts == sorted(set(starts))
        assert starts[0] == 0 and versions[-1].spans[0].stop == versions[-1].tokens
