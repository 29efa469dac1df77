//! What is searched: one item for each series of the plan and each frame size.

use std::collections::BTreeSet;

use weir_results::matrix::Series;
use weir_results::search::record::{Frames, base_name, repeated_name};
use weir_results::search::{FrameSize, Terms, Test};
use weir_results::traffic::{Streams, Traffic};
use weir_wire::ethernet::FCS_BYTES;
use weir_wire::units::Rate;

use super::machines;
use crate::identity::{self, Setting, TrafficIdentity};
use crate::model::{Plan, TestbedSpec};
use crate::testbed::hosts;

/// A series at one frame size.
#[derive(Debug, Clone)]
pub struct Item {
    /// Name, and folder in the store: the series, and `.size=…` where the size is not its own.
    pub name: String,
    /// Which repetition it is, from 1.
    pub repeat: u32,
    /// SHA-256 (hex) of all that determines the result.
    pub id: String,
    /// The series, with the traffic at this size, as fast as possible.
    pub series: Series,
    pub size: FrameSize,
}

/// Why a specification cannot be searched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// A search finds the rate.
    #[error(
        "series `{series}`: its traffic has the rate {rate}, but a search finds the rate: leave \
         `rate` out, set `max_load` in [search], or choose other series with --only"
    )]
    Rate { series: String, rate: String },
    /// The testbed cannot do what is asked for.
    #[error("no search on testbed kind \"hosts\": {0}")]
    Machines(String),
    /// A search looks for one rate.
    #[error(
        "series `{series}`: its traffic goes over several links, and a search offers one rate to \
         one link, in one direction or in both: leave `ports` out and have one link, or choose \
         other series with --only"
    )]
    Links { series: String },
    /// Connections or requests cannot be searched so.
    #[error("series `{series}`: its traffic is of {things}: {cause}")]
    NotPackets { series: String, things: &'static str, cause: String },
    /// A burst comes from one generator.
    #[error(
        "series `{series}`: its traffic goes in both directions, and back-to-back frames are a \
         burst in one: leave `direction` or the test \"back-to-back\" out"
    )]
    Bursts { series: String },
    /// The traffic cannot be sent in such frames.
    #[error("series `{series}` with frames of size {size}: {cause}")]
    Size { series: String, size: String, cause: String },
}

/// Every item of a plan, in the order of its series; all of them once before any is repeated, so
/// that a drift of the machine meets all of them.
///
/// # Errors
/// [`ItemError`] for the first series that cannot be searched.
pub fn items(plan: &Plan, terms: &Terms) -> Result<Vec<Item>, ItemError> {
    if let Some(why) = machines::refusal(plan, terms) {
        return Err(ItemError::Machines(why));
    }
    let used: BTreeSet<usize> = plan.cells.iter().map(|cell| cell.series_index).collect();
    let mut items = Vec::new();
    for index in used {
        let series = &plan.series[index];
        if let Some(cause) = refusal(&series.traffic, terms) {
            let things = series.traffic.kind.unit().things();
            return Err(ItemError::NotPackets { series: series.name.clone(), things, cause });
        }
        let senders = series.traffic.each_sender();
        if let Some(sender) = senders.iter().find(|sender| sender.rate != Rate::Max) {
            let (series, rate) = (series.name.clone(), sender.rate.to_string());
            return Err(ItemError::Rate { series, rate });
        }
        if series.traffic.senders.links > 1 || series.traffic.senders.is_mesh {
            return Err(ItemError::Links { series: series.name.clone() });
        }
        if senders.len() > 1 && terms.tests.contains(&Test::BackToBack) {
            return Err(ItemError::Bursts { series: series.name.clone() });
        }
        for &size in &terms.sizes {
            items.push(item(plan, terms, series, size)?);
        }
    }
    let again = |repeat| items.iter().map(move |item: &Item| item.again(repeat));
    let again: Vec<Item> = (2..=terms.repeats).flat_map(again).collect();
    items.extend(again);
    Ok(items)
}

