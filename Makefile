# `make` alone lists the targets.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

# `make test PYTHON=python3.14` makes a separate environment with that interpreter; VERSIONS=lowest or newest
# makes another one, with the lowest or the newest dependencies that pyproject.toml allows.
VERSIONS ?=
python_is_named := $(findstring command,$(origin PYTHON))
ifneq ($(filter bench bench-live,$(MAKECMDGOALS)),)
ifeq ($(python_is_named),)
# Benchmarks measure on the Python of the images.
export PYTHON := $(or $(shell scripts/find-python image),$(error make bench: it measures on the Python of the images; PYTHON= names another))
python_is_named := yes
endif
endif
VENV := .venv$(if $(python_is_named),-$(notdir $(PYTHON)))$(if $(VERSIONS),-$(VERSIONS))
BIN := $(VENV)/bin
PYTEST_FLAGS ?=
# Integration tests mostly wait, so more workers than processors make them faster. But each worker
# collects all tests, which takes 7 s of CPU time, and starts its own control plane; a real one
# needs up to 1.2 gigabytes.
PYTEST_WORKERS ?= 4
# Python writes bytecode, also if the environment forbids it, so that workers do not compile the same imports.
export PYTHONDONTWRITEBYTECODE =
PYTEST = $(BIN)/pytest -n $(PYTEST_WORKERS) --dist loadfile --no-loadscope-reorder -q

# The variables have the same names as in kubebuilder.
VERSION := $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' manager/util/version.py)
IMG ?= operator-manager:$(VERSION)
PETSTORE_IMG ?= petstore:$(VERSION)
# docker, podman or buildah
CONTAINER_TOOL ?= docker
KUBECTL ?= kubectl
PLATFORMS ?= linux/amd64,linux/arm64
# The commit of the images, for their labels.
REVISION ?= $(or $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null),unknown)
# A base image that replaces the Dockerfile's, such as a mirror's.
PYTHON_IMAGE ?=
# A folder of config/ that `make deploy` applies.
OVERLAY ?= default
# a,b: watch these namespaces only, with Roles in them instead of a ClusterRole
NAMESPACES ?=
# Additional flags for `make run`, `make record`, `make corpus`, `make mutants`, `make bench` and `make bench-live`.
ARGS ?=

RELEASE = KUBECTL=$(KUBECTL) $(BIN)/python -m release
IMAGES = --image $(IMG) --petstore-image $(PETSTORE_IMG)
# APIs and namespaces of the cluster: if the cluster lacks one, no manifest is applied.
SERVED = --served="$$($(KUBECTL) api-versions)"
THERE = --there="$$($(KUBECTL) get namespaces --output=name)"
LIMITED = $(if $(NAMESPACES),--namespaces=$(NAMESPACES))
# Manifests for the next command; no plain pipe, because the next command would also run, and fail, after a failed writer.
with = manifests=$$($(RELEASE) manifests $(1)) && printf '%s\n' "$$manifests" |
# A killed manager of this machine leaves its URL in a clientConfig; server-side apply would keep the URL together with the Service.
apply = awk '{ print } /^ *clientConfig:$$/ { match($$0, /^ */); print substr($$0, 1, RLENGTH) "  url: null" }' | $(KUBECTL) apply --server-side --force-conflicts -f -
# Print one line instead of a shell's error if a program is missing: $(call need,PROGRAM,its purpose)
need = @command -v $(1) >/dev/null 2>&1 || { echo "make $@: $(1) is not on the PATH; it is needed to $(2)" >&2; exit 1; }
# Print only the last line of a failing command's output: $(call ask,COMMAND,the meaning of a failure)
ask = @reason=$$($(1) 2>&1 >/dev/null) || { printf '%s\n' "$$reason" | sed -n '$$s/^/make $@: $(2): /p' >&2; exit 1; }
# A client needs its engine or server: check that both are there.
define engine
$(call need,$(1),$(2))
$(call ask,$(1) version,$(1) does not answer)
endef
define cluster
$(call need,$(KUBECTL),$(1))
$(call ask,$(KUBECTL) version --request-timeout=10s,$(notdir $(KUBECTL)) reaches no cluster)
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)}' $(MAKEFILE_LIST)

