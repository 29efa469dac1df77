//! The streams of a traffic, before substitution: one in the table itself, or a list.

use toml::de::DeValue;
use weir_results::traffic::STREAMS_MAX;
use weir_wire::describe;

use crate::diagnostic::{Report, Span};
use crate::spec::fields::{self, Fields, Text, Value};

/// A stream as written: fields of [`weir_wire::describe::FIELDS`] in the order of the text.
#[derive(Debug)]
pub(crate) struct StreamText {
    /// Place of its table.
    pub(crate) span: Span,
    pub(crate) fields: Vec<(&'static str, Text)>,
}

/// The fields of a stream that a traffic with a single one has itself: all but its name, which is
/// the traffic's, and its weight, which it has among others.
pub(crate) fn stream_fields() -> impl Iterator<Item = &'static str> {
    all_fields().filter(|field| !["name", "weight"].contains(field))
}

fn all_fields() -> impl Iterator<Item = &'static str> {
    describe::FIELDS.iter().map(|field| field.name)
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
pub(crate) fn stream(
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
