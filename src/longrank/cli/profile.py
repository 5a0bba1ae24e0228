"""``longrank profile``: where in its documents a collection's relevance sits."""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.evaluate import TableFormat, show
from longrank.cli.given import given_options
from longrank.cli.judged import JudgeOptions, announce_cost, grade_sentences, judge_collection
from longrank.cli.models import BaseUrlOption, BudgetOption, CacheOption, ChatOption, PricesOption

if TYPE_CHECKING:
    from longrank.core.contracts import Tokenizer
    from longrank.core.types import Collection
    from longrank.positions.estimators import PositionEstimator
    from longrank.positions.profile import PositionProfile


class Method(StrEnum):
    """How evidence is found."""

    gold = "gold"
    match = "match"
    align = "align"
    fira = "fira"
    fira_raw = "fira-raw"
    judge = "judge"


class TextFormat(StrEnum):
    """What a table is written as; the data itself is written by --out."""

    text = "text"
    markdown = "markdown"
    latex = "latex"


class TokenizerName(StrEnum):
    """What positions are counted in."""

    words = "words"
    bert = "bert"


_UNUSED: Mapping[Method, tuple[str, ...]] = {  # options that a method has no use for
    **dict.fromkeys((Method.gold, Method.match, Method.align), ("piece_grade",)),
    **dict.fromkeys(
        (Method.fira, Method.fira_raw),
        ("passages", "retrieve", "tokenizer", "sample", "seed", "workers", "journal", "piece_grade"),
    ),
    Method.judge: ("passages", "retrieve"),
}
_UNUSED_RETRIEVING = ("at_least", "sample", "seed", "workers", "journal")

FormatOption = Annotated[TextFormat, typer.Option("--format", help="How to write the table.")]
TokenizerOption = Annotated[
    TokenizerName, typer.Option("--tokenizer", help="Unit of positions: words, or BERT's as in the papers.")
]
PassagesFile = Annotated[
    Path | None, typer.Option("--passages", help="JSON lines {query_id, text}: relevant passages to look for.")
]


def profile(
    context: typer.Context,
    collection: Annotated[Path, typer.Argument(help="Folder of a collection, or a FiRA file with --method fira.")],
    *,
    method: Annotated[
        Method,
        typer.Option("--method", help="gold spans; match: the papers' procedure; align: ours; FiRA; judge: a model."),
    ] = Method.gold,
    passages: PassagesFile = None,
    retrieve: Annotated[
        int, typer.Option("--retrieve", min=0, help="match: then look in so many documents by BM25; the papers: 5.")
    ] = 0,
    tokenizer: TokenizerOption = TokenizerName.words,
    at_least: Annotated[int, typer.Option("--at-least", help="Grade from which a document or snippet counts.")] = 1,
    chunk_tokens: Annotated[int, typer.Option("--chunk-tokens", min=1, help="Chunk size of the table.")] = 477,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Profile so many random pairs.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes; judge: questions at once.")] = 1,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Keep finished pairs here; continue if it exists.", dir_okay=False)
    ] = None,
    chat: ChatOption = None,
    base_url: BaseUrlOption = None,
    cache: CacheOption = None,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    piece_grade: Annotated[
        int, typer.Option("--piece-grade", min=1, max=3, help="Judge: grade from which a piece is relevant.")
    ] = 1,
    grades: Annotated[
        Path | None, typer.Option("--grades", help="Judge: write every piece's grade.", dir_okay=False)
    ] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Judge: only say what it would cost.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write the pair records, for longrank ceiling.", dir_okay=False)
    ] = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Write the two histograms as SVG.", dir_okay=False)
    ] = None,
    deciles: Annotated[
        Path | None, typer.Option("--deciles", help="Write relevance by tenth as SVG.", dir_okay=False)
    ] = None,
    table_format: FormatOption = TextFormat.text,
) -> None:
    """Profile where the evidence of relevant documents sits, against chance.

    Says how much a prefix suffices, and whether relevance is placed earlier or later than chance would place it.

    A judge grades pieces of documents. What that costs at most is said before, what it did cost after; replies are
    kept, so the same command goes on where it stopped.

    longrank profile my-collection --tokenizer bert --out my.profile.jsonl --figure positions.svg

    longrank profile my-collection --method judge --chat openai:gpt-4o-mini --budget 5 --sample 200
    """
    from longrank.core.errors import DataError, SettingsError
    from longrank.positions.judgements import write_grades
    from longrank.positions.profiling import profile_positions, relevant_pairs, save_profile
    from longrank.reports.position_tables import profile_table

    if unused := given_options(context, [*_UNUSED[method], *(_UNUSED_RETRIEVING if retrieve else ())]):
        how = f"--method {method.value}{' with --retrieve' if retrieve else ''}"
        raise SettingsError(f"{', '.join(unused)} changes nothing for {how}: leave it out")
    notes: tuple[str, ...] = ()
    options = JudgeOptions(chat, base_url, cache, budget, prices, grades, estimate)
    if method is not Method.judge:
        options.refuse()
    elif journal is not None:
        raise SettingsError(
            "--journal is for other methods: what a judge said is kept in --cache, and goes on from there"
        )
    if method in (Method.fira, Method.fira_raw):
        result = fira_profile(collection, method, at_least)
    elif method is Method.judge:
        loaded, counted = load_collection(collection), make_tokenizer(tokenizer)
        options = replace(options, cache=cache or collection / ".longrank" / "replies")
        pairs = relevant_pairs(loaded, at_least=at_least, sample=sample, seed=seed)
        announce_cost(loaded, counted, pairs, options)
        if estimate:
            return
        judged = judge_collection(loaded, counted, pairs, options, workers=workers)
        if grades is not None:
            write_grades(judged, grades)
        result, notes = judged.profile(at_least=piece_grade), grade_sentences(judged, window=chunk_tokens)
    elif retrieve:
        result = recovered(collection, method, passages, make_tokenizer(tokenizer), depth=retrieve)
    else:
        loaded, counted = load_collection(collection), make_tokenizer(tokenizer)
        result = profile_positions(
            loaded,
            make_estimator(method, loaded, counted, passages),
            counted,
            at_least=at_least,
            sample=sample,
            seed=seed,
            workers=workers,
            journal=journal,
        )
    if not result.records:
        raise DataError(
            f"{collection} has no relevant pair of grade {at_least} or more to profile: lower --at-least, or look at "
            "its judgements with longrank check"
        )
    if out is not None:
        save_profile(result, out)
    _write_figures(result, figure, deciles)
    table = profile_table(result, chunk_tokens=chunk_tokens)
    show(replace(table, notes=table.notes + notes), TableFormat(table_format.value))


