"""One passage at a time: chat models, encoder-decoders and decoders, each with the best passage deciding."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as FastTokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from longrank.chat.messages import Message, Reply
from longrank.chat.registry import CHATS
from longrank.chat.scripted import ScriptedChat
from longrank.chunking.splitters import Sliding, Truncate
from longrank.chunking.tokenizers import WordTokenizer
from longrank.core.errors import ModelError, SettingsError, TruncatedInput
from longrank.core.types import Document, Query, Spec
from longrank.rankers.generative import (
    LIKELIHOOD,
    MONO_T5,
    LanguageModel,
    QueryLikelihood,
    load_language_model,
    mono_t5,
    yes_or_no,
)
from longrank.rankers.pointwise import ChatYesNo, PassageScorer, PointwiseRanker, yes_share
from longrank.rankers.ready import build_ready

WORDS = "true false yes no bridge green paint ice road query document relevant text answer the a was Query Document"
WORDS += " Relevant Text : ? , Question Does Answer A search that this answers or"
QUERY = Query("q", "green bridge")
PASSAGES = ["the bridge was green", "ice", "", "a road the ice the road was a road"]
DOCUMENTS = [Document(f"d{i}", text) for i, text in enumerate(PASSAGES)]


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {word: i for i, word in enumerate(["<pad>", "</s>", "<unk>", *dict.fromkeys(WORDS.split())])}
    fast = FastTokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    fast.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=fast, eos_token="</s>", pad_token="<pad>", unk_token="<unk>", padding_side="right"
    )


def t5() -> Any:
    torch.manual_seed(3)
    config = T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config)


def gpt2() -> Any:
    torch.manual_seed(3)
    config = GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1)
    return GPT2LMHeadModel(config)


def llama() -> Any:
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=1,
    )
    return LlamaForCausalLM(config)


@pytest.fixture(scope="module")
def seq2seq(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return saved(tmp_path_factory.mktemp("t5"), t5(), "seq2seq")


@pytest.fixture(scope="module", params=[gpt2, llama])
def decoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return saved(tmp_path_factory.mktemp("decoder"), request.param(), "decoder")


def saved(folder: Path, model: Any, kind: Any) -> LanguageModel:
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return load_language_model(str(folder), kind=kind)


@torch.no_grad()
def test_mono_t5_is_the_share_of_true_in_the_first_word(seq2seq: LanguageModel) -> None:
    found = mono_t5(seq2seq).passage_scores(QUERY.text, PASSAGES)
    words = tokenizer().convert_tokens_to_ids(["true", "false"])
    for passage, score in zip(PASSAGES, found, strict=True):
        text = MONO_T5.format(query=QUERY.text, passage=passage)
        ids = torch.tensor([[*tokenizer()(text)["input_ids"], 1]])  # </s> ends the prompt
        logits = seq2seq.model(input_ids=ids, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        true, false = (math.exp(float(logits[word])) for word in words)
        assert score == pytest.approx(math.log(true / (true + false)), abs=1e-5)
    assert len(set(found)) == len(found)


@torch.no_grad()
def test_likelihood_is_the_mean_log_probability_of_the_querys_tokens(decoder: LanguageModel) -> None:
    found = QueryLikelihood(decoder).passage_scores(QUERY.text, PASSAGES)
    asked = tokenizer()(QUERY.text)["input_ids"]
    for passage, score in zip(PASSAGES, found, strict=True):
        prompt = tokenizer()(LIKELIHOOD.format(passage=passage))["input_ids"]
        logits = decoder.model(input_ids=torch.tensor([[*prompt, *asked]])).logits[0].log_softmax(-1)
        # the token at place p is foretold at place p - 1
        each = [float(logits[len(prompt) - 1 + i, token]) for i, token in enumerate(asked)]
        assert score == pytest.approx(sum(each) / len(each), abs=1e-5)


def test_likelihood_learns_nothing_from_an_empty_query(decoder: LanguageModel) -> None:
    assert QueryLikelihood(decoder).passage_scores("", PASSAGES) == [0.0] * 4


def scorers(seq2seq: LanguageModel, decoder: LanguageModel) -> list[tuple[PassageScorer, LanguageModel]]:
    return [
        (mono_t5(seq2seq), seq2seq),
        (yes_or_no(decoder), decoder),
        (QueryLikelihood(decoder), decoder),
    ]


def test_a_score_does_not_depend_on_its_batch(seq2seq: LanguageModel, decoder: LanguageModel) -> None:
    for scorer, model in scorers(seq2seq, decoder):
        ranker = PointwiseRanker(scorer, model, Sliding(4, 2))
        together = ranker.score(QUERY, DOCUMENTS).values
        alone = [ranker.score(QUERY, [document]).values[0] for document in DOCUMENTS]
        assert alone == pytest.approx(together, abs=1e-5)


def test_the_best_passage_decides(seq2seq: LanguageModel, decoder: LanguageModel) -> None:
    document = Document("d", "the bridge was green ice ice ice a road")
    for scorer, model in scorers(seq2seq, decoder):
        passages = ["the bridge was green", "ice ice ice a", "road"]
        wanted = max(scorer.passage_scores(QUERY.text, passages))
        assert PointwiseRanker(scorer, model, Sliding(4, 4)).score(QUERY, [document]).values == [
            pytest.approx(wanted, abs=1e-5)
        ]


def test_a_prompt_is_never_cut(decoder: LanguageModel) -> None:
    with pytest.raises(ModelError, match="smaller chunks"):
        PointwiseRanker(yes_or_no(decoder), decoder, Truncate(100)).score(QUERY, [Document("d", "ice " * 90)])


def test_cut_tokens_are_counted_or_refused() -> None:
    chat = ChatYesNo(ScriptedChat(lambda messages: "no"))
    scores = PointwiseRanker(chat, WordTokenizer(), Truncate(3)).score(QUERY, DOCUMENTS)
    assert (scores.cut_documents, scores.cut_tokens) == (2, 1 + 6)
    with pytest.raises(TruncatedInput, match="7 tokens"):
        PointwiseRanker(chat, WordTokenizer(), Truncate(3), strict=True).score(QUERY, DOCUMENTS)


def test_a_vocabulary_without_the_answers_is_refused(seq2seq: LanguageModel) -> None:
    with pytest.raises(ModelError, match="perhaps"):
        seq2seq.word("perhaps")


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    gpt2().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(dict(list(weights.items())[3:]), tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="wrong model"):
        load_language_model(str(tmp_path), kind="decoder")


def test_passages_keep_the_documents_characters(decoder: LanguageModel) -> None:
    text = decoder.tokenize("The  bridge,was GREEN")
    spans = [(int(a), int(b)) for a, b in zip(text.char_starts, text.char_stops, strict=True)]
    assert [text.text[a:b] for a, b in spans] == ["The", "bridge", ",", "was", "GREEN"]


def test_local_models_are_built_by_name(seq2seq: LanguageModel, decoder: LanguageModel) -> None:
    params = {"size": 4, "stride": 2}
    for name, model in (("mono-t5", seq2seq), ("decoder-yes-no", decoder), ("query-likelihood", decoder)):
        ranker = build_ready(Spec(name, {"model": model.model.name_or_path, **params}))
        scorer = dict(zip(("mono-t5", "decoder-yes-no", "query-likelihood"), scorers(seq2seq, decoder), strict=True))
        wanted = PointwiseRanker(scorer[name][0], model, Sliding(4, 2)).score(QUERY, DOCUMENTS).values
        assert ranker.score(QUERY, DOCUMENTS).values == pytest.approx(wanted, abs=1e-5)


# -- through a chat model ----------------------------------------------------------------------------------------------


class Weighing:
    """A chat model that gives log-probabilities: the more often the passage says green, the likelier a yes."""

    def reply(self, messages: Sequence[Message], *, max_tokens: int) -> Reply:
        share = min(0.9, 0.1 + 0.4 * messages[0].text.count("green paint"))
        return Reply("no", 1, 1, {"Yes": math.log(share), "No": math.log(1 - share), "Well": -20.0})


def test_log_probabilities_rank_finer_than_the_word() -> None:
    ranker = PointwiseRanker(ChatYesNo(Weighing()), WordTokenizer(), Sliding(8, 8))
    texts = ["ice", "green paint", "green paint green paint"]
    scores = ranker.score(Query("q", "?"), [Document(str(i), text) for i, text in enumerate(texts)])
    assert scores.values == pytest.approx([0.1, 0.5, 0.9])


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        (Reply("Yes."), 1.0),
        (Reply('"no"'), 0.0),
        (Reply("Nothing to say"), 0.5),
        (Reply(""), 0.5),
        # yes .5 against the least likely candidate, .1, since no is not among them: .5 / .6
        (Reply("yes", logprobs={"yes": math.log(0.5), "maybe": math.log(0.1)}), 0.5 / 0.6),
        (Reply("x", logprobs={"maybe": -0.1, "well": -0.2}), 0.5),
    ],
)
def test_replies_become_shares_of_yes(reply: Reply, share: float) -> None:
    assert yes_share(reply) == pytest.approx(share)


def test_each_passage_is_asked_about_once() -> None:
    chat = ScriptedChat(lambda messages: "yes" if "green" in messages[0].text.split("Text:")[1] else "no")
    ranker = PointwiseRanker(ChatYesNo(chat), WordTokenizer(), Sliding(4, 4))
    assert ranker.score(QUERY, DOCUMENTS).values == [1.0, 0.0, 0.0, 0.0]
    assert len(chat.asked) == 1 + 1 + 1 + 3  # nine words in passages of four are three


def test_chat_rankers_are_built_by_name() -> None:
    script = Spec("scripted", {"replies": ["[2] > [1]"]})
    listwise = build_ready(Spec("rankgpt", {"chat": script, "tokenizer": "words", "document_tokens": 3}))
    scores = listwise.score(QUERY, DOCUMENTS[:2])
    assert (scores.values, scores.cut_tokens) == ([1.0, 2.0], 1)
    script = Spec("scripted", {"replies": ["no", "yes"]})
    pointwise = build_ready(Spec("chat-yes-no", {"chat": script, "tokenizer": "words"}))
    assert sorted(pointwise.score(QUERY, DOCUMENTS[:2]).values) == [0.0, 1.0]


def test_embedding_rankers_are_built_by_name() -> None:
    backbone = Spec("tiny", {"positions": 64})
    assert len(build_ready(Spec("embedding", {"backbone": backbone, "size": 20})).score(QUERY, DOCUMENTS).values) == 4
    with pytest.raises(ModelError, match="64 positions"):  # E5-4K spreads 512 tokens over more
        build_ready(Spec("e5-4k", {"backbone": backbone}))


def test_a_bad_temperature_is_named() -> None:
    with pytest.raises(SettingsError, match="temperature"):
        CHATS.build(Spec("openai", {"model": "m", "temperature": "hot"}))
