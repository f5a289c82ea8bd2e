# make demo: a real model exported, served and answering.   make test: all tests.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help install demo test schema-suite check lint types layers clean

help: ## Show the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# Made again when the dependencies change. The stamp comes last: what was cut short starts over.
# Python compiles what is used when it is used; compiling all of it here would take half a minute.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "mrs needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "Making $(VENV) and installing mrs with its dependencies: a minute or two, once."
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "$(PYTHON) -m venv failed; Debian and Ubuntu have it in the package python3-venv." >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[cpu,export,test,dev]' || { \
	  echo "pip could not install the dependencies, see above. Once the package index can be" >&2; \
	  echo "reached ($(BIN)/python -m pip config list shows which one), run make again." >&2; exit 1; }
	@touch $@

install: $(STAMP) ## Make .venv and install mrs into it with all its extras.

demo: $(STAMP) ## Export a real model, serve it, ask it a question.
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## Run all tests.
	$(BIN)/python -m pytest

SUITE := jsonschema==4.26.0

schema-suite: $(STAMP) ## JSON-Schema-Test-Suite, fetched from a package, against grammars.
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	  $(BIN)/python -m pip download --quiet --no-deps --no-binary :all: --dest "$$folder" $(SUITE) && \
	  tar -xzf "$$folder"/jsonschema-*.tar.gz -C "$$folder" --strip-components 1 && \
	  MRS_JSON_SCHEMA_TEST_SUITE="$$folder/json" $(BIN)/python -m pytest tests/runtime/grammar/test_schema_suite.py

check: lint types layers test ## Everything that CI runs.

lint: $(STAMP) ## Style: ruff.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## Types: mypy --strict.
	$(BIN)/mypy

layers: $(STAMP) ## Imports between the layers: import-linter.
	$(BIN)/lint-imports --no-cache

clean: ## Remove .venv and all caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
