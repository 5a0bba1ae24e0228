"""``longrank make``: collections whose relevant positions are known, and training data without position bias."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longrank.cli.given import given_options
from longrank.cli.profile import TokenizerName, TokenizerOption, make_tokenizer

if TYPE_CHECKING:
    from longrank.core.types import Collection
    from longrank.synthetic.far_relevant import FarRelevant, FarRelevantSettings
    from longrank.synthetic.longembed import Task

make_app = typer.Typer(help="Make collections with known positions, and de-biased training data.", no_args_is_help=True)

CHECKED = 9  # candidates a query of the leak tests, where a collection has no distractors of its own
THRESHOLD_MISSED = 3


class FolderFormat(StrEnum):
    """Files a collection is written as."""

    jsonl = "jsonl"
    beir = "beir"
    flexneuart = "flexneuart"


class ToyScale(StrEnum):
    """Lengths of documents: those of the papers, or a quarter of them."""

    laptop = "laptop"
    paper = "paper"


class PlacePolicy(StrEnum):
    """Where relevant passages are put."""

    beyond = "beyond"
    msmarco = "msmarco"
    uniform = "uniform"
    early = "early"
    middle = "middle"
    late = "late"


class RecipeReading(StrEnum):
    """How the papers' recipe is read: the drawn length binds, or it does not."""

    consistent = "consistent"
    literal = "literal"


class DistractorKind(StrEnum):
    """Which passages distractor documents hold."""

    random = "random"
    bm25 = "bm25"
    same_topic = "same-topic"


class ShuffleUnit(StrEnum):
    """What is shuffled."""

    words = "words"
    sentences = "sentences"


Out = Annotated[Path, typer.Option("--out", help="Folder to write; an earlier one made here is replaced.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")]
OutFormat = Annotated[FolderFormat, typer.Option("--format", help="Files to write.")]
Source = Annotated[
    str, typer.Argument(help="Passages with queries and judgements: a folder, an ir_datasets id, or 'toy'.")
]
Evidence = Annotated[
    int | None, typer.Option("--evidence", min=1, help="Keep so many passages as evidence; all others are filler.")
]
Licence = Annotated[str, typer.Option("--licence", help="Licence of the source, written into origin.json.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes; the bytes do not depend on them.")]
Boundary = Annotated[
    int, typer.Option("--boundary", min=0, help="Tokens before the evidence (beyond), or of a chunk (msmarco).")
]
MaxTokens = Annotated[int, typer.Option("--max-tokens", min=1, help="Longest document.")]
Lengths = Annotated[list[int] | None, typer.Option("--length", help="Length cells, taken in turn; repeat for several.")]
Reserve = Annotated[
    list[Path] | None,
    typer.Option("--reserve", help="Judgements of other splits (TREC, or BEIR's .tsv): what they want is no filler."),
]
BeirSplit = Annotated[
    str, typer.Option("--split", help="Split of a BEIR folder to read; the evidence of its others is no filler.")
]
OneSplit = Annotated[int, typer.Option(min=0, help="Queries of this split; the rest is for training.")]


@make_app.command("toy")
def toy(
    *,
    out: Out,
    scale: Annotated[ToyScale, typer.Option("--scale", help="Lengths: laptop, or the papers'.")] = ToyScale.laptop,
    passages: Annotated[int | None, typer.Option("--passages", help="Passages of the encyclopedia.")] = None,
    train: Annotated[int, typer.Option("--train", min=0, help="Training queries.")] = 1_600,
    dev: Annotated[int, typer.Option("--dev", min=0, help="Validation queries.")] = 100,
    test: Annotated[int, typer.Option("--test", min=0, help="Test queries.")] = 200,
    seed: Seed = 0,
    folder_format: OutFormat = FolderFormat.jsonl,
) -> None:
    """Make the toy world: toy/ (evidence mostly first) and toy-far/ (evidence far behind), of the same passages.

    longrank make toy --out toy-world --test 200 --train 1600
    """
    from longrank.core.settings import parse_settings
    from longrank.synthetic.toy import ToySettings, make_toy
    from longrank.synthetic.writing import write_toy

    sizes = {"train": train, "dev": dev, "test": test, "passages": passages}
    table = {"seed": seed, "scale": scale.value, **sizes}
    settings = parse_settings(ToySettings, table, source="longrank make toy")
    world = make_toy(settings)
    write_toy(world, out, settings=settings, format=folder_format.value)
    typer.echo(f"{out}: toy and toy-far, {len(world.toy.documents)} documents each, and evidence.jsonl")


