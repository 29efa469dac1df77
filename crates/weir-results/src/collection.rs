//! Results under one face, wherever they come from: a campaign's store, or an imported archive.
//!
//! A [`Collection`] holds series of points: what comparisons and plots need, and no more. It is
//! made from a store and never written back; it judges nothing, and drops nothing: a point whose
//! figure is void is there with its verdict, and whoever computes leaves it out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_stats::Level as Confidence;

use crate::proof::Ground;
use crate::record::{Cost, Delays, Latency, TrialRecord, Verdict};
use crate::summary::analysis::{self, SeriesWarning};
use crate::summary::{CampaignData, CampaignSummary, SeriesSummary, ToggleSummary, Trial, turns};
use crate::toggle::Role;
use crate::traffic::{Connect, Http};
use crate::yardstick::Yardstick;

mod pattern;

pub use crate::unit::Unit;
pub use pattern::{BadPattern, SeriesPattern};

/// The dimension that holds the image.
pub const IMAGE: &str = "image";
/// The dimension that holds the DUT's name, or an archive's configuration.
pub const DUT: &str = "dut";
/// The dimension that holds the goal of a search.
pub const GOAL: &str = "goal";
/// The dimension that holds the traffic's name, without the sweep values that it carries.
pub const TRAFFIC: &str = "traffic";
/// The dimension that holds the number of flows.
pub const FLOWS: &str = "flows";
/// The dimension that holds the frame size without FCS, in bytes; connections and requests have
/// none.
pub const SIZE_BYTES: &str = "size_bytes";
/// The dimension that holds how connections end.
pub const CLOSE: &str = "close";
/// The dimension that holds the bytes of each connection's request.
pub const REQUEST_BYTES: &str = "request_bytes";
/// The dimension that holds the bytes of each reply.
pub const REPLY_BYTES: &str = "reply_bytes";
/// The dimension that holds the number of connections that requests go over at a time.
pub const CONNECTIONS: &str = "connections";
/// The dimension that holds how many requests a connection has.
pub const KEEPALIVE: &str = "keepalive";

/// Where a collection was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// A campaign that weir ran.
    Campaign,
    /// Rates that weir searched.
    Search,
    /// Results of another lab, imported.
    Archive,
}

/// The series of one store.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Collection {
    /// Name of the campaign, or of the archive.
    pub name: String,
    /// Where it comes from.
    pub origin: Origin,
    /// What is known of the machines it was measured on, as the store keeps it.
    pub environment: serde_json::Value,
    /// How fast the machine was that it was measured on, where that is known.
    pub yardsticks: Vec<Yardstick>,
    /// The series, in the order of the specification, or of the archive's names.
    pub series: Vec<CollectedSeries>,
}

/// One point of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectedSeries {
    /// Its name, unique in the collection.
    pub name: String,
    /// Its place in every dimension of the matrix.
    pub levels: Vec<Level>,
    /// What its figures count.
    pub unit: Unit,
    /// Its iterations, in order.
    pub points: Vec<CollectedPoint>,
    /// What its windows come to, where its DUT has a toggle; its points are those of `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toggle: Option<CollectedToggle>,
}

/// Two settings of one live DUT in turns.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectedToggle {
    /// What its campaign says of them.
    pub summary: ToggleSummary,
    /// CPU time per packet in nanoseconds, with `off` and with `on`, of every iteration that
    /// nothing disturbed.
    pub iterations_ns: Vec<(f64, f64)>,
    /// The same of the control's two.
    pub controls_ns: Vec<(f64, f64)>,
}

/// A series' place in one dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Name of the dimension: [`IMAGE`], [`DUT`], [`TRAFFIC`], [`FLOWS`], those of
    /// [`kind_levels`], or the name of a sweep.
    pub dimension: String,
    /// As it was written.
    pub label: String,
    /// Its value, if it has one: `65Ki` is 65,536.
    pub number: Option<f64>,
}

/// One iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectedPoint {
    /// Iteration, from 1.
    pub iteration: u32,
    /// The figure: the median of the samples, in the series' unit; 0 without one.
    pub value: f64,
    /// Whether the run gave a figure at all. A figure of 0 is one: nothing came through.
    pub has_figure: bool,
    /// What was offered, in the series' unit, where that is known.
    pub offered: Option<f64>,
    /// What a packet cost the DUT in CPU time, where that is known.
    pub cost: Option<Cost>,
    /// What the DUT itself reported after the measurement, by name, and the latency, as
    /// `latency_p99_ns`; empty where there is neither.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, u64>,
    /// What went to other programs meanwhile, 0 to 1, by CPU; empty where nobody looked.
    pub foreign: BTreeMap<String, f64>,
    /// What the figure is worth; absent where an archive's files do not say.
    pub verdict: Option<Verdict>,
    /// The raw cell's folder, relative to the store.
    pub cell: String,
}

