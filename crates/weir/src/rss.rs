//! `weir rss`: which receive queue a flow's packets go to, and which flows go where.
//!
//! The arithmetic is in [`weir_wire::rss`]; here an interface's settings are read and answers are
//! laid out. Nothing is changed on any interface.

use serde::Serialize;

use crate::cli::rss::RssCommand;
use crate::exit::{self, Outcome};

mod hash;
mod key;
mod pick;
mod predict;
mod settings;

/// Runs a command.
pub(crate) fn command(command: &RssCommand) -> anyhow::Result<Outcome> {
    match command {
        RssCommand::Hash(args) => hash::command(args),
        RssCommand::Predict(args) => predict::command(args),
        RssCommand::Pick(args) => pick::command(args),
        RssCommand::Key(args) => key::command(args),
    }
}

/// Writes an answer, as JSON or as text.
fn answer<T: Serialize>(
    json: bool,
    answer: &T,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    exit::put(&if json { exit::json(answer)? } else { text() })
}
