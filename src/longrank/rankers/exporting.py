"""FirstP and MaxP as plain sequence classifiers, for transformers, sentence-transformers, TEI, vLLM and ONNX Runtime.

A classifier of transformers puts a dense layer and an activation between [CLS] and the score, where our head is one
linear layer. It is written so that the extra layer does nothing: for BERT (tanh) a small multiple of the identity,
undone by the next layer, because tanh x = x for small x; for ELECTRA (GELU) two rows of opposite sign, because
GELU(x) - GELU(-x) = x. Every export is loaded again and compared with the ranker before its folder appears.
"""

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from longrank.chunking.tokenizers import SubwordTokenizer
from longrank.core.disk import atomic_file, atomic_folder
from longrank.core.errors import MissingExtra, ModelError
from longrank.core.types import Document, Query
from longrank.encoders.packed import PACKABLE
from longrank.encoders.quiet import quiet
from longrank.rankers.aggregators import FirstScore, MaxScore
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.cross_encoder import PublishedHead
from longrank.rankers.layouts import Joint
from longrank.rankers.model_card import ModelCard, readme
from longrank.rankers.neural import NeuralRanker
from longrank.rankers.publishing import reading_of
from longrank.rankers.runtimes import PlainBert

TOLERANCE = 1e-4  # of the largest score, or of 1: above it an export is refused; what is seen is nearer 1e-6
ONNX_FILE = Path("onnx") / "model.onnx"
# a power of two, so that scaling is exact; tanh errs by a third of (x / 8192)^2, and half precision still holds it
_SMALL = 2.0**-13
_CONFIG = "config.json"
_LABEL = "relevance"
_IDENTITY = "torch.nn.modules.linear.Identity"
_PROBES = (
    ("where is the bridge", "The bridge stands over the river since long ago."),
    ("bridge", "Nothing of the kind is told here: 17 birds, a hill and some rain."),
    ("how long does a river take to cut a valley", "A valley."),
    ("who?", "In spring the river is high, and the old bridge is closed for weeks."),
)


@dataclass(frozen=True)
class Exported:
    """A folder that others can load, and by how much its scores differ at most from the ranker's on some pairs."""

    folder: Path
    largest_difference: float


def export_classifier(
    ranker: NeuralRanker, folder: Path | str, *, card: ModelCard | None = None, onnx: bool = False, repo_id: str = ""
) -> Exported:
    """Write a FirstP or MaxP ranker as ``AutoModelForSequenceClassification`` with one logit, tokenizer and README.

    With ``onnx`` the folder also holds onnx/model.onnx with the same inputs. The scores are the ranker's where query
    and text fit into one piece; a longer text must be split by the caller.
    """
    folder = Path(folder)
    tokenizer = _checked(ranker)
    reading = reading_of(ranker)
    with atomic_folder(folder, mark=_CONFIG, holding='"longrank": {', what="an exported classifier") as temporary:
        with quiet():
            _classifier(ranker).save_pretrained(temporary, safe_serialization=True)
        _complete_config(temporary / _CONFIG, ranker)
        _write_tokenizer(temporary, tokenizer, ranker, longest=reading.row_tokens)
        text = readme(card or ModelCard(), reading, form="classifier", repo_id=repo_id)
        (temporary / "README.md").write_text(text, encoding="utf-8")
        differences = [_compared(ranker, _logits(temporary))]
        if onnx:
            export_onnx(ranker, temporary / ONNX_FILE)
            differences.append(_compared(ranker, _onnx_logits(temporary)))
    return Exported(folder, max(differences))


def export_onnx(ranker: NeuralRanker, path: Path | str) -> None:
    """Write a FirstP or MaxP ranker as one ONNX file: input_ids, attention_mask and token_type_ids to logits."""
    _checked(ranker)
    if find_spec("onnx") is None:
        raise MissingExtra("onnx", "onnx", purpose="an ONNX file")
    path = Path(path)
    names = ["input_ids", "attention_mask", "token_type_ids"]
    example = (torch.ones(2, 5, dtype=torch.long), torch.ones(2, 5, dtype=torch.long), torch.zeros(2, 5).long())
    with atomic_file(path) as temporary, warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter that needs no further package says it is the older one
        torch.onnx.export(
            _PlainClassifier(ranker).eval(),
            example,
            str(temporary),
            dynamo=False,
            input_names=names,
            output_names=["logits"],
            dynamic_axes={**{name: {0: "rows", 1: "tokens"} for name in names}, "logits": {0: "rows"}},
            opset_version=20,
        )