/// A collection, and what of its store could not be read.
#[derive(Debug)]
pub struct Opened {
    /// The series.
    pub collection: Collection,
    /// Cells that are damaged, and left out therefore: the file, why, what to do.
    pub damaged: Vec<String>,
}

impl Collection {
    /// The series of a campaign, in the order of its specification.
    #[must_use]
    pub fn of_campaign(data: &CampaignData) -> Self {
        let collect = |series: &SeriesSummary| {
            let cells = || data.cells.iter().filter(|(record, _)| record.series == series.name);
            let mut points: Vec<CollectedPoint> = cells().map(point).collect();
            points.sort_by_key(|p| p.iteration);
            let toggle = series.toggle.clone().map(|summary| {
                let records: Vec<&TrialRecord> = cells().map(|(record, _)| record).collect();
                let iterations_ns = |roles| turns::iteration_pairs_ns(&records, roles);
                CollectedToggle {
                    summary,
                    iterations_ns: iterations_ns((Role::Off, Role::On)),
                    controls_ns: iterations_ns((Role::ControlOff, Role::ControlOn)),
                }
            });
            let name = series.name.clone();
            CollectedSeries { name, levels: levels(series), unit: series.unit, points, toggle }
        };
        Self {
            name: data.campaign.name.clone(),
            origin: Origin::Campaign,
            environment: data.environment.clone(),
            yardsticks: data.yardsticks.clone(),
            series: CampaignSummary::of(data).series.iter().map(collect).collect(),
        }
    }

    /// The series of that name.
    #[must_use]
    pub fn series_named(&self, name: &str) -> Option<&CollectedSeries> {
        self.series.iter().find(|s| s.name == name)
    }

    /// The dimensions that occur, in the order in which they occur first.
    #[must_use]
    pub fn dimensions(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for level in self.series.iter().flat_map(|s| &s.levels) {
            if !names.contains(&level.dimension.as_str()) {
                names.push(level.dimension.as_str());
            }
        }
        names
    }
}

impl CollectedSeries {
    /// The place in a dimension.
    #[must_use]
    pub fn level(&self, dimension: &str) -> Option<&Level> {
        self.levels.iter().find(|l| l.dimension == dimension)
    }

    /// The figures that count, in the order of the iterations: all but those of invalid and
    /// disturbed runs.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.points.iter().filter(|p| p.is_valid()).map(|p| p.value).collect()
    }

    /// What the DUT itself reported by that name, in the iterations whose figures count.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sizes stay far below 2^53")]
    pub(crate) fn sizes(&self, name: &str) -> Vec<f64> {
        let counting = self.points.iter().filter(|p| p.is_valid());
        counting.filter_map(|p| p.sizes.get(name)).map(|value| *value as f64).collect()
    }

    /// The figures that may prove something: those that count and are steady.
    #[must_use]
    pub(crate) fn proving(&self) -> Vec<f64> {
        self.points.iter().filter(|p| p.may_prove()).map(|p| p.value).collect()
    }

    /// What the trials of those figures say of them.
    #[must_use]
    pub(crate) fn ground(&self) -> Ground {
        let proving = self.points.iter().filter(|p| p.may_prove());
        let trials = proving.map(|p| (p.verdict.as_ref().map(|v| v.kind), &p.foreign));
        Ground::of(&trials.collect::<Vec<_>>())
    }

    /// What packets cost in those iterations that may prove something and tell it.
    #[must_use]
    pub fn costs(&self) -> Vec<Cost> {
        self.points.iter().filter(|p| p.may_prove()).filter_map(|p| p.cost).collect()
    }
}

/// The warnings about an imported series, in the order of its iterations, at the default level.
/// Too few values are none: nobody runs more of an archive, and their number stands in the table.
pub fn collected_warnings(series: &CollectedSeries) -> Vec<SeriesWarning> {
    let valid = series.points.iter().filter(|point| point.is_valid());
    let (numbers, values): (Vec<u32>, Vec<f64>) = valid.map(|p| (p.iteration, p.value)).unzip();
    let mut warnings = analysis::warnings(&values, &numbers, Confidence::default());
    warnings.retain(|warning| warning.kind != "too-few");
    warnings
}

