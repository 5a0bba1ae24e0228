"""``longrank rerank``: a ranker orders the candidates of a run anew."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.core.types import Collection, Run
    from longrank.rankers.embedding import EmbeddingRanker
    from longrank.rankers.neural import NeuralRanker

_LONG = 200  # documents from which on the time is estimated first
_CHECKED = 5  # queries that are scored again in fp32


class RuntimeName(StrEnum):
    """What computes; ``rankers/runtimes.py`` has the same names, and loads PyTorch."""

    fp32 = "fp32"
    bf16 = "bf16"
    int8 = "int8"
    onnx = "onnx"


def rerank(
    ranker: Annotated[str, typer.Argument(help="A checkpoint folder, or 'minilm'.")],
    collection: Annotated[
        Path, typer.Argument(help="Folder with documents and queries.", exists=True, file_okay=False)
    ],
    *,
    candidates: Annotated[Path, typer.Option("--candidates", help="TREC run with the candidates.", exists=True)],
    out: Annotated[Path, typer.Option("--out", help="TREC run to write.")],
    depth: Annotated[int, typer.Option(min=1, help="Candidates a query that are scored.")] = 100,
    split: Annotated[str | None, typer.Option(help="Only the queries of this split (splits.json).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail rather than cut a document.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    runtime: Annotated[RuntimeName, typer.Option(help="What computes; all but fp32 are compared with fp32.")] = (
        RuntimeName.fp32
    ),
    token_cache: Annotated[
        Path | None, typer.Option("--token-cache", help="Folder that keeps tokens for the next time.", file_okay=False)
    ] = None,
    untrained: Annotated[bool, typer.Option("--untrained", help="Allow a ranker that was never trained.")] = False,
) -> None:
    """Score the top candidates of every query with a ranker and write the new run; what was cut is reported."""
    from longrank.chunking.token_cache import cache_on_disk
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.formats.trec import read_run, write_run
    from longrank.corpora.splits import read_split
    from longrank.rankers.rerank import rerank as rerank_run

    exact = _loaded(ranker, device=device, strict=strict, untrained=untrained)
    disk = None if token_cache is None else cache_on_disk(exact.backbone.tokenizer, token_cache)
    model = _served(exact, runtime)
    texts, asked = load_folder(collection), read_run(candidates)
    wanted = list(asked) if split is None else list(read_split(collection, split))
    _announce(model, asked, texts, depth=depth, wanted=wanted)
    run = rerank_run(model, asked, texts, depth=depth, query_ids=wanted, name=Path(ranker).name)
    write_run(out, run)
    if disk is not None:
        disk.flush()
    typer.echo(f"{len(run)} queries, {sum(len(row) for row in run.scores.values())} documents -> {out}")
    if run.notes.cut_documents:
        typer.echo(f"cut: {run.notes.cut_documents} documents were not read to the end ({run.notes.cut_tokens} tokens)")
    if model is not exact:
        from longrank.rankers.runtimes import agreement

        checked = wanted[:: max(1, len(wanted) // _CHECKED)][:_CHECKED]
        reference = rerank_run(exact, asked, texts, depth=depth, query_ids=checked, name="fp32")
        typer.echo(f"{runtime.value} against fp32: {agreement(run, reference)}")


def _loaded(ranker: str, *, device: str, strict: bool, untrained: bool) -> "NeuralRanker | EmbeddingRanker":
    from longrank.core.errors import ModelError
    from longrank.rankers.loading import load
    from longrank.rankers.neural import NeuralRanker

    model = load(ranker).to(device)
    if isinstance(model, NeuralRanker):
        model.strict = strict
        if not model.trained and not untrained:
            raise ModelError(f"{ranker} was never trained: its order means nothing (--untrained scores with it anyway)")
    return model


def _served(model: "NeuralRanker | EmbeddingRanker", runtime: RuntimeName) -> "NeuralRanker | EmbeddingRanker":
    from longrank.core.errors import ModelError
    from longrank.rankers.neural import NeuralRanker
    from longrank.rankers.runtimes import BATCH_WARNING, with_runtime

    if runtime is RuntimeName.fp32:
        return model
    if not isinstance(model, NeuralRanker):
        raise ModelError(f"runtime {runtime.value} is for rankers that were trained here: embeddings run in fp32")
    if runtime is RuntimeName.int8:
        typer.echo(f"warning: {BATCH_WARNING}", err=True)
    return with_runtime(model, runtime.value)


def _announce(
    model: "NeuralRanker | EmbeddingRanker", asked: "Run", texts: "Collection", *, depth: int, wanted: list[str]
) -> None:
    """Say how long it will take, where it may take long."""
    from longrank.rankers.rerank import estimate

    if sum(min(depth, len(asked.scores.get(query_id, {}))) for query_id in wanted) >= _LONG:
        typer.echo(str(estimate(model, asked, texts, depth=depth, query_ids=wanted)), err=True)