@make_app.command("far-relevant")
def far_relevant(
    context: typer.Context,
    source: Source,
    *,
    out: Out,
    policy: Annotated[PlacePolicy, typer.Option("--policy", help="Where the evidence goes.")] = PlacePolicy.beyond,
    reading: Annotated[
        RecipeReading, typer.Option("--reading", help="Reading of the papers' recipe.")
    ] = RecipeReading.consistent,
    boundary: Boundary = 512,
    max_tokens: MaxTokens = 1431,
    lengths: Lengths = None,
    relevant: Annotated[int, typer.Option("--relevant", min=1, help="Relevant passages a document.")] = 1,
    evidence: Evidence = None,
    reserve: Reserve = None,
    split: BeirSplit = "test",
    dev: OneSplit = 0,
    test: OneSplit = 0,
    distractors: Annotated[int, typer.Option("--distractors", min=0, help="Distractor documents a query.")] = 0,
    kind: Annotated[
        DistractorKind, typer.Option("--distractor-kind", help="What their planted passages are.")
    ] = DistractorKind.random,
    tokenizer: TokenizerOption = TokenizerName.bert,
    check: Annotated[bool, typer.Option("--check", help="Run the leak tests; exit code 3 if one is flagged.")] = False,
    licence: Licence = "that of the source",
    workers: Workers = 1,
    seed: Seed = 0,
    folder_format: OutFormat = FolderFormat.jsonl,
) -> None:
    """Plant relevant passages in documents of filler: FarRelevant, or a counterbalanced form of it.

    longrank make far-relevant my-passages --out far --evidence 800 --test 200 --check
    """
    from longrank.core.errors import SettingsError
    from longrank.core.settings import parse_settings
    from longrank.synthetic.far_relevant import FarRelevantSettings

    if given_options(context, ["kind"]) and (source == "toy" or not distractors):
        why = "the toy world has its own" if source == "toy" else "there are none without --distractors"
        raise SettingsError(f"--distractor-kind says what distractor documents hold, and {why}: leave it out")
    if source == "toy" and (unused := given_options(context, ["reserve", "split"])):
        raise SettingsError(f"{', '.join(unused)} is for collections with several splits, and the toy world has none")
    placing = {"policy": policy.value, "reading": reading.value, "boundary": boundary, "max_tokens": max_tokens}
    division = {"seed": seed, "relevant": relevant, "evidence": evidence, "dev": dev, "test": test}
    table = {
        "seed": seed,
        "placing": {**placing, "lengths": tuple(lengths or ())},
        "division": division,
        "distractors": distractors,
    }
    settings = parse_settings(FarRelevantSettings, table, source="longrank make far-relevant")
    reserved = _relevant_in([*(reserve or []), *_other_splits(source, split)])
    maker = _maker(source, settings, tokenizer, out, kind, split=split, reserved=reserved)
    _write(maker, out, source=source, licence=licence, workers=workers, folder_format=folder_format)
    if check:
        _check(maker, tokenizer)


