//! The figures of a campaign: what of its records each of them shows.

use super::{Report, about, dut_label, group_label, is_valid, words};
use crate::collection::Unit;
use crate::counters::Place;
use crate::document::Tag;
use crate::gnuplot;
use crate::number;
use crate::plot::axis::{self, AxisScale, Quantity};
use crate::plot::collect::STRIP_NOTE;
use crate::plot::{
    Body, Curve, CurvePoint, Figure, LinePanel, Mark, Part, Reference, RowAbout, Stack, StackRow,
    Strip, StripRow, Tint, XAxis,
};
use crate::record::Sample;
use crate::summary::{LedgerSummary, SeriesSummary};

/// Points of a line over time; longer trials are averaged over neighbouring samples.
const POINTS_MAX: usize = 360;

/// Throughput per series: every iteration, grouped by what is compared, against calibration.
pub(super) fn throughput(report: &Report<'_>) -> Figure {
    let unit = report.summary.unit();
    let mut rows = Vec::new();
    for group in report.summary.groups() {
        let calibration = group.iter().find_map(|s| s.calibration_pps);
        let reference = calibration.map(|rate_pps| Reference {
            value: rate_pps,
            text: format!("calibration {}", unit.written(rate_pps)),
        });
        rows.push(StripRow::Heading { text: group_label(group[0]), reference });
        for series in group {
            let trials = about::trials(report, series);
            let mark = |(_, trial, counts): &(String, &super::Trial, bool)| Mark {
                value: trial.0.result.rate_pps,
                counts: *counts,
            };
            rows.push(StripRow::Series {
                name: dut_label(series),
                colour: report.colour(series),
                marks: trials.iter().map(mark).collect(),
            });
        }
    }
    Figure {
        title: "Throughput by series".to_owned(),
        description: sentence(&format!("{}, every iteration as a mark.", subject(unit))),
        note: format!(
            "{STRIP_NOTE} Calibration is the same traffic from generator to sink with no DUT \
             between."
        ),
        body: Body::Strip(Strip { unit, title: unit.done().to_lowercase(), rows }),
    }
}

/// What figures count, in words.
const fn subject(unit: Unit) -> &'static str {
    match unit {
        Unit::Pps | Unit::Bps => "packets per second delivered at the sink",
        Unit::Cps => "connections per second that came through all of their steps",
        Unit::Connections => "connections that came through and are not closed",
        Unit::Rps => "requests per second that got a whole, good answer",
    }
}

/// The same words at the beginning of a sentence.
fn sentence(words: &str) -> String {
    let (first, rest) = words.split_at(1);
    first.to_uppercase() + rest
}

/// What is told of each row of the figure above.
pub(super) fn throughput_about(report: &Report<'_>) -> Vec<RowAbout> {
    let groups = report.summary.groups();
    groups.iter().flatten().map(|series| about::of_trials(report, series)).collect()
}

/// Throughput along the numeric axis of the campaign; `None` without one, or with a single
/// position on it.
pub(super) fn along_axis(report: &Report<'_>) -> Option<Figure> {
    let name = report.summary.axis.as_ref()?;
    let positions = positions(report);
    let places: Vec<f64> = positions.iter().map(|(at, _)| *at).collect();
    if places.len() < 2 {
        return None;
    }
    let mut seen: Vec<usize> = Vec::new();
    let curves: Vec<Curve> = gnuplot::curves(&report.summary)
        .into_iter()
        .map(|(_, series)| {
            let colour = series.first().map_or(0, |s| report.colour(s));
            let name = series.first().map_or_else(String::new, |s| curve_name(s, name));
            let dash = seen.iter().filter(|c| **c == colour).count();
            seen.push(colour);
            let point = |s: &&SeriesSummary| {
                let rate = s.rate_pps?;
                Some(CurvePoint { x: s.axis?, y: rate.median, bar: Some((rate.min, rate.max)) })
            };
            let points = series.iter().filter_map(point).collect();
            Curve { name, colour, dash, marks: true, points }
        })
        .collect();
    let scale = AxisScale::suited(&places);
    let highest = curves.iter().flat_map(|curve| &curve.points).map(CurvePoint::high);
    // A legend of one curve would be a legend of nothing: its name stands above it.
    let alone = curves.first().map(|curve| curve.name.clone()).filter(|_| curves.len() == 1);
    let panel = LinePanel {
        title: alone,
        x: XAxis { title: name.clone(), quantity: None, scale, positions },
        y: Quantity::rates(axis::top(highest), report.summary.unit()),
        y_scale: AxisScale::Linear,
        values: curves.len() == 1,
        legend: curves.len() > 1,
        height: 260.0,
        reach: None,
        curves,
    };
    Some(Figure {
        title: format!("Throughput by {name}"),
        description: format!(
            "Median {} against {name}, one curve per DUT and traffic; bars span minimum to \
             maximum.",
            subject(report.summary.unit())
        ),
        note: "A point is the median of the valid iterations; bars span their minimum to their \
               maximum."
            .to_owned(),
        body: Body::Lines(vec![panel]),
    })
}

