//! The `[search]` section.

use std::time::Duration;

use toml::de::DeValue;
use weir_results::search::{FrameSize, Test};
use weir_stats::search::curve::{STEP_RATIO_MAX, STEP_RATIO_MIN};
use weir_stats::search::goal::Preset;
use weir_wire::units::{Rate, format_duration, parse_count, parse_rate};

use crate::diagnostic::{Report, quote};
use crate::model::SearchTable;
use crate::model::search::{self, Asked};
use crate::spec::fields::{Fields, Value, type_name};
use crate::spec::suggest::nearest;

/// Every field.
const FIELDS: [&str; 22] = [
    "preset",
    "loss",
    "trial",
    "duration_sum",
    "exceed",
    "width",
    "first_trial",
    "tests",
    "sizes",
    "min_load",
    "max_load",
    "warmup",
    "time_max",
    "trials_max",
    "curve_step",
    "curve_trial",
    "latency_trial",
    "latency_repeats",
    "burst_packets_max",
    "burst_repeats",
    "burst_width",
    "repeats",
];

/// No part of a search is longer.
const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most trials of a test.
const TRIALS_MAX: u64 = 1_000_000;

/// The most repetitions.
const REPEATS_MAX: u64 = 1_000;

/// The longest burst: ten minutes of a link of 10 Gb/s.
const BURST_PACKETS_MAX: u64 = 10_000_000_000;

/// The largest frame without FCS that the testbed's links carry.
const SIZE_BYTES_MAX: u64 = 1514;

/// The most loss ratios and frame sizes.
const LIST_MAX: usize = 64;

/// The section; what is not in it is left open.
pub(crate) fn search(value: Option<&Value<'_>>, report: &mut Report) -> SearchTable {
    let Some(fields) = value.and_then(|value| Fields::of("[search]", value, report)) else {
        return SearchTable::default();
    };
    fields.refuse_unknown(&FIELDS, report);
    let count = |name: &str, max: u64, report: &mut Report| {
        fields.integer(name, 1..=max, report).and_then(|count| u32::try_from(count).ok())
    };
    let table = SearchTable {
        preset: preset(&fields, report),
        loss_ratios: list("loss", &fields, report, |value, report| {
            let text = value.get_ref().as_str().unwrap_or_default();
            percent("loss", text, 0.0, value, report)
        }),
        trial: time("trial", &fields, report),
        duration_sum: time("duration_sum", &fields, report),
        exceed_ratio: ratio("exceed", 0.0, &fields, report),
        width_ratio: ratio("width", 1e-4, &fields, report),
        first_trial: time("first_trial", &fields, report),
        tests: list("tests", &fields, report, test),
        sizes: sizes(&fields, report),
        min_load_pps: load("min_load", &fields, report),
        max_load_pps: load("max_load", &fields, report),
        warmup: time("warmup", &fields, report),
        time_max: time("time_max", &fields, report),
        trials_max: count("trials_max", TRIALS_MAX, report),
        curve_step_ratio: ratio("curve_step", STEP_RATIO_MIN, &fields, report),
        curve_trial: time("curve_trial", &fields, report),
        latency_trial: time("latency_trial", &fields, report),
        latency_repeats: count("latency_repeats", REPEATS_MAX, report),
        burst_packets_max: packets("burst_packets_max", &fields, report),
        burst_repeats: count("burst_repeats", REPEATS_MAX, report),
        burst_width_ratio: ratio("burst_width", 0.0, &fields, report),
        repeats: count("repeats", REPEATS_MAX, report),
    };
    if let Some(step) = table.curve_step_ratio.filter(|&step| step > STEP_RATIO_MAX) {
        let message = format!("`curve_step` must be at most 10%, not {}%", step * 100.0);
        let help = "RFC 2544 section 26.3 allows no coarser steps";
        report.error_help(&fields.span_of("curve_step"), message, help);
    }
    if !report.has_errors() {
        // Each field for itself is right; together they may still be none.
        if let Err(error) = search::resolve(&table, &Asked::default()) {
            report.error(&fields.span_of(error.field), error.message);
        }
    }
    table
}

fn preset(fields: &Fields<'_, '_>, report: &mut Report) -> Option<Preset> {
    let text = fields.text("preset", report)?;
    let preset = Preset::named(&text.text);
    if preset.is_none() {
        let names = Preset::ALL.map(Preset::name);
        let help = match nearest(&text.text, names) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are: {}", names.join(", ")),
        };
        report.error_help(&text.span, format!("{} is not a preset", quote(&text.text)), help);
    }
    preset
}

