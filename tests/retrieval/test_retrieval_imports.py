"""What importing costs."""

import subprocess
import sys

LIGHT = [
    *(
        f"longrank.retrieval.{name}"
        for name in ("bm25", "rm3", "fusion", "dense", "ann", "hybrid", "model1", "expansion")
    ),
    *(f"longrank.cli.{name}" for name in ("retrieve", "fuse", "pseudo_label")),
]
HEAVY = ["torch", "transformers", "scipy", "bm25s", "numba", "faiss", "Stemmer", "ir_measures"]


def test_importing_retrieval_and_its_commands_loads_nothing_heavy() -> None:
    code = f"import sys, {', '.join(LIGHT)}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
