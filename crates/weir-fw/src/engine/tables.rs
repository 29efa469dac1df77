//! The tables' contents. This process has the authority: the data path reads what was written for
//! it, and never changes a table.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_bpf::firewall::{CountedKey, Counts};
use weir_rules::evaluate::{Evaluator, LoadedAnchor};
use weir_rules::ir::{Address, Rule, Ruleset, TableEntry};
use weir_rules::value::Text;

use super::source::loaded_anchors;
use super::{Engine, Refused, clock};
use crate::compile::{CountedTables, TableName, spread, translation};
use crate::install::Contents;
use crate::protocol::TableAction;
use crate::show::tables as shown;

mod difference;

use difference::{Difference, difference};

/// pf's words for a table that is not there.
const NO_TABLE: &str = "Table does not exist.";
/// pfctl's exit code of addresses that `-T test` did not find.
const NOT_FOUND: u8 = 2;

/// Network and prefix length.
type Network = (IpAddr, u8);

/// A table: anchor (empty for the main ruleset) and name.
pub(crate) type Key = (String, String);

/// What is said of tables that have grown beyond their limit.
pub(super) fn too_many_entries(count: usize, limit: usize) -> String {
    format!("{count} entries of tables are more than `set limit table-entries {limit}` allows")
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Table {
    pub(super) is_const: bool,
    pub(super) is_persist: bool,
    /// The number by which the data path counts for its entries, if it has `counters`.
    pub(super) counters: Option<u32>,
    pub(super) entries: BTreeMap<Network, Entry>,
}

/// What a table knows of a network in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) not: bool,
    /// When it was added, or cleared (`-T zero`): Unix time. A restarted daemon says its start.
    pub(super) since_unix_s: i64,
}

/// All tables.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) all: BTreeMap<Key, Table>,
}

/// A table as the document has it. What the data path's memory holds is read back from there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KeptTable {
    pub(super) anchor: String,
    pub(super) name: String,
    pub(super) is_const: bool,
    pub(super) is_persist: bool,
    #[serde(default)]
    pub(super) counters: Option<u32>,
    /// Its place in the directory of the active image.
    pub(super) index: Option<usize>,
    /// The entries of one that is not there.
    pub(super) entries: Vec<(IpAddr, u8, bool)>,
}

impl Tables {
    /// The tables once a ruleset is loaded at a path: those that it defines with contents have
    /// these, all others keep what they have. Tables of the optimiser are made anew.
    fn with(&self, path: &str, ruleset: &Ruleset) -> Self {
        let mut next = self.clone();
        let prefix = weir_rules::optimise::TABLE_PREFIX;
        next.all.retain(|(anchor, name), _| anchor != path || !name.starts_with(prefix));
        // What neither persists nor is defined again goes when no rule names it: see `drop_unused`.
        for declared in ruleset.tables.iter().filter(|table| table.typed.is_none()) {
            let anchor = joined(path, &declared.anchor);
            let free = next.all.values().filter_map(|table| table.counters).max().unwrap_or(0) + 1;
            let table = next.all.entry((anchor, declared.name.to_string())).or_default();
            (table.is_const, table.is_persist) = (declared.is_const, declared.is_persist);
            table.counters = declared.has_counters.then(|| table.counters.unwrap_or(free));
            if !declared.sources.is_empty() {
                table.put(declared.entries().map(entry), clock::unix_s());
            }
        }
        next
    }

    /// [`Self::with`] a ruleset and the files that it loads into anchors.
    pub(super) fn with_all(&self, path: &str, ruleset: &Ruleset, anchors: &[LoadedAnchor]) -> Self {
        anchors.iter().fold(self.with(path, ruleset), |tables, anchor| {
            tables.with(anchor.path.trim_matches('/'), &anchor.ruleset)
        })
    }

    /// Leaves out tables that do not persist and that no rule names.
    pub(super) fn drop_unused(&mut self, directory: &[TableName]) {
        self.all.retain(|key, table| table.is_persist || place(directory, key).is_some());
        for entry in directory {
            if let TableName::Named(anchor, name) = entry {
                self.all.entry((anchor.to_string(), name.to_string())).or_default();
            }
        }
    }