fn time(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<Duration> {
    let time = fields.duration(name, report)?;
    let span = fields.span_of(name);
    // No warm-up is a choice, no trial is none.
    if time.is_zero() && name != "warmup" {
        report.error(&span, format!("`{name}` must not be zero"));
        return None;
    }
    if time > TIME_MAX {
        report.error(&span, format!("`{name}` must be at most {}", format_duration(TIME_MAX)));
        return None;
    }
    Some(time)
}

/// A share, written in per cent.
fn ratio(name: &str, min: f64, fields: &Fields<'_, '_>, report: &mut Report) -> Option<f64> {
    let value = fields.get(name)?;
    percent(name, &fields.text(name, report)?.text, min, value, report)
}

fn percent(
    name: &str,
    text: &str,
    min: f64,
    value: &Value<'_>,
    report: &mut Report,
) -> Option<f64> {
    match search::parse_percent(text) {
        Some(ratio) if ratio >= min && ratio < 1.0 => Some(ratio),
        _ => {
            let shown = if text.is_empty() { type_name(value.get_ref()) } else { text };
            let message =
                format!("`{name}` must be {}% to below 100%, not {}", min * 100.0, quote(shown));
            report.error_help(&value.span(), message, "a text with a per cent sign: \"0.5%\"");
            None
        }
    }
}

/// A list of one kind of things, none of them twice; one alone may stand without brackets.
fn list<T: PartialEq>(
    name: &str,
    fields: &Fields<'_, '_>,
    report: &mut Report,
    read: impl Fn(&Value<'_>, &mut Report) -> Option<T>,
) -> Option<Vec<T>> {
    let value = fields.get(name)?;
    let entries: Vec<&Value<'_>> = match value.get_ref() {
        DeValue::Array(entries) => entries.iter().collect(),
        _ => vec![value],
    };
    if entries.is_empty() || entries.len() > LIST_MAX {
        let message = format!("`{name}` must have 1 to {LIST_MAX} entries, not {}", entries.len());
        report.error(&value.span(), message);
        return None;
    }
    let mut read_entries = Vec::new();
    for entry in entries {
        let one = read(entry, report)?;
        if read_entries.contains(&one) {
            report.error(&entry.span(), format!("`{name}` has this twice"));
            return None;
        }
        read_entries.push(one);
    }
    Some(read_entries)
}

fn test(value: &Value<'_>, report: &mut Report) -> Option<Test> {
    let text = value.get_ref().as_str().unwrap_or_default();
    let test = Test::ALL.into_iter().find(|test| test.name() == text);
    if test.is_none() {
        let names = Test::ALL.map(Test::name);
        let help = match nearest(text, names) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are: {}", names.join(", ")),
        };
        report.error_help(&value.span(), format!("{} is not a test", quote(text)), help);
    }
    test
}

/// A list of sizes, or the name of one.
fn sizes(fields: &Fields<'_, '_>, report: &mut Report) -> Option<Vec<FrameSize>> {
    if fields.get("sizes")?.get_ref().as_str() == Some("rfc2544") {
        return Some(FrameSize::rfc2544());
    }
    list("sizes", fields, report, |value, report| {
        let number = match value.get_ref() {
            DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix()),
            DeValue::String(text) if text == "own" => return Some(FrameSize::OfTraffic),
            DeValue::String(text) if text == "imix" => return Some(FrameSize::Imix),
            _ => Ok(0),
        };
        let size = number.ok().filter(|size| (42..=SIZE_BYTES_MAX).contains(size));
        let size = size.and_then(|size| u16::try_from(size).ok()).map(FrameSize::Bytes);
        if size.is_none() {
            report.error_help(
                &value.span(),
                format!("a frame size is 42 to {SIZE_BYTES_MAX} bytes, without the 4 of the FCS"),
                "a list of sizes, \"own\" and \"imix\", or \"rfc2544\" for its seven",
            );
        }
        size
    })
}

fn load(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<f64> {
    let text = fields.text_or_number(name, report)?;
    match parse_rate(&text.text) {
        Ok(Rate::Pps(rate_pps)) if rate_pps > 0.0 && rate_pps <= 1e9 => Some(rate_pps),
        _ => {
            let message = format!("`{name}` must be packets per second, not {}", quote(&text.text));
            report.error_help(&text.span, message, "as \"1.5Mpps\", up to 1Gpps");
            None
        }
    }
}

fn packets(name: &str, fields: &Fields<'_, '_>, report: &mut Report) -> Option<u64> {
    let text = fields.text_or_number(name, report)?;
    let packets = parse_count(&text.text).ok();
    let packets = packets.filter(|packets| (1..=BURST_PACKETS_MAX).contains(packets));
    if packets.is_none() {
        let message = format!("`{name}` must be 1 to 10G packets, not {}", quote(&text.text));
        report.error_help(&text.span, message, "a number, as \"100k\"");
    }
    packets
}
