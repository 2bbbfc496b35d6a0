# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed

.PHONY: demo test lint bench clean

demo: $(STAMP)
	$(BIN)/knotwork demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# PreTab needs pandas 2, so the peers live in an environment of their own.
bench: .venv-bench/.installed
	.venv-bench/bin/python benchmarks/encode.py
	.venv-bench/bin/python benchmarks/encode.py --streaming
	.venv-bench/bin/python benchmarks/layers.py
	.venv-bench/bin/python benchmarks/first_layer.py

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint]"
	touch $@

.venv-bench/.installed: pyproject.toml benchmarks/requirements.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-bench demo build dist