def load_collection(folder: Path) -> "Collection":
    """The collection in a folder."""
    from longrank.corpora.catalog.folder import load_folder

    return load_folder(folder)


def make_tokenizer(name: TokenizerName) -> "Tokenizer":
    """The tokenizer of this name."""
    from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer

    return bert_tokenizer() if name is TokenizerName.bert else WordTokenizer()


def make_estimator(
    method: Method, collection: "Collection", tokenizer: "Tokenizer", passages: Path | None
) -> "PositionEstimator":
    """The estimator a method names; matching needs a file of passages."""
    from longrank.core.errors import SettingsError
    from longrank.positions.alignment import PassageAligner
    from longrank.positions.gold import gold_estimator
    from longrank.positions.matching import MatchingEstimator, PassageMatcher

    if method is Method.gold:
        if passages is not None:
            raise SettingsError("--passages is looked for by --method match or align; gold spans need none")
        if not collection.spans:
            raise SettingsError(
                f"collection {collection.name!r} has no spans.jsonl; give --method match or align with --passages"
            )
        return gold_estimator(collection.spans, tokenizer)
    if method is Method.judge:
        raise SettingsError("a judge is asked by longrank profile only; use --method gold, match or align")
    if passages is None:
        raise SettingsError(f"--method {method.value} needs --passages: JSON lines with query_id and text")
    matcher = PassageMatcher() if method is Method.match else PassageAligner()
    return MatchingEstimator(read_passages(passages), matcher)


def recovered(
    folder: Path, method: Method, passages: Path | None, tokenizer: "Tokenizer", *, depth: int
) -> "PositionProfile":
    """The profile of passages looked for in relevant documents and then in those that BM25 finds for them."""
    from longrank.cli.retrieve import open_index
    from longrank.core.errors import SettingsError
    from longrank.positions.recovering import Passage, recover, recovered_profile
    from longrank.retrieval.index import BM25Settings

    if method is not Method.match or passages is None:
        raise SettingsError("--retrieve goes with --method match and --passages")
    wanted = [(query_id, text) for query_id, texts in read_passages(passages).items() for text in texts]
    named = [Passage(f"passage-{number}", query_id, text) for number, (query_id, text) in enumerate(wanted)]
    collection = load_collection(folder)
    index = open_index(collection, folder, BM25Settings())
    return recovered_profile(recover(named, collection, retriever=index, depth=depth), collection, tokenizer)


def read_passages(path: Path) -> dict[str, list[str]]:
    """Passages of each query, in the file's order."""
    from longrank.corpora.formats.records import read_records

    passages: dict[str, list[str]] = {}
    for record in read_records(path):
        passages.setdefault(record.id("query_id"), []).append(record.text("text"))
    return passages


def fira_profile(path: Path, method: Method, at_least: int) -> "PositionProfile":
    """The profile of FiRA's judged snippets, counted in snippets."""
    from longrank.positions.gold import SNIPPETS, read_fira, read_fira_raw
    from longrank.positions.profile import PositionProfile

    snippets = read_fira(path) if method is Method.fira else read_fira_raw(path)
    return PositionProfile("FiRA", SNIPPETS, tuple(one.record(at_least=at_least) for one in snippets))


def _write_figures(result: "PositionProfile", figure: Path | None, deciles: Path | None) -> None:
    from longrank.core.disk import write_atomic

    if figure is not None:
        from longrank.reports.position_plots import first_position_figure

        write_atomic(figure, first_position_figure([result]) + "\n")
    if deciles is not None:
        from longrank.reports.position_plots import decile_figure

        write_atomic(deciles, decile_figure(result) + "\n")
