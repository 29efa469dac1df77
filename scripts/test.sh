#!/usr/bin/env bash
# Runs the checks and all tests: built as the caller, test binaries run as root (namespaces, XDP).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
export "$runner=$PWD/scripts/as-root.sh"
exec cargo xtask test
