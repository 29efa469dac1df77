//! `weir echo`: a server that returns datagrams, and a client that counts them.
//!
//! Both are weir-gen's; here they are configured, and what they count is laid out.

use std::collections::BTreeSet;

use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table};

use crate::cli::echo::{EchoCommand, SpreadArgs};
use crate::exit::Outcome;

mod ask;
mod client;
mod flows;
mod interval;
mod machines;
mod serve;
mod show;
mod totals;

/// Runs a command.
pub(crate) fn command(command: &EchoCommand) -> anyhow::Result<Outcome> {
    match command {
        EchoCommand::Serve(args) => serve::command(args),
        EchoCommand::Client(args) => client::command(args),
        EchoCommand::Ask(args) => ask::command(args),
    }
}

/// What is written of how packets are spread, if a table is.
fn written(args: &SpreadArgs) -> Option<Settings> {
    args.table.clone().map(|table| settings(table, args.key.clone(), args.fields))
}

pub(crate) fn settings(table: Table, key: Option<Key>, fields: Option<Fields>) -> Settings {
    Settings {
        key: key.unwrap_or_else(Key::microsoft),
        table,
        symmetry: Symmetry::None,
        fields: [fields.unwrap_or(Fields::FourTuple); 4],
    }
}

/// CPUs in turn, each once.
fn in_turn(cpus: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    cpus.into_iter().filter(|cpu| seen.insert(*cpu)).collect()
}
