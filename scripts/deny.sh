#!/usr/bin/env bash
# Checks licences, bans and sources of all dependencies with cargo-deny, offline.
# Installs cargo-deny from crates.io if it is missing (a few minutes, once).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v cargo-deny >/dev/null; then
    printf 'deny: cargo-deny is missing; installing it (cargo install cargo-deny --locked)\n' >&2
    cargo install cargo-deny --locked
fi
# The check itself is offline: the crates' sources have to be here first.
cargo fetch --locked
exec cargo deny --offline check licenses bans sources
