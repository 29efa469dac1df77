#!/usr/bin/env bash
# Compares the firewall's data path with the reference for WEIR_SOAK_SECONDS (600): random rulesets
# with random packets, and malformed frames. The seed is drawn and printed each time;
# WEIR_SOAK_SEED=N runs the same again. Before that, a campaign's manager is killed WEIR_KILLS (20)
# times, at moments that WEIR_KILL_SEED=N repeats, WEIR_HOGS (20) times two equal campaigns of
# which one has hogs beside it must not differ, and three campaigns must take what their plan says,
# within a quarter, where nothing else disturbs them. Built as the caller, run as root.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Runs a campaign once, and holds what it took against what it was to take.
estimated_and_taken() {
    local lab="$1" weir="${CARGO_TARGET_DIR:-target}/release/weir" out estimated taken
    shift
    out="$(mktemp --directory)/store"
    # 1: something is disturbed or invalid, which is looked at below.
    scripts/as-root.sh "$weir" lab run "labs/$lab/lab.toml" -n 1 --yes --out "$out" \
        "$@" >/dev/null || (($? == 1))
    estimated="$(sed -n 's/.*"estimated_ns": \([0-9]*\).*/\1/p' "$out/durations.json")"
    taken="$(sed -n 's/.*"taken_ns": \([0-9]*\).*/\1/p' "$out/durations.json")"
    printf 'soak: %s was to take %d s, took %d s (%+d %%)' "$lab" $((estimated / 1000000000)) \
        $((taken / 1000000000)) $((100 * (taken - estimated) / estimated))
    if [[ -d $out/rejected ]]; then
        printf ', with trials that something else disturbed: not compared\n'
        return 0
    fi
    printf '\n'
    ((4 * taken >= 3 * estimated && 4 * taken <= 5 * estimated))
}

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
cargo build --locked --release --package weir
estimated_and_taken quick
estimated_and_taken streams
estimated_and_taken states --only '*.flows-1M'
exec cargo test --locked --package weir-fw --test it differential -- --include-ignored --nocapture
