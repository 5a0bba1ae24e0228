"""``longrank audit``: does a ranker read the whole document?"""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from longrank.cli.given import above_zero, finite
from longrank.cli.models import (
    DeviceOption,
    PricesOption,
    accounted,
    audited_ranker,
    chat_spec,
    in_wrappers,
    paid_ranker,
)
from longrank.cli.profile import TokenizerName, TokenizerOption, make_tokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from longrank.audit.card import Card
    from longrank.audit.design import AuditDesign
    from longrank.audit.run import Audit
    from longrank.audit.settings import AuditSettings
    from longrank.audit.usage import Usage
    from longrank.audit.window import Window
    from longrank.core.contracts import Ranker, Tokenizer
    from longrank.core.types import Collection
    from longrank.rankers.paid import PaidRanker

_REHEARSED = 3  # queries whose prompts are counted to know what all cost
MISSED = 3  # exit code of a threshold that was asked for and missed

RankerName = Annotated[
    str,
    typer.Argument(
        metavar="RANKER",
        help="A checkpoint, transformers or ONNX folder, 'minilm', 'module:function', a TOML file, or an http address "
        "ending in /rerank.",
    ),
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="Folder of a collection with judgements; the toy world if not given.")
]
Queries = Annotated[int | None, typer.Option("--queries", min=8, help="Queries; 100 if not given.")]
Slots = Annotated[int | None, typer.Option("--slots", min=3, help="Places of the relevant passage; 8 if not given.")]
Lengths = Annotated[
    str | None, typer.Option("--lengths", help="Document lengths in tokens; '512,1024,2048' if not given.")
]
Distractors = Annotated[
    int | None, typer.Option("--distractors", min=4, help="Documents to rank it among; 20 if not given.")
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache", help="File that keeps every score, or folder of a chat model's replies: none is paid twice."
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="40 queries, 4 slots, 512 tokens, where not set otherwise.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of texts and draws.")]
Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        callback=finite,
        help="Share of the usable signal that a place may be off the average; .10 or .05.",
    ),
]
Listwise = Annotated[bool, typer.Option("--listwise", help="The ranker's scores hold only within one list.")]
FailIfLost = Annotated[
    float | None,
    typer.Option(
        "--fail-if-lost",
        min=0,
        max=1,
        callback=finite,
        help="Exit with 3 if more than this share of the signal is lost.",
    ),
]


