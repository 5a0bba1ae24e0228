"""``longrank retrieve``: candidates of a collection's queries by BM25, feedback, embeddings, or a mixture."""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.given import finite, given_options
from longrank.cli.models import DeviceOption, RemoteCodeOption

if TYPE_CHECKING:
    from longrank.core.types import Collection, Document, Qrels, Query, Run
    from longrank.retrieval.ann import Approximate
    from longrank.retrieval.bm25 import BM25
    from longrank.retrieval.dense import Dense
    from longrank.retrieval.hybrid import Rescoring
    from longrank.retrieval.index import BM25Settings
    from longrank.retrieval.search import Lexical, Tuner
    from longrank.retrieval.tuning import Objective


class Method(StrEnum):
    """What finds the documents."""

    BM25 = "bm25"
    RM3 = "rm3"
    DENSE = "dense"
    HYBRID = "hybrid"


class Pooled(StrEnum):
    """What a document's chunks are worth together."""

    MAX = "max"
    MEAN = "mean"
    FIRST = "first"


class TokenPooled(StrEnum):
    """Which state of a model is a text's vector."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


class Source(StrEnum):
    """Whose documents a hybrid scores."""

    UNION = "union"
    DENSE = "dense"
    BM25 = "bm25"


_FOR: Mapping[Method, frozenset[str]] = {  # options that only some methods have
    Method.RM3: frozenset({"feedback_documents", "feedback_terms", "original_weight"}),
    Method.DENSE: frozenset(
        {"model", "token_pooling", "chunk_tokens", "chunks", "half", "approximate", "device", "remote_code"}
    ),
    Method.HYBRID: frozenset({"bm25_weight", "candidates"}),
    Method.BM25: frozenset({"k1", "b", "stop_words", "stemming", "predictions", "index"}),
}
_USES = {
    Method.BM25: {Method.BM25},
    Method.RM3: {Method.BM25, Method.RM3},
    Method.DENSE: {Method.DENSE},
    Method.HYBRID: {Method.BM25, Method.DENSE, Method.HYBRID},
}


def retrieve(
    context: typer.Context,
    collection: Annotated[Path, typer.Argument(help="Folder of the collection.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Run file to write (TREC format; .gz is compressed).", dir_okay=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the candidate set; kept in the collection.")] = None,
    method: Annotated[Method, typer.Option(help="Words, words with feedback, embeddings, or both.")] = Method.BM25,
    depth: Annotated[int, typer.Option(min=1, help="Documents a query.")] = 100,
    k1: Annotated[float, typer.Option(help="How soon repeated terms stop counting.")] = 1.2,
    b: Annotated[float, typer.Option(help="How much length counts against a document, 0 to 1.")] = 0.75,
    rm3: Annotated[bool, typer.Option("--rm3", help="The same as --method rm3.")] = False,
    feedback_documents: Annotated[int, typer.Option(min=1, help="RM3: documents taken as feedback.")] = 10,
    feedback_terms: Annotated[int, typer.Option(min=1, help="RM3: terms added.")] = 10,
    original_weight: Annotated[
        float, typer.Option(min=0, max=1, callback=finite, help="RM3: weight of the query itself.")
    ] = 0.5,
    model: Annotated[str | None, typer.Option(help="Dense: transformers folder or hub id; MiniLM by default.")] = None,
    token_pooling: Annotated[TokenPooled, typer.Option(help="Dense: the model's state taken.")] = TokenPooled.MEAN,
    chunk_tokens: Annotated[int, typer.Option(min=1, help="Dense: tokens a chunk of a long document.")] = 200,
    chunks: Annotated[Pooled, typer.Option(help="Dense: best chunk, their mean, or the first.")] = Pooled.MAX,
    half: Annotated[bool, typer.Option("--half", help="Dense: keep vectors as float16.")] = False,
    approximate: Annotated[bool, typer.Option("--approximate", help="Dense: search a graph (extra 'ann').")] = False,
    bm25_weight: Annotated[float, typer.Option(min=0, max=1, callback=finite, help="Hybrid: weight of BM25.")] = 0.5,
    candidates: Annotated[Source, typer.Option(help="Hybrid: whose documents are scored.")] = Source.UNION,
    model1: Annotated[bool, typer.Option("--model1", help="Add learned word translations; needs --tune.")] = False,
    tune: Annotated[str | None, typer.Option(metavar="MEASURE", help="Choose parameters by grid, e.g. RR@10.")] = None,
    train: Annotated[Path | None, typer.Option(help="Collection folder with the queries to tune on.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print each query's terms and weights.")] = False,
    stop_words: Annotated[bool, typer.Option("--stop-words", help="Leave English stop words out.")] = False,
    stemming: Annotated[bool, typer.Option("--stemming", help="Index English stems.")] = False,
    title: Annotated[bool, typer.Option("--title", help="Index the title field beside the text.")] = False,
    predictions: Annotated[Path | None, typer.Option(help="Predicted queries (docid, tab, text) to index.")] = None,
    index: Annotated[Path | None, typer.Option(help="Folder of the index; kept in the collection by default.")] = None,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build the index again.")] = False,
    device: DeviceOption = "cpu",
    remote_code: RemoteCodeOption = None,
    split: Annotated[str | None, typer.Option(help="Only this split's queries; all, or BEIR's test split.")] = None,
    metadata: Annotated[bool, typer.Option("--metadata", help="Begin the run with ir_metadata comments.")] = False,
) -> None:
    """Find the best documents of each query and write them as a run."""
    from longrank.corpora.catalog.folder import load_folder
    from longrank.evaluation.names import parse_measure
    from longrank.retrieval.dense import DenseSettings, EncoderSettings
    from longrank.retrieval.hybrid import HybridSettings
    from longrank.retrieval.rm3 import RM3Settings
    from longrank.retrieval.search import Lexical

    method = _checked(method, rm3=rm3, tune=tune, lexical_only=[*["--model1"] * model1, *["--explain"] * explain])
    _refuse_strange(context, method)
    if train is not None and tune is None:
        raise _wrong(
            "--train names the queries that --tune chooses parameters on: give --tune MEASURE, or leave it out"
        )
    if model1 and tune is None:
        raise _wrong("--model1 is weighed on training queries: name a measure to weigh it by, such as --tune RR@10")
    if tune is not None:
        parse_measure(tune)  # a misspelt one is told before an index is built
    target = _target(collection, out, name)
    whole = load_folder(collection, split=split or "test")
    loaded = _asked(whole, collection, split)
    dense: Rescoring | None = None
    if method in {Method.DENSE, Method.HYBRID}:
        from longrank.retrieval.embedding import open_dense

        encoder = EncoderSettings(
            model=model, token_pooling=token_pooling.value, chunk_tokens=chunk_tokens, title=title
        )
        vectors = DenseSettings(pooling=chunks.value, dtype="float16" if half else "float32")
        exact = open_dense(
            loaded.documents.values(),
            collection / ".longrank",
            encoder,
            vectors,
            rebuild=rebuild,
            device=device,
            remote_code=remote_code,
        )
        dense = _graph(exact, loaded, depth=depth) if approximate else exact
    if method is Method.DENSE and dense is not None:
        origin = {"method": method.value, "chunk_tokens": chunk_tokens, "depth": depth} if metadata else None
        _write(dense.retrieve(loaded.queries.values(), depth=depth), target, name, origin, loaded.name)
        return
    settings = _bm25_settings(k1, b, stop_words=stop_words, stemming=stemming, title=title)
    bm25 = open_index(loaded, collection, settings, place=index, predictions=predictions, rebuild=rebuild)
    feedback = RM3Settings(documents=feedback_documents, terms=feedback_terms, original_weight=original_weight)
    mixture = HybridSettings(bm25_weight=bm25_weight, candidates=candidates.value, pool_depth=max(1000, depth))
    search = Lexical(bm25, feedback if method is Method.RM3 else None, dense, mixture)
    tuner = None if tune is None else _tuner(collection, whole, train, measure=tune, depth=depth)
    run = _found(search, loaded, tuner, depth=depth, model1=model1, explain=explain)
    # tuned parameters are chosen inside: only what was asked for is written down
    asked = {"tuned for": tune} if tune else {"k1": k1, "b": b}
    origin = {"method": method.value, **asked, "depth": depth} if metadata else None
    _write(run, target, name, origin, loaded.name)


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
        (values,) = evaluate(run, qrels, [measure]).values()
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


def _wrong(message: str) -> Exception:
    from longrank.core.errors import SettingsError

    return SettingsError(message)


def _checked(method: Method, *, rm3: bool, tune: str | None, lexical_only: "list[str]") -> Method:
    """The method meant; options that contradict it are refused."""
    if rm3 and method not in {Method.BM25, Method.RM3}:
        raise _wrong(f"--rm3 widens the queries of BM25, not of --method {method.value}: leave one of them out")
    if method is Method.DENSE and (tune is not None or lexical_only):
        given = ", ".join([*["--tune"] * (tune is not None), *lexical_only])
        raise _wrong(f"{given} has no meaning for --method dense, which has no terms or weights: try --method hybrid")
    return Method.RM3 if rm3 else method


def _refuse_strange(context: typer.Context, method: Method) -> None:
    """Refuse options that were given and would do nothing."""
    for other, options in _FOR.items():
        if other not in _USES[method] and (given := given_options(context, sorted(options))):
            shown = ", ".join(given)
            fitting = " or ".join(m.value for m in Method if other in _USES[m])
            raise _wrong(f"{shown} changes nothing for --method {method.value}: leave it out, or take {fitting}")


def _target(folder: Path, out: Path | None, name: str | None) -> Path:
    """Where the run goes: the file given, or the collection's candidates by their name."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise _wrong(f"a candidate set is named by letters, digits, '_' and '-', not {name!r}")
    if out is None and name is None:
        raise _wrong("nowhere to write: give --out FILE, or --name NAME to keep a candidate set in the collection")
    return out if out is not None else folder / "candidates" / f"{name}.trec.gz"


