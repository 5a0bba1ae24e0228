"""Rank long documents, and know whether a ranker reads them to the end."""

from typing import TYPE_CHECKING, Any

from longrank.core.types import Collection, Document, Qrels, Query, Run, Spec

if TYPE_CHECKING:
    from longrank.corpora.catalog.folder import load_folder
    from longrank.evaluation.measures import evaluate
    from longrank.rankers.loading import load
    from longrank.rankers.neural import NeuralRanker
    from longrank.rankers.rerank import rerank
    from longrank.rankers.zoo import build_ranker

__version__ = "0.1.0"

# what needs torch or takes long to import is fetched on first use
_LATER = {
    "NeuralRanker": "longrank.rankers.neural",
    "build_ranker": "longrank.rankers.zoo",
    "evaluate": "longrank.evaluation.measures",
    "load": "longrank.rankers.loading",
    "load_folder": "longrank.corpora.catalog.folder",
    "rerank": "longrank.rankers.rerank",
}

__all__ = [
    "Collection",
    "Document",
    "NeuralRanker",
    "Qrels",
    "Query",
    "Run",
    "Spec",
    "build_ranker",
    "evaluate",
    "load",
    "load_folder",
    "rerank",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'longrank' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATER[name]), name)
