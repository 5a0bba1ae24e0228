"""What a server is told: the ranker, where it listens, and its limits."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from longrank.core.addresses import shown_address
from longrank.core.settings import Settings, apply_overrides, load_settings, parse_settings

TOKEN_VARIABLE = "LONGRANK_SERVE_TOKEN"
MEGABYTE = 1_000_000


class ServeSettings(Settings):
    """The TOML of ``longrank serve``; the file that ``longrank harden`` writes is one too.

    ``names`` are what clients may call the model, the first is the one shown; without any it is the ranker's own.
    ``listwise`` hands over the documents of a request together, for rankers whose scores depend on each other.
    """

    ranker: str
    wrapper: str | None = None
    params: Mapping[str, Any] = {}
    names: tuple[str, ...] = ()
    device: str = "cpu"
    runtime: Literal["fp32", "bf16", "int8", "onnx"] = "fp32"
    untrained: bool = False
    listwise: bool = False
    activation: Literal["sigmoid", "none"] = "sigmoid"

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)

    max_body_megabytes: float = Field(default=32, gt=0)
    max_documents: int = Field(default=10_000, ge=1)
    max_document_characters: int = Field(default=20_000_000, ge=1)
    max_query_characters: int = Field(default=20_000, ge=1)
    max_requests: int = Field(default=64, ge=1)
    max_held_megabytes: float = Field(default=256, gt=0)
    seconds: float = Field(default=300, gt=0)
    body_seconds: float = Field(default=30, gt=0)
    send_seconds: float = Field(default=30, gt=0)
    stop_seconds: float = Field(default=60, gt=0)
    batch_tokens: int = Field(default=2048, ge=1)
    turn_seconds: float = Field(default=0.25, gt=0)

    @property
    def shown_names(self) -> tuple[str, ...]:
        """Names by which clients may ask for the model, without what may be a key of a service.

        >>> ServeSettings(ranker="models/maxp").shown_names
        ('maxp', 'models/maxp')
        >>> ServeSettings(ranker="minilm", wrapper="chunk-max").shown_names
        ('minilm + chunk-max', 'minilm')
        """
        whole = shown_address(self.ranker)
        bare = Path(whole).name or whole
        wrapped = bare if self.wrapper is None else f"{bare} + {self.wrapper}"
        return self.names or tuple(dict.fromkeys((wrapped, bare, whole)))


def serve_settings(config: str, overrides: Sequence[str] = ()) -> ServeSettings:
    """Settings from a TOML file, or for the ranker of this name, with ``key=value`` overrides applied."""
    if config.endswith(".toml"):
        return load_settings(ServeSettings, Path(config), overrides)
    return parse_settings(ServeSettings, apply_overrides({"ranker": config}, overrides), source=shown_address(config))
