//! The rows of the result, and their limits. This is the one list.

use weir_stats::summary::median;

use super::{Result, Samples};

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    /// Not to be passed, in the row's unit.
    AtMost(f64),
    /// To be reached, in the row's unit.
    AtLeast(f64),
    /// The row is for information.
    None,
}

/// A row before anything was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpec {
    /// Name of the row.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// Unit of the samples.
    pub(crate) unit: &'static str,
    /// What it is held against.
    pub(crate) limit: Limit,
}

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
    if let Some(unknown) = names.iter().find(|&name| ROWS.iter().all(|row| row.name != name)) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("there is no row `{unknown}`: there are {}", known.join(", ")).into());
    }
    let is_named = |row: &RowSpec| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(|row| is_named(row)).collect())
}

/// A row with what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) spec: &'static RowSpec,
    /// One sample a round.
    pub(crate) samples: Vec<f64>,
    /// Median; `None` if it was not measured.
    pub(crate) value: Option<f64>,
    /// 1 or more is good enough; `None` without a limit or a value.
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(spec: &'static RowSpec, all: &Samples) -> Self {
        let samples = all.get(spec.name).cloned().unwrap_or_default();
        let value = median(&samples);
        let ratio = match (spec.limit, value) {
            (Limit::AtMost(limit), Some(value)) => Some(limit / value),
            (Limit::AtLeast(limit), Some(value)) => Some(value / limit),
            (Limit::None, _) | (_, None) => None,
        };
        Self { spec, samples, value, ratio }
    }

    /// Whether the row's limit was kept, if it has one; not if it could not be judged.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.spec.limit, Limit::None) || self.ratio.is_some_and(|ratio| ratio >= 1.0)
    }
}
