//! What a `[[traffic]]` of kind `http` has, before substitution: requests over TCP.

use weir_results::traffic::connect::Close;

use crate::diagnostic::{Report, Span, quote};
use crate::spec::fields::{Fields, Text};

/// As written.
#[derive(Debug)]
pub(crate) struct HttpSpec {
    /// Place of its kind.
    pub(crate) span: Span,
    /// How many there are at a time.
    pub(crate) connections: Option<Text>,
    /// Requests on each of them.
    pub(crate) keepalive: Option<Text>,
    pub(crate) close: Close,
    /// Bytes of each reply.
    pub(crate) reply: Option<Text>,
    /// Where a DUT that is a proxy listens.
    pub(crate) proxy: Option<Text>,
}

impl HttpSpec {
    /// Every text of it that may refer to sweeps.
    pub(crate) fn texts(&self) -> [Option<&Text>; 4] {
        [&self.connections, &self.keepalive, &self.reply, &self.proxy].map(Option::as_ref)
    }
}

/// Reads what is asked for, and over which connections.
pub(crate) fn http(fields: &Fields<'_, '_>, report: &mut Report) -> Option<HttpSpec> {
    let close = match fields.text("close", report) {
        None => Close::Fin,
        Some(text) => match text.text.as_str() {
            "fin" => Close::Fin,
            "rst" => Close::Rst,
            other => {
                let message = format!("`close` cannot be {}", quote(other));
                report.error_help(&text.span, message, "use \"fin\" or \"rst\"");
                return None;
            }
        },
    };
    let span = fields.key_span("kind").unwrap_or_else(|| fields.span.clone());
    Some(HttpSpec {
        span,
        connections: fields.text_or_number("connections", report),
        keepalive: fields.text_or_number("keepalive", report),
        close,
        reply: fields.text_or_number("reply", report),
        proxy: fields.text("proxy", report),
    })
}
