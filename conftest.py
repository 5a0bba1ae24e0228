"""What doctest may not import: adapters of frameworks that are not installed."""

from importlib.util import find_spec

_PACKAGES = {
    "haystack": "haystack",
    "langchain": "langchain_core",
    "llama_index": "llama_index",
    "mteb": "mteb",
    "pyterrier": "pyterrier",
    "rerankers": "rerankers",
}
collect_ignore = [
    f"src/longrank/integrations/{module}.py" for module, package in _PACKAGES.items() if find_spec(package) is None
]
