#!/usr/bin/env bash
# Every check, cheapest first, each named and timed. Called by `make test` with the folder of the environment's programs.
set -euo pipefail
bin=$1
export OMP_NUM_THREADS=1 # tests run in two processes, a thread each

step() {
  local name=$1 began=$SECONDS
  shift
  echo "== $name"
  "$@"
  echo "-- $name: $((SECONDS - began)) s"
}

wheel_works() ( # a subshell: what it makes is removed when it ends
  here=$PWD
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  "$bin/python" -m build --wheel --no-isolation --outdir "$scratch" . >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
  "$bin/python" -m venv "$scratch/venv"
  # the new environment sees the packages already installed, but longrank itself comes from the wheel
  packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  echo "$packages" >"$("$scratch/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/parent.pth"
  "$scratch/venv/bin/python" -m pip install --quiet --no-deps --disable-pip-version-check "$scratch"/*.whl
  cd "$scratch"
  "$scratch/venv/bin/longrank" --help >/dev/null
  "$scratch/venv/bin/longrank" list rankers >/dev/null
  "$scratch/venv/bin/python" -c 'import longrank, sys; sys.exit("venv" not in longrank.__file__)'
  "$scratch/venv/bin/python" "$here/examples/rank_documents.py" >/dev/null
)

step "format" "$bin/ruff" format --check .
step "lint" "$bin/ruff" check .
step "types" "$bin/mypy"
step "import directions" "$bin/lint-imports"
step "tests" "$bin/pytest" -m "not slow" -n 2 src tests
step "wheel" wheel_works
