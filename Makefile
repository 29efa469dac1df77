# weir: `make help` says what there is. Everything that needs root asks sudo for that step only.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# rustup's cargo also when the shell has not read ~/.cargo/env yet.
CARGO_HOME ?= $(HOME)/.cargo
export PATH := $(PATH):$(CARGO_HOME)/bin

.PHONY: help build install uninstall deb demo check test ci test-labs soak lint deny bench bench-fw bench-gen bench-stats bench-rules bench-rss bench-http bench-sync clean

help: ## list the targets
	@awk -F ':[^#]*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the release binary, target/release/weir
	@scripts/setup.sh build
	cargo build --release --locked --package weir

install: ## install the release binary, manual pages, completions, systemd unit; PREFIX, DESTDIR
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh install

uninstall: ## remove what `make install` installed; PREFIX, DESTDIR
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install.sh uninstall

deb: build ## make a Debian package of the release binary, below target/debian
	@scripts/setup.sh deb
	@scripts/deb.sh

demo: ## run the example campaign labs/quick (about three minutes) and say where its report is
	@scripts/setup.sh build run
	cargo build --release --locked --package weir
	@scripts/demo.sh

check: ## what to run while working: checks and tests without machines, short random runs
	@scripts/setup.sh build run test bench
	@scripts/test.sh check

test: ## run all checks and all tests (test binaries run as root)
	@scripts/setup.sh build run test bench labs
	@scripts/test.sh test

ci: ## what continuous integration runs: make test, and the documentation
	@scripts/setup.sh build run test bench labs
	@scripts/test.sh ci

test-labs: ## run the tests of real machines alone: network boot, virtual machines, consoles
	@scripts/setup.sh build run test labs
	@scripts/test.sh test-labs

soak: ## kills of a campaign, estimates; random rulesets, packets, frames on the firewall: WEIR_SOAK_SECONDS (600)
	@scripts/setup.sh build run test labs
	@scripts/soak.sh

lint: ## formatting, clippy, documentation, purity, tidiness
	@scripts/setup.sh build test
	cargo xtask lint

deny: ## licences, bans and sources of all dependencies (cargo-deny, offline)
	@scripts/deny.sh

bench: bench-fw bench-gen bench-stats bench-rules bench-rss bench-http bench-sync ## run all benchmarks (docs/bench.md)

bench-fw: ## weir fw against XDP, Linux and nftables (about 50 minutes); ARGS=--help
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

bench-rss: ## receive side scaling: hashes, predicted queues, echo servers, tunnels (three minutes)
	@scripts/setup.sh build run bench
	@scripts/bench.sh rss $(ARGS)

bench-sync: ## a second firewall is kept in step (about 12 minutes, 4 GB of memory); ARGS=--help
	@scripts/setup.sh build run bench
	@scripts/bench.sh sync $(ARGS)

bench-http: ## connections with and without sockets, through firewalls, and HTTP (about three minutes)
	@scripts/setup.sh build run bench
	@scripts/bench.sh http $(ARGS)

clean: ## remove what was built (campaign results stay)
	cargo clean
