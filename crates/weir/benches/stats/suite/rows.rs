//! The rows of the result, and their limits. This is the one list.

use weir_stats::summary::median;

use super::{Result, Samples};

/// A row before anything was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpec {
    /// Name of the row.
    pub(crate) name: &'static str,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// Unit of the samples.
    pub(crate) unit: &'static str,
    /// What is not to be passed, in that unit.
    pub(crate) limit: f64,
}

/// Time and memory of an import.
pub(crate) const IMPORT_TIME: &str = "import_50000_files";
pub(crate) const IMPORT_MEMORY: &str = "import_50000_files_memory";

/// Time of a report, and of a comparison.
pub(crate) const REPORT_TIME: &str = "report_1000_cells";
pub(crate) const COMPARE_TIME: &str = "compare_10000_cells";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: IMPORT_TIME,
        what: "`weir lab import` of 50,000 files",
        unit: "s",
        limit: 60.0,
    },
    RowSpec { name: IMPORT_MEMORY, what: "the same, resident at most", unit: "MiB", limit: 512.0 },
    RowSpec { name: REPORT_TIME, what: "`weir lab report` of 1,000 cells", unit: "s", limit: 3.0 },
    RowSpec {
        name: COMPARE_TIME,
        what: "`weir lab compare` of two archives of 10,000 cells",
        unit: "s",
        limit: 10.0,
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
    /// The limit over the figure: 1 or more is good enough.
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(spec: &'static RowSpec, all: &Samples) -> Self {
        let samples = all.get(spec.name).cloned().unwrap_or_default();
        let value = median(&samples);
        Self { spec, samples, value, ratio: value.map(|value| spec.limit / value) }
    }

    /// Whether the limit was kept; not if it could not be judged.
    pub(crate) fn holds(&self) -> bool {
        self.ratio.is_some_and(|ratio| ratio >= 1.0)
    }
}
