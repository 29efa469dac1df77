//! What comparisons and plots see of searches: a series for each item and each of its goals, with
//! a point for each repetition, the rate that was found.

use serde_json::Value;

use super::item::Item;
use weir_results::collection::{
    CollectedPoint, CollectedSeries, Collection, DUT, FLOWS, GOAL, IMAGE, Level, Origin, TRAFFIC,
    kind_levels,
};
use weir_results::record::{Verdict, VerdictKind};
use weir_results::search::record::{GoalRecord, ItemResult, Limit};

/// The series of searches, in the order of their items.
#[must_use]
pub fn collection(name: &str, environment: Value, found: &[(Item, ItemResult)]) -> Collection {
    let mut all: Vec<CollectedSeries> = Vec::new();
    for (item, result) in found {
        for goal in &result.goals {
            let one = series(item, goal);
            match all.iter_mut().find(|series| series.name == one.name) {
                Some(series) => series.points.extend(one.points),
                None => all.push(one),
            }
        }
    }
    Collection {
        name: name.to_owned(),
        origin: Origin::Search,
        environment,
        yardsticks: Vec::new(),
        series: all,
    }
}

fn series(item: &Item, goal: &GoalRecord) -> CollectedSeries {
    // `NDR` is `.ndr`, `PDR 0.5 %` is `.pdr=0.5%`.
    let label = goal.name.to_lowercase().replace(" %", "%").replace(' ', "=");
    CollectedSeries {
        name: format!("{}.{label}", item.base_name()),
        levels: levels(item, goal),
        unit: item.series.traffic.kind.unit(),
        points: vec![CollectedPoint {
            iteration: item.repeat,
            value: goal.lower_pps.unwrap_or(0.0),
            has_figure: goal.lower_pps.is_some(),
            offered: None,
            cost: goal.cost,
            sizes: std::collections::BTreeMap::new(),
            foreign: std::collections::BTreeMap::new(),
            verdict: Some(verdict(goal)),
            cell: format!("items/{}", item.name),
        }],
        toggle: None,
    }
}

/// What limited the figure, in a campaign's words. One that was not searched to its end is none.
fn verdict(goal: &GoalRecord) -> Verdict {
    let kind = match (goal.limit, goal.lower_pps) {
        (Limit::Stopped | Limit::BelowMinLoad, _) | (_, None) => VerdictKind::Invalid,
        (Limit::Dut, _) => VerdictKind::DutBound,
        (Limit::Ring, _) => VerdictKind::RingBound,
        (Limit::Link, _) => VerdictKind::LinkBound,
        (Limit::Testbed | Limit::MaxLoad, _) => VerdictKind::GeneratorBound,
    };
    Verdict { kind, reason: goal.reason.clone() }
}

#[expect(clippy::cast_precision_loss, reason = "flow counts stay far below 2^53")]
fn levels(item: &Item, goal: &GoalRecord) -> Vec<Level> {
    let level = |dimension: &str, label: &str, number: Option<f64>| Level {
        dimension: dimension.to_owned(),
        label: label.to_owned(),
        number,
    };
    let series = &item.series;
    let mut levels = Vec::new();
    levels.extend(series.image.as_deref().map(|image| level(IMAGE, image, None)));
    levels.push(level(DUT, &series.dut.name, None));
    levels.extend(series.sweep.iter().map(|(name, v)| level(name, &v.label, v.number)));
    levels.push(level(GOAL, &goal.name, None));
    levels.push(level(TRAFFIC, traffic_base(item), None));
    let flows = series.traffic.flow_count();
    levels.push(level(FLOWS, &flows.to_string(), Some(flows as f64)));
    let size_bytes = series.traffic.streams.mean_bytes().round();
    let kinds = (series.traffic.connect(), series.traffic.http());
    levels.extend(kind_levels(kinds, size_bytes));
    levels
}

/// Name of the traffic without what its frame size and sweeps add to it.
fn traffic_base(item: &Item) -> &str {
    let mut name = item.series.traffic.name.as_str();
    let size = format!(".size={}", item.size);
    name = name.strip_suffix(size.as_str()).unwrap_or(name);
    for (sweep, value) in item.series.sweep.iter().rev() {
        let suffix = format!(".{sweep}={}", value.label);
        name = name.strip_suffix(suffix.as_str()).unwrap_or(name);
    }
    name
}
