//! Rows as a table for people and as JSON.

use std::fmt::Write as _;

use super::report::{self, Entry, Machine};
use super::rows::{Against, Row};

/// The rows for people, behind the machine and `head`, which says how they were taken.
pub(crate) fn table(machine: &Machine, head: &str, rows: &[Row]) -> String {
    let Machine { cpu_model, kernel, cpu_count } = machine;
    let mut text = format!("{cpu_model}, {cpu_count} CPUs, Linux {kernel}\n{head}\n");
    let width = rows.iter().map(|row| row.spec.what.chars().count()).max().unwrap_or(0);
    let has_costs = rows.iter().any(|row| row.cost_ns.is_some());
    let head = ["", "median", "spread", "taken", "ratio", "floor", "", "against"];
    line(&mut text, width, &head, has_costs.then_some(["CPU time", "busy"]));
    for row in rows {
        let spread =
            spread(&row.series.samples).map_or_else(String::new, |s| format!("{:.1} %", s * 100.0));
        let taken = Some(row.series.taken_share_max).filter(|&share| share > 0.0);
        let taken = taken.map_or_else(String::new, |share| format!("{:.1} %", share * 100.0));
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
        let floor = row.spec.floor.map_or_else(String::new, |floor| format!("{floor}"));
        let value =
            row.value.map_or_else(|| "not measured".to_owned(), |value| value_text(row, value));
        let judged = match (row.spec.floor, row.meets()) {
            (None, _) => "",
            (Some(_), Some(true)) => "met",
            (Some(_), Some(false)) => "MISSED",
            (Some(_), None) => "not judged",
        };
        let against = against(row.spec.against).unwrap_or_default();
        let cost = row.cost_ns.map_or_else(String::new, weir_results::number::cost);
        let busy = Some(row.series.busy_share_min).filter(|&share| share > 0.0);
        let busy = busy.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
        let cells = [row.spec.what, &value, &spread, &taken, &ratio, &floor, judged, against];
        line(&mut text, width, &cells, has_costs.then_some([&cost, &busy]));
    }
    for row in rows {
        if let Some(reason) = &row.series.missing {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "{}: {} samples: {reason}", row.spec.name, row.series.samples.len());
        }
    }
    text
}

/// A line; `costs` are the cells of a packet's CPU time, where any row has one.
fn line(text: &mut String, width: usize, cells: &[&str; 8], costs: Option<[&str; 2]>) {
    let [what, value, spread, taken, ratio, floor, judged, against] = cells;
    let costs = costs.map_or_else(String::new, |[cost, busy]| format!("{cost:>9} {busy:>6} "));
    let figures = format!("{value:>12} {spread:>7} {taken:>7} {costs}{ratio:>7} {floor:>6}");
    let line = format!("{what:<width$} {figures} {judged:<10} {against}");
    text.push_str(line.trim_end());
    text.push('\n');
}

fn value_text(row: &Row, value: f64) -> String {
    match row.spec.unit {
        "pps" => weir_results::number::pps(value),
        unit => format!("{value:.1} {unit}"),
    }
}

fn against(against: Against) -> Option<&'static str> {
    match against {
        Against::Nothing => None,
        Against::Series(name) => Some(name),
        Against::Value { what, .. } => Some(what),
    }
}

/// Range of the samples as a share of their median.
fn spread(samples: &[f64]) -> Option<f64> {
    let median = weir_stats::summary::median(samples)?;
    let min = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let max = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some((max - min) / median)
}

/// The rows as the other benchmarks write them.
pub(crate) fn json(machine: &Machine, rows: &[Row]) -> String {
    report::json(
        machine,
        rows.iter().map(|row| Entry {
            name: row.spec.name,
            value: row.value,
            unit: row.spec.unit,
            samples: &row.series.samples,
            cost_ns: row.cost_ns,
            costs_ns: &row.series.costs_ns,
            against: against(row.spec.against),
            ratio: row.ratio,
            floor: row.spec.floor,
        }),
    )
}
