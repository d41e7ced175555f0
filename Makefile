# Every verb works from a fresh clone: it needs Python 3.11 or later, make, and a package index.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; `make install PYTHON=...` names another.
PYTHON ?= $(or $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done),python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
STAMP := $(VENV)/.installed
PEERS := $(VENV)/.installed-bench
RELEASE_TOOLS := $(VENV)/.installed-release
# The distribution without code, which the console script's environment has besides the client.
WHOLE := packages/penstock-db
LOWEST := .venv-lowest
LOWEST_EXTRAS := engine,sql,pandas,polars
PROJECTS := pyproject.toml $(WHOLE)/pyproject.toml $(WHOLE)/hatch_build.py
# What an installation depends on: a change of a linter's setting installs nothing.
PRINT := import hashlib, pathlib, sys, tomllib; \
	project = tomllib.loads(pathlib.Path("pyproject.toml").read_text()); \
	parts = [repr((project["project"], project["build-system"], project["tool"]["hatch"]))]; \
	parts += [pathlib.Path(name).read_text() for name in sys.argv[1:]]; \
	print(hashlib.sha256("".join(parts).encode()).hexdigest())

# What follows a verb: `make test ARGS="-k torn -n 0"`.
ARGS ?=
JOBS ?= 2
comma := ,

.PHONY: help install fmt check test test-all test-lowest demo bench docs release clean

help: ## Show the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Build .venv with the package (editable) and every tool

# An environment that is there is reused; delete .venv by hand for a new one.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# The distribution had the name `penstock` once: it goes first, or its end would take the console script along.
$(STAMP): $(PROJECTS) | $(BIN)/python
	@wanted=$$($(BIN)/python -c '$(PRINT)' $(filter-out pyproject.toml,$^)); \
	old=$$(compgen -G '$(VENV)/lib/python3*/site-packages/penstock-[0-9]*.dist-info' || true); \
	if [ "$$wanted" != "$$(cat $@ 2>/dev/null)" ] || [ -n "$$old" ] || [ ! -x $(BIN)/penstock ]; then \
		echo "building $(VENV): some 730 MB to download where pip has them not yet, most of it PySpark"; \
		[ -z "$$old" ] || $(PIP) uninstall --quiet --yes penstock; \
		$(PIP) install --quiet --editable '.[dev]' --editable $(WHOLE); \
	fi; \
	echo "$$wanted" > $@

fmt: $(STAMP) ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

check: $(STAMP) ## Lint, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: $(STAMP) ## Run the tests, without the slow ones (ARGS="-k ...")
	$(BIN)/pytest -q -m "not slow" -n $(JOBS) --dist loadfile $(ARGS)

test-all: $(STAMP) ## Run every test, with deeper property tests
	$(BIN)/pytest -q -n $(JOBS) --dist loadfile --hypothesis-profile deep $(ARGS)
	$(MAKE) test-lowest ARGS=

# The lowest versions are those of the oldest Python: later ones have no wheels of them.
$(LOWEST)/.installed: $(PROJECTS) packages/lowest.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "needs Python 3.11: make $(MAKECMDGOALS) PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python packages/lowest.py $(subst $(comma), ,$(LOWEST_EXTRAS)) > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(LOWEST)/constraints.txt \
		--editable '.[$(LOWEST_EXTRAS),test]' --editable $(WHOLE)
	@touch $@

test-lowest: $(LOWEST)/.installed ## Run the unit tests that need no Spark with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/pytest -q -m "not slow" -n $(JOBS) --dist loadfile tests/unit --ignore=tests/unit/spark $(ARGS)

demo: $(STAMP) ## See it work: a Spark job, two crashes, every total checked (ARGS="--orders ...")
	$(BIN)/penstock demo $(ARGS)

$(PEERS): pyproject.toml | $(STAMP)
	$(PIP) install --quiet --editable '.[bench]'
	@touch $@

bench: $(PEERS) ## Measure every job beside its peers: quickly, or as ARGS="--rows 1000000" says
	$(BIN)/python -m bench $(or $(ARGS),--quick)

docs: $(STAMP) ## Build the documentation into site/ (ARGS="serve" to read it while writing)
	$(BIN)/python docs/reference_api.py
	$(BIN)/python docs/reference_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs $(or $(ARGS),build --strict --quiet)

$(RELEASE_TOOLS): pyproject.toml | $(STAMP)
	$(PIP) install --quiet --editable '.[release]'
	@touch $@

# What users get is what is checked: both distributions, in environments that have nothing else.
release: $(RELEASE_TOOLS) ## Build both wheels and sdists into dist/, install and check them, audit what they bring, list it (SBOM)
	rm -rf dist build/release
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist $(WHOLE)
	$(BIN)/twine check --strict dist/*
	$(BIN)/python packages/check_release.py dist build/release
	$(BIN)/pip-audit --path build/release/whole/lib/python*/site-packages
	$(BIN)/cyclonedx-py environment --output-reproducible --of JSON -o dist/sbom.cdx.json build/release/whole/bin/python
	ls -l dist

clean: ## Remove caches and build output; .venv stays
	rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
