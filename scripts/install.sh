#!/usr/bin/env bash
# Installs the release binary with its manual pages, completions, service, licences and example
# labs below $DESTDIR$PREFIX, or removes the same files again.
#
#     make build && sudo make install             # below /usr/local
#     make install DESTDIR=/tmp/root PREFIX=/usr  # for a package
#     sudo make uninstall
#
# Builds nothing, downloads nothing, enables no service. It does not link the binary under the names
# pkt-gen, ministat and pfctl: they would shadow the tools of those names.
set -euo pipefail

repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly repository
readonly prefix="${PREFIX:-/usr/local}"
readonly root="${DESTDIR:-}"
readonly built="${WEIR_BINARY:-${CARGO_TARGET_DIR:-$repository/target}/release/weir}"
# Debian keeps the completions of packages apart from those of the administrator.
readonly zsh_completions="${ZSH_COMPLETIONS:-$prefix/share/zsh/site-functions}"

fail() {
    printf 'install: %s\n' "$1" >&2
    printf '         next step: %s\n' "$2" >&2
    exit 2
}

# Lays out below the directory $1 all that belongs to the binary $2.
lay_out() {
    local stage="$1" weir="$2" doc="$1$prefix/share/doc/weir"
    install -D --mode=755 "$weir" "$stage$prefix/bin/weir"

    "$weir" man --out "$stage$prefix/share/man/man1"
    mkdir -p "$stage$prefix/share/bash-completion/completions" "$stage$zsh_completions" \
        "$stage$prefix/share/fish/vendor_completions.d"
    "$weir" completions bash >"$stage$prefix/share/bash-completion/completions/weir"
    "$weir" completions zsh >"$stage$zsh_completions/_weir"
    "$weir" completions fish >"$stage$prefix/share/fish/vendor_completions.d/weir.fish"

    mkdir -p "$stage$prefix/lib/systemd/system" "$doc"
    local unit
    for unit in "$repository"/dist/*.service; do
        sed "s|/usr/local/bin/|$prefix/bin/|" "$unit" \
            >"$stage$prefix/lib/systemd/system/${unit##*/}"
    done
    cp "$repository"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT} "$doc"
    cp "$repository"/dist/{copyright,keepalived.conf} "$doc"
    cp "$repository/bpf/LICENSE-BSD-2-Clause" "$doc"
    # Laid out as in the repository, so that the links in README.md work; large files below labs/
    # are disk images that somebody built there.
    (cd "$repository" && find docs labs -type f -size -1000k -exec cp --parents '{}' "$doc" ';')
}

# Prints the files below the directory $1, relative to it.
files_of() {
    (cd "$1" && find . -type f -printf '%P\n' | sort)
}

main() {
    local action="${1:-install}" stage file mode source="$built"
    [[ $prefix == /* ]] || fail "PREFIX=$prefix is not an absolute path" "make install PREFIX=/usr"
    case $action in
    install) [[ -x $source ]] || fail "$source is not there" "make build, without sudo" ;;
    # What the installed binary laid out, that one can still name.
    uninstall)
        source="$root$prefix/bin/weir"
        [[ -x $source ]] || fail "$source is not there: nothing to remove" "check PREFIX, DESTDIR"
        ;;
    *) fail "unknown action '$action'" "scripts/install.sh install|uninstall" ;;
    esac

    stage="$(mktemp --directory)"
    # shellcheck disable=SC2064 # the directory of now
    trap "rm -rf '$stage'" EXIT
    lay_out "$stage" "$source"
    while IFS= read -r file; do
        if [[ $action == uninstall ]]; then
            rm -f "$root/$file"
            continue
        fi
        mode=644
        [[ -x $stage/$file ]] && mode=755
        install -D --mode="$mode" "$stage/$file" "$root/$file"
    done < <(files_of "$stage")
    if [[ $action == uninstall ]]; then
        find "$root$prefix/share/doc/weir" -depth -type d -empty -delete 2>/dev/null || true
        printf 'removed weir from %s\n' "$root$prefix"
    else
        printf 'installed %s\n' "$root$prefix/bin/weir"
    fi
}

main "$@"
