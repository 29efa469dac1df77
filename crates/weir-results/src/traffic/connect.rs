//! A traffic of TCP connections: what each of them does, and how their rates are written.
//!
//! What `weir connect` does with them is weir-gen's; nothing here sends.

use serde::{Deserialize, Serialize};
use weir_wire::units::{self, Rate};

/// What is done with every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// How a connection ends.
    pub close: Close,
    /// Bytes of its request; zero if there is none.
    pub request_bytes: u16,
    /// Bytes of the reply.
    pub reply_bytes: u16,
    /// How many are opened in a trial, and stay open; present if and only if none is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Close {
    /// Both ends close it.
    #[default]
    Fin,
    /// The client resets it.
    Rst,
    /// It stays open.
    None,
}

impl Close {
    /// As specifications and files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fin => "fin",
            Self::Rst => "rst",
            Self::None => "none",
        }
    }
}

/// Name of the check that the DUT still knows the connections which came through and stay open.
pub const HELD_CHECK: &str = "held";

/// Reads a rate of connections, or of other things by that name: `max`, `50k`, `1.5M`.
///
/// # Errors
/// In words, what may be written instead.
pub fn parse_rate(text: &str, things: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match units::parse_rate(&format!("{text}pps")) {
        Ok(rate @ Rate::Pps(_)) => Ok(rate),
        _ => Err(format!(
            "write `max`, or a number of {things} per second above zero, such as `50k` or `1.5M`"
        )),
    }
}

/// Writes such a rate as [`parse_rate`] reads it.
#[must_use]
pub fn rate_text(rate: Rate) -> String {
    let text = rate.to_string();
    text.strip_suffix("pps").map_or_else(|| text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::{Traffic, TrafficKind};
    use super::*;
    use crate::unit::Unit;

    #[test]
    fn rates_are_numbers_of_connections() {
        let parse_rate = |text| parse_rate(text, "connections");
        assert_eq!(parse_rate("50k"), Ok(Rate::Pps(50e3)));
        assert_eq!(parse_rate("max"), Ok(Rate::Max));
        for text in ["0", "5kpps", "80%", "-1", ""] {
            let error = parse_rate(text).expect_err(text);
            assert!(error.contains("a number of connections per second"), "{error}");
        }
        for text in ["max", "50k", "1.5M", "12"] {
            assert_eq!(parse_rate(text).map(rate_text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn files_name_the_ends_of_connections_as_levels_do() {
        for close in [Close::Fin, Close::Rst, Close::None] {
            let written = serde_json::to_value(close).expect("writable");
            assert_eq!(written.as_str(), Some(close.name()));
        }
    }

    #[test]
    fn connections_go_through_a_file() {
        let text = r#"{"name":"t","id":"i","rate":"200k","flow_count":2,
            "kind":{"connect":{"close":"rst","request_bytes":64,"reply_bytes":128}},
            "streams":[{"src":"198.18.10.1:1-198.18.10.2","dst":"198.19.10.1:80","proto":"tcp",
            "size":"74"}]}"#;
        let traffic: Traffic = serde_json::from_str(text).expect("a traffic");
        assert_eq!((traffic.rate, traffic.kind.unit()), (Rate::Pps(200e3), Unit::Cps));
        let back = serde_json::to_value(&traffic).expect("writable");
        let written: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(back["kind"], written["kind"]);
        assert_eq!(back["rate"], "200k");
        let held = text.replace("128}", "128,\"count\":2}").replace("rst", "none");
        let held: Traffic = serde_json::from_str(&held).expect("a traffic");
        assert_eq!(held.kind.unit(), Unit::Connections);
        let packets = text.replace("\"rate\":\"200k\"", "\"rate\":\"200kpps\"");
        let error = serde_json::from_str::<Traffic>(&packets).expect_err("no rate").to_string();
        assert!(error.contains("connections per second"), "{error}");
        assert_eq!(TrafficKind::default().unit(), Unit::Pps);
    }
}
