//! The figures of searches: what of their results each of them shows. Results in, [`Figure`]s out.

use super::record::{CurvePoint, GoalRecord, ItemResult, LatencyPoint, MeanDelays, StepOutcome};
use crate::collection::Unit;
use crate::plot::axis::{self, AxisScale, Quantity};
use crate::plot::{self, Body, Curve, Figure, LinePanel, XAxis};

/// Losses as they are read.
const PER_CENT: Quantity = Quantity { divisor: 0.01, name: "% lost" };

/// The colour of loads that were forwarded, and of the lower bound.
const GOOD: usize = 0;
/// The colour of loads that were not, and of the upper bound.
const BAD: usize = 1;
/// The colour of the line from load to load.
const TRIED: usize = 2;
/// The colour of trials that said nothing.
const UNUSED: usize = 3;

/// Numbers of trials that have room on an axis.
const NUMBERS_MAX: u32 = 8;

/// How far an axis reaches beyond the highest load, so that its mark is whole.
const HEADROOM: f64 = 1.05;

/// Items that one figure shows: they differ in nothing but their DUT.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// What they have in common.
    pub(super) title: String,
    /// Each with the number of its DUT's colour.
    pub(super) items: Vec<(usize, &'a ItemResult)>,
}

/// The items by what they have in common, in their order.
pub(super) fn groups(items: &[ItemResult]) -> Vec<Group<'_>> {
    let (mut groups, mut duts): (Vec<Group<'_>>, Vec<&str>) = (Vec::new(), Vec::new());
    for item in items {
        let colour = duts.iter().position(|dut| *dut == item.dut).unwrap_or_else(|| {
            duts.push(&item.dut);
            duts.len() - 1
        });
        let title = item.name.replacen(&format!("{}.", item.dut), "", 1);
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.items.push((colour, item)),
            None => groups.push(Group { title, items: vec![(colour, item)] }),
        }
    }
    groups
}

/// The share that was lost by load; `None` where no load was offered.
pub(super) fn loss(group: &Group<'_>) -> Option<Figure> {
    let point = |point: &CurvePoint| at(point.load_pps, point.loss_ratio?);
    let curves = curves(group, |item| {
        item.loss_curve.iter().flat_map(|curve| curve.points.iter().filter_map(point)).collect()
    })?;
    let values = curves.len() == 1;
    let panel = LinePanel { values, ..panel(None, PER_CENT, 220.0, curves) };
    Some(Figure {
        title: format!("Loss by load: {}", group.title),
        description: "The share of the offered packets that was lost, against the load in packets \
                      per second, one curve for each DUT."
            .to_owned(),
        note: format!("{}: the share of the packets that was lost, by load.", group.title),
        body: Body::Lines(vec![panel]),
    })
}

