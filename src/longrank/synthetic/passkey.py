"""A number behind a name in a text that repeats itself: the passkey task, with text and names of our own."""

from longrank.chunking.tokenizers import bert_tokenizer
from longrank.core.contracts import Tokenizer
from longrank.core.seeds import generator
from longrank.core.types import CharSpan, Collection, Document, GoldSpan, Qrels, Query
from longrank.corpora.catalog.encyclopedia import Encyclopedia
from longrank.synthetic.longembed import Task, TaskSettings

_OPENING = "Somewhere in the pages that follow, between many lines of no importance, a pass key is written down."
_FILLER = (
    "The kettle is on the stove. The window looks out on the yard. Rain comes and goes, and then the road is dry "
    "again. Nothing has changed since yesterday."
)
_KEY = "The pass key of {name} is {key}. Keep it in mind: whoever asks for {name} must say {key}."
_QUESTION = "What is the pass key of {name}?"
_FIRST_NAME = 12_000


def make_passkey(settings: TaskSettings, tokenizer: Tokenizer | None = None) -> Task:
    """The passkey task: in each document the key of a name of its own, between copies of one dull paragraph.

    >>> from longrank.chunking.tokenizers import WordTokenizer
    >>> task = make_passkey(TaskSettings(lengths=(256,), queries=1, documents=2), WordTokenizer())
    >>> sorted(task.lengths.values()), list(task.collection.queries)
    ([256, 256], ['256_0'])
    """
    counted, book = tokenizer or bert_tokenizer(), Encyclopedia(settings.seed)
    rng = generator("passkey", settings.seed)
    opening, filler = len(counted.tokenize(_OPENING)), len(counted.tokenize(_FILLER))
    total = len(settings.lengths) * settings.documents
    keys = rng.choice(90_000, size=total, replace=False) + 10_000
    documents, queries, lengths, spans = dict[str, Document](), dict[str, Query](), dict[str, int](), list[GoldSpan]()
    for number in range(total):
        length, i = settings.lengths[number // settings.documents], number % settings.documents
        person = book.entity(_FIRST_NAME + number).name
        key = _KEY.format(name=person, key=keys[number])
        copies = (length - opening - len(counted.tokenize(key))) // filler
        before = int(rng.integers(copies, endpoint=True))
        head = " ".join([_OPENING, *[_FILLER] * before])
        name = f"{length}_{i}"
        documents[name] = Document(name, " ".join([head, key, *[_FILLER] * (copies - before)]))
        lengths[name] = length
        if i < settings.queries:
            queries[name] = Query(name, _QUESTION.format(name=person))
            spans.append(GoldSpan(name, name, CharSpan(len(head) + 1, len(head) + 1 + len(key)), "planted"))
    grades = Qrels({name: {name: 1} for name in queries})
    return Task(Collection("passkey", documents, queries, grades, tuple(spans)), lengths)