/// A curve along `axis` as tables name what it is of: DUT, traffic, the other sweep values.
fn curve_name(series: &SeriesSummary, axis: &str) -> String {
    let others = series.sweep.iter().filter(|(name, _)| name != axis);
    let sweeps = others.map(|(name, value)| format!("{name}={}", value.label));
    let parts = [dut_label(series), series.traffic_base.clone()].into_iter().chain(sweeps);
    parts.collect::<Vec<_>>().join(" · ")
}

/// What is told of each curve of the figure above.
pub(super) fn along_axis_about(report: &Report<'_>) -> Vec<RowAbout> {
    let row = |(_, series): (String, Vec<&SeriesSummary>)| {
        let shown = || series.iter().filter(|s| s.rate_pps.is_some() && s.axis.is_some());
        let dut = series.first().map(|s| dut_label(s));
        let points = shown().map(|s| about::of_series(report, s)).collect();
        RowAbout { tag: Tag { dut, traffic: None }, points, whole: None }
    };
    gnuplot::curves(&report.summary).into_iter().map(row).collect()
}

/// Every position on the axis with its label as written, in order.
fn positions(report: &Report<'_>) -> Vec<(f64, String)> {
    let axis = report.summary.axis.as_deref();
    let mut positions: Vec<(f64, String)> = Vec::new();
    for series in &report.summary.series {
        let value = series.sweep.iter().find(|(name, _)| Some(name.as_str()) == axis);
        if let Some((position, (_, value))) = series.axis.zip(value)
            && !positions.iter().any(|(p, _)| p.total_cmp(&position).is_eq())
        {
            positions.push((position, value.label.clone()));
        }
    }
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    positions
}

/// The samples of the series at `index` over time, one line per iteration. All series of a traffic
/// share their scale, so that small figures beside each other can be compared.
pub(super) fn samples(report: &Report<'_>, index: usize) -> Figure {
    let series = &report.summary.series[index];
    let unit = series.unit.of_samples();
    let peers = report.summary.series.iter().filter(|s| s.comparable(series));
    let all: Vec<(f64, f64)> =
        peers.flat_map(|s| report.cells(s)).flat_map(|(_, samples)| rates(samples)).collect();
    let top = |values: &dyn Fn(&(f64, f64)) -> f64| axis::top(all.iter().map(values));
    let reach = (top(&|p| p.0), top(&|p| p.1));
    let curve = |trial: &&super::Trial| {
        let points = rates(&trial.1).into_iter().map(|(x, y)| CurvePoint { x, y, bar: None });
        Curve {
            name: format!("iteration {}", trial.0.iteration),
            colour: report.colour(series),
            dash: usize::from(!is_valid(trial)),
            marks: false,
            points: points.collect(),
        }
    };
    // The axis begins at 0 though no sample does.
    let mut curves: Vec<Curve> = report.cells(series).iter().map(curve).collect();
    for curve in &mut curves {
        curve.points.retain(|p| p.x.is_finite() && p.y.is_finite());
    }
    let name = format!("{} · {}", dut_label(series), group_label(series));
    let panel = LinePanel {
        title: Some(name.clone()),
        x: XAxis {
            title: "seconds".to_owned(),
            quantity: None,
            scale: AxisScale::Linear,
            positions: Vec::new(),
        },
        y: Quantity::rates(reach.1, unit),
        y_scale: AxisScale::Linear,
        values: false,
        legend: false,
        height: 110.0,
        reach: Some(reach),
        curves,
    };
    Figure {
        // The panel has the whole name; here there is room for what it is of.
        title: format!("Over time: {}", dut_label(series)),
        description: format!(
            "{name}: {} over the measurement, one line for each of {}; dashed lines do not count.",
            subject(unit),
            number::counted_len(series.iterations, "iteration")
        ),
        note: "One line per iteration; a dashed line does not count.".to_owned(),
        body: Body::Lines(vec![panel]),
    }
}

