from pathlib import Path

import pytest
from typer.testing import CliRunner

from longrank.cli.main import app
from longrank.core.types import Run, RunNotes
from longrank.corpora.formats.provenance import LIBRARIES, run_metadata
from longrank.corpora.formats.trec import read_run, write_run

RUN = Run("maxp", {"q": {"a": 2.0, "b": 1.0}}, RunNotes(cut_documents=1, cut_tokens=5))


def written(path: Path, **more: str) -> str:
    stages = [
        {"name": "bm25", "method": "candidates"},
        {"name": "maxp", "method": "longrank rerank", "reranks": "bm25"},
    ]
    command = ["longrank", "rerank", "/home/someone/models/maxp", "--out", "/data/x.trec"]
    metadata = run_metadata(RUN, collection="toy", command=command, stages=stages, **more)
    write_run(path, RUN, metadata=metadata)
    return path.read_text(encoding="utf-8")


def test_the_block_is_yaml_with_the_fields_of_ir_metadata(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    lines = written(tmp_path / "run.trec", baseline="bm25").splitlines()
    start, end = lines.index("# ir_metadata.start"), lines.index("# ir_metadata.end")
    found = yaml.safe_load("\n".join(line.removeprefix("# ") for line in lines[start + 1 : end]))
    assert list(found) == [
        *("schema-version", "run-version", "tag", "platform", "research goal", "implementation", "method", "data")
    ]
    assert found["tag"] == "maxp"
    assert found["research goal"] == {"evaluation": {"baseline": ["bm25"]}}
    assert found["method"]["retrieval"][1]["reranks"] == "bm25"
    assert found["data"] == {"test collection": {"name": "toy"}}
    assert any(line.startswith("numpy==") for line in found["platform"]["software"]["libraries"]["python"])
    assert len(found["platform"]["software"]["libraries"]["python"]) <= len(LIBRARIES) + 1


def test_no_folder_of_the_machine_is_named(tmp_path: Path) -> None:
    text = written(tmp_path / "run.trec")
    assert "longrank rerank maxp --out x.trec" in text
    assert "someone" not in text
    assert "/" not in text.partition("# ir_metadata.end")[0]
    assert "research goal" not in text


def test_a_run_with_comments_is_read_back_the_same(tmp_path: Path) -> None:
    written(tmp_path / "run.trec")
    assert read_run(tmp_path / "run.trec") == RUN


def test_ir_measures_does_not_take_comments_which_is_why_they_must_be_asked_for(tmp_path: Path) -> None:
    ir_measures = pytest.importorskip("ir_measures", reason="ir-measures is not installed")
    written(tmp_path / "run.trec")
    with pytest.raises(ValueError, match=r"unpack|convert|split"):
        list(ir_measures.read_trec_run(str(tmp_path / "run.trec")))
    write_run(tmp_path / "plain.trec", RUN)
    assert len(list(ir_measures.read_trec_run(str(tmp_path / "plain.trec")))) == 2


def test_the_commands_write_comments_only_when_asked(tmp_path: Path) -> None:
    from longrank.corpora.catalog.folder import save_collection
    from longrank.rankers import checkpoint
    from longrank.rankers.zoo import build_ranker
    from longrank.testing import one_document_collection, tiny_spec

    save_collection(one_document_collection("a red fox", query="fox"), tmp_path / "toy")
    checkpoint.save(build_ranker(tiny_spec("maxp")), tmp_path / "maxp")
    texts = {}
    for flag in ([], ["--metadata"]):
        found, ranked = (tmp_path / f"{name}{len(flag)}.trec" for name in ("found", "ranked"))
        retrieve = ["retrieve", str(tmp_path / "toy"), "--out", str(found), *flag]
        rerank = ["rerank", str(tmp_path / "maxp"), str(tmp_path / "toy"), "--candidates", str(found)]
        for asked in (retrieve, [*rerank, "--out", str(ranked), "--untrained", *flag]):
            assert CliRunner().invoke(app, asked, catch_exceptions=False).exit_code == 0
        assert read_run(ranked).ranking("q") == ["d"]
        texts[len(flag)] = (found.read_text(), ranked.read_text())
    assert all("#" not in text for text in texts[0])
    assert all(text.startswith("# ir_metadata.start\n") and str(tmp_path) not in text for text in texts[1])
    assert '"reranks": "bm25"' in texts[1][1]
