# Every target works in .venv and calls its programs as modules, so a path with spaces is no trouble.
# Stamps in .venv keep a second run from asking pip anything.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test lint format bench clean FORCE

PYTHON ?=
VENV_PYTHON := .venv/bin/python
# Only pip's errors are worth a reader's time here; PIP_FLAGS= shows everything.
PIP_FLAGS ?= --quiet --disable-pip-version-check
# On Linux the ordinary torch wheel brings gigabytes of CUDA, which softdict never uses.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

# A user's own pip settings may say --user, which no environment can obey.
export PIP_USER := 0
# What another program has them look at first (ROS does) may hold other versions than are pinned.
unexport PYTHONPATH PYTHONHOME

# Of the versions that are pinned, a newer Python has none to install. One that somebody built without
# the libraries it wants lacks modules.
FITS := import sqlite3, ssl, sys, zlib; fits = (3, 11) <= sys.version_info < (3, 15)
# A half-made environment (no pip, or a Python that is gone or does not fit) is made again.
USABLE := $(shell $(VENV_PYTHON) -c '$(FITS); import pip; print(fits)' 2>/dev/null)
REMAKE := $(if $(filter True,$(USABLE)),,FORCE)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

run: .venv/runtime.stamp ## set up once, then serve http://127.0.0.1:8000
	@exec $(VENV_PYTHON) -m service serve

# Two at a time, for each has a service, a browser or a large dataset of its own.
test: .venv/dev.stamp ## run every test
	@$(VENV_PYTHON) -m pytest --numprocesses 2 --dist worksteal

lint: .venv/dev.stamp ## check style and types
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV_PYTHON) -m mypy --strict index service bench training

format: .venv/dev.stamp ## put the code in the house format
	$(VENV_PYTHON) -m ruff check --fix .
	$(VENV_PYTHON) -m ruff format .

# The others take a corpus, and an hour: see bench/RESULTS.md.
bench: .venv/bench.stamp ## measure, and print the figures (minutes)
	@set -e; for name in exact service encoder held_out; do \
	  echo "== $$name"; $(VENV_PYTHON) -m "bench.$$name"; \
	done

clean: ## remove the environment and the caches, never your data in var/
	rm -rf .venv .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/python.stamp: $(REMAKE)
	@if [ '$(USABLE)' = True ]; then touch $@; exit 0; fi; \
	found=; for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if "$$python" -c '$(FITS); sys.exit(not fits)' 2>/dev/null; then \
	    found=$$python; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo 'softdict needs Python 3.11, 3.12, 3.13 or 3.14 (with sqlite3, ssl and zlib) and found none.' >&2; \
	  echo 'Install one, or name it: make run PYTHON=/path/to/python3' >&2; \
	  exit 1; \
	fi; \
	echo "Making .venv with $$("$$found" --version)"; \
	if ! "$$found" -m venv --clear .venv; then \
	  echo 'Python cannot make a virtual environment here.' >&2; \
	  echo 'On Debian or Ubuntu: sudo apt-get install python3-venv' >&2; \
	  exit 1; \
	fi; \
	touch $@

.venv/runtime.stamp: .venv/python.stamp requirements.txt constraints.txt
	@echo 'Installing what softdict needs (minutes the first time, then never again)'
	@if [ "$$(uname -s)" = Linux ]; then \
	  $(VENV_PYTHON) -m pip install $(PIP_FLAGS) --no-deps --retries 0 --timeout 20 \
	    --index-url '$(TORCH_INDEX)' "$$(grep '^torch==' requirements.txt)" 2>/dev/null \
	  || echo 'The index of CPU-only torch is out of reach; using the ordinary one'; \
	fi
	@$(VENV_PYTHON) -m pip install $(PIP_FLAGS) -r requirements.txt
	@touch $@

.venv/dev.stamp: .venv/runtime.stamp requirements-dev.txt
	@echo 'Installing the tools for tests and checks'
	@$(VENV_PYTHON) -m pip install $(PIP_FLAGS) -r requirements-dev.txt
	@touch $@

.venv/bench.stamp: .venv/dev.stamp training/requirements.txt
	@echo 'Installing what the benchmarks compare with'
	@$(VENV_PYTHON) -m pip install $(PIP_FLAGS) -r training/requirements.txt
	@touch $@
