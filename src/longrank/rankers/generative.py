"""Local language models as scorers of passages: true or false, yes or no, or how likely they find the query."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from longrank.chunking.batching import token_budget_batches
from longrank.core.errors import ModelError
from longrank.core.types import TokenizedText
from longrank.encoders.pretrained import model_config, safe_weights
from longrank.encoders.products import fast_products
from longrank.encoders.quiet import quiet

Kind = Literal["seq2seq", "decoder"]

MONO_T5 = "Query: {query} Document: {passage} Relevant:"  # what monoT5 (Nogueira et al. 2020) was trained with
YES_NO = "Query: {query}\nText: {passage}\nQuestion: Does the text answer the query, yes or no?\nAnswer:"
LIKELIHOOD = "Text: {passage}\nA search query that this text answers:"


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A transformers model that writes, with its tokenizer; itself a tokenizer, so that passages can be cut by it.

    ``max_tokens`` is the longest prompt it is given: a longer one is an error, since cutting it would cut the question.
    """

    model: Any
    tokenizer: Any
    kind: Kind
    max_tokens: int
    name: str
    token_budget: int = 4096

    def tokenize(self, text: str) -> TokenizedText:
        """Tokens of a text with their characters, without special ones."""
        found = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets = np.array(found["offset_mapping"], dtype=np.int32).reshape(-1, 2)
        return TokenizedText(text, self.name, np.array(found["input_ids"], np.int32), offsets[:, 0], offsets[:, 1])

    def prompt(self, text: str) -> list[int]:
        """Ids of a prompt; an encoder's prompt ends with the end mark, as in training."""
        ids: list[int] = self.tokenizer(text, verbose=False)["input_ids"]
        if self.kind == "seq2seq" and ids[-1:] != [self.tokenizer.eos_token_id]:
            ids = [*ids, self.tokenizer.eos_token_id]
        return ids

    def word(self, text: str) -> int:
        """Id of a word's first token."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        if not ids or ids[0] == self.tokenizer.unk_token_id:
            raise ModelError(f"{self.name} has no token for {text.strip()!r}: it cannot answer with it")
        return ids[0]

    def last_logits(self, prompts: Sequence[list[int]], keep: int = 1) -> list[Tensor]:
        """For each prompt the logits [keep, words] of its last tokens, or of the first word that answers it."""
        longest = max(map(len, prompts), default=0)
        if longest > self.max_tokens:
            raise ModelError(
                f"a prompt of {longest} tokens does not fit {self.name}, which is given {self.max_tokens}: "
                f"use smaller chunks"
            )
        found: list[Tensor] = [torch.empty(0)] * len(prompts)
        for batch in token_budget_batches([len(prompt) for prompt in prompts], budget=self.token_budget):
            with fast_products():
                logits = self._forward([prompts[i] for i in batch], keep)
            for i, own in zip(batch, logits, strict=True):
                found[i] = own
        return found

    @torch.inference_mode()
    def _forward(self, prompts: Sequence[list[int]], keep: int) -> Tensor:
        width = max(map(len, prompts))
        pad = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else 0
        ids = torch.full((len(prompts), width), pad)
        mask = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):  # padded on the left, so that every prompt's end is the row's end
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            mask[row, width - len(prompt) :] = 1
        device = next(self.model.parameters()).device
        inputs = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        if self.kind == "seq2seq":
            # an encoder without absolute positions, such as T5's, reads padding on either side alike
            start = torch.full((len(prompts), 1), self.model.config.decoder_start_token_id, device=device)
            return self.model(**inputs, decoder_input_ids=start).logits.float().cpu()  # type: ignore[no-any-return]
        known = inspect.signature(self.model.forward).parameters
        if "position_ids" in known:
            inputs["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0).to(device)
        if "logits_to_keep" in known:  # logits of all tokens would take gigabytes
            inputs["logits_to_keep"] = keep  # type: ignore[assignment]
        return self.model(**inputs).logits[:, -keep:].float().cpu()  # type: ignore[no-any-return]


def load_language_model(
    model: str, *, kind: Kind, max_tokens: int | None = None, gguf_file: str | None = None
) -> LanguageModel:
    """A language model from a folder or hub id; weights that would be newly initialised are an error.

    ``max_tokens`` defaults to the positions of a decoder and to 512 for an encoder-decoder, which has no limit of its
    own.
    """
    import transformers

    maker: Any = transformers.AutoModelForSeq2SeqLM if kind == "seq2seq" else transformers.AutoModelForCausalLM
    extra: dict[str, Any] = {"gguf_file": gguf_file, "use_safetensors": None} if gguf_file else {}
    if not gguf_file:
        model_config(model)
    loaded, missing = safe_weights(maker, model, dtype="auto", **extra)
    with quiet():
        tokenizer = transformers.AutoTokenizer.from_pretrained(model, **({"gguf_file": gguf_file} if gguf_file else {}))
    if missing:
        raise ModelError(f"{model} lacks weights for {len(missing)} parameters (first: {missing[0]!r}): wrong model?")
    limit = 512 if kind == "seq2seq" else int(getattr(loaded.config, "max_position_embeddings", 0) or 2048)
    name = gguf_file or Path(model).name
    return LanguageModel(loaded.eval(), tokenizer, kind, max_tokens or limit, name.removesuffix(".gguf"))


@dataclass(frozen=True, eq=False)
class OneOfTwo:
    """Log-probability of the good answer against the bad one, as the first word after a prompt."""

    language_model: LanguageModel
    template: str
    good: str
    bad: str

    def passage_scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """One number below zero a passage."""
        words = [self.language_model.word(self.good), self.language_model.word(self.bad)]
        if words[0] == words[1]:
            raise ModelError(f"{self.language_model.name} begins {self.good!r} and {self.bad!r} with the same token")
        prompts = _prompts(self.language_model, self.template, query, passages)
        return [float(logits[-1, words].log_softmax(0)[0]) for logits in self.language_model.last_logits(prompts)]


def mono_t5(language_model: LanguageModel) -> OneOfTwo:
    """The scorer of monoT5: true against false, in the words it was trained with."""
    return OneOfTwo(language_model, MONO_T5, "true", "false")


def yes_or_no(language_model: LanguageModel) -> OneOfTwo:
    """A decoder asked whether the passage answers the query."""
    return OneOfTwo(language_model, YES_NO, " yes", " no")


@dataclass(frozen=True, eq=False)
class QueryLikelihood:
    """Mean log-probability of the query's tokens after the passage, from a decoder (Sachan et al. 2022)."""

    language_model: LanguageModel
    template: str = LIKELIHOOD

    def passage_scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """One number below zero a passage; of passages for the same query only."""
        model = self.language_model
        asked: list[int] = model.tokenizer(" " + query.strip(), add_special_tokens=False, verbose=False)["input_ids"]
        if not asked:
            return [0.0] * len(passages)
        prompts = [[*prompt, *asked] for prompt in _prompts(model, self.template, "", passages)]
        target = torch.tensor(asked)[:, None]
        found = model.last_logits(prompts, keep=len(asked) + 1)
        return [float(logits[:-1].log_softmax(-1).gather(1, target).mean()) for logits in found]


def _prompts(model: LanguageModel, template: str, query: str, passages: Sequence[str]) -> list[list[int]]:
    return [model.prompt(template.format(query=query, passage=passage)) for passage in passages]
