//! What is searched: one item for each series of the plan and each frame size.

use std::collections::BTreeSet;

use weir_results::matrix::Series;
use weir_results::search::record::{Frames, base_name, repeated_name};
use weir_results::search::{FrameSize, Terms};
use weir_results::traffic::Traffic;
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
        "series `{series}`: its traffic has several generators, and a search offers one rate in \
         one direction: leave `direction` and `ports` out and have one link, or choose other \
         series with --only"
    )]
    Directions { series: String },
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
        if series.traffic.rate != Rate::Max {
            let (series, rate) = (series.name.clone(), series.traffic.rate.to_string());
            return Err(ItemError::Rate { series, rate });
        }
        if series.traffic.each_sender().len() > 1 {
            return Err(ItemError::Directions { series: series.name.clone() });
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

fn item(plan: &Plan, terms: &Terms, series: &Series, size: FrameSize) -> Result<Item, ItemError> {
    let mut series = series.clone();
    let mut name = series.name.clone();
    if let Some(sizes) = size.sizes() {
        let streams = series.traffic.streams.with_sizes(&sizes);
        let streams = streams.map_err(|error| ItemError::Size {
            series: series.name.clone(),
            size: size.to_string(),
            cause: error.to_string(),
        })?;
        let senders = series.traffic.senders.clone();
        let identity = TrafficIdentity { streams: &streams, rate: Rate::Max, senders: &senders };
        let id = identity::traffic_id(setting(plan, &series), identity);
        name = format!("{name}.size={size}");
        let traffic = format!("{}.size={size}", series.traffic.name);
        series.traffic = Traffic { name: traffic, id, streams, rate: Rate::Max, senders };
        if let TestbedSpec::Hosts(hosts) = &plan.testbed
            && let Some(cause) = hosts::refusal(hosts, &series.traffic)
        {
            let (series, size) = (series.name, size.to_string());
            return Err(ItemError::Size { series, size, cause });
        }
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

    /// Its traffic at a rate, for one trial.
    #[must_use]
    pub(crate) fn traffic_at(&self, rate: Rate) -> Traffic {
        Traffic { rate, ..self.series.traffic.clone() }
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
