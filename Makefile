# Each target does its own set-up: a virtual environment in .venv, made once and brought up to date when
# pyproject.toml or constraints.txt change. Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
USER_READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check docs clean
.NOTPARALLEL: # two installations into one environment at a time would spoil it

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(USER_READY) ## PSJ, HSJ and HSJ with votes on embedded images: a table and two pictures
	$(BIN)/psj demo

test: check ## style, types, layers, the quick tests, and attacks under every instruction set of the processor
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist worksteal
	$(BIN)/python scripts/test_capabilities.py --quick

test-all: check ## style, types, layers and all tests, those of minutes included
	$(BIN)/python -m pytest -n 2 --dist worksteal
	$(BIN)/python scripts/test_capabilities.py

check: $(DEV_READY) ## style, types and layers alone
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

docs: $(DEV_READY) ## the documentation site in build/site; a broken link fails
	$(PIP) install -e ".[docs]" -c constraints.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment, the caches and what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(USER_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -e . -c constraints.txt
	touch $@

$(DEV_READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -e ".[dev]" -c constraints.txt
	touch $@ $(USER_READY)
