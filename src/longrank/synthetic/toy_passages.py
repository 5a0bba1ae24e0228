"""The passages behind the toy world as a collection of their own: what the generators are tried on."""

from collections.abc import Mapping
from dataclasses import dataclass

from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.types import Collection, Document, Qrels
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.toy import ToySettings, make_toy


@dataclass(frozen=True)
class ToyPassages:
    """Passages, queries and judgements, and passages that come close to each query's evidence."""

    collection: Collection
    hard: Mapping[str, tuple[str, ...]]


def toy_passages(settings: ToySettings) -> ToyPassages:
    """The passages of a toy world: the same queries, each with one relevant passage.

    >>> world = toy_passages(ToySettings(train=1, dev=1, test=1))
    >>> len(world.collection.documents), len(world.collection.qrels.relevant("q0"))
    (2000, 1)
    """
    world = make_toy(settings, WordTokenizer())
    passages = [Document(p.id, p.text) for p in Encyclopedia(settings.seed).passages(settings.passage_count)]
    ids = {document.text: document.id for document in passages}
    return ToyPassages(
        Collection(
            "toy-passages",
            {document.id: document for document in passages},
            world.toy.queries,
            Qrels({query_id: {ids[text]: 1} for query_id, text in world.evidence.items()}),
        ),
        {query_id: tuple(ids[text] for text in row) for query_id, row in world.negatives.items()},
    )
