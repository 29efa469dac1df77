//! What a sender tells a receiver of its streams: the JSON object of `weir sink --expect`.
//!
//! The object has one key, `streams`, with an object for each stream:
//!
//! | key | meaning |
//! |---|---|
//! | `stream` | its number in the signature, 0 to 255 |
//! | `src`, `dst` | ranges of addresses and ports, as pkt-gen writes them, both IPv4 or both IPv6 |
//! | `flow_count` | number of flows; it must be that of the ranges |
//! | `thread_count` | threads that share the stream, 1 to 256 |
//! | `first_sequence` | sequence number of the first packet; may be absent, then 0 |
//! | `packets` | number of packets in all; absent or null if the sender is stopped by hand |
//! | `random` | whether the walk over the flows is random; may be absent, then false |
//!
//! Of n threads, thread t sends those sequence numbers from `first_sequence` on that leave t when
//! divided by n, and
//! packet s carries flow s modulo `flow_count`; of a random walk, the receiver does not know which
//! flow it is, and counts none. Nothing here touches the system.

use serde::{Deserialize, Serialize};
use weir_wire::flow::FlowSpace;
use weir_wire::range::AddrRange;
use weir_wire::stream::{StreamFrames, StreamSet};
use weir_wire::walk::Walk;

/// Most threads of a stream: the signature has a byte for them.
pub const THREAD_COUNT_MAX: u16 = 256;

/// Highest sequence number: the signature has 48 bits for it.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 48) - 1;

/// The streams that a receiver is to expect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// One entry for each stream, with different numbers.
    pub streams: Vec<ExpectedStream>,
}

/// One stream that a receiver is to expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedStream {
    /// Number of the stream in the signature.
    pub stream: u8,
    /// Source addresses and ports, as text.
    pub src: String,
    /// Destination addresses and ports, as text.
    pub dst: String,
    /// Number of flows of the ranges.
    pub flow_count: u64,
    /// Threads that share the stream.
    pub thread_count: u16,
    /// Sequence number of the first packet of thread 0.
    #[serde(default)]
    pub first_sequence: u64,
    /// Number of packets of all threads together, if it is known beforehand.
    #[serde(default)]
    pub packets: Option<u64>,
    /// Whether the flows are drawn at random rather than visited in turn.
    #[serde(default, skip_serializing_if = "is_false")]
    pub random: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Why a text is no [`Expectation`].