class _PlainClassifier(nn.Module):
    """The ranker's encoder and head on padded rows."""

    def __init__(self, ranker: NeuralRanker) -> None:
        super().__init__()
        self.encoder, self.head = PlainBert(ranker.backbone.model), _head(ranker)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Logits [rows, 1]."""
        states = self.encoder(input_ids, token_type_ids, attention_mask.float())
        scores: Tensor = self.head(states[:, 0])
        return scores.unsqueeze(-1)


# -- what can be exported ----------------------------------------------------------------------------------------------


def _checked(ranker: NeuralRanker) -> SubwordTokenizer:
    """The ranker's tokenizer, if a plain classifier can stand for the ranker."""
    if not isinstance(ranker.aggregator, (FirstScore, MaxScore)) or type(ranker.layout) is not Joint:
        raise ModelError(
            f"a plain classifier scores one piece of text, and {type(ranker.aggregator).__name__} over "
            f"{type(ranker.layout).__name__} needs more: only 'firstp', 'longp' and 'maxp' can be exported; "
            f"save_pretrained takes every ranker"
        )
    kind = ranker.backbone.model.config.model_type
    if kind not in PACKABLE or ranker.backbone.pooling != "cls":
        raise ModelError(
            f"a {kind!r} model read by {ranker.backbone.pooling!r} cannot be exported: the backbone must be of type "
            f"{' or '.join(sorted(PACKABLE))}, read at [CLS]"
        )
    tokenizer: Any = ranker.backbone.tokenizer
    while hasattr(tokenizer, "inner"):
        tokenizer = tokenizer.inner
    if not isinstance(tokenizer, SubwordTokenizer):
        raise ModelError(f"tokenizer {tokenizer.name!r} has no file that others can load: use a backbone with one")
    return tokenizer


def _head(ranker: NeuralRanker) -> nn.Module:
    head = ranker.aggregator.head
    if not isinstance(head, (Head, PublishedHead)):
        raise ModelError(f"a head of type {type(head).__name__} cannot be exported")
    return head


# -- the classifier ----------------------------------------------------------------------------------------------------


def _classifier(ranker: NeuralRanker) -> Any:
    """The ranker's model under the head of its own classifier class."""
    import transformers

    inner = ranker.backbone.model
    kind, config = inner.config.model_type, type(inner.config).from_dict(inner.config.to_dict())
    config.num_labels = 1
    config.id2label, config.label2id = {0: _LABEL}, {_LABEL: 0}
    name = {"bert": "BertForSequenceClassification", "electra": "ElectraForSequenceClassification"}[kind]
    with torch.random.fork_rng(devices=[]):
        model = getattr(transformers, name)(config)
    getattr(model, kind).load_state_dict(inner.state_dict(), strict=False)  # the pooler is filled in below
    dense, out = (model.bert.pooler.dense, model.classifier) if kind == "bert" else _electra_layers(model)
    with torch.no_grad():
        _fill(dense, out, _head(ranker), kind)
    return model.float().cpu().eval()


def _electra_layers(model: Any) -> tuple[nn.Linear, nn.Linear]:
    return model.classifier.dense, model.classifier.out_proj


def _fill(dense: nn.Linear, out: nn.Linear, head: nn.Module, kind: str) -> None:
    if isinstance(head, PublishedHead):
        dense.load_state_dict(head.dense.state_dict())
        out.load_state_dict(head.out.state_dict())
        return
    linear: Any = head.linear
    for layer in (dense, out):
        layer.weight.zero_()
        layer.bias.zero_()
    if kind == "bert":
        dense.weight.copy_(torch.eye(len(dense.weight)) * _SMALL)
        out.weight.copy_(linear.weight / _SMALL)
        out.bias.copy_(linear.bias)
        return
    for row, sign in enumerate((1.0, -1.0)):
        dense.weight[row] = sign * linear.weight[0]
        dense.bias[row] = sign * linear.bias[0]
        out.weight[0, row] = sign


