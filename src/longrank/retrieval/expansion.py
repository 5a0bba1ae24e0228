"""Documents widened by the queries they may answer (doc2query): predictions from a file, or from a seq2seq model."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pydantic import Field

from longrank.core.errors import BadLine, ModelError, UnknownDocument
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.progress import Meter
from longrank.core.seeds import derive
from longrank.core.settings import Settings
from longrank.core.types import Document
from longrank.corpora.formats.files import numbered_lines, writing
from longrank.retrieval.ids import documents_fingerprint


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
            stream.write(_line(document_id, text))


class Predictor(Protocol):
    """What writes the queries of documents, and says by ``identity`` and settings when they would be others."""

    settings: "GenerationSettings"
    identity: str

    def predict(self, documents: Iterable[Document], *, seed: int) -> Iterator[tuple[str, str]]:
        """(document id, its queries), document by document."""
        ...


class Written(NamedTuple):
    """How many documents have predictions, and how many of them an earlier, interrupted job had left."""

    documents: int
    found: int


def write_resumably(path: Path, generator: Predictor, documents: Collection[Document], *, seed: int) -> Written:
    """Write the predictions of all documents; a job that was killed goes on where it was when it is run again.

    What is done stands in a file beside ``path``, a line a document, that carries a hash of model, settings, seed and
    documents: where one of them has changed, all is written anew. ``path`` itself appears only whole.
    """
    part = path.with_name(f".{path.name}.part")
    mark = fingerprint(generator.identity, generator.settings, seed, documents_fingerprint(documents))
    done = _left_over(part, mark)
    path.parent.mkdir(parents=True, exist_ok=True)
    with part.open("a" if done is not None else "w", encoding="utf-8", newline="\n") as stream:
        if done is None:
            stream.write(f"{mark}\n")
        missing = [document for document in documents if document.id not in (done or {})]
        with Meter("writing queries", total=len(documents), done=len(done or {})) as meter:
            for document_id, text in generator.predict(missing, seed=seed):
                stream.write(_line(document_id, text))
                stream.flush()
                meter.advance()
    lines = _left_over(part, mark) or {}
    with writing(path) as stream:
        stream.writelines(lines[document.id] for document in documents)
    part.unlink()
    return Written(len(documents), len(done or {}))


def _left_over(part: Path, mark: str) -> dict[str, str] | None:
    """Whole lines by document id of a job of this mark; None if there is none. A last line that was cut is removed."""
    if not part.is_file():
        return None
    data = part.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    head, _, rest = whole.decode("utf-8", "replace").partition("\n")
    if head != mark:
        return None
    if len(whole) < len(data):
        with part.open("r+b") as stream:
            stream.truncate(len(whole))
    return {line.partition("\t")[0]: f"{line}\n" for line in rest.split("\n") if line}


def _line(document_id: str, text: str) -> str:
    return f"{document_id}\t{' '.join(text.split())}\n"


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

    def __init__(
        self, model: Any, tokenizer: Any, settings: GenerationSettings | None = None, *, identity: str = ""
    ) -> None:
        self.settings = settings or GenerationSettings()
        self.identity = identity  # changes when the weights do
        self._model, self._tokenizer = model, tokenizer

    @classmethod
    def load(cls, folder: Path, settings: GenerationSettings | None = None, *, device: str = "cpu") -> "QueryGenerator":
        """The model in a folder saved by transformers, such as a doc2query T5; never from a pickle."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        from longrank.encoders.device import usable_device
        from longrank.encoders.pretrained import safe_weights

        place = usable_device(device)
        try:
            model, missing = safe_weights(AutoModelForSeq2SeqLM, str(folder), local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no seq2seq model that transformers can load: {error}") from None
        if missing:
            raise ModelError(f"{folder} lacks weights for {len(missing)} parameters (first: {missing[0]!r})")
        files = sorted(path for path in folder.glob("*") if path.suffix in {".safetensors", ".json", ".model"})
        identity = fingerprint([(path.name, file_hash(path)) for path in files])
        return cls(model.to(place).eval(), tokenizer, settings, identity=identity)

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
                input_ids=inputs["input_ids"].to(self._model.device),
                attention_mask=inputs["attention_mask"].to(self._model.device),
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
