"""``longrank probe``: how much of a document a ranker reads."""

from typing import Annotated

import typer

from longrank.cli.audit import RankerName
from longrank.cli.models import (
    BudgetOption,
    DeviceOption,
    PricesOption,
    RepliesOption,
    accounted,
    audited_ranker,
    chat_spec,
    paid_ranker,
)
from longrank.cli.profile import TokenizerName, TokenizerOption, make_tokenizer


def probe(
    ranker: RankerName,
    *,
    longest: Annotated[int, typer.Option("--longest", min=64, help="Words of the longest text to try.")] = 8192,
    queries: Annotated[int, typer.Option("--queries", min=1, max=5, help="Queries that vote.")] = 3,
    tokenizer: TokenizerOption = TokenizerName.words,
    device: DeviceOption = "cpu",
    budget: BudgetOption = None,
    prices: PricesOption = None,
    cache: RepliesOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON in place of sentences.")] = False,
) -> None:
    """Find how many words of a document a ranker reads, which part it cuts, and whether it takes the best chunk.

    Only scores are used, so any ranker can be probed; the number of calls grows with the logarithm of --longest.

    longrank probe http://localhost:8080/rerank
    """
    from longrank.audit.card import window_card
    from longrank.audit.window import probe_window
    from longrank.core.errors import ModelError
    from longrank.reports.card import window_words

    paying = paid_ranker(chat_spec(ranker), cache=cache, budget=budget, prices=prices, home=None)
    scorer, account = audited_ranker(ranker, paying, device=device)
    with accounted(account):
        try:
            found = probe_window(scorer, longest=longest, queries=queries, tokenizer=make_tokenizer(tokenizer))
        except ModelError as error:
            raise ModelError(f"{error}: try a smaller --longest") from error
    card = window_card(found)
    typer.echo(card.model_dump_json(indent=1) if as_json else window_words(card))