    /// What a table holds; nothing if there is none.
    pub(super) fn entries(&self, anchor: &str, name: &str) -> Vec<TableEntry> {
        let table = self.all.get(&(anchor.to_owned(), name.to_owned()));
        table.map(Table::list).unwrap_or_default()
    }

    /// What the data path is to hold.
    pub(super) fn contents(&self) -> Contents {
        let kept = |(key, table): (&Key, &Table)| {
            let (anchor, name): (Text, Text) = (key.0.as_str().into(), key.1.as_str().into());
            ((anchor, name), table.list())
        };
        self.all.iter().map(kept).collect()
    }

    pub(super) fn kept(&self, directory: &[TableName]) -> Vec<KeptTable> {
        let held = |(key, table): (&Key, &Table)| {
            let index = place(directory, key);
            let entries = table.entries.iter().filter(|_| index.is_none());
            KeptTable {
                anchor: key.0.clone(),
                name: key.1.clone(),
                is_const: table.is_const,
                is_persist: table.is_persist,
                counters: table.counters,
                index,
                entries: entries
                    .map(|((address, bits), entry)| (*address, *bits, entry.not))
                    .collect(),
            }
        };
        self.all.iter().map(held).collect()
    }

    /// From a document; `read` gives the entries of a table of the active image.
    pub(super) fn adopt(kept: Vec<KeptTable>, read: impl Fn(usize) -> Vec<TableEntry>) -> Self {
        let restored = |kept: KeptTable| {
            let KeptTable { is_const, is_persist, counters, .. } = kept;
            let mut table = Table { is_const, is_persist, counters, ..Table::default() };
            let now_unix_s = clock::unix_s();
            match kept.index {
                Some(index) => table.put(read(index).iter().map(entry), now_unix_s),
                None => {
                    let entries = kept.entries.iter();
                    table.put(
                        entries.map(|(address, bits, not)| ((*address, *bits), *not)),
                        now_unix_s,
                    );
                }
            }
            ((kept.anchor, kept.name), table)
        };
        Self { all: kept.into_iter().map(restored).collect() }
    }

    /// The numbers of those with `counters`.
    pub(super) fn counted(&self) -> CountedTables {
        let number = |(key, table): (&Key, &Table)| {
            Some(((key.0.as_str().into(), key.1.as_str().into()), table.counters?))
        };
        self.all.iter().filter_map(number).collect()
    }

    /// Whether any has `counters`.
    pub(super) fn have_counters(&self) -> bool {
        self.all.values().any(|table| table.counters.is_some())
    }

    /// All entries of all tables, for `set limit table-entries`.
    pub(super) fn entry_count(&self) -> usize {
        self.all.values().map(|table| table.entries.len()).sum()
    }
}

impl Table {
    fn list(&self) -> Vec<TableEntry> {
        list(&self.entries)
    }

    /// Other contents. What was there already is as old as it was.
    fn put(&mut self, entries: impl Iterator<Item = (Network, bool)>, now_unix_s: i64) {
        let old = std::mem::take(&mut self.entries);
        let fresh = |(network, not): (Network, bool)| {
            let since = old.get(&network).filter(|entry| entry.not == not);
            let since_unix_s = since.map_or(now_unix_s, |entry| entry.since_unix_s);
            (network, Entry { not, since_unix_s })
        };
        self.entries = entries.map(fresh).collect();
    }

    /// Whether an address is in the table: by its longest network, if that is not negated. A
    /// network is in it if it is an entry.
    fn holds(&self, (address, bits): Network) -> bool {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        if bits < bits_max {
            return self.entries.get(&(address, bits)).is_some_and(|entry| !entry.not);
        }
        let found = (0..=bits_max).rev().find_map(|bits| self.entries.get(&masked(address, bits)));
        found.is_some_and(|entry| !entry.not)
    }
}

/// Entries as the data path gets them.
fn list(entries: &BTreeMap<Network, Entry>) -> Vec<TableEntry> {
    let entry = |((address, bits), entry): (&Network, &Entry)| TableEntry {
        address: *address,
        bits: *bits,
        not: entry.not,
    };
    entries.iter().map(entry).collect()
}

fn entry(entry: &TableEntry) -> (Network, bool) {
    (masked(entry.address, entry.bits), entry.not)
}

