# Every target works on a fresh machine with Go, Node and git: what it needs, it fetches.
export GOTOOLCHAIN := go1.27.3
SHELL := /bin/bash
TOOL := go tool -modfile=tools/go.mod
BIN := bin/chaintrail
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 20s
ROUNDS ?= 25
SABOTAGE ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help build run test short lint fmt generate generate-check conformance crash crash-short tamper bench fuzz vuln engine peers clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## build bin/chaintrail
	@go build -ldflags '-X main.version=$(VERSION)' -o $(BIN) ./cmd/chaintrail

engine: ## fetch the embedded ClickHouse engine (npm, pinned by hash)
	@sh tools/engine/fetch.sh >/dev/null

peers: ## fetch the MCP servers and clients that tests talk to (npm, pinned by hash)
	@sh tools/peers/fetch.sh

run: build engine ## start everything on embedded defaults, with a demo (ARGS="--data DIR" …)
	@exec ./$(BIN) up $(ARGS)

test: build engine peers ## fetch what is needed, then run all tests
	@$(TOOL) gotestsum --format pkgname-and-test-fails -- -timeout 15m -p 2 ./...

short: ## run the tests of the packages alone, without race detector
	@go test ./...

lint: ## golangci-lint, no finding allowed
	@$(TOOL) golangci-lint run ./...

fmt: ## gofumpt and import order
	@$(TOOL) golangci-lint fmt ./...

generate: ## write the JSON Schemas of the events anew
	@go run ./schemas/internal/schemagen

generate-check: generate ## fail when a generated file is stale
	@git diff --exit-code -- schemas/event

conformance: build engine peers ## every suite in every mode, as a table: official MCP suite, interceptor fixtures, peers, messages
	@go run ./bench/conformance

crash: build engine ## kill every process under load, count what was lost (ROUNDS=25, SABOTAGE=name to see it fail)
	@go run ./bench/crash -rounds $(ROUNDS) -sabotage '$(SABOTAGE)'

crash-short: build engine ## the short form of crash, with its negative controls
	@go run ./bench/crash -rounds 6
	@for s in skip-journal ack-early double-insert drop-range skip-adopt; do \
		if go run ./bench/crash -rounds 4 -sabotage $$s >bin/crash-$$s.log 2>&1; then \
			echo "crash did not notice sabotage $$s"; cat bin/crash-$$s.log; exit 1; fi; \
		echo "sabotage $$s: noticed ($$(grep -m1 '^verdict' bin/crash-$$s.log))"; done

tamper: build engine ## tamper with a trail in every way, see each one found (SABOTAGE=check to see it fail)
	@go run ./bench/tamper -sabotage '$(SABOTAGE)' $(ARGS)

bench: build engine ## cost of the request path and of the pipeline, as a table
	@go run ./bench/speed

fuzz: ## run each fuzz target for FUZZTIME
	@set -e; for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' .); do \
		for t in $$(grep -oE '^func Fuzz[A-Za-z0-9_]+' $$f | cut -c6-); do \
			echo "$$t in $$(dirname $$f)"; go test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZTIME) $$(dirname $$f); done; done

vuln: ## known vulnerabilities in what is called, from the database module
	@DB=$$(go mod download -json golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'); \
	$(TOOL) govulncheck -db="file://$$DB/data/osv" ./...

clean: ## remove what was built
	@rm -rf bin
