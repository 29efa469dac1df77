//! The rows of the result: what each is compared with, and its floor. This is the one list.

use weir_stats::summary::median;

use super::{AllSeries, Result, Series};

/// Largest resident memory of `weir gen` with five million flows, MiB.
const MEMORY_MIB_MAX: f64 = 64.0;

/// What a figure is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Against {
    /// Nothing: others are compared with it, or it is for information.
    Nothing,
    /// Another series of the same run: the ratio is the median of the rounds' ratios, because the
    /// samples of a round are neighbours in time, and what slows the machine down slows both.
    Series(&'static str),
    /// A rate that was asked for, packets per second: the ratio is the smaller of the two over the
    /// larger, because too fast is as wrong as too slow.
    Requested(f64),
    /// A limit that is not to be passed: the ratio is the limit over the figure.
    Limit(f64),
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

const fn pps(name: &'static str, what: &'static str) -> RowSpec {
    let (against, floor) = (Against::Nothing, None);
    RowSpec { name, series: name, what, unit: "pps", against, floor }
}

impl RowSpec {
    const fn of(self, series: &'static str) -> Self {
        Self { series, ..self }
    }

    const fn against(self, against: Against) -> Self {
        Self { against, ..self }
    }

    const fn floor(self, floor: f64) -> Self {
        Self { floor: Some(floor), ..self }
    }
}

/// Series of the regime in which one CPU sends and receives: packets delivered.
pub(crate) const MINIMAL: &str = "minimal";
pub(crate) const FLOWS_4900: &str = "flows_4900";
pub(crate) const FLOWS_5M: &str = "flows_5m";
pub(crate) const TRAFGEN: &str = "trafgen";
pub(crate) const THREADS_2: &str = "threads_2";
pub(crate) const SINK_BARE_SHARED: &str = "sink_bare_shared";
pub(crate) const SINK_FULL_SHARED: &str = "sink_full_shared";
/// Series of the regime in which the receiver has a CPU of its own.
pub(crate) const MINIMAL_OFFERED: &str = "minimal_offered";
pub(crate) const MINIMAL_DELIVERED: &str = "minimal_delivered";
pub(crate) const FLOWS_4900_OFFERED: &str = "flows_4900_offered";
pub(crate) const FLOWS_4900_DELIVERED: &str = "flows_4900_delivered";
pub(crate) const FLOWS_5M_OFFERED: &str = "flows_5m_offered";
pub(crate) const FLOWS_5M_DELIVERED: &str = "flows_5m_delivered";
pub(crate) const SINK_BARE: &str = "sink_bare";
pub(crate) const SINK_BARE_OFFERED: &str = "sink_bare_offered";
pub(crate) const SINK_FULL: &str = "sink_full";
pub(crate) const SINK_FULL_OFFERED: &str = "sink_full_offered";
/// Series that belong to no regime.
pub(crate) const RATE_100K: &str = "rate_100k";
pub(crate) const RATE_500K: &str = "rate_500k";
pub(crate) const MEMORY_5M: &str = "memory_5m";

/// All rows, in the order in which they are shown.
pub(crate) const ROWS: &[RowSpec] = &[
    pps(MINIMAL, "one CPU: a program that redirects one fixed frame"),
    pps(FLOWS_4900, "one CPU: 4,900 flows, checksums, signature")
        .against(Against::Series(MINIMAL))
        .floor(0.90),
    pps(FLOWS_5M, "one CPU: 5,000,000 flows").against(Against::Series(MINIMAL)).floor(0.85),
    pps(TRAFGEN, "one CPU: trafgen, the same packet"),
    pps("flows_4900_vs_trafgen", "one CPU: 4,900 flows, again")
        .of(FLOWS_4900)
        .against(Against::Series(TRAFGEN))
        .floor(8.0),
    pps(THREADS_2, "two threads on two queues, each CPU as above")
        .against(Against::Series(FLOWS_4900))
        .floor(1.6),
    pps(SINK_BARE_SHARED, "one CPU: bare sink, stamped packets"),
    pps(SINK_FULL_SHARED, "one CPU: full sink, stamped packets")
        .against(Against::Series(SINK_BARE_SHARED)),
    pps(MINIMAL_OFFERED, "two CPUs, offered: fixed frame"),
    pps(FLOWS_4900_OFFERED, "two CPUs, offered: 4,900 flows")
        .against(Against::Series(MINIMAL_OFFERED)),
    pps(FLOWS_5M_OFFERED, "two CPUs, offered: 5,000,000 flows")
        .against(Against::Series(MINIMAL_OFFERED)),
    pps(MINIMAL_DELIVERED, "two CPUs, delivered: fixed frame"),
    pps(FLOWS_4900_DELIVERED, "two CPUs, delivered: 4,900 flows")
        .against(Against::Series(MINIMAL_DELIVERED)),
    pps(FLOWS_5M_DELIVERED, "two CPUs, delivered: 5,000,000 flows")
        .against(Against::Series(MINIMAL_DELIVERED)),
    pps(SINK_BARE, "two CPUs, delivered: bare sink"),
    pps(SINK_FULL, "two CPUs, delivered: sink with sequence and latency")
        .against(Against::Series(SINK_BARE))
        .floor(0.85),
    pps(SINK_BARE_OFFERED, "two CPUs, offered to the bare sink")
        .against(Against::Series(SINK_BARE)),
    pps(SINK_FULL_OFFERED, "two CPUs, offered to that sink").against(Against::Series(SINK_FULL)),
    pps(RATE_100K, "100 kpps held, delivered").against(Against::Requested(100_000.0)).floor(0.995),
    pps(RATE_500K, "500 kpps held, delivered").against(Against::Requested(500_000.0)).floor(0.995),
    RowSpec {
        name: MEMORY_5M,
        series: MEMORY_5M,
        what: "`weir gen` with 5,000,000 flows, resident at most",
        unit: "MiB",
        against: Against::Limit(MEMORY_MIB_MAX),
        floor: Some(1.0),
    },
];

/// The rows of these names, and those that they are compared with; all if none is named.
pub(crate) fn selected(names: &[String]) -> Result<Vec<&'static RowSpec>> {
    if let Some(unknown) = names.iter().find(|&name| ROWS.iter().all(|row| row.name != name)) {
        let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("there is no row `{unknown}`: there are {}", known.join(", ")).into());
    }
    let is_named = |row: &RowSpec| names.is_empty() || names.iter().any(|name| name == row.name);
    let is_wanted = |row: &RowSpec| {
        let counterpart = Against::Series(row.name);
        is_named(row) || ROWS.iter().any(|other| is_named(other) && other.against == counterpart)
    };
    Ok(ROWS.iter().filter(|row| is_wanted(row)).collect())
}

