"""A ranker of your own: the mean of the two best windows, with the first checks it must pass."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn

from longrank import Document, Query, Spec, build_ranker
from longrank.encoders.backbone import Backbone
from longrank.encoders.rows import Needs
from longrank.rankers import checkpoint, masked
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.states import ChunkStates
from longrank.rankers.zoo import RANKERS, over_windows


class BestTwo(nn.Module):
    """Mean of the two best window scores; of one window, its score."""

    needs = Needs.CHUNKS

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        scores = self.head(states.chunks)  # [docs, chunks], padding included
        return masked.top(scores, states.chunk_mask, 2).mean(-1)


@over_windows("best-two", paper="nobody yet")
def best_two(backbone: Backbone) -> nn.Module:
    """Mean of the two best window scores."""
    return BestTwo(backbone.dim)


def main(folder: Path) -> None:
    print(RANKERS["best-two"].summary)
    tiny = Spec("tiny", {"dim": 16, "vocabulary": 997})
    ranker = build_ranker(Spec("best-two", {"backbone": tiny, "size": 20, "stride": 10}), seed=0)
    query = Query("q", "why is the bridge green?")
    documents = [Document("d1", "green paint was cheapest " * 30), Document("d2", "no"), Document("d3", "")]

    together = ranker.score(query, documents).values
    alone = [ranker.score(query, [document]).values[0] for document in documents]
    assert torch.allclose(torch.tensor(together), torch.tensor(alone), atol=1e-5), "a score depends on its batch"

    checkpoint.save(ranker, folder)
    again = checkpoint.load(folder).score(query, documents).values
    assert torch.allclose(torch.tensor(together), torch.tensor(again), atol=1e-6), "lost in saving"
    print("alone, in a batch and after loading:", [round(value, 3) for value in together])


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        main(Path(temporary) / "best-two")