/// A quantile of latency: what it is called, and the mean of it.
type Quantile = (&'static str, fn(&MeanDelays) -> Option<f64>);

/// The quantiles that are drawn.
const QUANTILES: [Quantile; 3] = [
    ("p50", |mean| Some(mean.p50_ns)),
    ("p99", |mean| Some(mean.p99_ns)),
    ("p99.9", |mean| mean.p999_ns),
];

/// Latency by load, a figure for each quantile that was measured: they differ by orders of
/// magnitude, and each has its own scale.
pub(super) fn latency(group: &Group<'_>) -> Vec<Figure> {
    QUANTILES.iter().filter_map(|quantile| latency_quantile(group, quantile)).collect()
}

fn latency_quantile(group: &Group<'_>, (name, of): &Quantile) -> Option<Figure> {
    let point = |point: &LatencyPoint| at(point.load_pps, of(point.mean.as_ref()?)?);
    let curves = curves(group, |item| {
        item.latency.iter().flat_map(|latency| latency.points.iter().filter_map(point)).collect()
    })?;
    let highest_ns = axis::top(curves.iter().flat_map(|curve| &curve.points).map(|p| p.y));
    let (divisor, unit) = match highest_ns {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "µs"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let title = format!("{name} · {}", group.title);
    let quantity = Quantity { divisor, name: unit };
    Some(Figure {
        title: format!("Latency by load, {name}: {}", group.title),
        description: format!(
            "The {name} quantile of one-way latency, mean over the repetitions, against the load \
             in packets per second, one curve for each DUT."
        ),
        note: String::new(),
        body: Body::Lines(vec![panel(Some(title), quantity, 160.0, curves)]),
    })
}

/// The loads of a search in the order in which they were tried, a panel for each goal; `None` where
/// they were not kept.
pub(super) fn path(item: &ItemResult) -> Option<Figure> {
    let highest_pps = axis::top(item.path.iter().map(|step| step.load_pps));
    let quantity = Quantity::suited(highest_pps, Unit::Pps);
    let count = u32::try_from(item.path.len()).unwrap_or(u32::MAX);
    let stride = count.div_ceil(NUMBERS_MAX).max(1);
    let numbers: Vec<(f64, String)> = (1..=count)
        .filter(|number| number.is_multiple_of(stride))
        .map(|number| (f64::from(number), number.to_string()))
        .collect();
    let panels = item.goals.iter().enumerate().map(|(index, goal)| {
        let mut panel = panel(Some(goal.name.clone()), quantity, 200.0, steps(item, index, goal));
        panel.x.title = "trial".to_owned();
        panel.x.positions.clone_from(&numbers);
        panel.legend = true;
        panel.reach = Some((1.0, highest_pps * HEADROOM));
        panel
    });
    let panels: Vec<LinePanel> = panels.collect();
    let is_empty = item.path.is_empty() || panels.is_empty();
    (!is_empty).then(|| Figure {
        title: format!("How the rate was found: {}", item.name),
        description: "The load of each trial in packets per second, in their order, whether the \
                      DUT forwarded it well enough, and the bounds that were known by then."
            .to_owned(),
        note: "Every trial at its load, in their order. Dashed lines are the bounds that were \
               known after it."
            .to_owned(),
        body: Body::Lines(panels),
    })
}

/// The curves of a path, as one goal sees it. A mark of its own is a curve of one point.
fn steps(item: &ItemResult, index: usize, goal: &GoalRecord) -> Vec<Curve> {
    let numbered = || item.path.iter().zip(1_u32..).map(|(step, number)| (f64::from(number), step));
    let line = |name: &str, colour, dash, points| Curve {
        name: name.to_owned(),
        colour,
        dash,
        marks: false,
        points,
    };
    let tried = numbered().filter_map(|(number, step)| at(number, step.load_pps)).collect();
    let mut curves = vec![line("tried", TRIED, 0, tried)];
    for (name, colour, is_upper) in [("lower bound", GOOD, false), ("upper bound", BAD, true)] {
        let bound = |(number, step): (f64, &super::record::PathStep)| {
            let bounds = step.bounds.get(index)?;
            at(number, if is_upper { bounds.upper_pps? } else { bounds.lower_pps? })
        };
        let points: Vec<plot::CurvePoint> = numbered().filter_map(bound).collect();
        if !points.is_empty() {
            curves.push(line(name, colour, 1, stairs(&points)));
        }
    }
    curves.extend(numbered().map(|(number, step)| {
        let (name, colour) = match outcome(step.outcome, goal) {
            Some(true) => ("forwarded", GOOD),
            Some(false) => ("lost too much", BAD),
            None => ("not used", UNUSED),
        };
        let points = at(number, step.load_pps).into_iter().collect();
        Curve { name: name.to_owned(), colour, dash: 0, marks: true, points }
    }));
    curves
}

/// Points that stay at their height until the next one.
fn stairs(points: &[plot::CurvePoint]) -> Vec<plot::CurvePoint> {
    let corner =
        |pair: &[plot::CurvePoint]| [plot::CurvePoint { y: pair[0].y, ..pair[1] }, pair[1]];
    points.iter().take(1).copied().chain(points.windows(2).flat_map(corner)).collect()
}

/// Whether a trial was good enough for a goal; `None` where it says nothing.
pub(super) fn outcome(outcome: StepOutcome, goal: &GoalRecord) -> Option<bool> {
    match outcome {
        StepOutcome::LossRatio(loss_ratio) => Some(loss_ratio <= goal.goal.loss_ratio),
        StepOutcome::NotOffered | StepOutcome::Void | StepOutcome::WarmUp => None,
    }
}

/// A curve for each item that has points; `None` without any.
fn curves(
    group: &Group<'_>,
    points: impl Fn(&ItemResult) -> Vec<plot::CurvePoint>,
) -> Option<Vec<Curve>> {
    let curve = |(colour, item): &(usize, &ItemResult)| {
        let mut points = points(item);
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if points.is_empty() {
            return None;
        }
        Some(Curve { name: item.dut.clone(), colour: *colour, dash: 0, marks: true, points })
    };
    let curves: Vec<Curve> = group.items.iter().filter_map(curve).collect();
    (!curves.is_empty()).then_some(curves)
}

fn panel(title: Option<String>, y: Quantity, height: f64, curves: Vec<Curve>) -> LinePanel {
    let x = XAxis {
        title: "load, packets per second".to_owned(),
        scale: AxisScale::Linear,
        positions: Vec::new(),
    };
    let (legend, values) = (curves.len() > 1, false);
    LinePanel { title, x, y, values, legend, height, reach: Some((0.0, 0.0)), curves }
}

/// A point that can be drawn.
fn at(x: f64, y: f64) -> Option<plot::CurvePoint> {
    (x.is_finite() && y.is_finite()).then_some(plot::CurvePoint { x, y, bar: None })
}