fn joined(path: &str, anchor: &str) -> String {
    match (path, anchor) {
        ("", anchor) => anchor.to_owned(),
        (path, "") => path.to_owned(),
        (path, anchor) => format!("{path}/{anchor}"),
    }
}

/// A network without host bits.
fn masked(address: IpAddr, bits: u8) -> Network {
    let prefix = weir_net::Prefix::new(address, bits);
    (prefix.map_or(address, |prefix| prefix.network().address()), bits)
}

/// The place of a table in the directory of an image.
fn place(directory: &[TableName], key: &Key) -> Option<usize> {
    directory.iter().position(|table| match table {
        TableName::Named(anchor, name) => **anchor == *key.0 && **name == *key.1,
        TableName::Dynamic(_) | TableName::Held(..) | TableName::Typed(_) => false,
    })
}

/// Reads `[!]ADDRESS[/BITS]`.
fn parse(text: &str) -> Result<(Network, bool), Refused> {
    let (not, rest) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
    let bad = || Refused(format!("`{text}` is not an address or network"));
    let (address, bits) = rest.split_once('/').unwrap_or((rest, ""));
    let address: IpAddr = address.parse().map_err(|_| bad())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = if bits.is_empty() { bits_max } else { bits.parse().map_err(|_| bad())? };
    if bits > bits_max {
        return Err(bad());
    }
    Ok((masked(address, bits), not))
}

/// What is said of a change, and the exit code.
pub(crate) struct TableAnswer {
    pub(crate) text: String,
    pub(crate) note: String,
    pub(crate) exit_code: u8,
}

impl TableAnswer {
    fn note(note: String) -> Self {
        Self { text: String::new(), note, exit_code: 0 }
    }
}

impl Engine {
    /// `pfctl -t TABLE -T ACTION`.
    pub(crate) fn table(
        &mut self,
        key: &Key,
        action: TableAction,
        words: &[String],
        verbosity: u8,
    ) -> Result<TableAnswer, Refused> {
        let entries = words.iter().map(|word| parse(word)).collect::<Result<Vec<_>, _>>()?;
        if self.is_typed(key) {
            return Err(Refused(format!(
                "<{}> is a typed table, which `weir fw table` shows and changes",
                key.1
            )));
        }
        let is_made = !self.tables.all.contains_key(key);
        if is_made && !matches!(action, TableAction::Add | TableAction::Replace) {
            return Err(Refused::because(NO_TABLE));
        }
        match action {
            TableAction::Show => return self.show_table(key, verbosity),
            TableAction::Test => return Ok(self.test_table(key, &entries, verbosity)),
            TableAction::Kill => return self.kill_table(key),
            TableAction::Zero => return self.zero_table(key, &entries),
            _ => {}
        }
        let fresh = Table { is_persist: true, ..Table::default() };
        let table = self.tables.all.get(key).unwrap_or(&fresh);
        if table.is_const {
            return Err(Refused(format!("table <{}> is const: it cannot be changed", key.1)));
        }
        let (difference, mut note) = difference(table, action, &entries, clock::unix_s());
        self.change_table(key, fresh, &difference)?;
        if is_made {
            note = format!("1 table created.\n{note}");
        }
        Ok(TableAnswer::note(note))
    }

    /// Adds addresses, as `overload` does.
    pub(super) fn add_sources(&mut self, key: &Key, sources: &[IpAddr]) -> Result<(), Refused> {
        let whole = |source: &IpAddr| (*source, if source.is_ipv4() { 32 } else { 128 });
        let networks: Vec<_> = sources.iter().map(whole).collect();
        self.change_sources(key, TableAction::Add, &networks)
    }

    /// Adds networks to a table, or deletes them, as source limiters do.
    pub(super) fn change_sources(
        &mut self,
        key: &Key,
        action: TableAction,
        networks: &[Network],
    ) -> Result<(), Refused> {
        let entries: Vec<_> = networks.iter().map(|network| (*network, false)).collect();
        let fresh = Table::default();
        let table = self.tables.all.get(key).unwrap_or(&fresh);
        let (difference, _) = difference(table, action, &entries, clock::unix_s());
        self.change_table(key, fresh, &difference)
    }

