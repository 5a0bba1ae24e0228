"""What an audit costs, counted, and how much less that is than scoring every list anew."""

import json
from pathlib import Path

import pytest

from longrank.audit.design import AuditDesign, make_design
from longrank.audit.planted import WordMatch
from longrank.audit.response import cost_per_query, naive_cost
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import Source
from longrank.audit.usage import Metered, Usage, naive_tokens, timings, write_timings
from longrank.audit.wrappers import chunk_max
from longrank.chunking.splitters import EvenWindows
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import Document, Query, Scores

SIZE, STRIDE = 100, 75


def test_the_default_audit_scores_96_documents_a_query_in_place_of_756() -> None:
    settings = AuditSettings()
    # 3 lengths x (8 slots + 2 reversed + 20 distractors + 1 absent) + the passage alone + 2 again
    assert cost_per_query(settings) == 3 * 31 + 1 + 2 == 96
    assert naive_cost(settings) == 3 * (8 + 4) * 21 == 756


def test_the_best_chunk_costs_less_than_half_of_the_naive_tokens(source: Source, bag_of_words: WordMatch) -> None:
    design = make_design(source, AuditSettings(queries=8, slots=8, lengths=(384, 768), draws=199))
    metered = Metered(bag_of_words, design.tokenizer)
    audit(chunk_max(metered, size=SIZE, stride=STRIDE), design, name="max")
    windows, tokenizer = EvenWindows(SIZE, STRIDE), WordTokenizer()

    def chunk_tokens(document: Document) -> int:
        return sum(len(span) for span in windows.split(tokenizer.tokenize(document.text)).spans)

    once, naive = 0, 0
    for probe in design.probes():
        once += sum(chunk_tokens(document) for document in probe.documents)
        for at in probe.by_length:
            targets = [*at.planted, probe.isolated, at.absent, *at.reversed_ends]
            shared = sum(map(chunk_tokens, at.distractors))
            naive += sum(map(chunk_tokens, targets)) + len(targets) * shared
    assert naive / metered.usage.tokens > 7  # twelve targets share one set of distractors
    assert once / metered.usage.tokens > 1.05  # and documents that differ in one slot share the chunks beside it
    assert naive_tokens(design, queries=8) / metered.usage.tokens > 2  # even if the naive design read no token twice


def test_a_meter_counts_calls_texts_tokens_and_failures() -> None:
    class Failing:
        def score(self, query: Query, documents: list[Document]) -> Scores:
            raise TimeoutError

    metered = Metered(Failing(), WordTokenizer())  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        metered.score(Query("q", "red"), [Document("a", "one two"), Document("b", "three")])
    assert (metered.usage.calls, metered.usage.texts, metered.usage.tokens) == (1, 2, 3)


def test_timings_hold_latency_and_savings_and_add_up_over_runs(tmp_path: Path, small: AuditDesign) -> None:
    path = tmp_path / "timings.json"
    write_timings(path, Usage(2, 55, 10_000, 1.5), small, queries=1)
    facts = write_timings(path, Usage(2, 55, 10_000, 0.5), small, queries=1)
    assert json.loads(path.read_text()) == facts
    assert (facts["calls"], facts["texts"], facts["tokens"], facts["seconds"]) == (4, 110, 20_000, 2.0)
    assert facts["seconds_per_1000_tokens"] == 0.1  # 2 s / 20
    assert facts["milliseconds_per_text"] == pytest.approx(2000 / 110, abs=1e-3)
    assert facts["naive_documents"] == 2 * 2 * 7 * 21  # queries x lengths x targets x list
    assert facts["times_fewer_tokens"] == round(facts["naive_tokens"] / 20_000, 2)


def test_a_fast_ranker_has_a_latency_too(small: AuditDesign) -> None:
    facts = timings(Usage(1, 100, 123_000_000, 1.0), small, queries=1)
    assert facts["seconds_per_1000_tokens"] == 0.00000813  # 1 / 123,000


def test_timings_of_another_audit_are_not_added(tmp_path: Path, small: AuditDesign, design: AuditDesign) -> None:
    path = tmp_path / "timings.json"
    write_timings(path, Usage(2, 55, 10_000, 1.5), design, queries=1)
    assert write_timings(path, Usage(1, 1, 10, 1.0), small, queries=1)["calls"] == 1
    path.write_text("damaged")
    assert write_timings(path, Usage(1, 1, 10, 1.0), small, queries=1)["calls"] == 1
    assert timings(Usage(), small, queries=0)["times_fewer_tokens"] is None


def test_the_time_left_is_announced_after_the_first_query(small: AuditDesign, bag_of_words: WordMatch) -> None:
    said: list[str] = []
    audit(bag_of_words, small, name="bag", announce=said.append)
    assert said[0].startswith("1 queries in")
    assert "7 to go: about" in said[0]
    assert len(said) == 4  # and at each quarter
