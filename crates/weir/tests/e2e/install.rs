//! `make install` and `make uninstall`: what the package has, into a directory of the test's.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common;

/// Installs the binary under test below `root`, or removes it again.
fn script(action: &str, root: &Path) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/install.sh");
    Command::new(script)
        .arg(action)
        .env("DESTDIR", root)
        .env("PREFIX", "/opt/weir")
        .env("WEIR_BINARY", env!("CARGO_BIN_EXE_weir"))
        .output()
        .expect("the script starts")
}

fn files_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.insert(path);
        }
    }
    files
}

#[test]
fn what_is_installed_is_complete_and_is_removed_again() {
    let root = tempfile::tempdir().unwrap();
    common::assert_exit(&script("install", root.path()), 0);
    let prefix = root.path().join("opt/weir");
    let text = |file: &str| fs::read_to_string(prefix.join(file)).expect(file);

    let version = Command::new(prefix.join("bin/weir")).arg("--version").output().unwrap();
    assert_eq!(common::stdout(&version), common::stdout(&common::run(&["--version"])));
    assert!(text("share/man/man1/weir.1").contains(".TH weir 1"));
    assert!(text("share/man/man1/weir-fw-run.1").contains("fw run"));
    assert!(text("share/bash-completion/completions/weir").contains("complete -F _weir"));
    assert!(text("share/zsh/site-functions/_weir").starts_with("#compdef weir"));
    assert!(text("share/fish/vendor_completions.d/weir.fish").contains("complete -c weir"));
    assert!(text("share/doc/weir/copyright").contains("Apache-2.0 or MIT"));
    assert!(text("share/doc/weir/labs/quick/lab.toml").contains("[campaign]"));
    // The service runs the binary that was installed with it, whatever the prefix.
    let unit = text("lib/systemd/system/weir-fw.service");
    assert!(unit.contains("ExecStart=/opt/weir/bin/weir fw run"), "{unit}");
    assert!(!unit.contains("/usr/local/bin"), "{unit}");
    for which in ["to", "serve", "track"] {
        let unit = text(&format!("lib/systemd/system/weir-fw-sync-{which}.service"));
        assert!(unit.contains(&format!("ExecStart=/opt/weir/bin/weir fw sync {which} ")), "{unit}");
    }
    assert!(text("share/doc/weir/keepalived.conf").contains("vrrp_instance"));
    let names = files_below(&prefix.join("bin"));
    assert_eq!(names.len(), 1, "no name of another tool is taken: {names:?}");

    // A file of somebody else's stays.
    let other = prefix.join("share/man/man1/other.1");
    fs::write(&other, "").unwrap();
    common::assert_exit(&script("uninstall", root.path()), 0);
    assert_eq!(files_below(root.path()), BTreeSet::from([other]));
}

#[test]
fn removing_what_is_not_there_says_so() {
    let root = tempfile::tempdir().unwrap();
    let output = script("uninstall", root.path());
    common::assert_exit(&output, 2);
    assert!(common::stderr(&output).contains("nothing to remove"), "{}", common::stderr(&output));
}
