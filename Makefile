# What a developer does here. `make` alone lists it. Every target sets itself up first: `make setup` is implied.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Tests run on two processes; `make test WORKERS=8` on more.
WORKERS := 2
# Nodes of `make scale`.
NODES := 500

# Compiled modules are kept, whatever the environment says: without them each of the hundreds of processes that tests
# start compiles Bosket anew, for a second.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo lint hooks check test e2e bench bench-check scale clean

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make the virtual environment; the second time it is quick and needs no network
	@echo "ready: $(VENV)"

# Runs again only when what is installed would change. Everything comes from the pins, the build backend too, and is
# checked by its hash; Bosket itself is then installed without looking anywhere.
$(READY): pyproject.toml constraints.txt
	@python=; for each in python3 python3.13 python3.12 python3.11; do \
	  if $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$$each; break; fi; \
	done; \
	test -n "$$python" || { echo "Bosket needs Python 3.11 or newer: none of python3, python3.13, python3.12, python3.11 is."; exit 1; }; \
	test -x $(BIN)/python || { echo "== making $(VENV) with $$python ($$($$python --version))"; $$python -m venv $(VENV); }
	@echo "== installing Bosket and its tools into $(VENV)"
	$(BIN)/python -m pip install --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@touch $@

demo: $(READY) ## a whole cluster in one process: queues, gangs, more work than fits
	$(BIN)/bosket demo

lint: $(READY) ## style, types and layers; no tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

hooks: $(READY) ## let git run the linters on every commit (see .pre-commit-config.yaml)
	$(BIN)/pre-commit install

check: lint ## what to run before every commit: style, types, layers and the fast tests, in about a minute
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -q -m "not slow and not real"

test: lint ## style, types, layers, and all tests that need nothing but Python
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not real"

e2e: $(READY) ## the end-to-end tests on a real control plane, which is built once; `test` has them on the embedded one
	$(BIN)/python -m tests.controlplane build
	$(BIN)/pytest tests/e2e tests/controlplane -m real

bench: $(READY) ## measure: cycles beside the Go scheduler's, idle cycles, Job to Running; renews docs/benchmarks.* and the chart
	$(BIN)/python -m benchmarks --write

bench-check: $(READY) ## whether anything has become slower than the committed ratios to a calibration loop
	$(BIN)/python -m benchmarks check

scale: $(READY) ## KAI's scale suite on a real control plane with 500 simulated nodes; `make scale NODES=50` runs it smaller
	$(BIN)/python -m tests.controlplane build
	$(BIN)/python -m benchmarks scale --nodes $(NODES)

clean: ## remove what was made here; the control plane's binaries stay in the user's cache
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
