"""Audits among an experiment's records: verdicts and curves as they stand on the cards."""

import re

import pytest

from longrank.audit.card import Card, make_card
from longrank.audit.design import make_design
from longrank.audit.run import audit
from longrank.audit.settings import AuditSettings
from longrank.audit.sources import toy_source
from longrank.audit.verdict import Outcome
from longrank.experiments.records import CellResult, ExperimentResult
from longrank.reports.experiment import render
from longrank.reports.experiment_audits import audit_figure, audit_statements, audits_table
from longrank.reports.experiment_reading import read_experiment
from longrank.testing import WordOverlapRanker


@pytest.fixture(scope="module")
def card() -> Card:
    """Of a ranker that reads the first 60 words, in documents of 256."""
    design = make_design(toy_source(16), AuditSettings(queries=16, slots=4, lengths=(256,), draws=199))
    return make_card(audit(WordOverlapRanker(60), design, name="short"))


def experiment(*rows: tuple[str, str, int, Card]) -> ExperimentResult:
    cells = [
        CellResult(
            {"ranker": ranker, "backbone": "tiny", "seed": seed, "stage": stage, "scored_on": "audit", "what": "audit"},
            {},
            card.model_dump(mode="json"),
        )
        for ranker, stage, seed, card in rows
    ]
    return ExperimentResult({"title": "Audits"}, tuple(cells))


def test_verdicts_are_told_by_training_with_the_seeds_that_got_them(card: Card) -> None:
    robust = card.model_copy(update={"outcome": Outcome.robust})
    result = experiment(
        ("firstp", "zero-shot", 0, card),
        ("firstp", "zero-shot", 1, robust),
        ("maxp", "zero-shot", 0, robust),
        ("maxp", "tuned", 0, robust),
    )
    first = card.outcome.value.capitalize()
    assert list(map(str, audit_statements(result))) == [
        f"Audits after zero-shot. {first}: firstp (1 of 2 seeds). Robust: firstp (1 of 2 seeds), maxp.",
        "Audits after tuned. Robust: maxp.",
    ]
    table = audits_table(result)
    assert table is not None
    assert [row[3].text for row in table.rows] == [card.outcome.value, "robust", "robust", "robust"]
    assert table.rows[0][6].text == "16"


def test_the_figure_has_a_panel_a_system_and_says_its_values(card: Card) -> None:
    figure = audit_figure(experiment(("firstp", "zero-shot", 0, card), ("maxp", "tuned", 0, card)))
    assert figure is not None
    means = ", ".join(f"{mean:.2f}" for mean in card.lengths[0].curve.mean)
    assert figure.alt == f"Curves. firstp, zero-shot: {means}; maxp, tuned: {means}."
    titles = re.findall(r"<text[^>]*>(firstp|maxp|zero-shot|tuned)</text>", figure.svg)
    assert sorted(titles) == ["firstp", "maxp", "tuned", "zero-shot"]


def test_an_experiment_of_audits_alone_has_a_page(card: Card) -> None:
    page = render(read_experiment(experiment(("firstp", "zero-shot", 0, card))), "html")
    assert "Do the rankers read to the end?" in page
    assert page.count("<svg") == 1


def test_without_audits_nothing_is_said() -> None:
    nothing = ExperimentResult({"title": "None"}, ())
    assert (audits_table(nothing), audit_figure(nothing), audit_statements(nothing)) == (None, None, [])