/// A row with what was measured.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) spec: &'static RowSpec,
    pub(crate) series: Series,
    /// Median; `None` if it was not measured.
    pub(crate) value: Option<f64>,
    /// As [`Against`] says; `None` if there is nothing to compare, or one side was not measured.
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(spec: &'static RowSpec, all: &AllSeries) -> Self {
        let series = all.get(spec.series).cloned().unwrap_or_default();
        let value = median(&series.samples);
        let ratio = value.and_then(|value| match spec.against {
            Against::Nothing => None,
            Against::Series(name) => share(&series.samples, &all.get(name)?.samples),
            Against::Requested(rate_pps) => Some((value / rate_pps).min(rate_pps / value)),
            Against::Limit(limit) => Some(limit / value),
        });
        Self { spec, series, value, ratio }
    }

    /// Whether the floor was reached: `None` if there is none, or it could not be judged.
    pub(crate) fn meets(&self) -> Option<bool> {
        Some(self.ratio? >= self.spec.floor?)
    }

    /// Whether there is no floor that was missed or could not be judged.
    pub(crate) fn holds(&self) -> bool {
        self.spec.floor.is_none() || self.meets() == Some(true)
    }
}

/// Median of the ratios of samples that were taken in the same rounds; if rounds are missing, the
/// ratio of the medians.
fn share(samples: &[f64], others: &[f64]) -> Option<f64> {
    if samples.len() == others.len() {
        let ratios: Vec<f64> = samples.iter().zip(others).map(|(own, other)| own / other).collect();
        return median(&ratios);
    }
    Some(median(samples)? / median(others)?)
}
