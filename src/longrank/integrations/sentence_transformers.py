"""A ranker in the shape of sentence-transformers' ``CrossEncoder``: its calls, over texts of any length."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from longrank.integrations.scoring import RankerOrName, as_ranker, best_first, score_pairs

if TYPE_CHECKING:
    from torch import Tensor

Activation = Callable[["Tensor"], "Tensor"]


class EvaluationNotes:
    """Where an evaluator of sentence-transformers leaves its figures."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {}

    def set_evaluation_metrics(
        self, _evaluator: object, metrics: dict[str, Any], _epoch: int = 0, _step: int = 0
    ) -> None:
        """Keep the figures of one evaluation."""
        self.metrics.update(metrics)


class LongCrossEncoder:
    """Takes the place of a ``CrossEncoder`` in code that calls it, its evaluators included.

    Scores are the ranker's own unless an activation is given. ``batch_size``, prompts and progress bars are taken and
    not used: a ranker makes its own batches, by tokens.

    >>> from longrank.testing import WordOverlapRanker
    >>> LongCrossEncoder(WordOverlapRanker()).rank("red fox", ["a dog", "a red fox"], top_k=1)
    [{'corpus_id': 1, 'score': 1.0}]
    """

    def __init__(self, ranker: RankerOrName, *, activation_fn: Activation | None = None) -> None:
        self.ranker = as_ranker(ranker)
        self.activation_fn = activation_fn
        self.model_card_data = EvaluationNotes()

    def predict(
        self,
        inputs: Sequence[Sequence[str]] | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        *,
        activation_fn: Activation | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> Any:
        """Scores of (query, text) pairs as an array, a tensor or a list of tensors; of a single pair, one number."""
        del prompt_name, prompt, batch_size, show_progress_bar
        single = len(inputs) == 2 and all(isinstance(part, str) for part in inputs)
        pairs: Any = [inputs] if single else inputs
        values = np.asarray(score_pairs(self.ranker, list(pairs)), dtype=np.float32)
        activation = activation_fn or self.activation_fn
        if activation is None and convert_to_numpy and not convert_to_tensor:
            return values[0] if single else values
        import torch

        scores = torch.from_numpy(values)
        scores = scores if activation is None else activation(scores)
        scores = scores[0] if single else scores
        if convert_to_tensor:
            return scores
        return scores.numpy() if convert_to_numpy else list(scores)

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        activation_fn: Activation | None = None,
    ) -> list[dict[str, Any]]:
        """The documents best first as {corpus_id, score}, with the text where asked for."""
        del prompt_name, prompt, batch_size, show_progress_bar
        if not len(documents):
            return []
        values = self.predict([(query, text) for text in documents], activation_fn=activation_fn).tolist()
        order = best_first(values, top_k)
        found: list[dict[str, Any]] = [{"corpus_id": i, "score": values[i]} for i in order]
        return [{**row, "text": documents[row["corpus_id"]]} for row in found] if return_documents else found
