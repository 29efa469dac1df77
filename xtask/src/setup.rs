//! Tests of `scripts/setup.sh` on machines that lack something, played by stubs of dpkg, apt,
//! rustup and cargo, which keep what is installed as files. Never installs anything.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use crate::workspace;

/// What the script calls beside the stubs.
const TOOLS: &[&str] =
    &["bash", "env", "dirname", "sed", "tr", "cut", "sort", "head", "touch", "cat", "grep"];

const DPKG_QUERY: &str = r#"#!/bin/bash
for name in "$@"; do [[ -e $STATE/package-$name ]] && echo "installed $name"; done; exit 1
"#;
const APT_CACHE: &str = r#"#!/bin/bash
[[ -e $STATE/archive-${@: -1} ]]
"#;
const APT_GET: &str = r#"#!/bin/bash
echo "apt-get $*" >>"$STATE/calls"
[[ $1 == install ]] || exit 0
shift
for name in "$@"; do [[ $name == -* || -e $STATE/archive-$name ]] || exit 100; done
for name in "$@"; do
    [[ $name == -* ]] || touch "$STATE/package-$name"
    [[ $name == rustup ]] && { ln -s "$STATE/rustup" "$STATE/cargo" "$BIN"; }
done
exit 0
"#;
const RUSTUP: &str = r#"#!/bin/bash
echo "rustup $*" >>"$STATE/calls"
case "$*" in
"show active-toolchain") [[ -e $STATE/default ]] || echo "error: no active toolchain" ;;
"default stable") echo 1.99.0 >"$STATE/default" ;;
"component add "*) [[ -e $STATE/unreachable ]] && exit 1; touch "$STATE/component-$3" ;;
esac
"#;
const CARGO: &str = r#"#!/bin/bash
[[ -e $STATE/default ]] || exit 1
case $1 in
--version) echo "cargo $(cat "$STATE/default") (of today)" ;;
fmt) [[ -e $STATE/component-rustfmt ]] ;;
clippy) [[ -e $STATE/component-clippy ]] ;;
esac
"#;
const SUDO: &str = "#!/bin/bash\nshift\nexec \"$@\"\n";

/// A machine with everything; tests take away from it.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        for folder in ["bin", "state"] {
            fs::create_dir(machine.dir.path().join(folder)).unwrap();
        }
        for tool in TOOLS.iter().chain(&["ln"]) {
            let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool));
            let path = found.iter().find(|path| path.exists()).expect(tool);
            symlink(path, machine.dir.path().join("bin").join(tool)).unwrap();
        }
        let stubs = [
            ("bin/dpkg-query", DPKG_QUERY),
            ("bin/apt-cache", APT_CACHE),
            ("bin/apt-get", APT_GET),
            ("bin/sudo", SUDO),
            ("state/rustup", RUSTUP),
            ("state/cargo", CARGO),
            ("packages.txt", "clang | build | compiles\nnft | run | loads\nip | test | looks\n"),
        ];
        for (name, text) in stubs {
            let path = machine.dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in ["rustup", "cargo"] {
            symlink(machine.state(name), machine.dir.path().join("bin").join(name)).unwrap();
        }
        fs::write(machine.state("default"), "1.99.0\n").unwrap();
        for name in ["package-clang", "package-nft", "package-ip", "archive-clang", "archive-nft"]
            .into_iter()
            .chain(["archive-ip", "component-rustfmt", "component-clippy"])
        {
            fs::write(machine.state(name), "").unwrap();
        }
        machine
    }

    fn state(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("state").join(name)
    }

    /// The same machine without these files: `bin/NAME`, `state/NAME`.
    fn without(self, names: &[&str]) -> Self {
        for name in names {
            fs::remove_file(self.dir.path().join(name)).unwrap();
        }
        self
    }

    /// Runs the script; its exit code, the lines that it said, and what it called.
    fn set_up(&self, phases: &[&str]) -> (Option<i32>, Vec<String>, String) {
        let bin = self.dir.path().join("bin");
        let Output { status, stderr, .. } = Command::new(bin.join("bash"))
            .arg(workspace::root().join("scripts/setup.sh"))
            .args(phases)
            .env_clear()
            .env("PATH", &bin)
            .env("BIN", &bin)
            .env("HOME", self.dir.path())
            .env("STATE", self.dir.path().join("state"))
            .env("WEIR_PACKAGE_LIST", self.dir.path().join("packages.txt"))
            .output()
            .unwrap();
        let said = String::from_utf8(stderr).unwrap();
        let calls = fs::read_to_string(self.state("calls")).unwrap_or_default();
        (status.code(), said.lines().map(str::to_owned).collect(), calls)
    }
}

