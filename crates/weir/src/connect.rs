//! `weir connect`: TCP connections without sockets, their server, and the ledger of both.
//!
//! Both ends are weir-gen's and weir-bpf's; here they are configured, watched and shown.

use crate::cli::connect::{ConnectArgs, ConnectCommand};
use crate::exit::Outcome;

mod client;
mod ledger;
mod plan;
mod serve;
mod show;

/// Runs a command.
pub(crate) fn command(args: &ConnectArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        Some(ConnectCommand::Serve(args)) => serve::command(args),
        Some(ConnectCommand::Ledger(args)) => ledger::command(args),
        None => client::command(&args.client),
    }
}
