#!/usr/bin/env bash
# Runs the example campaign labs/quick with the release build as root, and says where its report is.
# The results belong to the caller, not to root.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly repository
cd "$repository"

readonly weir="${CARGO_TARGET_DIR:-target}/release/weir"
results="results/quick-$(date +%Y%m%d-%H%M%S)"
readonly results
mkdir -p results

status=0
scripts/as-root.sh "$weir" lab run labs/quick/lab.toml --out "$results" || status=$?

if ((EUID != 0)) && [[ -d $results ]]; then
    scripts/as-root.sh chown -R "$(id -u):$(id -g)" "$results"
fi
if [[ -f $results/report.html ]]; then
    printf '\nThe report: file://%s/%s/report.html\n' "$repository" "$results"
fi
exit "$status"