#[test]
fn where_nothing_is_missing_nothing_is_done_or_said() {
    let (code, said, calls) = Machine::new().set_up(&["build", "run", "test"]);
    assert_eq!((code, said, calls.as_str()), (Some(0), vec![], ""));
}

#[test]
fn missing_packages_of_the_phases_are_installed_by_name() {
    let machine = Machine::new().without(&["state/package-clang", "state/package-ip"]);
    let (code, said, calls) = machine.set_up(&["build", "run"]);
    assert_eq!(code, Some(0), "{said:?}");
    assert!(said[1].contains("clang") && said[1].contains("compiles"), "{said:?}");
    assert!(machine.state("package-clang").exists() && !machine.state("package-ip").exists());
    assert!(calls.contains("install") && !calls.contains("update"), "{calls}");
}

#[test]
fn a_package_that_cannot_be_had_keeps_nothing_else_away() {
    let machine = Machine::new().without(&[
        "state/package-clang",
        "state/package-nft",
        "state/archive-nft",
        "state/component-clippy",
    ]);
    let (code, said, calls) = machine.set_up(&["build", "run", "test"]);
    assert_eq!(code, Some(2), "{said:?}");
    assert!(calls.contains("apt-get update"), "the lists may be stale: {calls}");
    assert!(machine.state("package-clang").exists() && machine.state("component-clippy").exists());
    let lacks: Vec<_> = said.iter().filter(|line| line.contains("next step: ")).collect();
    assert_eq!(lacks.len(), 1, "{said:?}");
    let remedy = "as root: apt-get install --no-install-recommends nft";
    assert!(lacks[0].contains("package nft (loads)") && lacks[0].ends_with(remedy), "{said:?}");
}

#[test]
fn all_that_cannot_be_installed_is_said_at_once() {
    let machine = Machine::new().without(&["bin/dpkg-query", "bin/cargo", "bin/rustup"]);
    let (code, said, _) = machine.set_up(&["build", "test"]);
    assert_eq!((code, said.len()), (Some(2), 2), "{said:?}");
    assert!(said[0].contains("not a Debian") && said[0].contains("next step: "), "{said:?}");
    assert!(said[1].contains("cargo is missing") && said[1].contains("https://rustup.rs"));
}

#[test]
fn rustup_is_installed_where_it_is_a_package() {
    let machine = Machine::new().without(&[
        "bin/cargo",
        "bin/rustup",
        "state/default",
        "state/component-rustfmt",
    ]);
    fs::write(machine.state("archive-rustup"), "").unwrap();
    let (code, said, calls) = machine.set_up(&["build", "test"]);
    assert_eq!(code, Some(0), "{said:?}");
    for call in ["rustup", "rustup default stable", "rustup component add rustfmt"] {
        assert!(calls.contains(call), "{call}: {calls}");
    }
}

#[test]
fn a_rustup_without_a_default_gets_one() {
    let machine = Machine::new().without(&["state/default"]);
    let (code, said, calls) = machine.set_up(&["build"]);
    assert_eq!(code, Some(0), "{said:?}");
    assert!(calls.contains("toolchain install stable") && calls.contains("default stable"));
    assert!(calls.contains("--no-self-update"), "rustup itself stays as it is: {calls}");
    let machine = Machine::new().without(&["state/default", "bin/rustup"]);
    let (code, said, _) = machine.set_up(&["build"]);
    assert_eq!(code, Some(2), "{said:?}");
    assert!(said[0].contains("cargo does not run") && said[0].contains("next step: "), "{said:?}");
}

#[test]
fn an_old_compiler_and_a_missing_component_are_said_with_their_remedy() {
    let machine = Machine::new().without(&["state/component-clippy"]);
    fs::write(machine.state("default"), "1.63.0\n").unwrap();
    fs::write(machine.state("unreachable"), "").unwrap();
    let (code, said, _) = machine.set_up(&["build", "test"]);
    let lacks: Vec<_> = said.iter().filter(|line| line.contains("next step: ")).collect();
    assert_eq!((code, lacks.len()), (Some(2), 2), "{said:?}");
    assert!(lacks[0].contains("1.63.0 is too old") && lacks[0].ends_with("rustup update stable"));
    assert!(lacks[1].ends_with("rustup component add clippy"), "{said:?}");
    let (code, said, _) = machine.set_up(&["build"]);
    assert_eq!((code, said.len()), (Some(2), 1), "building needs no clippy: {said:?}");
}
