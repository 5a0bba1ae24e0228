"""``longrank export``: a trained ranker in a form that others can load, and on a hub if asked for."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from longrank.rankers.model_card import ModelCard
    from longrank.rankers.neural import NeuralRanker


class Form(StrEnum):
    """What is written: the whole ranker, or one piece's scorer that other libraries know."""

    RANKER = "ranker"
    CLASSIFIER = "classifier"


def export(
    ranker: Annotated[Path, typer.Argument(help="A checkpoint folder, or a cross-encoder's.", exists=True)],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    *,
    form: Annotated[
        Form, typer.Option(help="The whole ranker, or FirstP/MaxP as a plain sequence classifier.")
    ] = Form.RANKER,
    onnx: Annotated[bool, typer.Option("--onnx", help="Classifier: an ONNX file too (extra 'onnx').")] = False,
    card: Annotated[Path | None, typer.Option("--card", help="TOML file with what the README should say.")] = None,
    audit: Annotated[Path | None, typer.Option("--audit", help="card.json of an audit, for the README.")] = None,
    push: Annotated[str | None, typer.Option("--push", metavar="MAKER/NAME", help="Upload it to the hub.")] = None,
    private: Annotated[bool, typer.Option("--private", help="Make the hub's repository private.")] = False,
) -> None:
    """Write a ranker with its README; the classifier is loaded again and compared before its folder appears.

    A classifier loads in transformers, sentence-transformers, TEI and vLLM, and scores one piece of text at a time.

    longrank export runs/maxp published/maxp --form classifier --onnx
    """
    from longrank.core.errors import SettingsError
    from longrank.rankers.exporting import export_classifier
    from longrank.rankers.publishing import push_folder, save_pretrained

    if onnx and form is not Form.CLASSIFIER:
        raise SettingsError("--onnx goes with --form classifier: a whole ranker is no single model")
    if private and push is None:
        raise SettingsError("--private goes with --push: only an upload makes a repository")
    model, words = _loaded(ranker), _card(card, audit)
    if form is Form.CLASSIFIER:
        made = export_classifier(model, out, card=words, onnx=onnx, repo_id=push or "")
        typer.echo(f"{out}: sequence classifier, scores within {made.largest_difference:.1g} of the ranker's")
    else:
        save_pretrained(model, out, card=words, repo_id=push or "")
        typer.echo(f"{out}: ranker with README")
    if push is not None:
        typer.echo(f"uploaded to {push_folder(out, push, private=private)}")


def _loaded(name: Path) -> "NeuralRanker":
    from longrank.core.errors import ModelError
    from longrank.rankers.loading import load
    from longrank.rankers.neural import NeuralRanker

    model = load(name)
    if not isinstance(model, NeuralRanker):
        raise ModelError(f"{name} is not a ranker that was trained here: only those are exported")
    return model


def _card(path: Path | None, audit: Path | None) -> "ModelCard":
    from longrank.core.settings import load_settings
    from longrank.rankers.model_card import AuditNote, ModelCard

    words = ModelCard() if path is None else load_settings(ModelCard, path)
    if audit is None:
        return words
    from longrank.audit.card import read_card

    found = read_card(audit)
    note = AuditNote(
        outcome=found.outcome.value,
        sentence=found.sentence,
        queries=found.queries_answered,
        lengths=found.design.lengths,
        data=found.design.data,
    )
    return words.model_copy(update={"audit": note})
