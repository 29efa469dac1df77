//! What a `[[traffic]]` of kind `connect` has, before substitution: TCP connections.

use weir_gen::connect::{
    PAYLOAD_BYTES_MAX, REPLY_BYTES_DEFAULT, REPLY_BYTES_MIN, REQUEST_BYTES_DEFAULT,
};
use weir_results::traffic::connect::Close;

use crate::diagnostic::{Report, Span, quote};
use crate::spec::fields::{Fields, Text};
use crate::spec::streams::{self, StreamText};

/// The kinds of traffic.
const PACKETS: &str = "packets";
const CONNECT: &str = "connect";

/// The fields that no other kind has.
pub(crate) const FIELDS: [&str; 4] = ["close", "request", "reply", "count"];

/// A field of `weir connect` that a lab has not, which is refused by its name.
const HOLD: &str = "hold";

/// Fields of packets that connections have too.
const SHARED: [&str; 3] = ["src", "dst", "threads"];

/// As written.
#[derive(Debug)]
pub(crate) struct ConnectSpec {
    /// Place of its kind.
    pub(crate) span: Span,
    pub(crate) close: Close,
    pub(crate) request_bytes: u16,
    pub(crate) reply_bytes: u16,
    /// How many are opened and stay open.
    pub(crate) count: Option<Text>,
}

/// Whether a traffic is of connections; `None` if it is of a kind that does not exist.
pub(crate) fn is_kind(fields: &Fields<'_, '_>, report: &mut Report) -> Option<bool> {
    if fields.get("kind").is_none() {
        return Some(false);
    }
    let kind = fields.text("kind", report)?;
    match kind.text.as_str() {
        PACKETS => Some(false),
        CONNECT => Some(true),
        other => {
            let message = format!("`kind` of a traffic cannot be {}", quote(other));
            report.error_help(&kind.span, message, "use \"packets\" or \"connect\"");
            None
        }
    }
}

/// Refuses every field that no traffic has, those of connections first that a lab has not.
pub(crate) fn refuse_unknown(
    fields: &Fields<'_, '_>,
    (known, is_of_connections): (&[&str], bool),
    report: &mut Report,
) {
    let Some(span) = fields.key_span(HOLD).filter(|_| is_of_connections) else {
        return fields.refuse_unknown(known, report);
    };
    let message = "`hold` is not built for connections in a lab";
    let help = "close = \"none\" measures how many connections are held; `weir connect --hold` \
                closes them after a time";
    report.error_help(&span, message, help);
    fields.refuse_unknown(&[known, &[HOLD]].concat(), report);
}

/// Refuses what only connections have.
pub(crate) fn refuse_fields(fields: &Fields<'_, '_>, report: &mut Report) {
    for name in FIELDS {
        if let Some(span) = fields.key_span(name) {
            let message = format!("`{name}` is for connections, and this traffic is of packets");
            report.error_help(&span, message, "write kind = \"connect\", or leave it out");
        }
    }
}

/// Refuses what connections do not have of the fields of packets.
pub(crate) fn refuse_fields_of_packets(
    fields: &Fields<'_, '_>,
    of_packets: &[&str],
    report: &mut Report,
) {
    for name in of_packets.iter().filter(|name| !SHARED.contains(name)) {
        if let Some(span) = fields.key_span(name) {
            let message = format!("`{name}` is for packets, and this traffic is of connections");
            let help = "connections have: src, dst, rate, threads, close, request, reply, count";
            report.error_help(&span, message, help);
        }
    }
}

/// The SYNs that open the connections.
pub(crate) fn stream(fields: &Fields<'_, '_>, report: &mut Report) -> Option<StreamText> {
    let mut stream = streams::stream(fields, ["src", "dst"].into_iter(), report)?;
    let span = stream.span.clone();
    stream.fields.push(("proto", Text { text: "tcp".to_owned(), span }));
    Some(stream)
}

/// Reads what is done with each connection.
pub(crate) fn connect(fields: &Fields<'_, '_>, report: &mut Report) -> Option<ConnectSpec> {
    let close = match fields.text("close", report) {
        None => Close::Fin,
        Some(text) => match text.text.as_str() {
            "fin" => Close::Fin,
            "rst" => Close::Rst,
            "none" => Close::None,
            other => {
                let message = format!("`close` cannot be {}", quote(other));
                report.error_help(&text.span, message, "use \"fin\", \"rst\" or \"none\"");
                return None;
            }
        },
    };
    let mut bytes = |name: &str, least: u16, default: u16| {
        let read = fields.count(name, least.into()..=PAYLOAD_BYTES_MAX.into(), report);
        read.and_then(|bytes| u16::try_from(bytes).ok()).unwrap_or(default)
    };
    let request_bytes = bytes("request", 0, REQUEST_BYTES_DEFAULT);
    let reply_bytes = bytes("reply", REPLY_BYTES_MIN, REPLY_BYTES_DEFAULT);
    let count = fields.text_or_number("count", report);
    if let (Some(span), false) = (fields.key_span("count"), close == Close::None) {
        let message = "`count` is for connections that stay open, and these are closed";
        let help = "write close = \"none\" to measure how many are held; others are opened for \
                    the time of [trial]";
        report.error_help(&span, message, help);
    }
    let span = fields.key_span("kind").unwrap_or_else(|| fields.span.clone());
    Some(ConnectSpec { span, close, request_bytes, reply_bytes, count })
}
