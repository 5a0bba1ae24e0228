"""A ranker by what a person would type: names, folders, files, Python functions and HTTP services."""

import contextlib
import http.client
import importlib
import json
import os
import sys
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from longrank.core.addresses import shown_address
from longrank.core.contracts import Ranker
from longrank.core.errors import BadScore, ServiceError, SettingsError
from longrank.core.fingerprint import file_hash, fingerprint
from longrank.core.types import Document, Query, Scores
from longrank.rankers.foreign import ClassifierRanker, CrossEncoderRanker, OnnxRanker, is_onnx

if TYPE_CHECKING:
    from types import ModuleType

Dialect = Literal["cohere", "tei"]
ScoreFunction = Callable[[str, list[str]], Any]
Around = Callable[[Ranker], Ranker]

API_KEY = "LONGRANK_API_KEY"
_BATCH = {"cohere": 100, "tei": 32}  # documents a request; 32 is what TEI takes unless it was told otherwise
_LISTWISE = {"rankgpt"}
_RETRIED = {429, 500, 502, 503, 504}
_LONGEST_WAIT = 600.0  # seconds


def resolve(name: str, *, around: Around | None = None, device: str = "cpu", whole: bool = False) -> Ranker:
    """A ranker by what a person would type.

    ``http://host/v1/rerank`` (Cohere's and Jina's dialect, with ``?model=NAME`` where they serve several) or
    ``http://host/rerank`` (TEI's); ``package.module:function``; a folder of a transformers model with a classification
    head, or of its ONNX export; a kind and a folder or hub id, such as ``cross-encoder:folder`` for
    sentence-transformers (``KINDS`` has all); a TOML file that ``longrank harden`` wrote; else what ``longrank.load``
    takes: a checkpoint folder, 'minilm', or a TOML file with the name and params of a ranker that needs no training.
    ``around`` is put around the ranker itself, inside the wrapper of a hardened one. The folder of a cross-encoder is
    cut at its limit, as transformers does and an audit must see it; with ``whole`` it reads in windows to the end, as
    ``longrank.load`` does, where its type allows. What a file of ``longrank harden`` wraps stays as it was audited.
    """
    if name.endswith(".toml") and "ranker" in _table(name):
        from longrank.audit.harden import load_hardened

        return load_hardened(Path(name), lambda inner: resolve(inner, around=around, device=device))
    from longrank.encoders.device import usable_device
    from longrank.rankers.loading import on_device

    usable_device(device)
    found = on_device(_bare(name, whole=whole), device)
    return found if around is None else around(found)


def _bare(name: str, *, whole: bool) -> Ranker:
    kind, _, rest = name.partition(":")
    folder = Path(name)
    if name.startswith(("http://", "https://")):
        return _service(name)
    if kind in KINDS and rest:
        return KINDS[kind](rest)
    if _published(folder):
        if is_onnx(folder):
            return OnnxRanker.load(folder)
        return _best(name) if whole and _in_windows(folder) else ClassifierRanker.load(folder)
    if ":" in name and not folder.exists():
        return FunctionRanker(load_function(name))
    from longrank.rankers.loading import load

    return load(name)


def as_audited(name: str) -> str:
    """The name by which every command reads what an audit of this one reads: a cross-encoder's folder is then cut.

    >>> as_audited("minilm")
    'minilm'
    """
    folder = Path(name)
    return f"classifier:{name}" if _published(folder) and not is_onnx(folder) else name


def _published(folder: Path) -> bool:
    """Whether a folder holds a model as transformers saves it, and no checkpoint of ours."""
    return folder.is_dir() and not (folder / "ranker.json").is_file() and (folder / "config.json").is_file()


