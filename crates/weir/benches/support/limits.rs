//! What the benchmarks share whose rows are held against limits: rows, their median, the table, and
//! the JSON. What compares series of one run with each other is in rows.rs and table.rs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_stats::summary::median;

use crate::support::report::{self, Entry, Machine};

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "not every benchmark has limits of every kind")]
pub(crate) enum Limit {
    /// Not to be passed, in the row's unit.
    AtMost(f64),
    /// To be reached, in the row's unit.
    AtLeast(f64),
    /// The row is for information.
    None,
}

impl Limit {
    /// In the row's unit.
    pub(crate) fn value(self) -> Option<f64> {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => Some(limit),
            Self::None => None,
        }
    }
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

/// Samples by the name of their row, one a round.
pub(crate) type Samples = BTreeMap<&'static str, Vec<f64>>;

/// The rows of `all` with these names; all if none is named.
pub(crate) fn selected(
    all: &'static [RowSpec],
    names: &[String],
) -> Result<Vec<&'static RowSpec>, String> {
    if let Some(unknown) = names.iter().find(|&name| all.iter().all(|row| row.name != name)) {
        let known: Vec<&str> = all.iter().map(|row| row.name).collect();
        return Err(format!("there is no row `{unknown}`: there are {}", known.join(", ")));
    }
    let is_named = |row: &RowSpec| names.is_empty() || names.iter().any(|name| name == row.name);
    Ok(all.iter().filter(|row| is_named(row)).collect())
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

/// The rows for people, behind the machine and `head`, which says how they were taken. `figure`
/// writes a value or a limit of a unit.
pub(crate) fn table(
    machine: &Machine,
    head: &str,
    rows: &[Row],
    figure: impl Fn(&str, f64) -> String,
) -> String {
    let Machine { cpu_model, kernel, cpu_count } = machine;
    let mut text = format!("{cpu_model}, {cpu_count} CPUs, Linux {kernel}\n{head}\n");
    let width = rows.iter().map(|row| row.spec.what.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<width$} {:>14} {:>14} {:>7}", "", "median", "limit", "ratio");
    for row in rows {
        let figure = |value: f64| figure(row.spec.unit, value);
        let value = row.value.map_or("not measured".to_owned(), figure);
        let limit = row.spec.limit.value().map_or_else(String::new, figure);
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let judged = match (row.spec.limit, row.value, row.holds()) {
            (Limit::None, ..) => "",
            (_, None, _) => "not judged",
            (_, _, true) => "met",
            (_, _, false) => "MISSED",
        };
        let what = row.spec.what;
        let line = format!("{what:<width$} {value:>14} {limit:>14} {ratio:>7} {judged}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The rows as the other benchmarks write them.
pub(crate) fn json(machine: &Machine, rows: &[Row]) -> String {
    let entries = rows.iter().map(|row| {
        let is_judged = row.spec.limit.value().is_some();
        Entry {
            name: row.spec.name,
            value: row.value,
            unit: row.spec.unit,
            samples: &row.samples,
            cost_ns: None,
            costs_ns: &[],
            against: is_judged.then_some("limit"),
            ratio: row.ratio,
            floor: is_judged.then_some(1.0),
        }
    });
    report::json(machine, entries)
}
