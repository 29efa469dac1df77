//! Timeline and histogram of a run of `weir http`, as tables and for JSON.

use std::time::Duration;

use serde::Serialize;
use weir_load::client::manager::PoolMeasured;
use weir_results::document::{Column, Row, Table, Terminal};
use weir_results::number::{bar, bps, delay_ns, share};
use weir_wire::units::format_count;

use super::{nanoseconds, per_second, rate};
use crate::traffic::show::Distribution;

/// A second of a run, or more of a long one.
#[derive(Debug, Serialize)]
pub(super) struct StepResult {
    /// Since the first request was due.
    from_ns: u64,
    duration_ns: u64,
    answered_rps: f64,
    failed_rps: f64,
    received_bytes_per_s: f64,
    /// Of the requests answered in it; `None` without any.
    latency_p50_ns: Option<u64>,
    latency_p99_ns: Option<u64>,
    latency_max_ns: Option<u64>,
}

/// The steps of a pool's run.
pub(super) fn timeline(measured: &PoolMeasured) -> Vec<StepResult> {
    let steps = measured.timeline.steps(nanoseconds(measured.run));
    steps
        .map(|(from_ns, duration_ns, step)| {
            let since = |count| per_second(count, Duration::from_nanos(duration_ns));
            StepResult {
                from_ns,
                duration_ns,
                answered_rps: since(step.answered),
                failed_rps: since(step.failed),
                received_bytes_per_s: since(step.received_bytes),
                latency_p50_ns: step.latency.quantile_ns(0.5),
                latency_p99_ns: step.latency.quantile_ns(0.99),
                latency_max_ns: step.latency.max_ns(),
            }
        })
        .collect()
}

/// A line for each step; `None` if one is all there is.
pub(super) fn timeline_table(steps: &[StepResult]) -> Option<String> {
    if steps.len() < 2 {
        return None;
    }
    let columns = vec![
        Column::numbers("from"),
        Column::numbers("answered/s"),
        Column::numbers("failed/s"),
        Column::numbers("received"),
        Column::numbers("p50"),
        Column::numbers("p99"),
        Column::numbers("max"),
        Column::words(""),
    ];
    let most = steps.iter().map(|step| step.answered_rps).fold(0.0, f64::max);
    let rows = steps.iter().map(|step| {
        let time = |time_ns: Option<u64>| time_ns.map_or_else(|| "-".to_owned(), delay_ns);
        Row::from_iter([
            format!("{} s", step.from_ns / 1_000_000_000),
            rate(step.answered_rps),
            rate(step.failed_rps),
            bps(step.received_bytes_per_s * 8.0),
            time(step.latency_p50_ns),
            time(step.latency_p99_ns),
            time(step.latency_max_ns),
            bar(step.answered_rps, most),
        ])
    });
    Some(format!("\n{}", Table::new(columns, rows).text(Terminal::default())))
}

/// How many requests had which latency, in steps of 1, 2 and 5.
pub(super) fn latency_table(latency: &Distribution) -> String {
    let mut counts: Vec<(u64, u64)> = Vec::new();
    let mut bounds = bounds_ns();
    for (_, highest_ns, count) in latency.buckets() {
        // A bucket is narrower than a thousandth of its time.
        while counts.last().is_none_or(|(bound_ns, _)| *bound_ns < *highest_ns) {
            let Some(bound_ns) = bounds.next() else { break };
            // Nothing stands before the first that has some.
            if bound_ns >= *highest_ns || !counts.is_empty() {
                counts.push((bound_ns, 0));
            }
        }
        if let Some((_, sum)) = counts.last_mut() {
            *sum += count;
        }
    }
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let columns = vec![
        Column::numbers("latency up to"),
        Column::numbers("requests"),
        Column::numbers("share"),
        Column::words(""),
    ];
    let rows = counts.iter().map(|(bound_ns, count)| {
        let ratio = *count as f64 / all.max(1) as f64;
        let bar = bar(*count as f64, most as f64);
        Row::from_iter([delay_ns(*bound_ns), format_count(*count), share(ratio), bar])
    });
    format!("\n{}", Table::new(columns, rows).text(Terminal::default()))
}

/// 1, 2, 5, 10, … nanoseconds.
fn bounds_ns() -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    powers.flat_map(|power| [1, 2, 5].into_iter().filter_map(move |step| power.checked_mul(step)))
}

#[cfg(test)]
mod tests {
    use weir_http::figures::Times;

    use super::*;

    #[test]
    fn latencies_stand_below_the_next_bound_and_gaps_are_shown() {
        let mut times = Times::default();
        for (time_ns, count) in [(60_000, 30), (99_000, 10), (101_000, 20), (900_000, 1)] {
            (0..count).for_each(|_| times.record(time_ns));
        }
        let text = latency_table(&Distribution::of_times(&times).unwrap());
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        let of = |bound: &str, unit: &str| {
            let line = lines.iter().find(|line| line.starts_with(&[bound, unit]));
            line.unwrap_or_else(|| panic!("{bound} {unit}: {text}"))[2].to_owned()
        };
        assert_eq!(of("100", "µs"), "40", "{text}");
        assert_eq!(of("200", "µs"), "20", "{text}");
        assert_eq!(of("500", "µs"), "0", "{text}");
        assert_eq!(of("1.00", "ms"), "1", "{text}");
        assert!(!text.contains("50 µs"), "{text}");
        assert!(text.contains(&"#".repeat(40)), "{text}");
    }

    #[test]
    fn a_timeline_is_shown_from_two_steps_on() {
        let step = |from_s: u64, answered_rps| StepResult {
            from_ns: from_s * 1_000_000_000,
            duration_ns: 1_000_000_000,
            answered_rps,
            failed_rps: 0.0,
            received_bytes_per_s: 125_000.0,
            latency_p50_ns: Some(50_000),
            latency_p99_ns: Some(90_000),
            latency_max_ns: None,
        };
        assert_eq!(timeline_table(&[step(0, 1.0)]), None);
        let text = timeline_table(&[step(0, 1000.0), step(1, 500.0)]).unwrap();
        for part in ["from", "1,000", "1.000 Mbit/s", "1 s", "-", &"#".repeat(40)] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.lines().last().unwrap().ends_with(&format!(" {}", "#".repeat(20))), "{text}");
    }
}
