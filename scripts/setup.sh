#!/usr/bin/env bash
# Makes a Debian machine ready to build, run or test weir: installs the missing packages of
# scripts/packages.txt by name, and checks that rustup's cargo is there.
#
#     scripts/setup.sh build run        # the phases wanted: build, run, test, bench, labs
#
# Installs nothing and runs nothing as root when nothing is missing. Never downloads rustup, never
# edits a file of yours, never removes a package.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly repository
readonly package_list="${WEIR_PACKAGE_LIST:-$repository/scripts/packages.txt}"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$1"
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 2
}

# Prints "package<TAB>purpose" for every package of the phases given.
wanted_packages() {
    local package phase purpose wanted
    while IFS='|' read -r package phase purpose; do
        read -r package <<<"$package"
        read -r phase <<<"$phase"
        read -r purpose <<<"$purpose"
        [[ -z $package || $package == '#'* ]] && continue
        for wanted in "$@"; do
            [[ $phase == "$wanted" ]] && printf '%s\t%s\n' "$package" "$purpose"
        done
    done <"$package_list"
    return 0
}

# Prints the names among the arguments that dpkg does not have installed: one dpkg-query for all.
missing_packages() {
    local answer installed package
    # dpkg-query fails if it knows nothing of one of the names; the others are printed all the same.
    answer="$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" \
        2>/dev/null || true)"
    installed=" $(sed -n 's/^installed //p' <<<"$answer" | tr '\n' ' ') "
    for package in "$@"; do
        [[ $installed == *" $package "* ]] || printf '%s\n' "$package"
    done
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if ((EUID == 0)); then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        fail "installing packages needs root, and there is no sudo here" \
            "next step, as root: apt-get install --no-install-recommends ${missing[*]}"
    fi
}

install_packages() {
    local -a install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes
        --no-install-recommends --quiet)
    local package unknown=''
    # Package lists may be absent or stale: refresh them once, and only if they are of no use.
    for package in "$@"; do
        apt-cache show --no-all-versions "$package" >/dev/null 2>&1 || unknown+=" $package"
    done
    if [[ -n $unknown ]]; then
        say "refreshing the package lists (apt-get update)"
        as_root apt-get update --quiet
        as_root "${install[@]}" "$@"
    elif ! as_root "${install[@]}" "$@"; then
        say "installing failed; refreshing the package lists (apt-get update) and trying again"
        as_root apt-get update --quiet
        as_root "${install[@]}" "$@"
    fi
}

setup_packages() {
    local package purpose
    local -a names=()
    local -A purposes=()
    while IFS=$'\t' read -r package purpose; do
        names+=("$package")
        purposes[$package]=$purpose
    done < <(wanted_packages "$@")
    ((${#names[@]} == 0)) && return 0

    command -v dpkg-query >/dev/null || fail \
        "this is not a Debian system (no dpkg-query)" \
        "weir's make targets are written for Debian 12; elsewhere, install the equivalents of:" \
        "${names[*]}" "and call cargo directly (see CONTRIBUTING.md)"
    mapfile -t missing < <(missing_packages "${names[@]}")
    ((${#missing[@]} == 0)) && return 0

    say "missing Debian packages, to be installed now:"
    for package in "${missing[@]}"; do
        printf '       %-12s %s\n' "$package" "${purposes[$package]}" >&2
    done
    install_packages "${missing[@]}"
}

setup_rust() {
    # rustup's default place counts even if the shell has not read ~/.cargo/env yet.
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    command -v cargo >/dev/null || fail \
        "cargo is not there: weir is built with the Rust tool chain of rustup" \
        "next step: install it from https://rustup.rs, open a new shell, run make again"
    local needed found
    needed="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$repository/Cargo.toml")"
    found="$(cd "$repository" && cargo --version | cut -d ' ' -f 2)"
    [[ $(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1) == "$needed" ]] || fail \
        "Rust $found is too old: weir needs $needed" \
        "next step: rustup update stable"
    command -v rustup >/dev/null || return 0

    local wanted installed component
    installed="$(cd "$repository" && rustup component list --installed)"
    for wanted in "$@"; do
        component="$(grep --max-count=1 "^$wanted" <<<"$installed" || true)"
        [[ -n $component ]] && continue
        say "adding rustup's component $wanted"
        (cd "$repository" && rustup component add "$wanted")
    done
}

main() {
    local phase
    local -a components=()
    (($# > 0)) || fail "say what for: scripts/setup.sh build|run|test|bench|labs ..."
    for phase in "$@"; do
        case $phase in
        build | run | bench | labs) ;;
        test) components=(rustfmt clippy) ;;
        *) fail "unknown phase '$phase': it is one of build, run, test, bench, labs" ;;
        esac
    done
    declare -ga missing=()
    setup_packages "$@"
    setup_rust "${components[@]}"
}

main "$@"
