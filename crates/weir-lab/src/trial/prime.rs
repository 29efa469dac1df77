//! Priming: a DUT that keeps a state for each flow meets them all before the measurement, slowly.
//!
//! Each stream is sent alone, one flow after the other, as fast as the DUT makes states
//! ([`priming`]). Streams whose flows are drawn at random are not primed: that is how an attack
//! looks, whose flows nobody knows beforehand, and their ranges may hold far more flows than any
//! DUT keeps. How many flows the DUT knows in the end is checked as far as it can be foretold.

use std::ops::Range;
use std::time::Duration;

use weir_results::record::Check;
use weir_results::traffic::Traffic;
use weir_stats::priming::{self, Filled, Flows, Line};
use weir_wire::range::{AddrRange, Span as _};
use weir_wire::stream::StreamSpec;
use weir_wire::units::Rate;
use weir_wire::walk::Walk;

use super::{PROBE_PATIENCE, Runner, TrialError, host_of};
use crate::dut::DutDriver;
use crate::testbed::{Burst, Rig};

/// How often the sink is asked whether the packets of a part have arrived.
const ARRIVAL_POLL: Duration = Duration::from_millis(2);
/// How long none of a part arrives until the rest of it counts as lost. What is late is no loss in
/// the end: the DUT's count of states says what is missing.
const ARRIVAL_PATIENCE: Duration = Duration::from_millis(10);

/// A stream that is sent before the measurement: the sender, the index among its streams, and how
/// many flows it has.
type Walked = ((usize, usize), u64);

/// The streams that are sent before the measurement, to a DUT that keeps their flows.
pub(crate) fn walked(traffic: &Traffic) -> Vec<Walked> {
    let senders = traffic.each_sender();
    let is_walked = |&(at, index): &(usize, usize)| {
        let spec: &StreamSpec = &senders[at].streams.specs()[index].0;
        spec.walk == Walk::Odometer
    };
    let walked = traffic.distinct_streams().into_iter().filter(is_walked);
    walked.map(|(at, index)| ((at, index), senders[at].streams.flow_count_of(index))).collect()
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
    /// What is to be expected of the traffic if these of its streams are walked, `flows_of` tells
    /// how many flows of one the DUT keeps apart, and `probe_packets` have been sent.
    fn of(
        (traffic, streams): (&Traffic, &[Walked]),
        probe_packets: u64,
        flows_of: impl Fn(&StreamSpec) -> Result<u64, String>,
    ) -> Self {
        let senders = traffic.each_sender();
        let spec = |&((at, index), _): &Walked| &senders[at].streams.specs()[index].0;
        let walked: Vec<&StreamSpec> = streams.iter().map(spec).collect();
        if walked.is_empty() {
            let why = "flows are drawn at random, so none was sent beforehand";
            return Self::Unknown(why.to_owned());
        }
        for (index, spec) in walked.iter().enumerate() {
            if walked[..index].iter().any(|other| may_share_flows(spec, other)) {
                return Self::Unknown("streams of the traffic may share flows".to_owned());
            }
        }
        let has_others = walked.len() < traffic.distinct_streams().len();
        let drawn_max = if has_others { probe_packets } else { 0 };
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

    fn check(&self, known: u64, sent_packets: u64) -> Check {
        let detail = match self {
            Self::Flows { sent, drawn_max: 0 } => {
                format!("the DUT knows {known} of {sent} flows after {sent_packets} packets")
            }
            Self::Flows { sent, drawn_max } => format!(
                "the DUT knows {known} flows after {sent_packets} packets: {sent} that were sent, \
                 and at most {drawn_max} that the probes drew at random"
            ),
            Self::Unknown(why) => {
                format!("not checked: {why}; the DUT knows {known} flows before the measurement")
            }
        };
        Check { name: "flows".to_owned(), passed: self.holds(known), detail }
    }
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
    /// Sends each flow once, and again what got lost, until the DUT knows them all.
    pub(super) fn prime(
        &mut self,
        rig: &mut dyn Rig,
        dut: &mut dyn DutDriver,
    ) -> Result<(), TrialError> {
        let traffic = self.trial.traffic;
        let streams = walked(traffic);
        let of_traffic = (traffic, &streams[..]);
        let expected = Expected::of(of_traffic, self.probe_packets, |spec| dut.flows_of(spec));
        let numbered: Vec<_> = streams.iter().map(|(_, count)| *count).enumerate().collect();
        let flow_count: u64 = streams.iter().map(|(_, count)| count).sum();
        let flows = Flows {
            streams: &numbered,
            in_parts: rig.sends_parts(),
            is_foretold: matches!(expected, Expected::Flows { sent, .. } if sent == flow_count),
            is_all: &|known| expected.holds(known),
        };
        let mut line = RigLine {
            runner: self,
            rig: &mut *rig,
            dut: &mut *dut,
            streams: &streams,
            loaded: None,
            comes_through: false,
        };
        let Filled { known, sent_packets } = priming::fill(&mut line, &flows)?;
        if line.loaded.is_some() {
            rig.load(traffic)?;
        }
        let Some(known) = known else { return Ok(()) };
        let mut check = expected.check(known, sent_packets);
        if !check.passed
            && let Some(limit) = dut.flow_limit(host_of(rig)?)?
        {
            check.detail.push_str("; ");
            check.detail.push_str(&limit);
        }
        self.checks.push(check);
        Ok(())
    }
}

/// Flows go through a rig.
struct RigLine<'l, 'r> {
    runner: &'l mut Runner<'r>,
    rig: &'l mut dyn Rig,
    dut: &'l mut dyn DutDriver,
    streams: &'l [Walked],
    /// The stream that the rig has instead of the whole traffic.
    loaded: Option<usize>,
    /// Whether most of what was sent last came through: what arrives can pace what is sent then.
    comes_through: bool,
}

impl Line for RigLine<'_, '_> {
    type Error = TrialError;

    fn send(&mut self, stream: usize, flows: Range<u64>, rate_pps: f64) -> Result<u64, TrialError> {
        let traffic = self.runner.trial.traffic;
        let has_several = traffic.each_sender().len() > 1 || traffic.stream_count_max() > 1;
        if has_several && self.loaded != Some(stream) {
            let ((sender, index), _) = self.streams[stream];
            self.rig.load(&traffic.alone(sender, index))?;
            self.loaded = Some(stream);
        }
        let count = flows.end - flows.start;
        let before = self.rig.arrived_packets()?;
        let in_window = self.comes_through && self.rig.has_window();
        let rate = if in_window { Rate::Max } else { Rate::Pps(rate_pps) };
        let burst = Burst { in_window, ..Burst::new(rate, None) };
        self.runner.send(self.rig, Burst { first_packet: flows.start, ..burst }, count)?;
        if !self.rig.sends_parts() {
            self.runner.pause(PROBE_PATIENCE)?;
            return Ok(count);
        }
        let mut through = 0;
        let mut waited = Duration::ZERO;
        while through < count && waited < ARRIVAL_PATIENCE {
            let now = self.rig.arrived_packets()? - before;
            waited = if now > through { Duration::ZERO } else { waited + ARRIVAL_POLL };
            through = now;
            if through < count {
                self.runner.pause(ARRIVAL_POLL)?;
            }
        }
        self.comes_through = through >= count / 2;
        Ok(through)
    }

    fn known(&mut self) -> Result<Option<u64>, TrialError> {
        Ok(self.dut.flows(host_of(self.rig)?)?)
    }
}

#[cfg(test)]
mod tests;
