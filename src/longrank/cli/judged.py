"""A profile by a chat model: what judging may cost, said before; what it did cost, said after."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from longrank.chat.connecting import ChatSettings
    from longrank.core.contracts import Tokenizer
    from longrank.core.types import Collection
    from longrank.positions.judgements import JudgedCollection
    from longrank.positions.profiling import Pair


@dataclass(frozen=True)
class JudgeOptions:
    """What was given on the command line about the judge."""

    chat: str | None = None
    base_url: str | None = None
    cache: Path | None = None
    budget: float | None = None
    prices: Path | None = None
    grades: Path | None = None
    estimate: bool = False

    def refuse(self) -> None:
        """Say that another method asks nobody, if anything was given."""
        from longrank.core.errors import SettingsError

        if self != JudgeOptions():
            raise SettingsError(
                "--chat, --base-url, --cache, --budget, --prices, --grades and --estimate are for --method judge: "
                "leave them out, or judge"
            )

    def settings(self) -> "ChatSettings":
        """The chat model and how it is asked."""
        from longrank.chat.connecting import ChatSettings
        from longrank.core.errors import SettingsError
        from longrank.core.settings import parse_settings

        provider, _, model = (self.chat or "").partition(":")
        if not model:
            given = "none was given" if self.chat is None else f"not {self.chat!r}"
            raise SettingsError(f"--method judge needs --chat provider:model, such as openai:gpt-4o-mini; {given}")
        table = {"provider": provider, "model": model, "base_url": self.base_url}
        return parse_settings(ChatSettings, table, source=f"--chat {self.chat}")


def judge_collection(
    collection: "Collection", tokenizer: "Tokenizer", pairs: "Sequence[Pair]", options: JudgeOptions, *, workers: int
) -> "JudgedCollection":
    """The pairs judged; the account is shown also when judging was stopped half-way."""
    from longrank.chat.connecting import connect
    from longrank.positions.judgements import judge_pairs
    from longrank.positions.judging import ChunkJudge

    settings = options.settings()
    connection = connect(settings, cache=options.cache, budget=options.budget, prices=options.prices)
    try:
        return judge_pairs(collection, ChunkJudge(connection.chat, tokenizer, workers=workers), pairs)
    finally:
        typer.echo(f"account: {connection.meter.account}", err=True)


def announce_cost(
    collection: "Collection", tokenizer: "Tokenizer", pairs: "Sequence[Pair]", options: JudgeOptions
) -> None:
    """Say what judging the pairs costs at most, beyond the replies that are kept; nobody is asked."""
    from longrank.chat.connecting import rehearse
    from longrank.chat.cost import load_prices
    from longrank.positions.judgements import judge_pairs
    from longrank.positions.judging import ChunkJudge

    rehearsal = rehearse(options.settings(), cache=options.cache, prices=options.prices)
    judge_pairs(collection, ChunkJudge(rehearsal, tokenizer), pairs)
    date = load_prices(options.prices).date
    as_of = f"; prices of {date}, check them" if date else ""
    typer.echo(f"estimate: at most about {rehearsal.account}{as_of}", err=True)


def grade_sentences(judged: "JudgedCollection", *, window: int) -> tuple[str, ...]:
    """What a prefix holds by each reading of the grades, and what was judged."""
    readings = {1: "graded 1 or more", 2: "graded 2 or more", 3: "graded 3"}
    return (
        *judged.account(),
        *(
            f"Pieces {readings[grade]}: {profile.prefix_sentence(window)} {profile.bias_sentence()}"
            for grade, profile in judged.profiles().items()
        ),
    )
