//! Compiles BPF programs with clang: what the build scripts of weir-bpf and weir-oracle share.
//!
//! The environment variable `CLANG` names another compiler than `clang-19`. Headers come from
//! `bpf/include` and from the libbpf that `libbpf-sys` carries; nothing of the host is used.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libbpf_cargo::SkeletonBuilder;

/// A directory that cargo names in an environment variable.
pub(crate) fn directory(variable: &str) -> Result<PathBuf, String> {
    env::var(variable).map(PathBuf::from).map_err(|error| format!("{variable}: {error}"))
}

/// Compiles `bpf/NAME.bpf.c` to `NAME.bpf.o` in cargo's output directory, for each name.
pub(crate) fn compile_programs(names: &[&str]) -> Result<(), String> {
    let bpf = directory("CARGO_MANIFEST_DIR")?.join("../../bpf");
    let out = directory("OUT_DIR")?;
    println!("cargo::rerun-if-changed={}", bpf.display());
    println!("cargo::rerun-if-env-changed=CLANG");

    let clang = env::var("CLANG").unwrap_or_else(|_| "clang-19".into());
    check_clang(&clang)?;
    for name in names {
        compile(&clang, &bpf, name, &out)?;
    }
    Ok(())
}

/// Tells cargo why the build failed.
pub(crate) fn report(message: &str) {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
}

/// Fails with the name of the package to install if the compiler cannot be run.
fn check_clang(clang: &str) -> Result<(), String> {
    let status = Command::new(clang).arg("--version").stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{clang} --version` failed ({status}): weir needs clang")),
        Err(error) => Err(format!(
            "cannot run `{clang}`, which compiles weir's BPF programs: {error}\n\
             install it (on Debian and Ubuntu: `apt-get install clang-19`), or set CLANG to the \
             name of another clang"
        )),
    }
}

fn compile(clang: &str, bpf_dir: &Path, name: &str, out_dir: &Path) -> Result<(), String> {
    let source = bpf_dir.join(format!("{name}.bpf.c"));
    let include = bpf_dir.join("include");
    SkeletonBuilder::new()
        .source(&source)
        .obj(out_dir.join(format!("{name}.bpf.o")))
        .clang(clang)
        .clang_args(
            ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-mcpu=v3", "-I"]
                .map(Into::into)
                .into_iter()
                .chain([include.into_os_string()]),
        )
        .build()
        .map_err(|error| format!("{error:#}"))
}
