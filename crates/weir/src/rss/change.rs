//! `weir rss set` and `weir rss undo`.

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_machine::rss::change::{Change, apply, undo};
use weir_machine::rss::open;
use weir_machine::rss::record::Records;
use weir_wire::rss::Key;
use weir_wire::rss::key::KEY_BYTES_MIN;

use super::{answer, show};
use crate::cli::rss::{KeyChoice, SetArgs, ShowArgs};
use crate::exit::Outcome;

#[derive(Debug, Serialize)]
struct Set {
    interface: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<Vec<u32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<(String, String)>,
}

pub(super) fn set(args: &SetArgs) -> anyhow::Result<Outcome> {
    ensure!(
        args.key.is_some() || args.table.is_some() || !args.fields.is_empty(),
        "nothing to set: give --key, --table or --fields"
    );
    let card = open(&args.interface)?;
    let now = card.read()?;
    let key = match &args.key {
        None => None,
        Some(KeyChoice::Given(key)) => Some(key.clone()),
        Some(KeyChoice::Random) => {
            // One that shows none takes none either, which is refused below.
            let length = if now.key.is_empty() { KEY_BYTES_MIN } else { now.key.len() };
            let buckets = now.table.len().max(1);
            let drawn = Key::random(super::key::random_seed()?, length, buckets);
            let (key, _) = drawn.with_context(|| {
                format!("interface `{}` shows a key of {length} bytes", args.interface)
            })?;
            Some(key)
        }
    };
    let table = args.table.as_ref().map(|shape| shape.of_size(now.table.len())).transpose();
    let change = Change {
        key,
        table: table.context("--table")?,
        fields: args.fields.iter().flat_map(|some| some.0.iter().copied()).collect(),
    };
    let after = apply(card.as_ref(), &change, &Records::here()?)?;
    let name = &args.interface;
    let changed = Set {
        interface: name.clone(),
        key: change.key.is_some().then(|| show::key(&after.key)),
        table: change.table.is_some().then_some(after.table),
        fields: change.fields.iter().map(|(k, f)| (k.to_string(), f.to_string())).collect(),
    };
    answer(args.json.json, &changed, || {
        format!(
            "{name} is set, and shows it; `weir rss probe {name}` tells whether it does it, `weir \
             rss undo {name}` puts back what was there\n"
        )
    })?;
    Ok(Outcome::Done)
}

#[derive(Debug, Serialize)]
struct Undone<'a> {
    interface: &'a str,
    is_undone: bool,
}

pub(super) fn take_back(args: &ShowArgs) -> anyhow::Result<Outcome> {
    let name = &args.interface;
    let former = undo(open(name)?.as_ref(), &Records::here()?)?;
    let undone = Undone { interface: name, is_undone: former.is_some() };
    answer(args.json.json, &undone, || match undone.is_undone {
        true => format!("{name} is set as it was before weir changed it\n"),
        false => format!("{name} was not changed by weir: nothing to undo\n"),
    })?;
    Ok(if undone.is_undone { Outcome::Done } else { Outcome::No })
}
