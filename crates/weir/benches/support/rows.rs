//! Rows of a result: what each is compared with, and how it is judged. For benchmarks that compare
//! series of one run with each other.

use std::collections::BTreeMap;

use weir_stats::summary::median;

/// The samples of one figure, or why there are none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    /// One sample a round, in the order in which they were taken.
    pub(crate) samples: Vec<f64>,
    /// CPU time that a packet cost the device, ns, for each sample; empty where nobody looks.
    pub(crate) costs_ns: Vec<f64>,
    /// Smallest share of its time for which the device had something to do; 0: nobody looks.
    pub(crate) busy_share_min: f64,
    /// Largest share of a sample's time that other programs took from it.
    pub(crate) taken_share_max: f64,
    /// Why rounds are missing.
    pub(crate) missing: Option<String>,
}

/// All series, by name.
pub(crate) type AllSeries = BTreeMap<&'static str, Series>;

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Against {
    /// Nothing: others are compared with it, or it is for information.
    Nothing,
    /// Another series of the same run: the ratio is the median of the rounds' ratios, because the
    /// samples of a round are neighbours in time, and what slows the machine down slows both.
    /// Where CPU times per packet are known it is the other's over this one's.
    Series(&'static str),
    /// A number that stands firm.
    Value {
        /// What it is, in a word.
        what: &'static str,
        /// The number, in the row's unit.
        value: f64,
        /// Whether less is as good as it gets: the ratio is the number over the figure. Otherwise
        /// it is the smaller of the two over the larger, because too much is as wrong as too
        /// little.
        is_limit: bool,
    },
}

impl Against {
    /// A limit that is not to be passed.
    pub(crate) const fn limit(value: f64) -> Self {
        Self::Value { what: "limit", value, is_limit: true }
    }
}

/// A row before anything was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowSpec {
    /// Name of the row.
    pub(crate) name: &'static str,
    /// Name of the series that it shows.
    pub(crate) series: &'static str,
    /// What it is, for people.
    pub(crate) what: &'static str,
    /// Unit of the samples.
    pub(crate) unit: &'static str,
    /// What it is compared with.
    pub(crate) against: Against,
    /// Smallest ratio that is good enough.
    pub(crate) floor: Option<f64>,
}

/// A row of packets per second that shows the series of its own name.
pub(crate) const fn pps(name: &'static str, what: &'static str) -> RowSpec {
    let (against, floor) = (Against::Nothing, None);
    RowSpec { name, series: name, what, unit: "pps", against, floor }
}

impl RowSpec {
    pub(crate) const fn of(self, series: &'static str) -> Self {
        Self { series, ..self }
    }

    pub(crate) const fn against(self, against: Against) -> Self {
        Self { against, ..self }
    }

    pub(crate) const fn floor(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }
}

/// The rows of `all` with these names, and those that they are compared with; all if none is named.
pub(crate) fn selected(
    all: &'static [RowSpec],
    names: &[String],
) -> Result<Vec<&'static RowSpec>, String> {
    if let Some(unknown) = names.iter().find(|&name| all.iter().all(|row| row.name != name)) {
        let known: Vec<&str> = all.iter().map(|row| row.name).collect();
        return Err(format!("there is no row `{unknown}`: there are {}", known.join(", ")));
    }
    let is_named = |row: &RowSpec| names.is_empty() || names.iter().any(|name| name == row.name);
    let is_selected = |row: &RowSpec| {
        let counterpart = Against::Series(row.name);
        is_named(row) || all.iter().any(|other| is_named(other) && other.against == counterpart)
    };
    Ok(all.iter().filter(|row| is_selected(row)).collect())
}

/// A row with what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) spec: &'static RowSpec,
    pub(crate) series: Series,
    /// Median; `None` if it was not measured.
    pub(crate) value: Option<f64>,
    /// Median CPU time of a packet, ns, if it is known.
    pub(crate) cost_ns: Option<f64>,
    /// As [`Against`] says; `None` if there is nothing to compare, or one side was not measured.
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(spec: &'static RowSpec, all: &AllSeries) -> Self {
        let series = all.get(spec.series).cloned().unwrap_or_default();
        let (value, cost_ns) = (median(&series.samples), median(&series.costs_ns));
        let ratio = value.and_then(|value| match spec.against {
            Against::Nothing => None,
            Against::Series(name) => against(&series, all.get(name)?),
            Against::Value { value: limit, is_limit: true, .. } => Some(limit / value),
            Against::Value { value: expected, .. } => {
                Some((value / expected).min(expected / value))
            }
        });
        Self { spec, series, value, cost_ns, ratio }
    }

    /// Whether the floor was reached: `None` if there is none, or it could not be judged.
    pub(crate) fn meets(&self) -> Option<bool> {
        Some(self.ratio? >= self.spec.floor?)
    }

    /// Whether there is no floor that was missed or could not be judged.
    #[allow(dead_code, reason = "the firewall's benchmark prints both, and judges by neither")]
    pub(crate) fn holds(&self) -> bool {
        self.spec.floor.is_none() || self.meets() == Some(true)
    }
}

/// How a series compares with another: by CPU time where both have it, so that a device is not the
/// slower one for having had nothing to do.
fn against(series: &Series, other: &Series) -> Option<f64> {
    if series.costs_ns.is_empty() || other.costs_ns.is_empty() {
        return share(&series.samples, &other.samples);
    }
    share(&other.costs_ns, &series.costs_ns)
}

/// Median of the ratios of samples that were taken in the same rounds; if rounds are missing, the
/// ratio of the medians.
fn share(samples: &[f64], others: &[f64]) -> Option<f64> {
    if samples.len() == others.len() {
        let ratios: Vec<f64> =
            samples.iter().zip(others).map(|(sample, other)| sample / other).collect();
        return median(&ratios);
    }
    Some(median(samples)? / median(others)?)
}