def audit(
    ranker: RankerName,
    *,
    data: DataFolder = None,
    queries: Queries = None,
    slots: Slots = None,
    lengths: Lengths = None,
    distractors: Distractors = None,
    quick: Quick = False,
    tolerance: Tolerance = None,
    seed: Seed = 0,
    device: DeviceOption = "cpu",
    tokenizer: TokenizerOption = TokenizerName.words,
    listwise: Listwise = False,
    name: Annotated[str | None, typer.Option("--name", help="What the ranker is called on its card.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the card; audits/NAME if not given.")] = None,
    probe: Annotated[bool, typer.Option("--probe/--no-probe", help="Find the ranker's window as well.")] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", help="Documents to score at most in this run, or '$5': with --price, or a chat model's."
        ),
    ] = None,
    price: Annotated[
        float | None, typer.Option("--price", callback=above_zero, help="Dollars for a thousand documents.")
    ] = None,
    prices: PricesOption = None,
    cache: Cache = None,
    fail_if_lost: FailIfLost = None,
) -> None:
    """Audit whether a ranker finds evidence wherever it stands in a document.

    The same passage is planted at every slot of the same document. The verdict is robust, biased, inconclusive or not
    auditable. An interrupted audit goes on where it was when it is run again. A chat model's price is said before, and
    what it was paid after.

    longrank audit my-checkpoint --data my-collection --out audits/mine
    """
    from longrank.audit.card import make_card, write_card
    from longrank.audit.run import audit as run_audit
    from longrank.audit.usage import TIMINGS, Usage, write_paid, write_timings
    from longrank.core.disk import folder_name
    from longrank.rankers.adapters import identity, orders_lists, ranker_label
    from longrank.reports.card import window_words, write_card_page

    listwise = listwise or orders_lists(ranker)
    sizes = {"queries": queries, "slots": slots, "distractors": distractors}
    settings = make_settings(sizes, lengths, quick=quick, tolerance=tolerance, seed=seed)
    limit = read_budget(budget)
    label = name or ranker_label(ranker)
    folder = out or Path("audits") / folder_name(label)
    paying = _paying(ranker, limit, price=price, prices=prices, cache=cache, home=folder)
    usage, counted = Usage(), make_tokenizer(tokenizer)
    around = _counted(ranker, usage, counted, cache=cache if paying is None else None, listwise=listwise)
    connect = partial(audited_ranker, ranker, paying, device=device, around=around)
    known = connect() if paying is None else None  # it may be misspelt; a chat model's price is said without a key
    design, _ = prepare(data, settings, counted)
    documents = say_cost(design, listwise=listwise, price=price)
    allowed = limit.documents if paying is not None else allowed_documents(limit, price, total=documents)
    _refuse_less_than_a_query(budget, allowed, documents // len(design.queries))
    if paying is not None:
        _say_chat_cost(ranker, paying, design, listwise=listwise)
    scorer, account = known or connect()
    with accounted(account, partial(write_paid, folder / TIMINGS, design)):
        result = run_audit(
            scorer,
            design,
            name=label,
            identity=identity(ranker),
            journal=folder / "responses.jsonl",
            listwise=listwise,
            budget=allowed,
            announce=_say,
        )
        spent = write_timings(folder / TIMINGS, usage, design, queries=result.responses.fresh)
        card = make_card(result, None)
        write_card(card, folder / "card.json")  # first, so that a probe that fails takes nothing along
        if probe and not result.responses.stopped:
            card = make_card(result, _probed(scorer, design))
            write_card(card, folder / "card.json")
    write_card_page(folder / "card.html", card)
    typer.echo(f"{label}: {outcome_word(result)}. {card.sentence}")
    if card.window is not None:
        typer.echo(window_words(card.window))
    typer.echo(f"Card: {folder / 'card.html'} and {folder / 'card.json'}")
    _say_use(card, spent, usage)
    finish(card, fail_if_lost)


def outcome_word(audit: "Audit") -> str:
    """The verdict in a word; that an audit was stopped is no finding about its ranker."""
    return "not finished" if audit.responses.stopped else audit.findings.outcome.value


def _probed(scorer: "Ranker", design: "AuditDesign") -> "Window | None":
    from longrank.audit.window import LONGEST, probe_window
    from longrank.core.errors import LongrankError

    _say(f"Probing the window with texts of up to {LONGEST:,} words.")
    try:
        return probe_window(scorer, tokenizer=design.tokenizer)
    except LongrankError as error:
        _say(f"the window could not be probed: {error}")
        return None


def _say_use(card: "Card", spent: "Mapping[str, Any]", usage: "Usage") -> None:
    """What was asked, how much that saved, and what was odd about the answers."""
    from longrank.audit.usage import latency_words

    if spent["tokens"] and spent["queries"]:
        fewer = f", {spent['times_fewer_tokens']} times fewer tokens than scoring each list anew"
        typer.echo(
            f"{spent['texts']:,} texts of {spent['tokens']:,} tokens were scored{'' if card.design.listwise else fewer}"
            f", at {latency_words(spent['seconds_per_1000_tokens'])} s for 1,000 tokens."
        )
    if card.unstable_queries:
        typer.echo(f"{card.unstable_queries} of {card.queries_answered} queries were scored differently on a re-run.")
    for what, times in sorted(usage.retried.items()):
        typer.echo(f"The service answered '{what}' {times} times and was asked again.")


def _paying(
    ranker: str, budget: "Budget", *, price: float | None, prices: Path | None, cache: Path | None, home: Path
) -> "PaidRanker | None":
    """The ranker with its money if it asks a paid chat model."""
    from longrank.core.errors import SettingsError

    spec = chat_spec(ranker)
    if spec is None:
        if prices is not None:
            raise SettingsError("--prices is for rankers that ask a chat model: leave it out")
        if budget.dollars is not None and price is None:
            raise SettingsError("a budget in dollars needs --price, the dollars for a thousand documents")
        return None
    if price is not None:
        raise SettingsError("a chat model is paid by the token: leave --price out, --prices takes prices of your own")
    if cache is not None and cache.is_file():
        raise SettingsError(f"{cache} is a file, and a chat model's replies are kept in a folder: name another --cache")
    return paid_ranker(spec, cache=cache, budget=budget.dollars, prices=prices, home=home)


def _counted(
    ranker: str, usage: "Usage", tokenizer: "Tokenizer", *, cache: Path | None, listwise: bool
) -> "Callable[[Ranker], Ranker]":
    """What counts a ranker's use and, where a file is given, keeps its scores there."""
    from longrank.audit.memory import RememberedScores
    from longrank.audit.usage import Metered
    from longrank.core.errors import SettingsError
    from longrank.rankers.adapters import innermost

    if cache is None:
        return lambda scorer: Metered(scorer, tokenizer, usage)
    if listwise:
        raise SettingsError("--cache keeps the scores of single texts, and a listwise ranker's hold only within a list")
    return lambda scorer: RememberedScores(Metered(scorer, tokenizer, usage), cache, innermost(ranker))


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def finish(card: "Card", fail_if_lost: float | None) -> None:
    """End the command: 1 if there is no verdict, 3 if more is lost than was allowed."""
    from longrank.audit.verdict import Outcome

    if card.outcome is Outcome.not_auditable:
        raise typer.Exit(1)
    if fail_if_lost is not None and card.lost is not None and card.lost.value > fail_if_lost:
        typer.echo(
            f"{min(1.0, card.lost.value):.1%} of the usable signal is lost, more than the {fail_if_lost:.1%} allowed."
        )
        raise typer.Exit(MISSED)


def make_settings(
    sizes: "Mapping[str, int | None]", lengths: str | None, *, quick: bool, tolerance: float | None, seed: int
) -> "AuditSettings":
    """Settings from options; what is not given is that of the quick or the usual audit."""
    from longrank.audit.settings import QUICK, SHORTEST, AuditSettings
    from longrank.core.errors import SettingsError
    from longrank.core.settings import parse_settings

    table = (QUICK if quick else AuditSettings()).model_dump() | {"tolerance": tolerance, "seed": seed}
    table |= {name: size for name, size in sizes.items() if size is not None}
    if lengths is not None:
        try:
            table["lengths"] = tuple(sorted({int(part) for part in lengths.split(",")}))
        except ValueError:
            raise SettingsError(f"--lengths takes numbers such as 512,1024, got {lengths!r}") from None
        if table["lengths"][0] < SHORTEST:
            raise SettingsError(f"--lengths takes {SHORTEST} tokens or more, got {lengths!r}")
    return parse_settings(AuditSettings, table, source="audit options")


def prepare(
    data: Path | None, settings: "AuditSettings", tokenizer: "Tokenizer"
) -> "tuple[AuditDesign, Collection | None]":
    """The design over a folder's texts, or over the toy world, and the collection where there is one."""
    from tempfile import TemporaryDirectory

    from longrank.audit.design import make_design
    from longrank.audit.sources import collection_source, cut_passages, evidence_limit, toy_source

    if data is None:
        return make_design(toy_source(settings.queries, seed=settings.seed), settings, tokenizer), None
    from longrank.corpora.catalog.folder import load_folder
    from longrank.retrieval.bm25 import BM25

    collection = load_folder(data)
    passages = cut_passages(collection, tokens=evidence_limit(settings.lengths[0]), tokenizer=tokenizer)
    with TemporaryDirectory() as folder:
        index = BM25.build(passages.values(), Path(folder) / "index")
        source = collection_source(collection, passages, index, settings=settings, tokenizer=tokenizer)
    return make_design(source, settings, tokenizer), collection


class Budget(NamedTuple):
    """What an audit may use up: so many documents, or dollars; without end where both are None."""

    documents: int | None = None
    dollars: float | None = None


def read_budget(text: str | None) -> Budget:
    """The budget that a person wrote; what can be none is refused.

    >>> read_budget("$2.50"), read_budget("300").documents
    (Budget(documents=None, dollars=2.5), 300)
    """
    from longrank.core.errors import SettingsError

    if text is None:
        return Budget()
    try:
        found = Budget(dollars=float(text[1:])) if text.startswith("$") else Budget(documents=int(text))
    except ValueError:
        found = Budget(documents=0)
    if not 0 < (found.documents or found.dollars or 0) < math.inf:  # written so that NaN is refused too
        raise SettingsError(
            f"--budget takes a number of documents or dollars such as '$5', more than 0, got {text!r}; leave it out "
            "for an audit without a limit"
        )
    return found


def allowed_documents(budget: Budget, price: float | None, *, total: int) -> int | None:
    """Documents that a budget allows at the price of a thousand; None for all.

    >>> allowed_documents(Budget(dollars=2.0), 0.5, total=10_000), allowed_documents(Budget(300), None, total=10_000)
    (4000, 300)
    """
    if budget.dollars is None or price is None:
        return budget.documents
    return int(min(total, 1000 * budget.dollars / price))


def _refuse_less_than_a_query(budget: str | None, allowed: int | None, each: int) -> None:
    from longrank.core.errors import SettingsError

    if allowed is not None and allowed < each:
        raise SettingsError(
            f"--budget {budget} allows {allowed} documents, and one query takes {each}: give more, or have fewer with "
            "--slots, --lengths or --distractors"
        )


def _say_chat_cost(ranker: str, paying: "PaidRanker", design: "AuditDesign", *, listwise: bool) -> None:
    """What the whole audit costs at most, from its first queries; nobody is asked."""
    from dataclasses import replace

    from longrank.audit.response import ask
    from longrank.chat.cost import Account

    sample = design.queries[:_REHEARSED]

    def job(model: "Ranker") -> None:
        asked = in_wrappers(ranker, model)
        for query in sample:
            ask(asked, design.probe(query), listwise=listwise)

    one, times = replace(paying, cache=None).estimate(job), len(design.queries) / len(sample)
    whole = Account(
        round(one.calls * times),
        round(one.tokens_in * times),
        round(one.tokens_out * times),
        None if one.dollars is None else one.dollars * times,
    )
    as_of = f"; prices of {paying.price_list.date}, check them" if paying.price_list.date else ""
    _say(f"estimate: the whole audit takes at most about {whole}{as_of}")


def say_cost(design: "AuditDesign", *, listwise: bool, price: float | None) -> int:
    """Say how many documents an audit scores, and give the number."""
    from longrank.audit.response import cost_per_query, naive_cost

    settings, queries = design.settings, len(design.queries)
    each = cost_per_query(settings, listwise=listwise)
    tokens = each * queries * sum(settings.lengths) / len(settings.lengths)
    money = "" if price is None else f", ${each * queries * price / 1000:.2f}"
    size = f"{tokens / 1e6:.1f} million" if tokens >= 1e6 else f"{round(tokens, -3):,.0f}"
    saved = "" if listwise else f"; scoring each list anew would take {naive_cost(settings) / each:.1f} times as many"
    asked = f"{queries} queries{_fewer(design)} x {each} documents = {each * queries:,} documents"
    _say(f"{asked}, about {size} tokens{money}{saved}.")
    return each * queries


def _fewer(design: "AuditDesign") -> str:
    """Why there are fewer queries than were asked for, nothing if there are not."""
    from longrank.audit.sources import counted_reasons

    left_out, wanted = design.source.left_out, design.settings.queries
    if len(design.queries) >= wanted:
        return ""
    return f" ({wanted} were asked for{f'; left out: {counted_reasons(left_out)}' if left_out else ''})"