@make_app.command("counterfactual")
def counterfactual(
    source: Source,
    *,
    out: Out,
    slots: Annotated[int, typer.Option("--slots", min=2, help="Places the evidence is moved through.")] = 8,
    lengths: Lengths = None,
    evidence: Evidence = None,
    split: BeirSplit = "test",
    tokenizer: TokenizerOption = TokenizerName.bert,
    licence: Licence = "that of the source",
    workers: Workers = 1,
    seed: Seed = 0,
    folder_format: OutFormat = FolderFormat.jsonl,
) -> None:
    """Write every document several times, the evidence moved from first to last place and all else the same.

    longrank make counterfactual my-passages --out moved --slots 8 --length 512 --length 1024
    """
    from longrank.core.settings import parse_settings
    from longrank.synthetic.far_relevant import FarRelevantSettings

    cells = tuple(lengths or (1024,))
    placing = {"policy": "uniform", "lengths": cells, "max_tokens": max(cells)}
    table = {"seed": seed, "placing": placing, "division": {"seed": seed, "evidence": evidence}, "slots": slots}
    settings = parse_settings(FarRelevantSettings, table, source="longrank make counterfactual")
    reserved = _relevant_in(_other_splits(source, split))
    maker = _maker(source, settings, tokenizer, out, DistractorKind.random, split=split, reserved=reserved)
    _write(maker, out, source=source, licence=licence, workers=workers, folder_format=folder_format)


@make_app.command("needle")
def needle(*, out: Out, tokenizer: TokenizerOption = TokenizerName.bert, seed: Seed = 0) -> None:
    """Make the needle task: one sentence to find, in documents of 256 to 32,768 tokens, laid out as LongEmbed.

    longrank make needle --out needle
    """
    from longrank.synthetic.longembed import TaskSettings
    from longrank.synthetic.needle import make_needle

    _write_task(make_needle(TaskSettings(seed=seed), make_tokenizer(tokenizer)), out)


@make_app.command("passkey")
def passkey(*, out: Out, tokenizer: TokenizerOption = TokenizerName.bert, seed: Seed = 0) -> None:
    """Make the passkey task: one number to find, in documents of 256 to 32,768 tokens, laid out as LongEmbed.

    longrank make passkey --out passkey
    """
    from longrank.synthetic.longembed import TaskSettings
    from longrank.synthetic.passkey import make_passkey

    _write_task(make_passkey(TaskSettings(seed=seed), make_tokenizer(tokenizer)), out)


@make_app.command("debiased")
def debiased(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection; its splits.json says what is train.")],
    *,
    out: Out,
    segments: Annotated[int, typer.Option("--segments", min=2, help="Segments a document; 2 rotates it.")] = 2,
    unit: Annotated[ShuffleUnit, typer.Option("--unit", help="Cut at words, or sentences.")] = ShuffleUnit.words,
    seed: Seed = 0,
    folder_format: OutFormat = FolderFormat.jsonl,
) -> None:
    """Shuffle the segments of all documents for training: positives and negatives, training queries alone.

    longrank make debiased toy-world/toy --out toy-train-debiased
    """
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.splits import FILE, read_split
    from longrank.synthetic import debias
    from longrank.synthetic.writing import write_collection

    known = (collection / FILE).is_file()
    loaded = load_folder(collection)
    query_ids = read_split(collection, "train") if known else tuple(loaded.queries)
    settings = debias.DebiasSettings(seed=seed, unit=unit.value, segments=segments)
    made = debias.debiased(loaded, settings, query_ids=query_ids)
    kept = tuple(query_id for query_id in query_ids if query_id in made.queries)
    origin = {"made_by": "make debiased", "source": loaded.name, "settings": settings}
    write_collection(made, out, splits={"train": kept}, format=folder_format.value, origin=origin)
    typer.echo(f"{out}: {len(made.documents)} documents shuffled, {len(kept)} training queries")
    if not known:
        typer.echo(f"{collection} has no {FILE}: all its queries were taken as training queries", err=True)


