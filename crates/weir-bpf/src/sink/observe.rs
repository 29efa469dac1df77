//! The full mode of the sink: its configuration, and what it has observed.
//!
//! Layouts are those of `bpf/include/weir/arrival.h`, `flows.h` and `observe.h`; when a packet's
//! time of arrival is read is the rule of `sampling.h`.

use libbpf_rs::{MapHandle, OpenObject};

use super::{OBJECT, OBJECT_NAME, SinkCounters, SinkProgram};
use crate::attach::{self, AttachError, Link, Mode};
use crate::histogram::Histogram;
use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{LoadError, Loaded, resize};
use crate::words::{
    self, flow_block, follower, observation, row, sender, sink_flags, stream_flows,
};

use std::os::fd::AsFd;

/// Senders that are followed; packets of further ones are counted as untracked.
pub const SENDER_COUNT_MAX: u32 = words::SENDER_COUNT_MAX;

/// Most flows of all streams together that can be marked: 128 MiB of bits.
pub const FLOW_COUNT_MAX: u64 = 1 << 30;

/// The maps of the full mode.
pub(super) const MAPS: [&str; 7] = [
    "weir_directory",
    "weir_senders",
    "weir_windows",
    STREAMS,
    FLOWS,
    "weir_followers",
    "weir_observations",
];

const STREAMS: &str = "weir_streams";
const FLOWS: &str = "weir_flows";

/// The section with the constant that selects the mode.
const MODE_SECTION: &str = ".rodata.mode";

/// Flows that one block of bits marks.
const BLOCK_FLOWS: u64 = 64 * flow_block::WORDS as u64;

/// How often a sender's counters are read in the hope of meeting no packet half-way.
const READ_ATTEMPTS: u32 = 1_000;

/// On how many CPUs packets may arrive at the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrival {
    /// On several: senders are locked, which costs some 10 ns for each packet.
    #[default]
    AnyCpu,
    /// On one at a time: the interface has one receive queue, and its driver runs the program only
    /// in the receiver (NAPI) of that queue. Packets of queues that it is given later are counted
    /// as of another queue, and not followed. Whoever says so must be sure of the driver: without
    /// locks, CPUs that meet count wrongly, though they damage nothing.
    SingleQueue,
}

/// How many flows a stream has, by which its flows can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFlows {
    /// Number of the stream in the signature.
    pub stream: u8,
    /// Number of its flows.
    pub flow_count: u64,
}

/// Why a sink could not be set up to observe.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// There are more flows than bits for them.
    #[error(
        "{0} flows are too many to be marked: at most {FLOW_COUNT_MAX} in all streams together"
    )]
    FlowCount(u64),
    /// A stream is named twice, or has no flows.
    #[error("stream {0} must be named once, with at least one flow")]
    Stream(u8),
    /// The program could not be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The configuration could not be written.
    #[error(transparent)]
    Map(#[from] MapError),
}

/// What became of the packets of one sender: a thread of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Number of the stream.
    pub stream: u8,
    /// Number of the thread.
    pub thread: u8,
    /// All packets.
    pub packets: u64,
    /// Bytes of those, without FCS.
    pub bytes: u64,
    /// Packets whose number had arrived before.
    pub duplicated: u64,
    /// Packets that arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Packets so late that they may be reordered or duplicated: at least 65,472 behind the
    /// sender's highest sequence number.
    pub too_late: u64,
    /// Lowest sequence number that arrived, those too late aside.
    pub first_sequence: u64,
    /// Highest sequence number that arrived.
    pub highest_sequence: u64,
    /// Largest reordering extent, in packets (RFC 4737).
    pub extent_max: u64,
}

impl SenderCounters {
    /// Packets with different sequence numbers, those too late aside.
    #[must_use]
    pub const fn distinct_packets(&self) -> u64 {
        self.packets - self.duplicated - self.too_late
    }

    /// `None` if the entry is not in use.
    fn decode(words: &[u64]) -> Option<Self> {
        let [stream, thread] = u16::try_from(words[sender::STREAM_THREAD]).ok()?.to_be_bytes();
        (words[sender::PACKETS] > 0).then_some(Self {
            stream,
            thread,
            packets: words[sender::PACKETS],
            bytes: words[sender::BYTES],
            duplicated: words[sender::DUPLICATED],
            reordered: words[sender::REORDERED],
            too_late: words[sender::TOO_LATE],
            first_sequence: words[sender::FIRST],
            highest_sequence: words[sender::HIGHEST],
            extent_max: words[sender::EXTENT_MAX],
        })
    }
}

/// What was observed, since the program was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    /// By stream and thread, in this order.
    pub senders: Vec<SenderCounters>,
    /// How many flows of the streams that were named have been seen, in the order of naming.
    pub flows_seen: Vec<StreamFlows>,
    /// Packets of senders that are not followed.
    pub untracked_packets: u64,
    /// Packets of queues that the interface was given after the program was loaded for one queue.
    /// They are not followed.
    pub elsewhere_packets: u64,
    /// Packets without a time of sending.
    pub unstamped_packets: u64,
    /// Packets whose time of arrival was read: all below 1 Mpps on a CPU, some above. Only these
    /// have a latency; two of a sender in a row have a gap.
    pub measured_packets: u64,
    /// Packets, of those measured, whose time of sending is later than their arrival: the stamp is
    /// another host's.
    pub ahead_packets: u64,
    /// From sending to arrival, nanoseconds.
    pub latency_ns: Histogram,
    /// Between two packets of one sender, nanoseconds.
    pub gap_ns: Histogram,
    /// Reordering extents of reordered packets, in packets.
    pub extent: Histogram,
}

