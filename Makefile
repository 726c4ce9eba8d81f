# Two commands do all the set-up: `make demo` and `make test`. `make bench DATA=FOLDER` runs knnoise
# and its peers in turn; DATA holds fashion_mnist.npz and may be left out. `make study DATA=FOLDER`
# runs the studies of docs/studies on a folder of .npz files, and again only what is missing.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= test
DATA   ?= data

.PHONY: demo test lint bench study clean
.DEFAULT_GOAL := demo

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	touch $@

demo: $(VENV)/.installed
	$(BIN)/knnoise demo --dir demo

test: lint
	$(BIN)/python -m pytest --cov --cov-report=term

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	$(BIN)/python -m benchmarks.race --data $(DATA) --results race

study: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[bench]"
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks.study --data $(DATA)

clean:
	rm -rf $(VENV) demo
