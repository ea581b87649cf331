# `make demo` and `make test` set up all they need: a virtual environment in .venv and, for the tests, a browser.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: install install-dev browser demo test lint types layers tests clean

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@echo "Making a virtual environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "Installing sdjax-bot and its packages (a minute or two the first time)"
	@$(PIP) install --no-compile --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(VENV)/.installed
	@echo "Installing what the tests need"
	@$(PIP) install --no-compile --editable '.[dev]'
	@touch $@

browser:
	@command -v chromium >/dev/null || { \
	  echo "Installing Chromium for the browser tests"; \
	  SUDO=; [ "$$(id -u)" = 0 ] || SUDO=sudo; \
	  $$SUDO apt-get -qq update && DEBIAN_FRONTEND=noninteractive $$SUDO apt-get -qq install -y --no-install-recommends chromium fonts-noto-cjk >/dev/null; }

demo: install
	@$(BIN)/sdjax-bot demo

lint: install-dev
	@echo "Formatting and lint"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: install-dev
	@echo "Types"
	@$(BIN)/mypy --no-error-summary

layers: install-dev
	@echo "Import layers"
	@$(BIN)/lint-imports --no-cache > .import-layers.txt || { cat .import-layers.txt; rm -f .import-layers.txt; exit 1; }
	@rm -f .import-layers.txt

tests: install-dev browser
	@echo "Tests"
	@$(BIN)/python -m pytest --quiet --numprocesses 2 --dist loadfile --no-loadscope-reorder

test: lint types layers tests

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
