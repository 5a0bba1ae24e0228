"""A ranker under MTEB's cross-encoder protocol, for ``mteb.evaluate`` on reranking and retrieval tasks."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longrank.core.errors import MissingExtra
from longrank.integrations.scoring import RankerOrName, as_ranker, score_pairs

try:
    from mteb.models.model_meta import ModelMeta
except ImportError:
    raise MissingExtra("mteb", "mteb", purpose="the MTEB adapter") from None


class CrossEncoderModel:
    """What ``mteb.evaluate`` takes as a model; ``name`` reads 'maker/name' and stands in the results."""

    def __init__(self, ranker: RankerOrName, *, name: str = "longrank/ranker", revision: str = "local") -> None:
        self.ranker = as_ranker(ranker)
        self._meta = ModelMeta.create_empty(
            {"name": name, "revision": revision, "model_type": ["cross-encoder"], "modalities": ["text"]}
        )

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """What MTEB files the results under."""
        return self._meta

    def predict(
        self,
        inputs1: Iterable[Mapping[str, Any]],
        inputs2: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **_: Any,
    ) -> NDArray[np.float32]:
        """Scores of the queries in the batches of one loader with the texts in those of the other, pair by pair."""
        del task_metadata, hf_split, hf_subset, prompt_type
        queries, texts = ([text for batch in batches for text in batch["text"]] for batches in (inputs1, inputs2))
        return np.asarray(score_pairs(self.ranker, list(zip(queries, texts, strict=True))), dtype=np.float32)