/// The sink program in its full mode, loaded.
#[derive(Debug)]
pub struct SinkObserver {
    pub(super) sink: SinkProgram,
    senders: MapHandle,
    streams: MapHandle,
    flows: MapHandle,
    pub(super) followers: MapHandle,
    observations: MapHandle,
    named: Vec<u8>,
}

impl SinkObserver {
    /// Loads the program; it is attached nowhere. Flows are marked of the streams that are named.
    ///
    /// # Errors
    /// [`ObserveError`] if there are too many flows, or without privileges or kernel support.
    pub fn load(streams: &[StreamFlows], arrival: Arrival) -> Result<Self, ObserveError> {
        Self::load_mode(streams, arrival, 0)
    }

    /// As [`load`](Self::load), for few packets whose times are all wanted: the clock is read for
    /// every packet, however fast they come.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_timing_all(
        streams: &[StreamFlows],
        arrival: Arrival,
    ) -> Result<Self, ObserveError> {
        Self::load_mode(streams, arrival, sink_flags::EVERY)
    }

    fn load_mode(
        streams: &[StreamFlows],
        arrival: Arrival,
        more: u64,
    ) -> Result<Self, ObserveError> {
        let layout = blocks(streams)?;
        let block_count = layout.iter().map(|(_, _, count)| *count).sum::<u64>().max(1);
        let entries = u32::try_from(block_count).unwrap_or(u32::MAX);
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |object| {
            select_mode(object, arrival, more)?;
            resize(object, FLOWS, entries)
        })?;
        let observer = Self {
            sink: SinkProgram::from_object(&object)?,
            senders: object.map("weir_senders", sender::WORDS * WORD_BYTES)?,
            streams: object.map(STREAMS, stream_flows::WORDS * WORD_BYTES)?,
            flows: object.map(FLOWS, flow_block::WORDS * WORD_BYTES)?,
            followers: object.map("weir_followers", follower::WORDS * WORD_BYTES)?,
            observations: object.map("weir_observations", observation::WORDS * WORD_BYTES)?,
            named: streams.iter().map(|stream| stream.stream).collect(),
        };
        for (stream, first_block, _) in &layout {
            let mut words = [0; stream_flows::WORDS];
            words[stream_flows::FLOW_COUNT] = stream.flow_count;
            words[stream_flows::FIRST_BLOCK] = *first_block;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            map::write(&observer.streams, u32::from(stream.stream), &bytes)?;
        }
        Ok(observer)
    }

    /// Attaches the program until the link is dropped.
    ///
    /// # Errors
    /// [`AttachError`] if the driver does not take it, or has a program already.
    pub fn attach(&self, ifindex: u32, mode: Mode) -> Result<Link, AttachError> {
        attach::in_mode(self.sink.program.as_fd(), ifindex, mode)
    }

    /// Counters by receive queue since the program was loaded. They only grow.
    ///
    /// # Errors
    /// [`MapError`] if they cannot be read.
    pub fn counters(&self) -> Result<SinkCounters, MapError> {
        self.sink.counters()
    }

    /// What was observed since the program was loaded. Each sender's counters are consistent in
    /// themselves; packets that arrive while this reads, and up to 63 before them, may be in some
    /// figures and not in others.
    ///
    /// # Errors
    /// [`MapError`] if it cannot be read.
    pub fn observations(&self) -> Result<Observations, MapError> {
        let mut seen = Observations::default();
        for words in map::read_per_cpu(&self.observations)? {
            seen.untracked_packets += words[observation::UNTRACKED];
            seen.elsewhere_packets += words[observation::ELSEWHERE];
            seen.unstamped_packets += words[observation::UNSTAMPED];
            seen.measured_packets += words[observation::MEASURED];
            seen.ahead_packets += words[observation::AHEAD];
            seen.latency_ns.add_words(&words[observation::LATENCY_NS..]);
            seen.gap_ns.add_words(&words[observation::GAP_NS..]);
            seen.extent.add_words(&words[observation::EXTENT..]);
        }
        for index in 0..SENDER_COUNT_MAX {
            let before = self.row()?;
            let mut sender = SenderCounters::decode(&self.sender(index)?);
            // A row that has changed meanwhile may or may not be in the sender's state by now: it
            // is left out, as packets are that come a moment later.
            if let Some(sender) = sender.as_mut()
                && before == self.row()?
            {
                before.add_to(sender, index);
            }
            seen.senders.extend(sender);
        }
        seen.senders.sort_by_key(|sender| (sender.stream, sender.thread));
        for &stream in &self.named {
            seen.flows_seen.push(StreamFlows { stream, flow_count: self.flows_seen(stream)? });
        }
        Ok(seen)
    }

    /// How many flows of a stream have been seen, those of the present row included.
    fn flows_seen(&self, stream: u8) -> Result<u64, MapError> {
        let row = self.row()?;
        let words = map::read(&self.streams, u32::from(stream))?;
        let (flow_count, seen) = (words[stream_flows::FLOW_COUNT], words[stream_flows::SEEN]);
        if seen == flow_count || row.packets == 0 || row.stream() != stream {
            return Ok(seen);
        }
        // As long as flows are missing, all of a row have their bits in one word.
        let flow = row.first_sequence() % flow_count;
        let index = u32::try_from(words[stream_flows::FIRST_BLOCK] + flow / BLOCK_FLOWS)
            .unwrap_or(u32::MAX);
        let block = map::read(&self.flows, index)?;
        let word = usize::try_from(flow % BLOCK_FLOWS / 64).unwrap_or(usize::MAX);
        let marked = block.get(word).copied().unwrap_or(u64::MAX);
        let unmarked = (flow % 64..flow % 64 + row.packets)
            .filter(|bit| {
                marked.checked_shr(u32::try_from(*bit).unwrap_or(64)).unwrap_or(0) & 1 == 0
            })
            .count() as u64;
        let is_steady = row == self.row()?;
        Ok(seen + if is_steady { unmarked } else { 0 })
    }

    /// The packets that are not yet in their sender's state.
    fn row(&self) -> Result<Row, MapError> {
        Ok(Row::decode(&map::read(&self.followers, 0)?))
    }

    /// The words of a sender, between two packets. Under the lock they are so at once; without
    /// one, it takes another attempt now and then.
    fn sender(&self, index: u32) -> Result<Vec<u64>, MapError> {
        let mut words = map::read_locked(&self.senders, index)?;
        for _ in 1..READ_ATTEMPTS {
            if is_whole(&words) {
                break;
            }
            words = map::read_locked(&self.senders, index)?;
        }
        Ok(words)
    }
}

