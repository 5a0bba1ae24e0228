"""Cards and boards as pages, and the commands that write them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from longrank.audit.card import Card, Interval, Statistic, make_card, read_card, write_card
from longrank.audit.design import AuditDesign
from longrank.audit.planted import RandomScores, Windowed, WordMatch
from longrank.audit.run import audit
from longrank.audit.together import judge_together
from longrank.audit.verdict import Outcome
from longrank.audit.window import probe_window
from longrank.cli.audit import audit as audit_command
from longrank.cli.board import board as board_command
from longrank.cli.harden import harden as harden_command
from longrank.cli.probe import probe as probe_command
from longrank.core.errors import DataError
from longrank.rankers.foreign import ClassifierRanker
from longrank.reports.board import board_table, place_figures, write_board
from longrank.reports.card import curve_figure, write_card_page
from longrank.reports.page import Cell


def app() -> typer.Typer:
    built = typer.Typer()
    built.command("audit")(audit_command)
    built.command("probe")(probe_command)
    built.command("board")(board_command)
    built.command("harden")(harden_command)
    return built


MODULE = """
from longrank.audit.planted import Windowed, WordMatch
from longrank.core.types import Document, Query

bag = WordMatch.fitted(["the of a in is was who what when where " * 30, "plain words"])

def first(query, texts):
    return Windowed(bag, 60).score(Query("q", query), [Document("d", text) for text in texts]).values

def whole(query, texts):
    return bag.score(Query("q", query), [Document("d", text) for text in texts]).values

def broken(query, texts):
    return [1.0]
"""


def test_a_card_page_carries_verdict_curve_and_window_and_the_same_bytes_again(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    ranker = Windowed(bag_of_words, 60)
    card = make_card(audit(ranker, small, name="first <60>"), probe_window(ranker, longest=128, queries=1))
    write_card_page(tmp_path / "one.html", card)
    write_card_page(tmp_path / "two.html", card)
    page = (tmp_path / "one.html").read_text()
    assert page == (tmp_path / "two.html").read_text()
    assert "first &lt;60&gt;" in page
    assert "<svg" in page
    assert ">chance<" in page
    assert "It reads 60 words" in page
    assert page.count(card.sentence.replace("'", "&#39;")) == 1


def test_two_curves_are_told_apart_without_colour(small: AuditDesign, bag_of_words: WordMatch) -> None:
    short = make_card(audit(Windowed(bag_of_words, 60), small, name="first")).lengths[0]
    svg = curve_figure({"short": short.curve, "long": short.curve}, chance=short.absent_expected)
    shapes = dict(re.findall(r'<path id="(m\w+)" d="([^"]+)"', svg))
    used = re.findall(r'<use xlink:href="#(m\w+)" [^>]*style="fill: (#\w+); stroke: \2', svg)
    assert len({shapes[name] for name, _ in used}) == 2


def test_a_card_without_a_verdict_has_a_page_too(tmp_path: Path, small: AuditDesign) -> None:
    write_card_page(tmp_path / "card.html", make_card(audit(RandomScores(1), small, name="random")))
    assert "auditable" in (tmp_path / "card.html").read_text().lower()


def test_a_board_has_a_row_a_card_whatever_their_order(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    cards = [make_card(audit(r, small, name=n)) for n, r in (("bag", bag_of_words), ("random", RandomScores()))]
    write_board(tmp_path / "one.html", cards)
    write_board(tmp_path / "two.html", cards[::-1])
    page = (tmp_path / "one.html").read_text()
    assert page == (tmp_path / "two.html").read_text()
    assert page.count('scope="row"') == 2
    with pytest.raises(DataError, match="at least one card"):
        write_board(tmp_path / "none.html", [])


def test_a_card_given_twice_is_listed_once(tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch) -> None:
    write_card(make_card(audit(bag_of_words, small, name="bag")), tmp_path / "card.json")
    given = [str(tmp_path / "card.json")] * 2
    done = CliRunner().invoke(app(), ["board", *given, "--out", str(tmp_path / "board.html")])
    assert done.output.startswith("Board of 1 card:")
    assert (tmp_path / "board.html").read_text().count('scope="row"') == 1


def test_only_cards_of_the_same_design_compete(small: AuditDesign, bag_of_words: WordMatch) -> None:
    whole, first = (make_card(audit(ranker, small, name="r")) for ranker in (bag_of_words, Windowed(bag_of_words, 60)))
    elsewhere = first.model_copy(update={"design": first.design.model_copy(update={"fingerprint": "other"})})
    marks = [
        [cell.best for cell in row if isinstance(cell, Cell)][:2] for row in board_table([whole, first, elsewhere]).rows
    ]
    assert marks == [[True, True], [False, False], [False, False]]  # the third has nobody to compare with


def with_p(card: Card, *p_values: float) -> Card:
    """A card whose lengths' trends have these p-values, alone and corrected, and whose other tests say nothing."""
    none, count = card.lengths[0].psi.model_copy(update={"p": 1.0, "holm_p": 1.0}), 3 * len(p_values)
    lengths = tuple(
        at.model_copy(
            update={
                "trend": Statistic(value=0.1, p=p, holm_p=min(1.0, count * p)),
                "bend": Statistic(value=0.0, p=1.0, holm_p=1.0),
                "psi": none,
                "outcome": Outcome.biased if count * p < 0.05 else Outcome.inconclusive,
            }
        )
        for at, p in zip(card.lengths, p_values, strict=True)
    )
    outcome = Outcome.biased if any(at.outcome is Outcome.biased for at in lengths) else Outcome.inconclusive
    return card.model_copy(update={"lengths": lengths, "outcome": outcome})


