//! Compiles `bpf/*.bpf.c` with clang into object files that the crate embeds.
//!
//! The environment variable `CLANG` names another compiler than `clang-19`. Headers come from
//! `bpf/include` and from the libbpf that `libbpf-sys` carries; nothing of the host is used.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libbpf_cargo::SkeletonBuilder;

const PROGRAMS: [&str; 11] = [
    "gen", "sink", "reflect", "probe", "bench", "fault", "shaper", "fw", "rules", "layout",
    "states",
];

fn main() -> ExitCode {
    match compile_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn compile_all() -> Result<(), String> {
    let variable = |name: &str| env::var(name).map_err(|error| format!("{name}: {error}"));
    let bpf_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../../bpf");
    let out_dir = PathBuf::from(variable("OUT_DIR")?);
    println!("cargo::rerun-if-changed={}", bpf_dir.display());
    println!("cargo::rerun-if-env-changed=CLANG");

    let clang = env::var("CLANG").unwrap_or_else(|_| "clang-19".into());
    check_clang(&clang)?;
    for name in PROGRAMS {
        compile(&clang, &bpf_dir, name, &out_dir)?;
    }
    let header = bpf_dir.join("include/weir/fw/reasons.h");
    let table = reasons(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    let path = out_dir.join("reasons.rs");
    fs::write(&path, table).map_err(|error| format!("{}: {error}", path.display()))
}

/// The firewall's drop reasons as a Rust array: the lines `X(CONSTANT, "name", "text")` of their
/// header.
fn reasons(header: &Path) -> Result<String, String> {
    let text = fs::read_to_string(header).map_err(|error| error.to_string())?;
    let lines = text.lines().map(str::trim_start);
    let mut table = String::from("[\n");
    for line in lines.filter(|line| line.starts_with("X(") && line.contains('"')) {
        let [_, name, _, text, _] = line.split('"').collect::<Vec<_>>()[..] else {
            return Err(format!("this is no line of a reason: {line}"));
        };
        table += &format!("    Reason {{ name: {name:?}, text: {text:?} }},\n");
    }
    Ok(table + "]\n")
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
