//! `overload <table> [flush [global]]`: sources that met a limit of their rule go into a table, and
//! their states end.
//!
//! The data path stops such a source at once and says so in the ring of the log; what is slow is
//! done here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use weir_bpf::firewall::Overload as Record;
use weir_bpf::firewall::sweep::Filter;
use weir_rules::value::Flush;

use super::kill::filter_of_source;
use super::tables::Key;
use super::{Engine, Refused};

impl Engine {
    /// Puts sources into their tables; gives the states that are to end.
    ///
    /// # Errors
    ///
    /// If a table has no room; the others have theirs.
    pub(crate) fn overloaded(&mut self, list: &[Record]) -> Result<Vec<Filter>, Refused> {
        let mut filters = Vec::new();
        let mut added: BTreeMap<Key, Vec<IpAddr>> = BTreeMap::new();
        for record in list.iter().filter(|record| record.leaves.is_none()) {
            // The rule may have gone, and the last of its states.
            let Some(overload) = self.known.overload(record.rule) else { continue };
            let key = (overload.anchor, overload.table);
            let key = if self.tables.all.contains_key(&key) { key } else { (String::new(), key.1) };
            added.entry(key).or_default().push(record.address);
            match overload.flush {
                Flush::No => {}
                Flush::Rule => filters.push(filter_of_source(record.address, Some(record.rule))),
                Flush::Global => filters.push(filter_of_source(record.address, None)),
            }
        }
        let mut result = self.list_sources(list);
        for (key, sources) in added {
            result = self.add_sources(&key, &sources).and(result);
        }
        result.map(|()| filters)
    }
}
