# Two commands do all the set-up: `make demo` and `make test`. `make bench DATA=FOLDER` runs knnoise
# and its peers in turn; DATA holds fashion_mnist.npz and may be left out. `make study DATA=FOLDER`
# runs the studies of docs/lab/studies on a folder of .npz files, and again only what is missing.
# `make soak` runs RUNS scheduled scorings and says what grows. `make release` leaves a wheel that was
# tried in a bare environment, and its bill of materials, in dist/, and runs of a new version in
# tests/formats; last, `make audit` asks a database of vulnerable packages about the bill, and fails
# where that cannot be reached.
# `make test PYTEST="--cov --cov-report=term"` counts the lines that the tests reach.
# `make docs` writes the documentation as a site to site/, its tutorials executed; a warning fails it.
# `make formats` confirms that types which reach disk have changed since the last release.
# `make fuzz` gives CASES hostile sources to the command line and prints how it ended with each.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= test
DATA   ?= data
JOBS   ?= 4
PYTEST ?=
FAULTS ?= 1100
CASES  ?= 20000
SEED   ?= 0
RUNS   ?= 100
BARE   := dist/bare/bin

# What is imported is compiled once, not by each of the thousands of processes that tests start; here
# all of it is while it is installed.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE ?= 1

# By uv, in half of pip's time; by pip where uv finds nothing (it does not read pip's settings).
INSTALL = $(BIN)/uv pip install --python $(BIN)/python --constraint constraints.txt \
	--editable ".[$$extras]" 2> /dev/null || \
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$$extras]"

.PHONY: demo test lint formats docs bench study faults fuzz soak release audit clean
.DEFAULT_GOAL := demo

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt uv
	extras=all,$(EXTRAS); $(INSTALL)
	touch $@

demo: $(VENV)/.installed
	$(BIN)/knnoise demo --dir demo

# One thread a library: those of tests that run beside each other would wait for each other's cores.
# Files in their order, which has those of the longest tests first, not those of the most tests.
# They are collected once before several processes do so, which would each compile them.
test: lint
	-$(BIN)/python -m pytest --collect-only -q > /dev/null
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadscope --no-loadscope-reorder $(PYTEST)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

formats: $(VENV)/.installed
	PYTHONPATH=tests $(BIN)/python -m formats.stored
	PYTHONPATH=tests $(BIN)/python -m formats.typed

$(VENV)/.docs: $(VENV)/.installed
	extras=docs; $(INSTALL)
	touch $@

docs: $(VENV)/.docs
	rm -rf site
	PATH=$(abspath $(BIN)):$$PATH $(BIN)/sphinx-build -q -W --keep-going -c docs/site docs site
	rm -rf jupyter_execute # copies of what the pages show

bench: $(VENV)/.installed
	extras=race; $(INSTALL)
	$(BIN)/python -m benchmarks.race --data $(DATA) --results race

study: $(VENV)/.installed
	extras=bench,crowd; $(INSTALL)
	OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks.study --data $(DATA)

faults: $(VENV)/.installed
	extras=faults; $(INSTALL)
	PYTHONPATH=tests $(BIN)/python -m faults --faults $(FAULTS) --seed $(SEED)

fuzz: $(VENV)/.installed
	PYTHONPATH=tests $(BIN)/python -m fuzz --cases $(CASES) --seed $(SEED)

soak: $(VENV)/.installed
	PYTHONPATH=tests $(BIN)/python -m soak.run --runs $(RUNS)

release: $(VENV)/.installed
	extras=release; $(INSTALL)
	PYTHONPATH=tests $(BIN)/python -m formats.kept
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	$(PYTHON) -m venv dist/bare
	$(BARE)/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/*.whl)[all]"
	$(BARE)/python -m pip check
	cd dist && bare/bin/knnoise --version && bare/bin/knnoise demo --dir trial
	rm dist/bare/lib/python*/site-packages/knnoise-*/direct_url.json # which names a path of this host
	$(BARE)/python -m pip uninstall --quiet --yes pip setuptools
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/knnoise.cdx.json $(BARE)/python
	rm -rf dist/bare dist/trial
	$(MAKE) --no-print-directory audit

# Of the packages in the bill of materials. A table is of vulnerable ones; without an answer there is none.
audit: $(VENV)/.installed
	@$(BIN)/python -c "import json; found = json.load(open('dist/knnoise.cdx.json'))['components']; \
		print(*(f\"{c['name']}=={c['version']}\" for c in found if c['name'] != 'knnoise'), sep='\n')" \
		> dist/packages.txt
	@found=$$($(BIN)/pip-audit --strict --no-deps --disable-pip --progress-spinner off \
		--requirement dist/packages.txt 2> dist/audit.log) && rm dist/audit.log || { \
		echo "$${found:-not audited: the database of vulnerable packages is out of reach (dist/audit.log); all else is in dist/: run make audit where it can be reached, before anything is published}"; \
		exit 1; }

clean:
	rm -rf $(VENV) demo dist
