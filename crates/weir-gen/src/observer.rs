//! The observing receiver: the sink in its full mode, and what its counters mean.
//!
//! Loss is what is missing between the first sequence number that should have come and the last.
//! Without an [`Expectation`] the first one is the lowest that arrived, and the threads of a stream
//! are those up to the highest that was heard of; a stream whose last thread delivered nothing is
//! then misjudged. The last one is the highest that arrived, of each thread: what was lost after it
//! is not known before the end, and then only if the number of packets was announced.
//!
//! It never samples by itself: the caller decides when.

use std::io;

use weir_bpf::attach::{AttachError, Link, Mode};
use weir_bpf::ethtool;
use weir_bpf::map::MapError;
use weir_bpf::sink::{
    Arrival, FLOW_COUNT_MAX, Observations, ObserveError, SENDER_COUNT_MAX, SenderCounters,
    SinkCounters, SinkObserver, StreamFlows,
};

use crate::clock;
use crate::expect::{Expectation, ExpectedStream};

/// Why an observer could not be set up or read.
#[derive(Debug, thiserror::Error)]
pub enum ObserverError {
    /// The sink program could not be loaded or configured.
    #[error(transparent)]
    Load(#[from] ObserveError),
    /// The sink program could not be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The counters could not be read.
    #[error(transparent)]
    Counters(#[from] MapError),
    /// The announcement names more senders than can be followed.
    #[error(
        "{0} senders (threads of streams) are announced, but at most {SENDER_COUNT_MAX} can be \
         tracked: send with fewer threads or streams"
    )]
    Senders(u32),
    /// The clock could not be read.
    #[error("cannot read the monotonic clock: {0}")]
    Clock(#[from] io::Error),
}

/// What became of a stream's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamResult {
    /// Number of the stream.
    pub stream: u8,
    /// Threads that sent it: announced, or the highest that was heard of and those below.
    pub thread_count: u16,
    /// All packets.
    pub packets: u64,
    /// Bytes of those, without FCS.
    pub bytes: u64,
    /// Packets missing up to the last one that is known of. Those too late are among them.
    pub lost: u64,
    /// Packets beyond what the stream's threads can have sent: the announcement is wrong. While
    /// there are any, `lost` means nothing.
    pub surplus: u64,
    /// Packets that had arrived before.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Packets so late that they may be reordered or duplicated.
    pub too_late: u64,
    /// Largest reordering extent, in packets (RFC 4737).
    pub extent_max: u64,
    /// Flows that were seen; `None` if the number of flows was not announced, or the walk over
    /// them is random.
    pub flows_seen: Option<u64>,
    /// Flows that were announced.
    pub flow_count: Option<u64>,
    /// Packets that were announced.
    pub expected_packets: Option<u64>,
}

/// Everything that was observed up to one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// `CLOCK_MONOTONIC` at the time of reading, nanoseconds.
    pub t_ns: u64,
    /// Counters by receive queue.
    pub counters: SinkCounters,
    /// By stream, in order; those that were announced are always there.
    pub streams: Vec<StreamResult>,
    /// What was observed packet by packet.
    pub observations: Observations,
}

/// A sink in its full mode. It observes while it is attached, and keeps its figures afterwards.
#[derive(Debug)]
pub struct Observer {
    program: SinkObserver,
    expectation: Expectation,
    link: Option<Link>,
}

impl Observer {
    /// Loads the sink for the streams that are expected (none need be) and attaches it to an
    /// interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// [`ObserverError`] without privileges, if the driver does not take the program or has one
    /// already, or if too many flows are expected.
    pub fn attach(
        ifindex: u32,
        mode: Mode,
        expectation: Expectation,
    ) -> Result<Self, ObserverError> {
        let sender_count: u32 =
            expectation.streams.iter().map(|stream| u32::from(stream.thread_count)).sum();
        if sender_count > SENDER_COUNT_MAX {
            return Err(ObserverError::Senders(sender_count));
        }
        // Of a random walk it is not known which flow a packet carries; of too many flows, there is
        // no memory to mark them.
        let mut room = FLOW_COUNT_MAX;
        let flows: Vec<StreamFlows> = expectation
            .streams
            .iter()
            .filter(|stream| {
                let left = room.checked_sub(stream.flow_count).filter(|_| !stream.random);
                room = left.unwrap_or(room);
                left.is_some()
            })
            .map(|stream| StreamFlows { stream: stream.stream, flow_count: stream.flow_count })
            .collect();
        let program = SinkObserver::load(&flows, arrival(ifindex, mode))?;
        let link = Some(program.attach(ifindex, mode)?);
        Ok(Self { program, expectation, link })
    }

