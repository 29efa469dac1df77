//! The test binaries of the workspace: built by cargo, and found in what it says of them.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::steps;

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    /// The package, `weir-wire`.
    pub(super) package: String,
    /// Its name among the package's: `weir_wire`, `e2e`.
    pub(super) target: String,
    /// Whether it holds the tests beside the code, rather than a file of `tests/`.
    pub(super) is_unit: bool,
    pub(super) path: PathBuf,
    /// The package's directory, where cargo would run it.
    pub(super) directory: PathBuf,
}

impl Executable {
    /// `weir-wire`, or `weir/e2e` for a file of `tests/`.
    pub(super) fn name(&self) -> String {
        if self.is_unit {
            self.package.clone()
        } else {
            format!("{}/{}", self.package, self.target)
        }
    }
}

/// Builds the tests; none if that failed, which cargo has said then. With `only`, those of one
/// package's file of `tests/`.
pub(super) fn build(only: Option<(&str, &str)>) -> Result<Option<Vec<Executable>>> {
    let mut arguments = vec!["test", "--no-run", "--locked"];
    match only {
        Some((package, target)) => arguments.extend(["--package", package, "--test", target]),
        None => arguments.push("--workspace"),
    }
    arguments.push("--message-format=json-render-diagnostics");
    steps::say(&format!("==> test: cargo {}", arguments.join(" ")))?;
    let mut child = steps::cargo()
        .args(&arguments)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo test")?;
    let output = child.stdout.take().context("cargo test has no standard output")?;
    let mut executables = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cannot read what cargo says of its artifacts")?;
        executables.extend(artifact(&line));
    }
    let status = child.wait().context("cannot wait for cargo test")?;
    Ok(status.success().then_some(executables))
}

/// The test binary that a message of cargo is about.
fn artifact(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    let directory = manifest.parent()?.to_owned();
    let target = &message["target"];
    let kinds = target["kind"].as_array()?;
    Some(Executable {
        package: directory.file_name()?.to_str()?.to_owned(),
        target: target["name"].as_str()?.to_owned(),
        is_unit: !kinds.iter().any(|kind| kind == "test"),
        path,
        directory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_in_what_cargo_says() {
        let line = |reason: &str, test: bool, kind: &str, executable: &str| {
            format!(
                r#"{{"reason":"{reason}","manifest_path":"/w/crates/weir/Cargo.toml",
                    "target":{{"kind":["{kind}"],"name":"e2e"}},"profile":{{"test":{test}}},
                    "executable":{executable}}}"#
            )
        };
        let found = artifact(&line("compiler-artifact", true, "test", r#""/w/t/e2e-1""#)).unwrap();
        assert_eq!((found.name().as_str(), found.is_unit), ("weir/e2e", false));
        assert_eq!(found.directory, PathBuf::from("/w/crates/weir"));
        assert_eq!(found.path, PathBuf::from("/w/t/e2e-1"));
        let unit = artifact(&line("compiler-artifact", true, "bin", r#""/w/t/weir-1""#)).unwrap();
        assert_eq!((unit.name().as_str(), unit.is_unit), ("weir", true));
        for other in [
            line("compiler-artifact", false, "bin", r#""/w/t/weir""#),
            line("compiler-artifact", true, "lib", "null"),
            line("compiler-message", true, "test", r#""/w/t/e2e-1""#),
            "warning: not JSON".to_owned(),
        ] {
            assert_eq!(artifact(&other), None, "{other}");
        }
    }
}
