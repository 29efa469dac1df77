//! What a change of a table comes to: which entries go and which come, and what pfctl says of that.
//! It changes nothing itself.

use std::collections::{BTreeMap, BTreeSet};

use super::{Entry, Network, Table};
use crate::protocol::TableAction;

/// Changes of so many entries are made in their places, one after the other, at the most.
const PIECEMEAL_COUNT_MAX: usize = 1024;

/// What changes in a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    pub(super) removed: Vec<Network>,
    pub(super) added: BTreeMap<Network, Entry>,
    /// How many of the added ones the table did not have, be it with another sign.
    pub(super) growth: usize,
    /// All of it is to happen at once.
    is_whole: bool,
}

impl Difference {
    /// Whether its entries may come and go one by one.
    pub(super) fn is_piecemeal(&self) -> bool {
        !self.is_whole && self.removed.len() + self.added.len() <= PIECEMEAL_COUNT_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Notes the entries that a table has not, or has with another sign.
    fn add(&mut self, table: &Table, entries: &[(Network, bool)], now_unix_s: i64) {
        for (network, not) in entries {
            let before = table.entries.get(network);
            if before.is_some_and(|entry| entry.not == *not) {
                continue;
            }
            let entry = Entry { not: *not, since_unix_s: now_unix_s };
            let is_new = self.added.insert(*network, entry).is_none();
            self.growth += usize::from(is_new && before.is_none());
        }
    }

    pub(super) fn apply(&self, table: &mut Table) {
        for network in &self.removed {
            table.entries.remove(network);
        }
        table.entries.extend(&self.added);
    }
}

/// What an action changes in a table, and what is said of it, in pfctl's words.
pub(super) fn difference(
    table: &Table,
    action: TableAction,
    entries: &[(Network, bool)],
    now_unix_s: i64,
) -> (Difference, String) {
    let mut found = Difference::default();
    let is_held = |network: &Network| table.entries.contains_key(network);
    let note = match action {
        TableAction::Add => {
            found.add(table, entries, now_unix_s);
            format!("{}/{} addresses added.", found.added.len(), entries.len())
        }
        TableAction::Delete => {
            let networks: BTreeSet<Network> = entries.iter().map(|entry| entry.0).collect();
            found.removed = networks.into_iter().filter(is_held).collect();
            format!("{}/{} addresses deleted.", found.removed.len(), entries.len())
        }
        TableAction::Replace => {
            found.is_whole = true;
            found.add(table, entries, now_unix_s);
            let next: BTreeSet<Network> = entries.iter().map(|entry| entry.0).collect();
            let gone = table.entries.keys().filter(|network| !next.contains(network));
            found.removed = gone.copied().collect();
            let counts = [
                (found.growth, "added"),
                (found.removed.len(), "deleted"),
                (found.added.len() - found.growth, "changed"),
            ];
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let counts: Vec<String> =
                counts.map(|(count, word)| format!("{count} addresses {word}.")).collect();
            if counts.is_empty() { "no changes.".to_owned() } else { counts.join("\n") }
        }
        TableAction::Expire { older_than_s } => {
            let limit_unix_s = now_unix_s.saturating_sub(i64::from(older_than_s));
            let old = table.entries.iter().filter(|(_, entry)| entry.since_unix_s < limit_unix_s);
            found.removed = old.map(|(network, _)| *network).collect();
            let count = found.removed.len();
            format!("{count}/{count} addresses expired.")
        }
        _ => {
            found.is_whole = true;
            found.removed = table.entries.keys().copied().collect();
            format!("{} addresses deleted.", found.removed.len())
        }
    };
    (found, note)
}
