//! The data path on a real kernel: what it does with frames, whether it agrees with the reference,
//! and whether its rules alone do.

#![forbid(unsafe_code)]

mod datapath;
mod differential;
mod judge;
mod programs;

use weir_fw::compile::CountedTables;
use weir_rules::ir::Ruleset;

/// Puts the entries that a ruleset gives its typed tables into the memory.
fn place_typed<M: weir_fw::heap::Memory + ?Sized>(
    installer: &weir_fw::install::Installer<'_, M>,
    ruleset: &Ruleset,
) -> std::collections::HashMap<weir_rules::value::Text, u32> {
    let tables = ruleset.tables.iter().filter_map(|table| Some((table, table.typed.as_ref()?)));
    let place = |(table, typed): (&weir_rules::ir::Table, &std::sync::Arc<_>)| {
        let typed: &weir_rules::ir::TypedTable = typed;
        let entries = typed.entries.as_deref().unwrap_or_default();
        let (entries, _) = weir_fw::compile::numbered_values(entries);
        let at = installer.place_typed(typed.shape.key, &entries).expect("there is room");
        (table.name.clone(), at)
    };
    tables.map(place).collect()
}

/// The tables with `counters`, numbered from 1 in the order of the ruleset.
fn counted_tables(ruleset: &Ruleset) -> CountedTables {
    let counted = ruleset.tables.iter().filter(|table| table.has_counters);
    counted.map(|table| (table.anchor.clone(), table.name.clone())).zip(1..).collect()
}