def identity(name: str) -> str:
    """What changes when the ranker of this name does: the files of a folder, the source of a function's module.

    Different names differ, since people may call two rankers alike on their cards; a service's key takes no part.
    """
    folder, (kind, _, rest) = Path(name), name.partition(":")
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return fingerprint([(str(f.relative_to(folder)), f.stat().st_size, f.stat().st_mtime_ns) for f in files])
    if name.endswith(".toml"):
        table = _table(name)
        named = [table["ranker"]] if "ranker" in table else [text for text in _texts(table) if Path(text).is_dir()]
        return fingerprint(file_hash(folder), [identity(str(part)) for part in named])
    if kind in KINDS and rest:
        return fingerprint(kind, identity(rest))
    if ":" in name and "://" not in name:
        source = getattr(_module(kind), "__file__", None)
        return fingerprint(name, file_hash(Path(source)) if source else "")
    return fingerprint(shown_address(name, longest=len(name)))  # hashed, so long values tell services apart


def ranker_label(name: str) -> str:
    """A ranker's name for people: the last part of a path, an address without scheme and keys, a wrapper behind a plus.

    >>> ranker_label("out/models/maxp/"), ranker_label("https://example.org/v2/rerank"), ranker_label("mod:score")
    ('maxp', 'example.org/v2/rerank', 'mod:score')
    """
    if name.endswith(".toml") and "ranker" in (table := _table(name)):
        inner = ranker_label(str(table["ranker"]))
        return f"{inner} + {table['wrapper']}" if table.get("wrapper") else inner
    if "://" in name:
        return shown_address(name).partition("://")[2]
    return name.rstrip("/").rpartition("/")[2] or name


def innermost(name: str) -> str:
    """Name and identity of the ranker that ``around`` is put around: a wrapper takes no part in what it scores."""
    if name.endswith(".toml") and "ranker" in (table := _table(name)):
        return innermost(str(table["ranker"]))
    return fingerprint(name, identity(name))


def orders_lists(name: str) -> bool:
    """Whether the ranker of this name gives an order, so that its scores hold only within one list."""
    if not name.endswith(".toml"):
        return name in _LISTWISE
    table = _table(name)
    return orders_lists(str(table["ranker"])) if "ranker" in table else table.get("name") in _LISTWISE


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
            raise BadScore(
                f"the function returned a {type(found).__name__}: it must return a list with a number for each document"
            ) from None


