#!/usr/bin/env bash
# Runs a command as root with the caller's environment: directly for root, through sudo otherwise.
# Network namespaces, BPF programs and XDP need it; building does not, and is never done with it.
# `make test` gives this script to cargo as the runner of test binaries.
set -euo pipefail

# A user's PATH need not have the directories of administration tools (nft).
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

if ((EUID == 0)); then
    exec "$@"
fi
if ! command -v sudo >/dev/null; then
    printf 'as-root: %s needs root, and there is no sudo here\n' "$1" >&2
    printf '         next step: run the same command as root\n' >&2
    exit 2
fi
exec sudo --preserve-env -- env "PATH=$PATH" "$@"
