#!/usr/bin/env bash
# Runs the tests of labs of real machines: built as the caller, the test binary runs as root. The
# last line counts them, and the lines before it say what was skipped, and why.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

host="$(rustc -vV | sed -n 's/^host: //p')"
runner="CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER"
export "$runner=$PWD/scripts/as-root.sh"
exec cargo xtask test-labs
