"""A small Transformer reads the chunk vectors in order: PARADE-Transformer."""

import torch
from torch import Tensor, nn

from longrank.encoders.rows import Needs
from longrank.rankers.aggregators.contract import Head
from longrank.rankers.states import ChunkStates


class TransformerVector(nn.Module):
    """A Transformer over CLS, SEP, chunk 1 .. chunk N, SEP, read at CLS; weights start random (RAND).

    The aggregator is a BERT of ``layers`` layers whose word embeddings are never used: it adds positions and token
    types (1 on chunks) to the chunk vectors. Padding chunks are masked, and so is everything behind them: the
    closing SEP follows the last real chunk.
    """

    needs = Needs.CHUNKS

    def __init__(self, dim: int, *, layers: int = 2, heads: int = 12, dropout: float = 0.1) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=1,
            hidden_size=dim,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * dim,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=0.0,
            pad_token_id=None,
        )
        self.model = BertModel(config, add_pooling_layer=False)
        self.model.embeddings.word_embeddings.requires_grad_(False)
        self.cls = nn.Parameter(torch.randn(dim) * 0.02)
        self.sep = nn.Parameter(torch.randn(dim) * 0.02)
        self.head = Head(dim)

    def forward(self, states: ChunkStates) -> Tensor:
        """[docs]."""
        docs, chunks, dim = states.chunks.shape
        frame = torch.stack([self.cls, self.sep]).expand(docs, 2, dim)
        room = self.sep.expand(docs, 1, dim)
        inputs = torch.cat([frame, states.chunks, room], 1)  # [docs, chunks + 3, dim]
        count = states.chunk_mask.sum(1)
        place = torch.arange(chunks + 3, device=inputs.device)
        closing = place == (count + 2)[:, None]
        inputs = torch.where(closing[..., None], self.sep, inputs)
        mask = place <= (count + 2)[:, None]
        types = ((place >= 2) & mask & ~closing).long()
        out = self.model(inputs_embeds=inputs, attention_mask=mask.long(), token_type_ids=types)
        scores: Tensor = self.head(out.last_hidden_state[:, 0])
        return scores
