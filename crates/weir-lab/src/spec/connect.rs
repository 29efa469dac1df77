//! What a `[[traffic]]` of kind `connect` has, before substitution: TCP connections.

use weir_gen::connect::{
    PAYLOAD_BYTES_MAX, REPLY_BYTES_DEFAULT, REPLY_BYTES_MIN, REQUEST_BYTES_DEFAULT,
};
use weir_results::traffic::connect::Close;

use crate::diagnostic::{Report, Span, quote};
use crate::spec::fields::{Fields, Text};
use crate::spec::streams::{self, StreamText};

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