def _asked(loaded: "Collection", folder: Path, split: str | None) -> "Collection":
    """The collection with the queries to retrieve for; a search for nothing, or in nothing, is refused."""
    from longrank.core.errors import DataError
    from longrank.corpora.catalog.folder import detect
    from longrank.corpora.splits import only_split

    layout, documents = detect(folder)
    if not loaded.documents:
        raise DataError(f"{documents} holds no document, so nothing can be found")
    asked = only_split(loaded, folder, split)
    if not loaded.queries:
        raise DataError(f"{folder} has no queries: put them into {layout.queries}, which is not there or is empty")
    if not asked.queries:
        raise DataError(f"split {split!r} of {folder} names no query of the collection")
    return _with_texts(asked, folder, layout.queries)


def _with_texts(asked: "Collection", folder: Path, file: str) -> "Collection":
    """The collection without empty queries: no word can be looked up, and an embedding of nothing is near anything."""
    from longrank.core.errors import DataError

    empty = [query_id for query_id, query in asked.queries.items() if not query.text.strip()]
    if not empty:
        return asked
    if len(empty) == len(asked.queries):
        raise DataError(
            f"all {len(empty)} queries asked for are empty, so there is nothing to search with: put their texts into "
            f"{file} of {folder}"
        )
    shown = ", ".join(empty[:3]) + (", ..." if len(empty) > 3 else "")
    typer.echo(f"left out: {len(empty)} of {len(asked.queries)} queries are empty ({shown})", err=True)
    return replace(asked, queries={q: query for q, query in asked.queries.items() if query.text.strip()})


