from pathlib import Path

import pytest

from longrank.core.settings import load_settings
from longrank.rankers.model_card import AuditNote, Measure, ModelCard, Reading, readme

READING = Reading(
    ranker="maxp",
    splitter={"name": "Sliding", "size": 150, "stride": 100, "max_tokens": None},
    layout={"name": "Joint", "query_tokens": 32},
    aggregator={"name": "MaxScore"},
    row_tokens=185,
    trained=True,
)
FULL = ModelCard(
    title="MaxP on toy",
    license="apache-2.0",
    language="en",
    base_model="maker/base",
    datasets=("maker/toy",),
    training="300 queries, three seeds.",
    measures=(Measure(measure="nDCG@10", dataset="toy", value=0.5, low=0.4321, high=0.56789, queries=43),),
    audit=AuditNote(outcome="robust", sentence="Position costs 2% of the signal.", queries=100, lengths=(512, 2048)),
    limits="English only.",
)


def test_a_section_stands_only_where_something_is_known() -> None:
    bare, full = readme(ModelCard(), READING), readme(FULL, READING)
    for heading in ("## Measures", "## Does it read the whole document?", "## Training data", "## Limits"):
        assert heading not in bare
        assert heading in full
    for text in (bare, full):
        assert "## How it reads" in text
        assert "## How to load it" in text
        assert "## Citation" not in text


def test_measures_carry_their_interval_and_number_of_queries() -> None:
    assert "| toy | nDCG@10 | 0.500 | 0.432 to 0.568 | 43 |" in readme(FULL, READING)


def test_the_audit_is_told_in_its_own_words_with_its_size() -> None:
    text = readme(FULL, READING)
    assert "**robust.** Position costs 2% of the signal." in text
    assert "100 queries, lengths 512, 2,048 tokens" in text


def test_the_hub_s_own_reader_understands_the_front_matter() -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")
    data = hub.ModelCard(readme(FULL, READING)).data
    assert (data.library_name, data.pipeline_tag, data.license) == ("longrank", "text-ranking", "apache-2.0")
    assert (data.base_model, data.datasets) == ("maker/base", ["maker/toy"])
    result = data.eval_results[0]
    assert (result.metric_type, result.metric_value, result.dataset_name) == ("nDCG@10", 0.5, "toy")
    bare = hub.ModelCard(readme(ModelCard(), READING)).data
    assert bare.license is None
    assert bare.eval_results is None


def test_the_lines_that_load_it_name_the_repository_and_the_windows() -> None:
    assert 'from_pretrained("me/maxp")' in readme(ModelCard(), READING, repo_id="me/maxp")
    text = readme(ModelCard(), READING, form="classifier", repo_id="me/maxp")
    assert 'cross_encoder("me/maxp", read="maxp", size=150, stride=100)' in text
    assert 'CrossEncoder("me/maxp")' in text


def test_an_untrained_ranker_is_not_praised() -> None:
    untrained = Reading(**{**vars(READING), "trained": False})
    assert "never trained" in readme(ModelCard(), untrained)
    assert "never trained" not in readme(ModelCard(), READING)


def test_people_write_a_card_as_toml(tmp_path: Path) -> None:
    path = tmp_path / "card.toml"
    path.write_text(
        'title = "MaxP"\nlicense = "mit"\n[[measures]]\n'
        'measure = "RR@10"\ndataset = "toy"\nvalue = 0.5\nlow = 0.4\nhigh = 0.6\nqueries = 43\n'
    )
    assert load_settings(ModelCard, path).measures[0].measure == "RR@10"
