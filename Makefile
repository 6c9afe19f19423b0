# The two commands of the README are `make demo` and `make test`. Both set up everything in .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS ?= offline

# Quiet and offline: nothing phones home, nothing asks a hub.
export HF_HUB_OFFLINE := 1
export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export DVC_NO_ANALYTICS := 1
export GX_ANALYTICS_ENABLED := false
export AWS_EC2_METADATA_DISABLED := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Else every command would compile again what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo release report repro sample quick test frameworks fuzz crash lint format benchmarks sbom hashes audit-dependencies clean feast schemas images

help:            ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 16

# The stamp is touched last: its existence means that the installation completed. Python compiles what is imported, when
# it is: compiling all 33,000 files took more than half of the installation.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("DRSR needs Python 3.11 or newer; say which with make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	@echo "installing into .venv (about a minute the first time) ..."
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

# What the images of docker/ install, each with its own extras; a test compares the lines.
install:         ## install into .venv only what is needed to run: make install EXTRAS=flows
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-cache-dir --constraint constraints.txt '.[$(EXTRAS)]'

demo: .venv/installed    ## make a policy from the measured public corpus, audit it, and show one decision (VIEW=default: the full one)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.demo $(if $(VIEW),--view $(VIEW))

release: .venv/installed ## build the policies of policies/ from the measured corpus, twice, to the same bytes: make release VERSION=2026.11.18
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.release $(if $(VERSION),--version $(VERSION))

report: demo     ## write every method, ablation and analysis in full on one page: var/report/index.html (fetches the public runs)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.full_report

repro: .venv/installed   ## run the same stages by DVC, where anything changed
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/dvc repro

sample: export DRSR_CATALOG_URL := sqlite:///$(CURDIR)/var/sample/catalog.sqlite
sample: export DRSR_ARTIFACT_ROOT := $(CURDIR)/var/sample/artifacts
sample: .venv/installed  ## measure the sample corpus anew and bundle its labels and features (ten minutes on two cores)
	$(BIN)/drsr backbone fetch smollm2-135m
	$(BIN)/drsr run --until featurize --workers 2
	$(BIN)/python -m drsr.flows.sample --make

quick: .venv/installed   ## run lint and the unit tests of what changed, within a minute
	$(BIN)/python -m scripts.quick

test: .venv/installed    ## run all tests, as CI does
	$(BIN)/drsr backbone fetch smollm2-135m
	$(BIN)/python -m pytest

# What does not go with the pins of constraints.txt, each in an environment of its own; PYTHON312 is a Python 3.12.
PYTHON312 ?= python3.12
TESTING := pytest pytest-xdist pytest-timeout hypothesis
frameworks:      ## test the adapters for OpenHands and Inspect against the real packages
	$(PYTHON312) -m venv .venv-openhands && .venv-openhands/bin/python -m pip install --quiet '.[openhands]' $(TESTING)
	.venv-openhands/bin/python -m pytest -n 0 tests/adapters/test_openhands.py
	$(PYTHON) -m venv .venv-inspect && .venv-inspect/bin/python -m pip install --quiet '.[inspect]' $(TESTING)
	.venv-inspect/bin/python -m pytest -n 0 tests/adapters/test_inspect_ai.py

fuzz: .venv/installed    ## send ten thousand generated requests through the core, twenty thousand and all recorded runs through a policy
	DRSR_FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest tests/fuzz tests/test_real_decisions.py --timeout 3600

crash: .venv/installed   ## kill (SIGKILL) ingest, freeze, label and featurize a hundred times, on SQLite and on PostgreSQL
	DRSR_CRASH_KILLS=100 $(BIN)/python -m pytest tests/offline/test_crashes.py --timeout 3600

feast: .venv/installed   ## install Feast in a separate environment and run the test that reads features through it; needs a package index
	$(PYTHON) -m venv var/feast
	var/feast/bin/python -m pip install --quiet feast==0.67.0
	DRSR_FEAST_PYTHON=$(CURDIR)/var/feast/bin/python $(BIN)/python -m pytest -n 0 tests/offline/featurize/test_feast_repository.py

schemas: .venv/installed ## check the Kubernetes template and OpenLineage events against the published schemas; needs a package index
	$(BIN)/python -m pip install --quiet --no-deps --target var/schemas kubernetes-validate==1.37.0 importlib-resources openlineage-python==1.54.0
	PYTHONPATH=var/schemas $(BIN)/python -m pytest -n 0 tests/docker/test_kubernetes.py tests/offline/notices/test_lineage.py

lint: .venv/installed    ## run ruff, strict mypy and hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint docker/*.Dockerfile

images:          ## build the images of docker/ by buildah, on a stand-in base made from Debian, as root, without an engine (IMAGES=decide)
	$(PYTHON) -m scripts.images $(IMAGES) $(if $(BASE_IMAGE),--base $(BASE_IMAGE)) $(if $(MIRROR),--mirror $(MIRROR)) --build='$(BUILD)'

format: .venv/installed  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sbom: .venv/installed    ## write CycloneDX lists of the Python packages of each image and of a policy's wheel: var/sbom/*.cdx.json (WHEEL=FILE)
	$(BIN)/python -m scripts.sbom $(if $(WHEEL),--wheel $(WHEEL))

hashes: .venv/installed  ## write var/requirements-light.txt with the hash of every file, for pip install --require-hashes (EXTRAS=light); needs a package index
	$(BIN)/python -m scripts.hashes $(if $(filter command line,$(origin EXTRAS)),$(EXTRAS),light)

audit-dependencies: .venv/installed  ## ask pip-audit about known vulnerabilities of what is installed; needs a network, and is not part of CI
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet pip-audit
	.venv/audit/bin/pip-audit --path .venv/lib/python3.*/site-packages --skip-editable

clean:           ## remove what the commands made here; the fetched language model stays in its cache
	rm -rf .venv var exports samples/measured build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
