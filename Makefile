# Two commands do all the set-up: `make demo` and `make test`. `make bench DATA=FOLDER` runs knnoise
# and its peers in turn; DATA holds fashion_mnist.npz and may be left out.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= test
DATA   ?= data

.PHONY: demo test lint bench clean
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

clean:
	rm -rf $(VENV) demo
