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

.PHONY: help install demo release report repro sample quick test frameworks fuzz crash lint format benchmarks sbom hashes audit-dependencies clean feast images

help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 16

# The stamp is touched last: its existence means that the installation completed.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("DRSR needs Python 3.11 or newer; say which with make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	@echo "installing into .venv (about two minutes the first time) ..."
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# What the images of docker/ install, each with its own extras; a test compares the lines.
install:         ## into .venv what only runs: make install EXTRAS=flows
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-cache-dir --constraint constraints.txt '.[$(EXTRAS)]'

demo: .venv/installed    ## from the measured public corpus to a policy that prunes, its audit, and one decision (VIEW=default: the full one)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.demo $(if $(VIEW),--view $(VIEW))

release: .venv/installed ## the policies of policies/ from the measured corpus, twice, to the same bytes: make release VERSION=2026.11.18
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.release $(if $(VERSION),--version $(VERSION))

report: demo     ## every method, ablation and analysis in full, on one page: var/report/index.html (fetches the public runs)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m scripts.full_report

repro: .venv/installed   ## the same stages by DVC, whatever changed of them
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/dvc repro

sample: export DRSR_CATALOG_URL := sqlite:///$(CURDIR)/var/sample/catalog.sqlite
sample: export DRSR_ARTIFACT_ROOT := $(CURDIR)/var/sample/artifacts
sample: .venv/installed  ## measure the sample corpus anew and bundle its labels and features (ten minutes on two cores)
	$(BIN)/drsr backbone fetch smollm2-135m
	$(BIN)/drsr run --until featurize --workers 2
	$(BIN)/python -m drsr.flows.sample --make

quick: .venv/installed   ## lint and unit tests of what changed, within a minute
	$(BIN)/python -m scripts.quick

test: .venv/installed    ## all tests, as CI runs them
	$(BIN)/drsr backbone fetch smollm2-135m
	$(BIN)/python -m pytest

# What does not go with the pins of constraints.txt, each in an environment of its own; PYTHON312 is a Python 3.12.
PYTHON312 ?= python3.12
TESTING := pytest pytest-xdist pytest-timeout hypothesis
frameworks:      ## the adapters for OpenHands and Inspect against the real packages
	$(PYTHON312) -m venv .venv-openhands && .venv-openhands/bin/python -m pip install --quiet '.[openhands]' $(TESTING)
	.venv-openhands/bin/python -m pytest -n 0 tests/adapters/test_openhands.py
	$(PYTHON) -m venv .venv-inspect && .venv-inspect/bin/python -m pip install --quiet '.[inspect]' $(TESTING)
	.venv-inspect/bin/python -m pytest -n 0 tests/adapters/test_inspect_ai.py

fuzz: .venv/installed    ## ten thousand generated requests through the core, twenty thousand and all recorded runs through a policy
	DRSR_FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest tests/fuzz tests/test_real_decisions.py --timeout 3600

crash: .venv/installed   ## a hundred SIGKILLs over ingest, freeze, label and featurize, on SQLite and on PostgreSQL
	DRSR_CRASH_KILLS=100 $(BIN)/python -m pytest tests/offline/test_crashes.py --timeout 3600

feast: .venv/installed   ## Feast in an environment of its own, and the test that reads features through it; needs a package index
	$(PYTHON) -m venv var/feast
	var/feast/bin/python -m pip install --quiet feast==0.67.0
	DRSR_FEAST_PYTHON=$(CURDIR)/var/feast/bin/python $(BIN)/python -m pytest -n 0 tests/offline/featurize/test_feast_repository.py

lint: .venv/installed    ## ruff, strict mypy, hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint docker/*.Dockerfile

images:          ## the images of docker/ by buildah, on a stand-in base made from Debian: as root, without an engine (IMAGES=decide)
	$(PYTHON) -m scripts.images $(IMAGES) $(if $(BASE_IMAGE),--base $(BASE_IMAGE)) $(if $(MIRROR),--mirror $(MIRROR)) --build='$(BUILD)'

format: .venv/installed  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

sbom: .venv/installed    ## CycloneDX lists of the Python packages of each image and of a policy's wheel: var/sbom/*.cdx.json (WHEEL=FILE)
	$(BIN)/python -m scripts.sbom $(if $(WHEEL),--wheel $(WHEEL))

hashes: .venv/installed  ## var/requirements-light.txt with the hash of every file, for pip install --require-hashes (EXTRAS=light); needs a package index
	$(BIN)/python -m scripts.hashes $(if $(filter command line,$(origin EXTRAS)),$(EXTRAS),light)

audit-dependencies: .venv/installed  ## known vulnerabilities of what is installed, by pip-audit; needs a network, and is not part of CI
	$(PYTHON) -m venv .venv/audit
	.venv/audit/bin/python -m pip install --quiet pip-audit
	.venv/audit/bin/pip-audit --path .venv/lib/python3.*/site-packages --skip-editable

clean:           ## remove what the commands made here; the fetched language model stays in its cache
	rm -rf .venv var exports samples/measured build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