##@ Every day

.PHONY: venv
venv: $(VENV)/.current ## install the programs into .venv/, with the pinned packages that they and the demo need

.PHONY: tools
tools: $(VENV)/.tools ## install the packages for tests, lint and releases into .venv/ too

PINNED = pyproject.toml controllers/pyproject.toml constraints.txt scripts/make-venv scripts/fill-venv

# Parallel runs of make are safe only inside an existing environment.
$(VENV)/.made:
	@scripts/make-venv $(VENV)
	@touch $@

$(VENV)/.current: $(PINNED) | $(VENV)/.made
	@scripts/make-venv $(VENV) demo
	@touch $@

$(VENV)/.tools: $(PINNED) | $(VENV)/.made
	@scripts/make-venv $(VENV) $(or $(VERSIONS),tools)
	@touch $(VENV)/.current $@

$(VENV)/.site: $(VENV)/.tools
	@scripts/make-venv $(VENV) site
	@touch $@

.PHONY: demo
demo: venv ## run the manager with every operator on an embedded control plane, for you to try (ONCE=1: end when all is ready)
	@$(BIN)/python -m demo $(if $(filter-out 0,$(ONCE)),--once)

.PHONY: test
test: tools ## run the tests on the embedded control plane; tests marked contract also on the real ones of KUBEBUILDER_ASSETS and KUBEBUILDER_ASSETS_OLDEST (SEEDS=300: long tests too; PYTHON=python3.12: another interpreter; VERSIONS=lowest or newest: these dependencies)
	$(PYTEST) -m "not whole$(if $(SEEDS),, and not long)" tests $(PYTEST_FLAGS)
	@$(call passed,the contract)

.PHONY: test-all
test-all: tools ## run all tests before a release, with documentation, images, benchmarks and demo, and all of them also on KUBEBUILDER_ASSETS
	$(PYTEST) --all-on-envtest tests $(PYTEST_FLAGS)
	@$(call passed,everything)

passed = echo "make $@: passed on $$($(BIN)/python --version)$(if $(VERSIONS), with the $(VERSIONS) versions), on the embedded control plane$(passed_on_newest)$(passed_on_oldest)."
passed_on_newest = $(if $(KUBEBUILDER_ASSETS),; $(1) also on that of KUBEBUILDER_ASSETS)
passed_on_oldest = $(if $(KUBEBUILDER_ASSETS_OLDEST),; a part of the contract also on that of KUBEBUILDER_ASSETS_OLDEST)

.PHONY: check
# These tests mostly compute.
check: PYTEST_WORKERS = 3
check: tools ## check in less than a minute on two idle cores: style, types, quick unit tests, tests of your change, each operator once
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	env -u KUBEBUILDER_ASSETS -u KUBEBUILDER_ASSETS_OLDEST \
		$(PYTEST) -m "(smoke or not integration) and not (whole or long)" $$($(BIN)/python scripts/quick-tests) $(PYTEST_FLAGS)

.PHONY: test-quick
test-quick: PYTEST_WORKERS = 2
test-quick: tools ## run the quick unit tests of the programs, for an interpreter that the images do not have (PYTHON=python3.11)
	$(PYTEST) -m "not (integration or whole or long)" $$($(BIN)/python scripts/quick-tests --programs) $(PYTEST_FLAGS)
	@echo "make $@: passed on $$($(BIN)/python --version)."

# The duration of `make fuzz` in seconds.
SECONDS ?= 60

.PHONY: fuzz
fuzz: tools ## feed random and extreme input to every parser of foreign data (SECONDS=600: for longer; ARGS="--only=TARGET --seed=N")
	@$(BIN)/python -m tests.fuzz --seconds=$(SECONDS) $(ARGS)

.PHONY: mutants
mutants: tools ## plant small faults into the code, one at a time, and list the faults that no test finds (ARGS="--seed=N --count=200")
	@$(BIN)/python -m tests.mutants $(ARGS)

