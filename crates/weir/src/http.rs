//! `weir http`: HTTP over the kernel's sockets. Workers are weir-load's; here they are configured,
//! watched and shown.

use std::ffi::{OsStr, OsString};

use anyhow::{Context as _, bail};
use weir_load::crew::{Role, WORKER};
use weir_load::{client as load_client, server};

use crate::cli::http::{HttpArgs, HttpCommand};
use crate::exit::Outcome;

mod buckets;
mod client;
mod plan;
mod pools;
mod serve;
mod show;
mod source;
mod url;

/// Why no worker can be started.
const NO_PROGRAM: &str = "cannot find this program's file";

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
    match role.to_str().and_then(Role::of) {
        Some(Role::Server) => {
            server::work().context("this worker of weir http serve, which only it can start")?;
        }
        Some(Role::Client) => {
            load_client::worker::run().context("this worker of weir http")?;
        }
        None => bail!("{WORKER} is what weir starts for itself"),
    }
    Ok(Outcome::Done)
}
