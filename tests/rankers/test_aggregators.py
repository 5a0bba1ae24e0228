"""Every aggregator against its formula, written again in plain numpy for one document without padding."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from longrank.rankers.aggregators import (
    AttentionVector,
    ConvolutionVector,
    CrossAttention,
    Drmm,
    FirstScore,
    KernelPool,
    LateInteraction,
    MaxScore,
    MaxVector,
    MeanScore,
    MeanVector,
    Model1,
    Pacrr,
    SumScore,
    SumVector,
    TopScores,
    TransformerVector,
    VectorReader,
    random_encoder,
)
from longrank.rankers.states import ChunkStates, TokenStates

Array = NDArray[np.float64]
Weights = dict[str, Array]
DIM, LAYERS, VOCABULARY = 8, 2, 40


@dataclass(frozen=True)
class Text:
    """One document and its query, without padding."""

    chunks: Array  # [chunks, dim]
    tokens: list[Array]  # by chunk: [layers + 1, length, dim]
    ids: list[NDArray[np.int64]]
    query: Array  # [layers + 1, query length, dim]
    query_ids: NDArray[np.int64]

    @property
    def flat(self) -> Array:
        return np.concatenate(self.tokens, axis=1)


def texts(sizes: Sequence[Sequence[int]], *, query: int = 4, seed: int = 0) -> list[Text]:
    rng = np.random.default_rng(seed)
    asked = rng.integers(VOCABULARY, size=query)
    return [
        Text(
            rng.normal(size=(len(row), DIM)),
            [rng.normal(size=(LAYERS + 1, size, DIM)) for size in row],
            [rng.integers(VOCABULARY, size=size) for size in row],
            rng.normal(size=(LAYERS + 1, query, DIM)),
            asked,
        )
        for row in sizes
    ]


def stacked(documents: Sequence[Text], *, spare_chunks: int = 1, spare_tokens: int = 2) -> ChunkStates:
    """The documents in one batch; padding holds large numbers that must not be seen."""
    widest = max(len(text.chunks) for text in documents) + spare_chunks
    longest = max(len(ids) for text in documents for ids in text.ids) + spare_tokens
    asked = len(documents[0].query_ids) + spare_tokens
    chunks = np.full((len(documents), widest, DIM), 1e3)
    chunk_mask = np.zeros((len(documents), widest), dtype=bool)
    packed = [np.full((LAYERS + 1, 1, DIM), 1e3)]
    shape, query_shape = (len(documents), widest, longest), (len(documents), asked)
    index, ids = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    query_index, query_ids = np.zeros(query_shape, dtype=np.int64), np.zeros(query_shape, dtype=np.int64)
    at = 1
    for i, text in enumerate(documents):
        chunks[i, : len(text.chunks)], chunk_mask[i, : len(text.chunks)] = text.chunks, True
        count = len(text.query_ids)
        query_index[i, :count], query_ids[i, :count] = np.arange(at, at + count), text.query_ids
        packed.append(text.query)
        at += count
        for j, (states, numbers) in enumerate(zip(text.tokens, text.ids, strict=True)):
            index[i, j, : len(numbers)], ids[i, j, : len(numbers)] = np.arange(at, at + len(numbers)), numbers
            packed.append(states)
            at += len(numbers)
    every = torch.from_numpy(np.concatenate(packed, axis=1)).float()
    both = ((index, ids), (query_index, query_ids))
    tokens, query = (TokenStates(every, torch.tensor(a), torch.tensor(a > 0), torch.tensor(b)) for a, b in both)
    return ChunkStates(torch.from_numpy(chunks).float(), torch.from_numpy(chunk_mask), tokens, query)


def weights_of(module: nn.Module) -> Weights:
    return {name: value.detach().double().numpy() for name, value in module.state_dict().items()}


def linear(weights: Weights, name: str, vectors: Array) -> Array:
    bias = weights.get(f"{name}.bias", np.zeros(1))
    return np.asarray(vectors @ weights[f"{name}.weight"].T + bias)


def head(weights: Weights, vectors: Array, name: str = "head") -> Array:
    return linear(weights, f"{name}.linear", vectors)[..., 0]


def relu(values: Array) -> Array:
    return np.maximum(values, 0)


def softmax(values: Array, axis: int = -1) -> Array:
    raised = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def layer_norm(weights: Weights, name: str, vectors: Array, epsilon: float) -> Array:
    centred = vectors - vectors.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"])


def gelu(values: Array) -> Array:
    return np.asarray(values * 0.5 * (1 + np.vectorize(math.erf)(values / math.sqrt(2))))


def attend(query: Array, key: Array, value: Array, *, heads: int) -> Array:
    parts = [np.split(part, heads, axis=-1) for part in (query, key, value)]
    found = [softmax(q @ k.T / math.sqrt(q.shape[-1])) @ v for q, k, v in zip(*parts, strict=True)]
    return np.concatenate(found, axis=-1)


def bert(weights: Weights, vectors: Array, kinds: Sequence[int], *, heads: int, prefix: str) -> Array:
    """The first output of a BERT that is fed with vectors."""
    inner = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    states = vectors
    if "embeddings.LayerNorm.weight" in inner:
        places = inner["embeddings.position_embeddings.weight"][: len(vectors)]
        states = vectors + places + inner["embeddings.token_type_embeddings.weight"][list(kinds)]
        states = layer_norm(inner, "embeddings.LayerNorm", states, 1e-12)
    for number in range(LAYERS):
        at = f"encoder.layer.{number}."
        mixed = [linear(inner, f"{at}attention.self.{part}", states) for part in ("query", "key", "value")]
        context = linear(inner, f"{at}attention.output.dense", attend(mixed[0], mixed[1], mixed[2], heads=heads))
        states = layer_norm(inner, f"{at}attention.output.LayerNorm", states + context, 1e-12)
        wide = gelu(linear(inner, f"{at}intermediate.dense", states))
        states = layer_norm(inner, f"{at}output.LayerNorm", states + linear(inner, f"{at}output.dense", wide), 1e-12)
    return np.asarray(states[0])


def cosines(text: Text) -> Array:
    """[layers, query length, document length]."""
    query, tokens = (part / (np.linalg.norm(part, axis=-1, keepdims=True) + 1e-9) for part in (text.query, text.flat))
    return np.asarray(np.einsum("lqd,ltd->lqt", query, tokens))


def first_score(w: Weights, text: Text) -> float:
    return float(head(w, text.chunks[0]))


def max_score(w: Weights, text: Text) -> float:
    return float(max(head(w, text.chunks)))


def sum_score(w: Weights, text: Text) -> float:
    return float(sum(head(w, text.chunks)))


def mean_score(w: Weights, text: Text) -> float:
    return float(sum(head(w, text.chunks)) / len(text.chunks))


def top_scores(w: Weights, text: Text) -> float:
    best = sorted(head(w, text.chunks), reverse=True)[:3]
    return float(np.dot([*best, *[best[-1]] * (3 - len(best))], w["combine"]))


def mean_vector(w: Weights, text: Text) -> float:
    return float(head(w, text.chunks.mean(0)))


def sum_vector(w: Weights, text: Text) -> float:
    return float(head(w, text.chunks.sum(0)))


def max_vector(w: Weights, text: Text) -> float:
    return float(head(w, text.chunks.max(0)))


def attention_vector(w: Weights, text: Text) -> float:
    return float(head(w, (softmax(linear(w, "weigh", text.chunks), axis=0) * text.chunks).sum(0)))


def convolution_vector(w: Weights, text: Text, *, keep_zeros: bool = False) -> float:
    rows = list(text.chunks)
    if len(rows) > 16:  # neighbours [floor(i n / 16), ceil((i + 1) n / 16)) become their largest values
        n = len(rows)
        rows = [np.max(rows[i * n // 16 : -(-(i + 1) * n // 16)], axis=0) for i in range(16)]
    real = len(rows)
    level = [*rows, *[np.zeros(DIM)] * (16 - real)]
    score = 0.0
    for number in range(4):
        kernel, bias = w[f"merge.{number}.weight"], w[f"merge.{number}.bias"]
        level = [
            relu(kernel[:, :, 0] @ a + kernel[:, :, 1] @ b + bias) for a, b in zip(level[::2], level[1::2], strict=True)
        ]
        real = -(-real // 2)
        level = [*level[:real], *[np.zeros(DIM)] * (len(level) - real)] if keep_zeros else level
        score += sum(float(head(w, relu(linear(w, "hidden", vector)))) for vector in level[:real])
    return score


def kernel_pool(w: Weights, text: Text) -> float:
    features = [
        sum(math.log(sum(math.exp(-0.5 * (s - mu) ** 2 / sigma**2) for s in row) + 1e-6) for row in layer)
        for layer in cosines(text)
        for mu, sigma in zip(w["means"], w["spreads"], strict=True)
    ]
    missing = w["combine.weight"].shape[1] - len(features)
    return float(linear(w, "combine", np.array([*features, *(text.chunks.mean(0) if missing else [])]))[0])


def capreolus_pool(w: Weights, text: Text) -> float:
    """Equal tokens have a spread of 0.01; 0.01 log max(1e-10, count); two linear layers and nothing between."""
    assert w["spreads"][-1] == pytest.approx(0.01)
    features = [
        sum(0.01 * math.log(max(1e-10, sum(math.exp(-0.5 * (s - mu) ** 2 / sigma**2) for s in row))) for row in layer)
        for layer in cosines(text)
        for mu, sigma in zip(w["means"], w["spreads"], strict=True)
    ]
    hidden = linear(w, "combine.0", np.array([*features, *text.chunks.max(0)]))
    return float(linear(w, "combine.1", hidden)[0])


def pacrr(w: Weights, text: Text) -> float:
    cube = cosines(text)
    _, asked, length = cube.shape
    columns = []
    for number, n in enumerate((1, 2, 3)):
        padded = np.pad(cube, ((0, 0), (0, n - 1), (0, n - 1)))
        kernel, bias = w[f"ngrams.{number}.weight"], w[f"ngrams.{number}.bias"]
        found = np.zeros((asked, length))
        for i in range(asked):
            for j in range(length):
                found[i, j] = relu(np.tensordot(kernel, padded[:, i : i + n, j : j + n], axes=3) + bias).max()
        columns.append([[*sorted(row, reverse=True), 0.0, 0.0][:2] for row in found.tolist()])
    matches = np.zeros((6, 6))  # six query positions, of which the query fills some
    matches[:asked] = np.concatenate(columns, axis=1)
    hidden = relu(linear(w, "combine.0", np.concatenate([matches.flatten(), text.chunks.mean(0)])))
    return float(linear(w, "combine.4", relu(linear(w, "combine.2", hidden)))[0])


def drmm(w: Weights, text: Text) -> float:
    score = 0.0
    for row in cosines(text).transpose(1, 0, 2):
        counts = np.zeros((LAYERS + 1, 11))
        for layer, similar in enumerate(row):
            for value in similar:
                counts[layer, int((value + 1.000001) / 2 * 10)] += 1
        features = np.concatenate([np.log(counts + 1e-5).flatten(), text.chunks.mean(0)])
        score += float(linear(w, "combine.2", relu(linear(w, "combine.0", features)))[0])
    return score


def model1(w: Weights, text: Text, *, p_self: float = 0.0) -> float:
    ids = np.concatenate(text.ids)
    query, tokens = (w["words"][text.query_ids], w["words"][ids]) if "words" in w else (text.query[-1], text.flat[-1])
    asked = np.tanh(layer_norm(w, "query_norm", query, 1e-5))
    read = np.tanh(layer_norm(w, "token_norm", tokens, 1e-5))
    first = np.concatenate([w[f"from_{part}.weight"] for part in ("query", "token", "both")], axis=1)
    score = 0.0
    for e_q, q in zip(asked, text.query_ids, strict=True):
        total = 0.0
        for e_d, d in zip(read, ids, strict=True):
            hidden = relu(first @ np.concatenate([e_q, e_d, e_q * e_d]) + w["from_query.bias"])
            logit = linear(w, "rest.3", relu(linear(w, "rest.1", hidden)))[0]
            translated = 1 / (1 + math.exp(-logit))
            total += p_self if p_self and q == d else (1 - p_self) * translated
        score += math.log(max(1e-8, total / max(1, len(ids))))
    return score


def transformer_vector(w: Weights, text: Text) -> float:
    cls, *sep = w["reader.specials"]
    project = (lambda v: linear(w, "project", v)) if "project.weight" in w else (lambda v: v)
    rows, kinds = [cls, *sep], [0, *[0] * len(sep)]
    if "project_query.weight" in w or w.get("with_query") is not None:
        own = (lambda v: linear(w, "project_query", v)) if "project_query.weight" in w else project
        rows += [*own(text.query[-1]), *sep]
        kinds += [0] * (len(text.query_ids) + len(sep))
    rows += [*project(text.chunks), *sep]
    kinds += [1] * len(text.chunks) + [0] * len(sep)
    return float(head(w, bert(w, np.array(rows), kinds, heads=2, prefix="reader.model.")))


def late_interaction(w: Weights, text: Text) -> float:
    cls, sep = w["reader.specials"]
    met = []
    for states in text.tokens:
        rows = np.array([cls, sep, *text.query[-1], sep, *states[-1], sep])
        met.append(bert(w, rows, [0] * len(rows), heads=2, prefix="reader.model."))
    then = {name.removeprefix("then."): value for name, value in w.items() if name.startswith("then.")}
    return transformer_vector(then, Text(np.array(met), [], [], text.query, text.query_ids))


def cross_attention(w: Weights, text: Text) -> float:
    read, memory = np.array([w["cls"], *text.query[-1]]), np.array([*text.chunks, *text.flat[-1]])
    for number in range(LAYERS):
        at = f"layers.{number}."
        for name, norm, other in (("self_attn", "norm1", None), ("multihead_attn", "norm2", memory)):
            weight, bias = w[f"{at}{name}.in_proj_weight"], w[f"{at}{name}.in_proj_bias"]
            seen = read if other is None else other
            q, k, v = (
                x @ a.T + b for x, a, b in zip((read, seen, seen), np.split(weight, 3), np.split(bias, 3), strict=True)
            )
            context = linear(w, f"{at}{name}.out_proj", attend(q, k, v, heads=2))
            read = layer_norm(w, f"{at}{norm}", read + context, 1e-5)
        wide = gelu(linear(w, f"{at}linear1", read))
        read = layer_norm(w, f"{at}norm3", read + linear(w, f"{at}linear2", wide), 1e-5)
    return float(head(w, read[0]))


def reader(width: int = DIM, *, separators: bool = True, positions: bool = True) -> VectorReader:
    model = random_encoder(width, layers=LAYERS, heads=2)
    return VectorReader(model, separators=separators, positions=positions)


Oracle = Callable[[Weights, Text], float]
CASES: dict[str, tuple[Callable[[], nn.Module], Oracle]] = {
    "first-score": (lambda: FirstScore(DIM), first_score),
    "max-score": (lambda: MaxScore(DIM), max_score),
    "sum-score": (lambda: SumScore(DIM), sum_score),
    "mean-score": (lambda: MeanScore(DIM), mean_score),
    "top-scores": (lambda: TopScores(DIM, k=3), top_scores),
    "mean-vector": (lambda: MeanVector(DIM), mean_vector),
    "sum-vector": (lambda: SumVector(DIM), sum_vector),
    "max-vector": (lambda: MaxVector(DIM), max_vector),
    "attention": (lambda: AttentionVector(DIM), attention_vector),
    "attention-per-dimension": (lambda: AttentionVector(DIM, attention="per-dimension"), attention_vector),
    "convolution": (lambda: ConvolutionVector(DIM), convolution_vector),
    "convolution-zeros-kept": (
        lambda: ConvolutionVector(DIM, keep_zeros=True),
        lambda w, text: convolution_vector(w, text, keep_zeros=True),
    ),
    "knrm": (lambda: KernelPool(DIM, layers=LAYERS), kernel_pool),
    "knrm-without-summary": (lambda: KernelPool(DIM, layers=LAYERS, summary="none"), kernel_pool),
    "knrm-capreolus": (
        lambda: KernelPool(DIM, layers=LAYERS, summary="max", kernels="capreolus"),
        capreolus_pool,
    ),
    "pacrr": (lambda: Pacrr(DIM, layers=LAYERS, query_tokens=6), pacrr),
    "drmm": (lambda: Drmm(DIM, layers=LAYERS), drmm),
    "model1": (lambda: Model1(DIM), model1),
    "model1-context-free": (
        lambda: Model1(DIM, p_self=0.3, words=torch.randn(VOCABULARY, 5)),
        lambda w, text: model1(w, text, p_self=0.3),
    ),
    "transformer": (lambda: TransformerVector(DIM, reader()), transformer_vector),
    "transformer-narrower": (lambda: TransformerVector(DIM, reader(6)), transformer_vector),
    "transformer-query": (
        lambda: TransformerVector(DIM, reader(6), query="shared"),
        lambda w, text: transformer_vector({**w, "with_query": np.ones(1)}, text),
    ),
    "transformer-without-separators": (lambda: TransformerVector(DIM, reader(separators=False)), transformer_vector),
    "transformer-query-without-separators": (
        lambda: TransformerVector(DIM, reader(6, separators=False), query="own"),
        transformer_vector,
    ),
    "transformer-without-positions": (lambda: TransformerVector(DIM, reader(positions=False)), transformer_vector),
    "transformer-query-own": (lambda: TransformerVector(DIM, reader(6), query="own"), transformer_vector),
    "late-interaction": (
        lambda: LateInteraction(DIM, reader(), then=TransformerVector(DIM, reader(6))),
        late_interaction,
    ),
    "cross-attention": (lambda: CrossAttention(DIM, layers=LAYERS, heads=2), cross_attention),
}


def made(build: Callable[[], nn.Module], *, noise: float = 0.1) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        module = build()
        for name, value in module.named_parameters():
            if name != "spreads":
                value.data += noise * torch.randn_like(value)  # biases are not 0, and states differ more
    return module.eval()


@pytest.mark.parametrize("name", CASES)
def test_an_aggregator_is_its_formula(name: str) -> None:
    build, oracle = CASES[name]
    module = made(build)
    documents = texts([[7, 7, 2], [5], [4, 3], [1], [3] * 5, [2] * 16, [2] * 20])
    with torch.inference_mode():
        found = module(stacked(documents)).tolist()
    expected = [oracle(weights_of(module), text) for text in documents]
    for value, right in zip(found, expected, strict=True):
        assert value == pytest.approx(right, abs=1e-5 * max(1, abs(right)))


@pytest.mark.parametrize("name", CASES)
def test_an_empty_document_has_a_score(name: str) -> None:
    module = made(CASES[name][0])
    with torch.inference_mode():
        found = module(stacked(texts([[0], [3, 3]])))
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("name", CASES)
def test_padding_changes_nothing(name: str) -> None:
    module = made(CASES[name][0])
    documents = texts([[7, 7, 2], [5], [0]])
    with torch.inference_mode():
        tight = module(stacked(documents, spare_chunks=0, spare_tokens=0))
        loose = module(stacked(documents, spare_chunks=4, spare_tokens=3))
    torch.testing.assert_close(tight, loose, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    module = made(CASES[name][0])
    (module(stacked(texts([[7, 7, 2], [5, 6], [8] * 20]))) ** 2).sum().backward()
    for parameter, value in module.named_parameters():
        if value.requires_grad:
            assert value.grad is not None and bool(value.grad.abs().sum() > 0), parameter


def turned(text: Text, order: Sequence[int]) -> Text:
    tokens, ids = [text.tokens[i] for i in order], [text.ids[i] for i in order]
    return Text(text.chunks[list(order)], tokens, ids, text.query, text.query_ids)


BLIND = ["max-score", "sum-score", "mean-score", "top-scores", "mean-vector", "sum-vector", "max-vector", "attention"]
BLIND += ["attention-per-dimension", "knrm", "drmm", "model1", "cross-attention"]
BLIND += ["transformer-without-positions"]


@pytest.mark.parametrize("name", CASES)
def test_order_of_chunks_matters_only_to_those_that_read_it(name: str) -> None:
    module = made(CASES[name][0], noise=0.5)
    (text,) = texts([[6, 6, 6, 6]])
    with torch.inference_mode():
        one, other = module(stacked([text, turned(text, [2, 0, 3, 1])])).tolist()
    if name in [*BLIND, "knrm-without-summary", "knrm-capreolus", "model1-context-free"]:
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)
    else:
        assert abs(one - other) > 1e-4


def test_word_vectors_are_looked_up_for_one_document_at_a_time() -> None:
    module = made(lambda: Model1(DIM, words=torch.randn(VOCABULARY, 5)))
    read: list[int] = []
    norm = module.get_submodule("token_norm")
    norm.register_forward_hook(lambda _, inputs, output: read.append(inputs[0].numel() // 5))
    module(stacked(texts([[7, 7, 2], [5], [9] * 20])))
    assert read == [7 + 7 + 2, 5, 9 * 20]  # tokens, and none of padding


def test_knrm_summary_may_be_the_largest_values() -> None:
    module = made(lambda: KernelPool(DIM, layers=LAYERS, summary="max"))
    documents = texts([[4, 4], [3]])
    weights = weights_of(module)
    for text, value in zip(documents, module(stacked(documents)).tolist(), strict=True):
        largest = Text(text.chunks.max(0, keepdims=True), text.tokens, text.ids, text.query, text.query_ids)
        assert value == pytest.approx(kernel_pool(weights, largest), abs=1e-4)
