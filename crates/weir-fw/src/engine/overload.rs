//! `overload <table> [flush [global]]`: sources that met a limit of their rule go into a table, and
//! their states end.
//!
//! The data path stops such a source at once and says so in the ring of the log; what is slow is
//! done here.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use weir_bpf::firewall::Overload as Record;
use weir_bpf::firewall::sweep::Filter;
use weir_rules::evaluate::Evaluator;
use weir_rules::value::Flush;

use super::kill::filter_of_source;
use super::tables::Key;
use super::{Engine, Refused};
use crate::compile::RuleInfo;
use crate::compile::known::Overload;

/// By identifier of the rule.
pub(super) type Overloads = HashMap<u32, Overload>;

/// The rules that have it.
pub(super) fn of_rules(evaluator: &Evaluator<'_>, rules: &[RuleInfo]) -> Overloads {
    let of_rule = |info: &RuleInfo| {
        let rule = evaluator.rule(info.rule)?.rule;
        let (table, flush) = rule.options.state.as_ref()?.overload.as_ref()?;
        let action =
            Overload { anchor: info.anchor.to_string(), table: table.to_string(), flush: *flush };
        Some((info.id, action))
    };
    rules.iter().filter_map(of_rule).collect()
}

impl Engine {
    /// Puts sources into their tables; gives the states that are to end.
    ///
    /// # Errors
    ///
    /// If a table has no room; the others have theirs.
    pub(crate) fn overloaded(&mut self, list: &[Record]) -> Result<Vec<Filter>, Refused> {
        let mut filters = Vec::new();
        let mut added: BTreeMap<Key, Vec<IpAddr>> = BTreeMap::new();
        for record in list {
            let present = self.overloads.get(&record.rule).cloned();
            let found = present.or_else(|| self.known.retired_overload(record.rule));
            // The rule may have gone, and the last of its states.
            let Some(overload) = found else { continue };
            let key = (overload.anchor, overload.table);
            let key = if self.tables.all.contains_key(&key) { key } else { (String::new(), key.1) };
            added.entry(key).or_default().push(record.address);
            match overload.flush {
                Flush::No => {}
                Flush::Rule => filters.push(filter_of_source(record.address, Some(record.rule))),
                Flush::Global => filters.push(filter_of_source(record.address, None)),
            }
        }
        let mut result = Ok(());
        for (key, sources) in added {
            result = self.add_sources(&key, &sources).and(result);
        }
        result.map(|()| filters)
    }
}
