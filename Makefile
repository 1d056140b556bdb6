# Each target sets up what it needs; `make help` lists them.
PYTHON ?= python3
BENCH ?= figures
BIN := .venv/bin
DEMO := .venv/.demo
DEVELOP := .venv/.develop

.DEFAULT_GOAL := help
.PHONY: help demo test check docs bench bench-peers clean chromium

help: ## Say what each target does
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(DEMO) ## Start servers, worker and site of the example project
	@$(BIN)/python example_project/manage.py demo

test: $(DEVELOP) chromium ## Run all tests with the coverage gate; ARGS="-k lane" adds arguments for pytest
	@$(BIN)/python -m pytest -n 4 --dist worksteal --cov --cov-report=term $(ARGS)

check: $(DEVELOP) docs ## Check style, types, import rules, Lua scripts, migrations and the documentation
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest -q tests/unit/test_lua_sources.py
	@EMQ_TEST_DATABASE_URL=sqlite:// $(BIN)/python -m django makemigrations --check --dry-run --settings=tests.settings

docs: $(DEVELOP) ## Build the documentation into site/; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -j auto -c docs . site

bench: $(DEVELOP) ## Measure this queue and write docs/benchmarks; BENCH names another module of tests/bench
	@$(BIN)/python -m tests.bench.$(BENCH) $(ARGS)

bench-peers: $(DEVELOP) ## Measure other queues beside it and write docs/benchmarks; they are installed in .venv/.peers
	@$(BIN)/python -m tests.bench.peers $(ARGS)

clean: ## Remove the environment and everything that was built
	@rm -rf .venv .demo build dist site .coverage* .*_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO): EXTRAS := embedded,postgres
$(DEVELOP): EXTRAS := check,test
$(DEMO) $(DEVELOP): pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) not found; name a Python from 3.11 on: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$$($(PYTHON) --version) is too old; name a Python from 3.11 on: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "Creating .venv"; $(PYTHON) -m venv .venv; } || \
		{ rm -rf .venv; echo "$(PYTHON) can't create environments; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "Installing into .venv"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[$(EXTRAS)]'
	@touch $@

# Only root can install it; without it the browser tests are skipped, or fail where CI=true.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		{ echo "Installing Chromium" && apt-get -qq update && \
		  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y chromium >/dev/null; } || \
		echo "Chromium could not be installed"
