//! The rows of the result, and their limits. This is the one list.

use weir_stats::summary::median;

use super::{Result, Samples};

/// What a figure is held against.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
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

/// Hashes of addresses and ports, as many flows at once as the CPU's instructions allow.
pub(crate) const HASH_V4: &str = "hash_v4";
pub(crate) const HASH_V6: &str = "hash_v6";
/// The same from tables, one flow after the other.
pub(crate) const TABLES_V4: &str = "hash_v4_tables";
pub(crate) const TABLES_V6: &str = "hash_v6_tables";
/// Flows on the predicted queue, with the predicted hash.
pub(crate) const PLACED_V4: &str = "placed_v4";
pub(crate) const PLACED_V6: &str = "placed_v6";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    RowSpec {
        name: HASH_V4,
        what: "hash of an IPv4 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: HASH_V6,
        what: "hash of an IPv6 4-tuple, many at once",
        unit: "hashes/s",
        limit: Limit::AtLeast(100e6),
    },
    RowSpec {
        name: TABLES_V4,
        what: "hash of an IPv4 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: TABLES_V6,
        what: "hash of an IPv6 4-tuple, from tables",
        unit: "hashes/s",
        limit: Limit::None,
    },
    RowSpec {
        name: PLACED_V4,
        what: "IPv4 flows on the predicted queue, all sizes of tables",
        unit: "share",
        limit: Limit::AtLeast(1.0),
    },
    RowSpec {
        name: PLACED_V6,
        what: "the same of IPv6",
        unit: "share",
        limit: Limit::AtLeast(1.0),
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
