"""``longrank serve``: a ranker behind HTTP."""

from typing import Annotated

import typer


def serve(
    config: Annotated[str, typer.Argument(help="A TOML file, or a ranker: a folder, 'minilm', a module:function.")],
    *,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Setting of the file to change, as key=value; may be repeated.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; 127.0.0.1 unless given.")] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port to listen on; 8000 unless given.")] = None,
) -> None:
    """Answer rerank requests in the dialects of Cohere, Jina and vLLM (/v1/rerank, /v2/rerank) and of TEI (/rerank).

    A page to try the ranker on is at /. With LONGRANK_SERVE_TOKEN in the environment, requests need it as a bearer
    token. One line of JSON a request goes to standard error.

    longrank serve minilm --port 8000
    """
    from longrank.serving.launch import serve as run
    from longrank.serving.settings import serve_settings

    given = [f"{key}={value!r}" for key, value in (("host", host), ("port", port)) if value is not None]
    run(serve_settings(config, [*(overrides or []), *given]))
