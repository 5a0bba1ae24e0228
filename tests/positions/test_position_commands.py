import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from longrank.chat import connecting
from longrank.chat.messages import Message
from longrank.chat.scripted import ScriptedChat
from longrank.cli.ceiling import ceiling
from longrank.cli.profile import profile
from longrank.cli.show import show
from longrank.cli.stats import stats
from longrank.core.errors import BudgetSpent, ChatError, DataError, LongrankError, SettingsError, UnknownDocument
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
    assert "Bias cannot be told from chance: 2 queries" in result.output
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


def test_headroom_over_a_window_that_reaches_nothing_is_said_in_words(folder: Path) -> None:
    far = [line for line in (folder / "toy" / "qrels.txt").read_text().splitlines() if "far" in line]
    (folder / "toy" / "qrels.txt").write_text("\n".join(far) + "\n")  # evidence at words 500 to 508
    run("profile", folder / "toy", "--out", folder / "p.jsonl")
    nothing = run("ceiling", folder / "p.jsonl", "--window", 5, "--window", 600)
    assert "a window of 5 holds the evidence of no pair" in nothing.output
    partly = run("ceiling", folder / "p.jsonl", "--window", 504, "--window", 600)  # it starts there and does not end
    assert "from +0.0%, without limit" in partly.output
    assert "inf" not in nothing.output + partly.output


def test_profile_of_no_relevant_pair_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="no relevant pair of grade 9 or more"):
        run("profile", folder / "toy", "--at-least", 9, "--out", folder / "p.jsonl")
    assert not (folder / "p.jsonl").exists()


def test_stats_counts_the_collection(folder: Path) -> None:
    result = run("stats", folder / "toy")
    assert "608.0" in result.output
    assert "2 judged queries" in result.output


def test_stats_counts_passages_a_document_in_saved_profiles(folder: Path) -> None:
    snippets = folder / "snippets.txt"
    snippets.write_text("1 Q0 D1_0 3\n1 Q0 D1_1 3\n1 Q0 D1_2 3\n2 Q0 D2_0 3\n2 Q0 D2_1 0\n")
    run("profile", snippets, "--method", "fira", "--at-least", 3, "--out", folder / "fira.jsonl")
    result = run("stats", "--profile", folder / "fira.jsonl", "--format", "markdown")
    cells = [cell.strip() for cell in result.output.splitlines()[2].split("|")]
    assert cells[1:6] == ["fira.jsonl", "2", "50.0%", "50.0%", "50.0%"]
    assert "gov2 3, fira 3" in result.output
    with pytest.raises(SettingsError, match="nothing to count"):
        run("stats")


def test_passages_outside_relevant_documents_are_looked_for_by_bm25(folder: Path) -> None:
    passages = folder / "passages.jsonl"
    # 'other' is in no document; the near query's passage stands in the far document only, which is not judged for it
    far = " ".join(f"x{number}" for number in range(490, 500)) + f" {EVIDENCE}"
    texts = {"q-near": [far], "q-far": [EVIDENCE, "nobody ever wrote this into any document"]}
    lines = [json.dumps({"query_id": query, "text": text}) + "\n" for query, some in texts.items() for text in some]
    passages.write_text("".join(lines))
    match = ("--method", "match", "--passages", passages)
    run("profile", folder / "toy", *match, "--retrieve", 5, "--out", folder / "p.jsonl")
    found = [json.loads(line) for line in (folder / "p.jsonl").read_text().splitlines()[1:]]
    assert [(one["query_id"], one["document_id"], one["spans"]) for one in found] == [
        ("q-far", "far", [[500, 508]]),
        ("q-near", "far", [[490, 508]]),
        ("q-far", "", []),
    ]
    with pytest.raises(SettingsError, match="--retrieve goes with --method match"):
        run("profile", folder / "toy", "--retrieve", 5)


