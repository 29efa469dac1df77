//! Compiles the programs that only tests and benchmarks load, and makes constants of what their
//! headers define.

#[path = "../../bpf/compile.rs"]
mod compile;
#[path = "../../bpf/types.rs"]
mod types;

use std::fs;
use std::process::ExitCode;

use types::{Types, WORDS};

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
    compile::compile_programs(&["bench", "fault", "shaper", "layout"])?;
    let out = compile::directory("OUT_DIR")?;
    let mut types = Types::open(&out.join("layout.bpf.o"), "pub(crate)")?;
    types.structure("weir_fault", "fault", &WORDS)?;
    types.structure("weir_fault_counters", "fault_counters", &WORDS)?;
    types.structure("weir_bucket", "bucket", &WORDS)?;
    types.enumeration("weir_fault_action", "action", "WEIR_FAULT_", "u64")?;
    types.values("weir_held_constant", &["WEIR_"], "u64")?;
    let path = out.join("types.rs");
    fs::write(&path, types.text).map_err(|error| format!("{}: {error}", path.display()))
}
