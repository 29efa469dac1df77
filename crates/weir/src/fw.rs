//! `weir fw`: the pf.conf language at the command line.
//!
//! `weir-rules` reads, checks and prints, `weir-fw` runs; here are the machine's facts, the files,
//! the drawings and the exit codes.

use crate::cli::fw::FwCommand;
use crate::exit::{self, Outcome, put};

mod check;
mod convert;
mod explain;
pub(crate) mod files;
mod json;
pub(crate) mod load;
mod lsp;
pub(crate) mod machine;
pub(crate) mod names;
pub(crate) mod optimise;
mod print;
pub(crate) mod remote;
mod run;
pub(crate) mod show;
mod status;
mod sync;
mod table;

/// Runs one of the commands.
pub(crate) fn command(command: FwCommand) -> anyhow::Result<Outcome> {
    match command {
        FwCommand::Check(args) => check::command(&args),
        FwCommand::Print(args) => print::command(&args),
        FwCommand::Convert(args) => convert::command(&args),
        FwCommand::Explain(args) => explain::command(&args),
        FwCommand::Lsp(args) => lsp::command(&args),
        FwCommand::Run(args) => run::command(&args),
        FwCommand::Status(flag) => status::status(flag.json),
        FwCommand::Stats(args) => status::stats(args),
        FwCommand::Table(args) => table::command(args),
        FwCommand::Sync(args) => sync::command(&args.command),
        FwCommand::Stop(flag) => status::stop(flag.json),
    }
}

/// Writes a result as JSON to standard output.
fn put_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    put(&exit::json(value)?)
}
