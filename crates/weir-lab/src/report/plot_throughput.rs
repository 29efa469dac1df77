//! Throughput per series: every iteration as a mark, the median as a bar, minimum and maximum as
//! a whisker, grouped by what is compared, with calibration as the reference.

use maud::{Markup, html};

use super::svg::{
    Chart, Format, Scale, clip, cross, label, line, mark, px, text_width, ticks, top,
};
use super::{Report, dut_label, group_label, is_valid, text};
use crate::summary::SeriesSummary;

/// Height of a group's heading.
const HEAD: f64 = 30.0;
/// Space between groups.
const GAP: f64 = 16.0;
/// Height of the axis with its title.
const AXIS: f64 = 46.0;
/// Calibration is drawn as a line if it is at most this many times the largest figure.
const REFERENCE_MAX: f64 = 1.5;
/// Iterations are spread over this height, so that equal ones stay apart.
const SPREAD: f64 = 16.0;

/// Where things stand.
#[derive(Debug, Clone, Copy)]
struct Frame {
    format: Format,
    label_width: f64,
    row: f64,
    scale: Scale,
}

/// Draws it.
pub(super) fn chart(report: &Report<'_>, format: Format) -> Chart {
    let groups = report.summary.groups();
    let (values, decimals) = ticks(domain(report) / 1e6, tick_count(format));
    let frame = frame(report, format, top(values.iter().copied()) * 1e6);
    let mut y = 0.0;
    let mut bodies = Vec::new();
    for group in &groups {
        let height = frame.row * group.iter().fold(0.0, |n, _| n + 1.0);
        bodies.push(group_body(report, &frame, group, y, height));
        y += HEAD + height + GAP;
    }
    let bottom = (y - GAP).max(HEAD);
    let axis = axis(&frame, &values, decimals, bottom);
    Chart {
        id: format!("throughput-{}", format.name()),
        title: "Throughput by series".to_owned(),
        description: "Packets per second delivered at the sink. A mark is one iteration, the bar \
                      ends at their median, the whisker spans minimum to maximum, a cross is an \
                      iteration that does not count."
            .to_owned(),
        width: format.width(),
        height: bottom + AXIS,
        body: html! { (axis) @for body in bodies { (body) } },
    }
}

fn tick_count(format: Format) -> f64 {
    match format {
        Format::Wide => 7.0,
        Format::Narrow => 4.0,
    }
}

/// The largest figure, and calibration where it is near enough to be drawn.
fn domain(report: &Report<'_>) -> f64 {
    let max = top(report.data.cells.iter().map(|(r, _)| r.result.rate_pps));
    let near = |c: &f64| *c <= max * REFERENCE_MAX;
    top(report.summary.series.iter().filter_map(|s| s.calibration_pps).filter(near).chain([max]))
}

fn frame(report: &Report<'_>, format: Format, max: f64) -> Frame {
    let widest = report.summary.series.iter().map(|s| text_width(&dut_label(s)));
    let label_width = match format {
        Format::Wide => widest.fold(60.0, f64::max).min(200.0) + 14.0,
        Format::Narrow => 10.0,
    };
    let row = if format == Format::Wide { 34.0 } else { 48.0 };
    let range = (label_width, format.width() - 62.0);
    Frame { format, label_width, row, scale: Scale::from_zero(max, range) }
}

fn axis(frame: &Frame, values: &[f64], decimals: usize, bottom: f64) -> Markup {
    html! {
        @for value in values {
            @let x = frame.scale.at(value * 1e6);
            (line("grid", (x, 18.0), (x, bottom + 4.0)))
            (label("m small mid", x, bottom + 20.0, &text::signed(*value, decimals)))
        }
        (label("m small", frame.label_width - 8.0, bottom + 40.0, "Mpps delivered"))
    }
}

fn group_body(
    report: &Report<'_>,
    frame: &Frame,
    group: &[&SeriesSummary],
    y: f64,
    height: f64,
) -> Markup {
    let calibration = group.iter().find_map(|s| s.calibration_pps);
    let reference = calibration.filter(|&c| c <= frame.scale.domain.1);
    let note = calibration.map(|c| match frame.format {
        Format::Wide => format!("calibration without DUT {} Mpps", text::mpps(c)),
        Format::Narrow => format!("cal. {}", text::mpps(c)),
    });
    let note_width = note.as_deref().map_or(0.0, text_width);
    let title = clip(&group_label(group[0]), frame.format.width() - note_width - 12.0);
    html! {
        rect fill="var(--bg)" x="0" y=(px(y)) width=(px(frame.format.width()))
            height=(px(HEAD - 4.0)) {}
        (label("b", 0.0, y + 16.0, &title))
        @if let Some(note) = note {
            (label("m small end", frame.format.width(), y + 16.0, &note))
        }
        @if let Some(rate) = reference {
            @let x = frame.scale.at(rate);
            (line("reference", (x, y + HEAD - 4.0), (x, y + HEAD + height)))
        }
        @for (series, index) in group.iter().zip(0_u32..) {
            (row(report, frame, series, y + HEAD + f64::from(index) * frame.row))
        }
    }
}

fn row(report: &Report<'_>, frame: &Frame, series: &SeriesSummary, y: f64) -> Markup {
    let colour = report.colour(series);
    let name = dut_label(series);
    let (text_y, middle) = match frame.format {
        Format::Wide => (y + frame.row / 2.0 + 4.0, y + frame.row / 2.0),
        Format::Narrow => (y + 11.0, y + 29.0),
    };
    let room = if frame.format == Format::Wide { frame.label_width - 14.0 } else { 340.0 };
    let zero = frame.scale.at(0.0);
    html! {
        g class=(super::colour_class(colour)) {
            (label("", 0.0, text_y, &clip(&name, room)))
            @if let Some(rate) = series.rate_pps {
                @let median = frame.scale.at(rate.median);
                @let (low, high) = (frame.scale.at(rate.min), frame.scale.at(rate.max));
                rect class="bar" x=(px(zero)) y=(px(middle - 11.0)) width=(px(median - zero))
                    height="22" {}
                (line("whisker", (low, middle), (high, middle)))
                (line("whisker", (low, middle - 5.0), (low, middle + 5.0)))
                (line("whisker", (high, middle - 5.0), (high, middle + 5.0)))
                (line("median", (median, middle - 11.0), (median, middle + 11.0)))
                (marks(report, frame, series, middle))
                (label("b", high + 10.0, middle + 4.0, &text::mpps(rate.median)))
            } @else {
                (marks(report, frame, series, middle))
                (label("m small", zero + 14.0, middle + 4.0, "no valid iteration"))
            }
        }
    }
}

/// The iterations, from top to bottom in their order.
fn marks(report: &Report<'_>, frame: &Frame, series: &SeriesSummary, middle: f64) -> Markup {
    let shape = report.colour(series);
    let cells = report.cells(series);
    let count = cells.iter().fold(0.0, |n, _| n + 1.0);
    html! {
        @for (trial, index) in cells.iter().zip(0_u32..) {
            @let record = &trial.0;
            @let offset = (f64::from(index) + 0.5) / count * SPREAD - SPREAD / 2.0;
            @let (x, y) = (frame.scale.at(record.result.rate_pps), middle + offset);
            @let title = format!("iteration {}: {} Mpps, {}", record.iteration,
                text::mpps(record.result.rate_pps), record.verdict.kind.name());
            @if is_valid(trial) { (mark(shape, x, y, &title)) } @else { (cross(x, y, &title)) }
        }
    }
}
