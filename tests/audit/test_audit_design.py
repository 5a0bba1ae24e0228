"""Only position changes: what the documents of a probe share and what they do not."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError

from longrank.audit.design import AuditDesign, make_design, slot_boundaries
from longrank.audit.planted import words
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Source, collection_source, cut_passages, toy_source
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import DataError
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run


def test_planted_documents_hold_the_same_words_and_the_evidence_ever_later(small: AuditDesign) -> None:
    probe = small.probe(small.queries[0])
    evidence = probe.isolated.text
    for at in probe.by_length:
        bags = [Counter(words(document.text)) for document in at.planted]
        starts = [document.text.index(evidence) for document in at.planted]
        assert all(bag == bags[0] for bag in bags)
        assert starts[0] == 0
        assert starts == sorted(set(starts))
        assert at.planted[-1].text.endswith(evidence)


def test_distractors_never_hold_the_evidence_and_half_hold_a_hard_passage(small: AuditDesign) -> None:
    query = small.queries[0]
    probe, hard = small.probe(query), small.source.hard[query.id]
    for at in probe.by_length:
        others = [*at.distractors, at.absent]
        assert not any(probe.isolated.text in document.text for document in others)
        assert sum(any(passage in document.text for passage in hard) for document in others) == 10  # of 21


def test_fillers_of_a_shorter_length_begin_those_of_a_longer(small: AuditDesign) -> None:
    short, long = small.probe(small.queries[1]).by_length
    filler = short.planted[-1].text.removesuffix(small.source.evidence[small.queries[1].id])
    assert long.planted[-1].text.startswith(filler)


def test_no_document_is_longer_than_asked_and_none_much_shorter(small: AuditDesign) -> None:
    for at in small.probe(small.queries[2]).by_length:
        sizes = [len(words(document.text)) for document in [*at.planted, *at.distractors, at.absent]]
        assert max(sizes) <= at.length
        assert min(sizes) > at.length - 66  # the longest passage of the encyclopedia


def test_reversed_documents_have_the_evidence_at_the_other_end(small: AuditDesign) -> None:
    probe = small.probe(small.queries[3])
    first, last = probe.by_length[0].reversed_ends
    assert first.text.startswith(probe.isolated.text)
    assert last.text.endswith(probe.isolated.text)
    assert Counter(words(first.text)) == Counter(words(probe.by_length[0].planted[0].text))


def test_a_probe_depends_on_its_query_and_the_seed_alone(source: Source, small: AuditDesign) -> None:
    query = small.queries[4]
    assert make_design(source, small.settings).probe(query) == small.probe(query)
    other = make_design(source, small.settings.model_copy(update={"seed": 1}))
    assert other.probe(query) != small.probe(query)
    assert other.fingerprint != small.fingerprint


def test_the_number_of_documents_is_what_the_settings_say(small: AuditDesign) -> None:
    texts = {document.text for document in small.probe(small.queries[0]).documents}
    # 2 lengths x (3 slots + 2 reversed + 20 distractors + 1 absent) + 1 = 53; reversed ends of few fillers may coincide
    assert small.settings.documents_per_query == 53
    assert 49 <= len(texts) <= 53


def test_hard_passages_of_distractors_stand_at_every_slot_alike(source: Source) -> None:
    design = make_design(source, AuditSettings(queries=40, slots=3, lengths=(192,)))
    depths = []
    for probe in design.probes():
        hard = source.hard[probe.query.id]
        for document in probe.by_length[0].distractors:
            found = next((document.text.index(passage) for passage in hard if passage in document.text), None)
            if found is not None:
                depths.append(found / len(document.text))
    counts = np.histogram(depths, bins=[0, 0.01, 0.6, 1])[0]  # first, middle and last slot
    assert counts.sum() > 350
    assert (np.abs(counts / counts.sum() - 1 / 3) < 0.09).all()  # four standard errors of a share among 370


def test_boundaries_run_from_no_filler_to_all() -> None:
    for fillers in range(7, 30):
        found = slot_boundaries(fillers, 8)
        assert found[0] == 0
        assert found[-1] == fillers
        assert len(set(found)) == 8


def test_too_many_slots_for_the_length_are_refused_with_advice(source: Source) -> None:
    with pytest.raises(DataError, match="too few for 12 slots"):
        make_design(source, AuditSettings(queries=8, slots=12, lengths=(128,))).probe(source.queries[0])


def test_more_tokens_than_the_filler_has_are_refused(source: Source) -> None:
    with pytest.raises(DataError, match="tokens of filler"):
        make_design(source, AuditSettings(queries=8, slots=3, lengths=(1_000_000,))).probe(source.queries[0])


@pytest.mark.parametrize("wrong", [{"lengths": (512, 256)}, {"distractors": 3}, {"slots": 2}, {"queries": 3}])
def test_settings_that_cannot_be_audited_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AuditSettings.model_validate(wrong)


def test_the_tolerance_is_stricter_with_a_thousand_answers() -> None:
    assert AuditSettings(queries=1000).epsilon(999) == 0.10
    assert AuditSettings(queries=1000).epsilon(1000) == 0.05
    assert AuditSettings(queries=1000, tolerance=0.2).epsilon(1000) == 0.2


def test_toy_filler_names_no_entity_that_is_asked_about() -> None:
    source = toy_source(8)
    names = [" ".join(query.text.rstrip("?").split()[-2:]) for query in source.queries]
    assert not any(name in filler.text for filler in source.filler for name in names if name[0].isupper())


class _FixedRetriever:
    """Retrieves the same passages for every query, best first."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    def retrieve(self, queries: object, *, depth: int) -> Run:
        row = {name: float(-rank) for rank, name in enumerate(self.ids)}
        return Run("fixed", {query.id: row for query in queries})  # type: ignore[attr-defined]