def _bm25_settings(k1: float, b: float, *, stop_words: bool, stemming: bool, title: bool) -> "BM25Settings":
    from longrank.retrieval.analysis import AnalysisSettings
    from longrank.retrieval.index import BM25Settings

    analysis = AnalysisSettings(
        stop_words="english" if stop_words else "none", stemming="english" if stemming else "none"
    )
    return BM25Settings(k1=k1, b=b, analysis=analysis, fields=("title", "text") if title else ("text",))


def _graph(dense: "Dense", loaded: "Collection", *, depth: int) -> "Approximate":
    """The graph of a dense index, with what it finds of the exact search's documents on some queries."""
    from longrank.retrieval.ann import GRAPH, Approximate

    near = Approximate.open(dense) if (dense.folder / GRAPH).is_file() else Approximate.build(dense)
    sample = list(loaded.queries.values())[:100]
    typer.echo(f"approximate search finds {near.recall(sample, depth=depth):.4f} of the exact on {len(sample)} queries")
    return near


def _found(
    search: "Lexical", loaded: "Collection", tuner: "Tuner | None", *, depth: int, model1: bool, explain: bool
) -> "Run":
    """The run of a search, tuned, explained and with word translations as asked."""
    if tuner is not None:
        search, lines = tuner.tuned(search)
        typer.echo("\n".join(lines))
    if explain:
        _explain(search, list(loaded.queries.values()))
    run = search.retriever().retrieve(loaded.queries.values(), depth=depth)
    if model1 and tuner is not None:
        run, line = tuner.translated(search, run, loaded)
        typer.echo(line)
    return run


