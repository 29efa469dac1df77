#!/usr/bin/env bash
# Runs checks and tests: built as the caller, test binaries run as root (namespaces, XDP). The last
# line counts them, and the lines before it say what was skipped, and why.
#
#     scripts/test.sh test    # or check, ci, test-labs: what `cargo xtask help` says of them
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
export "$runner=$PWD/scripts/as-root.sh"
exec cargo xtask "${1:?say what: test, check, ci or test-labs}"
