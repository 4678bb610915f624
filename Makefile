# serve: install what serving needs, migrate, load the seed case, serve on http://127.0.0.1:8000
# test:  install everything, run all tests          check: format, lint, types, import contracts, tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: serve test check lint lock clean

serve: $(VENV)/.serve
	@$(BIN)/assay serve

test: $(VENV)/.test
	@tests/install-browser.sh
	$(BIN)/python -m pytest

check: lint test

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Assay needs Python 3.11 or newer, this is " + sys.version) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 3; }

$(VENV)/.serve: requirements/serve.lock pyproject.toml | $(BIN)/python
	@echo "Installing into $(VENV) (once; about a minute)"
	@$(PIP) install --require-hashes -r requirements/serve.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.test: requirements/test.lock pyproject.toml | $(BIN)/python
	@echo "Installing everything that tests need into $(VENV) (once; a few minutes)"
	@$(PIP) install --require-hashes -r requirements/test.lock
	@$(PIP) install --no-deps $(TORCH)
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.serve $@

lock:
	uv pip compile pyproject.toml --extra build --extra test --python-version 3.11 --universal --generate-hashes --no-header --no-annotate -o requirements/test.lock
	uv pip compile pyproject.toml --extra build --python-version 3.11 --universal --generate-hashes --no-header --no-annotate -c requirements/test.lock -o requirements/serve.lock

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