def _write(run: "Run", target: Path, name: str | None, origin: Mapping[str, object] | None, collection: str) -> None:
    from longrank.core.errors import DataError
    from longrank.corpora.formats.provenance import run_metadata
    from longrank.corpora.formats.trec import write_run

    if not any(run.scores.values()):
        raise DataError(
            f"none of {len(run)} queries shares a term with any document, so nothing is written: are queries and "
            "documents of one language, and of one collection?"
        )
    run = run if name is None else replace(run, name=name)
    known = None
    if origin is not None:
        command = ["longrank", "retrieve", collection, "--method", str(origin["method"])]
        known = run_metadata(run, collection=collection, command=command, stages=[{"name": run.name, **origin}])
    write_run(target, run, metadata=known)
    empty = len(run.notes.dropped_queries)
    typer.echo(
        f"{target}: {len(run) - empty} queries, {sum(map(len, run.scores.values()))} documents"
        + (f"; {empty} queries share no term with any document" if empty else "")
    )
    if name is not None:
        typer.echo(f"in a training file, under [candidates]: {name} = {json.dumps(str(target), ensure_ascii=False)}")
    typer.echo(f"peak memory {peak_megabytes():.0f} MB", err=True)


def _tuner(folder: Path, loaded: "Collection", train: Path | None, *, measure: str, depth: int) -> "Tuner":
    """Judged queries to tune on: of the folder named, of a train split, or else the collection's own."""
    from longrank.corpora.catalog.folder import load_folder
    from longrank.retrieval.search import Tuner

    source = loaded
    if train is not None:
        source = load_folder(train)
    elif (folder / "qrels" / "train.tsv").is_file():
        source = load_folder(folder, split="train")
    elif (split := _train_split(folder)) is not None:
        source = replace(loaded, queries={q: query for q, query in loaded.queries.items() if q in split})
    else:
        typer.echo("tuning on the same queries that are retrieved: their scores will look too good", err=True)
    queries = [query for query in source.queries.values() if source.qrels.relevant(query.id)]
    if not queries:
        raise _wrong(f"no query of {train or folder} has a relevant document: --tune needs judged queries")
    return Tuner(queries, source.qrels, objective(measure, source.qrels), depth)


def _train_split(folder: Path) -> frozenset[str] | None:
    from longrank.core.errors import DataError
    from longrank.corpora.splits import read_split

    try:
        return frozenset(read_split(folder, "train")) or None
    except DataError:  # no splits, or none of that name
        return None


def _explain(search: "Lexical", queries: "list[Query]") -> None:
    from longrank.retrieval.rm3 import RM3, RM3Settings

    for expansion in RM3(search.bm25, search.feedback or RM3Settings(original_weight=1.0)).explain(queries):
        terms = ", ".join(f"{term.term} {term.weight:.4f}" for term in expansion.terms)
        typer.echo(f"{expansion.query_id}: {terms or 'no term that a document has'}")
