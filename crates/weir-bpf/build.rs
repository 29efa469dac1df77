//! Compiles the product's programs, `bpf/*.bpf.c`, into object files that the crate embeds, and
//! makes constants and tables of what their headers define.

#[path = "../../bpf/compile.rs"]
mod compile;
#[path = "build/layout.rs"]
mod layout;
#[path = "../../bpf/types.rs"]
mod types;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

const PROGRAMS: [&str; 15] = [
    "gen",
    "sink",
    "reflect",
    "probe",
    "fw",
    "rules",
    "layout",
    "states",
    "yardstick",
    "rss",
    "rerss",
    "interrupts",
    "steer",
    "echo",
    "connect",
];

const REASONS: &str = "../../bpf/include/weir/fw/reasons.h";

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            compile::report(&message);
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    compile::compile_programs(&PROGRAMS)?;
    let out = compile::directory("OUT_DIR")?;
    let object = out.join("layout.bpf.o");
    write(&out.join("layout.rs"), &layout::constants(&object)?)?;
    write(&out.join("words.rs"), &layout::words(&object)?)?;
    write(&out.join("states.rs"), &layout::states(&object)?)?;
    let header = compile::directory("CARGO_MANIFEST_DIR")?.join(REASONS);
    let table = reasons(&header).map_err(|error| format!("{}: {error}", header.display()))?;
    write(&out.join("reasons.rs"), &table)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The firewall's drop reasons as a Rust array: the lines `X(CONSTANT, "name", "text")` of their
/// header.
fn reasons(header: &Path) -> Result<String, String> {
    let text = fs::read_to_string(header).map_err(|error| error.to_string())?;
    let lines = text.lines().map(str::trim_start);
    let mut table = String::from("[\n");
    for line in lines.filter(|line| line.starts_with("X(") && line.contains('"')) {
        let [_, name, _, text, _] = line.split('"').collect::<Vec<_>>()[..] else {
            return Err(format!("not a line of a drop reason: {line}"));
        };
        table += &format!("    Reason {{ name: {name:?}, text: {text:?} }},\n");
    }
    Ok(table + "]\n")
}
