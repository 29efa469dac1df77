//! `weir http`: HTTP over the kernel's sockets. Workers are weir-load's; here they are configured,
//! watched and shown.

use std::ffi::{OsStr, OsString};

use anyhow::{Context as _, bail};
use weir_load::crew::Program;
use weir_load::{client as load_client, server};

use crate::cli::http::{HttpArgs, HttpCommand};
use crate::exit::Outcome;

mod client;
mod plan;
mod pools;
mod serve;
mod show;
mod source;

/// The first word of a command line that makes a process a worker. People have no use for it, so
/// that help, manual pages and completions do not have it.
const WORKER: &str = "http-worker";
/// What a worker of the server has behind it.
const SERVE: &str = "serve";
/// The same of the client.
const CLIENT: &str = "client";

/// Runs a command.
pub(crate) fn command(args: &HttpArgs) -> anyhow::Result<Outcome> {
    match &args.command {
        Some(HttpCommand::Serve(args)) => serve::command(args),
        None => client::command(&args.client),
    }
}

/// Whether a word begins the command line of a worker.
pub(crate) fn begins_worker(word: &OsStr) -> bool {
    word == WORKER
}

/// Is a worker: of what, the next word says.
pub(crate) fn work(mut words: impl Iterator<Item = OsString>) -> anyhow::Result<Outcome> {
    let role = words.next().unwrap_or_default();
    match role.to_str() {
        Some(SERVE) => {
            server::work().context("this worker of weir http serve, which only it can start")?;
        }
        Some(CLIENT) => {
            load_client::worker::run().context("this worker of weir http")?;
        }
        _ => bail!("{WORKER} is what weir starts for itself"),
    }
    Ok(Outcome::Done)
}

/// This program as a worker.
fn program(role: &str) -> anyhow::Result<Program> {
    let path = std::env::current_exe().context("cannot find this program's file")?;
    Ok(Program { path, arguments: [WORKER, role].map(str::to_owned).into() })
}
