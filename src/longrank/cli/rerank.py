"""``longrank rerank``: a ranker orders the candidates of a run anew."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.models import (
    BaseUrlOption,
    BudgetOption,
    CacheOption,
    ChatOption,
    DeviceOption,
    ParamsOption,
    PricesOption,
    RemoteCodeOption,
    named_ranker,
    paid_ranker,
    paid_run,
)

if TYPE_CHECKING:
    from longrank.core.contracts import Ranker
    from longrank.core.types import Collection, Run, Spec
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
    ranker: Annotated[
        str,
        typer.Argument(help="A checkpoint folder, a name ('minilm', 'rankgpt', ...), or what `longrank audit` takes."),
    ],
    collection: Annotated[
        Path, typer.Argument(help="Folder with documents and queries.", exists=True, file_okay=False)
    ],
    *,
    candidates: Annotated[Path, typer.Option("--candidates", help="TREC run with the candidates.", exists=True)],
    out: Annotated[Path, typer.Option("--out", help="TREC run to write.", dir_okay=False)],
    depth: Annotated[int, typer.Option(min=1, help="Candidates a query that are scored.")] = 100,
    split: Annotated[str | None, typer.Option(help="Only the queries of this split (splits.json).")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail rather than cut a document or a query.")] = False,
    device: DeviceOption = "cpu",
    runtime: Annotated[RuntimeName, typer.Option(help="What computes; all but fp32 are compared with fp32.")] = (
        RuntimeName.fp32
    ),
    token_cache: Annotated[
        Path | None, typer.Option("--token-cache", help="Folder that keeps tokens for the next time.", file_okay=False)
    ] = None,
    untrained: Annotated[bool, typer.Option("--untrained", help="Allow a ranker that was never trained.")] = False,
    lengths: Annotated[
        list[str] | None,
        typer.Option("--read", metavar="NAME=TOKENS", help="Read other lengths, e.g. max_tokens=654; repeatable."),
    ] = None,
    params: ParamsOption = None,
    chat: ChatOption = None,
    base_url: BaseUrlOption = None,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    cache: CacheOption = None,
    remote_code: RemoteCodeOption = None,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Begin the run with ir_metadata comments; not every tool reads those.")
    ] = False,
) -> None:
    """Score the top candidates of every query with a ranker and write the new run; what was cut is reported.

    A ranker that asks a paid chat model says what that will cost before, and what it did cost after. Replies are kept,
    so that a command that was stopped pays for nothing twice.

    longrank rerank rankgpt my-collection --candidates bm25.trec --out gpt.trec --chat openai:gpt-4o-mini --budget 5
    """
    from longrank.chunking.token_cache import cache_on_disk
    from longrank.core.addresses import shown_address
    from longrank.core.errors import DataError
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.formats.trec import read_run
    from longrank.corpora.splits import read_split

    spec = named_ranker(ranker, params, chat=chat, base_url=base_url)
    paying = paid_ranker(spec, cache=cache, budget=budget, prices=prices, home=collection)
    texts, asked = load_folder(collection), read_run(candidates)
    wanted = list(asked) if split is None else list(read_split(collection, split))
    if not any(asked.scores.get(query_id) for query_id in wanted):
        raise DataError(f"{candidates} holds no candidate of any query to rerank ({len(wanted)} asked for)")
    job = _Job(asked, texts, depth, wanted, Path(shown_address(ranker)).name.removesuffix(".toml"))
    if paying is not None:
        _check_unused(device != "cpu", runtime is not RuntimeName.fp32, token_cache, lengths, remote_code)
        _write(paid_run(paying, job, spans=texts.spans), out, strict=strict, origin=job if metadata else None)
        return
    exact = _loaded(spec or ranker, device=device, strict=strict, untrained=untrained, remote_code=remote_code)
    exact = exact if not lengths else _reading(exact, lengths)
    disk = None if token_cache is None else cache_on_disk(_ours(exact, "--token-cache").backbone.tokenizer, token_cache)
    model = exact if runtime is RuntimeName.fp32 else _served(_ours(exact, "--runtime"), runtime)
    _announce(model, job)
    run = job(model)
    _write(run, out, strict=strict, origin=job if metadata else None)
    if disk is not None:
        disk.flush()
    if model is not exact:
        from longrank.rankers.runtimes import agreement

        checked = wanted[:: max(1, len(wanted) // _CHECKED)][:_CHECKED]
        reference = replace(job, wanted=checked, name="fp32")(exact)
        typer.echo(f"{runtime.value} against fp32: {agreement(run, reference)}")


@dataclass(frozen=True)
class _Job:
    """Candidates that any ranker can order."""

    asked: "Run"
    texts: "Collection"
    depth: int
    wanted: list[str]
    name: str

    def __call__(self, ranker: "Ranker") -> "Run":
        from longrank.rankers.rerank import rerank as rerank_run

        return rerank_run(ranker, self.asked, self.texts, depth=self.depth, query_ids=self.wanted, name=self.name)


def _write(run: "Run", out: Path, *, strict: bool, origin: _Job | None) -> None:
    from longrank.core.errors import TruncatedInput
    from longrank.corpora.formats.trec import write_run

    if strict and run.notes.cut_documents:
        raise TruncatedInput(
            f"{run.notes.cut_documents} documents were not read to the end ({run.notes.cut_tokens} tokens): nothing is "
            f"written; use a ranker that reads further, or leave --strict out"
        )
    if strict and run.notes.cut_query_tokens:
        raise TruncatedInput(
            f"{run.notes.cut_query_tokens} tokens of queries were not read: nothing is written; shorten the queries, "
            f"use a ranker that reads more of them, or leave --strict out"
        )
    write_run(out, run, metadata=None if origin is None else _origin(run, origin))
    typer.echo(f"{len(run)} queries, {sum(len(row) for row in run.scores.values())} documents -> {out}")
    if run.notes.cut_documents:
        typer.echo(f"cut: {run.notes.cut_documents} documents were not read to the end ({run.notes.cut_tokens} tokens)")
    if run.notes.cut_query_tokens:
        typer.echo(f"cut: {run.notes.cut_query_tokens} tokens of queries were not read")


def _origin(run: "Run", job: _Job) -> dict[str, object]:
    """Where the run comes from, for its first lines."""
    from longrank.corpora.formats.provenance import run_metadata

    first, collection = job.asked.name, job.texts.name
    stages: list[dict[str, object]] = [
        {"name": first, "method": "candidates"},
        {"name": run.name, "method": "longrank rerank", "depth": job.depth, "reranks": first},
    ]
    command = ["longrank", "rerank", run.name, collection, "--candidates", first, "--depth", str(job.depth)]
    return run_metadata(run, collection=collection, command=command, stages=stages, baseline=first)


def _check_unused(*given: object) -> None:
    from longrank.core.errors import SettingsError

    if any(given):
        raise SettingsError(
            "--device, --runtime, --token-cache, --read and --remote-code are for local models: leave them out"
        )


def _loaded(
    ranker: "str | Spec", *, device: str, strict: bool, untrained: bool, remote_code: str | None = None
) -> "Ranker":
    """A ranker of ours on its device, or anyone's."""
    from longrank.core.errors import ModelError
    from longrank.rankers.adapters import resolve
    from longrank.rankers.cross_encoder import is_cross_encoder
    from longrank.rankers.foreign import is_onnx
    from longrank.rankers.loading import load, strictly
    from longrank.rankers.neural import NeuralRanker

    if isinstance(ranker, str) and ranker != "minilm":
        folder = Path(ranker)
        if not (folder / "ranker.json").is_file() and (is_onnx(folder) or not is_cross_encoder(folder)):
            if remote_code is not None:
                raise ModelError("--remote-code is for the folder of a checkpoint or a cross-encoder: leave it out")
            return resolve(ranker, device=device)
    model = load(ranker, device=device, remote_code=remote_code)
    if isinstance(model, NeuralRanker) and not model.trained and not untrained:
        raise ModelError(f"{ranker} was never trained: its order means nothing (--untrained scores with it anyway)")
    return strictly(model) if strict else model


