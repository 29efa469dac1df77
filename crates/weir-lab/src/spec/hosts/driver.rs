//! The program of a generator or receiver: its kind, and what replaces the line that weir makes.

use crate::diagnostic::{Report, quote};
use crate::model::{DriverKind, DriverSpec};
use crate::spec::fields::{Fields, Text};
use crate::spec::template::Template;

use super::{filled, word};

/// Its fields, beside the machine's.
pub(super) const FIELDS: [&str; 6] = ["driver", "program", "options", "start", "stop", "packets"];

/// Reads them.
pub(super) fn driver(
    fields: &Fields<'_, '_>,
    is_generator: bool,
    report: &mut Report,
) -> Option<DriverSpec> {
    const SENDS: [&str; 4] = ["weir", "pkt-gen", "trafgen", "command"];
    const RECEIVES: [&str; 3] = ["weir", "pkt-gen", "command"];
    fields.required("driver", report)?;
    let words: &[&str] = if is_generator { &SENDS } else { &RECEIVES };
    let kind = match word("driver", words, fields, report)? {
        "weir" => DriverKind::Weir,
        "pkt-gen" => DriverKind::PktGen,
        "trafgen" => DriverKind::Trafgen,
        _ => DriverKind::Command,
    };
    let spec = DriverSpec {
        kind,
        program: filled("program", fields, report),
        options: filled("options", fields, report),
        start: filled("start", fields, report),
        stop: filled("stop", fields, report),
        packets: filled("packets", fields, report),
    };
    for (name, line) in [("start", &spec.start), ("stop", &spec.stop)] {
        if line.is_some() {
            check_line(name, fields, is_generator, report);
        }
    }
    check_packets(&spec, fields, report);
    if kind == DriverKind::Command {
        fields.required("start", report)?;
        fields.required("packets", report)?;
    }
    for name in ["program", "options"] {
        let whole = spec.start.is_some();
        if let (Some(span), true) = (fields.key_span(name), whole) {
            let message = format!("`{name}` is given together with `start`");
            report.error_help(&span, message, "`start` is the whole line: put it in there");
        }
    }
    Some(spec)
}

/// The references of a line are to what a run has.
fn check_line(name: &str, fields: &Fields<'_, '_>, is_generator: bool, report: &mut Report) {
    let Some(text) = fields.text(name, report) else {
        return;
    };
    let template = Template::in_spec(&text, report);
    let known = names(is_generator);
    for (reference, span) in template.references() {
        if !known.contains(&reference) {
            let message = format!("`${{{reference}}}` is not a variable of a run");
            report.error_help(span, message, format!("there are: {}", known.join(", ")));
        }
    }
}

/// The names that a generator's lines, or a receiver's, may refer to.
fn names(is_generator: bool) -> &'static [&'static str] {
    const BOTH: [&str; 3] = ["interface", "sample_ms", "traffic"];
    const GENERATOR: [&str; 10] = [
        "interface",
        "sample_ms",
        "traffic",
        "src",
        "dst",
        "size",
        "src_mac",
        "dst_mac",
        "rate_pps",
        "count",
    ];
    if is_generator { &GENERATOR } else { &BOTH }
}

/// The pattern of a command's figures.
fn check_packets(spec: &DriverSpec, fields: &Fields<'_, '_>, report: &mut Report) {
    let Some(pattern) = fields.text("packets", report) else {
        return;
    };
    if spec.kind != DriverKind::Command {
        let message = format!("a {} driver has no `packets`", spec.kind.name());
        report.error_help(&pattern.span, message, "its lines are known; only \"command\" has it");
        return;
    }
    check_pattern("packets", &pattern, report);
}

/// A pattern with one group at least.
pub(super) fn check_pattern(name: &str, pattern: &Text, report: &mut Report) -> bool {
    let help = "the first group is the number of packets so far: 'received ([0-9]+) packets'";
    match regex::Regex::new(&pattern.text) {
        Ok(regex) if regex.captures_len() > 1 => true,
        Ok(_) => {
            let message = format!("the pattern {} of `{name}` has no group", quote(&pattern.text));
            report.error_help(&pattern.span, message, help);
            false
        }
        Err(error) => {
            let error = error.to_string();
            let last = error.lines().last().unwrap_or_default().to_owned();
            report.error_help(&pattern.span, format!("`{name}` is not a pattern: {last}"), help);
            false
        }
    }
}
