//! The result as a table for people and as JSON.

use std::fmt::Write as _;

use super::rows::Limit;
use super::{Machine, Outcome};
use crate::support::report::{self, Entry};

const HEAD: &str = "\
One CPU. Checks are of the command itself, from its start to its end; the evaluator is called in a
loop. The time for which they waited for the CPU is not counted.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let Machine { cpu_model, kernel, cpu_count } = &outcome.machine;
    let mut text = format!("{cpu_model}, {cpu_count} CPUs, Linux {kernel}\n{HEAD}\n");
    let width = outcome.rows.iter().map(|row| row.spec.what.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<width$} {:>14} {:>14} {:>7}", "", "median", "limit", "ratio");
    for row in &outcome.rows {
        let figure = |value: f64| match row.spec.unit {
            "pps" => format!("{value:.0} pps"),
            unit => format!("{value:.2} {unit}"),
        };
        let value = row.value.map_or("not measured".to_owned(), figure);
        let limit = match row.spec.limit {
            Limit::AtMost(limit) | Limit::AtLeast(limit) => figure(limit),
            Limit::None => String::new(),
        };
        let ratio = row.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let judged = match (row.spec.limit, row.value, row.holds()) {
            (Limit::None, ..) => "",
            (_, None, _) => "not judged",
            (_, _, true) => "kept",
            (_, _, false) => "MISSED",
        };
        let what = row.spec.what;
        let line = format!("{what:<width$} {value:>14} {limit:>14} {ratio:>7} {judged}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// The outcome as the other benchmarks write it.
pub(crate) fn json(outcome: &Outcome) -> String {
    report::json(
        &outcome.machine,
        outcome.rows.iter().map(|row| {
            let is_judged = !matches!(row.spec.limit, Limit::None);
            Entry {
                name: row.spec.name,
                value: row.value,
                unit: row.spec.unit,
                samples: &row.samples,
                cost_ns: None,
                costs_ns: &[],
                against: is_judged.then_some("limit"),
                ratio: row.ratio,
                floor: is_judged.then_some(1.0),
            }
        }),
    )
}