#[derive(Debug, thiserror::Error)]
pub enum ExpectError {
    /// It is not JSON, or not the object described above.
    #[error("it is not a description of streams: {0}")]
    Json(#[from] serde_json::Error),
    /// There is no stream in it.
    #[error("it names no stream: `streams` is empty")]
    Empty,
    /// Two entries have the same number.
    #[error("stream {0} is described twice")]
    Twice(u8),
    /// A range is malformed.
    #[error("stream {stream}: `{key}`: {reason}")]
    Range {
        /// Number of the stream.
        stream: u8,
        /// `src` or `dst`.
        key: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The number of flows is not that of the ranges.
    #[error("stream {stream}: `flow_count` is {said}, but the ranges span {counted} flows")]
    FlowCount {
        /// Number of the stream.
        stream: u8,
        /// What the file says.
        said: u64,
        /// What the ranges say.
        counted: u64,
    },
    /// The ranges have too many combinations.
    #[error("stream {stream}: {source}")]
    Flows {
        /// Number of the stream.
        stream: u8,
        /// What is wrong with them.
        source: weir_wire::flow::FlowSpaceError,
    },
    /// The first sequence number does not fit the signature.
    #[error("stream {stream}: `first_sequence` is {first}: numbers end at {SEQUENCE_MAX}")]
    FirstSequence {
        /// Number of the stream.
        stream: u8,
        /// What the file says.
        first: u64,
    },
    /// The number of threads is out of range.
    #[error("stream {stream}: `thread_count` is {count}: it must be 1 to {THREAD_COUNT_MAX}")]
    ThreadCount {
        /// Number of the stream.
        stream: u8,
        /// What the file says.
        count: u16,
    },
}

impl ExpectedStream {
    /// What to expect of a stream of the stream model from sequence number `first_sequence` on;
    /// `packets` is the number of packets if that is limited.
    #[must_use]
    pub(crate) fn of_frames(
        frames: &StreamFrames,
        first_sequence: u64,
        packets: Option<u64>,
    ) -> Self {
        let spec = frames.spec();
        Self {
            stream: spec.stream,
            src: spec.src.to_string(),
            dst: spec.dst.to_string(),
            flow_count: frames.flows().flow_count(),
            thread_count: spec.thread_count,
            first_sequence,
            packets,
            random: matches!(spec.walk, Walk::Random { .. }),
        }
    }

    /// The first sequence number that a thread sends.
    pub(crate) fn first_of(&self, thread: u8) -> u64 {
        let (first, count) = (self.first_sequence, u64::from(self.thread_count.max(1)));
        first + (u64::from(thread) + count - first % count) % count
    }

    fn check(&self) -> Result<(), ExpectError> {
        let stream = self.stream;
        let range = |key, text: &str| {
            text.parse::<AddrRange>().map_err(|error| ExpectError::Range {
                stream,
                key,
                reason: error.to_string(),
            })
        };
        let (src, dst) = (range("src", &self.src)?, range("dst", &self.dst)?);
        let counted = FlowSpace::new(src, dst)
            .map_err(|source| ExpectError::Flows { stream, source })?
            .flow_count();
        if counted != self.flow_count {
            return Err(ExpectError::FlowCount { stream, said: self.flow_count, counted });
        }
        if self.first_sequence > SEQUENCE_MAX {
            return Err(ExpectError::FirstSequence { stream, first: self.first_sequence });
        }
        if !(1..=THREAD_COUNT_MAX).contains(&self.thread_count) {
            return Err(ExpectError::ThreadCount { stream, count: self.thread_count });
        }
        Ok(())
    }
}

impl Expectation {
    /// What to expect of a set of streams that is sent from packet number 0 on; `packets` is the
    /// number of packets of all streams together, if that is limited.
    #[must_use]
    pub fn new(set: &StreamSet, packets: Option<u64>) -> Self {
        let streams = set.streams().iter().enumerate().map(|(index, frames)| {
            let packets = packets.map(|total| set.packet_count(index, total));
            ExpectedStream::of_frames(frames, 0, packets)
        });
        Self { streams: streams.collect() }
    }

    /// Reads the JSON object and checks it.
    ///
    /// # Errors
    /// [`ExpectError`] says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, ExpectError> {
        let expectation: Self = serde_json::from_str(text)?;
        if expectation.streams.is_empty() {
            return Err(ExpectError::Empty);
        }
        for (index, stream) in expectation.streams.iter().enumerate() {
            stream.check()?;
            if expectation.streams[..index].iter().any(|other| other.stream == stream.stream) {
                return Err(ExpectError::Twice(stream.stream));
            }
        }
        Ok(expectation)
    }

    /// The JSON object, in one line.
    ///
    /// # Errors
    /// None in practice: numbers and texts can always be written.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// What is expected of a stream.
    #[must_use]
    pub fn stream(&self, number: u8) -> Option<&ExpectedStream> {
        self.streams.iter().find(|stream| stream.stream == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"streams":[{"stream":0,"src":"198.18.10.1:2000-198.18.10.70",
        "dst":"198.19.10.1:2000-198.19.10.70","flow_count":4900,"thread_count":2}]}"#;

    #[test]
    fn what_is_written_is_read_back() {
        let mut expectation = Expectation::parse(GOOD).expect("it is good");
        let stream = expectation.stream(0).expect("it is there");
        assert_eq!((stream.flow_count, stream.thread_count), (4_900, 2));
        assert_eq!((stream.first_sequence, stream.packets), (0, None));
        assert_eq!(expectation.stream(1), None);
        expectation.streams[0].packets = Some(1_000);
        expectation.streams[0].first_sequence = 7;
        let text = expectation.to_json().expect("writable");
        assert_eq!(Expectation::parse(&text).expect("readable"), expectation);
    }

    #[test]
    fn several_streams_of_either_family_are_read_back() {
        let mac = weir_wire::mac::MacAddr([2, 0, 0, 0, 0, 1]);
        let range = |text: &str| text.parse::<AddrRange>().expect("a range");
        let spec = |src, dst| weir_wire::stream::StreamSpec::new(mac, mac, range(src), range(dst));
        let mut specs = [
            spec("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70"),
            spec("[2001:2::1]:2000-[2001:2::64]", "[2001:2:1::1]:53-[2001:2:1::1]:54"),
        ];
        (specs[1].stream, specs[1].thread_count) = (7, 2);
        specs[1].walk = Walk::Random { seed: 1 };
        let streams = specs.map(|spec| {
            let frames = StreamFrames::new(spec).expect("it can be sent");
            ExpectedStream::of_frames(&frames, 3, Some(9))
        });
        let expectation = Expectation { streams: streams.to_vec() };
        let text = expectation.to_json().expect("writable");
        let read = Expectation::parse(&text).expect("readable");
        assert_eq!(read, expectation);
        let second = read.stream(7).expect("it is there");
        assert_eq!((second.flow_count, second.thread_count, second.random), (200, 2, true));
        assert!(!read.streams[0].random && !text.contains("\"random\":false"), "{text}");
    }

    #[test]
    fn threads_begin_where_their_numbers_do() {
        let mut stream = Expectation::parse(GOOD).expect("it is good").streams.remove(0);
        (stream.first_sequence, stream.thread_count) = (7, 3);
        assert_eq!([0, 1, 2].map(|thread| stream.first_of(thread)), [9, 7, 8]);
        stream.first_sequence = 6;
        assert_eq!([0, 1, 2].map(|thread| stream.first_of(thread)), [6, 7, 8]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |from: &str, to: &str| {
            assert!(GOOD.contains(from), "{from}");
            Expectation::parse(&GOOD.replace(from, to)).expect_err("refused").to_string()
        };
        assert!(refused("4900", "4899").contains("span 4900 flows"));
        assert!(refused("198.18.10.1", "300.1.1.1").contains("`src`"));
        let mixed = refused("198.18.10.1:2000-198.18.10.70", "[2001:2::1]:2000");
        assert!(mixed.contains("IPv6"), "{mixed}");
        assert!(refused("thread_count\":2", "thread_count\":0").contains("1 to 256"));
        assert!(refused("thread_count\":2", "thread_count\":257").contains("257"));
        assert!(refused("thread_count", "threads").contains("threads"));
        assert!(refused("stream\":0", "stream\":256").contains("256"));
        let late = "thread_count\":2,\"first_sequence\":281474976710656";
        assert!(refused("thread_count\":2", late).contains("281474976710655"));
        assert!(refused("\"dst\"", "\"dest\"").contains("dest"));
        let text = r#"{"streams":[]}"#;
        assert!(matches!(Expectation::parse(text), Err(ExpectError::Empty)));
        let entry = &GOOD[GOOD.find("[{").expect("there") + 1..GOOD.len() - 2];
        let twice = format!(r#"{{"streams":[{entry},{entry}]}}"#);
        assert!(matches!(Expectation::parse(&twice), Err(ExpectError::Twice(0))));
    }
}