def _reading(model: "Ranker", lengths: list[str]) -> "NeuralRanker":
    from longrank.core.errors import ModelError, SettingsError
    from longrank.core.settings import apply_overrides
    from longrank.rankers.lengths import with_lengths
    from longrank.rankers.neural import NeuralRanker

    if not isinstance(model, NeuralRanker):
        raise ModelError("--read is for checkpoints of trained rankers: leave it out")
    asked = apply_overrides({}, lengths)
    wrong = next((f"{name}={value}" for name, value in asked.items() if type(value) is not int), None)
    if wrong is not None:
        raise SettingsError(f"--read {wrong} is no length: give a number of tokens, e.g. max_tokens=654")
    return with_lengths(model, asked)


def _ours(model: "Ranker", option: str) -> "NeuralRanker | EmbeddingRanker":
    from longrank.core.errors import ModelError
    from longrank.rankers.embedding import EmbeddingRanker
    from longrank.rankers.neural import NeuralRanker

    if not isinstance(model, NeuralRanker | EmbeddingRanker):
        raise ModelError(f"{option} is for checkpoints and 'minilm': leave it out")
    return model


def _served(model: "NeuralRanker | EmbeddingRanker", runtime: RuntimeName) -> "NeuralRanker | EmbeddingRanker":
    from longrank.rankers.runtimes import BATCH_WARNING, with_runtime

    if runtime is RuntimeName.int8:
        typer.echo(f"warning: {BATCH_WARNING}", err=True)
    return with_runtime(model, runtime.value)


def _announce(model: "Ranker", job: _Job) -> None:
    """Say how long it will take, where it may take long."""
    from longrank.rankers.rerank import estimate

    if sum(min(job.depth, len(job.asked.scores.get(query_id, {}))) for query_id in job.wanted) >= _LONG:
        told = estimate(model, job.asked, job.texts, depth=job.depth, query_ids=job.wanted, name=job.name)
        typer.echo(str(told), err=True)
