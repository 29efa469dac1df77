#!/usr/bin/env bash
# Makes a Debian machine ready to build, run or test weir: installs by name what is missing of the
# packages in scripts/packages.txt and of rustup's tool chain, and says what it cannot install.
#
#     scripts/setup.sh build run        # the phases needed: build, run, test, bench, labs, deb
#
# Installs nothing and runs nothing as root when nothing is missing. Whatever it cannot install is
# one line with its remedy, and all of them are listed at once. Never downloads an installer, never
# edits your files, never removes a package, never replaces a tool chain that is there.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly repository
readonly package_list="${WEIR_PACKAGE_LIST:-$repository/scripts/packages.txt}"
lack_count=0

say() { printf 'setup: %s\n' "$*" >&2; }
# lack WHAT REMEDY: what is missing and cannot be installed from here.
lack() {
    say "$1; next step: $2"
    lack_count=$((lack_count + 1))
}

# Prints "package<TAB>purpose" for every package of the phases given.
packages_of() {
    local package phase purpose needed
    while IFS='|' read -r package phase purpose; do
        read -r package <<<"$package"
        read -r phase <<<"$phase"
        read -r purpose <<<"$purpose"
        [[ -z $package || $package == '#'* ]] && continue
        for needed in "$@"; do
            [[ $phase == "$needed" ]] && printf '%s\t%s\n' "$package" "$purpose"
        done
    done <"$package_list"
    return 0
}

# Prints those of the named packages that are not installed, with one dpkg-query for all.
missing_packages() {
    local answer installed package
    # dpkg-query fails if it does not know one of the names, but still prints the others.
    answer="$(dpkg-query --show --showformat='${db:Status-Status} ${Package}\n' "$@" \
        2>/dev/null || true)"
    installed=" $(sed -n 's/^installed //p' <<<"$answer" | tr '\n' ' ') "
    for package in "$@"; do
        [[ $installed == *" $package "* ]] || printf '%s\n' "$package"
    done
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if ((EUID == 0)); then "$@"; else sudo -- "$@"; fi
}
can_be_root() { ((EUID == 0)) || command -v sudo >/dev/null; }

# Whether apt knows a package of every name.
apt_knows() {
    local package
    for package in "$@"; do
        apt-cache show --no-all-versions "$package" >/dev/null 2>&1 || return 1
    done
}

# Installs packages by name; false if apt could not.
install_packages() {
    local -a install=(env DEBIAN_FRONTEND=noninteractive apt-get install --yes
        --no-install-recommends --quiet)
    # Package lists may be absent or stale: refresh them once, and only if they are of no use.
    if apt_knows "$@" && as_root "${install[@]}" "$@"; then
        return 0
    fi
    say "refreshing the package lists (apt-get update)"
    as_root apt-get update --quiet && as_root "${install[@]}" "$@"
}

setup_packages() {
    local package purpose
    local -a names=() missing=()
    local -A purposes=()
    while IFS=$'\t' read -r package purpose; do
        names+=("$package")
        purposes[$package]=$purpose
    done < <(packages_of "$@")
    ((${#names[@]} == 0)) && return 0

    if ! command -v dpkg-query >/dev/null; then
        lack "this is not a Debian system (no dpkg-query)" \
            "install the equivalents of: ${names[*]}; then call cargo (see CONTRIBUTING.md)"
        return 0
    fi
    mapfile -t missing < <(missing_packages "${names[@]}")
    ((${#missing[@]} == 0)) && return 0

    say "missing Debian packages, to be installed now:"
    for package in "${missing[@]}"; do
        printf '       %-12s %s\n' "$package" "${purposes[$package]}" >&2
    done
    if can_be_root && install_packages "${missing[@]}"; then
        return 0
    fi
    # One that is unavailable must not block the others, or be hidden by them.
    local why="cannot be installed"
    can_be_root || why="is missing, and there is no sudo here"
    for package in "${missing[@]}"; do
        can_be_root && install_packages "$package" >/dev/null 2>&1 && continue
        lack "the package $package (${purposes[$package]}) $why" \
            "as root: apt-get install --no-install-recommends $package"
    done
}

# Whether a command runs in the repository, where rustup's overrides apply.
runs() { (cd "$repository" && "$@") >/dev/null 2>&1; }

# rustup is a Debian package from 13 on; elsewhere it is its users' to install.
setup_rustup() {
    command -v cargo >/dev/null && return 0
    if ! command -v rustup >/dev/null; then
        if can_be_root && apt_knows rustup; then
            say "cargo is missing: installing the package rustup"
            install_packages rustup || true
        fi
        if ! command -v rustup >/dev/null; then
            lack "cargo is missing: weir is built with the Rust tool chain of rustup" \
                "install it from https://rustup.rs, open a new shell, run make again"
            return 1
        fi
    fi
}

# A rustup without a default tool chain has a cargo that does not run.
setup_toolchain() {
    local needed found
    if ! runs cargo --version && command -v rustup >/dev/null; then
        if [[ $(cd "$repository" && rustup show active-toolchain 2>&1) == *'no active'* ]]; then
            say "rustup has no default tool chain: installing stable, which becomes it"
            rustup toolchain install stable --profile minimal --no-self-update >&2 || true
            rustup default stable >&2 || true
        else
            say "the tool chain that is set is missing: installing it (rustup toolchain install)"
            (cd "$repository" && rustup toolchain install --no-self-update >&2) || true
        fi
    fi
    if ! runs cargo --version; then
        lack "cargo does not run, and rustup could not mend it" \
            "rustup default stable, or cargo --version, which says why"
        return 1
    fi
    needed="$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$repository/Cargo.toml")"
    found="$(cd "$repository" && cargo --version | cut -d ' ' -f 2)"
    if [[ $(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1) != "$needed" ]]; then
        lack "Rust $found is too old: weir needs $needed" "rustup update stable"
    fi
}

# setup_component NAME SUBCOMMAND PACKAGE: a part of the tool chain that cargo calls.
setup_component() {
    runs cargo "$2" --version && return 0
    if command -v rustup >/dev/null; then
        say "$1 is missing: installing it (rustup component add $1)"
        (cd "$repository" && rustup component add "$1" >&2) || true
        runs cargo "$2" --version && return 0
        lack "$1 is missing, and rustup cannot install it" "rustup component add $1"
    else
        lack "$1 is missing" "as root: apt-get install $3, or install rustup (https://rustup.rs)"
    fi
}

setup_rust() {
    # rustup's default place counts even if the shell has not read ~/.cargo/env yet.
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    setup_rustup || return 0
    setup_toolchain || return 0
    local phase
    for phase in "$@"; do
        [[ $phase == test ]] || continue
        setup_component rustfmt fmt rustfmt
        setup_component clippy clippy rust-clippy
    done
}

main() {
    local phase
    if (($# == 0)); then
        say "no phase is given; next step: scripts/setup.sh build|run|test|bench|labs|deb ..."
        exit 2
    fi
    for phase in "$@"; do
        case $phase in
        build | run | test | bench | labs | deb) ;;
        *)
            say "unknown phase '$phase': it is one of build, run, test, bench, labs, deb"
            exit 2
            ;;
        esac
    done
    setup_packages "$@"
    setup_rust "$@"
    ((lack_count == 0)) || exit 2
}

main "$@"
