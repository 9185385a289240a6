SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Set once, for every go command below. The tags leave out gpgme and btrfs, the
# two C libraries behind the Podman bindings.
TAGS := containers_image_openpgp,exclude_graphdriver_btrfs
export GOFLAGS := $(strip $(filter-out -tags=%,$(shell go env GOFLAGS)) -tags=$(TAGS))

# One variant of every package for build and tests: compiling the bindings takes
# minutes. Only the race detector needs C.
export CGO_ENABLED ?= 0

HOST := integration/podmanhost/host
ON_HOST := -exec '$(CURDIR)/$(HOST) run --'
AS_USER := -exec '$(CURDIR)/integration/podmanhost/exec-as-user'
PKG ?= ./...
FUZZTIME ?= 20s

# Tests of a package that imports podmantest run as root and as a user. Without
# root there is only one way to run them.
NEEDS_PODMAN = $(shell go list -f '{{range .TestImports}}{{$$.ImportPath}} {{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{$$.ImportPath}} {{.}}{{"\n"}}{{end}}' $(PKG) \
	| awk '$$2 == "realm.dev/integration/podmantest" { print $$1 }; $$1 == "realm.dev/integration/podmantest" { print $$1 }' | sort -u)
ROOT := $(filter 0,$(shell id -u))

# The race detector needs C. Tests run their own binary in containers that have
# no C library, so it is linked in.
RACE := -race -tags=$(TAGS),osusergo,netgo -ldflags '-linkmode external -extldflags -static'

# Tools are built once per tools/go.mod and kept outside the tree.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/realm-tools/$(shell cat tools/go.mod tools/go.sum | sha256sum | cut -c1-12)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
DATE := $(shell git log -1 --format=%cI 2>/dev/null)
LDFLAGS := -s -w $(if $(COMMIT),\
	-X realm.dev/internal/buildinfo.version=$(VERSION) \
	-X realm.dev/internal/buildinfo.commit=$(COMMIT) \
	-X realm.dev/internal/buildinfo.date=$(DATE))

.PHONY: help
help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/realm and bin/realm-init, static
	go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: release
release: ## Build them for amd64 and arm64, without paths of this machine
	GOARCH=amd64 go build -trimpath -ldflags '$(LDFLAGS)' -o dist/linux-amd64/ ./cmd/...
	GOARCH=arm64 go build -trimpath -ldflags '$(LDFLAGS)' -o dist/linux-arm64/ ./cmd/...

.PHONY: podman-host
podman-host: ## Make a Podman 5 host where the machine has no Podman 5
	$(HOST) up

.PHONY: test
test: build podman-host ## Run all tests on real Podman, as root and as a user (PKG=./...)
	go test -count=1 ./integration/podmanhost
	REALM_REQUIRE_PODMAN=1 go test -count=1 $(ON_HOST) $(PKG)
ifdef ROOT
	REALM_REQUIRE_PODMAN=1 go test -count=1 $(AS_USER) $(NEEDS_PODMAN)
endif

.PHONY: unit
unit: ## Run the tests that need no Podman
	go test -short $(PKG)

.PHONY: race
race: podman-host ## Run all tests with the race detector
	CGO_ENABLED=1 REALM_REQUIRE_PODMAN=1 go test $(RACE) -count=1 -timeout 20m $(ON_HOST) $(PKG)

.PHONY: check
check: fmt-check vet lint rules drift race ## Formatting, vet, lint, import rules, generated files, tests with -race

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (20s)
	tools/fuzz $(FUZZTIME) $(PKG)

.PHONY: bench
bench: build podman-host ## Measure realm against the host and Podman, then the Go benchmarks
	CGO_ENABLED=0 go build -o bin/bench ./integration/bench
	$(HOST) run -- bin/bench
	go test -run '^$$' -bench . -benchmem $(ON_HOST) $(PKG)

.PHONY: demo
demo: build podman-host ## Show sessions on a real repository
	integration/demo/demo

.PHONY: docs
docs: ## Generate the documents that come from code
	go generate ./...

.PHONY: drift
drift: ## See that generated files and frozen schemas are as committed
	@before=$$(git diff | sha256sum); $(MAKE) docs; \
		if [[ $$(git diff | sha256sum) != "$$before" ]]; then git diff --stat; echo "make docs changes files"; exit 1; fi
	@for sums in schemas/*/SHA256SUMS; do (cd "$${sums%/*}" && sha256sum --check --quiet SHA256SUMS); done

.PHONY: rules
rules: ## See that packages import only what they may
	go test -count=1 .

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## Format the Go files
	git ls-files -z '*.go' | xargs -0 $< -w

.PHONY: fmt-check
fmt-check: $(TOOLS)/gofumpt
	@unformatted=$$(git ls-files -z '*.go' | xargs -0 $< -l); \
		if [[ -n $$unformatted ]]; then echo "make fmt changes: $$unformatted"; exit 1; fi

.PHONY: vet
vet:
	go vet $(PKG)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## Run golangci-lint
	$< run $(PKG)

.PHONY: vuln
vuln: $(TOOLS)/govulncheck $(TOOLS)/indexdb ## Look for known vulnerabilities, except those in tools/vuln.allow
	tools/vuln $^ $(PKG)

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin dist

$(TOOLS)/%:
	@mkdir -p $(TOOLS)
	@echo "building $*"
	@cd tools && cp "$$(GOFLAGS=-buildvcs=false go tool -n $*)" $@
