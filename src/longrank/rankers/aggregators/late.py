"""Query and chunks are encoded apart and meet in the aggregator."""

import torch
from torch import Tensor, nn

from longrank.encoders.rows import Needs
from longrank.rankers.aggregators.contract import Head, text_states
from longrank.rankers.aggregators.transformer import Segment, VectorReader, projection
from longrank.rankers.states import ChunkStates


class LateInteraction(nn.Module):
    """A Transformer reads CLS, SEP, query, SEP, window, SEP for each window; ``then`` aggregates the rest: LATEIR."""

    needs = Needs.CHUNKS | Needs.TOKENS | Needs.QUERY

    def __init__(self, dim: int, reader: VectorReader, *, then: nn.Module) -> None:
        super().__init__()
        self.project = projection(dim, reader.width)
        self.reader = reader
        self.then = then

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        tokens, query = text_states(states)
        docs, chunks = states.chunk_mask.shape
        real = states.chunk_mask.flatten()
        owner = torch.arange(docs, device=real.device).repeat_interleave(chunks)[real]
        window = Segment(self.project(tokens.layer().flatten(0, 1)[real]), tokens.mask.flatten(0, 1)[real])
        asked = Segment(self.project(query.layer())[owner], query.mask[owner])
        met = self.reader([asked, window])  # [real windows, reader dim]
        vectors = met.new_zeros(docs * chunks, met.shape[-1])
        vectors[real] = met
        scores: Tensor = self.then(ChunkStates(vectors.view(docs, chunks, -1), states.chunk_mask))
        return scores


class CrossAttention(nn.Module):
    """Query tokens attend to the tokens of all chunks at once, and to each other, layer by layer: MORES+.

    The memory holds one vector for each chunk besides its tokens, so that an empty document can be read.
    """

    needs = Needs.CHUNKS | Needs.TOKENS | Needs.QUERY

    def __init__(self, dim: int, *, layers: int = 2, heads: int = 12, dropout: float = 0.1) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.randn(dim) * 0.02)
        layer = [
            nn.TransformerDecoderLayer(dim, heads, 4 * dim, dropout, "gelu", batch_first=True) for _ in range(layers)
        ]
        self.layers = nn.ModuleList(layer)
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        chunked, query = text_states(states)
        tokens = chunked.by_document()
        memory = torch.cat([states.chunks, tokens.layer()], 1)
        memory_padding = ~torch.cat([states.chunk_mask, tokens.mask], 1)
        read = torch.cat([self.cls.expand(len(memory), 1, -1), query.layer()], 1)
        padding = torch.cat([query.mask.new_zeros(len(memory), 1), ~query.mask], 1)
        for layer in self.layers:
            read = layer(read, memory, tgt_key_padding_mask=padding, memory_key_padding_mask=memory_padding)
        scores: Tensor = self.head(read[:, 0])
        return scores