def test_a_bias_on_a_board_holds_out_against_the_tests_of_all_cards(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    """Two lengths and three tests a card: 6 tests of one card, 18 of three."""
    card = make_card(audit(bag_of_words, small, name="r"))
    sure, unsure, open_ = (with_p(card, p, 1.0) for p in (0.001, 0.004, 0.5))
    assert [one.outcome.value for one in (sure, unsure, open_)] == ["biased", "biased", "inconclusive"]
    together = judge_together([sure, unsure, open_])
    assert [one.outcome.value for one in together] == ["biased", "inconclusive", "inconclusive"]
    assert [one.p for one in together] == pytest.approx([18 * 0.001, 17 * 0.004, 1.0])
    (alone,) = judge_together([unsure])
    assert alone.outcome is Outcome.biased
    assert alone.p == pytest.approx(6 * 0.004)
    rows = board_table([sure, unsure, open_]).rows
    assert [row[1] for row in rows] == [
        "biased",
        Cell("inconclusive", detail="biased by its card alone"),
        "inconclusive",
    ]
    named = [one.model_copy(update={"ranker": name}) for one, name in ((sure, "a"), (unsure, "b"), (open_, "c"))]
    write_board(tmp_path / "three.html", named)
    write_board(tmp_path / "one.html", [unsure])
    assert "over 18 tests" in (tmp_path / "three.html").read_text()
    assert "Holm&#39;s method" not in (tmp_path / "one.html").read_text()


def test_a_bias_at_one_length_is_not_proven_by_a_test_at_another(small: AuditDesign, bag_of_words: WordMatch) -> None:
    """The long documents show a sure trend too small to matter, the short ones an unsure one that is large enough."""
    card = with_p(make_card(audit(bag_of_words, small, name="r")), 0.004, 0.0001)
    short, long = card.lengths
    card = card.model_copy(update={"lengths": (short, long.model_copy(update={"outcome": Outcome.inconclusive}))})
    other = with_p(card, 0.5, 0.5)
    assert judge_together([card])[0].outcome is Outcome.biased
    judged = judge_together([card, other, other])[0]
    assert judged.outcome is Outcome.inconclusive
    assert judged.p == pytest.approx(18 * 0.0001)


def test_a_board_says_when_it_has_more_tests_than_permutations_can_decide(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    """199 draws give p-values of .005 or more, which prove nothing among ten tests or more."""
    card = make_card(audit(bag_of_words, small, name="a"))
    write_board(tmp_path / "board.html", [card, card.model_copy(update={"ranker": "b"})])
    assert "compare fewer cards" in (tmp_path / "board.html").read_text()
    more = card.model_copy(update={"design": card.design.model_copy(update={"draws": 9999})})
    write_board(tmp_path / "board.html", [more, more.model_copy(update={"ranker": "b"})])
    assert "compare fewer cards" not in (tmp_path / "board.html").read_text()


def test_a_board_draws_the_curves_of_rankers_that_share_a_design(small: AuditDesign, bag_of_words: WordMatch) -> None:
    whole = make_card(audit(bag_of_words, small, name="whole"))
    first = make_card(audit(Windowed(bag_of_words, 60), small, name="first"))
    elsewhere = first.model_copy(update={"design": first.design.model_copy(update={"fingerprint": "other"})})
    assert place_figures([whole]) == place_figures([whole, elsewhere]) == []
    (figure,) = place_figures([first, whole, elsewhere])
    longest = max(first.design.lengths)
    assert f"documents of {longest:,} tokens" in figure.caption
    shown = figure.alt.removeprefix("Mean reciprocal rank by slot. ")
    assert [line.split(":")[0] for line in shown.split("; ")] == ["whole", "first"], "who loses least comes first"
    means = next(at for at in first.lengths if at.tokens == longest).curve.mean
    assert shown.endswith(", ".join(f"{mean:.2f}" for mean in means) + ".")
    many = [whole.model_copy(update={"ranker": f"r{at}"}) for at in range(8)]
    assert "of 8 rankers the 6 that lose least" in place_figures(many)[0].caption


def test_every_ranker_of_a_board_has_a_line_and_a_name_in_its_figure(
    small: AuditDesign, bag_of_words: WordMatch
) -> None:
    whole = make_card(audit(bag_of_words, small, name="best"))
    first = make_card(audit(Windowed(bag_of_words, 60), small, name="best"))
    hidden, long = (whole.model_copy(update={"ranker": name}) for name in ("_<b>$x$", "word " * 30))
    (figure,) = place_figures([whole, first, hidden, long])
    shown = ElementTree.fromstring(figure.svg).itertext()
    texts = [text.strip() for text in shown if text.strip()]
    assert {"best", "best (2)", "_<b>$x$", "chance"} <= set(texts)
    assert max(len(text) for text in texts if text.startswith("word")) <= 60
    assert all(f"{name}: " in figure.alt for name in ("best", "best (2)", "_<b>$x$"))


def test_a_board_explains_shares_above_100_percent_where_it_shows_one(
    small: AuditDesign, bag_of_words: WordMatch
) -> None:
    card = make_card(audit(bag_of_words, small, name="bag"))
    more = card.model_copy(update={"lost": Interval(value=0.9, low=0.7, high=1.2)})
    assert "over 100%" not in board_table([card]).caption
    assert "over 100% is lost where the worst slot ranks below chance" in board_table([card, more]).caption


def test_a_board_shows_latencies_where_they_are_known(
    tmp_path: Path, small: AuditDesign, bag_of_words: WordMatch
) -> None:
    cards = [make_card(audit(bag_of_words, small, name=name)) for name in ("b", "a")]
    table = board_table(cards, latencies=[None, 0.25])
    assert table.columns[-1].heading == "s for 1,000 tokens"
    assert [row[-1] for row in table.rows] == [Cell(None), Cell(0.25, "0.250")]
    assert len(board_table(cards).columns) == len(table.columns) - 1
    write_card(cards[0], tmp_path / "card.json")
    (tmp_path / "timings.json").write_text('{"seconds_per_1000_tokens": 0.0000125}')
    done = CliRunner().invoke(app(), ["board", str(tmp_path / "card.json"), "--out", str(tmp_path / "board.html")])
    assert done.exit_code == 0, done.output
    assert "0.0000125" in (tmp_path / "board.html").read_text()


def test_the_audit_command_writes_a_card_and_fails_when_too_much_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("audited_functions.py").write_text(MODULE)
    small = ["--queries", "12", "--slots", "3", "--lengths", "192"]
    done = CliRunner().invoke(app(), ["audit", "audited_functions:first", *small, "--fail-if-lost", "0.1"])
    assert done.exit_code == 3, done.output
    card = read_card(Path("audits/audited_functions-first/card.json"))
    assert card.outcome == "biased"
    assert "documents" in done.stderr
    bad = CliRunner().invoke(app(), ["audit", "audited_functions:broken", *small, "--out", "bad"])
    assert bad.exit_code == 1
    assert "wrong number of scores" in bad.output
    shown = CliRunner().invoke(app(), ["board", "bad/card.json", "audits/audited_functions-first/card.json"])
    assert shown.exit_code == 0
    assert Path("board.html").is_file()


def test_a_ranker_that_cannot_be_audited_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mute_functions.py").write_text("def mute(query, texts):\n    return [0.0] * len(texts)\n")
    small = ["--queries", "8", "--slots", "3", "--lengths", "192"]
    done = CliRunner().invoke(app(), ["audit", "mute_functions:mute", *small])
    assert done.exit_code == 1, done.output
    assert "mute_functions:mute: not auditable. " in done.output


@pytest.mark.parametrize("share", ["-0.1", "10"])
@pytest.mark.parametrize("command", ["audit", "harden"])
def test_the_share_that_may_be_lost_lies_between_0_and_1(command: str, share: str) -> None:
    done = CliRunner().invoke(app(), [command, "minilm", "--fail-if-lost", share])
    assert done.exit_code == 2, done.output


def test_the_probe_command_says_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("probed_functions.py").write_text(MODULE)
    done = CliRunner().invoke(app(), ["probe", "probed_functions:first", "--longest", "128", "--queries", "1"])
    assert done.exit_code == 0, done.output
    assert "It reads 60 words" in done.output


def test_only_the_probe_command_advises_its_own_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("short_functions.py").write_text("def short(query, texts):\n    raise MemoryError('too long')\n")
    probed = CliRunner().invoke(app(), ["probe", "short_functions:short"])
    assert "the ranker failed on a text of 512 words (MemoryError: too long): try a smaller" in str(probed.exception)
    hardened = CliRunner().invoke(app(), ["harden", "short_functions:short", "--quick"])
    assert "the ranker failed on a text of 512 words" in str(hardened.exception)
    assert "--longest" not in str(hardened.exception)


def test_the_harden_command_advises_and_leaves_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hardened_functions.py").write_text(MODULE)
    small = ["--queries", "8", "--slots", "3", "--lengths", "192", "--most-cost", "1", "--fail-if-lost", "0.1"]
    done = CliRunner().invoke(app(), ["harden", "hardened_functions:first", *small])
    assert done.exit_code == 3, done.output
    assert "of the usable signal is lost, more than the 10.0% allowed" in done.output
    assert "It reads 60 words" in done.output
    assert not Path("hardened/hardened.toml").exists()  # every wrapper reads more than it may, so nothing passed
    assert "No wrapper passed" in Path("hardened/board.html").read_text()
    assert read_card(Path("hardened/bare.json")).window is not None
    done = CliRunner().invoke(app(), ["harden", "hardened_functions:whole", *small, "--out", "whole"])
    assert done.exit_code == 0, done.output
    assert "Do nothing" in Path("whole/board.html").read_text()
    assert Path("whole/hardened.toml").read_text() == 'ranker = "hardened_functions:whole"\n'


def test_a_cross_encoder_that_passes_as_it_is_is_served_as_it_was_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bag_of_words: WordMatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ClassifierRanker, "load", lambda folder: bag_of_words)
    Path("encoder").mkdir()
    Path("encoder/config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    done = CliRunner().invoke(app(), ["harden", "encoder", "--queries", "8", "--slots", "3", "--lengths", "192"])
    assert done.exit_code == 0, done.output
    assert Path("hardened/hardened.toml").read_text() == 'ranker = "classifier:encoder"\n'


@pytest.mark.parametrize(("limit", "refused"), [("inf", False), ("nan", True), ("0.5", True)])
def test_the_cost_of_a_wrapper_may_have_no_limit(limit: str, refused: bool) -> None:
    done = CliRunner().invoke(app(), ["harden", "no_such_module:score", "--most-cost", limit])
    assert (done.exit_code == 2) is refused
    assert ("Invalid value for '--most-cost'" in done.stderr) is refused


def test_hardening_leaves_no_advice_or_card_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rehardened_functions.py").write_text(MODULE)
    Path("hardened").mkdir()
    written = {"hardened.toml", "rotate.json", "rotate.html", "chunk-max.json", "notes.json"}
    for name in written:
        (Path("hardened") / name).write_text("of an earlier run")
    small = ["--queries", "8", "--slots", "3", "--lengths", "192", "--most-cost", "1"]
    done = CliRunner().invoke(app(), ["harden", "rehardened_functions:first", *small])
    assert done.exit_code == 0, done.output
    kept = {path.name for path in Path("hardened").iterdir() if path.is_file()}
    assert kept == {"bare.json", "bare.html", "board.html", "notes.json"}
