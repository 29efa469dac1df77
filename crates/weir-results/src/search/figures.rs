//! The figures of searches: what of their results each of them shows. Results in, [`Figure`]s out.

use super::record::{CurvePoint, GoalRecord, ItemResult, LatencyPoint, MeanDelays, StepOutcome};
use crate::collection::Unit;
use crate::plot::axis::{self, AxisScale, Quantity};
use crate::plot::{self, Body, Curve, Figure, LinePanel, XAxis};

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

impl Group<'_> {
    /// What their loads count.
    fn unit(&self) -> Unit {
        self.items.first().map_or(Unit::Pps, |(_, item)| item.unit)
    }
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
    let unit = group.unit();
    let panel = LinePanel { values, ..panel(None, unit, (Quantity::losses(), 220.0), curves) };
    let (things, per_second) = (unit.things(), unit.title().to_lowercase());
    Some(Figure {
        title: format!("Loss by load: {}", group.title),
        description: format!(
            "The share of the offered {things} that was lost, against the load in {per_second}, \
             one curve for each DUT."
        ),
        note: format!("{}: the share of the {things} that was lost, by load.", group.title),
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
    let title = format!("{name} · {}", group.title);
    let quantity = Quantity::delays(highest_ns);
    Some(Figure {
        title: format!("Latency by load, {name}: {}", group.title),
        description: format!(
            "The {name} quantile of one-way latency, mean over the repetitions, against the load \
             in packets per second, one curve for each DUT."
        ),
        note: String::new(),
        body: Body::Lines(vec![panel(Some(title), Unit::Pps, (quantity, 160.0), curves)]),
    })
}

/// The loads of a search in the order in which they were tried, a panel for each goal; `None` where
/// they were not kept.
pub(super) fn path(item: &ItemResult) -> Option<Figure> {
    let loads: Vec<f64> = item.path.iter().map(|step| step.load_pps).collect();
    let highest_pps = axis::top(loads.iter().copied());
    let quantity = Quantity::rates(highest_pps, item.unit);
    let y_scale = AxisScale::of_loads(&loads);
    let count = u32::try_from(item.path.len()).unwrap_or(u32::MAX);
    let stride = count.div_ceil(NUMBERS_MAX).max(1);
    let numbers: Vec<(f64, String)> = (1..=count)
        .filter(|number| number.is_multiple_of(stride))
        .map(|number| (f64::from(number), number.to_string()))
        .collect();
    let panels = item.goals.iter().enumerate().map(|(index, goal)| {
        let curves = steps(item, index, goal);
        let mut panel = panel(Some(goal.name.clone()), item.unit, (quantity, 200.0), curves);
        panel.x.title = "trial".to_owned();
        panel.x.quantity = None;
        panel.y_scale = y_scale;
        panel.x.positions.clone_from(&numbers);
        panel.legend = true;
        panel.reach = Some((1.0, highest_pps * HEADROOM));
        panel
    });
    let panels: Vec<LinePanel> = panels.collect();
    let is_empty = item.path.is_empty() || panels.is_empty();
    (!is_empty).then(|| Figure {
        title: format!("How the rate was found: {}", item.name),
        description: format!(
            "The load of each trial in {}, in order; whether the DUT forwarded it well enough; and \
             the bounds that were known by then.",
            item.unit.title().to_lowercase()
        ),
        note:
            "Every trial in order, at its load. Dashed lines are the bounds that were known after \
               each."
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

/// A panel of curves along the load.
fn panel(
    title: Option<String>,
    loads: Unit,
    (y, height): (Quantity, f64),
    curves: Vec<Curve>,
) -> LinePanel {
    let highest_pps = axis::top(curves.iter().flat_map(|curve| &curve.points).map(|p| p.x));
    let x = XAxis {
        title: "load".to_owned(),
        quantity: Some(Quantity::rates(highest_pps, loads)),
        scale: AxisScale::Linear,
        positions: Vec::new(),
    };
    let (legend, values, y_scale) = (curves.len() > 1, false, AxisScale::Linear);
    let reach = Some((0.0, 0.0));
    LinePanel { title, x, y, y_scale, values, legend, height, reach, curves }
}

/// A point that can be drawn.
fn at(x: f64, y: f64) -> Option<plot::CurvePoint> {
    (x.is_finite() && y.is_finite()).then_some(plot::CurvePoint { x, y, bar: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plot::{Base, Format};

    /// An item whose search tried these loads, of which those up to the last one were forwarded.
    fn item(loads_pps: &[f64]) -> ItemResult {
        let goal = json!({
            "loss_ratio": 0.0, "exceed_ratio": 0.5, "final_trial_s": 1.0, "duration_sum_s": 5.0,
            "width_ratio": 0.05, "initial_trial_s": 1.0,
        });
        let found_pps = loads_pps.last().copied();
        let step = |load_pps: &f64| {
            let loss_ratio = if Some(*load_pps) > found_pps { 0.5 } else { 0.0 };
            let bounds = json!([{ "lower_pps": found_pps, "upper_pps": load_pps }]);
            let outcome = json!({ "loss-ratio": loss_ratio });
            json!({
                "load_pps": load_pps, "duration_s": 1.0, "outcome": outcome, "bounds": bounds,
            })
        };
        let frames = json!({
            "size": "own", "size_bytes_min": 60, "size_bytes_max": 60, "size_bytes_mean": 60.0,
            "size_with_fcs_bytes_min": 64, "size_with_fcs_bytes_max": 64,
        });
        let goal = json!({
            "name": "NDR", "goal": goal, "lower_pps": found_pps, "upper_pps": null,
            "conditional_throughput_pps": null, "indicated_pps": null, "limit": "dut-bound",
            "reason": "",
        });
        let item = json!({
            "schema": 1, "item_id": "x", "name": "linux.t", "dut": "linux", "sweep": [],
            "traffic": "t", "frames": frames, "calibrated_pps": null, "generator_pps": null,
            "min_load_pps": 1.0, "max_load_pps": 2e6, "goals": [goal],
            "path": loads_pps.iter().map(step).collect::<Vec<_>>(), "loss_curve": null,
            "latency": null, "back_to_back": null, "costs": [],
        });
        serde_json::from_value(item).expect("a result")
    }

    fn panel_of(figure: &Figure) -> &LinePanel {
        match &figure.body {
            Body::Lines(panels) => &panels[0],
            _ => panic!("no curves"),
        }
    }

    #[test]
    fn a_path_over_more_than_a_decade_is_logarithmic_and_says_so() {
        let far = path(&item(&[1.5e6, 20e3, 80e3])).expect("a path");
        assert_eq!(panel_of(&far).y_scale, AxisScale::Log(Base::Ten));
        let drawn = far.svg(Format::Wide);
        for label in ["logarithmic", "1 Mpps", "0.1 Mpps", "50 kpps", "trial"] {
            assert!(drawn.contains(&format!("\n{label}\n")), "{label}: {drawn}");
        }
        assert!(far.gnuplot().text("a", "b").contains("set logscale y 10"));
        let near = path(&item(&[1.5e6, 0.9e6, 1.1e6])).expect("a path");
        assert_eq!(panel_of(&near).y_scale, AxisScale::Linear);
        assert!(!near.svg(Format::Wide).contains("logarithmic"));
    }
}
