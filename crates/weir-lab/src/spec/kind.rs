//! The kinds of a `[[traffic]]`, and which fields each of them has.

use crate::diagnostic::{Report, quote};
use crate::spec::fields::Fields;
use crate::spec::senders;
use crate::spec::streams::stream_fields;

/// What a traffic is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Packets,
    Connect,
    Http,
}

/// Each kind, as it is written, and what it is of.
const KINDS: [(Kind, &str, &str); 3] = [
    (Kind::Packets, "packets", "packets"),
    (Kind::Connect, "connect", "connections"),
    (Kind::Http, "http", "requests"),
];

/// What every kind has.
const COMMON: [&str; 3] = ["name", "kind", "rate"];
/// What both kinds have that are no packets.
const OF_CONNECT: [&str; 7] = ["src", "dst", "threads", "close", "request", "reply", "count"];
const OF_HTTP: [&str; 8] =
    ["src", "dst", "threads", "connections", "keepalive", "close", "reply", "proxy"];

/// A field of `weir connect` that a lab has not, which is refused by its name.
const HOLD: &str = "hold";

impl Kind {
    /// The kind of a traffic; `None` if it is one that does not exist.
    pub(crate) fn of(fields: &Fields<'_, '_>, report: &mut Report) -> Option<Self> {
        if fields.get("kind").is_none() {
            return Some(Self::Packets);
        }
        let kind = fields.text("kind", report)?;
        let found = KINDS.iter().find(|(_, name, _)| *name == kind.text);
        if found.is_none() {
            let message = format!("`kind` of a traffic cannot be {}", quote(&kind.text));
            report.error_help(&kind.span, message, "use \"packets\", \"connect\" or \"http\"");
        }
        found.map(|(kind, _, _)| *kind)
    }

    /// Its fields, but for those that all have.
    fn fields(self) -> Vec<&'static str> {
        match self {
            Self::Packets => stream_fields().chain(["streams"]).chain(senders::FIELDS).collect(),
            Self::Connect => OF_CONNECT.to_vec(),
            Self::Http => OF_HTTP.to_vec(),
        }
    }

    /// What it is of, in words.
    fn things(self) -> &'static str {
        KINDS.iter().find(|(kind, _, _)| *kind == self).map_or("", |(_, _, things)| things)
    }

    /// Refuses fields that only other kinds have, and those that none has.
    pub(crate) fn refuse_others(self, fields: &Fields<'_, '_>, report: &mut Report) {
        let of_kind = self.fields();
        let mut known = [&of_kind[..], &COMMON].concat();
        for (kind, _, things) in KINDS {
            for name in kind.fields() {
                if known.contains(&name) {
                    continue;
                }
                known.push(name);
                let Some(span) = fields.key_span(name) else { continue };
                let of = self.things();
                let message = format!("`{name}` is for {things}, and this traffic is of {of}");
                let help = match self {
                    Self::Packets => "write another `kind`, or leave it out".to_owned(),
                    _ => format!("{of} have: rate, {}", of_kind.join(", ")),
                };
                report.error_help(&span, message, help);
            }
        }
        if let Some(span) = fields.key_span(HOLD).filter(|_| self == Self::Connect) {
            let message = "`hold` is not built for connections in a lab";
            let help = "close = \"none\" measures how many connections are held; `weir connect \
                        --hold` closes them after a time";
            report.error_help(&span, message, help);
            known.push(HOLD);
        }
        fields.refuse_unknown(&known, report);
    }
}