.PHONY: simulate
simulate: tools ## run the operators in a simulated cluster with faults (SEEDS=10000; ARGS="--operator=NAME --seed=N")
	@$(BIN)/operator-manager simulate $(if $(SEEDS),--seeds=$(SEEDS)) $(ARGS)

.PHONY: record
record: tools ## record answers of the real control plane of KUBEBUILDER_ASSETS for tests, and devcluster's types (ARGS=--only=kubectl)
	@$(BIN)/python -m tests.recordings $(ARGS)

# The folder of `make corpus`.
DIR ?=

.PHONY: corpus
corpus: tools ## send a folder's CRDs and objects to devcluster and to the real control plane of KUBEBUILDER_ASSETS, and print the differences (DIR)
	@$(BIN)/python -m tests.corpus "$(DIR)" $(ARGS)

.PHONY: lint
lint: tools ## check style, types, layers, and that generated files are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(BIN)/pip-licenses >/dev/null && echo "every dependency has a licence that pyproject.toml lists"
	$(BIN)/operator-manager generate --check
	$(RELEASE) generate --check
	$(BIN)/python -m benchmarks --render --check
	$(BIN)/python scripts/generate-petstore --check
	$(BIN)/python scripts/generate-kinds --check
	$(BIN)/python scripts/check-tests
	@scripts/lint-go

.PHONY: fmt
fmt: tools ## format the sources and apply the safe lint fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: manifests
manifests: venv ## generate files of config/ from the code: CRDs, roles and webhooks
	$(BIN)/operator-manager generate
	$(RELEASE) generate

.PHONY: generate
generate: tools manifests ## generate all generated files: config/, petstore's stubs from its contract, models of built-in types
	$(BIN)/python scripts/generate-petstore
	$(BIN)/python scripts/generate-kinds

.PHONY: pins
pins: tools ## write newer versions and hashes into constraints.txt, and the base image's digest (ARGS=--keep: the same versions)
	@$(BIN)/python scripts/pin $(ARGS)

.PHONY: docs
docs: $(VENV)/.site mkdocs.yml ## build the documentation as a site in build/site; a broken link is an error
	@$(BIN)/python scripts/build-site

.PHONY: picture
picture: venv ## make docs/demo.svg again: the demo on a small terminal when everything is ready
	$(call need,$(KUBECTL),do what a person would)
	@$(BIN)/python -m demo.recording

# `python -m benchmarks --help` lists the parts: ONLY=cold or ONLY=cold,takeover. ONLY=shards measures
# only this project.
ONLY ?=
# Processors for the control plane, and for the measured program, such as 2-5 or 0,1
BENCH_SERVER_CPUS ?=
BENCH_PROGRAM_CPUS ?=
export BENCH_SERVER_CPUS BENCH_PROGRAM_CPUS

.PHONY: bench
bench: tools ## measure operators of several libraries on a real control plane, and write docs/benchmarks/ (ONLY=cold: print one part; ARGS: flags)
	@$(BIN)/python -m $(if $(filter shards,$(ONLY)),benchmarks.shards $(ARGS),benchmarks $(if $(ONLY),--only=$(ONLY)) $(ARGS))

.PHONY: bench-live
bench-live: tools ## measure the CPU time of a new object and of a change, without a control plane
	@$(BIN)/python -m benchmarks.live $(ARGS)

##@ On a cluster: the one that KUBECONFIG or ~/.kube/config names

.PHONY: install
install: venv ## apply the custom resource definitions to the cluster (OVERLAY: those of this overlay)
	$(call cluster,apply manifests)
	@$(call with,--only=definitions $(OVERLAY)) $(apply)

# A manager outside of the cluster that was killed leaves its webhook configurations: delete them too.
CONFIGURATIONS = mutatingwebhookconfigurations,validatingwebhookconfigurations

.PHONY: uninstall
uninstall: venv ## delete the custom resource definitions from the cluster, and with them every object of their kinds
	$(call cluster,delete manifests)
	@$(KUBECTL) delete $(CONFIGURATIONS) --selector=operator-manager/until-stopped=true --ignore-not-found
	@$(call with,--only=definitions $(OVERLAY)) $(BIN)/python -m manager_tools.commands.uninstall $(KUBECTL)