def _maker(
    source: str,
    settings: "FarRelevantSettings",
    tokenizer: TokenizerName,
    out: Path,
    kind: DistractorKind,
    *,
    split: str,
    reserved: frozenset[str],
) -> "FarRelevant":
    from longrank.synthetic import far_relevant as making
    from longrank.synthetic.passages import store_passages
    from longrank.synthetic.toy import ToySettings
    from longrank.synthetic.toy_passages import toy_passages

    counted = make_tokenizer(tokenizer)
    if source == "toy":
        world = toy_passages(ToySettings(seed=settings.seed))
        return making.far_relevant(world.collection, counted, settings, hard=world.hard)
    collection = _load(source, split)
    hard: dict[str, tuple[str, ...]] = {}
    if settings.distractors and kind is DistractorKind.bm25:
        hard = _bm25_hard(collection)
    elif settings.distractors and kind is DistractorKind.same_topic:
        hard = making.same_topic(collection)
    passages = None
    if not isinstance(collection.documents, dict):  # larger than memory: passages are counted onto disk
        named = {name for row in (*collection.qrels.grades.values(), *hard.values()) for name in row}
        folder = out.with_name(f"{out.name}.passages")
        passages = store_passages(folder, collection.documents.values(), counted, ids=named | reserved)
    return making.far_relevant(collection, counted, settings, passages=passages, reserved=reserved, hard=hard)


def _other_splits(source: str, split: str) -> list[Path]:
    """Judgements in a BEIR folder that belong to other splits."""
    paths = sorted(Path(source).glob("qrels/*.tsv*"))
    return [path for path in paths if path.name.partition(".tsv")[0] != split]


def _relevant_in(paths: list[Path]) -> frozenset[str]:
    from longrank.corpora.formats import beir, trec

    judged = [beir.read_qrels(path) if ".tsv" in path.suffixes else trec.read_qrels(path) for path in paths]
    return frozenset(name for qrels in judged for query_id in qrels for name in qrels.relevant(query_id))


def _load(source: str, split: str) -> "Collection":
    from longrank.core.errors import UnknownName
    from longrank.corpora.catalog.folder import load_folder
    from longrank.corpora.catalog.irdatasets import load_irdataset

    if Path(source).is_dir():
        return load_folder(source, split=split)
    try:
        return load_irdataset(source)
    except UnknownName as error:
        raise UnknownName(f"no folder {source}, and {error}") from None


def _bm25_hard(collection: "Collection") -> dict[str, tuple[str, ...]]:
    from tempfile import TemporaryDirectory

    from longrank.retrieval.bm25 import BM25
    from longrank.synthetic.far_relevant import hard_passages

    with TemporaryDirectory() as folder:
        index = BM25.build(collection.documents.values(), Path(folder) / "bm25")
        return hard_passages(index.retrieve(collection.queries.values(), depth=100))


def _write(
    maker: "FarRelevant", out: Path, *, source: str, licence: str, workers: int, folder_format: FolderFormat
) -> None:
    from longrank.synthetic.writing import write_far_relevant

    origin = {"made_by": "make far-relevant", "source": source, "licence": licence}
    written = write_far_relevant(maker, out, format=folder_format.value, origin=origin, workers=workers)
    mean = written.tokens / max(1, written.documents)
    typer.echo(f"{out}: {written.documents} documents of {mean:.0f} tokens on average, {written.queries} queries")
    for reason, count in written.dropped.items():
        if count:
            typer.echo(f"left out: {count} {reason}")


def _check(maker: "FarRelevant", tokenizer: TokenizerName) -> None:
    """Leak tests of the collection as made; without distractors, against hard passages that stand anywhere."""
    from dataclasses import replace

    from longrank.audit.leaks import check_leaks, leak_cases
    from longrank.audit.planted import WordMatch
    from longrank.core.seeds import generator

    if not maker.settings.distractors:
        wanted = {"distractors": CHECKED, "distractor_places": "anywhere"}
        maker = replace(maker, settings=maker.settings.model_copy(update=wanted))
    cases = leak_cases(maker, make_tokenizer(tokenizer), limit=500)
    match = WordMatch.fitted(case.positive.document.text for case in cases)
    report = check_leaks(cases, rankers={"word match": match}, rng=generator("leaks", maker.settings.seed))
    for line in report.lines():
        typer.echo(line)
    if not report.passed:
        raise typer.Exit(THRESHOLD_MISSED)


def _write_task(task: "Task", out: Path) -> None:
    from longrank.synthetic.longembed import write_longembed

    write_longembed(task, out)
    typer.echo(f"{out}: {len(task.collection.documents)} documents, {len(task.collection.queries)} queries")
