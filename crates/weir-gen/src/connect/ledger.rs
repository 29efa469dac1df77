//! How many connections reached which step, and where the others were lost.
//!
//! A connection goes through *steps*, which one end or the other counts. Along a chain of steps the
//! counts can only fall, by what was lost between two of them; so the losses of a chain add up to
//! the difference between its ends. A count that rises says that something was sent again. With one
//! end's counts alone, a loss is located between two steps of that end. Nothing here touches the
//! system.

use serde::{Deserialize, Serialize};
use weir_bpf::connect::{Close, ConnectCounters};

/// What a client was asked for, as far as it decides through which steps a connection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// How connections end.
    pub close: CloseName,
    /// Whether they are held before.
    pub hold_ns: u64,
    /// Bytes of a request; zero if there is none.
    pub request_bytes: u16,
}

/// [`Close`] in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CloseName {
    None,
    Fin,
    Rst,
}

impl From<Close> for CloseName {
    fn from(close: Close) -> Self {
        match close {
            Close::None => Self::None,
            Close::Fin => Self::Fin,
            Close::Rst => Self::Rst,
        }
    }
}

impl Course {
    const fn is_held(&self) -> bool {
        self.hold_ns > 0
    }

    const fn has_request(&self) -> bool {
        self.request_bytes > 0
    }

    /// Whether the client resets where it would acknowledge the SYN-ACK: the server never takes the
    /// connection for established.
    fn resets_at_once(&self) -> bool {
        self.close == CloseName::Rst && !self.is_held() && !self.has_request()
    }
}

/// What an end counted: [`ConnectCounters`] in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    pub syn: u64,
    pub syn_ack: u64,
    pub established: u64,
    pub request: u64,
    pub reply: u64,
    pub fin: u64,
    pub closed: u64,
    pub reset: u64,
    pub stranger: u64,
    pub retry: u64,
    pub repeated: u64,
    pub refused: u64,
    pub peer_reset: u64,
    pub peer_close: u64,
    pub bad_number: u64,
    pub bad_flags: u64,
    pub malformed: u64,
    pub unanswered: u64,
    pub passed_packets: u64,
}

impl From<ConnectCounters> for Counts {
    fn from(counters: ConnectCounters) -> Self {
        Self {
            syn: counters.syns,
            syn_ack: counters.syn_acks,
            established: counters.established,
            request: counters.requests,
            reply: counters.replies,
            fin: counters.fins,
            closed: counters.closed,
            reset: counters.resets,
            stranger: counters.strangers,
            retry: counters.retries,
            repeated: counters.repeated,
            refused: counters.refused,
            peer_reset: counters.peer_resets,
            peer_close: counters.peer_closes,
            bad_number: counters.bad_number,
            bad_flags: counters.bad_flags,
            malformed: counters.malformed,
            unanswered: counters.unanswered,
            passed_packets: counters.passed_packets,
        }
    }
}

/// Name, text and count of what belongs to no step of a connection.
type Kind = (&'static str, &'static str, fn(&Counts) -> u64);

/// What may happen that belongs to no step of a connection.
const UNEXPECTED: [Kind; 8] = [
    ("repeated", "SYN-ACKs of connections that had been answered before", |counts| counts.repeated),
    ("refused", "SYNs answered with a RST: nobody listens there", |counts| counts.refused),
    ("peer_reset", "RSTs of the server after the handshake", |counts| counts.peer_reset),
    ("peer_close", "FINs of the server for connections that the client was to end", |counts| {
        counts.peer_close
    }),
    ("bad_number", "segments whose acknowledgement number fits no step", |counts| {
        counts.bad_number
    }),
    ("bad_flags", "segments whose flags fit no step", |counts| counts.bad_flags),
    ("malformed", "segments without a whole TCP header", |counts| counts.malformed),
    ("unanswered", "segments whose frames were too small to answer in", |counts| counts.unanswered),
];

impl Counts {
    /// What was seen that belongs to no step of a connection, by kind: name, text, count.
    pub fn unexpected(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + '_ {
        let all = UNEXPECTED.iter().map(|(name, text, count)| (*name, *text, count(self)));
        all.filter(|(_, _, count)| *count > 0)
    }
}

/// The eight counters. `None` is not known to the end that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// SYNs that the client sent.
    pub syn_sent: u64,
    /// SYN-ACKs that it saw.
    pub syn_ack_seen: u64,
    /// Connections that were established at the client.
    pub established_client: u64,
    /// Connections that were established at the server.
    pub established_server: Option<u64>,
    /// Requests that the client sent.
    pub request_sent: u64,
    /// Replies that it saw.
    pub reply_seen: u64,
    /// Connections of which both FINs were acknowledged, as the client saw it.
    pub closed: u64,
    /// Connections that the client reset.
    pub reset: u64,
}

impl Ledger {
    /// The counters of a client, and of the server if that is known.
    #[must_use]
    pub fn new(client: &Counts, server: Option<&Counts>) -> Self {
        Self {
            syn_sent: client.syn,
            syn_ack_seen: client.syn_ack,
            established_client: client.established,
            established_server: server.map(|server| server.established),
            request_sent: client.request,
            reply_seen: client.reply,
            closed: client.closed,
            reset: client.reset,
        }
    }

