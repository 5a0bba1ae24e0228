"""Rankers that need no training, by name: embeddings and language models."""

from typing import Literal

from longrank.chat.messages import ChatModel
from longrank.chat.registry import CHATS
from longrank.chunking.splitters import Sliding
from longrank.chunking.tokenizers import WordTokenizer, bert_tokenizer
from longrank.core.contracts import Ranker, Tokenizer
from longrank.core.registry import Registry
from longrank.core.settings import parse_settings
from longrank.core.types import Spec
from longrank.encoders.backbone import Backbone
from longrank.encoders.registry import BACKBONES
from longrank.rankers.embedding import Reading, e5_4k, embedding_ranker
from longrank.rankers.listwise import ListwiseRanker, ListwiseSettings
from longrank.rankers.pointwise import ChatYesNo, PointwiseRanker
from longrank.rankers.published import Compat

TokenizerName = Literal["bert", "words"]

READY: Registry[Ranker] = Registry("untrained ranker")


def build_ready(spec: Spec) -> Ranker:
    """The ranker a spec describes; ``backbone`` and ``chat`` are specs of their own."""
    return READY.build(spec, {"backbone": BACKBONES, "chat": CHATS})


@READY.add("embedding")
def embedding(
    backbone: Backbone,
    *,
    reading: Reading = "chunk-max",
    tokens: int | None = None,
    size: int = 200,
    stride: int = 150,
    query_prefix: str = "",
    document_prefix: str = "",
    query_tokens: int = 64,
) -> Ranker:
    """Cosine of a query and the first tokens, the whole text, or the best or mean chunk of a document."""
    return embedding_ranker(
        backbone,
        reading=reading,
        tokens=tokens,
        size=size,
        stride=stride,
        query_prefix=query_prefix,
        document_prefix=document_prefix,
        query_tokens=query_tokens,
    )


@READY.add("e5-4k", paper="Zhu et al. 2024")
def e5(backbone: Backbone, *, tokens: int = 1431, query_tokens: int = 32, compat: Compat = None) -> Ranker:
    """E5 with 4,096 positions over which short texts are spread."""
    return e5_4k(backbone, tokens=tokens, query_tokens=query_tokens, compat=compat)


@READY.add("rankgpt", paper="Sun et al. 2023")
def rankgpt(
    chat: ChatModel,
    *,
    document_tokens: int = 512,
    window: int = 20,
    step: int = 10,
    context_tokens: int | None = None,
    passes: int = 1,
    tokenizer: TokenizerName = "bert",
) -> Ranker:
    """A chat model orders windows of documents; ``document_tokens=0`` shows them whole (LongP)."""
    asked = {"window": window, "step": step, "context_tokens": context_tokens, "passes": passes}
    asked["document_tokens"] = document_tokens or None
    settings = parse_settings(ListwiseSettings, asked, source="rankgpt")
    return ListwiseRanker(chat, _tokenizer(tokenizer), settings)


@READY.add("chat-yes-no")
def chat_yes_no(
    chat: ChatModel,
    *,
    size: int = 200,
    stride: int = 150,
    max_tokens: int | None = None,
    tokenizer: TokenizerName = "bert",
) -> Ranker:
    """The best passage by a chat model's yes or no."""
    return PointwiseRanker(ChatYesNo(chat), _tokenizer(tokenizer), Sliding(size, stride, max_tokens))


@READY.add("mono-t5", paper="Nogueira et al. 2020")
def mono(model: str, *, size: int = 200, stride: int = 150, max_tokens: int | None = None) -> Ranker:
    """The best passage by a local encoder-decoder's true or false."""
    from longrank.rankers.generative import load_language_model, mono_t5

    language_model = load_language_model(model, kind="seq2seq")
    return PointwiseRanker(mono_t5(language_model), language_model, Sliding(size, stride, max_tokens))


@READY.add("decoder-yes-no")
def decoder_yes_no(model: str, *, size: int = 200, stride: int = 150, max_tokens: int | None = None) -> Ranker:
    """The best passage by a local decoder's yes or no."""
    from longrank.rankers.generative import load_language_model, yes_or_no

    language_model = load_language_model(model, kind="decoder")
    return PointwiseRanker(yes_or_no(language_model), language_model, Sliding(size, stride, max_tokens))


@READY.add("query-likelihood", paper="Sachan et al. 2022")
def query_likelihood(model: str, *, size: int = 200, stride: int = 150, max_tokens: int | None = None) -> Ranker:
    """The best passage by how likely a local decoder finds the query after it."""
    from longrank.rankers.generative import QueryLikelihood, load_language_model

    language_model = load_language_model(model, kind="decoder")
    return PointwiseRanker(QueryLikelihood(language_model), language_model, Sliding(size, stride, max_tokens))


def _tokenizer(name: TokenizerName) -> Tokenizer:
    return WordTokenizer() if name == "words" else bert_tokenizer()
