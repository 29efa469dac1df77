//! How often a series runs: `iterations` of `[campaign]`, and what `"auto"` needs beside it.

use std::ops::RangeInclusive;

use weir_results::matrix::AutoIterations;
use weir_stats::Level;

use crate::diagnostic::{Report, quote};
use crate::spec::fields::Fields;

/// The most iterations of a series.
pub(crate) const ITERATIONS_MAX: u64 = 1000;

/// The fields that `"auto"` has beside it.
pub(super) const AUTO_FIELDS: [&str; 4] = ["half_width", "confidence", "min", "max"];

/// Fewer values have no interval worth the name.
const MIN_LEAST: u64 = 3;

/// `min` where it is not given. The bounds that are stated for the stopping rule hold from here.
const MIN_DEFAULT: u32 = 5;

/// `max` where it is not given.
const MAX_DEFAULT: u32 = 30;

/// The iterations of every series, or the most of them with the rule that stops a series earlier.
pub(super) fn iterations(
    fields: &Fields<'_, '_>,
    report: &mut Report,
) -> Option<(u32, Option<AutoIterations>)> {
    let value = fields.required("iterations", report)?;
    if value.get_ref().as_str() == Some("auto") {
        return auto(fields, report).map(|(most, auto)| (most, Some(auto)));
    }
    for name in AUTO_FIELDS {
        if let Some(span) = fields.key_span(name) {
            let message = format!("`{name}` needs iterations = \"auto\"");
            report.error_help(&span, message, "remove it, or let the campaign decide");
        }
    }
    if let Some(text) = value.get_ref().as_str() {
        let message =
            format!("`iterations` must be a whole number or \"auto\", not {}", quote(text));
        report.error(&value.span(), message);
        return None;
    }
    let number = fields.integer("iterations", 1..=ITERATIONS_MAX, report)?;
    Some((u32::try_from(number).ok()?, None))
}

fn auto(fields: &Fields<'_, '_>, report: &mut Report) -> Option<(u32, AutoIterations)> {
    fields.required("half_width", report)?;
    let half_width_percent = percent(fields, "half_width", 0.0..=100.0, report);
    let levels = Level::PERCENT_MIN..=Level::PERCENT_MAX;
    let confidence_percent = match fields.get("confidence") {
        None => Some(Level::P95.percent()),
        Some(_) => percent(fields, "confidence", levels, report),
    };
    let count = |name: &str, default: u32, range: RangeInclusive<u64>, report: &mut Report| {
        if fields.get(name).is_none() {
            return Some(default);
        }
        u32::try_from(fields.integer(name, range, report)?).ok()
    };
    let least = count("min", MIN_DEFAULT, MIN_LEAST..=ITERATIONS_MAX, report);
    let most = count("max", MAX_DEFAULT, 1..=ITERATIONS_MAX, report);
    let (least, most) = (least?, most?);
    if most < least {
        let place = if fields.get("max").is_some() { "max" } else { "min" };
        let message = format!("at most {most} iterations are less than at least {least}");
        report.error(&fields.span_of(place), message);
        return None;
    }
    let auto = AutoIterations {
        half_width_ratio: half_width_percent? / 100.0,
        confidence_percent: confidence_percent?,
        iterations_min: least,
    };
    Some((most, auto))
}

/// A text such as `"1%"`, above the lower end of `range` and not above its upper end.
fn percent(
    fields: &Fields<'_, '_>,
    name: &str,
    range: RangeInclusive<f64>,
    report: &mut Report,
) -> Option<f64> {
    let text = fields.text(name, report)?;
    let number = text.text.strip_suffix('%').and_then(|n| n.trim_end().parse::<f64>().ok());
    let number = number.filter(|n| range.contains(n) && n > range.start());
    if number.is_none() {
        let (low, high) = range.into_inner();
        let shown = quote(&text.text);
        let message = format!("`{name}` must be above {low}% and at most {high}%, not {shown}");
        report.error_help(&text.span, message, "a number with its sign: \"1%\", \"99.5%\"");
    }
    number
}
