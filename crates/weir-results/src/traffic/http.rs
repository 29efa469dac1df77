//! A traffic of HTTP requests: over which connections they go, and what they ask for.
//!
//! What `weir http` does with them is weir-load's; nothing here sends.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::connect::Close;

/// What is asked for, over connections of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Connections at a time.
    pub connections: u64,
    /// Requests on a connection, before the client closes it; absent: as many as the server lets
    /// it have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive: Option<u64>,
    /// How the client ends a connection, which it always does.
    pub close: Close,
    /// Bytes of the body of each reply.
    pub reply_bytes: u64,
    /// Where the DUT listens, which is a proxy; absent: it forwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<SocketAddr>,
}

impl Http {
    /// As levels have [`Http::keepalive`].
    #[must_use]
    pub fn keepalive_text(&self) -> String {
        self.keepalive.map_or_else(|| "unlimited".to_owned(), |count| count.to_string())
    }
}

#[cfg(test)]
mod tests {
    use weir_wire::units::Rate;

    use super::super::Traffic;
    use crate::unit::Unit;

    #[test]
    fn requests_go_through_a_file() {
        let text = r#"{"name":"t","id":"i","rate":"20k","flow_count":1,
            "kind":{"http":{"connections":64,"keepalive":1,"close":"rst","reply_bytes":128,
            "proxy":"198.18.0.1:8080"}},
            "streams":[{"src":"198.18.0.2:1024","dst":"198.19.0.2:80","proto":"tcp",
            "size":"74"}]}"#;
        let traffic: Traffic = serde_json::from_str(text).expect("a traffic");
        assert_eq!((traffic.rate, traffic.kind.unit()), (Rate::Pps(20e3), Unit::Rps));
        assert_eq!(traffic.http().map(|http| http.keepalive_text()).as_deref(), Some("1"));
        let back = serde_json::to_value(&traffic).expect("writable");
        let written: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!((&back["kind"], &back["rate"]), (&written["kind"], &written["rate"]));
        let packets = text.replace("\"rate\":\"20k\"", "\"rate\":\"20kpps\"");
        let error = serde_json::from_str::<Traffic>(&packets).expect_err("no rate").to_string();
        assert!(error.contains("requests per second"), "{error}");
    }
}
