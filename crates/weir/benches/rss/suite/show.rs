//! The result as a table for people and as JSON.

use std::fmt::Write as _;

use weir_bpf::toeplitz::Method;

use super::rows::Limit;
use super::{Machine, Outcome};
use crate::support::report::{self, Entry};

const HEAD: &str = "\
Hashes on one CPU. Flows over a veth pair whose sending end chooses the queue as a card would.
";

/// The outcome for people.
pub(crate) fn table(outcome: &Outcome) -> String {
    let Machine { cpu_model, kernel, cpu_count } = &outcome.machine;
    let mut text = format!("{cpu_model}, {cpu_count} CPUs, Linux {kernel}\n{HEAD}");
    let method = match outcome.method {
        Method::Multiplication => "by carry-less multiplication",
        Method::Tables => "from tables: this CPU has no carry-less multiplication",
    };
    text += &format!("Many hashes at once are computed {method}.\n\n");
    let width = outcome.rows.iter().map(|row| row.spec.what.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<width$} {:>14} {:>14} {:>7}", "", "median", "limit", "ratio");
    for row in &outcome.rows {
        let figure = |value: f64| match row.spec.unit {
            "hashes/s" => format!("{:.1} M/s", value / 1e6),
            _ => format!("{:.4} %", value * 100.0),
        };
        let value = row.value.map_or("not measured".to_owned(), figure);
        let limit = match row.spec.limit {
            Limit::AtLeast(limit) => figure(limit),
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
