//! Throughput along the numeric axis of the campaign: one curve per DUT.

use maud::{Markup, html};

use super::svg::{Chart, Format, Scale, clip, label, line, mark, px, text_width, ticks, top};
use super::{Report, text};
use crate::gnuplot;
use crate::summary::SeriesSummary;

/// From this ratio of the largest to the smallest position on, the axis is logarithmic.
const LOG_RATIO: f64 = 100.0;

const TOP: f64 = 10.0;
const PLOT: f64 = 260.0;
const LEFT: f64 = 44.0;

/// Draws it; `None` without a numeric axis, or with a single position on it.
pub(super) fn chart(report: &Report<'_>, format: Format) -> Option<Chart> {
    let axis = report.summary.axis.as_ref()?;
    let positions = positions(report);
    let (first, last) = (positions.first()?.0, positions.last()?.0);
    if first >= last {
        return None;
    }
    let width = format.width();
    let curves = gnuplot::curves(&report.summary);
    let log = first > 0.0 && last / first >= LOG_RATIO;
    let x = Scale { domain: (first, last), range: (LEFT + 16.0, width - 24.0), log };
    let max = top(report.summary.series.iter().filter_map(|s| s.rate_pps).map(|s| s.max));
    let (y_ticks, decimals) = ticks(max / 1e6, 5.0);
    let y = Scale::from_zero(top(y_ticks.iter().copied()) * 1e6, (TOP + PLOT, TOP));
    let bottom = TOP + PLOT;
    let dashes = dashes(report, &curves);
    let (legend, legend_height) = legend(report, &curves, &dashes, (bottom + 58.0, width));
    let body = html! {
        @for value in &y_ticks {
            (line("grid", (LEFT, y.at(value * 1e6)), (width, y.at(value * 1e6))))
            (label("m small end", LEFT - 6.0, y.at(value * 1e6) + 4.0,
                &text::signed(*value, decimals)))
        }
        (x_labels(&positions, &x, bottom))
        (label("m small end", width, bottom + 38.0, &axis_title(axis, log)))
        (label("m small", 0.0, bottom + 38.0, "Mpps delivered"))
        @for ((_, curve), dash) in curves.iter().zip(&dashes) {
            (curve_body(report, curve, dash, (&x, &y)))
        }
        (legend)
    };
    Some(Chart {
        id: format!("axis-{}", format.name()),
        title: format!("Throughput by {axis}"),
        description: format!(
            "Median packets per second delivered at the sink against {axis}, one curve per DUT \
             and traffic; whiskers span minimum to maximum."
        ),
        width,
        height: bottom + 50.0 + legend_height,
        body,
    })
}

fn axis_title(axis: &str, log: bool) -> String {
    if log { format!("{axis}, logarithmic") } else { axis.to_owned() }
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

/// A tick at every position, and a label wherever there is room for one.
fn x_labels(positions: &[(f64, String)], x: &Scale, bottom: f64) -> Markup {
    let mut free_from = f64::MIN;
    html! {
        (line("axis", (LEFT, bottom), (x.range.1 + 24.0, bottom)))
        @for (position, name) in positions {
            @let at = x.at(*position);
            @let half = text_width(name) / 2.0;
            (line("axis", (at, bottom), (at, bottom + 4.0)))
            @if at - half >= free_from {
                (label("m small mid", at, bottom + 18.0, name))
                @let () = free_from = at + half + 6.0;
            }
        }
    }
}

/// The class of each curve's line: curves of one DUT share its colour and differ by their dashes.
fn dashes(report: &Report<'_>, curves: &[(String, Vec<&SeriesSummary>)]) -> Vec<String> {
    let colour = |curve: &[&SeriesSummary]| curve.first().map(|s| report.colour(s));
    let earlier = |at: usize| {
        let same = |(_, c): &&(String, Vec<&SeriesSummary>)| colour(c) == colour(&curves[at].1);
        curves[..at].iter().filter(same).count()
    };
    (0..curves.len()).map(|at| format!("curve d{}", earlier(at) % 3)).collect()
}

fn curve_body(
    report: &Report<'_>,
    curve: &[&SeriesSummary],
    class: &str,
    (x, y): (&Scale, &Scale),
) -> Markup {
    let points: Vec<(f64, &SeriesSummary)> =
        curve.iter().filter_map(|s| Some((x.at(s.axis?), *s))).collect();
    let path = points
        .iter()
        .filter_map(|(at, s)| Some(format!("{},{}", px(*at), px(y.at(s.median_pps()?)))))
        .collect::<Vec<_>>()
        .join(" ");
    let shape = curve.first().map_or(0, |s| report.colour(s));
    html! {
        g class=(super::colour_class(shape)) {
            polyline class=(class) points=(path) {}
            @for (at, series) in &points {
                @if let Some(rate) = series.rate_pps {
                    (line("whisker", (*at, y.at(rate.min)), (*at, y.at(rate.max))))
                    (mark(shape, *at, y.at(rate.median),
                        &format!("{}: {} Mpps", series.name, text::mpps(rate.median))))
                }
            }
        }
    }
}

fn legend(
    report: &Report<'_>,
    curves: &[(String, Vec<&SeriesSummary>)],
    dashes: &[String],
    (top, width): (f64, f64),
) -> (Markup, f64) {
    let mut x = LEFT;
    let mut y = top;
    let mut items = Vec::new();
    for ((name, curve), class) in curves.iter().zip(dashes) {
        let needed = 32.0 + text_width(name) + 18.0;
        if x > LEFT && x + needed > width {
            x = LEFT;
            y += 20.0;
        }
        let shape = curve.first().map_or(0, |s| report.colour(s));
        items.push(html! {
            g class=(super::colour_class(shape)) {
                (line(class, (x, y - 4.0), (x + 24.0, y - 4.0)))
                (mark(shape, x + 12.0, y - 4.0, name))
                (label("small", x + 31.0, y, &clip(name, width - x - 34.0)))
            }
        });
        x += needed;
    }
    (html! { @for item in items { (item) } }, y + 12.0 - top)
}
