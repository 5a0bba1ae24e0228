"""What an experiment file may say, and how it is told that it may not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from longrank.core.errors import SettingsError
from longrank.experiments.settings import ReadingSettings, load_experiment, variants


def test_a_ranker_is_a_name_or_a_table_and_is_labelled_by_its_name(smallest: Path) -> None:
    rankers = load_experiment(smallest).rankers
    assert [(r.name, r.label) for r in rankers] == [("firstp", "firstp"), ("maxp", "maxp-twice")]


def test_selecting_rankers_keeps_their_params_and_the_stages_forget_the_others(smallest: Path) -> None:
    one = load_experiment(smallest, ['rankers=["maxp-twice"]'])
    assert one.rankers[0].training == {"epochs": 2}
    other = load_experiment(smallest, ['rankers=["firstp", "sump"]'])
    assert [stage.rankers for stage in other.stages] == [None, (), ()]
    assert load_experiment(smallest, ["gains_over=maxp-twice", 'rankers=["firstp"]']).gains_over is None


def test_a_stage_whose_rankers_were_all_left_out_shares_a_column_with_no_other_training(smallest: Path) -> None:
    stages = 'stages=[{name="zero-shot", train_on="toy", rankers=["firstp"]}, '
    stages += '{name="b", train_on="toy", shown_with="zero-shot", rankers=["maxp-twice"]}]'
    one = load_experiment(smallest, [stages, "costs.stage=zero-shot", 'rankers=["firstp"]'])
    assert [stage.rankers for stage in one.stages] == [("firstp",), ()]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("collections.toy-far.of=toys", "no collection 'toys'; there are toy, toy-far, toy-debiased"),
        ("retriever=bm26", "no retriever 'bm26'"),
        ("collections.toy.retriever=bm27", "no retriever 'bm27'; there are bm25"),
        ('collections.toy.beside=["bm28"]', "no retriever 'bm28'; there are bm25"),
        ("warmup.on=far", "no collection 'far'"),
        ("costs.stage=tunned", "no stage 'tunned'"),
        ('costs.untrained=["gpt"]', "no untrained ranker 'gpt'; there are none"),
        (
            "untrained=[{label='e', name='embedding', baseline='firstp', score_on=['toy']}]",
            "no untrained ranker 'firstp'; there are e",
        ),
        ('rankers=["maxp", "maxp"]', "two rankers are labelled 'maxp'"),
        ('measures=["Foo@3"]', "Foo@3"),
        ("validation=Bar", "Bar"),
        ('stages=[{name="s", train_on="toy", ensemble="RR"}]', "needs cross_validate"),
        ('stages=[{name="zero-shot", train_on="toy", cross_validate=true, ensemble="Baz"}]', "Baz"),
        ("seeds=[1, 1]", "hold one twice"),
        (
            'stages=[{name="zero-shot", train_on="toy"}, {name="b", train_on="toy", shown_with="zero-shot"}]',
            "'b' and 'zero-shot' stand in the columns of 'zero-shot' and both train 'firstp'",
        ),
        (
            'stages=[{name="zero-shot", train_on="toy", rankers=["firstp"]}, '
            '{name="b", train_on="toy", shown_with="zero-shot", '
            'rankers=["maxp-twice"]}, {name="c", train_on="toy-far", shown_with="zero-shot", rankers=["maxp-twice"]}]',
            "'c' and 'b' stand in the columns of 'zero-shot' and both train 'maxp-twice'",
        ),
        ('stages=[{name="a", train_on="toy", shown_with="z"}]', "no stage 'z'"),
        (
            'stages=[{name="zero-shot", train_on="toy"}, {name="zero-shot", train_on="toy-far"}]',
            "two stages have one name",
        ),
        ("training.seed=3", "training.seed would change nothing"),
        ('backbones.tiny.rankers=["mxp"]', "no ranker 'mxp'; there are firstp, maxp-twice"),
        ('audits.rankers=["mxp"]', "no ranker 'mxp'"),
        ("gains_over=maxp", "no ranker 'maxp'; there are firstp, maxp-twice"),
        ('papers=[{key="positional-bais"}]', "no paper 'positional-bais'; there are positional-bias"),
        ("collections.toy={kind='toy', folds=3, max_train=5}", "max_train has no meaning with folds"),
        ("colections.toy=1", "colections"),
        ("training.epoch=1", "epoch"),
        ("collections.toy.kind=toys", "kind"),
        ("preset=nobody2020", "no training preset"),
    ],
)
def test_a_mistake_is_named(smallest: Path, override: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        load_experiment(smallest, [override])


def test_a_missing_file_says_where_files_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="experiments/ holds one"):
        load_experiment(tmp_path / "none.toml")


def test_a_preset_lies_under_what_the_file_says(smallest: Path) -> None:
    training = load_experiment(smallest, ["preset=li2023", "training.epochs=2"]).training
    assert (training.epochs, training.batch_size, training.backbone_rate) == (2, 4, 3e-6)


def test_a_sweep_is_a_product_and_its_labels_are_the_last_words(smallest: Path) -> None:
    swept = load_experiment(smallest, ["sweep={'reading.max_tokens'=[60, 120], 'scoring.depth'=[2, 4]}"])
    found = [(v.reading.max_tokens, v.scoring.depth, labels) for v, labels in variants(swept)]
    assert found[1] == (60, 4, {"max_tokens": 60, "depth": 4})
    assert [(tokens, depth) for tokens, depth, _ in found] == [(60, 2), (60, 4), (120, 2), (120, 4)]
    assert all(v.training == swept.training for v, _ in variants(swept))


def test_a_sweep_over_tables_changes_several_settings_at_once(smallest: Path) -> None:
    swept = load_experiment(smallest, ["sweep={reading=[{window_tokens=40, window_stride=20}, {window_tokens=60}]}"])
    found = [(v.reading.window_tokens, v.reading.window_stride, v.reading.chunk_tokens) for v, _ in variants(swept)]
    assert found == [(40, 20, 60), (60, 60, 60)]


def test_a_sweep_that_does_not_fit_is_refused_when_the_file_is_read(smallest: Path) -> None:
    with pytest.raises(SettingsError, match="max_token"):
        load_experiment(smallest, ["sweep={'reading.max_token'=[60]}"])


def test_a_file_without_a_sweep_is_its_own_only_variant(smallest: Path) -> None:
    experiment = load_experiment(smallest)
    assert list(variants(experiment)) == [(experiment, {})]


@pytest.mark.parametrize(
    ("ranker", "known", "expected"),
    [
        ("firstp", ["backbone", "tokens", "query_tokens"], {"tokens": 477, "query_tokens": 32}),
        ("longp", ["backbone", "tokens", "query_tokens"], {"tokens": 1431, "query_tokens": 32}),
        ("maxp", ["size", "stride", "max_tokens"], {"size": 150, "stride": 100, "max_tokens": 1431}),
        ("avgp", ["size", "max_chunks"], {"size": 477, "max_chunks": 3}),  # 1431 / 477
    ],
)
def test_lengths_reach_each_ranker_under_its_own_names(ranker: str, known: list[str], expected: dict[str, int]) -> None:
    assert ReadingSettings().params(ranker, known) == expected


def test_a_cross_validated_stage_scores_its_own_collection(changed: Callable[[str], Path]) -> None:
    path = changed("")
    text = path.read_text().replace('name = "tuned"', 'name = "tuned"\ncross_validate = true', 1)
    path.write_text(text.replace('score_on = ["toy-far"]', 'score_on = ["toy"]', 1))
    with pytest.raises(SettingsError, match="cross-validated stage scores the collection it is trained on"):
        load_experiment(path)


def test_files_that_extend_each_other_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "one.toml").write_text('extends = "shared/two.toml"\n')
    (tmp_path / "shared" / "two.toml").write_text('extends = "../one.toml"\n')
    with pytest.raises(SettingsError, match=r"one\.toml extends itself"):
        load_experiment(tmp_path / "one.toml")
