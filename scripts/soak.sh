#!/usr/bin/env bash
# Compares the firewall's data path with the reference for WEIR_SOAK_SECONDS (600): random rulesets
# with random packets, and malformed frames. The seed is drawn and printed each time;
# WEIR_SOAK_SEED=N runs the same again. Before that, a campaign's manager is killed WEIR_KILLS (20)
# times, at moments that WEIR_KILL_SEED=N repeats, and WEIR_HOGS (20) times two equal campaigns of
# which one has hogs beside it must not differ. Built as the caller, run as root.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
export "$runner=$PWD/scripts/as-root.sh"
export WEIR_SOAK_SECONDS="${WEIR_SOAK_SECONDS:-600}"
export WEIR_SOAK_SEED="${WEIR_SOAK_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"
printf 'soak: WEIR_SOAK_SEED=%s\n' "$WEIR_SOAK_SEED"
export WEIR_KILLS="${WEIR_KILLS:-20}"
cargo test --locked --package weir --test e2e labs::kills:: -- --nocapture
export WEIR_HOGS="${WEIR_HOGS:-20}"
cargo test --locked --package weir --test e2e disturbance::two_equal -- --nocapture
exec cargo test --locked --package weir-fw --test it differential -- --include-ignored --nocapture
