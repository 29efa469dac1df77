//! A comparison as Markdown.

use std::fmt::Write as _;

use weir_stats::comparison::p_text;

use super::text::{median, title};
use super::warnings::advice;
use super::{Matched, Report, relative, words};

pub(super) fn page(report: &Report<'_>) -> String {
    let names: Vec<&str> = report.collections.iter().map(|c| c.name.as_str()).collect();
    let mut text = format!("# {}\n\n", escaped(&names.join(" against ")));
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}.", report.answer());
    if let Some(verdict) = report.verdict() {
        let _ = writeln!(text, "**{verdict}.**");
    }
    if !report.changed.is_empty() {
        text.push('\n');
    }
    for c in &report.changed {
        let other = &report.collections[c.other_index].name;
        let (a, b) = (escaped(&c.baseline), escaped(&c.other));
        let _ = writeln!(text, "- {}: {a}, in {} {b}", escaped(&c.dimension), escaped(other));
    }
    text.push_str("\n| Series | Baseline | Other | Difference | p, adjusted | Verdict |\n");
    text.push_str("|---|--:|--:|--:|--:|---|\n");
    for m in &report.matched {
        text += &row(report, m);
    }
    let level = report.asked.level;
    let _ = writeln!(text, "\n{}", method(&level.to_string()));
    warnings(report, &mut text);
    unmatched(report, &mut text);
    environment(report, &mut text);
    text.push_str("\n## ministat\n");
    if let Some(note) = report.zero_note() {
        let _ = writeln!(text, "\n{}.", escaped(&note));
    }
    for m in &report.matched {
        if let Some(block) = m.ministat() {
            let _ = write!(text, "\n{}:\n\n```\n{block}```\n", escaped(&title(report, m)));
        }
    }
    text
}

/// How figures and verdicts are reached.
pub(super) fn method(level: &str) -> String {
    format!(
        "Medians stand with the bootstrap's {level} interval (of five values or more), over the \
         runs that count. Differences are between means, by Welch's t test and Fieller's interval, \
         at {level}. Verdicts and adjusted p-values hold for all comparisons together (Holm). \
         \"Undecided\" does not mean that there is no difference."
    )
}

fn row(report: &Report<'_>, m: &Matched<'_>) -> String {
    let (difference, p) = m.result.as_ref().map_or_else(
        |_| ("–".to_owned(), "–".to_owned()),
        |c| (relative(c), p_text(c.adjusted_p_value)),
    );
    let bold = if m.regressed { "**" } else { "" };
    format!(
        "| {} | {} | {} | {difference} | {p} | {bold}{}{bold} |\n",
        escaped(&m.baseline.name),
        median(report, m.baseline),
        median(report, m.other),
        escaped(&words(m)),
    )
}

fn warnings(report: &Report<'_>, text: &mut String) {
    let warned = report.warnings();
    if warned.is_empty() {
        return;
    }
    text.push_str("\n## Warnings\n\n| Series | In | Warning |\n|---|---|---|\n");
    for w in &warned {
        let owner = escaped(&report.collections[w.owner_index].name);
        let told = escaped(&w.warning.to_string());
        let _ =
            writeln!(text, "| {} | {owner} | {}: {told} |", escaped(w.series), w.warning.kind());
    }
    text.push('\n');
    for (kind, advice) in advice(&warned) {
        let _ = writeln!(text, "- Advice on {kind}: {}.", escaped(advice));
    }
}

fn unmatched(report: &Report<'_>, text: &mut String) {
    if report.unmatched.is_empty() {
        return;
    }
    text.push_str("\n## In one side only\n\n");
    for u in &report.unmatched {
        let owner = &report.collections[u.owner_index].name;
        let _ = writeln!(text, "- {} ({})", escaped(&u.told()), escaped(owner));
    }
}

fn environment(report: &Report<'_>, text: &mut String) {
    text.push_str("\n## Environments\n\n");
    if report.environment.is_empty() {
        text.push_str("Nothing that the stores keep of their environments differs.\n");
        return;
    }
    let names = report.collections.iter().map(|c| escaped(&c.name));
    let _ = writeln!(text, "| Entry | {} |", names.collect::<Vec<_>>().join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(report.collections.len()));
    for d in &report.environment {
        let value = |v: &Option<String>| v.as_deref().map_or_else(|| "–".to_owned(), escaped);
        let bold = if d.matters { "**" } else { "" };
        let values = d.values.iter().map(value).collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "| {bold}{}{bold} | {values} |", escaped(&d.path));
    }
}

/// Names and values as text: what Markdown would read is escaped, line ends are spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '\n' | '\r' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
