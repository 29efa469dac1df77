//! `[[traffic]]` and `[[sweep]]`, before substitution.

use toml::de::DeValue;
use weir_results::matrix::SweepValue;
use weir_results::traffic::STREAMS_MAX;
use weir_wire::describe;
use weir_wire::units::parse_number;

use crate::diagnostic::{Report, Span, quote};
use crate::spec::fields::{self, Fields, Text, Value};
use crate::spec::senders::{self, SendersSpec};
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
}

/// A stream as written: fields of [`weir_wire::describe::FIELDS`] in the order of the text.
#[derive(Debug)]
pub(crate) struct StreamText {
    /// Place of its table.
    pub(crate) span: Span,
    pub(crate) fields: Vec<(&'static str, Text)>,
}

impl Named for TrafficSpec {
    fn name(&self) -> &Text {
        &self.name
    }
}

/// The fields of a stream that a traffic with a single one has itself: all but its name, which is
/// the traffic's, and its weight, which it has among others.
pub(crate) fn stream_fields() -> impl Iterator<Item = &'static str> {
    all_fields().filter(|field| !["name", "weight"].contains(field))
}

fn all_fields() -> impl Iterator<Item = &'static str> {
    describe::FIELDS.iter().map(|field| field.name)
}

/// One `[[traffic]]`.
pub(crate) fn traffic(fields: &Fields<'_, '_>, report: &mut Report) -> Option<TrafficSpec> {
    let known: Vec<&str> = ["name"].into_iter().chain(stream_fields()).collect();
    let known = [&known[..], &["rate", "streams"], &senders::FIELDS].concat();
    fields.refuse_unknown(&known, report);
    let name = fields.required_text("name", report);
    if let Some(name) = &name {
        check_name(&name.text, &name.span, report);
    }
    let rate = fields.text_or_number("rate", report);
    let streams = match fields.get("streams") {
        None => vec![stream(fields, stream_fields(), report)?],
        Some(list) => {
            refuse_beside_streams(fields, report);
            streams(list, report)?
        }
    };
    let senders = senders::senders(fields, (rate.as_ref(), &streams), report)?;
    Some(TrafficSpec { name: name?, rate, streams, senders })
}

/// Refuses fields of a stream in a table that has a list of streams.
pub(crate) fn refuse_beside_streams(fields: &Fields<'_, '_>, report: &mut Report) {
    for name in stream_fields() {
        if let Some(span) = fields.key_span(name) {
            let message = format!("`{name}` is given together with `streams`");
            report.error_help(&span, message, "it belongs in each of the streams");
        }
    }
}

/// The streams of a list; `None` if there are none.
pub(crate) fn streams(list: &Value<'_>, report: &mut Report) -> Option<Vec<StreamText>> {
    const WHAT: &str = "a stream of [[traffic]]";
    let DeValue::Array(tables) = list.get_ref() else {
        let found = fields::type_name(list.get_ref());
        let message = format!("`streams` must be a list of tables, not {found}");
        report.error_help(&list.span(), message, "write [[traffic.streams]]");
        return None;
    };
    if tables.is_empty() || tables.len() > STREAMS_MAX {
        let message = format!("a traffic has 1 to {STREAMS_MAX} streams, not {}", tables.len());
        report.error(&list.span(), message);
        return None;
    }
    let read = |table| {
        let fields = Fields::of(WHAT, table, report)?;
        fields.refuse_unknown(&all_fields().collect::<Vec<_>>(), report);
        stream(&fields, all_fields(), report)
    };
    let streams: Vec<Option<StreamText>> = tables.iter().map(read).collect();
    streams.into_iter().collect()
}

/// The fields of one stream; those that have no text were reported.
fn stream(
    fields: &Fields<'_, '_>,
    known: impl Iterator<Item = &'static str>,
    report: &mut Report,
) -> Option<StreamText> {
    let has_ends = ["src", "dst"].map(|end| fields.required(end, report).is_some());
    let read = |name: &'static str| Some((name, field(fields, name, report)?));
    let mut written: Vec<(&'static str, Text)> = known.filter_map(read).collect();
    written.sort_by_key(|(_, text)| text.span.start);
    let is_read = |end: &str| written.iter().any(|(name, _)| *name == end);
    let complete = has_ends == [true, true] && is_read("src") && is_read("dst");
    complete.then_some(StreamText { span: fields.span.clone(), fields: written })
}

/// The text of a field of a stream, if it is there and has one.
pub(crate) fn field(fields: &Fields<'_, '_>, name: &str, report: &mut Report) -> Option<Text> {
    match name {
        "size" | "vlan" | "ttl" | "dscp" | "seed" | "weight" => fields.text_or_number(name, report),
        "df" | "random" => fields.text_or_boolean(name, report),
        _ => fields.text(name, report),
    }
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
                    "values become parts of folders' names: letters, digits and any of \
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