/// Why connections or requests cannot be searched so, if they cannot.
fn refusal(traffic: &Traffic, terms: &Terms) -> Option<String> {
    if traffic.kind.is_packets() {
        return None;
    }
    let is_other = |test: &&Test| matches!(test, Test::BackToBack);
    if traffic.connect().is_some_and(|connect| connect.count.is_some()) {
        let cause = "they stay open, and a search finds a rate: sweep `count` in a campaign";
        return Some(cause.to_owned());
    }
    if let Some(test) = terms.tests.iter().find(is_other) {
        return Some(format!("they have no test \"{}\": leave it out of [search]", test.name()));
    }
    if terms.sizes.iter().any(|size| size.sizes().is_some()) {
        return Some("`sizes` in [search] are those of packets: leave them out".to_owned());
    }
    // As fast as it goes, SYNs crowd out what carries connections on, and a closed loop of requests
    // loses none: that is no bound.
    terms.max_load_pps.is_none().then(|| {
        let things = traffic.kind.unit().things();
        format!("set `max_load` in [search], the most {things} per second that are tried")
    })
}

fn item(plan: &Plan, terms: &Terms, series: &Series, size: FrameSize) -> Result<Item, ItemError> {
    let mut series = series.clone();
    let mut name = series.name.clone();
    if let Some(sizes) = size.sizes() {
        let sized = |streams: &Streams| {
            streams.with_sizes(&sizes).map_err(|error| ItemError::Size {
                series: name.clone(),
                size: size.to_string(),
                cause: error.to_string(),
            })
        };
        let streams = sized(&series.traffic.streams)?;
        let mut senders = series.traffic.senders.clone();
        if let Some(reverse) = &mut senders.reverse {
            reverse.streams = sized(&reverse.streams)?;
        }
        let kind = series.traffic.kind;
        let identity =
            TrafficIdentity { streams: &streams, rate: Rate::Max, senders: &senders, kind };
        let id = identity::traffic_id(setting(plan, &series), identity);
        name = format!("{name}.size={size}");
        let traffic = format!("{}.size={size}", series.traffic.name);
        series.traffic = Traffic { name: traffic, id, streams, rate: Rate::Max, senders, kind };
        if let TestbedSpec::Hosts(hosts) = &plan.testbed
            && let Some(cause) = hosts::refusal(hosts, &series.traffic)
        {
            let (series, size) = (series.name, size.to_string());
            return Err(ItemError::Size { series, size, cause });
        }
    }
    if let (false, Some(max_load_pps)) = (series.traffic.kind.is_packets(), terms.max_load_pps) {
        // The path is calibrated at the highest load.
        let Traffic { streams, senders, kind, .. } = &series.traffic;
        let rate = Rate::Pps(max_load_pps);
        let identity = TrafficIdentity { streams, rate, senders, kind: *kind };
        let id = identity::traffic_id(setting(plan, &series), identity);
        (series.traffic.id, series.traffic.rate) = (id, rate);
    }
    // Which other sizes are searched beside it, and how often, changes nothing.
    let asked = Terms { sizes: vec![size], repeats: 1, ..terms.clone() };
    let asked = serde_json::to_value(asked).unwrap_or_default();
    let id = identity::item_id(&series.id, &series.traffic.id, &asked);
    Ok(Item { name, repeat: 1, id, series, size })
}

/// Where and how long the trials of a series run.
fn setting<'p>(plan: &'p Plan, series: &Series) -> Setting<'p> {
    Setting { testbed: plan.testbed_of(&series.id), trial: &plan.trial }
}

impl Item {
    /// Another search of the same.
    fn again(&self, repeat: u32) -> Self {
        Self {
            name: repeated_name(&self.name, repeat),
            repeat,
            id: identity::cell_id(&self.id, repeat),
            ..self.clone()
        }
    }

    /// What all repetitions of it are called.
    #[must_use]
    pub(super) fn base_name(&self) -> &str {
        base_name(&self.name, self.repeat)
    }

    /// Its traffic at a rate, for one trial: of several directions each has an equal part.
    #[must_use]
    pub(crate) fn traffic_at(&self, rate: Rate) -> Traffic {
        let mut traffic = self.series.traffic.clone();
        traffic.rate = match (rate, &traffic.senders.reverse) {
            (Rate::Pps(rate_pps), Some(_)) => Rate::Pps(rate_pps / 2.0),
            _ => rate,
        };
        if let Some(reverse) = &mut traffic.senders.reverse {
            reverse.rate = traffic.rate;
        }
        traffic
    }

    /// Its frames, in both ways to count them.
    #[must_use]
    pub fn frames(&self) -> Frames {
        let streams = &self.series.traffic.streams;
        let (min, max) = streams.size_bytes_range();
        Frames {
            size: self.size,
            size_bytes_min: min,
            size_bytes_max: max,
            size_bytes_mean: streams.mean_bytes(),
            size_with_fcs_bytes_min: min + FCS_BYTES,
            size_with_fcs_bytes_max: max + FCS_BYTES,
        }
    }
}
