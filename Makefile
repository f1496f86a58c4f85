# What a person, a hook and CI run are the same commands.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# A new dependency or version changes the name of the stamp, and so sets up again; otherwise setup is a no-op.
STAMP := $(VENV)/installed-$(shell cat pyproject.toml constraints.txt | cksum | tr ' ' '-')
# Public papers of agents with their results, for benchmarks.external_papers (docs/audit.md).
PAPERS ?= ../shared/data/mlr-bench
# What hardly any run imports is compiled when it is used. A sandbox cannot keep what it compiles, and the optimizers of
# torch bring in sympy and torch._dynamo: 4 s a kernel.
SELDOM := /tests?/|/transformers/models/|/networkx/|/torch/(_inductor/[^/]+|testing)/
TORCH := $(shell grep '^torch==' constraints.txt)
UV := $(shell grep '^uv==' constraints.txt)

.DEFAULT_GOAL := help
.PHONY: help setup demo recorded-run test test-fast check bench gpu-check clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP)  ## .venv with everything, and missing Debian packages where that is allowed

$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "scientist needs Python 3.11 or newer, $(PYTHON) is older: make setup PYTHON=python3.12"; exit 1; }
	@PYTHON=$(PYTHON) bash agent/doctor/debian_packages.sh chromium
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile $(TORCH) $(UV)
	@# uv takes seconds where pip takes minutes, but does not read pip's files, which may name a mirror.
	$(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]' \
		|| $(BIN)/python -m pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	@# pip compiles on one core, and tests and every single model, too. Files for other versions of Python may not compile.
	@$(BIN)/python -m compileall -q -j 0 -x '$(SELDOM)' $(VENV)/lib >/dev/null 2>&1 || true
	@rm -f $(VENV)/installed-*
	@touch $@

demo: setup  ## a whole run without key or network: experiments, tree, paper (some minutes)
	$(BIN)/scientist demo

recorded-run: setup  ## make examples/recorded-run.zip anew, and the pictures of docs/pictures from it (some five minutes)
	$(BIN)/python examples/recording.py
	$(BIN)/python -m docs.pictures.make
	$(BIN)/python -m docs.pictures.moving

test: setup  ## every test
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-fast: setup  ## the tests of single parts, on all cores: no kernel, no TeX, no server, no whole run
	$(BIN)/python -m pytest -m "not slow" -n auto

check: setup  ## lint, format, types, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python
	$(BIN)/lint-imports --no-logo

bench: setup  ## what is too slow for the tests: sweeps marked `bench`, and measures as JSON in build/bench/
	@mkdir -p build/bench
	$(BIN)/python -m pytest -m "bench or hypothesis" --hypothesis-profile=bench -n auto --dist worksteal
	$(BIN)/python -m benchmarks.search --out build/bench/search.json
	$(BIN)/python -m benchmarks.durability --out build/bench/durability.json
	$(BIN)/python -m benchmarks.tuning --out build/bench/tuning.json
	$(BIN)/python -m benchmarks.decisions --out build/bench/decisions.json
	$(BIN)/python -m benchmarks.hours --out build/bench/hours.json
	$(BIN)/python -m benchmarks.record --out build/bench/record.json
	$(BIN)/python -m benchmarks.prompt_sharing examples/recorded-run.zip --out build/bench/prompts.json
	$(BIN)/python -m benchmarks.sandbox --out build/bench/sandbox.json
	$(BIN)/python -m benchmarks.honesty --out build/bench/honesty.json
	$(BIN)/python -m benchmarks.figure_lint --out build/bench/figures.json
	$(BIN)/python -m benchmarks.reference_baselines --out build/bench/ladder.json
	$(BIN)/python -m benchmarks.scale --no-page --out build/bench/scale.json
	$(BIN)/python -m benchmarks.packages --out build/bench/packages.json
	@if command -v chromium >/dev/null; then $(BIN)/python -m benchmarks.inspector --out build/bench/inspector.json; \
	else echo "benchmarks.inspector: no chromium; sudo apt-get install chromium"; fi
	@if [ -d "$(PAPERS)" ]; then $(BIN)/python -m benchmarks.external_papers "$(PAPERS)" --out build/bench/foreign.json; \
	else echo "benchmarks.external_papers: no folder $(PAPERS); give PAPERS=DIR (docs/audit.md)"; fi

gpu-check: setup  ## try on this machine's GPUs what experiments do, and write gpu-report.json
	$(BIN)/scientist doctor --gpu

clean:  ## remove what setup and the tools made (runs/ stays)
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
