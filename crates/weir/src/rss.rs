//! `weir rss`: which receive queue a flow's packets go to, and which flows go where.
//!
//! The arithmetic is in [`weir_wire::rss`]; here an interface's settings are read and answers are
//! laid out. Nothing is changed on any interface.

use std::io::Write as _;

use anyhow::Context as _;
use serde::Serialize;
use weir_wire::flow::FlowSpace;
use weir_wire::range::AddrRange;

use crate::cli::rss::RssCommand;
use crate::exit::{NO_OUTPUT, Outcome};

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

/// The flows from one range to another.
fn space(src: AddrRange, dst: AddrRange) -> anyhow::Result<FlowSpace<AddrRange>> {
    Ok(FlowSpace::new(src, dst)?)
}

/// Writes an answer, as JSON or as text.
fn answer<T: Serialize>(
    json: bool,
    answer: &T,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string_pretty(answer).context("the answer cannot be written as JSON")? + "\n"
    } else {
        text()
    };
    anstream::stdout().write_all(text.as_bytes()).context(NO_OUTPUT)
}
