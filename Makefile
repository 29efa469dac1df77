# weir: `make help` says what there is. Everything that needs root asks sudo for that step only.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# rustup's cargo also when the shell has not read ~/.cargo/env yet.
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin

.PHONY: help build demo test test-labs soak lint deny bench bench-fw bench-gen bench-stats bench-rules clean

help: ## list the targets
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the release binary, target/release/weir
	@scripts/setup.sh build
	cargo build --release --locked --package weir

demo: ## run the example campaign labs/quick (about four minutes) and say where its report is
	@scripts/setup.sh build run
	cargo build --release --locked --package weir
	@scripts/demo.sh

test: ## run the checks of `make lint` and all tests (test binaries run as root)
	@scripts/setup.sh build run test bench labs
	@scripts/test.sh

test-labs: ## run the tests of real machines alone: network boot, virtual machines, consoles
	@scripts/setup.sh build run test labs
	@scripts/test-labs.sh

soak: ## firewall: random rulesets, packets and frames against the reference, WEIR_SOAK_SECONDS (600)
	@scripts/setup.sh build run test
	@scripts/soak.sh

lint: ## formatting, clippy, documentation, purity, tidiness
	@scripts/setup.sh build test
	cargo xtask lint

deny: ## licences, bans and sources of all dependencies (cargo-deny, offline)
	@scripts/deny.sh

bench: bench-fw bench-gen bench-stats bench-rules ## run all benchmarks (docs/bench.md)

bench-fw: ## weir fw against XDP, Linux and nftables (about 25 minutes); ARGS=--help
	@scripts/setup.sh build run bench
	@scripts/bench.sh fw $(ARGS)

bench-gen: ## generator and sink against their floors (about four minutes); ARGS=--help lists options
	@scripts/setup.sh build run bench
	@scripts/bench.sh gen $(ARGS)

bench-stats: ## large imports, reports, comparisons against their limits; ARGS=--help lists options
	@scripts/setup.sh build run bench
	@scripts/bench.sh stats $(ARGS)

bench-rules: ## pf.conf: large rulesets and the evaluator against their limits (about a minute)
	@scripts/setup.sh build run bench
	@scripts/bench.sh rules $(ARGS)

clean: ## remove what was built (campaign results stay)
	cargo clean
