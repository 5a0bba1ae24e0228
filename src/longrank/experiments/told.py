"""What an experiment may be asked to tell beside scores: positions, run-times and audits, as settings."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from longrank.audit.settings import AuditSettings
from longrank.core.settings import Settings, to_spec
from longrank.core.types import Spec

Names = tuple[str, ...]


class JudgedSettings(Settings):
    """Collections whose relevant documents a chat model grades piece by piece."""

    collections: Names
    chat: dict[str, Any] = Field(description="name and params of a chat model; its replies are kept while it works")
    sample: int | None = Field(None, ge=1, description="relevant pairs of each collection, drawn by seed 0")
    grade: int = Field(1, ge=1, le=3, description="from which a piece is relevant")

    @property
    def spec(self) -> Spec:
        """The chat model."""
        return to_spec(self.chat)


class SnippetSettings(Settings):
    """A file of people's grades of all snippets of documents, as FiRA's (`qid Q0 docid_snippet grade`)."""

    file: Path
    grade: int = Field(1, ge=1, description="from which a snippet is relevant")
    tokens: int | None = Field(None, ge=1, description="of every snippet: positions then count tokens, approximately")


class PositionSettings(Settings):
    """Whose evidence is located: by gold spans, by matching another collection's passages, by a judge, by snippets."""

    collections: Names = ()
    passages: dict[str, str] = Field(default_factory=dict, description="collection -> that of its relevant passages")
    grades: dict[str, int] = Field(default_factory=dict, description="collection -> least grade of such a passage")
    tokenizer: Literal["bert", "words"] = "bert"
    sample: int | None = Field(None, ge=1)
    edge: Literal["start", "end"] = Field("start", description="of the first relevant passage, that the figure draws")
    judged: JudgedSettings | None = None
    snippets: dict[str, SnippetSettings] = Field(default_factory=dict, description="name -> people's judgements")

    @property
    def of_collections(self) -> Names:
        """Every collection of the experiment that is looked at."""
        return (*self.collections, *(self.judged.collections if self.judged else ()))


class CostSettings(Settings):
    """How run-times are measured: all rankers of a stage side by side; with folds, those of the first.

    Of trained rankers processor seconds are counted, of untrained ones all that pass: a service is waited for.
    """

    stage: str
    untrained: Names = Field((), description="labels; a chat model is asked and paid anew in every round")
    queries: int = Field(4, ge=1)
    depth: int = Field(10, ge=1)
    rounds: int = Field(3, ge=1)


class AuditsSettings(Settings):
    """Which trained rankers are audited for position bias on the toy world, and how thoroughly."""

    stages: Names
    rankers: Names | None = Field(None, description="labels; all of a stage, if not given")
    design: AuditSettings = AuditSettings()
