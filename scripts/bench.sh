#!/usr/bin/env bash
# Builds a benchmark as the caller and runs it as root. The result belongs to the caller.
#
#     scripts/bench.sh gen --repeats 3        # what follows the name goes to the benchmark
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

if (($# == 0)); then
    printf 'bench: say which benchmark: scripts/bench.sh gen [OPTION...]\n' >&2
    exit 2
fi
name=$1
shift

host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
export "$runner=$PWD/scripts/as-root.sh"

status=0
cargo bench --quiet --locked --package weir --bench "$name" -- "$@" || status=$?

results="${CARGO_TARGET_DIR:-target}/bench"
if ((EUID != 0)) && [[ -d $results ]]; then
    scripts/as-root.sh chown -R "$(id -u):$(id -g)" "$results"
fi
exit "$status"
