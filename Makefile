# Python keeps what it compiled: without it, every process that the tests start compiles torch again.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.ready-for-demo
READY := $(VENV)/.ready-for-all
WORKERS ?= 2
PEERS := .bench-venv
PEERS_READY := $(PEERS)/.ready
# Without --no-compile, pip compiles every module; Python itself compiles those that are imported.
INSTALL := -m pip install --quiet --no-compile --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench clean

help:  ## say what can be done here
	@echo "nescio: classifiers that know when they do not know"
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s%s\n", $$1, $$2}'

# Installed once, and again only when the requirements change. The demo and the page need a part of it.
$(DEMO_READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
		{ echo "nescio needs Python 3.10 to 3.13; call: make PYTHON=python3.11 ..."; exit 1; }
	@echo "setting up $(VENV) for the demo and the page: a minute or two, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) --editable '.[demo,serve]'
	@touch $(DEMO_READY)

$(READY): $(DEMO_READY)
	@echo "adding to $(VENV) what tests, linters and benchmarks need: a few minutes, once"
	$(BIN)/python $(INSTALL) --editable '.[dev]'
	@touch $(READY)

demo: $(DEMO_READY)  ## train on real digits, show letters and a turning 1, write demo/report.html
	@$(BIN)/nescio demo --out demo

# Coverage is measured in the tests of what must be covered alone: it doubles the time of a test.
COVERED := $(addprefix --cov-within=tests/,opinions functional test_losses.py test_precision.py)
test: $(READY)  ## run the tests; opinions, functional and losses must be covered
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report= $(COVERED)
	$(BIN)/coverage report --include='src/nescio/opinions/*,src/nescio/functional/*,src/nescio/losses.py' --fail-under=100

check: $(READY)  ## run the linters: ruff, mypy, import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(READY)  ## build the site into site/: runs the tutorials; a broken link or an undocumented name fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(READY) $(PEERS_READY)  ## measure speed against peers, in an environment of their own
	@missed=; for one in $(BIN):startup $(BIN):data $(PEERS)/bin:loss $(BIN):training $(BIN):methods $(BIN):serving; do \
		echo "== benchmarks.$${one#*:}"; $${one%:*}/python -m benchmarks.$${one#*:} || missed="$$missed $${one#*:}"; \
	done; test -z "$$missed" || { echo "a limit was missed, or the run failed:$$missed"; exit 1; }

# Without their dependencies, which would pull another torch: the losses need torch alone.
$(PEERS_READY): constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python $(INSTALL) torch numpy lazy-loader
	$(PEERS)/bin/python -m pip install --quiet --no-deps torch-uncertainty==0.13.0 edl-pytorch==0.0.2
	$(PEERS)/bin/python -m pip install --quiet --no-deps --editable .
	@touch $(PEERS_READY)

clean:  ## remove the virtual environment and everything built
	rm -rf $(VENV) .bench-venv demo site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
