# `make` alone lists what there is.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

VENV := .venv
BIN := $(VENV)/bin
PYTEST_FLAGS ?=
# Integration tests wait more than they work, so more of them than there are processors pay; but each worker
# brings up a control plane of its own, and a real one needs half a gigabyte.
PYTEST_WORKERS ?= $(if $(KUBEBUILDER_ASSETS),2,4)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(VENV)/.current ## .venv/ with the pinned dependencies and this project's programs

$(VENV)/.current: pyproject.toml constraints.txt scripts/make-venv
	@scripts/make-venv $(VENV)
	@touch $@

.PHONY: demo
demo: venv ## the manager with every operator on an embedded control plane, to watch and to play with (ONCE=1: to its end)
	@$(BIN)/python -m demo $(if $(filter-out 0,$(ONCE)),--once)

.PHONY: test
test: venv ## all tests, on the embedded control plane, and on a real one too when KUBEBUILDER_ASSETS names it
	$(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile -q tests $(PYTEST_FLAGS)
	@if [ -n "$(KUBEBUILDER_ASSETS)" ]; then echo "make test: passed, on the control plane of KUBEBUILDER_ASSETS too."; \
	else echo "make test: passed, on the embedded control plane."; fi

.PHONY: lint
lint: venv ## style, types, layers, and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m controllers.generate --check
	$(BIN)/python scripts/generate-petstore --check

.PHONY: fmt
fmt: venv ## format the sources and apply the lint fixes that are safe
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: generate
generate: venv ## config/crd/ and config/rbac/ from the models and the markers, petstore's stubs from its contract
	$(BIN)/python -m controllers.generate
	$(BIN)/python scripts/generate-petstore

.PHONY: bench
bench: venv ## what the manager and devcluster cost; needs KUBEBUILDER_ASSETS, and an idle machine
	$(BIN)/python -m benchmarks.drive converge
	$(BIN)/python -m benchmarks.drive pods
	$(BIN)/python -m benchmarks.devcluster_speed

.PHONY: clean
clean: ## remove the environment and every cache
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