impl CollectedPoint {
    /// The figure, if the run gave one.
    #[must_use]
    pub fn figure(&self) -> Option<f64> {
        self.has_figure.then_some(self.value)
    }

    /// Whether the figure counts.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.verdict.as_ref().is_none_or(|v| !v.kind.is_void())
    }

    /// Whether it may prove something beside others.
    #[must_use]
    pub fn may_prove(&self) -> bool {
        self.verdict.as_ref().is_none_or(|v| v.kind.may_prove())
    }
}

/// What the DUT has reported, and how long packets, connections or requests took.
fn sizes(record: &TrialRecord) -> BTreeMap<String, u64> {
    let mut sizes = record.levels.clone();
    if let Some(Latency { delays, .. }) = &record.latency {
        let delays = Delays::NAMES.into_iter().zip(delays.in_order());
        sizes.extend(delays.map(|(name, delay_ns)| (format!("latency_{name}_ns"), delay_ns)));
    }
    sizes
}

fn point((record, _): &Trial) -> CollectedPoint {
    CollectedPoint {
        iteration: record.iteration,
        value: record.result.rate_pps,
        has_figure: true,
        offered: Some(record.result.offered_pps),
        cost: record.cost,
        sizes: sizes(record),
        foreign: record.foreign_ratios(),
        verdict: Some(record.verdict.clone()),
        cell: format!("cells/{}/{}", record.series, record.iteration),
    }
}

#[expect(clippy::cast_precision_loss, reason = "flow counts stay far below 2^53")]
fn levels(series: &SeriesSummary) -> Vec<Level> {
    let level = |dimension: &str, label: &str, number: Option<f64>| Level {
        dimension: dimension.to_owned(),
        label: label.to_owned(),
        number,
    };
    let mut levels = Vec::new();
    levels.extend(series.image.as_deref().map(|image| level(IMAGE, image, None)));
    levels.push(level(DUT, &series.dut, None));
    levels.extend(series.sweep.iter().map(|(name, v)| level(name, &v.label, v.number)));
    levels.push(level(TRAFFIC, &series.traffic_base, None));
    let flows = series.flow_count;
    levels.push(level(FLOWS, &flows.to_string(), Some(flows as f64)));
    let kinds = (series.connect.as_ref(), series.http.as_ref());
    levels.extend(kind_levels(kinds, series.size_bytes.into()));
    levels
}

/// The places of a traffic in the dimensions that only its kind has: the frame size of packets, in
/// bytes without FCS, or what is done with each connection or request, whose frames have no size in
/// common.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "connections and bytes stay far below 2^53")]
pub fn kind_levels(
    (connect, http): (Option<&Connect>, Option<&Http>),
    size_bytes: f64,
) -> Vec<Level> {
    let number = |dimension: &str, number: f64| Level {
        dimension: dimension.to_owned(),
        label: number.to_string(),
        number: Some(number),
    };
    let word = |dimension: &str, label: &str| Level {
        dimension: dimension.to_owned(),
        label: label.to_owned(),
        number: None,
    };
    if let Some(http) = http {
        return vec![
            number(CONNECTIONS, http.connections as f64),
            Level {
                number: http.keepalive.map(|count| count as f64),
                ..word(KEEPALIVE, &http.keepalive_text())
            },
            word(CLOSE, http.close.name()),
            number(REPLY_BYTES, http.reply_bytes as f64),
        ];
    }
    // How many are opened is the number that their figure is held against.
    let Some(&Connect { close, request_bytes, reply_bytes, count: _ }) = connect else {
        return vec![number(SIZE_BYTES, size_bytes)];
    };
    vec![
        word(CLOSE, close.name()),
        number(REQUEST_BYTES, request_bytes.into()),
        number(REPLY_BYTES, reply_bytes.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::fixture;

    #[test]
    fn a_campaign_keeps_every_point_with_its_verdict() {
        let data = fixture::swept();
        let collection = Collection::of_campaign(&data);
        let points: usize = collection.series.iter().map(|s| s.points.len()).sum();
        assert_eq!(points, data.cells.len());
        let first = &data.cells[0].0;
        let series = collection.series_named(&first.series).unwrap();
        let point = series.points.iter().find(|p| p.iteration == first.iteration).unwrap();
        assert_eq!(point.verdict.as_ref(), Some(&first.verdict));
        assert!(collection.dimensions().contains(&DUT));
        assert!(collection.dimensions().contains(&FLOWS));
    }
}
