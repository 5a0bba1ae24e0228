"""``longrank retrieve``: candidates of a collection's queries by BM25, with feedback on request."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.core.types import Collection, Document, Qrels, Query
    from longrank.retrieval.bm25 import BM25
    from longrank.retrieval.index import BM25Settings
    from longrank.retrieval.rm3 import RM3, RM3Settings
    from longrank.retrieval.tuning import Objective


def retrieve(
    collection: Annotated[Path, typer.Argument(help="Folder of the collection.")],
    *,
    out: Annotated[Path, typer.Option(help="Run file to write (TREC format; .gz is compressed).")],
    depth: Annotated[int, typer.Option(min=1, help="Documents a query.")] = 100,
    k1: Annotated[float, typer.Option(help="How soon repeated terms stop counting.")] = 1.2,
    b: Annotated[float, typer.Option(help="How much length counts against a document, 0 to 1.")] = 0.75,
    rm3: Annotated[bool, typer.Option("--rm3", help="Widen queries by the terms of their best documents.")] = False,
    feedback_documents: Annotated[int, typer.Option(min=1, help="RM3: documents taken as feedback.")] = 10,
    feedback_terms: Annotated[int, typer.Option(min=1, help="RM3: terms added.")] = 10,
    original_weight: Annotated[float, typer.Option(min=0, max=1, help="RM3: weight of the query itself.")] = 0.5,
    tune: Annotated[str | None, typer.Option(metavar="MEASURE", help="Choose parameters by grid, e.g. RR@10.")] = None,
    train: Annotated[Path | None, typer.Option(help="Collection folder with the queries to tune on.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print each query's terms and weights.")] = False,
    stop_words: Annotated[bool, typer.Option("--stop-words", help="Leave English stop words out.")] = False,
    stemming: Annotated[bool, typer.Option("--stemming", help="Index English stems.")] = False,
    title: Annotated[bool, typer.Option("--title", help="Index the title field beside the text.")] = False,
    predictions: Annotated[Path | None, typer.Option(help="Predicted queries (docid, tab, text) to index.")] = None,
    index: Annotated[Path | None, typer.Option(help="Folder of the index; kept in the collection by default.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build the index again.")] = False,
    split: Annotated[str, typer.Option(help="Which queries of a BEIR folder.")] = "test",
) -> None:
    """Find the best documents of each query and write them as a run."""
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.formats.trec import write_run
    from longrank.retrieval.analysis import AnalysisSettings
    from longrank.retrieval.index import BM25Settings
    from longrank.retrieval.rm3 import RM3, RM3Settings

    loaded = load_folder(collection, split=split)
    analysis = AnalysisSettings(
        stop_words="english" if stop_words else "none", stemming="english" if stemming else "none"
    )
    settings = BM25Settings(k1=k1, b=b, analysis=analysis, fields=("title", "text") if title else ("text",))
    bm25 = open_index(loaded, collection, settings, place=index, predictions=predictions, rebuild=rebuild)
    feedback = RM3Settings(documents=feedback_documents, terms=feedback_terms, original_weight=original_weight)
    if tune is not None:
        queries, qrels = _training(collection, loaded, train)
        bm25, feedback = _tuned(bm25, feedback, queries, objective(tune, qrels), depth=depth, with_rm3=rm3)
    queries = list(loaded.queries.values())
    retriever = RM3(bm25, feedback) if rm3 else bm25
    if explain:
        _explain(RM3(bm25, feedback if rm3 else RM3Settings(original_weight=1.0)), queries)
    run = retriever.retrieve(queries, depth=depth)
    write_run(out, run)
    empty = len(run.notes.dropped_queries)
    typer.echo(
        f"{out}: {len(run) - empty} queries, {sum(map(len, run.scores.values()))} documents"
        + (f"; {empty} queries share no term with any document" if empty else "")
    )
    typer.echo(f"peak memory {peak_megabytes():.0f} MB", err=True)


def open_index(
    collection: "Collection",
    folder: Path,
    settings: "BM25Settings",
    *,
    place: Path | None = None,
    predictions: Path | None = None,
    rebuild: bool = False,
) -> "BM25":
    """The collection's index, built where it is not there yet; an index of other documents is refused."""
    from longrank.core.fingerprint import fingerprint
    from longrank.retrieval.bm25 import BM25
    from longrank.retrieval.expansion import expanded, read_predictions

    extra: Mapping[str, str] = read_predictions(predictions) if predictions is not None else {}
    if place is None:
        # k1 and b are applied when querying, so every choice of them shares one index
        name = fingerprint(settings.model_dump(exclude={"k1", "b"}), extra)
        place = folder / ".longrank" / f"bm25-{name}"

    def documents() -> "Iterable[Document]":
        return expanded(collection.documents.values(), extra)

    if rebuild or not place.is_dir():
        return BM25.build(documents(), place, settings)
    return BM25.open(place, documents=documents()).suited(settings)


def objective(measure: str, qrels: "Qrels") -> "Objective":
    """The mean of a measure over the queries that a run and the judgements share."""
    from longrank.core.types import Run
    from longrank.evaluation.measures import evaluate

    def mean(run: Run) -> float:
        values = evaluate(run, qrels, [measure])[measure]
        return sum(values.values()) / max(len(values), 1)

    return mean


def peak_megabytes() -> float:
    """Largest memory this process has held."""
    import resource

    status = Path("/proc/self/status")
    if status.is_file():  # rusage also counts what the parent held before it started this process
        line = next((line for line in status.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if line is not None:
            return int(line.split()[1]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def _training(folder: Path, loaded: "Collection", train: Path | None) -> "tuple[list[Query], Qrels]":
    """Judged queries to tune on: of the folder named, of a train split, or else the collection's own."""
    from longrank.core.errors import SettingsError
    from longrank.corpora.catalog.folder import load_folder

    source = loaded
    if train is not None:
        source = load_folder(train)
    elif (folder / "qrels" / "train.tsv").is_file():
        source = load_folder(folder, split="train")
    else:
        typer.echo("tuning on the same queries that are retrieved: their scores will look too good", err=True)
    queries = [query for query in source.queries.values() if source.qrels.relevant(query.id)]
    if not queries:
        raise SettingsError(f"no query of {train or folder} has a relevant document: --tune needs judged queries")
    return queries, source.qrels


def _tuned(
    bm25: "BM25", feedback: "RM3Settings", queries: "list[Query]", worth: "Objective", *, depth: int, with_rm3: bool
) -> "tuple[BM25, RM3Settings]":
    from longrank.retrieval.tuning import tune_bm25, tune_rm3

    found = tune_bm25(bm25, queries, worth, depth=depth)
    typer.echo(f"k1 {found.best.k1:g}, b {found.best.b:g}: {found.value:.4f} on {len(queries)} queries")
    bm25 = bm25.at(k1=found.best.k1, b=found.best.b)
    if with_rm3:
        widened = tune_rm3(bm25, queries, worth, depth=depth)
        feedback = widened.best
        typer.echo(
            f"feedback of {feedback.documents} documents and {feedback.terms} terms, original weight "
            f"{feedback.original_weight:g}: {widened.value:.4f} on {len(queries)} queries"
        )
    return bm25, feedback


def _explain(rm3: "RM3", queries: "list[Query]") -> None:
    for expansion in rm3.explain(queries):
        terms = ", ".join(f"{term.term} {term.weight:.4f}" for term in expansion.terms)
        typer.echo(f"{expansion.query_id}: {terms or 'no term that a document has'}")
