//! The rows of the result, and their limits. This is the one list.

use super::Result;
use crate::limits::{self, Limit, RowSpec};

/// `weir fw check` of rules that are each written out.
pub(crate) const WRITTEN_TIME: &str = "check_10000_rules_1m_entries";
pub(crate) const WRITTEN_MEMORY: &str = "check_10000_rules_1m_entries_memory";
/// The same of rules that lists multiply to.
pub(crate) const LISTS_TIME: &str = "check_100_lists_1m_entries";
pub(crate) const LISTS_MEMORY: &str = "check_100_lists_1m_entries_memory";
/// The reference evaluator.
pub(crate) const EVALUATE_100: &str = "evaluate_100_rules";
pub(crate) const EVALUATE_10000: &str = "evaluate_10000_rules";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: WRITTEN_TIME,
        what: "`weir fw check` of 10,000 rules and a table file of 1,000,000",
        unit: "s",
        limit: Limit::AtMost(1.0),
    },
    RowSpec {
        name: WRITTEN_MEMORY,
        what: "the same, resident at most",
        unit: "MiB",
        limit: Limit::AtMost(400.0),
    },
    RowSpec {
        name: LISTS_TIME,
        what: "the same number of rules, from 100 lines with lists",
        unit: "s",
        limit: Limit::AtMost(1.0),
    },
    RowSpec {
        name: LISTS_MEMORY,
        what: "the same, resident at most",
        unit: "MiB",
        limit: Limit::AtMost(400.0),
    },
    RowSpec {
        name: EVALUATE_100,
        what: "reference evaluator, 100 rules, all looked at",
        unit: "pps",
        limit: Limit::AtLeast(1e6),
    },
    RowSpec {
        name: EVALUATE_10000,
        what: "reference evaluator, 10,000 rules, all looked at",
        unit: "pps",
        limit: Limit::None,
    },
];

/// The rows of these names; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    Ok(limits::selected(ROWS, names)?)
}
