"""``longrank stats``: sizes, lengths and judgements of collections."""

from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.evaluate import TableFormat, show
from longrank.cli.profile import (
    FormatOption,
    TextFormat,
    TokenizerName,
    TokenizerOption,
    load_collection,
    make_tokenizer,
)


def stats(
    collections: Annotated[list[Path], typer.Argument(help="Folders of collections.")],
    *,
    tokenizer: TokenizerOption = TokenizerName.words,
    at_least: Annotated[int, typer.Option("--at-least", help="Grade from which a judgement counts.")] = 1,
    table_format: FormatOption = TextFormat.text,
) -> None:
    """Count documents, queries, tokens and relevant judgements, as in the papers' tables.

    longrank stats my-collection --tokenizer bert
    """
    from longrank.positions.statistics import collection_statistics
    from longrank.reports.position_tables import statistics_table

    counted = make_tokenizer(tokenizer)
    rows = [collection_statistics(load_collection(folder), counted, at_least=at_least) for folder in collections]
    show(statistics_table(rows), TableFormat(table_format.value))
