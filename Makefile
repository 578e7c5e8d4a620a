# Two commands are enough on a fresh checkout: `make run` and `make test`.
# Needed: git, GNU make, Python 3.11 or newer with pip, a Docker engine.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LABEL := dev.replexplorer.stack
# Programs that the tests start by the dozen are compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Processes of the tests on real servers: one a processor, but each makes a stack of its own (1.2 GB), so not more
# than four: three on two processors were hardly faster, and so busy that a server could not be paused. They wait
# for most of their time, and one more process, which gives way to them, runs meanwhile what needs no server.
WORKERS = $(shell processors=$$(getconf _NPROCESSORS_ONLN); echo $$((processors < 4 ? processors : 4)))
# One more than processors for those that need no Docker: some wait, for terminals and processes.
FAST_WORKERS = $(shell echo $$((1 + $$(getconf _NPROCESSORS_ONLN))))
EVERYWHERE = -n $$(($(WORKERS) + 1)) --dist loadgroup --no-loadscope-reorder --beside-servers $(COSTS)
# What each test took of the processor, dearest first.
COSTS = --costs=build/costs-of-tests.tsv

# Runs as root on a system with apt: only there may make install a host package by itself.
define APT
apt_install() {
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "make: installing the host package(s) $$* with apt-get" >&2
		apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$$@" >&2
	else
		return 1
	fi
}
endef

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: $(STAMP) prerequisites ## from nothing to the dashboard; without a terminal, the headless tour
	@if [ -t 0 ] && [ -t 1 ]; then
		exec $(BIN)/replexplorer
	fi
	echo "make: no terminal on stdin and stdout, so this runs the headless demonstration: replexplorer lab run tour" >&2
	exec $(BIN)/replexplorer lab run tour --repeat 1

.PHONY: test
test: $(STAMP) prerequisites test-tools ## all tests, with real MySQL in Docker
	@exec $(BIN)/pytest $(EVERYWHERE)

.PHONY: test-all
test-all: $(STAMP) prerequisites test-tools ## the same with every repetition, and what takes minutes
	@exec $(BIN)/pytest $(EVERYWHERE) --in-full

.PHONY: test-fast
test-fast: $(STAMP) ## the tests that need no Docker
	@exec $(BIN)/pytest -m "not docker" --ignore tests/integration --fast $(COSTS) -n $(FAST_WORKERS) --dist worksteal

.PHONY: check
check: $(STAMP) ## format, lint, types, import contracts, words
	@$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.style

# Docker must answer before anything is worth starting. A host package that the images need and
# that is missing (what makes the base image where no registry answers) is installed here.
.PHONY: prerequisites
prerequisites: $(STAMP)
	@$(APT)
	report="$$($(BIN)/replexplorer doctor --json 2>/dev/null || true)"
	packages="$$(echo "$$report" | $(BIN)/python -c 'import json, sys; print(*(p for c in json.load(sys.stdin)["checks"] if c["state"] == "missing" for p in c["packages"]))')"
	if [ -n "$$packages" ] && ! apt_install $$packages; then
		echo "make: $$packages is missing and needed here: run: sudo apt-get install $$packages" >&2
		exit 1
	fi
	echo "$$report" | $(BIN)/python -c 'import json, sys; sys.exit("\n".join("make: " + c["detail"] + ": " + (c["remedy"] or "see replexplorer doctor") for c in json.load(sys.stdin)["checks"] if c["state"] == "missing" and not c["packages"]) or 0)'

# The yardstick of some tests, and a browser: tests of either are skipped, with a reason, where it is absent.
.PHONY: test-tools
test-tools:
	@$(APT)
	command -v sysbench >/dev/null || apt_install sysbench || echo "make: no sysbench here: the tests that compare with it are skipped" >&2
	command -v chromium-headless-shell chromium google-chrome >/dev/null || apt_install chromium-headless-shell || echo "make: no Chromium here: the tests of \`serve\` in a browser are skipped" >&2

$(STAMP): pyproject.toml
	@$(APT)
	python=
	for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
		if command -v "$$candidate" >/dev/null && "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
			python="$$candidate"
			break
		fi
	done
	if [ -z "$$python" ]; then
		echo "make: no Python 3.11 or newer: install one and run make again" >&2
		exit 1
	fi
	if [ ! -x $(BIN)/python ] || ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		rm -rf $(VENV)
		echo "make: creating $(VENV) with $$("$$python" --version)" >&2
		"$$python" -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); "$$python" -m venv --without-pip $(VENV); }
	fi
	if $(BIN)/python -m pip --version >/dev/null 2>&1; then
		pip=($(BIN)/python -m pip)
	elif "$$python" -m pip --version >/dev/null 2>&1; then
		pip=("$$python" -m pip --python $(BIN)/python)
	elif apt_install python3-venv python3-pip; then
		pip=("$$python" -m pip --python $(BIN)/python)
	else
		echo "make: this Python has neither venv nor pip: run: sudo apt-get install python3-venv python3-pip" >&2
		exit 1
	fi
	echo "make: installing the dependencies into $(VENV)" >&2
	"$${pip[@]}" install --quiet --disable-pip-version-check --editable '.[dev,speed]'
	touch $@

.PHONY: bench
bench: $(STAMP) prerequisites test-tools ## targets measured side by side; QUICK=1: eight minutes, without failures; HOUR=1: memory over an hour, too
	@exec $(BIN)/python -m bench

.PHONY: pictures
pictures: $(STAMP) ## draw the README's pictures again: `play --svg` over the recorded tour
	@$(APT)
	[ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || apt_install fonts-dejavu-core
	exec $(BIN)/python -m tests.pictures

.PHONY: clean
clean: ## remove our stacks and images, the virtual environment and the caches
	@if [ -x $(BIN)/replexplorer ]; then
		$(BIN)/replexplorer down --all --yes || true
	fi
	if command -v docker >/dev/null && docker info >/dev/null 2>&1; then
		{ docker ps --all --quiet --filter label=$(LABEL); docker ps --all --quiet --filter label=dev.replexplorer.role=guest; } | xargs --no-run-if-empty docker rm --force --volumes >/dev/null
		docker network ls --quiet --filter label=$(LABEL) | xargs --no-run-if-empty docker network rm >/dev/null
		docker volume ls --quiet --filter label=$(LABEL) | xargs --no-run-if-empty docker volume rm >/dev/null
		docker images --quiet --filter label=dev.replexplorer.role | sort -u | xargs --no-run-if-empty docker rmi --force >/dev/null
	else
		echo "make: Docker does not answer: our containers and images, if any, stay" >&2
	fi
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache snapshot_report.html
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
