from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from longrank.cli.ceiling import ceiling
from longrank.cli.profile import profile
from longrank.cli.show import show
from longrank.cli.stats import stats
from longrank.core.errors import LongrankError, SettingsError, UnknownDocument
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query, Run
from longrank.corpora.catalog.folder import save_collection
from longrank.corpora.formats.trec import write_run

EVIDENCE = "here stands the very answer that was wanted"
app = typer.Typer()
for command in (profile, ceiling, stats, show):
    app.command()(command)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, LongrankError):
        raise result.exception
    return result


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents of 600 words, the evidence at word 0 of one and at word 500 of the other."""
    documents, spans = {}, []
    for name, at in (("near", 0), ("far", 500)):
        words = [f"x{number}" for number in range(600)]
        words[at:at] = EVIDENCE.split()
        text = " ".join(words)
        documents[name] = Document(name, text)
        spans.append(GoldSpan(f"q-{name}", name, CharSpan(text.index(EVIDENCE), text.index(EVIDENCE) + 43), "hand"))
    queries = {f"q-{name}": Query(f"q-{name}", "the answer?") for name in documents}
    qrels = Qrels({f"q-{name}": {name: 1} for name in documents})
    save_collection(Collection("toy", documents, queries, qrels, spans), tmp_path / "toy")
    candidates = Run("bm25", {query: {"near": 2.0, "far": 1.0} for query in queries})
    write_run(tmp_path / "bm25.run", candidates)
    return tmp_path


def test_profile_writes_records_and_figures_and_says_two_sentences(folder: Path) -> None:
    out, figure, deciles = folder / "p.jsonl", folder / "f.svg", folder / "d.svg"
    result = run("profile", folder / "toy", "--out", out, "--figure", figure, "--deciles", deciles)
    assert result.exit_code == 0
    assert "starts within the first 477 words-v1 tokens in 50.0%" in result.output
    assert "The place of the first relevant passage" in result.output
    assert figure.read_text().startswith("<svg")
    assert deciles.read_text().startswith("<svg")
    assert len(out.read_text().splitlines()) == 3


@pytest.mark.parametrize("method", ["match", "align"])
def test_profile_by_passages_finds_what_the_spans_say(folder: Path, method: str) -> None:
    passages = folder / "passages.jsonl"
    passages.write_text("".join(f'{{"query_id": "q-{name}", "text": "{EVIDENCE}"}}\n' for name in ("near", "far")))
    run("profile", folder / "toy", "--out", folder / "gold.jsonl")
    run("profile", folder / "toy", "--method", method, "--passages", passages, "--out", folder / "found.jsonl")
    gold, found = ((folder / name).read_text() for name in ("gold.jsonl", "found.jsonl"))
    assert [line.partition('"spans": ')[2][:14] for line in gold.splitlines()] == [
        line.partition('"spans": ')[2][:14] for line in found.splitlines()
    ]


def test_ceiling_shows_the_reach_then_measures_and_efficiency(folder: Path) -> None:
    run("profile", folder / "toy", "--out", folder / "p.jsonl")
    plain = run("ceiling", folder / "p.jsonl", "--window", 477, "--window", 600)
    assert "Headroom of 600 over 477 tokens: +100.0% to +100.0%" in plain.output
    scored = run(
        *("ceiling", folder / "p.jsonl", "--window", 477, "--qrels", folder / "toy" / "qrels.txt"),
        *(
            "--candidates",
            folder / "bm25.run",
            "--run",
            folder / "bm25.run",
            "--measures",
            "RR",
            "--format",
            "markdown",
        ),
    )
    assert "| 477" in scored.output
    # a perfect ranker answers one of two queries; bm25 scores (1 + 1/2) / 2 = .75, partly unseen: 1.5 of .5
    assert "0.500" in scored.output
    assert "reaches 1.500" in scored.output


def test_stats_counts_the_collection(folder: Path) -> None:
    result = run("stats", folder / "toy")
    assert "608.0" in result.output
    assert "2 judged queries" in result.output


def test_show_marks_the_evidence(folder: Path) -> None:
    result = run("show", folder / "toy", "q-far", "far", "--context", 20)
    assert f"**{EVIDENCE}**" in result.output
    assert "tokens 500-508" in result.output


def test_what_cannot_be_done_is_said(folder: Path) -> None:
    with pytest.raises(SettingsError, match="needs --passages"):
        run("profile", folder / "toy", "--method", "match")
    with pytest.raises(UnknownDocument, match="no query 'zzz'"):
        run("show", folder / "toy", "zzz", "far")
    with pytest.raises(SettingsError, match="no rule 'middle'"):
        run("ceiling", folder / "p.jsonl", "--rule", "middle")
    with pytest.raises(SettingsError, match="both --qrels and --candidates"):
        run("ceiling", folder / "p.jsonl", "--qrels", folder / "toy" / "qrels.txt")


def test_fira_files_are_profiled_in_snippets(tmp_path: Path) -> None:
    path = tmp_path / "snippets.txt"
    path.write_text("1 Q0 D1_0 0\n1 Q0 D1_1 3\n2 Q0 D2_0 3\n2 Q0 D2_1 0\n")
    result = run("profile", path, "--method", "fira", "--at-least", 3, "--chunk-tokens", 1)
    assert "starts within the first 1 fira-snippets tokens in 50.0%" in result.output