/// Seconds at the middle of each interval, and packets per second in it.
fn rates(samples: &[Sample]) -> Vec<(f64, f64)> {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    let kept: Vec<&Sample> = samples.iter().step_by(step).collect();
    kept.windows(2)
        .filter_map(|pair| {
            let duration_ns = pair[1].t_ns.checked_sub(pair[0].t_ns).filter(|&d| d > 0)?;
            let packets = pair[1].rx_packets.checked_sub(pair[0].rx_packets)?;
            let rate = float(packets) / float(duration_ns) * 1e9;
            Some((float(pair[0].t_ns.midpoint(pair[1].t_ns)) / 1e9, rate))
        })
        .collect()
}

/// Where the packets of each series went: the offered total as one bar of 100 %.
pub(super) fn ledger(report: &Report<'_>) -> Figure {
    let things = report.summary.unit().things();
    let legend = tints(report);
    let mut rows = Vec::new();
    for group in report.summary.groups() {
        rows.push(StackRow::Heading(group_label(group[0])));
        for series in group {
            let parts = series.ledger.as_ref().map_or_else(Vec::new, |l| parts(l, &legend));
            let absent =
                if series.ledger.is_some() { "nothing was offered" } else { "no valid iteration" };
            rows.push(StackRow::Whole { name: dut_label(series), parts, absent });
        }
    }
    Figure {
        title: format!("Where the {things} went"),
        description: format!(
            "Every series as a bar of all offered {things}: delivered, lost to each named counter, \
             and the residual that no counter explains."
        ),
        note: "All that was offered, warm-up included, and where it ended. The residual is what \
               no counter explains."
            .to_owned(),
        body: Body::Stack(Stack { rows, legend }),
    }
}

/// By what each row of the figure above is filtered.
pub(super) fn ledger_about(report: &Report<'_>) -> Vec<RowAbout> {
    let groups = report.summary.groups();
    let row = |series: &&SeriesSummary| RowAbout { tag: about::tag(series), ..RowAbout::default() };
    groups.iter().flatten().map(row).collect()
}

/// Name and tone of every part that occurs, in the order of a packet's way.
fn tints(report: &Report<'_>) -> Vec<(String, Tint)> {
    let tint = |tone: String| Tint { hatched: tone == "residual", tone };
    let mut tints = vec![("delivered".to_owned(), tint("delivered".to_owned()))];
    let drops =
        report.summary.series.iter().filter_map(|s| s.ledger.as_ref()).flat_map(|l| &l.drops);
    let mut seen = [0_usize; 3];
    for drop in drops {
        let name = part_name(&drop.name, drop.place);
        if tints.iter().any(|(n, _)| *n == name) {
            continue;
        }
        let (slot, tones, prefix) = match drop.place {
            Place::Generator => (0, 2, "generator"),
            Place::Dut => (1, 3, "dut"),
            Place::Sink => (2, 2, "sink"),
        };
        tints.push((name, tint(format!("{prefix}{}", seen[slot] % tones))));
        seen[slot] += 1;
    }
    tints.push(("residual".to_owned(), tint("residual".to_owned())));
    tints
}

fn part_name(name: &str, place: Place) -> String {
    format!("{name} ({})", words::place(place))
}

fn parts(ledger: &LedgerSummary, legend: &[(String, Tint)]) -> Vec<Part> {
    let delivered = ledger.points.last().map_or(0, |p| p.packets);
    let packets = |name: &str| match name {
        "delivered" => delivered,
        "residual" => ledger.residual_packets,
        _ => {
            let named = ledger.drops.iter().filter(|d| part_name(&d.name, d.place) == name);
            named.map(|d| d.packets).sum()
        }
    };
    let counted: Vec<(&Tint, u64)> =
        legend.iter().map(|(name, tint)| (tint, packets(name))).filter(|(_, p)| *p > 0).collect();
    let total = float(counted.iter().map(|(_, packets)| packets).sum());
    let part = |(tint, packets): (&Tint, u64)| {
        let share = float(packets) / total;
        Part { tint: tint.clone(), share, text: number::share(share) }
    };
    counted.into_iter().map(part).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a plot needs fewer digits than 53 bits hold")]
fn float(value: u64) -> f64 {
    value as f64
}
