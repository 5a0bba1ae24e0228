"""Other people's rankers as ours: Python functions, HTTP services, sentence-transformers and transformers models."""

import contextlib
import importlib
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longrank.core.contracts import Ranker
from longrank.core.errors import DataError, MissingExtra, ModelError, ServiceError, SettingsError
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.types import Document, Query, Scores

if TYPE_CHECKING:
    from types import ModuleType

Dialect = Literal["cohere", "tei"]
ScoreFunction = Callable[[str, list[str]], Any]

API_KEY = "LONGRANK_API_KEY"
_BATCH = {"cohere": 100, "tei": 32}  # documents a request; 32 is what TEI takes unless it was told otherwise
_RETRIED = {429, 500, 502, 503, 504}
_LONGEST_WAIT = 60.0
_CROSS_ENCODER = "cross-encoder:"


def resolve(name: str) -> Ranker:
    """A ranker by what a person would type.

    ``http://host/v1/rerank`` (Cohere's and Jina's dialect) or ``http://host/rerank`` (TEI's);
    ``package.module:function``; ``cross-encoder:folder`` for sentence-transformers; a folder of a transformers model
    with a classification head; else what ``longrank.load`` takes: a checkpoint folder, or 'minilm'.
    """
    if name.startswith(("http://", "https://")):
        return HttpRanker(name, api_key=os.environ.get(API_KEY))
    if name.startswith(_CROSS_ENCODER):
        return CrossEncoderRanker.load(name.removeprefix(_CROSS_ENCODER))
    folder = Path(name)
    if folder.is_dir() and not (folder / "ranker.json").is_file() and (folder / "config.json").is_file():
        return ClassifierRanker.load(folder)
    if ":" in name and not folder.exists():
        return FunctionRanker(load_function(name))
    from longrank.rankers.loading import load

    return load(name)