def test_show_marks_the_evidence(folder: Path) -> None:
    result = run("show", folder / "toy", "q-far", "far", "--context", 20)
    assert f"**{EVIDENCE}**" in result.output
    assert "tokens 500-508" in result.output


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("profile toy --passages p.jsonl", "--passages is looked for by --method match or align"),
        ("show toy q-far far --passages p.jsonl", "--passages is looked for by --method match or align"),
        ("profile toy --piece-grade 2", "--piece-grade changes nothing for --method gold: leave it out"),
        ("profile f.txt --method fira --sample 9 --tokenizer bert", "--tokenizer, --sample changes nothing for"),
        ("profile toy --method judge --retrieve 5", "--retrieve changes nothing for --method judge"),
        ("profile toy --method match --retrieve 5 --at-least 2", "--at-least changes nothing for --method match with"),
        ("stats toy --passage-tokens 9", "--passage-tokens changes nothing without a profile"),
        ("stats --profile p.jsonl --at-least 2", "--at-least changes nothing without a collection"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SettingsError, match=said):
        run(*command.split())


def test_measures_of_a_ceiling_may_stand_between_commas(folder: Path) -> None:
    run("profile", folder / "toy", "--out", folder / "p.jsonl")
    files = ("--qrels", folder / "toy" / "qrels.txt", "--candidates", folder / "bm25.run")
    heading = run("ceiling", folder / "p.jsonl", *files, "--measures", "RR, AP").output.splitlines()[0]
    assert "RR" in heading and "AP" in heading
    with pytest.raises(SettingsError, match="no measure was named"):
        run("ceiling", folder / "p.jsonl", *files, "--measures", " ")


def test_what_cannot_be_done_is_said(folder: Path) -> None:
    with pytest.raises(SettingsError, match="needs --passages"):
        run("profile", folder / "toy", "--method", "match")
    with pytest.raises(UnknownDocument, match="no query 'zzz'"):
        run("show", folder / "toy", "zzz", "far")
    with pytest.raises(SettingsError, match="no rule 'middle'"):
        run("ceiling", folder / "p.jsonl", "--rule", "middle")
    with pytest.raises(SettingsError, match="both --qrels and --candidates"):
        run("ceiling", folder / "p.jsonl", "--qrels", folder / "toy" / "qrels.txt")
    with pytest.raises(SettingsError, match="--rule needs --qrels and --candidates"):
        run("ceiling", folder / "p.jsonl", "--rule", "end")


def test_fira_files_are_profiled_in_snippets(tmp_path: Path) -> None:
    path = tmp_path / "snippets.txt"
    path.write_text("1 Q0 D1_0 0\n1 Q0 D1_1 3\n2 Q0 D2_0 3\n2 Q0 D2_1 0\n")
    result = run("profile", path, "--method", "fira", "--at-least", 3, "--chunk-tokens", 1)
    assert "starts within the first 1 fira-snippets tokens in 50.0%" in result.output


def reads_the_piece(messages: Sequence[Message]) -> str:
    """A judge that gives 3 for the planted evidence, 1 for word 300, else 0."""
    piece = messages[-1].text.partition("Piece:")[2]
    return f"##final score: {3 if EVIDENCE in piece else 1 if 'x300 ' in piece else 0}"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> ScriptedChat:
    """Stands in for every model of OpenAI's dialect."""
    scripted = ScriptedChat(reads_the_piece)
    monkeypatch.setattr(connecting, "OpenAIChat", lambda *_, **__: scripted)
    return scripted


JUDGE = ("--method", "judge", "--chat", "openai:gpt-4o-mini")