    /// Name and count of each, in the order of a connection.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, Option<u64>); 8] {
        [
            ("SYN sent", Some(self.syn_sent)),
            ("SYN-ACK seen", Some(self.syn_ack_seen)),
            ("established at the client", Some(self.established_client)),
            ("established at the server", self.established_server),
            ("request sent", Some(self.request_sent)),
            ("reply seen", Some(self.reply_seen)),
            ("closed", Some(self.closed)),
            ("reset", Some(self.reset)),
        ]
    }
}

/// Who counts a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Client,
    Server,
}

/// A step: who counts it, its name, its count.
type Step = (End, &'static str, u64);

/// Segments, each of a connection, that reached one step and not the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The step that they reached.
    pub after: &'static str,
    /// The step that they did not.
    pub before: &'static str,
    /// Where they were lost.
    pub place: &'static str,
    /// How many; below zero if a step was seen more often than the one before it, because
    /// something was sent again.
    pub count: i64,
}

/// Where connections were lost: between which steps, and on whose way.
#[must_use]
pub fn missing(course: &Course, client: &Counts, server: Option<&Counts>) -> Vec<Missing> {
    let mut found = Vec::new();
    for chain in chains(course, client, server) {
        for pair in chain.windows(2) {
            let [(from, after, reached), (to, before, went_on)] = pair else { continue };
            // What was refused is not lost, nor is what was answered before.
            let accounted = match (*after, *before) {
                ("syn_sent", _) => client.refused,
                (_, "established_client") if server.is_some() => client.repeated,
                _ => 0,
            };
            let count = difference(*reached, went_on.saturating_add(accounted));
            let place = match (from, to) {
                (End::Client, End::Server) => "client to server",
                (End::Server, End::Client) => "server to client",
                (End::Server, End::Server) => "server",
                (End::Client, End::Client) if is_turn(after, before) => "client",
                (End::Client, End::Client) => "beyond the client",
            };
            if count != 0 {
                found.push(Missing { after, before, place, count });
            }
        }
    }
    found
}

/// How many connections have come through all of their steps, as far as the client sees them.
#[must_use]
pub fn through(course: &Course, client: &Counts) -> u64 {
    let steps = chains(course, client, None).into_iter().flatten();
    steps.map(|(_, _, count)| count).min().unwrap_or(0)
}

/// The steps of a connection as both ends count them, in their order: who counts each, and its
/// name. Without the part behind its last `_`, that is the name of a count of [`Counts`].
#[must_use]
pub fn steps(course: &Course) -> Vec<(End, &'static str)> {
    let none = Counts::default();
    let chains = chains(course, &none, Some(&none));
    chains.into_iter().flatten().map(|(end, name, _)| (end, name)).collect()
}

fn difference(from: u64, to: u64) -> i64 {
    let signed = |count| i64::try_from(count).unwrap_or(i64::MAX);
    signed(from) - signed(to)
}

/// Whether the client went from one step to the next by itself.
fn is_turn(after: &str, before: &str) -> bool {
    matches!(
        (after, before),
        ("syn_ack_seen", "established_client")
            | ("established_client", "request_sent" | "fin_sent" | "reset_sent")
            | ("reply_seen", "fin_sent" | "reset_sent")
    )
}

/// The steps of a connection in their order; those of its end apart if it is held, because the
/// client ends all that it has opened.
fn chains(course: &Course, client: &Counts, server: Option<&Counts>) -> Vec<Vec<Step>> {
    let ours = |name, count| (End::Client, name, count);
    let theirs = |name: &'static str, count: fn(&Counts) -> u64| {
        server.map(|server| (End::Server, name, count(server)))
    };
    // What was sent again was seen again and answered again, as the other end counts.
    let (retry, repeated) = server.map_or((0, 0), |_| (client.retry, client.repeated));
    let mut opening = vec![ours("syn_sent", client.syn + retry)];
    opening.extend(theirs("syn_seen", |counts| counts.syn));
    opening.extend(theirs("syn_ack_sent", |counts| counts.syn_ack));
    opening.push(ours("syn_ack_seen", client.syn_ack + repeated));
    opening.push(ours("established_client", client.established));
    if course.has_request() {
        opening.push(ours("request_sent", client.request));
        opening.extend(theirs("established_server", |counts| counts.established));
        opening.extend(theirs("request_seen", |counts| counts.request));
        opening.extend(theirs("reply_sent", |counts| counts.reply));
        opening.push(ours("reply_seen", client.reply));
    }
    let mut ending = Vec::new();
    let ends_first = course.is_held() || !course.has_request();
    match course.close {
        CloseName::None => {}
        CloseName::Rst => {
            ending.push(ours("reset_sent", client.reset));
            ending.extend(theirs("reset_seen", |counts| counts.reset));
        }
        CloseName::Fin => ending.push(ours("fin_sent", client.fin)),
    }
    if !course.has_request() && !course.resets_at_once() {
        let established = theirs("established_server", |counts| counts.established);
        // A FIN in the place of the acknowledgement is that, too.
        if course.close == CloseName::Fin && !course.is_held() {
            ending.extend(established);
        } else {
            opening.extend(established);
        }
    }
    if course.close == CloseName::Fin {
        ending.extend(theirs("fin_seen", |counts| counts.fin));
        let closed_here = ours("closed_client", client.closed);
        let closed_there = theirs("closed_server", |counts| counts.closed);
        if ends_first {
            ending.push(closed_here);
            ending.extend(closed_there);
        } else {
            ending.extend(closed_there);
            ending.push(closed_here);
        }
    }
    if course.is_held() {
        return vec![opening, ending];
    }
    opening.extend(ending);
    vec![opening]
}

#[cfg(test)]
mod tests;
