"""``longrank stats``: sizes, lengths and judgements of collections."""

from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.evaluate import TableFormat, show
from longrank.cli.given import given_options
from longrank.cli.profile import (
    FormatOption,
    TextFormat,
    TokenizerName,
    TokenizerOption,
    load_collection,
    make_tokenizer,
)


def stats(
    context: typer.Context,
    collections: Annotated[list[Path] | None, typer.Argument(help="Folders of collections.")] = None,
    *,
    profile: Annotated[
        list[Path] | None, typer.Option("--profile", help="Count passages a document in longrank profile --out files.")
    ] = None,
    passage_tokens: Annotated[
        int, typer.Option("--passage-tokens", min=1, help="Relevant sentences so close are one passage.")
    ] = 130,
    tokenizer: TokenizerOption = TokenizerName.words,
    at_least: Annotated[int, typer.Option("--at-least", help="Grade from which a judgement counts.")] = 1,
    table_format: FormatOption = TextFormat.text,
) -> None:
    """Count documents, queries, tokens and relevant judgements, as in the papers' tables.

    With --profile, also how many relevant passages a document has.

    longrank stats my-collection --tokenizer bert --profile my.profile.jsonl
    """
    from longrank.core.errors import SettingsError
    from longrank.positions.profiling import load_profile
    from longrank.positions.statistics import collection_statistics
    from longrank.reports.position_tables import passage_count_table, statistics_table

    if not collections and not profile:
        raise SettingsError("nothing to count: name a collection's folder, or a profile with --profile")
    unused = [*(() if profile else ("passage_tokens",)), *(() if collections else ("tokenizer", "at_least"))]
    if without := given_options(context, unused):
        wanted = "a profile" if collections else "a collection"
        raise SettingsError(f"{', '.join(without)} changes nothing without {wanted}: name one, or leave it out")
    if collections:
        counted = make_tokenizer(tokenizer)
        rows = [collection_statistics(load_collection(folder), counted, at_least=at_least) for folder in collections]
        show(statistics_table(rows), TableFormat(table_format.value))
    if profile:
        table = passage_count_table({path.name: load_profile(path) for path in profile}, max_tokens=passage_tokens)
        show(table, TableFormat(table_format.value))
