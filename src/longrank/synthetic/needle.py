"""A sentence about somebody in a text about other things: the needle task, with invented text and names."""

import numpy as np

from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.progress import track
from longrank.core.seeds import generator
from longrank.core.types import Collection, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.assembling import Placing, Pool, assemble
from longrank.synthetic.longembed import Task, TaskSettings
from longrank.synthetic.passages import count_passages

_PASSAGE_TOKENS = 40  # about; the background holds three times what the longest document takes
_FIRST_NAME = 8_000  # entities from here on appear in no background passage

_KEPT = ("a brass compass", "three pressed ferns", "an unsent letter", "a chipped teacup", "a map of the coast")
_KEPT_IN = ("a drawer lined with felt", "the hollow of an old beam", "a biscuit tin", "a boot that nobody wears")
_DONE = ("repairs clocks", "feeds the swans", "practises the oboe", "paints signboards", "counts passing barges")
_DONE_WHEN = ("before sunrise on Tuesdays", "during the last week of May", "whenever the wind turns north")


def fact(name: str, rng: np.random.Generator) -> tuple[str, str]:
    """A sentence that states something about a name, and the question that it answers."""

    def pick(items: tuple[str, ...]) -> str:
        return items[int(rng.integers(len(items)))]

    if rng.random() < 0.5:
        thing = pick(_KEPT)
        return f"{name} keeps {thing} in {pick(_KEPT_IN)}.", f"Where does {name} keep {thing}?"
    deed = pick(_DONE)
    return f"{name} {deed} {pick(_DONE_WHEN)}.", f"When is it that {name} {deed}?"


def make_needle(settings: TaskSettings, tokenizer: Tokenizer | None = None) -> Task:
    """The needle task: in each document one sentence about a name of its own, at a uniformly drawn place.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> task = make_needle(TaskSettings(lengths=(256, 512), queries=1, documents=2), WordTokenizer())
    >>> len(task.collection.documents), len(task.same_length().scores["256_0"])
    (4, 2)
    """
    book, rng = Encyclopedia(settings.seed), generator("needle/facts", settings.seed)
    counted = tokenizer or bert_tokenizer()
    total = len(settings.lengths) * settings.documents
    facts = [fact(book.entity(_FIRST_NAME + i).name, rng) for i in range(total)]
    needles = [Document(f"needle{i}", sentence) for i, (sentence, _) in enumerate(facts)]
    size = 3 * max(settings.lengths) // _PASSAGE_TOKENS
    background = [Document(passage.id, passage.text) for passage in book.passages(size)]
    passages = count_passages([*background, *needles], counted)
    pool = Pool(passages, np.arange(size))
    documents, queries, lengths, spans = dict[str, Document](), dict[str, Query](), dict[str, int](), list[GoldSpan]()
    for at, length in enumerate(track(settings.lengths, "hiding needles", total=len(settings.lengths))):
        numbers = range(at * settings.documents, (at + 1) * settings.documents)
        placing = Placing(policy="uniform", max_tokens=length, lengths=(length,))
        planted = [(size + number,) for number in numbers]
        found = assemble(planted, pool, placing, numbers=numbers, rng=generator(f"needle/{length}", settings.seed))
        for i, one in enumerate(found):
            if one is None:
                continue
            name = f"{length}_{i}"
            documents[name], lengths[name] = Document(name, one.text(passages)), length
            if i < settings.queries:
                queries[name] = Query(name, facts[numbers[i]][1])
                spans.append(GoldSpan(name, name, one.char_spans(passages)[0], "planted"))
    grades = Qrels({name: {name: 1} for name in queries})
    return Task(Collection("needle", documents, queries, grades, tuple(spans)), lengths)