def _complete_config(path: Path, ranker: NeuralRanker) -> None:
    """Fields that servers ask for and transformers leaves out where they hold its own defaults."""
    config = json.loads(path.read_text(encoding="utf-8"))
    reading = reading_of(ranker)
    config.setdefault("position_embedding_type", "absolute")
    config.setdefault("pad_token_id", ranker.backbone.specials.pad)
    config["num_labels"] = 1
    config["sentence_transformers"] = {"activation_fn": _IDENTITY}
    config["sbert_ce_default_activation_function"] = _IDENTITY  # the same, as older readers call it
    config["longrank"] = {
        "ranker": reading.ranker,
        "splitter": reading.splitter,
        "layout": reading.layout,
        "aggregator": reading.aggregator,
    }
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write_tokenizer(folder: Path, tokenizer: SubwordTokenizer, ranker: NeuralRanker, *, longest: int) -> None:
    """The tokenizer's file with our framing in it, and the settings that every version of transformers reads."""
    from tokenizers import Tokenizer as FastTokenizer
    from tokenizers.processors import TemplateProcessing

    path = folder / "tokenizer.json"
    tokenizer.save(path)
    fast: Any = FastTokenizer.from_file(str(path))
    specials = ranker.backbone.specials
    if specials.cls is None or specials.sep is None:
        raise ModelError("the backbone has no [CLS] and [SEP] tokens to frame query and text with")
    cls, sep, pad = (fast.id_to_token(number) for number in (specials.cls, specials.sep, specials.pad))
    fast.post_processor = TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B:1 {sep}:1",
        special_tokens=[(cls, specials.cls), (sep, specials.sep)],
    )
    fast.save(str(path))
    named = {"cls_token": cls, "sep_token": sep, "pad_token": pad}
    for name, token in (("unk_token", "[UNK]"), ("mask_token", "[MASK]")):
        if fast.token_to_id(token) is not None:
            named[name] = token
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": longest,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": True,
        **named,
    }
    for file, table in (("tokenizer_config.json", settings), ("special_tokens_map.json", named)):
        (folder / file).write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


# -- the comparison ----------------------------------------------------------------------------------------------------


def _compared(ranker: NeuralRanker, found: Sequence[float]) -> float:
    expected = [ranker.score(Query("q", query), [Document("d", text)]).values[0] for query, text in _PROBES]
    largest = max(abs(ours - theirs) for ours, theirs in zip(expected, found, strict=True))
    if not largest <= TOLERANCE * max(1.0, *map(abs, expected)):
        raise ModelError(f"the exported model's scores differ by {largest:.2g} from the ranker's: nothing was written")
    return largest


def _rows(folder: Path, **kind: Any) -> Any:
    from transformers import AutoTokenizer

    asked, texts = map(list, zip(*_PROBES, strict=True))
    with quiet():
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    return tokenizer(asked, texts, padding=True, truncation=True, **kind)


def _logits(folder: Path) -> list[float]:
    from transformers import AutoModelForSequenceClassification

    with quiet():
        model, report = AutoModelForSequenceClassification.from_pretrained(str(folder), output_loading_info=True)
    if report["missing_keys"]:
        raise ModelError(f"the export lacks {min(report['missing_keys'])!r}")
    with torch.inference_mode():
        found: list[float] = model.eval()(**_rows(folder, return_tensors="pt")).logits[:, 0].tolist()
    return found


def _onnx_logits(folder: Path) -> list[float]:
    if find_spec("onnxruntime") is None:
        raise MissingExtra("onnxruntime", "onnx", purpose="checking an ONNX file")
    runtime = import_module("onnxruntime")
    session = runtime.InferenceSession(str(folder / ONNX_FILE), providers=["CPUExecutionProvider"])
    rows = _rows(folder, return_tensors="np")
    wanted = {one.name for one in session.get_inputs()}
    found = session.run(["logits"], {name: value for name, value in rows.items() if name in wanted})[0]
    return [float(value) for value in found[:, 0]]
