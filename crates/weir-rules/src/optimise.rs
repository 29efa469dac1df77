//! `-o basic` and `-o profile`: fewer filter rules, and in a better order, with the same verdicts.
//!
//! What pfctl(8) and pf.conf(5), "set ruleset-optimization", describe: rules in a row that do the
//! same ([`crate::fields`] says what that means) form a block. Within a block, rules that
//! another one covers go; rules that differ in one address become one rule with a table where
//! there are six addresses or more; and what is left is ordered so that the kernel can skip more
//! (`basic`), or, if the rules are `quick` and were counted, by their packets (`profile`). A rule
//! with a label, counters of its own or an anchor is a block of its own. Rules of anchors in
//! braces are optimised like the others; scrub and translation rules are left as they are.
//!
//! The numbers of rules change, and so do their counters and what `log (matches)` shows of the
//! rules on the way; what becomes of a packet does not.

mod blocks;
mod profile;
mod reorder;

use std::collections::BTreeSet;

use crate::check::index::Budget;
use crate::ir::{Prelude, Rule, Rules, Ruleset, Table};
use crate::print::{PrintOptions, Printer};
use crate::resolve::Resolver;
use crate::value::Text;

pub use profile::{Profile, ProfileError};

/// Addresses from which on a table is faster than rules of their own (pfctl's threshold).
pub(crate) const TABLE_ADDRESS_COUNT_MIN: usize = 6;

/// What generated tables' names begin with, as pfctl's.
pub const TABLE_PREFIX: &str = "__automatic_";

/// How far to go.
#[derive(Debug, Clone, Copy, Default)]
pub enum Level<'a> {
    /// Every rule as it is written.
    None,
    /// Without superfluous rules, with tables, ordered for skip steps.
    #[default]
    Basic,
    /// The same, but `quick` rules ordered by the packets that they matched before.
    Profile(&'a Profile),
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Rules that another one covered.
    pub removed_count: usize,
    /// Rules that went into a table's.
    pub combined_count: usize,
    /// Tables made.
    pub table_count: usize,
    /// Rules that stand elsewhere in their block than before.
    pub moved_count: usize,
}

/// Optimises the filter rules of the main ruleset and of anchors in braces. Tables that are made
/// go to the main ruleset, where anchors find them, and are printed last before the rules. Their
/// names are `__automatic_` and a number, as `pfctl -n` gives them; pfctl puts a random number
/// between when it loads a ruleset. `resolver` is for the names by which a profile knows the rules.
pub fn optimise(ruleset: &mut Ruleset, level: Level<'_>, resolver: &dyn Resolver) -> Summary {
    let mut work = Work {
        level,
        reassembles: ruleset.settings.reassemble,
        printer: Printer { dialect: ruleset.dialect, resolver, options: PrintOptions::default() },
        names: ruleset.tables.iter().map(|table| table.name.clone()).collect(),
        next_table: 0,
        tables: Vec::new(),
        budget: Budget::default(),
        summary: Summary::default(),
    };
    if matches!(level, Level::None) {
        return work.summary;
    }
    let mut main = std::mem::take(&mut ruleset.main);
    work.rules(&mut main);
    ruleset.main = main;
    for table in work.tables {
        ruleset.prelude.push(Prelude::Table(ruleset.tables.len()));
        ruleset.tables.push(table);
    }
    work.summary
}

/// Whether the optimiser would look at any rules together: two or more in a row that do the same.
/// (pfctl wants its tables loaded then.)
#[must_use]
pub fn has_work(ruleset: &Ruleset) -> bool {
    let mut open = vec![&ruleset.main];
    while let Some(rules) = open.pop() {
        if blocks::blocks(rules.filter.clone()).iter().any(|block| block.len() > 1) {
            return true;
        }
        let anchors = rules.filter.iter().filter_map(|rule| rule.anchor.as_ref());
        open.extend(anchors.filter_map(|anchor| anchor.body.as_deref()));
    }
    false
}

/// The state of one run.
struct Work<'a> {
    level: Level<'a>,
    reassembles: bool,
    printer: Printer<'a>,
    /// Names of tables that are taken.
    names: BTreeSet<Text>,
    next_table: usize,
    tables: Vec<Table>,
    budget: Budget,
    summary: Summary,
}

impl Work<'_> {
    fn rules(&mut self, rules: &mut Rules) {
        let Rules { ether: _, scrub: _, nat: _, rdr: _, binat: _, filter } = rules;
        let old = std::mem::take(filter);
        for mut block in blocks::blocks(old) {
            for rule in &mut block {
                let body = rule.anchor.as_mut().and_then(|anchor| anchor.body.as_mut());
                if let Some(body) = body {
                    self.rules(body);
                }
            }
            if block.len() > 1 {
                block = self.block(block);
            }
            filter.append(&mut block);
        }
    }

    /// One block of rules that do the same.
    fn block(&mut self, mut block: Vec<Rule>) -> Vec<Rule> {
        let before = block.len();
        blocks::remove_covered(&mut block, self.reassembles, &mut self.budget);
        self.summary.removed_count += before - block.len();
        let mut block = self.combine(block);
        let counted = match self.level {
            Level::Profile(profile) if block.iter().all(|rule| rule.quick) => {
                profile.order(&mut block, self.printer)
            }
            _ => None,
        };
        let (block, moved) = match counted {
            Some(moved) => (block, moved),
            None => reorder::reorder(block),
        };
        self.summary.moved_count += moved;
        block
    }

    /// A name that no table has. Numbers are used up also by groups that are too small for a
    /// table, as pfctl does.
    fn table_name(&mut self, number: usize) -> Text {
        let mut name: Text = format!("{TABLE_PREFIX}{number}").into();
        let mut tries = 0;
        while !self.names.insert(name.clone()) {
            tries += 1;
            name = format!("{TABLE_PREFIX}{number}_{tries}").into();
        }
        name
    }
}