/// Packets of one sender that came one after the other: `struct weir_row` of
/// `bpf/include/weir/row.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    next: u64,
    left: u64,
    packets: u64,
    bytes: u64,
    /// The sender's, from 1.
    number: u64,
}

impl Row {
    /// Out of `struct weir_follower`.
    fn decode(follower: &[u64]) -> Self {
        let words = &follower[follower::ROW..];
        Self {
            next: words[row::NEXT],
            left: words[row::LEFT],
            packets: words[row::PACKETS],
            bytes: words[row::BYTES],
            number: words[row::NUMBER],
        }
    }

    /// Number of the stream.
    fn stream(&self) -> u8 {
        self.next.to_be_bytes()[0]
    }

    /// Sequence number of the row's first packet.
    fn first_sequence(&self) -> u64 {
        const MASK: u64 = (1 << 48) - 1;
        (self.next & MASK) - self.packets
    }

    /// Adds the row to the sender with that index, if it is that sender's.
    fn add_to(&self, sender: &mut SenderCounters, index: u32) {
        if self.packets > 0 && self.number == u64::from(index) + 1 {
            sender.packets += self.packets;
            sender.bytes += self.bytes;
            sender.highest_sequence += self.packets;
        }
    }
}

/// Whether no packet was being counted while the sender was read: what each packet changes last is
/// read before what it changes first, because the kernel copies a value from its start to its end.
fn is_whole(words: &[u64]) -> bool {
    words[sender::BEGUN] == words[sender::PACKETS]
}

/// Each stream with its first block of bits and the number of its blocks.
fn blocks(streams: &[StreamFlows]) -> Result<Vec<(StreamFlows, u64, u64)>, ObserveError> {
    let mut layout: Vec<(StreamFlows, u64, u64)> = Vec::new();
    let (mut first_block, mut flow_count) = (0, 0_u64);
    for stream in streams {
        let known = layout.iter().any(|(other, ..)| other.stream == stream.stream);
        if known || stream.flow_count == 0 {
            return Err(ObserveError::Stream(stream.stream));
        }
        flow_count = flow_count.saturating_add(stream.flow_count);
        if flow_count > FLOW_COUNT_MAX {
            return Err(ObserveError::FlowCount(flow_count));
        }
        let block_count = stream.flow_count.div_ceil(BLOCK_FLOWS);
        layout.push((*stream, first_block, block_count));
        first_block += block_count;
    }
    Ok(layout)
}

/// Makes the full mode the one that is loaded.
fn select_mode(object: &mut OpenObject, arrival: Arrival, more: u64) -> libbpf_rs::Result<()> {
    let mode = match arrival {
        Arrival::AnyCpu => sink_flags::OBSERVE | sink_flags::SHARED,
        Arrival::SingleQueue => sink_flags::OBSERVE,
    };
    match object.maps_mut().find(|map| map.name().to_string_lossy().ends_with(MODE_SECTION)) {
        Some(mut map) => map.set_initial_value(&(mode | more).to_ne_bytes()),
        None => Err(libbpf_rs::Error::from(std::io::Error::other(
            "the object has no section for its mode",
        ))),
    }
}
