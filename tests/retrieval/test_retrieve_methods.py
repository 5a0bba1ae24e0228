"""Methods of ``longrank retrieve``, ``longrank expand``, and the worked example of the page on retrieval."""

import gzip
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from longrank.chunking.tokenizers import MINILM_PACKAGE, wheel_model_folder
from longrank.cli.evaluate import evaluate
from longrank.cli.expand import expand
from longrank.cli.fuse import fuse
from longrank.cli.make import make_app
from longrank.cli.pseudo_label import pseudo_label
from longrank.cli.retrieve import retrieve
from longrank.core.errors import ModelError, SettingsError, StaleIndex
from longrank.core.types import Document, Qrels, Query
from longrank.corpora.formats import jsonl, trec
from longrank.corpora.splits import write_splits

PAGE = Path(__file__).parent.parent.parent / "docs" / "retrieval.md"
needs_minilm = pytest.mark.skipif(
    wheel_model_folder(MINILM_PACKAGE) is None, reason="the extra 'minilm' is not installed"
)

app = typer.Typer()
app.add_typer(make_app, name="make")
for command in (retrieve, expand, fuse, evaluate):
    app.command(command.__name__)(command)
app.command("pseudo-label")(pseudo_label)


def call(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "collection"
    place.mkdir()
    documents = [
        Document("car", "The automobile would not start in the cold.", title="Winter"),
        Document("cat", "A kitten slept on the warm windowsill."),
        Document("tax", "Income is declared once a year to the revenue office."),
        Document("trap", "The vehicle of the metaphor is explained in the poem."),
    ]
    jsonl.write_documents(place / "documents.jsonl", documents)
    queries = [Query("q1", "engine trouble of a vehicle in winter"), Query("q2", "a cat asleep")]
    jsonl.write_queries(place / "queries.jsonl", queries)
    trec.write_qrels(place / "qrels.txt", Qrels({"q1": {"car": 1}, "q2": {"cat": 1}}))
    return place


@pytest.fixture(scope="module")
def generator_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A T5 of one layer and eight words, as transformers saves it."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    place = tmp_path_factory.mktemp("t5")
    words = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", "zebra", "yak", "xerus", "who", "what"])}
    fast = Tokenizer(WordLevel(words, unk_token="<unk>"))
    fast.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(place)
    config = T5Config(
        vocab_size=8, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2, decoder_start_token_id=0, pad_token_id=0
    )
    T5ForConditionalGeneration(config).save_pretrained(place)
    return place


@needs_minilm
def test_meaning_finds_what_words_do_not_and_vectors_are_kept(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.trec"
    call("retrieve", folder, "--out", out)
    assert trec.read_run(out).ranking("q1")[0] == "trap"  # the only one that says 'vehicle'
    call("retrieve", folder, "--method", "dense", "--out", out)
    run = trec.read_run(out)
    assert (run.ranking("q1")[0], run.ranking("q2")[0]) == ("car", "cat")
    (vectors,) = (folder / ".longrank").glob("dense-*")
    stamp = (vectors / "longrank.json").stat().st_mtime_ns
    call("retrieve", folder, "--method", "dense", "--out", out)
    assert (vectors / "longrank.json").stat().st_mtime_ns == stamp
    call("retrieve", folder, "--method", "dense", "--out", out, "--title")
    assert len(list((folder / ".longrank").glob("dense-*"))) == 2
    jsonl.write_documents(folder / "documents.jsonl", [Document("car", "new"), Document("cat", "new")])
    with pytest.raises(StaleIndex):
        call("retrieve", folder, "--method", "dense", "--out", out)


@needs_minilm
def test_the_weights_of_a_hybrid_are_tuned_on_the_train_split(folder: Path, tmp_path: Path) -> None:
    write_splits(folder, {"train": ("q1",), "test": ("q2",)})
    out = tmp_path / "run.trec"
    output = call("retrieve", folder, "--method", "hybrid", "--out", out, "--tune", "RR@10")
    assert re.search(r"BM25 weight [0-9.]+: 1\.0000 on 1 queries", output)
    assert "look too good" not in output
    assert trec.read_run(out).ranking("q1")[0] == "car"


@needs_minilm
def test_approximate_search_says_what_it_finds_and_serves_a_hybrid(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    exact, near = tmp_path / "exact.trec", tmp_path / "near.trec"
    call("retrieve", folder, "--method", "hybrid", "--out", exact)
    for _ in range(2):  # the graph is built, then opened
        output = call("retrieve", folder, "--method", "hybrid", "--approximate", "--out", near)
        # four documents: the graph reaches them all
        assert "finds 1.0000 of the exact on 2 queries" in output
        assert trec.read_run(near).scores == trec.read_run(exact).scores


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--out", "r.trec", "--method", "dense", "--tune", "RR@10"], "no meaning for --method dense"),
        (["--out", "r.trec", "--method", "dense", "--explain"], "--explain has no meaning"),
        (["--out", "r.trec", "--method", "hybrid", "--rm3"], "leave one of them out"),
        (["--out", "r.trec", "--model1"], "--tune RR@10"),
        (["--name", "my set"], "not 'my set'"),
        (["--out", "r.trec", "--half", "--model", "x"], "--half, --model changes nothing for --method bm25"),
        (["--out", "r.trec", "--bm25-weight", "0.3"], "leave it out, or take hybrid"),
        (["--out", "r.trec", "--method", "dense", "--k1", "1"], "--k1 changes nothing for --method dense"),
        (["--out", "r.trec", "--feedback-terms", "5"], "or take rm3"),
        ([], "nowhere to write"),
    ],
)
def test_options_that_contradict_each_other_are_refused(folder: Path, wrong: list[str], says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        call("retrieve", folder, *wrong)
    assert not (folder / ".longrank").exists()


def test_a_named_set_is_kept_with_its_name_and_read_by_the_trainer(folder: Path) -> None:
    from longrank.training.config import TrainConfig

    output = call("retrieve", folder, "--name", "words", "--method", "rm3", "--depth", "2")
    path = folder / "candidates" / "words.trec.gz"
    assert trec.read_run(path).name == "words"
    line = next(line for line in output.splitlines() if line.startswith("in a training file"))
    table = tomllib.loads("[candidates]\n" + line.partition(": ")[2])
    config = TrainConfig.model_validate({"collection": folder, "out": folder, "ranker": {"name": "x"}, **table})
    assert config.candidates == {"words": path}


def test_queries_are_written_by_a_local_model_and_indexed(folder: Path, tmp_path: Path, generator_folder: Path) -> None:
    out = tmp_path / "predictions.tsv.gz"
    options = ("--model", generator_folder, "--queries", "3", "--new-tokens", "8")
    assert "for 4 documents" in call("expand", folder, "--out", out, *options)
    lines = gzip.decompress(out.read_bytes()).decode().splitlines()
    assert [line.split("\t")[0] for line in lines] == ["car", "cat", "tax", "trap"]
    call("expand", folder, "--out", tmp_path / "again.tsv", *options)
    assert (tmp_path / "again.tsv").read_text().splitlines() == lines
    jsonl.write_queries(folder / "queries.jsonl", [Query("q1", "zebra yak xerus who what")])
    trec.write_qrels(folder / "qrels.txt", Qrels({"q1": {"car": 1}}))
    call("retrieve", folder, "--out", tmp_path / "run.trec", "--predictions", out)
    # the words are in no document, only in the predictions
    assert trec.read_run(tmp_path / "run.trec").scores["q1"]


def test_a_folder_that_holds_no_generator_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no seq2seq model"):
        call("expand", folder, "--model", tmp_path, "--out", tmp_path / "p.tsv")
    assert not (tmp_path / "p.tsv").exists()


@needs_minilm
def test_the_commands_of_the_page_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generator_folder: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "doc2query-t5").symlink_to(generator_folder)
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) > 5
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "longrank"
        assert call(*arguments).strip()
    kept = sorted(path.name for path in (tmp_path / "world" / "toy" / "candidates").iterdir())
    assert kept == [f"{name}.trec.gz" for name in ("bm25", "dense", "expanded", "hybrid", "rm3")]
