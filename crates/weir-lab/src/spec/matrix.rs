//! `[[traffic]]` and `[[sweep]]`, before substitution; the streams of a traffic are elsewhere.

use toml::de::DeValue;
use weir_results::matrix::SweepValue;
use weir_wire::units::parse_number;

use crate::diagnostic::{Report, quote};
use crate::spec::connect::{self, ConnectSpec};
use crate::spec::fields::{self, Fields, Text};
use crate::spec::http::{self, HttpSpec};
use crate::spec::kind::Kind;
use crate::spec::senders::{self, SendersSpec};
use crate::spec::streams::{StreamText, refuse_beside_streams, stream, stream_fields, streams};
use crate::spec::{Named, check_name, check_variable};

/// The most values of one sweep.
const VALUES_MAX: usize = 1000;

/// The longest label, in bytes: it becomes part of a folder's name.
const LABEL_LENGTH_MAX: usize = 40;

/// A traffic as written.
#[derive(Debug)]
pub(crate) struct TrafficSpec {
    pub(crate) name: Text,
    pub(crate) rate: Option<Text>,
    /// One at least.
    pub(crate) streams: Vec<StreamText>,
    pub(crate) senders: SendersSpec,
    /// What is done with connections, where it is of those.
    pub(crate) connect: Option<ConnectSpec>,
    /// What is asked for, where it is of requests.
    pub(crate) http: Option<HttpSpec>,
}

impl Named for TrafficSpec {
    fn name(&self) -> &Text {
        &self.name
    }
}

/// One `[[traffic]]`.
pub(crate) fn traffic(fields: &Fields<'_, '_>, report: &mut Report) -> Option<TrafficSpec> {
    let kind = Kind::of(fields, report)?;
    kind.refuse_others(fields, report);
    let name = fields.required_text("name", report);
    if let Some(name) = &name {
        check_name(&name.text, &name.span, report);
    }
    let rate = fields.text_or_number("rate", report);
    let streams = match fields.get("streams") {
        _ if kind != Kind::Packets => vec![connect::stream(fields, report)?],
        None => vec![stream(fields, stream_fields(), report)?],
        Some(list) => {
            refuse_beside_streams(fields, report);
            streams(list, report)?
        }
    };
    let senders = senders::senders(fields, (rate.as_ref(), &streams), report)?;
    let (connect, http) = match kind {
        Kind::Packets => (None, None),
        Kind::Connect => (Some(connect::connect(fields, report)?), None),
        Kind::Http => (None, Some(http::http(fields, report)?)),
    };
    Some(TrafficSpec { name: name?, rate, streams, senders, connect, http })
}

/// A sweep as written.
#[derive(Debug)]
pub(crate) struct SweepSpec {
    pub(crate) name: Text,
    pub(crate) values: Vec<SweepPoint>,
}

/// A value of a sweep.
#[derive(Debug, Clone)]
pub(crate) struct SweepPoint {
    /// Label and number.
    pub(crate) value: SweepValue,
    /// What `${name}` becomes: a label with a multiplier (`64Ki`) becomes digits, because kernels
    /// and rulesets do not know the multipliers; any other label stays as written.
    pub(crate) text: String,
}

impl SweepPoint {
    fn new(label: String) -> Self {
        let number = parse_number(&label).ok();
        let text = match number {
            Some(number) if label.ends_with(|c: char| c.is_ascii_alphabetic()) => {
                number.to_string()
            }
            _ => label.clone(),
        };
        Self { value: SweepValue { label, number }, text }
    }
}

impl Named for SweepSpec {
    fn name(&self) -> &Text {
        &self.name
    }
}

/// One `[[sweep]]`.
pub(crate) fn sweep(fields: &Fields<'_, '_>, report: &mut Report) -> Option<SweepSpec> {
    fields.refuse_unknown(&["name", "values"], report);
    let name = fields.required_text("name", report);
    if let Some(name) = &name {
        check_variable(name, report);
    }
    let values = values(fields, report);
    Some(SweepSpec { name: name?, values })
}

/// The values; those that cannot be used are reported and left out.
fn values(fields: &Fields<'_, '_>, report: &mut Report) -> Vec<SweepPoint> {
    let mut points: Vec<SweepPoint> = Vec::new();
    let Some(value) = fields.required("values", report) else {
        return points;
    };
    let DeValue::Array(values) = value.get_ref() else {
        let found = fields::type_name(value.get_ref());
        report.error(&value.span(), format!("`values` must be a list, not {found}"));
        return points;
    };
    if values.is_empty() || values.len() > VALUES_MAX {
        let message = format!("a sweep has 1 to {VALUES_MAX} values, not {}", values.len());
        report.error(&value.span(), message);
        return points;
    }
    for value in values.iter() {
        let Some(label) = fields::text_or_number("values", value, report) else {
            continue;
        };
        if !is_label(&label.text) {
            report.error_help(
                &label.span,
                format!("{} cannot be the value of a sweep", quote(&label.text)),
                format!(
                    "values become parts of directories' names: letters, digits and any of \
                     `. _ - + : , %`, at most {LABEL_LENGTH_MAX}"
                ),
            );
            continue;
        }
        let point = SweepPoint::new(label.text);
        match points.iter().find(|earlier| same(&earlier.value, &point.value)) {
            Some(earlier) => {
                let (this, other) = (quote(&point.value.label), quote(&earlier.value.label));
                let message = format!("{this} is the same value as {other}");
                report.error(&label.span, message);
            }
            None => points.push(point),
        }
    }
    points
}

fn same(a: &SweepValue, b: &SweepValue) -> bool {
    a.label == b.label || (a.number.is_some() && a.number == b.number)
}

fn is_label(label: &str) -> bool {
    !label.is_empty()
        && label.len() <= LABEL_LENGTH_MAX
        && label.chars().all(|c| c.is_ascii_alphanumeric() || "._-+:,%".contains(c))
}