    /// Changes a table, in its place where that can be. One that is not there is made of `fresh`.
    fn change_table(
        &mut self,
        key: &Key,
        fresh: Table,
        difference: &Difference,
    ) -> Result<(), Refused> {
        let before = match self.tables.all.get(key) {
            Some(_) if difference.is_empty() => return Ok(()),
            found => found.map_or(0, |table| table.entries.len()),
        };
        self.check_entries(before, before + difference.growth - difference.removed.len())?;
        if let Some(index) = place(&self.directory, key)
            && difference.is_piecemeal()
            && !self.is_of_pool(key)
            && self.installer()?.change_table(index, &difference.removed, &list(&difference.added))
        {
            let table = self.tables.all.entry(key.clone()).or_insert(fresh);
            difference.apply(table);
            let has_lost = table.counters.is_some() && !difference.removed.is_empty();
            return self.forget_gone(has_lost);
        }
        let mut table = self.tables.all.get(key).cloned().unwrap_or(fresh);
        difference.apply(&mut table);
        self.put_table(key, table)
    }

    /// `set limit table-entries`, for a table that is to have more entries than it has.
    fn check_entries(&self, before: usize, after: usize) -> Result<(), Refused> {
        let limit = usize::try_from(self.main.limit("table-entries")).unwrap_or(usize::MAX);
        let count = self.tables.entry_count() - before + after;
        if count > limit && after > before {
            return Err(Refused(too_many_entries(count, limit)));
        }
        Ok(())
    }

    /// Puts a table in the place of what is there.
    fn put_table(&mut self, key: &Key, table: Table) -> Result<(), Refused> {
        if self.is_of_pool(key) {
            let mut tables = self.tables.clone();
            tables.all.insert(key.clone(), table);
            return self.install_with(tables);
        }
        let is_in_image = match place(&self.directory, key) {
            Some(index) => {
                let (installer, list) = (self.installer()?, table.list());
                let replaced = installer.replace_table(index, &list, clock::boot_ns());
                replaced.map_err(Refused::because)?;
                true
            }
            None => false,
        };
        let before = self.tables.all.insert(key.clone(), table);
        self.forget_gone(before.is_some_and(|table| table.counters.is_some()))?;
        if is_in_image { Ok(()) } else { self.write_document() }
    }

    /// Whether a table's addresses are in the image, as those of a pool.
    pub(super) fn is_of_pool(&self, key: &Key) -> bool {
        let (anchor, name) = (key.0.as_str(), key.1.as_str());
        let files = std::iter::once(&self.main).chain(&self.anchors);
        let loaded = files.clone().flat_map(|source| &source.anchors).map(|found| &found.ruleset);
        let mut rulesets = files.map(|source| &source.ruleset).chain(loaded);
        let takes =
            |ruleset| translation::takes_from(ruleset, name) || spread::takes_from(ruleset, name);
        if !rulesets.any(takes) {
            return false;
        }
        let anchors = loaded_anchors(&self.main, &self.anchors);
        // What runs has been evaluated before.
        Evaluator::new(&self.main.ruleset, &anchors, &self.facts).is_ok_and(|evaluator| {
            let key = (anchor.into(), name.into());
            translation::pool_tables(&evaluator).contains(&key)
                || spread::pool_tables(&evaluator).contains(&key)
        })
    }

    /// What was counted of the entries of the table with a number.
    fn counted(&self, number: u32) -> Result<HashMap<Network, Counts>, Refused> {
        let found = self.firewall.counted(number).map_err(Refused::because)?;
        Ok(found.into_iter().map(|(key, counts)| ((key.address, key.bits), counts)).collect())
    }

