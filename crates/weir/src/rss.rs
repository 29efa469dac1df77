//! `weir rss`: which receive queue a flow's packets go to, and which flows go where.
//!
//! The arithmetic is in [`weir_wire::rss`], what is read and set of interfaces in
//! [`weir_machine::rss`]; here answers are laid out.

use serde::Serialize;

use crate::cli::rss::RssCommand;
use crate::exit::{self, Outcome};

mod balance;
mod change;
mod doctor;
mod hash;
mod key;
mod pick;
mod predict;
mod probe;
mod send;
mod settings;
mod show;

/// Runs a command.
pub(crate) fn command(command: &RssCommand) -> anyhow::Result<Outcome> {
    match command {
        RssCommand::Hash(args) => hash::command(args),
        RssCommand::Predict(args) => predict::command(args),
        RssCommand::Pick(args) => pick::command(args),
        RssCommand::Key(args) => key::command(args),
        RssCommand::Show(args) => show::command(args),
        RssCommand::Doctor(args) => doctor::command(args),
        RssCommand::Probe(args) => probe::command(args),
        RssCommand::Send(args) => send::command(args),
        RssCommand::Set(args) => change::set(args),
        RssCommand::Balance(args) => balance::command(args),
        RssCommand::Undo(args) => change::take_back(args),
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
