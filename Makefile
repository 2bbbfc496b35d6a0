# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STUDY = $(VENV)/.study
STAMP = $(VENV)/.installed

PLANS = ablation paper-mlp paper-mlp-seeds paper-resnet paper-ft paper-ft-coordinate efficiency efficiency-stacked knot-relocation \
    learned-starts knot-training illustration coordinate-sizes converged converged-knots

PIP = -m pip --quiet --disable-pip-version-check

.PHONY: demo test test-all fuzz core lint docs bench paper paper-tables quality quality-run clean

demo: $(STUDY)
	$(BIN)/knotwork demo --out demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadgroup --durations=15

# Also the tests marked as slow: further cases of what other tests show, large kernels, clusters.
test-all: $(STAMP)
	KNOTWORK_TESTS=all $(BIN)/python -m pytest -n auto --dist loadgroup --durations=15

# Damaged files in full, of which `make test` reads a few; takes some minutes.
fuzz: $(STAMP)
	KNOTWORK_FUZZ=full $(BIN)/python -m pytest tests/fuzz -s

# The library as `pip install knotwork` brings it: a wheel, without extras, in a fresh environment.
core: $(STAMP)
	rm -rf build/core build/lib
	$(PYTHON) -m venv build/core
	build/core/bin/python $(PIP) wheel --no-deps --wheel-dir build/core/wheel .
	build/core/bin/python $(PIP) install -c constraints.txt build/core/wheel/*.whl
	$(BIN)/python tests/installations/make_model.py build/core
	build/core/bin/python -I tests/installations/core.py build/core
	! build/core/bin/knotwork --version 2> build/core/said
	grep -x 'The command knotwork needs typer: pip install "knotwork\[study\]"' build/core/said

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Guide and reference into build/docs/index.html. Modules are read, not imported; a warning is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# All of the paper: needs a GPU, and the tables in KNOTWORK_DATA. It may be stopped and started again.
DEVICE ?= cuda
NO_GPU = make paper needs a GPU, and torch finds none. On a CPU it takes very long: DEVICE=cpu if that is wanted.
paper: $(STAMP)
	@$(BIN)/python -c "import sys, torch; sys.exit('$(DEVICE)' == 'cuda' and not torch.cuda.is_available() and '$(NO_GPU)')"
	set -e; for plan in $(PLANS); do \
	    $(BIN)/knotwork study prepare $$plan --out study; \
	    $(BIN)/knotwork study run $$plan --out study --device $(DEVICE); done
	$(BIN)/knotwork study pack study --out results
	$(MAKE) paper-tables

# Tables, figures and report from the records in results/ into build/paper: no GPU, no data, nothing is trained. The
# guide shows the page of the report (docs/paper/report.html), docs/findings.md and docs/paper_claims.md; README.md and
# knotwork.recommend have numbers of the records, too.
paper-tables: $(STAMP)
	$(BIN)/python results/report.py build/paper
	$(BIN)/python results/advice.py
	$(BIN)/python results/findings.py
	$(BIN)/python results/choices.py
	$(BIN)/python results/claims.py
	$(BIN)/python results/readme.py

# PreTab needs pandas 2, so the peers live in an environment of their own.
bench: .venv-bench/.installed
	.venv-bench/bin/python benchmarks/encode.py
	.venv-bench/bin/python benchmarks/encode.py --streaming
	.venv-bench/bin/python benchmarks/layers.py
	.venv-bench/bin/python benchmarks/layer.py --out build/layer
	.venv-bench/bin/python benchmarks/first_layer.py

# The sections on quality in README, guide and benchmarks, from the results in benchmarks/quality_cpu (two cores) and
# benchmarks/quality (GPU): nothing is trained.
quality: $(STAMP)
	$(BIN)/python benchmarks/quality.py --write

# Fits what is missing in benchmarks/quality_cpu, which takes many hours on two cores; it may be stopped and started
# again. KNOTWORK_DATA and KNOTWORK_MORE name the folders of the tables. AutoGluon has an environment of its own. A fit
# that fails is recorded, and the pages are written all the same. QUALITY has further options, see --help.
QUALITY ?= --alone
quality-run: .venv-quality/.installed build/venv-autogluon/.installed
	-.venv-quality/bin/python -W ignore benchmarks/quality.py $(QUALITY)
	$(MAKE) quality

# LOCKED=1 compares every package but torch with the hashes of requirements.lock; on Linux with Python 3.11 or 3.12.
LOCKED ?=
$(STUDY): pyproject.toml constraints.txt requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -z "$(LOCKED)" || $(BIN)/python $(PIP) install --require-hashes --no-deps -r requirements.lock
	$(BIN)/python $(PIP) install -c constraints.txt -e ".[study]"
	touch $@

# What tests and checks need beyond that.
$(STAMP): $(STUDY)
	$(BIN)/python $(PIP) install -c constraints.txt -e ".[test,lint,docs]"
	touch $@

.venv-bench/.installed: pyproject.toml benchmarks/requirements.txt
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python $(PIP) install torch==2.13.0
	.venv-bench/bin/python $(PIP) install -e ".[study]" -r benchmarks/requirements.txt
	touch $@

.venv-quality/.installed: pyproject.toml benchmarks/quality_requirements.txt
	test -x .venv-quality/bin/python || $(PYTHON) -m venv .venv-quality
	.venv-quality/bin/python $(PIP) install -c constraints.txt -e ".[study]" -r benchmarks/quality_requirements.txt
	touch $@

build/venv-autogluon/.installed: benchmarks/quality_autogluon.txt
	test -x build/venv-autogluon/bin/python || $(PYTHON) -m venv build/venv-autogluon
	build/venv-autogluon/bin/python $(PIP) install -r benchmarks/quality_autogluon.txt
	touch $@

clean:
	rm -rf $(VENV) .venv-bench .venv-quality demo study build dist
