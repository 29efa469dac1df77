//! Requests over TCP, whoever makes them: what their client and their server count, and how that
//! accounts for every request. It reads nothing, and decides nothing about a figure.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_http::figures::{Counts, FAILURE_NAMES, Failure};
use weir_http::served::Served;
use weir_http::verdict::{Kind, STILL_MAX};
use weir_results::accounting::Accounting;
use weir_results::counters::{Counters, DropRule, Place, PointRule, Selection};
use weir_results::record::Check;
use weir_wire::units::Rate;

use super::{Burst, TestbedError, Topology};

/// Sources of the counters of the two ends.
pub(super) const CLIENT: &str = "client";
pub(super) const SERVER: &str = "server";

/// The first counting point, and the last.
const DUE: &str = "requests_due";
const ANSWERED: &str = "answered";
/// The client's counts of what went wrong have this before their names.
const FAILED: &str = "failed_";

/// What a burst asks of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// Without it the loop is closed.
    pub(super) rate_rps: Option<f64>,
    /// How many requests, and the time in which that many are due.
    pub(super) limit: Option<(u64, Duration)>,
}

impl Asked {
    /// What this burst asks.
    pub(super) fn of(burst: &Burst) -> Result<Self, TestbedError> {
        let rate_rps = match burst.rate {
            Rate::Pps(rate_rps) => Some(rate_rps),
            Rate::Max | Rate::Bps(_) | Rate::Percent(_) => None,
        };
        if burst.packet_limit.is_some() && rate_rps.is_none() {
            return Err(TestbedError::new("a number of requests needs a rate"));
        }
        // The first of them is due at once, the last half a distance before the end.
        let limit = burst.packet_limit.zip(rate_rps).map(|(count, rate_rps)| {
            (count, Duration::from_secs_f64((count as f64 - 0.5) / rate_rps))
        });
        Ok(Self { rate_rps, limit })
    }
}

/// Every count of both ends.
pub(super) fn counters(counts: &Counts, served: &Served) -> Counters {
    let mut client = BTreeMap::from([
        ("due", counts.due),
        (ANSWERED, counts.answered),
        ("unsent", counts.unsent),
        ("unfinished", counts.unfinished),
        ("retried", counts.retried),
        ("opened", counts.opened),
        ("established", counts.established),
        ("not_opened", counts.not_opened.sum()),
        ("closed_idle", counts.closed_idle),
        ("received_bytes", counts.received_bytes),
        ("sent_bytes", counts.sent_bytes),
    ]);
    let failed = counts.failures.named().map(|(name, _, count)| (format!("{FAILED}{name}"), count));
    let failed: BTreeMap<String, u64> = failed.collect();
    client.extend(failed.iter().map(|(name, count)| (name.as_str(), *count)));
    let client = client.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    let server = [
        ("connections", served.connections),
        ("requests", served.requests),
        ("bad_requests", served.bad_requests),
        ("responses_2xx", served.responses_2xx),
        ("closed_early", served.closed_early),
        ("reset", served.reset),
        ("accept_stalls", served.accept_stalls),
    ];
    let server = server.map(|(name, count)| (name.to_owned(), count)).into();
    [(CLIENT.to_owned(), client), (SERVER.to_owned(), server)].into()
}

/// Whether there are as many good answers as the server has given, or less: what came too late for
/// the client is none.
pub(super) fn both_ends(answered: u64, served: u64) -> Check {
    let detail = format!("the server has given {served} answers, the client has got {answered}");
    Check { name: "server".to_owned(), passed: served >= answered, detail }
}

/// Whether the client was on time: what is late there is not the DUT's, and shows in no calibration
/// that went better. `reason` is that of its verdict, `lag_ns` the 99th percentile of its lateness.
pub(super) fn kept_rate(kind: &str, reason: &str, lag_ns: u64) -> Check {
    let passed = kind != Kind::GeneratorSaturated.name();
    let detail = match passed {
        true => format!("p99 of the client's send lag: {:.2} ms", lag_ns as f64 / 1e6),
        false => format!("the client is saturated: {reason}"),
    };
    Check { name: CLIENT.to_owned(), passed, detail }
}

/// Whether the client stood still while it ran: in a closed loop nothing else shows it.
pub(super) fn kept_going(still_ratio: f64) -> Check {
    let passed = still_ratio <= STILL_MAX.value;
    let detail = match passed {
        true => format!("the client stood still for {:.1} % of the time", still_ratio * 100.0),
        false => format!(
            "the client stood still for {:.0} % of the time: something stopped it, or took its CPU",
            still_ratio * 100.0
        ),
    };
    Check { name: CLIENT.to_owned(), passed, detail }
}

/// Whether there was room for all connections at the server: one that comes again a second later is
/// no delay of the DUT's.
pub(super) fn had_room(listen_overflows: u64) -> Check {
    let passed = listen_overflows == 0;
    let detail = match passed {
        true => "the server's listening sockets had room for all connections".to_owned(),
        false => format!(
            "the server's listening sockets had no room for {listen_overflows} connections: raise \
             net.core.somaxconn there, or give the server more CPUs"
        ),
    };
    Check { name: "listen-queue".to_owned(), passed, detail }
}

/// How the counters account for a request; `unfinished` is where those are lost that were under way
/// when the client ended.
pub(super) fn accounting(topology: Topology, unfinished: Place) -> Accounting {
    let on_way = match topology {
        Topology::Dut => Place::Dut,
        Topology::Direct => Place::Sink,
    };
    let point =
        |name, source, counter| PointRule { name, counters: Selection::new(source, &[counter]) };
    let lost = |name: &str, place| DropRule::new(name, DUE, place, Selection::new(CLIENT, &[name]));
    let failed = FAILURE_NAMES.iter().map(|(failure, name, _)| {
        let place = match failure {
            // Neither has left the client's host.
            Failure::Ports | Failure::Source => Place::Generator,
            _ => on_way,
        };
        lost(&format!("{FAILED}{name}"), place)
    });
    // Those that found no free connection had to wait for answers on all of them.
    let others = [lost("unsent", on_way), lost("unfinished", unfinished)];
    Accounting {
        points: vec![point(DUE, CLIENT, "due"), point(ANSWERED, CLIENT, ANSWERED)],
        drops: failed.chain(others).collect(),
        // The DUT drops packets, none of which is a request: TCP sends them again.
        connections: Some(Vec::new()),
        ..Accounting::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_or_has_a_reason() {
        let rules = accounting(Topology::Dut, Place::Generator);
        let client = [("due", 100), (ANSWERED, 90), ("unsent", 3), ("failed_reset", 7)];
        let client = BTreeMap::from(client.map(|(name, count)| (name.to_owned(), count)));
        let zero: BTreeMap<String, u64> = client.keys().map(|name| (name.clone(), 0)).collect();
        let of = |counts: BTreeMap<String, u64>| Counters::from([(CLIENT.to_owned(), counts)]);
        let found = rules.account(None, &of(zero), &of(client)).expect("all are there");
        assert_eq!((found.ledger.residual_packets, found.ledger.lost_packets()), (0, 10));
        assert!(both_ends(90, 90).passed && both_ends(90, 95).passed && !both_ends(90, 89).passed);
        let names: Vec<&str> = rules.drops.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), FAILURE_NAMES.len() + 2);
    }
}
