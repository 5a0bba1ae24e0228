"""``longrank show``: a document with its evidence marked."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from longrank.cli.profile import (
    Method,
    PassagesFile,
    TokenizerName,
    TokenizerOption,
    load_collection,
    make_estimator,
    make_tokenizer,
)


def show(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.")],
    query: Annotated[str, typer.Argument(help="Id of a query.")],
    document: Annotated[str, typer.Argument(help="Id of a document relevant to it.")],
    *,
    method: Annotated[Method, typer.Option("--method", help="gold, match or align.")] = Method.gold,
    passages: PassagesFile = None,
    tokenizer: TokenizerOption = TokenizerName.words,
    context: Annotated[
        int | None, typer.Option("--context", min=0, help="Only so many characters around the evidence.")
    ] = None,
) -> None:
    """Print a document with the evidence for a query in bold, and where it stands.

    longrank show my-collection 262 doc000 --context 300
    """
    from longrank.core.errors import SettingsError, UnknownDocument
    from longrank.positions.showing import mark_evidence

    if method in (Method.fira, Method.fira_raw):
        raise SettingsError("FiRA has no texts to show; use --method gold, match or align")
    loaded, counted = load_collection(collection), make_tokenizer(tokenizer)
    if query not in loaded.queries or document not in loaded.documents:
        kind, name = ("query", query) if query not in loaded.queries else ("document", document)
        raise UnknownDocument(f"no {kind} {name!r} in collection {loaded.name!r}")
    text = loaded.documents[document]
    located = make_estimator(method, loaded, counted, passages).locate(loaded.queries[query], text)
    tokens = counted.tokenize(text.text)
    typer.echo(f"Query {query}: {loaded.queries[query].text}")
    typer.echo(f"Document {document}: {len(tokens)} tokens of {counted.name}")
    for span in located.tokens(tokens):
        doubt = ", ambiguous" if located.ambiguous else ""
        typer.echo(f"Evidence at tokens {span.start}-{span.stop} ({located.method}, ratio {located.ratio:.2f}{doubt})")
    if not located:
        typer.echo(f"No evidence located: {located.reason}")
    mark = _bold if sys.stdout.isatty() else None
    typer.echo("\n" + mark_evidence(text.text, located.spans, mark=mark, context=context))


def _bold(evidence: str) -> str:
    return typer.style(evidence, bold=True, reverse=True)
