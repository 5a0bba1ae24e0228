"""A step at work with a chat model: what was paid for is kept until the step is done."""

from pathlib import Path

import pytest

from longrank.core.types import Spec
from longrank.experiments.job import Job
from longrank.experiments.step import Step


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(Step("judged", "judge", {}), tmp_path, {})


def keep_a_reply(chat: Spec) -> None:
    folder = Path(chat.params["cache"])
    folder.mkdir(exist_ok=True)
    (folder / "one.json").write_text("{}")


def test_replies_outlive_a_step_that_fails_and_go_when_it_is_done(job: Job) -> None:
    paid = Spec("openai", {"model": "some-model"})
    with pytest.raises(RuntimeError), job.keeping_replies(paid) as chat:
        keep_a_reply(chat)
        raise RuntimeError("the budget is spent")
    assert [path.name for path in job.folder.rglob("*.json")] == ["one.json"]
    with job.keeping_replies(paid) as chat:
        assert (Path(chat.params["cache"]) / "one.json").is_file()
    assert list(job.folder.iterdir()) == []


def test_a_cache_of_ones_own_is_used_and_left_alone(job: Job, tmp_path: Path) -> None:
    named = Spec("anthropic", {"model": "some-model", "cache": str(tmp_path / "mine")})
    with job.keeping_replies(named) as chat:
        keep_a_reply(chat)
    assert (tmp_path / "mine" / "one.json").is_file()


def test_a_model_that_costs_nothing_needs_no_cache(job: Job) -> None:
    scripted = Spec("scripted", {"replies": ["yes"]})
    with job.keeping_replies(scripted) as chat:
        assert chat == scripted
