"""A ranker by name or folder."""

from pathlib import Path

from longrank.chunking.splitters import Sliding
from longrank.core.errors import ModelError
from longrank.encoders.pretrained import minilm
from longrank.rankers import checkpoint
from longrank.rankers.embedding import EmbeddingRanker
from longrank.rankers.neural import NeuralRanker


def load(name: str | Path) -> NeuralRanker | EmbeddingRanker:
    """A ranker ready to score: a checkpoint folder, or ``"minilm"``.

    ``"minilm"`` is the embedding model of the extra ``minilm``, which reads a document of any length in windows and
    keeps the best: it needs no training and no network.
    """
    if str(name) == "minilm":
        return EmbeddingRanker(minilm(pooling="mean").eval(), Sliding(200, 150))
    if Path(name).is_dir():
        return checkpoint.load(name)
    raise ModelError(f"no ranker {str(name)!r}: give a folder that longrank saved, or 'minilm'")
