//! What a server has counted. It never counts itself.

use serde::{Deserialize, Serialize};

/// Counters of one worker, or of several added up.
///
/// A request for the counters themselves is in `stats_requests`, and in no other counter of
/// requests, responses and bodies; its connection and its bytes count as any other's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Connections accepted. All of them are `open` or in one of the counters of closed ones.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Ended by the client where a request may end.
    pub closed_by_client: u64,
    /// Ended by the server: as the client has asked for, or behind a request that is none.
    pub closed_by_server: u64,
    /// Ended by the client within a request or before its answer was complete.
    pub closed_early: u64,
    /// Reset by the client, or failed otherwise.
    pub reset: u64,
    /// Handshakes of TLS with the certificate, those that resumed a session, and those that came to
    /// nothing.
    pub handshakes_full: u64,
    pub handshakes_resumed: u64,
    pub handshakes_failed: u64,
    /// Heads of requests that were understood.
    pub requests: u64,
    /// Requests that were none, answered with 4xx or 5xx; they are in `requests` only if what is
    /// wrong came behind the head.
    pub bad_requests: u64,
    /// Responses of which the last byte was given to the kernel, by class of status.
    pub responses_2xx: u64,
    pub responses_3xx: u64,
    pub responses_4xx: u64,
    pub responses_5xx: u64,
    /// Requests for these counters.
    pub stats_requests: u64,
    /// Bytes of requests' bodies, without their coding.
    pub body_received_bytes: u64,
    /// All bytes read from connections; of TLS, what it carries.
    pub received_bytes: u64,
    /// All bytes that the kernel has taken for connections; of TLS, what it carries.
    pub sent_bytes: u64,
    /// How often connections had to wait to be accepted, because the process may have no more
    /// descriptors, or the kernel no memory for them.
    pub accept_stalls: u64,
    /// CPU time of the workers so far, in the kernel and outside of it.
    pub cpu_ns: u64,
}

/// What a server tells of all its workers together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub workers: usize,
    /// Connections accepted by each of them, in their order.
    pub connections_by_worker: Vec<u64>,
    /// Connections that a listening socket of the server's network namespace had no room for, since
    /// the server was started.
    pub listen_overflows: u64,
    #[serde(flatten)]
    pub served: Served,
}

impl Served {
    /// A response is complete.
    pub fn count_response(&mut self, status: u16) {
        match status {
            ..300 => self.responses_2xx += 1,
            300..400 => self.responses_3xx += 1,
            400..500 => self.responses_4xx += 1,
            500.. => self.responses_5xx += 1,
        }
    }

    /// All complete responses.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.responses_2xx + self.responses_3xx + self.responses_4xx + self.responses_5xx
    }

    /// With another worker's counters.
    pub fn add(&mut self, other: &Self) {
        // Taken apart, so that no counter is left out.
        let Self {
            connections,
            open,
            closed_by_client,
            closed_by_server,
            closed_early,
            reset,
            handshakes_full,
            handshakes_resumed,
            handshakes_failed,
            requests,
            bad_requests,
            responses_2xx,
            responses_3xx,
            responses_4xx,
            responses_5xx,
            stats_requests,
            body_received_bytes,
            received_bytes,
            sent_bytes,
            accept_stalls,
            cpu_ns,
        } = *other;
        self.connections += connections;
        self.open += open;
        self.closed_by_client += closed_by_client;
        self.closed_by_server += closed_by_server;
        self.closed_early += closed_early;
        self.reset += reset;
        self.handshakes_full += handshakes_full;
        self.handshakes_resumed += handshakes_resumed;
        self.handshakes_failed += handshakes_failed;
        self.requests += requests;
        self.bad_requests += bad_requests;
        self.responses_2xx += responses_2xx;
        self.responses_3xx += responses_3xx;
        self.responses_4xx += responses_4xx;
        self.responses_5xx += responses_5xx;
        self.stats_requests += stats_requests;
        self.body_received_bytes += body_received_bytes;
        self.received_bytes += received_bytes;
        self.sent_bytes += sent_bytes;
        self.accept_stalls += accept_stalls;
        self.cpu_ns += cpu_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_added() {
        // Each counter another number, so that none can stand for another.
        let value = serde_json::to_value(Served::default()).unwrap();
        let names: Vec<&String> = value.as_object().unwrap().keys().collect();
        let numbered = names.iter().zip(1_u64..).map(|(name, at)| ((*name).clone(), at));
        let one: Served = serde_json::from_value(numbered.collect()).unwrap();
        let mut sum = one;
        sum.add(&one);
        let sum = serde_json::to_value(sum).unwrap();
        for (name, at) in names.iter().zip(1_u64..) {
            assert_eq!(sum[name.as_str()], 2 * at, "{name}");
        }
    }

    #[test]
    fn responses_count_by_class() {
        let mut served = Served::default();
        for status in [200, 299, 300, 404, 500, 599] {
            served.count_response(status);
        }
        let by_class = [served.responses_2xx, served.responses_3xx, served.responses_4xx];
        assert_eq!((by_class, served.responses_5xx, served.responses()), ([2, 1, 1], 2, 6));
    }
}
