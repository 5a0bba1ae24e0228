"""What an experiment file may say about its texts: one settings model a kind of collection, and the first stage."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from longrank.core.settings import Settings
from longrank.retrieval.dense import EncoderSettings
from longrank.retrieval.index import BM25Settings
from longrank.retrieval.rm3 import RM3Settings
from longrank.synthetic.debias import DebiasSettings
from longrank.synthetic.far_relevant import FarRelevantSettings
from longrank.synthetic.longembed import TaskSettings
from longrank.synthetic.toy import ToySettings


class Source(Settings):
    """What every kind may be told: how many queries are used, folds, and a first stage and measures of its own."""

    max_train: int | None = Field(None, ge=1, description="training queries, drawn by seed 0")
    max_test: int | None = Field(None, ge=1, description="test queries, drawn by seed 0")
    folds: int | None = Field(None, ge=2, description="parts for cross-validation, drawn by seed 0")
    measures: tuple[str, ...] | None = Field(None, description="in place of the experiment's")
    depth: int | None = Field(None, ge=1, description="candidates a query that are scored, in place of [scoring]'s")
    retriever: str | None = Field(None, description="its first stage, in place of the experiment's")
    beside: tuple[str, ...] = Field((), description="other first stages that are shown too, and not reranked")
    reading: dict[str, int] = Field(default_factory=dict, description="lengths in scoring it, over [scoring]'s")
    sizes: dict[str, int] = Field(default_factory=dict, description="queries a split, for estimates only")

    @model_validator(mode="after")
    def _trained_on_all_other_folds(self) -> "Source":
        if self.max_train is not None and (self.folds is not None or getattr(self, "fold_ids", None)):
            raise ValueError("max_train has no meaning with folds: all folds but one are trained on; use max_test")
        return self


class ToySource(Source, ToySettings):
    """The toy world where evidence comes early."""

    kind: Literal["toy"]


class ToyFarSource(Source):
    """The other half of a toy world: the same queries, evidence behind all that a short model reads."""

    kind: Literal["toy-far"]
    of: str


class ToyPassagesSource(Source):
    """The passages behind a toy world, as a collection of their own."""

    kind: Literal["toy-passages"]
    of: str


class FolderSource(Source):
    """A collection folder; without a ``splits.json`` beside it, ``dev`` and ``test`` queries are drawn by seed 0."""

    kind: Literal["folder"]
    path: Path
    dev: int = Field(0, ge=0)
    test: int | None = Field(None, ge=1, description="all that are not dev, if not given")


class FilesSource(Source):
    """Documents, queries (JSON lines) and judgements (TREC) in files of any name; splits as for a folder."""

    kind: Literal["files"]
    documents: Path
    queries: Path
    qrels: Path
    dev: int = Field(0, ge=0)
    test: int | None = Field(None, ge=1)


class IrDatasetsSource(Source):
    """Parts of ir_datasets that share their documents: split or fold name -> id.

    ``borrowed`` asks the queries of another collection's id of these documents: nobody has judged them.
    """

    kind: Literal["ir_datasets"]
    splits: dict[str, str] = Field(default_factory=dict)
    fold_ids: dict[str, str] = Field(default_factory=dict, description="parts for cross-validation, by name")
    borrowed: dict[str, str] = Field(default_factory=dict, description="split -> id of another collection's queries")
    query_field: str | None = Field(None, description="'title' or 'description' of TREC topics")
    include_title: bool = True

    @model_validator(mode="after")
    def _some(self) -> "IrDatasetsSource":
        if not self.splits and not self.fold_ids:
            raise ValueError("name at least one part: splits = { test = 'msmarco-document/dev' }")
        return self


class FarRelevantSource(Source, FarRelevantSettings):
    """Passages of another collection planted in documents of filler (MS MARCO FarRelevant and its variants)."""

    kind: Literal["far-relevant"]
    of: str
    tokenizer: Literal["bert", "words"] = "bert"
    hard: Literal["none", "bm25", "same-topic"] = Field(
        "none", description="hard passages: of distractor documents, and beside the evidence in a warm-up"
    )


class LongEmbedSource(Source, TaskSettings):
    """A needle or passkey task in documents of known lengths; candidates are the documents of the query's length."""

    kind: Literal["longembed"]
    task: Literal["needle", "passkey"]
    path: Path | None = Field(None, description="folder of the published files, read in place of texts of our making")

    @model_validator(mode="after")
    def _made_or_read(self) -> "LongEmbedSource":
        sizes = sorted(self.model_fields_set & TaskSettings.model_fields.keys()) if self.path else []
        if sizes:
            raise ValueError(
                f"{', '.join(sizes)} shape a task that is made; one that is read from {self.path} has its own"
            )
        return self


class DebiasedSource(Source, DebiasSettings):
    """The training queries of another collection, their documents' segments shuffled."""

    kind: Literal["debiased"]
    of: str


AnySource = Annotated[
    ToySource
    | ToyFarSource
    | ToyPassagesSource
    | FolderSource
    | FilesSource
    | IrDatasetsSource
    | FarRelevantSource
    | LongEmbedSource
    | DebiasedSource,
    Field(discriminator="kind"),
]

OF_ANOTHER = (ToyFarSource, ToyPassagesSource, FarRelevantSource, DebiasedSource)


class RetrieverSettings(Settings):
    """A first stage; ``run`` takes run files that exist, by collection."""

    method: Literal["bm25", "rm3", "dense", "hybrid", "run"] = "bm25"
    depth: int = Field(100, ge=1)
    bm25: BM25Settings = BM25Settings()
    rm3: RM3Settings = RM3Settings()
    dense: EncoderSettings = EncoderSettings()
    bm25_weight: float = Field(0.5, ge=0, le=1)
    runs: dict[str, Path] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _runs_for_run(self) -> "RetrieverSettings":
        if bool(self.runs) != (self.method == "run"):
            raise ValueError("runs = { COLLECTION = FILE } belongs to method = 'run', and is needed there")
        return self
