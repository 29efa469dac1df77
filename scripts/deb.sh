#!/usr/bin/env bash
# Makes a Debian package of the release binary: what `make install` lays out, below /usr, stripped
# as Debian wants it. cargo-deb writes it, by the metadata in crates/weir/Cargo.toml.
# Installs cargo-deb from crates.io if it is missing (a few minutes, once).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# crates/weir/Cargo.toml names these three places.
readonly stage=target/package/root
readonly units=target/package/units
readonly changelog=target/package/changelog

PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
if ! command -v cargo-deb >/dev/null; then
    printf 'deb: cargo-deb is missing; installing it (cargo install cargo-deb)\n' >&2
    cargo install cargo-deb --version 3.8.0 --locked
fi

rm -rf target/package
mkdir -p "$units"
DESTDIR="$PWD/$stage" PREFIX=/usr ZSH_COMPLETIONS=/usr/share/zsh/vendor-completions \
    scripts/install.sh install >/dev/null
strip --remove-section=.comment --remove-section=.note "$stage/usr/bin/weir"
# The daemon's unit needs maintainer scripts, which cargo-deb writes.
mv "$stage/usr/lib/systemd/system/weir-fw.service" "$units"
# Debian has the text of the Apache licence once, and the licences of a package in copyright.
rm "$stage"/usr/share/doc/weir/LICENSE-* "$stage"/usr/share/doc/weir/copyright

# Debian's changelog is about the package, and has its date; weir's is beside it.
doc="$stage/usr/share/doc/weir"
mv "$doc/CHANGELOG.md" "$doc/changelog"
gzip --best --no-name "$doc/changelog"
version="$("$stage/usr/bin/weir" --version | cut -d ' ' -f 2)"
printf 'weir (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$version" \
    'The weir authors <maintainers@weir.invalid>' "$(git log -1 --format=%cD)" >"$changelog"

cargo deb --package weir --locked --no-build --no-strip --output target/debian/
