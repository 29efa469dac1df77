//! Who sends a traffic, before substitution: `direction`, `[traffic.reverse]`, `threads`, `ports`.

use weir_gen::expect::THREAD_COUNT_MAX;

use crate::diagnostic::{Report, Span, quote};
use crate::spec::fields::{Fields, Text};
use crate::spec::streams::{self, StreamText};

/// The fields of a `[[traffic]]` that say who sends it.
pub(crate) const FIELDS: [&str; 4] = ["direction", "reverse", "threads", "ports"];

/// As written.
#[derive(Debug)]
pub(crate) struct SendersSpec {
    /// What is sent the other way, if anything is.
    pub(crate) reverse: Option<ReverseSpec>,
    pub(crate) threads: u16,
    pub(crate) is_mesh: bool,
    /// The fields that are there, and their places.
    pub(crate) written: Vec<(&'static str, Span)>,
}

/// What is sent the other way: where nothing else is said, the traffic with source and destination
/// exchanged.
#[derive(Debug)]
pub(crate) struct ReverseSpec {
    pub(crate) rate: Option<Text>,
    /// One at least.
    pub(crate) streams: Vec<StreamText>,
}

/// Reads the fields of a traffic with this rate and these streams.
pub(crate) fn senders(
    fields: &Fields<'_, '_>,
    (rate, streams): (Option<&Text>, &[StreamText]),
    report: &mut Report,
) -> Option<SendersSpec> {
    let written =
        FIELDS.into_iter().filter_map(|name| Some((name, fields.key_span(name)?))).collect();
    let threads = fields.integer("threads", 1..=u64::from(THREAD_COUNT_MAX), report);
    let is_mesh = match fields.text("ports", report) {
        None => false,
        Some(text) => match text.text.as_str() {
            "pairs" => false,
            "mesh" => true,
            other => {
                let message = format!("`ports` cannot be {}", quote(other));
                report.error_help(&text.span, message, "use \"pairs\" or \"mesh\"");
                return None;
            }
        },
    };
    let goes_both_ways = match fields.text("direction", report) {
        None => false,
        Some(text) if is_mesh => {
            let message = "`direction` is given together with `ports = \"mesh\"`";
            report.error_help(&text.span, message, "in a mesh, every port sends to all others");
            return None;
        }
        Some(text) => match text.text.as_str() {
            "forward" => false,
            "both" => true,
            other => {
                let message = format!("`direction` cannot be {}", quote(other));
                report.error_help(&text.span, message, "use \"forward\" or \"both\"");
                return None;
            }
        },
    };
    if let (Some(span), false) = (fields.key_span("reverse"), goes_both_ways) {
        let message = "`reverse` is given, but nothing is sent that way";
        report.error_help(&span, message, "write direction = \"both\"");
        return None;
    }
    let reverse = match goes_both_ways {
        true => Some(reverse(fields, (rate, streams), report)?),
        false => None,
    };
    let threads = threads.and_then(|threads| u16::try_from(threads).ok()).unwrap_or(1);
    Some(SendersSpec { reverse, threads, is_mesh, written })
}

fn reverse(
    traffic: &Fields<'_, '_>,
    (rate, streams): (Option<&Text>, &[StreamText]),
    report: &mut Report,
) -> Option<ReverseSpec> {
    let turned = streams.iter().map(turned).collect::<Vec<_>>();
    let Some(value) = traffic.get("reverse") else {
        return Some(ReverseSpec { rate: rate.cloned(), streams: turned });
    };
    let fields = Fields::of("[traffic.reverse]", value, report)?;
    let known: Vec<&str> = streams::stream_fields().chain(["rate", "streams"]).collect();
    fields.refuse_unknown(&known, report);
    let rate = fields.text_or_number("rate", report).or_else(|| rate.cloned());
    if let Some(list) = fields.get("streams") {
        streams::refuse_beside_streams(&fields, report);
        return Some(ReverseSpec { rate, streams: streams::streams(list, report)? });
    }
    let read = |name| Some((name, streams::field(&fields, name, report)?));
    let given: Vec<(&'static str, Text)> = streams::stream_fields().filter_map(read).collect();
    let [only] = &turned[..] else {
        if let Some((name, text)) = given.first() {
            let message = format!("`{name}` is given for a traffic of {} streams", turned.len());
            report.error_help(&text.span, message, "write `streams` in [traffic.reverse], too");
            return None;
        }
        return Some(ReverseSpec { rate, streams: turned });
    };
    let is_kept = |(name, _): &&(&'static str, Text)| !given.iter().any(|(field, _)| field == name);
    let kept: Vec<(&'static str, Text)> = only.fields.iter().filter(is_kept).cloned().collect();
    let stream = StreamText { span: fields.span.clone(), fields: [kept, given].concat() };
    Some(ReverseSpec { rate, streams: vec![stream] })
}

/// A stream with source and destination exchanged.
fn turned(stream: &StreamText) -> StreamText {
    let turn = |(name, text): &(&'static str, Text)| {
        let name = match *name {
            "src" => "dst",
            "dst" => "src",
            other => other,
        };
        (name, text.clone())
    };
    StreamText { span: stream.span.clone(), fields: stream.fields.iter().map(turn).collect() }
}
