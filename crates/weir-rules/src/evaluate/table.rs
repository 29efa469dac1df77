//! Tables of addresses: the longest prefix wins, and one with `!` says that the address is not
//! in the table (pf.conf(5), TABLES; `pfr_match_addr` of pf_table.c).

use std::collections::HashMap;
use std::net::IpAddr;

use super::Ip;
use crate::ir::{Ruleset, TableEntry};
use crate::typed::{Contents, Shape};
use crate::value::{Af, Text, mask4, mask6};

/// The prefixes of one length: network and whether it is negated, sorted by network.
#[derive(Debug, Clone, Default)]
struct Level<T> {
    bits: u8,
    entries: Vec<(T, bool)>,
}

/// One table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    v4: Vec<Level<u32>>,
    v6: Vec<Level<u128>>,
}

impl Table {
    /// A table of these entries. Of two for one network the first holds.
    #[must_use]
    pub fn new<'a>(entries: impl Iterator<Item = &'a TableEntry>) -> Self {
        let mut table = Self::default();
        for entry in entries {
            match entry.address {
                IpAddr::V4(address) => {
                    let bits = entry.bits.min(32);
                    let network = u32::from(address) & mask4(bits);
                    level(&mut table.v4, bits).entries.push((network, entry.not));
                }
                IpAddr::V6(address) => {
                    let bits = entry.bits.min(128);
                    let network = u128::from(address) & mask6(bits);
                    level(&mut table.v6, bits).entries.push((network, entry.not));
                }
            }
        }
        settle(&mut table.v4);
        settle(&mut table.v6);
        table
    }

    /// Whether an address is in the table.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.holds(address.into())
    }

    pub(super) fn holds(&self, address: Ip) -> bool {
        matches!(self.longest(address), Some((_, false)))
    }

    /// Bits of the longest prefix that covers the address, and whether it is negated.
    pub(super) fn longest(&self, address: Ip) -> Option<(u8, bool)> {
        match address {
            Ip::V4(address) => find(&self.v4, |bits| address & mask4(bits)),
            Ip::V6(address) => find(&self.v6, |bits| address & mask6(bits)),
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        let v4: usize = self.v4.iter().map(|v4| v4.entries.len()).sum();
        v4 + self.v6.iter().map(|v6| v6.entries.len()).sum::<usize>()
    }

    /// Networks of a family that are in the table, longest prefixes first: what a pool gives out.
    pub(super) fn networks(&self, af: Af) -> Vec<(Ip, u8)> {
        fn list<T: Copy>(levels: &[Level<T>], wrap: impl Fn(T) -> Ip) -> Vec<(Ip, u8)> {
            let of = |level: &Level<T>| {
                let bits = level.bits;
                let kept = level.entries.iter().filter(|entry| !entry.1);
                kept.map(|entry| (wrap(entry.0), bits)).collect::<Vec<_>>()
            };
            levels.iter().flat_map(of).collect()
        }
        match af {
            Af::Inet => list(&self.v4, Ip::V4),
            Af::Inet6 => list(&self.v6, Ip::V6),
        }
    }
}

fn level<T: Default>(levels: &mut Vec<Level<T>>, bits: u8) -> &mut Level<T> {
    let at = match levels.iter().position(|level| level.bits == bits) {
        Some(at) => at,
        None => {
            levels.push(Level { bits, entries: Vec::new() });
            levels.len() - 1
        }
    };
    &mut levels[at]
}

fn put<T: PartialEq>(level: &mut Level<T>, network: T) {
    level.entries.retain(|entry| entry.0 != network);
    level.entries.push((network, false));
}

fn settle<T: Ord + Copy>(levels: &mut [Level<T>]) {
    levels.sort_by_key(|level| std::cmp::Reverse(level.bits));
    for level in levels {
        level.entries.sort_by_key(|entry| entry.0);
        level.entries.dedup_by_key(|entry| entry.0);
    }
}

fn find<T: Ord + Copy>(levels: &[Level<T>], masked: impl Fn(u8) -> T) -> Option<(u8, bool)> {
    levels.iter().find_map(|level| {
        let network = masked(level.bits);
        let at = level.entries.binary_search_by_key(&network, |entry| entry.0).ok()?;
        Some((level.bits, level.entries[at].1))
    })
}

/// All tables of a ruleset. They can be changed between packets, as pfctl and `overload` do.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    tables: Vec<Table>,
    by_name: HashMap<(Text, Text), usize>,
    typed: HashMap<Text, TypedTable>,
}

/// A typed table of the main ruleset.
#[derive(Debug, Clone)]
pub struct TypedTable {
    /// What its entries are like.
    pub shape: Shape,
    /// What it holds.
    pub contents: Contents,
}