    /// Detaches the program. What it has counted can still be read, and does not change any more.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Reads everything that was observed so far. Losses at the end of a stream are counted when
    /// the observer has been detached, because before that the packets may still come.
    ///
    /// # Errors
    /// [`ObserverError`] if the kernel refuses, which it does not while the process may use BPF.
    pub fn observed(&self) -> Result<Observed, ObserverError> {
        let t_ns = clock::monotonic_ns()?;
        let counters = self.program.counters()?;
        let observations = self.program.observations()?;
        let ended = self.link.is_none();
        let streams = results(&observations, &self.expectation, ended);
        Ok(Observed { t_ns, counters, streams, observations })
    }
}

/// Drivers that run an XDP program in the receiver (NAPI) of the queue that the packet is of, and
/// nowhere else. Not so a tap (in the writer's call), a bond (in its members' receivers), or
/// Hyper-V's device (in that of a virtual function, too).
const QUEUE_DRIVERS: [&str; 9] =
    ["veth", "virtio_net", "igb", "igc", "ixgbe", "i40e", "ice", "mlx5_core", "ena"];

/// On how many CPUs packets may arrive at once. One at a time only if that is certain: in native
/// mode (generic XDP runs where the stack receives, on any CPU), with one receive queue, with a
/// driver that is known for it. If queues are added later, the program leaves their packets alone.
fn arrival(ifindex: u32, mode: Mode) -> Arrival {
    let single_queue = || {
        let name = nix::net::if_::if_indextoname(ifindex).ok()?;
        let name = name.to_str().ok()?;
        let driver = ethtool::driver(name).ok()?;
        let channels = ethtool::channels(name).ok()??;
        Some(channels.rx_count == 1 && QUEUE_DRIVERS.contains(&driver.as_str()))
    };
    match mode {
        Mode::Native if single_queue() == Some(true) => Arrival::SingleQueue,
        Mode::Native | Mode::Generic => Arrival::AnyCpu,
    }
}

/// Sums up the senders of each stream.
fn results(
    observations: &Observations,
    expectation: &Expectation,
    ended: bool,
) -> Vec<StreamResult> {
    let mut numbers: Vec<u8> = observations.senders.iter().map(|sender| sender.stream).collect();
    numbers.extend(expectation.streams.iter().map(|stream| stream.stream));
    numbers.sort_unstable();
    numbers.dedup();
    let of_stream = |number: u8| {
        let senders = observations.senders.iter().filter(|sender| sender.stream == number);
        let senders: Vec<&SenderCounters> = senders.collect();
        let flows = observations.flows_seen.iter().find(|flows| flows.stream == number);
        StreamResult {
            flows_seen: flows.map(|flows| flows.flow_count),
            ..result(number, &senders, expectation.stream(number), ended)
        }
    };
    numbers.into_iter().map(of_stream).collect()
}

fn result(
    stream: u8,
    senders: &[&SenderCounters],
    expected: Option<&ExpectedStream>,
    ended: bool,
) -> StreamResult {
    let heard_of = senders.iter().map(|sender| u16::from(sender.thread) + 1).max();
    let thread_count = expected.map_or(heard_of.unwrap_or(0), |expected| expected.thread_count);
    let sum = |value: fn(&SenderCounters) -> u64| senders.iter().map(|sender| value(sender)).sum();
    // What threads sent that were not announced says nothing of those that were.
    let (known, strange): (Vec<&SenderCounters>, Vec<&SenderCounters>) =
        senders.iter().copied().partition(|sender| u16::from(sender.thread) < thread_count);
    let distinct_of =
        |senders: &[&SenderCounters]| senders.iter().map(|s| s.distinct_packets()).sum::<u64>();
    let (distinct, unannounced) = (distinct_of(&known), distinct_of(&strange));
    let due: u64 = known.iter().map(|sender| due_packets(sender, thread_count, expected)).sum();
    let announced = expected.and_then(|expected| expected.packets);
    let all = if ended { announced.map_or(due, |announced| announced.max(due)) } else { due };
    let limit = announced.filter(|_| ended).unwrap_or(all);
    StreamResult {
        stream,
        thread_count,
        packets: sum(|sender| sender.packets),
        bytes: sum(|sender| sender.bytes),
        lost: all.saturating_sub(distinct),
        surplus: distinct.saturating_sub(limit.min(all)) + unannounced,
        duplicated: sum(|sender| sender.duplicated),
        reordered: sum(|sender| sender.reordered),
        too_late: sum(|sender| sender.too_late),
        extent_max: senders.iter().map(|sender| sender.extent_max).max().unwrap_or(0),
        flows_seen: None,
        flow_count: expected.map(|expected| expected.flow_count),
        expected_packets: announced,
    }
}

/// Packets that a sender has sent up to the highest number that arrived.
fn due_packets(
    sender: &SenderCounters,
    thread_count: u16,
    expected: Option<&ExpectedStream>,
) -> u64 {
    let announced = expected.map(|expected| expected.first_of(sender.thread));
    let first = announced.map_or(sender.first_sequence, |first| first.min(sender.first_sequence));
    (sender.highest_sequence - first) / u64::from(thread_count.max(1)) + 1
}

#[cfg(test)]
mod tests;