.PHONY: run
run: venv ## run the manager on this machine, with the current kubeconfig and your rights (ARGS: its flags)
	@exec $(BIN)/operator-manager run $(ARGS)

.PHONY: deploy
deploy: venv ## apply the manager, the pet store and the CRDs to the cluster (IMG, PETSTORE_IMG, OVERLAY, NAMESPACES)
	$(call cluster,apply manifests)
	@$(call with,$(SERVED) $(THERE) $(IMAGES) $(LIMITED) $(OVERLAY)) $(apply)

# The webhooks are removed first: without a manager they refuse each write, also the removal of a finalizer. Then the
# CRDs are removed, while the manager still runs and can clean up objects with finalizers.
.PHONY: undeploy
undeploy: undeploy-webhooks uninstall ## delete the manager, the CRDs and every object of our kinds from the cluster
	@$(call with,--for-deletion $(SERVED) $(LIMITED) $(OVERLAY)) $(KUBECTL) delete --ignore-not-found -f -

.PHONY: undeploy-webhooks
undeploy-webhooks: venv
	$(call cluster,delete manifests)
	@$(call with,--only=webhooks $(OVERLAY)) $(KUBECTL) delete --ignore-not-found -f -

# `make e2e` needs nodes that run pods, so neither `make test` nor .ci/run includes it.
.PHONY: e2e
e2e: tools ## test the deployed manager on the cluster of KUBECONFIG, if its nodes are real (IMG, PETSTORE_IMG: on the nodes; KEEP=1; ARGS="-k memcached")
	@IMG=$(IMG) PETSTORE_IMG=$(PETSTORE_IMG) KUBECTL=$(KUBECTL) $(BIN)/python -m tests.e2e $(ARGS)

##@ Images and releases

BUILD_ARGS = --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
	$(if $(PYTHON_IMAGE),--build-arg PYTHON_IMAGE=$(PYTHON_IMAGE))

# By default buildah keeps no layers, and would build the common stages twice.
BUILD = $(CONTAINER_TOOL) build $(if $(filter buildah,$(notdir $(CONTAINER_TOOL))),--layers )$(strip $(BUILD_ARGS))

.PHONY: docker-build
docker-build: ## build both images, for this machine's processor (IMG, PETSTORE_IMG, CONTAINER_TOOL=docker|podman|buildah)
	$(call engine,$(CONTAINER_TOOL),build images)
	$(BUILD) --target manager --tag $(IMG) .
	$(BUILD) --target petstore --tag $(PETSTORE_IMG) .

.PHONY: docker-push
docker-push: ## push both images to the registry in their names
	$(call engine,$(CONTAINER_TOOL),push images)
	$(CONTAINER_TOOL) push $(IMG)
	$(CONTAINER_TOOL) push $(PETSTORE_IMG)

# Docker's own builder builds for one processor, so a temporary one replaces it.
BUILDX = $(CONTAINER_TOOL) buildx build --builder operator-manager --platform $(PLATFORMS) --push $(strip $(BUILD_ARGS))
LISTED = $(BUILD) --platform $(PLATFORMS)

.PHONY: docker-buildx
docker-buildx: ## build and push both images for PLATFORMS (docker with buildx, podman or buildah)
	$(call engine,$(CONTAINER_TOOL),build images for several processors)
ifneq ($(filter podman buildah,$(notdir $(CONTAINER_TOOL))),)
	$(LISTED) --target manager --manifest $(IMG) .
	$(LISTED) --target petstore --manifest $(PETSTORE_IMG) .
	$(CONTAINER_TOOL) manifest push --all $(IMG) docker://$(IMG)
	$(CONTAINER_TOOL) manifest push --all $(PETSTORE_IMG) docker://$(PETSTORE_IMG)
