"""The demo's machinery, on a world of few documents: what it trains to is not the point here."""

from pathlib import Path

import pytest

from longrank.experiments.demo import Demo, DemoResult, DemoSettings
from longrank.reports.demo import reading, table_rows, write_demo_page
from longrank.synthetic.toy import ToySettings
from longrank.training.trainer import TrainSettings

FEW = TrainSettings(examples_per_epoch=8, batch_size=4)
SETTINGS = DemoSettings(toy=ToySettings(train=12, dev=2, test=6), depth=4, layers=None, warmup=FEW, train=FEW)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def result(out: Path) -> DemoResult:
    return Demo(SETTINGS, out, lambda _: None).run()


def test_every_ranker_is_scored_three_times(result: DemoResult) -> None:
    assert [row.ranker for row in result.rows] == ["FirstP", "MaxP", "PARADE-Attn", "PARADE-Transformer"]
    for row in result.rows:
        for score in (row.toy, row.far_zero_shot, row.far_tuned):
            assert 0 <= score.low <= score.mean <= score.high <= 1


def test_random_order_among_four_is_a_quarter_of_the_harmonic_number(result: DemoResult) -> None:
    # (1 + 1/2 + 1/3 + 1/4) / 4 = .5208 for each query whose relevant document was retrieved
    assert result.random[1] == pytest.approx(0.5208333 * result.ceiling[1], abs=1e-6)


def test_firstp_cuts_every_far_document_and_maxp_none_it_could_read(result: DemoResult) -> None:
    assert result.cut_tokens["FirstP"] > 0
    assert result.cut_tokens["MaxP"] == 0  # far documents end where the models stop reading


def test_evidence_starts_behind_the_boundary_in_the_far_collection_only(result: DemoResult) -> None:
    assert min(result.positions["toy-far"][0]) >= SETTINGS.toy.lengths.far_boundary
    assert min(result.positions["toy"][0]) < SETTINGS.toy.lengths.chunk_tokens


def test_a_second_run_finds_everything_and_gives_the_same(out: Path, result: DemoResult) -> None:
    said: list[str] = []
    assert Demo(SETTINGS, out, said.append).run() == result
    assert said == []


def test_two_processes_give_what_one_gives(out: Path, result: DemoResult, tmp_path: Path) -> None:
    one = Demo(SETTINGS, out, lambda _: None)
    two = Demo(SETTINGS, tmp_path, lambda _: None, workers=2)
    assert two.run() == result
    assert (one.workdir / "result.json").read_bytes() == (two.workdir / "result.json").read_bytes()


def test_other_settings_do_not_find_these_results(out: Path, result: DemoResult) -> None:
    demo = Demo(SETTINGS.model_copy(update={"seed": 1}), out, lambda _: None)
    assert not (demo.workdir / "models").exists()
    assert (Demo(SETTINGS, out, lambda _: None).workdir / "models").is_dir()
    assert result.seed == 0


def test_the_page_and_the_table_show_every_ranker(out: Path, result: DemoResult) -> None:
    write_demo_page(out / "demo.html", result)
    page = (out / "demo.html").read_text()
    assert page.count("<svg") == 2
    for row in result.rows:
        assert row.ranker in page
    assert [row[0] for row in table_rows(result)][-3:] == ["BM25, as retrieved", "random order", "perfect order"]
    assert all(row.ranker in sentence for row, sentence in zip(result.rows, reading(result), strict=True))