def _mixed_collection(*, short: int) -> Collection:
    """A query whose answer is a span, so many whose answers are short documents, and two that cannot be used."""
    weather = "".join(f"Sentence {n} says nothing of note about the weather. " for n in range(60))
    documents = {
        "long": Document("long", weather + "The answer is here."),
        "short": Document("short", "A short answer."),
        "other": Document("other", weather),
    }
    whole = [f"whole{n}" for n in range(short)]
    return Collection(
        "mine",
        documents,
        {name: Query(name, f"question {name}") for name in ("spanned", *whole, "unspanned", "unjudged")},
        Qrels({"spanned": {"long": 1}, "unspanned": {"other": 1}, **{name: {"short": 2, "long": 1} for name in whole}}),
        (GoldSpan("spanned", "long", CharSpan(len(weather), len(documents["long"].text)), "gold"),),
    )


def _source_of(collection: Collection) -> Source:
    passages = cut_passages(collection, tokens=20, tokenizer=WordTokenizer())
    retriever = _FixedRetriever(list(passages))
    return collection_source(collection, passages, retriever, settings=AuditSettings(slots=3, lengths=(96,)))


def test_a_collection_gives_gold_spans_short_documents_and_counts_the_rest() -> None:
    found = _source_of(_mixed_collection(short=7))
    assert found.evidence == {"spanned": "The answer is here."} | {f"whole{n}": "A short answer." for n in range(7)}
    assert dict(found.left_out) == {"no relevant document": 1, "evidence too long or unknown": 1}
    assert not any("The answer" in passage for passage in found.hard["spanned"])
    assert "A short answer." not in found.hard["whole0"]


def test_unjudged_copies_of_the_evidence_are_neither_hard_passages_nor_filler() -> None:
    mixed = _mixed_collection(short=7)
    copies = {
        "copy": Document("copy", "a  SHORT answer."),
        "around": Document("around", "It was asked and asked again. The answer is here. So it was said, at last."),
        "copied long": Document("copied long", mixed.documents["long"].text),
    }
    found = _source_of(replace(mixed, documents={**copies, **mixed.documents}))
    assert found.barred["whole0"] == {"short", "long", "copy", "copied long"}
    assert found.barred["spanned"] == {"long", "around", "copied long"}
    assert {passage for passage in found.hard["spanned"] if "answer is here" in passage} == set()
    assert "a  SHORT answer." not in found.hard["whole0"]
    assert "a  SHORT answer." in found.hard["spanned"]


@pytest.mark.parametrize(
    ("answer", "span"),
    [
        ("Stupendousness is it.", (5, 21)),  # the longest word of the span is a piece of a word
        ("It is stupendousness.", (0, 14)),
        ("Green paint.", (0, 12)),  # there is no word between the first and the last
    ],
)
def test_evidence_is_found_in_other_documents_though_its_first_or_last_word_is_cut(
    answer: str, span: tuple[int, int]
) -> None:
    mixed = _mixed_collection(short=7)
    weather = mixed.documents["other"].text
    documents = {"long": Document("long", weather + answer), "around": Document("around", f"So it was. {answer} Well.")}
    start, stop = (len(weather) + at for at in span)
    spans = (GoldSpan("spanned", "long", CharSpan(start, stop), "gold"),)
    found = _source_of(replace(mixed, documents={**mixed.documents, **documents}, spans=spans))
    assert found.evidence["spanned"] == answer[slice(*span)]
    assert "around" in found.barred["spanned"]


def test_too_few_queries_for_a_verdict_are_refused_with_the_reasons() -> None:
    why = "no relevant document: 1, evidence too long or unknown: 1"
    with pytest.raises(
        DataError, match=rf"has 7 queries to audit with \(left out: {why}\), and a verdict takes at least 8"
    ):
        _source_of(_mixed_collection(short=6))


def test_a_collection_without_judgements_is_told_what_is_missing() -> None:
    with pytest.raises(DataError, match=r"'mine' has no judgements.*qrels\.txt .*missing"):
        _source_of(replace(_mixed_collection(short=7), qrels=Qrels({})))