def identity(name: str) -> str:
    """What changes when the ranker of this name does: the files of a folder, the source of a function's module."""
    folder = Path(name)
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return fingerprint([(str(f.relative_to(folder)), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
    if ":" in name and "://" not in name and not name.startswith(_CROSS_ENCODER):
        source = getattr(_module(name.partition(":")[0]), "__file__", None)
        return file_hash(Path(source)) if source else ""
    return ""


@dataclass(frozen=True)
class FunctionRanker:
    """A Python function of a query's text and a list of document texts.

    >>> ranker = FunctionRanker(lambda query, texts: [text.count(query) for text in texts])
    >>> ranker.score(Query("q", "red"), [Document("a", "red red"), Document("b", "blue")]).values
    [2, 0]
    """

    function: ScoreFunction

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """What the function returns, as a list."""
        found = self.function(query.text, [document.text for document in documents])
        try:
            return Scores(list(found))
        except TypeError:
            raise DataError(
                f"the function returned a {type(found).__name__}; it must return a list with a number for each document"
            ) from None


def load_function(name: str) -> ScoreFunction:
    """The function that ``package.module:function`` names; modules beside the working folder are found too."""
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = _module(module_name)
    except ImportError as error:
        raise SettingsError(f"cannot import {module_name!r} of ranker {name!r}: {error}") from None
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise SettingsError(f"{module_name!r} has no function {attribute!r}; a ranker is 'package.module:function'")
    function: ScoreFunction = found
    return function


@dataclass(frozen=True)
class HttpRanker:
    """A reranking service; busy and failing replies are tried again, after as long as the service asks for.

    The dialect is told from the address: '/v1/rerank' and '/v2/rerank' are Cohere's and Jina's, '/rerank' is TEI's.
    """

    url: str
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 4
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise SettingsError(f"{self.url!r} is not an http address such as http://localhost:8080/rerank")
        if not parts.path.rstrip("/").endswith("/rerank"):
            raise SettingsError(f"{self.url!r} must end in /v1/rerank, /v2/rerank (Cohere, Jina) or /rerank (TEI)")

    @property
    def dialect(self) -> Dialect:
        """How the service is spoken to."""
        path = urllib.parse.urlsplit(self.url).path.rstrip("/")
        return "cohere" if path.endswith(("/v1/rerank", "/v2/rerank")) else "tei"

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """The service's scores, asked for in batches."""
        values: list[float] = []
        size = _BATCH[self.dialect]
        for at in range(0, len(documents), size):
            values += self._batch(query.text, [document.text for document in documents[at : at + size]])
        return Scores(values)

    def _batch(self, query: str, texts: list[str]) -> list[float]:
        body: dict[str, Any]
        if self.dialect == "cohere":
            body = {"query": query, "documents": texts, "top_n": len(texts), "return_documents": False}
            if self.model:
                body["model"] = self.model
            reply = self._post(body)
            rows = reply.get("results") if isinstance(reply, dict) else None
            return _in_order(rows, "relevance_score", len(texts), self.url)
        body = {"query": query, "texts": texts, "raw_scores": True, "truncate": True}
        return _in_order(self._post(body), "score", len(texts), self.url)

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "longrank"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        for attempt in range(self.retries + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                if error.code not in _RETRIED or attempt == self.retries:
                    raise ServiceError(f"{self.url} answered {error.code} {error.reason}") from None
                wait = _retry_after(error.headers.get("Retry-After"), attempt)
            except (TimeoutError, urllib.error.URLError) as error:
                if attempt == self.retries:
                    raise ServiceError(f"{self.url} did not answer: {getattr(error, 'reason', error)}") from None
                wait = _retry_after(None, attempt)
            except ValueError:
                raise ServiceError(f"{self.url} answered with something that is not JSON") from None
            self.sleep(wait)
        raise ServiceError(f"{self.url} did not answer")


@dataclass(frozen=True)
class CrossEncoderRanker:
    """A CrossEncoder of sentence-transformers with one output."""

    model: Any
    batch: int = 16

    @classmethod
    def load(cls, name: str | Path) -> "CrossEncoderRanker":
        """The model in a folder, or of a hub id."""
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise MissingExtra("sentence-transformers", "adapters", purpose="a CrossEncoder") from None
        return cls(CrossEncoder(str(name), device="cpu"))

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """What ``predict`` gives for each pair, and how many pairs it had to cut."""
        if not documents:
            return Scores([])
        pairs = [(query.text, document.text) for document in documents]
        found = self.model.predict(pairs, batch_size=self.batch, show_progress_bar=False, convert_to_numpy=True)
        limit = int(self.model.max_length or self.model.tokenizer.model_max_length)
        return Scores([float(value) for value in found], *_cut(self.model.tokenizer, pairs, limit))


@dataclass(frozen=True)
class ClassifierRanker:
    """A transformers model with a sequence-classification head: its one logit, or the second less the first."""

    model: Any
    tokenizer: Any
    max_tokens: int
    batch: int = 16

    @classmethod
    def load(cls, folder: Path | str) -> "ClassifierRanker":
        """The model in a folder, refused if a weight had to be made up."""
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder))
            model, info = AutoModelForSequenceClassification.from_pretrained(str(folder), output_loading_info=True)
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder} holds no usable transformers model: {error}") from None
        if info["missing_keys"]:
            missing = ", ".join(sorted(info["missing_keys"])[:3])
            raise ModelError(f"{folder} lacks weights of its classification head ({missing}): it would score at random")
        if model.config.num_labels not in (1, 2):
            raise ModelError(f"{folder} has {model.config.num_labels} labels; a ranker has one, or two: no and yes")
        positions = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
        return cls(model.eval(), tokenizer, min(int(positions), int(tokenizer.model_max_length)))

    def score(self, query: Query, documents: Sequence[Document]) -> Scores:
        """One logit a document, and how many pairs were cut."""
        import torch

        values: list[float] = []
        pairs = [(query.text, document.text) for document in documents]
        for at in range(0, len(pairs), self.batch):
            asked, texts = map(list, zip(*pairs[at : at + self.batch], strict=True))
            rows = self.tokenizer(
                asked, texts, padding=True, truncation="longest_first", max_length=self.max_tokens, return_tensors="pt"
            )
            with torch.inference_mode():
                logits = self.model(**rows).logits.float()
            values += (logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]).tolist()
        return Scores(values, *_cut(self.tokenizer, pairs, self.max_tokens))


def _cut(tokenizer: Any, pairs: Sequence[tuple[str, str]], limit: int) -> tuple[int, int]:
    """Pairs longer than the limit, and the tokens that do not fit."""
    if not pairs:
        return 0, 0
    asked, texts = map(list, zip(*pairs, strict=True))
    lengths = [len(ids) for ids in tokenizer(asked, texts, truncation=False, verbose=False)["input_ids"]]
    over = [length - limit for length in lengths if length > limit]
    return len(over), sum(over)


def _module(name: str) -> "ModuleType":
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(here)


def _in_order(rows: Any, key: str, expected: int, url: str) -> list[float]:
    """Scores by document from rows that come best first; every document exactly once."""
    try:
        found = {int(row["index"]): row[key] for row in rows}
        values = [float(found[at]) for at in range(expected)]
    except (KeyError, TypeError, ValueError):
        raise ServiceError(f"{url} did not answer with an index and a {key} for each of {expected} documents") from None
    if len(found) != expected or len(rows) != expected:
        raise ServiceError(f"{url} answered with {len(rows)} rows for {expected} documents")
    return values


def _retry_after(header: str | None, attempt: int) -> float:
    """Seconds to wait: what the service says, as seconds or a date, else doubling from half a second."""
    wait = 0.5 * 2.0**attempt
    if header:
        try:
            wait = float(header)
        except ValueError:
            with contextlib.suppress(ValueError):
                wait = parsedate_to_datetime(header).timestamp() - time.time()
    return min(max(wait, 0.0), _LONGEST_WAIT)
