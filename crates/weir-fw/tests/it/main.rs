//! The data path on a real kernel: what it does with frames, whether it agrees with the reference,
//! and whether its rules alone do.

#![forbid(unsafe_code)]

mod datapath;
mod differential;
mod judge;
mod programs;

use weir_fw::compile::CountedTables;
use weir_rules::ir::Ruleset;

/// The tables with `counters`, numbered from 1 in the order of the ruleset.
fn counted_tables(ruleset: &Ruleset) -> CountedTables {
    let counted = ruleset.tables.iter().filter(|table| table.has_counters);
    counted.map(|table| (table.anchor.clone(), table.name.clone())).zip(1..).collect()
}