def load_function(name: str) -> ScoreFunction:
    """The function that ``package.module:function`` names; modules beside the working folder are found too."""
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = _module(module_name)
    except ImportError as error:
        hint = f"; name the module, not its file: {module_name[:-3]}:{attribute}" if module_name.endswith(".py") else ""
        raise SettingsError(f"cannot import {module_name!r} of ranker {shown_address(name)!r}: {error}{hint}") from None
    except Exception as error:  # anyone's code may raise anything
        said = f"{type(error).__name__}: {error}"
        raise SettingsError(f"importing {module_name!r} of ranker {shown_address(name)!r} fails with {said}") from error
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
    ``retried`` counts what was tried again, by what the service had answered.
    """

    url: str = field(repr=False)
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 4
    sleep: Callable[[float], None] = time.sleep
    retried: Counter[str] = field(default_factory=Counter, compare=False)

    def __post_init__(self) -> None:
        parts = _split(self.url)
        if "@" in parts.netloc:
            raise SettingsError(f"{self.shown!r} was given with a user or password: set {API_KEY}, or leave them out")
        if not parts.path.rstrip("/").endswith("/rerank"):
            raise SettingsError(f"{self.shown!r} must end in /v1/rerank, /v2/rerank (Cohere, Jina) or /rerank (TEI)")

    @property
    def shown(self) -> str:
        """The address without what may be a key."""
        return shown_address(self.url)

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
            return _in_order(rows, "relevance_score", len(texts), self.shown)
        body = {"query": query, "texts": texts, "raw_scores": True, "truncate": True}
        return _in_order(self._post(body), "score", len(texts), self.shown)

    def _post(self, body: dict[str, Any]) -> Any:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "longrank"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        if self.api_key:  # not for whoever the service may redirect to
            request.add_unredirected_header("Authorization", f"Bearer {self.api_key}")
        for attempt in range(self.retries + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as reply:
                    return json.loads(reply.read())
            except urllib.error.HTTPError as error:
                error.close()
                if error.code not in _RETRIED or attempt == self.retries:
                    raise ServiceError(f"{self.shown} answered {error.code} {error.reason}") from None
                wait, why = _retry_after(error.headers.get("Retry-After"), attempt), f"{error.code} {error.reason}"
            except (OSError, http.client.HTTPException) as error:
                if attempt == self.retries:
                    raise ServiceError(f"{self.shown} did not answer: {_why(error)}") from None
                wait, why = _retry_after(None, attempt), "no answer"
            except ValueError:
                raise ServiceError(f"{self.shown} answered with something that is not JSON") from None
            if wait > _LONGEST_WAIT:
                raise ServiceError(f"{self.shown} answered {why} and asks to be left alone for {wait:.0f} s")
            self.retried[why] += 1
            self.sleep(wait)
        raise ServiceError(f"{self.shown} did not answer")


def _service(address: str) -> HttpRanker:
    """A service by its address; a ``model`` named there is sent with every request, not with the address."""
    parts = _split(address)
    given = urllib.parse.parse_qs(parts.query)
    models = given.pop("model", [None])
    if len(models) > 1:
        raise SettingsError(f"{shown_address(address)!r} names {len(models)} models: audit them one by one")
    query = urllib.parse.urlencode(given, doseq=True)
    ranker = HttpRanker(parts._replace(query=query).geturl(), model=models[0], api_key=_key())
    if ranker.model and ranker.dialect == "tei":
        raise SettingsError(f"{shown_address(address)!r}: a /rerank service has one model, leave ?model= out")
    return ranker


def _split(address: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(address)
        usable = parts.scheme in ("http", "https") and parts.netloc and parts.port != 0 and address.isprintable()
    except ValueError:  # a port that is no number, a bracket that is not closed
        usable = False
    if not usable or " " in address:
        raise SettingsError(f"{shown_address(address)!r} is not an http address such as http://localhost:8080/rerank")
    return parts


def _key() -> str | None:
    return os.environ.get(API_KEY, "").strip() or None


def _embedding(model: str) -> Ranker:
    from longrank.encoders.pretrained import pretrained
    from longrank.rankers.embedding import embedding_ranker

    return embedding_ranker(pretrained(model, pooling="mean"))


def _first(model: str) -> Ranker:
    from longrank.rankers.cross_encoder import cross_encoder

    return cross_encoder(model, read="firstp")


def _best(model: str) -> Ranker:
    from longrank.rankers.cross_encoder import cross_encoder

    return cross_encoder(model, read="maxp")


def _in_windows(folder: Path) -> bool:
    from longrank.rankers.cross_encoder import reads_in_windows

    return reads_in_windows(folder)


KINDS: Mapping[str, Callable[[str], Ranker]] = {
    "classifier": ClassifierRanker.load,
    "cross-encoder": CrossEncoderRanker.load,
    "onnx": OnnxRanker.load,
    "embedding": _embedding,
    "firstp": _first,
    "maxp": _best,
}


def _table(name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"no file {name}: `longrank harden` writes such a file, or write one yourself") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{name} is not valid TOML: {error}") from None


def _texts(value: Any) -> Iterator[str]:
    """Every text in a table, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


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


def _why(error: OSError | http.client.HTTPException) -> str:
    """What went wrong with a connection; the words of a client's own error may quote the address."""
    return str(getattr(error, "reason", error)) if isinstance(error, OSError) else type(error).__name__


def _retry_after(header: str | None, attempt: int) -> float:
    """Seconds to wait: what the service says, as seconds or a date, else doubling from half a second."""
    wait = 0.5 * 2.0**attempt
    if header:
        try:
            wait = float(header)
        except ValueError:
            with contextlib.suppress(ValueError):
                wait = parsedate_to_datetime(header).timestamp() - time.time()
    return max(0.0, wait)  # in this order a NaN is no wait
