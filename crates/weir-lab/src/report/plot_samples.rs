//! The samples of one series over time: one line per iteration.
//!
//! All series of a traffic share their scale, so that small plots side by side can be compared.

use maud::{Markup, html};

use super::svg::{Chart, Format, Scale, clip, identifier, label, line, px, ticks, top};
use super::{Report, dut_label, group_label, is_valid, text};
use crate::record::Sample;
use crate::summary::SeriesSummary;

/// Points of a line; longer trials are averaged over neighbouring samples.
const POINTS_MAX: usize = 360;

const TOP: f64 = 34.0;
const PLOT: f64 = 110.0;
const LEFT: f64 = 40.0;

/// Draws the series at `index` of the summary.
pub(super) fn chart(report: &Report<'_>, index: usize, format: Format) -> Chart {
    let series = &report.summary.series[index];
    let width = if format == Format::Wide { 424.0 } else { Format::Narrow.width() };
    let peers: Vec<&SeriesSummary> =
        report.summary.series.iter().filter(|s| s.comparable(series)).collect();
    let samples = |s: &&SeriesSummary| {
        report.cells(s).into_iter().map(|(_, samples)| rates(samples)).collect::<Vec<_>>()
    };
    let points: Vec<(f64, f64)> = peers.iter().flat_map(samples).flatten().collect();
    let (y_ticks, y_decimals) = ticks(top(points.iter().map(|p| p.1)) / 1e6, 3.0);
    let (x_ticks, x_decimals) = ticks(top(points.iter().map(|p| p.0)), 5.0);
    let x = Scale::from_zero(top(points.iter().map(|p| p.0)), (LEFT, width - 8.0));
    let y = Scale::from_zero(top(y_ticks.iter().copied()) * 1e6, (TOP + PLOT, TOP));
    let colour = super::colour_class(report.colour(series));
    let body = html! {
        g class=(colour) {
            rect fill="currentColor" x="0" y="4" width="10" height="10" rx="2" {}
        }
        (label("b", 16.0, 13.0, &clip(&dut_label(series), width * 0.4)))
        (label("m small end", width - 8.0, 13.0, &clip(&group_label(series), width * 0.52)))
        @for value in &y_ticks {
            (line("grid", (LEFT, y.at(value * 1e6)), (width - 8.0, y.at(value * 1e6))))
            (label("m small end", LEFT - 6.0, y.at(value * 1e6) + 4.0,
                &text::signed(*value, y_decimals)))
        }
        @for value in x_ticks.iter().filter(|v| **v <= x.domain.1 * 1.001) {
            (label("m small mid", x.at(*value), TOP + PLOT + 17.0,
                &text::signed(*value, x_decimals)))
        }
        (label("m small end", width - 8.0, TOP + PLOT + 32.0, "seconds"))
        (label("m small", 0.0, TOP + PLOT + 32.0, "Mpps"))
        g class=(colour) { (runs(report, series, &x, &y)) }
    };
    Chart {
        id: format!("samples-{index}-{}-{}", identifier(&series.name), format.name()),
        title: format!("Samples over time: {}", series.name),
        description: format!(
            "Packets per second delivered at the sink over the measurement, one line for each of \
             the {} iterations; dashed lines do not count.",
            series.iterations
        ),
        width,
        height: TOP + PLOT + 38.0,
        body,
    }
}

fn runs(report: &Report<'_>, series: &SeriesSummary, x: &Scale, y: &Scale) -> Markup {
    html! {
        @for trial in report.cells(series) {
            @let (record, samples) = trial;
            @let class = if is_valid(trial) { "run" } else { "run off" };
            @let points = rates(samples).into_iter()
                .map(|(t, rate)| format!("{},{}", px(x.at(t)), px(y.at(rate))))
                .collect::<Vec<_>>().join(" ");
            polyline class=(class) points=(points) {
                title { "iteration " (record.iteration) ": median "
                    (text::mpps(record.result.rate_pps)) " Mpps" }
            }
        }
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

#[expect(clippy::cast_precision_loss, reason = "a plot needs fewer digits than 53 bits hold")]
fn float(value: u64) -> f64 {
    value as f64
}
