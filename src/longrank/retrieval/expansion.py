"""Documents widened by the queries they may answer (doc2query): predictions from a file, or from a seq2seq model."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from longrank.core.errors import BadLine, ModelError, UnknownDocument
from longrank.core.seeds import derive
from longrank.core.settings import Settings
from longrank.core.types import Document
from longrank.corpora.formats.files import numbered_lines, writing


def read_predictions(path: Path) -> dict[str, str]:
    """Predicted queries by document id from ``docid<TAB>text`` lines; lines of one document are joined in order."""
    texts: dict[str, list[str]] = {}
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        document_id, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab or not document_id:
            raise BadLine(path, number, "a document id, a tab and a text are needed")
        texts.setdefault(document_id, []).append(text)
    return {document_id: " ".join(parts) for document_id, parts in texts.items()}


def write_predictions(path: Path, predictions: Iterable[tuple[str, str]]) -> None:
    """Write (document id, text) pairs, one a line; line ends and tabs in a text become spaces."""
    with writing(path) as stream:
        for document_id, text in predictions:
            stream.write(f"{document_id}\t{' '.join(text.split())}\n")


def expanded(documents: Iterable[Document], predictions: Mapping[str, str]) -> Iterator[Document]:
    """The documents with their predicted queries appended to the text, for an index only: spans are not affected.

    A prediction for a document that does not come is an error once all documents have been read.

    >>> next(expanded([Document("d", "a red fox")], {"d": "what is red"})).text
    'a red fox\\nwhat is red'
    """
    used = set()
    for document in documents:
        extra = predictions.get(document.id)
        used.add(document.id)
        yield document if extra is None else replace(document, text=f"{document.text}\n{extra}")
    unused = next((document_id for document_id in predictions if document_id not in used), None)
    if unused is not None:
        raise UnknownDocument(f"predictions name {unused!r}, which is not among the documents: another collection?")


class GenerationSettings(Settings):
    """How queries are drawn from the model."""

    queries_per_segment: int = Field(5, ge=1)
    segment_words: int = Field(200, ge=1)
    input_tokens: int = Field(512, ge=8)
    new_tokens: int = Field(64, ge=1)
    top_k: int = Field(10, ge=1)
    batch_segments: int = Field(8, ge=1)


class QueryGenerator:
    """A local seq2seq model of transformers that writes the queries a text may answer."""

    def __init__(self, model: Any, tokenizer: Any, settings: GenerationSettings | None = None) -> None:
        self.settings = settings or GenerationSettings()
        self._model, self._tokenizer = model, tokenizer

    @classmethod
    def load(cls, folder: Path, settings: GenerationSettings | None = None) -> "QueryGenerator":
        """The model in a folder saved by transformers, such as a doc2query T5."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        try:
            model = AutoModelForSeq2SeqLM.from_pretrained(str(folder), local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no seq2seq model that transformers can load: {error}") from None
        return cls(model.eval(), tokenizer, settings)

    def predict(self, documents: Iterable[Document], *, seed: int) -> Iterator[tuple[str, str]]:
        """(document id, queries of all its segments in order, joined by spaces), document by document.

        The same seed gives the same queries for a document, whatever other documents are asked about.
        """
        for document in documents:
            segments = [
                part for s in word_segments(document.text, self.settings.segment_words) for part in self._fit(s)
            ]
            queries: list[str] = []
            for start in range(0, len(segments), self.settings.batch_segments):
                part = segments[start : start + self.settings.batch_segments]
                queries += self._sample(part, derive(f"doc2query {document.id} {start}", seed))
            yield document.id, " ".join(query for query in queries if query)

    def _fit(self, segment: str) -> list[str]:
        """The segment, halved until each part fits the model's input; only a single overlong word is ever cut."""
        words = segment.split()
        if len(words) < 2 or len(self._tokenizer(segment)["input_ids"]) <= self.settings.input_tokens:
            return [segment]
        middle = len(words) // 2
        return self._fit(" ".join(words[:middle])) + self._fit(" ".join(words[middle:]))

    def _sample(self, segments: Sequence[str], seed: int) -> list[str]:
        import torch

        rules = self.settings
        inputs = self._tokenizer(
            list(segments), return_tensors="pt", padding=True, truncation=True, max_length=rules.input_tokens
        )
        # generate() draws from torch's global stream: use a copy of it and put the caller's back
        with torch.inference_mode(), torch.random.fork_rng():
            torch.manual_seed(seed)
            drawn = self._model.generate(
                input_ids=inputs["input_ids"],
                attention_mask=inputs["attention_mask"],
                do_sample=True,
                top_k=rules.top_k,
                max_new_tokens=rules.new_tokens,
                num_return_sequences=rules.queries_per_segment,
            )
        decode: Callable[..., list[str]] = self._tokenizer.batch_decode
        return [" ".join(text.split()) for text in decode(drawn, skip_special_tokens=True)]


def word_segments(text: str, words: int) -> list[str]:
    """The text in pieces of at most this many words; none for an empty text.

    >>> word_segments("one two three", 2)
    ['one two', 'three']
    """
    found = text.split()
    return [" ".join(found[start : start + words]) for start in range(0, len(found), words)]
