"""Learning that the place of the evidence does not matter: the same document, twice, with its evidence moved.

Examples come from counterfactual documents (``longrank make counterfactual``). The first two columns of their scores
are two versions of the positive, the others negatives.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from longrank.core.errors import SettingsError, TrainingError
from longrank.core.seeds import generator
from longrank.core.types import Collection
from longrank.training.examples import TrainExample
from longrank.training.losses import LOSSES, Loss, Targets


@LOSSES.add("consistent-margin", paper="pairwise margin and |s(A_k) - s(A_k')| between two places of the evidence")
def consistent_margin(*, margin: float = 1.0, weight: float = 1.0) -> Loss:
    """Mean hinge of both versions against all negatives, plus ``weight`` times the gap between the versions."""
    if weight < 0:
        raise SettingsError(f"the weight of consistency is at least 0, got {weight}")

    def loss(scores: Tensor, targets: Targets) -> Tensor:
        if scores.shape[1] < 3:
            raise TrainingError("consistent-margin needs two versions of the positive and a negative: use MovedSampler")
        versions, negatives = scores[:, :2], scores[:, 2:]
        hinge = F.relu(margin - versions[:, :, None] + negatives[:, None, :]).mean()
        return hinge + weight * (versions[:, 0] - versions[:, 1]).abs().mean()

    return loss


@dataclass(frozen=True)
class MovedSampler:
    """Examples with two versions of a relevant document, the second as first negative, then negatives of other queries.

    A query needs two relevant documents, its versions. Negatives are versions made for other queries, so that they are
    as long and as mixed as the positives.
    """

    collection: Collection
    query_ids: tuple[str, ...]
    negatives: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self._versions()) <= self.negatives:
            raise TrainingError(
                f"only {len(self._versions())} of {len(self.query_ids)} queries have two versions of a relevant "
                "document: make them with 'longrank make counterfactual', for more queries than negatives"
            )

    def __len__(self) -> int:
        return len(self._versions())

    def epoch(self, number: int) -> Iterator[TrainExample]:
        """Every usable query once, in a shuffled order."""
        rng = generator(f"moved-examples-epoch-{number}", self.seed)
        versions, documents = self._versions(), self.collection.documents
        ids = list(versions)
        for place in rng.permutation(len(ids)).tolist():
            own = versions[ids[place]]
            first, second = (own[i] for i in rng.choice(len(own), size=2, replace=False).tolist())
            others = rng.choice(len(ids) - 1, size=self.negatives, replace=False)
            wrong = [versions[ids[(place + 1 + int(i)) % len(ids)]] for i in others]
            chosen = [row[int(rng.integers(len(row)))] for row in wrong]
            yield TrainExample(
                self.collection.queries[ids[place]],
                documents[first],
                tuple(documents[name] for name in (second, *chosen)),
            )

    def _versions(self) -> Mapping[str, list[str]]:
        known = {query_id: sorted(self.collection.qrels.relevant(query_id)) for query_id in self.query_ids}
        return {query_id: row for query_id, row in known.items() if len(row) > 1}
