//! What the lines of generators and receivers say: how many packets so far.
//!
//! Formats: the objects of `weir gen --json` and `weir sink --json`, of `weir http --json` and of
//! `weir connect --json`, and of their servers; pkt-gen's reports (`… main_thread [NNNN] P pps (K
//! pkts B bps in U usec) …`) and totals (`Received N packets …`); trafgen's last lines (`N packets
//! outgoing`); or a pattern of the user's. Nothing here judges.

use regex::Regex;
use serde::Deserialize as _;
use serde_json::Value;

use crate::model::DriverKind;
use weir_gen::connect::ledger::Counts;
use weir_gen::pkt_gen::lines::{self, Report};

/// How many packets so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// The program's own clock since its start; absent where it shows none.
    pub(super) t_ns: Option<u64>,
    /// Packets sent or received.
    pub(super) packets: u64,
    /// Their bytes without FCS, where the program counts them.
    pub(super) bytes: Option<u64>,
    /// Of what was sent, what the device accepted; of requests, what was answered.
    pub(super) accepted: Option<u64>,
    /// Of what was received, packets without weir's signature, which are not among `packets`.
    pub(super) foreign: u64,
    /// All that an end of connections has counted; its SYNs are `packets`.
    pub(super) connections: Option<Counts>,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Parsed {
    Count(Count),
    /// The last count, which is exact.
    Total(Count),
    /// A figure that cannot be used: why.
    Unusable(String),
    /// Nothing that counts.
    Nothing,
}

/// Reads the lines of one program from its start.
#[derive(Debug)]
pub(super) struct Lines {
    kind: DriverKind,
    pattern: Option<Regex>,
    /// Sums of pkt-gen's intervals.
    sum: Count,
}

impl Lines {
    /// A reader for a driver's lines; `pattern` is that of `command`.
    pub(super) fn new(kind: DriverKind, pattern: Option<&str>) -> Result<Self, regex::Error> {
        Ok(Self { kind, pattern: pattern.map(Regex::new).transpose()?, sum: Count::default() })
    }

    /// Reads the next line.
    pub(super) fn read(&mut self, line: &str) -> Parsed {
        match self.kind {
            DriverKind::Weir => weir(line),
            DriverKind::PktGen => self.pkt_gen(line),
            DriverKind::Trafgen => trafgen(line),
            DriverKind::Command => self.command(line),
        }
    }

    fn pkt_gen(&mut self, line: &str) -> Parsed {
        match lines::report(line) {
            Some(Report::Interval { is_plain: false, .. }) => Parsed::Unusable(
                "pkt-gen prints scaled units, which have lost their digits: start it with -N"
                    .to_owned(),
            ),
            Some(Report::Interval { packets, interval_us, .. }) => {
                self.sum.packets += whole(packets);
                let t_ns = self.sum.t_ns.unwrap_or(0) + interval_us.saturating_mul(1000);
                self.sum.t_ns = Some(t_ns);
                Parsed::Count(self.sum)
            }
            Some(Report::Total(packets)) => Parsed::Total(Count { packets, ..self.sum }),
            None => Parsed::Nothing,
        }
    }

    fn command(&self, line: &str) -> Parsed {
        let found = self.pattern.as_ref().and_then(|pattern| pattern.captures(line));
        let Some(number) = found.and_then(|groups| Some(groups.get(1)?.as_str().to_owned())) else {
            return Parsed::Nothing;
        };
        let digits: String = number.chars().filter(|c| !matches!(c, ',' | '_' | '\'')).collect();
        match digits.parse() {
            Ok(packets) => Parsed::Count(Count { packets, ..Count::default() }),
            Err(_) => Parsed::Unusable(format!(
                "`packets` found `{number}`, which is not a whole number, in `{line}`"
            )),
        }
    }
}

/// An object of `weir gen --json` or `weir sink --json`, or of `weir http` or `weir connect` and
/// their servers.
fn weir(line: &str) -> Parsed {
    let Ok(object) = serde_json::from_str::<Value>(line) else {
        return Parsed::Nothing;
    };
    if let Some(found) = connections(&object).or_else(|| requests(&object)) {
        return found;
    }
    let number = |name: &str| object.get(name).and_then(Value::as_u64);
    let count = |time: &str, packets: &str, bytes: &str| {
        Some(Count {
            t_ns: Some(number(time)?),
            packets: number(packets)?,
            bytes: number(bytes),
            accepted: number("accepted_packets"),
            foreign: number("foreign_packets").unwrap_or(0),
            connections: None,
        })
    };
    let parsed = match object.get("kind").and_then(Value::as_str) {
        Some("second") => count("t_ns", "offered_packets", "").map(Parsed::Count),
        Some("result") => {
            count("duration_ns", "offered_packets", "offered_bytes").map(Parsed::Total)
        }
        Some("interval") => count("duration_ns", "packets", "bytes").map(Parsed::Count),
        Some("total") => count("duration_ns", "packets", "bytes").map(Parsed::Total),
        _ => None,
    };
    parsed.unwrap_or(Parsed::Nothing)
}

/// What either end of connections says.
fn connections(object: &Value) -> Option<Parsed> {
    object.get("end")?;
    let counts = Counts::deserialize(object.get("counts")?).ok()?;
    let count = |time: &str| {
        let t_ns = Some(object.get(time)?.as_u64()?);
        Some(Count { t_ns, packets: counts.syn, connections: Some(counts), ..Count::default() })
    };
    match object.get("kind")?.as_str()? {
        "second" => count("t_ns").map(Parsed::Count),
        "interval" => count("duration_ns").map(Parsed::Count),
        "result" | "total" => count("duration_ns").map(Parsed::Total),
        _ => None,
    }
}

/// What a client or a server of requests says. A client's requests that were due are its packets,
/// and those that were answered are accepted; a server's are its good answers.
fn requests(object: &Value) -> Option<Parsed> {
    let number = |object: &Value, name: &str| object.get(name).and_then(Value::as_u64);
    let kind = object.get("kind").and_then(Value::as_str)?;
    let count = match object.get("counts") {
        Some(counts) => Count {
            t_ns: number(object, "t_ns"),
            packets: number(counts, "due")?,
            bytes: number(counts, "received_bytes"),
            accepted: number(counts, "answered"),
            ..Count::default()
        },
        None => Count {
            t_ns: number(object, "t_ns"),
            packets: number(object, "responses_2xx")?,
            ..Count::default()
        },
    };
    match kind {
        "second" | "interval" => Some(Parsed::Count(count)),
        "result" | "total" => Some(Parsed::Total(count)),
        _ => None,
    }
}

/// The last lines of trafgen.
fn trafgen(line: &str) -> Parsed {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        [number, "packets", "outgoing"] => match number.parse() {
            Ok(packets) => Parsed::Total(Count { packets, ..Count::default() }),
            Err(_) => Parsed::Unusable(format!("`{number}` in `{line}` is not a packet count")),
        },
        _ => Parsed::Nothing,
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, not negative")]
fn whole(packets: f64) -> u64 {
    packets.round() as u64
}

#[cfg(test)]
mod tests;
