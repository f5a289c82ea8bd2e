# make demo: a real model exported, served and answering.   make test: all tests.
VENV   := .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help install demo test check lint types layers bench clean

help: ## Show the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cpu,export,test,dev]'
	@touch $@

install: $(STAMP) ## Make the virtual environment and install mrs with all its extras.

demo: $(STAMP) ## Export a real model, serve it, ask it a question.
	$(BIN)/python -m benchmarks.demo

test: $(STAMP) ## Run all tests.
	$(BIN)/python -m pytest

check: lint types layers test ## Everything that CI runs.

lint: $(STAMP) ## Style.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict.
	$(BIN)/mypy

layers: $(STAMP) ## Import rules between the layers.
	$(BIN)/lint-imports --no-cache

clean: ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist
