# Everything a newcomer needs: `make up` runs the plane, `make test` the tests that need only Python. Both set up .venv
# first: the one with what running needs, the other with the tools of development besides.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PYTEST = $(BIN)/python -m pytest --dist loadgroup
SRC := src
SEEDS ?= 300
WORKERS ?= 2
ARGS ?=
AREA ?= cleanup
RESOURCE ?= configmaps
OWNS ?=

.PHONY: up test test-all check docs workflows bench soak explore flags reference controller dist sbom setup clean

setup: $(VENV)/.ready

# pip would compile what it installs on one processor.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
# Without what nobody imports here, or has compiled to machine code: 35 of 110 MB.
COMPILE := $(BIN)/python -m compileall -qq -j 0 -x '/(kubernetes/aio|mypyc?|pip|pkg_resources|setuptools)/'

$(VENV)/.installed: pyproject.toml requirements.txt requirements-build.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements.txt -r requirements-build.txt
	$(INSTALL) --no-deps --no-build-isolation -e .
	$(COMPILE) $(VENV)/lib
	touch $@

$(VENV)/.ready: $(VENV)/.installed requirements-dev.txt
	$(INSTALL) --require-hashes -r requirements-dev.txt
	$(COMPILE) $(VENV)/lib
	touch $@

# An installation comes compiled, a clone does not, and where PYTHONDONTWRITEBYTECODE is set it never would: every start
# compiled 450 modules, which takes twice as long as all the rest of it.
$(VENV)/.compiled: $(VENV)/.installed $(shell find $(SRC) -name '*.py')
	$(BIN)/python -m compileall -q -j 0 $(SRC)
	touch $@

# Likewise the tests: each of the workers would rewrite the asserts of all of them, 13 seconds of a processor.
$(VENV)/.compiled-tests: $(VENV)/.ready $(VENV)/.compiled $(shell find tests -name '*.py' 2>/dev/null)
	$(BIN)/python scripts/compile_tests.py tests
	touch $@

up: $(VENV)/.compiled
	$(BIN)/pilothouse up $(ARGS)

# What needs nothing but Python, with one seed of each simulation: at most five minutes on two processors.
test: $(VENV)/.compiled-tests
	$(PYTEST) -n $(WORKERS) -m "not slow and not real" --seeds 1 $(ARGS)
	@echo "Left out: further seeds, long tests, packaging, clients and the real Kubernetes programs. They are in make test-all."

# Everything. Two further workers, since tests of real programs mostly wait.
test-all: $(VENV)/.compiled-tests
	$(PYTEST) -n $$(($(WORKERS) + 2)) $(ARGS)

# What is spelled: the code, and, as American English, what users read.
PROSE = README.md CONTRIBUTING.md SECURITY.md CODE_OF_CONDUCT.md CHANGELOG.md docs

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell src bench deploy examples scripts
	$(BIN)/codespell --builtin clear,rare,en-GB_to_en-US $(PROSE)
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site of the documentation in build/site; a warning is an error. The tools have an environment of their own.
DOCS_VENV ?= .venv-docs

$(DOCS_VENV)/.ready: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.txt
	touch $@

docs: $(DOCS_VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	$(PYTHON) scripts/check_site.py build/site
	@echo "build/site/index.html"

# The workflows and the action: against their schemas, and for what attackers look for.
workflows: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(DOCS_VENV)/bin/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(DOCS_VENV)/bin/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(DOCS_VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec deploy/ha/compose.yaml
	$(DOCS_VENV)/bin/zizmor --offline --quiet .github action.yml

bench: setup
	$(BIN)/python -m bench $(ARGS)

# The references of flags, controllers and commands, from the code. Through other files: one that fails leaves what
# is there.
flags: setup
	$(BIN)/python -m pilothouse.cli.flags_reference > docs/reference/flags.md.new
	mv docs/reference/flags.md.new docs/reference/flags.md
	$(BIN)/python -m pilothouse.cli.controllers_reference > docs/controllers/index.md.new
	mv docs/controllers/index.md.new docs/controllers/index.md
	$(BIN)/python -m pilothouse.cli.commands_reference > docs/reference/commands.md.new
	mv docs/reference/commands.md.new docs/reference/commands.md

# The reference of the Python API, from its docstrings.
reference: setup
	$(BIN)/python scripts/make_api_reference.py

# The skeleton of a built-in controller, with its test and page: make controller NAME=foo AREA=cleanup RESOURCE=configmaps
controller: setup
	@test -n "$(NAME)" || { echo "usage: make controller NAME=foo [AREA=$(AREA)] [RESOURCE=$(RESOURCE)] [OWNS=pods]"; exit 2; }
	$(BIN)/python scripts/make_controller.py $(NAME) --area $(AREA) --resource $(RESOURCE) $(if $(OWNS),--owns $(OWNS))
	$(MAKE) flags

explore: setup
	$(PYTEST) tests/scenarios tests/determinism -n $(WORKERS) --seeds $(SEEDS) $(ARGS)

soak: setup
	$(PYTEST) tests -n $$(($(WORKERS) + 2)) --seeds $(SEEDS) --soak $(ARGS)

# The wheel and the source distribution.
dist: setup
	$(BIN)/hatchling build

# What an installation consists of, as CycloneDX JSON, from the lock.
sbom:
	@mkdir -p dist
	$(PYTHON) scripts/sbom > dist/pilothouse.cdx.json

clean:
	rm -rf $(VENV) $(DOCS_VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