else
	@$(CONTAINER_TOOL) buildx version >/dev/null 2>&1 || \
		{ echo "make $@: $(CONTAINER_TOOL) has no buildx; it is needed to build images for several processors" >&2; exit 1; }
	@$(CONTAINER_TOOL) buildx create --name operator-manager && trap '$(CONTAINER_TOOL) buildx rm operator-manager' EXIT && \
		set -x && \
		$(BUILDX) --target manager --tag $(IMG) . && \
		$(BUILDX) --target petstore --tag $(PETSTORE_IMG) .
endif

.PHONY: build-installer
build-installer: venv ## write dist/install.yaml: everything that make deploy applies, in one file
	$(call need,$(KUBECTL),build manifests)
	@$(RELEASE) installer $(IMAGES) $(LIMITED) dist/install.yaml

.PHONY: chart
chart: venv ## write dist/chart: a Helm chart of the same manifests, for these images (IMG, PETSTORE_IMG)
	$(call need,$(KUBECTL),build manifests)
	@$(RELEASE) chart $(IMAGES) dist/chart

.PHONY: release
release: sbom ## write dist/: wheels, install.yaml, chart, bundle, contexts of the images, bill of materials, checksums
	$(call need,$(KUBECTL),build manifests)
	@$(RELEASE) everything $(IMAGES) dist

# The bill lists an environment with only the packages of the programs; the image contains its own bill.
.PHONY: sbom
sbom: tools ## write dist/sbom.cdx.json: a CycloneDX bill of materials of the programs' packages
	@mkdir -p dist && rm -rf dist/sbom && $(BIN)/python -m venv --without-pip dist/sbom
	@sed '/^# Packages that build/,$$d' constraints.txt >dist/sbom/runtime.txt
	@$(BIN)/python -m pip --python dist/sbom/bin/python install --quiet --only-binary :all: --no-deps --require-hashes \
		--requirement dist/sbom/runtime.txt
	@$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml \
		--output-file dist/sbom.cdx.json dist/sbom/bin/python
	@rm -rf dist/sbom
	@echo "dist/sbom.cdx.json"

# This catalogue has only this version; a real catalogue keeps earlier versions.
BUNDLE_IMG ?= operator-manager-bundle:$(VERSION)
CATALOG_IMG ?= operator-manager-catalog:$(VERSION)
OPM ?= opm

.PHONY: bundle
bundle: venv ## write bundle/ and bundle.Dockerfile for OLM
	$(call need,$(KUBECTL),build manifests)
	@$(RELEASE) bundle --image $(IMG) .

.PHONY: bundle-build
bundle-build: bundle ## build the bundle's image (BUNDLE_IMG)
	$(call engine,$(CONTAINER_TOOL),build images)
	$(CONTAINER_TOOL) build --file bundle.Dockerfile --tag $(BUNDLE_IMG) .

.PHONY: bundle-push
bundle-push: ## push the bundle's image to the registry in its name
	$(call engine,$(CONTAINER_TOOL),push images)
	$(CONTAINER_TOOL) push $(BUNDLE_IMG)

.PHONY: catalog-build
catalog-build: ## build the image of a catalogue with the pushed bundle (CATALOG_IMG)
	$(call need,$(OPM),read the bundle)
	$(call engine,$(CONTAINER_TOOL),build images)
	@mkdir -p dist/catalog/operator-manager
	$(OPM) init operator-manager --default-channel=alpha --icon=config/manifests/icon.svg --output=yaml >dist/catalog/operator-manager/catalog.yaml
	$(OPM) render $(BUNDLE_IMG) --output=yaml >>dist/catalog/operator-manager/catalog.yaml
	@printf -- '---\nschema: olm.channel\npackage: operator-manager\nname: alpha\nentries:\n- name: operator-manager.v%s\n' \
		'$(VERSION)' >>dist/catalog/operator-manager/catalog.yaml
	$(OPM) validate dist/catalog
	@rm -f dist/catalog.Dockerfile
	$(OPM) generate dockerfile dist/catalog
	$(CONTAINER_TOOL) build --file dist/catalog.Dockerfile --tag $(CATALOG_IMG) dist

##@ Cleaning up

.PHONY: clean
clean: ## remove the environment and every cache
	rm -rf $(VENV) build dist bundle bundle.Dockerfile *.egg-info .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
