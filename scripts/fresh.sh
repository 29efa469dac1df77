#!/usr/bin/env bash
# Does what `make demo` and `make test` do on a machine that has never built weir, up to their
# first build: in a clean clone, with an empty CARGO_HOME. A full one hides missing downloads.
#
# The clone has what is committed or staged, and changes to tracked files; files unknown to git are
# missing, as they would be elsewhere. Prints `skipped: REASON` if the registry of crates cannot
# be reached at all. Writes only to a temporary directory, and removes it.
#
#     scripts/fresh.sh [PHASE...]    # of scripts/setup.sh; those of `make test` if none
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly repository

scratch="$(mktemp -d "${TMPDIR:-/tmp}/weir-fresh.XXXXXX")"
readonly scratch
trap 'rm -rf -- "$scratch"' EXIT
readonly clone="$scratch/clone" log="$scratch/log"

# cargo and rustup stay where they are; what they have downloaded does not count.
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
export RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
old_home="${CARGO_HOME:-$HOME/.cargo}"
export CARGO_HOME="$scratch/cargo-home"
mkdir "$CARGO_HOME"
for settings in config.toml config; do # a mirror of the registry is this machine's business
    if [[ -f $old_home/$settings ]]; then cp "$old_home/$settings" "$CARGO_HOME"; fi
done
# The tool chain that runs xtask names its cargo, and a build directory is full as well.
unset CARGO RUSTC CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_MANIFEST_DIR

# Runs a command in the clone; what it says goes to the log.
attempt() { (cd "$clone" && "$@") >"$log" 2>&1; }
fail() {
    sed 's/^/    /' "$log" >&2
    printf 'fresh: %s fails on a machine that has never built weir\n' "$1" >&2
    exit 1
}

git clone --quiet --no-local -- "$repository" "$clone" 2>"$log" || fail "git clone"
git -C "$repository" diff --binary HEAD >"$scratch/changes"
if [[ -s $scratch/changes ]]; then
    git -C "$clone" apply --index --whitespace=nowarn "$scratch/changes"
fi

(($#)) || set -- build run test bench labs
attempt scripts/setup.sh "$@" || fail "scripts/setup.sh"

# The first thing that needs the registry: if that fails for lack of a network, nothing can be said.
if ! attempt cargo build --quiet --locked --package xtask; then
    cause="(Could not|Couldn't) (resolve|connect)|Connection (refused|reset|timed out)"
    cause+='|[Nn]etwork|[Tt]imeout|[Tt]imed out|--offline'
    grep --quiet --extended-regexp "$cause" "$log" || fail "building xtask"
    printf 'skipped: the registry of crates cannot be reached from here\n'
    exit 0
fi
# 1 says that a check found something, which the checks say themselves; 2 that one could not run.
status=0
attempt cargo xtask sources || status=$?
((status <= 1)) || fail "what make test does before its first build"
host="$(rustc -vV | sed -n 's/^host: //p')"
attempt cargo fetch --locked --target "$host" || fail "downloading what both commands build"