    /// Forgets what was counted of entries that no table has any more; `had_counters`: a table that
    /// has changed had some.
    pub(super) fn forget_gone<'a>(&'a self, had_counters: bool) -> Result<(), Refused> {
        if !had_counters {
            return Ok(());
        }
        let counted = |table: &'a Table| Some((table.counters?, table));
        let tables: HashMap<u32, &Table> = self.tables.all.values().filter_map(counted).collect();
        let is_over = |key: &CountedKey| {
            let table = tables.get(&key.table);
            !table.is_some_and(|table| table.entries.contains_key(&(key.address, key.bits)))
        };
        self.firewall.forget_counted(is_over).map_err(Refused::because)
    }

    fn show_table(&self, key: &Key, verbosity: u8) -> Result<TableAnswer, Refused> {
        let counters = self.tables.all.get(key).and_then(|table| table.counters);
        let counted = counters.filter(|_| verbosity > 0).map(|number| self.counted(number));
        let counted = counted.transpose()?;
        let mut text = String::new();
        for ((address, bits), entry) in
            self.tables.all.get(key).iter().flat_map(|table| &table.entries)
        {
            shown::put_entry(&mut text, *address, *bits, entry.not);
            if verbosity > 0 {
                shown::put_cleared(&mut text, entry.since_unix_s);
            }
            if let Some(counted) = &counted {
                let counts = counted.get(&(*address, *bits)).copied().unwrap_or_default();
                shown::put_counts(&mut text, &counts);
            }
        }
        Ok(TableAnswer { text, note: String::new(), exit_code: 0 })
    }

    /// What is cleared is the age of entries, and what was counted of them.
    fn zero_table(
        &mut self,
        key: &Key,
        entries: &[(Network, bool)],
    ) -> Result<TableAnswer, Refused> {
        if let Some(number) = self.tables.all.get(key).and_then(|table| table.counters) {
            let is_named = |found: &Network| {
                entries.is_empty() || entries.iter().any(|(network, _)| network == found)
            };
            let is_over =
                |key: &CountedKey| key.table == number && is_named(&(key.address, key.bits));
            self.firewall.forget_counted(is_over).map_err(Refused::because)?;
        }
        let Some(table) = self.tables.all.get_mut(key) else {
            return Ok(TableAnswer::note(String::new()));
        };
        let now_unix_s = clock::unix_s();
        if entries.is_empty() {
            table.entries.values_mut().for_each(|entry| entry.since_unix_s = now_unix_s);
            return Ok(TableAnswer::note("1 table/stats cleared.".to_owned()));
        }
        let mut count = 0;
        for (network, _) in entries {
            if let Some(entry) = table.entries.get_mut(network) {
                entry.since_unix_s = now_unix_s;
                count += 1;
            }
        }
        Ok(TableAnswer::note(format!("{count}/{} addresses cleared.", entries.len())))
    }

    fn test_table(&self, key: &Key, entries: &[(Network, bool)], verbosity: u8) -> TableAnswer {
        let Some(table) = self.tables.all.get(key) else { return TableAnswer::note(String::new()) };
        let (mut text, mut found) = (String::new(), 0);
        for ((address, bits), not) in entries {
            if table.holds((*address, *bits)) {
                found += 1;
                if verbosity > 0 {
                    shown::put_entry(&mut text, *address, *bits, *not);
                }
            }
        }
        let note = format!("{found}/{} addresses match.", entries.len());
        TableAnswer { text, note, exit_code: if found < entries.len() { NOT_FOUND } else { 0 } }
    }

    fn kill_table(&mut self, key: &Key) -> Result<TableAnswer, Refused> {
        match place(&self.directory, key) {
            // A rule names it: as pf, it is emptied and goes with the rule.
            Some(_) => {
                let before = self.tables.all.get(key).cloned().unwrap_or_default();
                let table = Table { is_persist: false, entries: BTreeMap::new(), ..before };
                self.put_table(key, table)?;
            }
            None => {
                let before = self.tables.all.remove(key);
                self.forget_gone(before.is_some_and(|table| table.counters.is_some()))?;
                self.write_document()?;
            }
        }
        Ok(TableAnswer::note("1 table deleted.".to_owned()))
    }

    /// `pfctl -F Tables`: those of an anchor.
    pub(crate) fn flush_tables(&mut self, anchor: &str) -> Result<String, Refused> {
        let of_anchor = self.tables.all.keys().filter(|(path, _)| path == anchor);
        let keys: Vec<Key> = of_anchor.cloned().collect();
        for key in &keys {
            self.kill_table(key)?;
        }
        Ok(format!("{} tables deleted.", keys.len()))
    }

    /// `pfctl -s Tables`.
    pub(super) fn show_tables(&self, anchor: &str, verbosity: u8) -> String {
        let mut out = String::new();
        for ((path, name), table) in
            self.tables.all.iter().filter(|((theirs, _), _)| theirs == anchor)
        {
            let rule_count = self.table_rule_count(path, name);
            let line = shown::Table {
                name: name.clone(),
                anchor: path.clone(),
                is_const: table.is_const,
                is_persist: table.is_persist,
                has_counters: table.counters.is_some(),
                is_referenced: place(&self.directory, &(path.clone(), name.clone())).is_some(),
                rule_count,
                entry_count: table.entries.len(),
            };
            shown::put(&mut out, &line, verbosity);
        }
        out
    }

    /// How many rules of the main ruleset, or of the anchor itself, name a table.
    fn table_rule_count(&self, path: &str, name: &str) -> u32 {
        let source = self.anchors.iter().find(|source| source.load.anchor == path);
        let source = source.unwrap_or(&self.main);
        let names = |rule: &&Rule| {
            [&rule.from.address, &rule.to.address]
                .iter()
                .any(|used| matches!(used, Address::Table(used) if **used == *name))
        };
        let count = source.ruleset.main.filter.iter().filter(names).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: &[&str]) -> Table {
        let mut table = Table::default();
        table.put(words.iter().map(|word| parse(word).unwrap()), 1000);
        table
    }

    fn changed(
        table: &mut Table,
        action: TableAction,
        entries: &[(Network, bool)],
        now_unix_s: i64,
    ) -> String {
        let before = table.entries.len();
        let (difference, note) = difference(table, action, entries, now_unix_s);
        difference.apply(table);
        let removed_count = difference.removed.len();
        assert_eq!(table.entries.len(), before + difference.growth - removed_count);
        note
    }

    #[test]
    fn the_longest_network_decides() {
        let table = table(&["10.0.0.0/8", "!10.1.0.0/16", "10.1.2.3", "2001:db8::/32"]);
        let holds = |word: &str| table.holds(parse(word).unwrap().0);
        assert!(holds("10.2.0.1") && holds("10.1.2.3") && holds("2001:db8::1"));
        assert!(!holds("10.1.0.1") && !holds("11.0.0.1") && !holds("10.2.0.0/16"));
        assert!(holds("10.0.0.0/8"));
    }

    #[test]
    fn changes_are_told_in_pfctls_words() {
        let mut table = table(&["10.0.0.1"]);
        let list = |words: &[&str]| -> Vec<(Network, bool)> {
            words.iter().map(|word| parse(word).unwrap()).collect()
        };
        let mut answer = |action, words: &[&str]| changed(&mut table, action, &list(words), 1000);
        assert_eq!(answer(TableAction::Add, &["10.0.0.1", "10.0.0.2"]), "1/2 addresses added.");
        assert_eq!(answer(TableAction::Delete, &["10.0.0.3"]), "0/1 addresses deleted.");
        let replaced = answer(TableAction::Replace, &["!10.0.0.1", "10.0.0.9"]);
        assert_eq!(replaced, "1 addresses added.\n1 addresses deleted.\n1 addresses changed.");
        assert_eq!(answer(TableAction::Replace, &["!10.0.0.1", "10.0.0.9"]), "no changes.");
        assert_eq!(answer(TableAction::Flush, &[]), "2 addresses deleted.");
    }

    #[test]
    fn what_is_older_expires() {
        let mut table = table(&["10.0.0.1", "10.0.0.2"]);
        let list = [parse("10.0.0.2").unwrap(), parse("10.0.0.3").unwrap()];
        // What stays is as old as it was.
        assert_eq!(changed(&mut table, TableAction::Add, &list, 1060), "1/2 addresses added.");
        let expire = TableAction::Expire { older_than_s: 60 };
        assert_eq!(changed(&mut table, expire, &[], 1060), "0/0 addresses expired.");
        assert_eq!(changed(&mut table, expire, &[], 1061), "2/2 addresses expired.");
        assert_eq!(table.entries.keys().copied().collect::<Vec<_>>(), [list[1].0]);
    }

    #[test]
    fn entries_are_networks() {
        assert_eq!(parse("10.1.2.3/8").unwrap(), (("10.0.0.0".parse().unwrap(), 8), false));
        for bad in ["10.0.0.1/33", "x", "", "10.0.0.1/", "!"] {
            let is_whole = bad == "10.0.0.1/";
            assert_eq!(parse(bad).is_ok(), is_whole, "{bad}");
        }
    }
}
