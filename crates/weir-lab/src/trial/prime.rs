//! Priming: a DUT that keeps a state for each flow meets them all before the measurement, slowly.
//!
//! Each stream is sent alone, one flow after the other. Streams whose flows are drawn at random
//! are not primed: that is how an attack looks, whose flows nobody knows beforehand, and their
//! ranges may hold far more flows than any DUT keeps. How many flows the DUT knows in the end is
//! checked as far as it can be foretold.

use std::time::Duration;

use weir_results::record::Check;
use weir_results::traffic::Traffic;
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;
use weir_wire::walk::Walk;

use super::{PROBE_PATIENCE, Runner, TrialError, host_of, packets};
use crate::dut::DutDriver;
use crate::testbed::{Burst, Rig};

/// Rates at which each flow is sent once to a DUT that keeps flows, pass by pass, until it knows
/// them all. A machine that is busy with other things loses packets at a rate that it forwards
/// easily when it is quiet, so later passes are slower. What a pass has lost, the next one makes
/// good: with millions of flows, two fast passes and what they lose take less time than a slow one.
const PRIME_RATES_PPS: [f64; 8] = [400e3, 400e3, 200e3, 100e3, 50e3, 50e3, 25e3, 25e3];
/// A pass takes at most this long, because a DUT forgets flows: Linux's connection tracker does so
/// after 30 seconds without an answer.
const PRIME_PASS_MAX: Duration = Duration::from_secs(20);

/// The rate of a pass: the one asked for, or a higher one where the pass would take too long.
fn prime_rate_pps(flow_count: u64, asked_pps: f64) -> f64 {
    asked_pps.max(packets(flow_count) / PRIME_PASS_MAX.as_secs_f64())
}

/// Flows that are sent before the measurement, to a DUT that keeps them.
fn flow_count(traffic: &Traffic) -> u64 {
    let senders = traffic.each_sender();
    let distinct = traffic.distinct_streams().into_iter();
    let walked = distinct.filter(|&(at, index)| is_walked(&senders[at].streams.specs()[index].0));
    walked.map(|(at, index)| senders[at].streams.flow_count_of(index)).sum()
}

/// What the DUT knows once all has been sent.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// So many flows, and up to so many more that the probes happened to draw.
    Flows { sent: u64, drawn_max: u64 },
    /// It cannot be foretold: why.
    Unknown(String),
}

impl Expected {
    /// What is to be expected of the traffic if `flows_of` tells how many flows of a stream the DUT
    /// keeps apart, and `probe_packets` have been sent.
    fn of(
        traffic: &Traffic,
        probe_packets: u64,
        flows_of: impl Fn(&StreamSpec) -> Result<u64, String>,
    ) -> Self {
        let senders = traffic.each_sender();
        let distinct = traffic.distinct_streams().into_iter();
        let specs: Vec<&StreamSpec> =
            distinct.map(|(at, index)| &senders[at].streams.specs()[index].0).collect();
        let walked: Vec<&StreamSpec> = specs.iter().copied().filter(|s| is_walked(s)).collect();
        if walked.is_empty() {
            let why = "flows are drawn at random, so none was sent beforehand";
            return Self::Unknown(why.to_owned());
        }
        for (index, spec) in walked.iter().enumerate() {
            if walked[..index].iter().any(|other| may_share_flows(spec, other)) {
                return Self::Unknown("streams of the traffic may share flows".to_owned());
            }
        }
        let drawn_max = if walked.len() < specs.len() { probe_packets } else { 0 };
        match walked.iter().map(|spec| flows_of(spec)).sum::<Result<u64, String>>() {
            Ok(sent) => Self::Flows { sent, drawn_max },
            Err(why) => Self::Unknown(why),
        }
    }

    fn holds(&self, known: u64) -> bool {
        match self {
            Self::Flows { sent, drawn_max } => (*sent..=sent + drawn_max).contains(&known),
            Self::Unknown(_) => true,
        }
    }

    fn check(&self, known: u64, passes: u32) -> Check {
        let detail = match self {
            Self::Flows { sent, drawn_max: 0 } => {
                format!("the DUT knows {known} of {sent} flows, each sent {passes} times")
            }
            Self::Flows { sent, drawn_max } => format!(
                "the DUT knows {known} flows: {sent}, each sent {passes} times, and at most \
                 {drawn_max} that the probes drew at random"
            ),
            Self::Unknown(why) => {
                format!("not checked: {why}; the DUT knows {known} flows before the measurement")
            }
        };
        Check { name: "flows".to_owned(), passed: self.holds(known), detail }
    }
}

fn is_walked(spec: &StreamSpec) -> bool {
    spec.walk == Walk::Odometer
}

/// Whether two streams may have a flow in common. Addresses and ports inside a range are taken for
/// all those between its ends.
fn may_share_flows(a: &StreamSpec, b: &StreamSpec) -> bool {
    let overlap = |a: &AddrRange, b: &AddrRange| {
        let last = |range: &AddrRange| range.addr(range.addr_count() - 1);
        let last_port = |range: &AddrRange| u32::from(range.port_first()) + range.port_count() - 1;
        a.addr(0) <= last(b)
            && b.addr(0) <= last(a)
            && u32::from(a.port_first()) <= last_port(b)
            && u32::from(b.port_first()) <= last_port(a)
    };
    let one_way = overlap(&a.src, &b.src) && overlap(&a.dst, &b.dst);
    // What comes back belongs to the flow that it answers.
    let both_ways = overlap(&a.src, &b.dst) && overlap(&a.dst, &b.src);
    std::mem::discriminant(&a.protocol) == std::mem::discriminant(&b.protocol)
        && (one_way || both_ways)
}

impl Runner<'_> {
    /// Sends each flow once, until the DUT knows them all.
    pub(super) fn prime(
        &mut self,
        rig: &mut dyn Rig,
        dut: &mut dyn DutDriver,
    ) -> Result<(), TrialError> {
        let traffic = self.trial.traffic;
        let expected = Expected::of(traffic, self.probe_packets, |spec| dut.flows_of(spec));
        let mut known = 0;
        let mut passes = 0;
        for rate_pps in PRIME_RATES_PPS {
            self.send_each_flow(rig, prime_rate_pps(flow_count(traffic), rate_pps))?;
            self.pause(PROBE_PATIENCE)?;
            passes += 1;
            match dut.flows(host_of(rig)?)? {
                Some(flows) => known = flows,
                None => return Ok(()),
            }
            if expected.holds(known) {
                break;
            }
        }
        let mut check = expected.check(known, passes);
        if !check.passed
            && let Some(limit) = dut.flow_limit(host_of(rig)?)?
        {
            check.detail.push_str("; ");
            check.detail.push_str(&limit);
        }
        self.checks.push(check);
        Ok(())
    }

    /// One pass over the flows of every stream that walks over them.
    fn send_each_flow(&mut self, rig: &mut dyn Rig, rate_pps: f64) -> Result<(), TrialError> {
        let traffic = self.trial.traffic;
        let senders = traffic.each_sender();
        let burst = Burst::new(Rate::Pps(rate_pps), None);
        let has_several = senders.len() > 1 || traffic.stream_count_max() > 1;
        for (at, index) in traffic.distinct_streams() {
            let streams = &senders[at].streams;
            if !is_walked(&streams.specs()[index].0) {
                continue;
            }
            if has_several {
                rig.load(&traffic.alone(at, index))?;
            }
            self.send(rig, burst, streams.flow_count_of(index))?;
        }
        if has_several {
            rig.load(traffic)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
