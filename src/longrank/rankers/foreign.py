"""Other people's cross-encoders as rankers: sentence-transformers, transformers and ONNX models in folders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from longrank.core.errors import MissingExtra, ModelError
from longrank.core.types import Document, Query, Scores
from longrank.encoders.pretrained import safe_weights
from longrank.encoders.products import fast_products

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class CrossEncoderRanker:
    """A CrossEncoder of sentence-transformers with one output."""

    model: Any
    batch: int = 16

    @classmethod
    def load(cls, name: str | Path) -> "CrossEncoderRanker":
        """The model in a folder, or of a hub id."""
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise MissingExtra("sentence-transformers", "adapters", purpose="a CrossEncoder") from None
        try:
            return cls(CrossEncoder(str(name), device="cpu", model_kwargs={"use_safetensors": True}))
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{name} is no CrossEncoder that can be read (safetensors only, pickles are refused): {error}"
            ) from None

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """What ``predict`` gives for each pair, and how many pairs it had to cut."""
        if not documents:
            return Scores([])
        pairs = [(query.text, document.text) for document in documents]
        found = self.model.predict(pairs, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True)
        # called max_length before sentence-transformers 6
        limit = getattr(self.model, "max_seq_length", None) or getattr(self.model, "max_length", None)
        limit = int(limit or self.model.tokenizer.model_max_length)
        return Scores([float(value) for value in found], *_cut(self.model.tokenizer, pairs, limit))


@dataclass(frozen=True)
class ClassifierRanker:
    """A transformers model with a sequence-classification head: its one logit, or the second less the first."""

    model: Any
    tokenizer: Any
    max_tokens: int
    batch: int = 16

    @classmethod
    def load(cls, folder: Path | str) -> "ClassifierRanker":
        """The model in a folder or of a hub id, refused if a weight had to be made up."""
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
            model, missing = safe_weights(AutoModelForSequenceClassification, str(folder))
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no usable transformers model: {error}") from None
        if missing:
            some = ", ".join(missing[:3])
            raise ModelError(f"{folder} lacks weights of its classification head ({some}): it would score at random")
        if model.config.num_labels not in (1, 2):
            raise ModelError(f"{folder} has {model.config.num_labels} labels; a ranker has one, or two: no and yes")
        return cls(model.eval(), tokenizer, _limit(model.config, tokenizer))

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One logit a document, and how many pairs were cut."""
        pairs = [(query.text, document.text) for document in documents]
        values = _in_batches(pairs, self.batch, self._logits)
        return Scores(values, *_cut(self.tokenizer, pairs, self.max_tokens))

    def _logits(self, pairs: Pairs) -> Any:
        import torch

        rows = _rows(self.tokenizer, pairs, self.max_tokens, "pt").to(self.model.device)
        with torch.inference_mode(), fast_products():
            return self.model(**rows).logits.float().cpu().numpy()


@dataclass(frozen=True)
class OnnxRanker:
    """A cross-encoder that was exported to ONNX, with its tokenizer beside it: one logit, or the second less the first.

    Runs by ONNX Runtime, so that PyTorch takes no part in scoring.
    """

    session: Any
    tokenizer: Any
    max_tokens: int
    batch: int = 16

    @classmethod
    def load(cls, folder: Path | str) -> "OnnxRanker":
        """The model in a folder: 'model.onnx' there or in 'onnx', else the only ONNX file."""
        if find_spec("onnxruntime") is None:
            raise MissingExtra("onnxruntime", "onnx", purpose="an ONNX cross-encoder")
        from transformers import AutoConfig, AutoTokenizer

        path = _onnx_file(Path(folder))
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
            config = AutoConfig.from_pretrained(str(folder))
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} needs a tokenizer and a config.json beside its ONNX file: {error}") from None
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return cls(session, tokenizer, _limit(config, tokenizer))

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One logit a document, and how many pairs were cut."""
        pairs = [(query.text, document.text) for document in documents]
        values = _in_batches(pairs, self.batch, self._logits)
        return Scores(values, *_cut(self.tokenizer, pairs, self.max_tokens))

    def _logits(self, pairs: Pairs) -> Any:
        rows = dict(_rows(self.tokenizer, pairs, self.max_tokens, "np"))
        rows.setdefault("token_type_ids", np.zeros_like(rows["input_ids"]))  # what transformers does
        wanted = [given.name for given in self.session.get_inputs()]
        unknown = [name for name in wanted if name not in rows]
        if unknown:
            raise ModelError(f"the ONNX model asks for {', '.join(unknown)}, which its tokenizer does not give")
        return self.session.run(None, {name: np.asarray(rows[name], np.int64) for name in wanted})[0]


def is_onnx(folder: Path) -> bool:
    """Whether a folder holds an ONNX model and no weights of PyTorch."""
    weights = [path for end in ("*.safetensors", "*.bin") for path in folder.glob(end)]
    return not weights and any(folder.rglob("*.onnx"))


def _onnx_file(folder: Path) -> Path:
    found = sorted(folder.rglob("*.onnx"))
    usual = [path for path in (folder / "model.onnx", folder / "onnx" / "model.onnx") if path in found]
    if usual or len(found) == 1:
        return (usual or found)[0]
    said = ", ".join(str(path.relative_to(folder)) for path in found) or "no ONNX file"
    raise ModelError(f"{folder} holds {said}: name the one to use 'model.onnx'")


def _limit(config: Any, tokenizer: Any) -> int:
    """Tokens of a pair: what the positions and the tokenizer allow."""
    positions = getattr(config, "max_position_embeddings", None) or tokenizer.model_max_length
    return min(int(positions), int(tokenizer.model_max_length))


def _rows(tokenizer: Any, pairs: Pairs, limit: int, kind: str) -> Any:
    asked, texts = map(list, zip(*pairs, strict=True))
    return tokenizer(asked, texts, padding=True, truncation="longest_first", max_length=limit, return_tensors=kind)


def _in_batches(pairs: Pairs, size: int, logits: Callable[[Pairs], Any]) -> list[float]:
    """A score a pair, computed among pairs of like length, since a batch is as long as its longest."""
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1]))
    values = [0.0] * len(pairs)
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        found = np.asarray(logits([pairs[at] for at in batch]), dtype=np.float64).reshape(len(batch), -1)
        if found.shape[1] not in (1, 2):
            raise ModelError(f"the model gives {found.shape[1]} numbers a pair; a ranker has one, or two: no and yes")
        scores = found[:, 0] if found.shape[1] == 1 else found[:, 1] - found[:, 0]
        for at, score in zip(batch, scores.tolist(), strict=True):
            values[at] = score
    return values


def _cut(tokenizer: Any, pairs: Pairs, limit: int) -> tuple[int, int]:
    """Pairs longer than the limit, and the tokens that do not fit."""
    if not pairs:
        return 0, 0
    asked, texts = map(list, zip(*pairs, strict=True))
    lengths = [len(ids) for ids in tokenizer(asked, texts, truncation=False, verbose=False)["input_ids"]]
    over = [length - limit for length in lengths if length > limit]
    return len(over), sum(over)