def test_profile_by_a_judge_says_its_cost_before_and_after_and_reports_every_grade(
    folder: Path, judge: ScriptedChat
) -> None:
    out, grades, figure = folder / "p.jsonl", folder / "g.jsonl", folder / "f.svg"
    files = ("--out", out, "--grades", grades, "--figure", figure)
    result = run("profile", folder / "toy", *JUDGE, *files, "--piece-grade", 3, "--workers", 2)
    assert result.exit_code == 0
    assert result.stderr.index("estimate: at most about 4 calls") < result.stderr.index("account: 4 calls")
    assert "$" in result.stderr
    # 608 words without full stops make two pieces; far comes first, its evidence in the second
    assert "Judged 4 pieces of 2 documents; 0 replies could not be read" in result.output
    for reading in ("graded 1 or more", "graded 2 or more", "graded 3"):
        assert f"Pieces {reading}: In 2 located pairs" in result.output
    assert [json.loads(line)["grade"] for line in grades.read_text().splitlines()] == [0, 3, 3, 1]
    assert [json.loads(line)["relevant_slots"] for line in out.read_text().splitlines()[1:]] == [[1], [0]]
    assert figure.read_text().startswith("<svg")


def test_judging_again_asks_nobody_and_a_dry_run_never_does(folder: Path, judge: ScriptedChat) -> None:
    dry = run("profile", folder / "toy", *JUDGE, "--estimate")
    assert "estimate: at most about 4 calls" in dry.stderr
    assert judge.asked == []
    first = run("profile", folder / "toy", *JUDGE)
    asked = len(judge.asked)
    again = run("profile", folder / "toy", *JUDGE)
    assert (asked, len(judge.asked)) == (4, 4)
    assert "estimate: at most about 0 calls" in again.stderr
    assert "account: 0 calls" in again.stderr
    assert again.stdout == first.stdout


def test_a_spent_budget_stops_judging_and_what_was_paid_for_is_kept(folder: Path, judge: ScriptedChat) -> None:
    prices = folder / "prices.json"
    # 3 dollars a token: 300 are set aside for the longest reply, 9 spent; the third call would need 18 + 300
    prices.write_text('{"models": {"gpt-4o-mini": {"per_million_in": 0.0, "per_million_out": 3000000.0}}}')
    with pytest.raises(BudgetSpent, match="larger budget"):
        run("profile", folder / "toy", *JUDGE, "--prices", prices, "--budget", 310)
    assert len(judge.asked) == 2
    run("profile", folder / "toy", *JUDGE)
    assert len(judge.asked) == 4


def test_a_judge_who_fails_now_and_then_is_counted_and_one_who_never_answers_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flaky = ScriptedChat(["##final score: 1", ChatError("time out"), "no idea", "##final score: 3"])
    monkeypatch.setattr(connecting, "OpenAIChat", lambda *_, **__: flaky)
    result = run("profile", folder / "toy", *JUDGE)
    assert "1 replies could not be read and 1 did not come" in result.output
    refused = ScriptedChat([ChatError("the key was refused")] * 40)
    monkeypatch.setattr(connecting, "OpenAIChat", lambda *_, **__: refused)
    long = Collection(
        "long",
        {"d": Document("d", "word " * 12_000)},
        {"q": Query("q", "what?")},
        Qrels({"q": {"d": 1}}),
    )
    save_collection(long, folder / "long")
    with pytest.raises(ChatError, match=r"none of 36 questions was answered.*the key was refused"):
        run("profile", folder / "long", *JUDGE)


def test_options_of_the_judge_are_checked(folder: Path) -> None:
    with pytest.raises(SettingsError, match="openai:gpt-4o-mini; none was given"):
        run("profile", folder / "toy", "--method", "judge")
    with pytest.raises(SettingsError, match="provider"):
        run("profile", folder / "toy", "--method", "judge", "--chat", "nobody:model")
    with pytest.raises(SettingsError, match="are for --method judge"):
        run("profile", folder / "toy", "--budget", 3)
    with pytest.raises(SettingsError, match="are for --method judge"):
        run("profile", folder / "toy", "--estimate")
    with pytest.raises(SettingsError, match="--journal is for other methods"):
        run("profile", folder / "toy", *JUDGE, "--journal", folder / "j")
    with pytest.raises(SettingsError, match="by longrank profile only"):
        run("show", folder / "toy", "q-far", "far", "--method", "judge")