impl Tables {
    /// The tables as the ruleset defines them. Those that it uses without a definition are empty.
    #[must_use]
    pub fn new(ruleset: &Ruleset) -> Self {
        let mut tables = Self::default();
        tables.add("", ruleset);
        tables
    }

    /// Adds the tables of a ruleset that is loaded at a path.
    pub(super) fn add(&mut self, path: &str, ruleset: &Ruleset) {
        for table in &ruleset.tables {
            if let Some(typed) = &table.typed {
                // A file of an anchor has none: that is refused.
                if !path.is_empty() {
                    continue;
                }
                let contents = Contents::new(typed.entries.iter().flatten().cloned());
                self.set_typed(&table.name, TypedTable { shape: typed.shape, contents });
                continue;
            }
            let anchor = match (path, &*table.anchor) {
                ("", anchor) => anchor.to_owned(),
                (path, "") => path.to_owned(),
                (path, anchor) => format!("{path}/{anchor}"),
            };
            self.set(&anchor, &table.name, Table::new(table.entries()));
        }
    }

    /// Puts a typed table in place of the one of that name.
    pub fn set_typed(&mut self, name: &str, table: TypedTable) {
        self.typed.insert(name.into(), table);
    }

    /// The typed table that a rule of the anchor means by a name, if it means one: a table of the
    /// anchor's own comes first.
    #[must_use]
    pub fn typed(&self, anchor: &str, name: &str) -> Option<&TypedTable> {
        let is_hidden = !anchor.is_empty() && self.is_defined(anchor, name);
        self.typed.get(name).filter(|_| !is_hidden)
    }

    /// Puts a table in place of the one of that anchor (empty for the main ruleset) and name.
    pub fn set(&mut self, anchor: &str, name: &str, table: Table) {
        let count = self.tables.len();
        let at = *self.by_name.entry((anchor.into(), name.into())).or_insert(count);
        if at == count {
            self.tables.push(table);
        } else {
            self.tables[at] = table;
        }
    }

    /// Adds an address to the table that a rule of the anchor means, as `overload` does. What the
    /// table has for this very address gives way.
    pub fn add_address(&mut self, anchor: &str, name: &str, address: IpAddr) {
        let at = self.find_or_make(anchor, name);
        let table = &mut self.tables[at];
        match Ip::from(address) {
            Ip::V4(v4) => put(level(&mut table.v4, 32), v4),
            Ip::V6(v6) => put(level(&mut table.v6, 128), v6),
        }
        settle(&mut table.v4);
        settle(&mut table.v6);
    }

    /// The table that a rule of the anchor means: the anchor's own, or else the main ruleset's.
    pub(super) fn find(&self, anchor: &str, name: &str) -> Option<usize> {
        let get = |anchor: &str| self.by_name.get(&(anchor.into(), name.into())).copied();
        get(anchor).or_else(|| get(""))
    }

    /// Whether the anchor has a table of that name.
    pub(super) fn is_defined(&self, anchor: &str, name: &str) -> bool {
        self.by_name.contains_key(&(anchor.into(), name.into()))
    }

    /// The table that a rule of the anchor means; an undefined one becomes an empty one.
    pub(super) fn find_or_make(&mut self, anchor: &str, name: &str) -> usize {
        if let Some(at) = self.find(anchor, name) {
            return at;
        }
        self.set("", name, Table::default());
        self.tables.len() - 1
    }

    pub(super) fn at(&self, at: usize) -> &Table {
        &self.tables[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> TableEntry {
        let (not, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let (address, bits) = text.split_once('/').unwrap();
        TableEntry { address: address.parse().unwrap(), bits: bits.parse().unwrap(), not }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let entries: Vec<_> = ["10.0.0.0/8", "!10.1.0.0/16", "10.1.2.3/32", "2001:db8::/32"]
            .iter()
            .map(|text| entry(text))
            .chain([entry("0.0.0.0/1"), entry("!2001:db8:1::/48")])
            .collect();
        let table = Table::new(entries.iter());
        for (address, is_in) in [
            ("10.2.0.1", true),
            ("10.1.0.1", false),
            ("10.1.2.3", true),
            ("100.1.2.3", true),
            ("192.0.2.1", false),
            ("2001:db8::1", true),
            ("2001:db8:1::1", false),
            ("::1", false),
        ] {
            assert_eq!(table.contains(address.parse().unwrap()), is_in, "{address}");
        }
        assert_eq!(table.entry_count(), 6);
        assert_eq!((mask4(0), mask4(32), mask6(0), mask6(128)), (0, u32::MAX, 0, u128::MAX));
    }
}
