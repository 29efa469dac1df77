//! Traffic: which packets are sent together.
//!
//! A [`Traffic`] is plain data, the same for every backend that sends it: one or several streams of
//! [`crate::stream`] with their weights. It never touches the system and has no rate: that is a
//! run's. In particular nothing here knows the link, so that a rate in bits per second or in
//! percent of the line is refused until somebody resolves it.

use alloc::vec;
use alloc::vec::Vec;

use crate::ethernet;
use crate::stream::StreamSetError;
use crate::stream::{StreamError as SpecError, StreamFrames, StreamSet, StreamSpec};
use crate::walk::Share;

use crate::units::Rate;

/// Streams that are sent together, and in which ratio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Checked, for a single thread.
    streams: Vec<(StreamSpec, u32)>,
    whole: StreamSet,
}

/// Why traffic cannot be sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// A stream cannot be sent.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// One of several streams cannot be sent.
    #[error("stream {number}: {source}")]
    Numbered {
        number: u8,
        /// What is wrong with it.
        source: SpecError,
    },
    /// The streams do not go together.
    #[error(transparent)]
    Set(#[from] StreamSetError),
    /// The signature has eight bits for threads.
    #[error(
        "{0} threads cannot share a stream: from 1 to {max} can",
        max = Share::THREAD_COUNT_MAX
    )]
    ThreadCount(usize),
    /// The rate is not a positive, finite number.
    #[error("a rate of {0} cannot be sent: it must be above zero, or `max`")]
    RateZero(Rate),
    /// The rate refers to a line rate that virtual interfaces do not have.
    #[error(
        "the rate {0} refers to bits on a line, but a virtual interface has no line rate: give \
         packets per second (`500kpps`) or `max`"
    )]
    RateNeedsLine(Rate),
    /// The rate is a share of a line that the interface does not have.
    #[error(
        "the rate {0} is a share of the line rate, but this interface has no line: virtual ones, \
         such as a veth, name a speed that limits nothing, and a file has none. Give packets \
         (`500kpps`) or bits (`500Mbps`) per second, or `max`"
    )]
    NoLine(Rate),
}

impl Traffic {
    /// Streams with their weights. How many threads share them is not asked here: whoever sends
    /// them decides that.
    ///
    /// # Errors
    /// [`StreamError`] says what cannot be sent.
    pub fn new(streams: Vec<(StreamSpec, u32)>) -> Result<Self, StreamError> {
        let whole = set(&streams, 1)?;
        Ok(Self { streams, whole })
    }

    /// A single stream.
    ///
    /// # Errors
    /// [`StreamError`] says what cannot be sent.
    pub fn one(stream: StreamSpec) -> Result<Self, StreamError> {
        Self::new(vec![(stream, 1)])
    }

    /// The streams and their weights.
    #[must_use]
    pub fn streams(&self) -> &[(StreamSpec, u32)] {
        &self.streams
    }

    /// The streams as a single thread sends them: their flows, sizes and frames.
    #[must_use]
    pub const fn whole(&self) -> &StreamSet {
        &self.whole
    }

    /// The streams as `thread_count` threads share them.
    ///
    /// # Errors
    /// [`StreamError`] if they cannot.
    pub fn set(&self, thread_count: usize) -> Result<StreamSet, StreamError> {
        let count = u16::try_from(thread_count).ok();
        let count = count.filter(|count| (1..=Share::THREAD_COUNT_MAX).contains(count));
        set(&self.streams, count.ok_or(StreamError::ThreadCount(thread_count))?)
    }

    /// Number of flows of all streams together. Streams that share flows count them twice.
    #[must_use]
    pub fn flow_count(&self) -> u128 {
        self.whole.flow_count()
    }

    /// The smallest and the largest frame, bytes without FCS.
    #[must_use]
    pub fn size_bytes_range(&self) -> (u16, u16) {
        self.whole.size_bytes_range()
    }

    /// The mean frame size, bytes without FCS.
    #[must_use]
    pub fn mean_bytes(&self) -> f64 {
        self.whole.mean_bytes()
    }
}

fn set(streams: &[(StreamSpec, u32)], thread_count: u16) -> Result<StreamSet, StreamError> {
    let frames = streams.iter().map(|(spec, weight)| {
        let spec = StreamSpec { thread_count, ..spec.clone() };
        let number = spec.stream;
        let frames = StreamFrames::new(spec).map_err(|source| match streams.len() {
            1 => StreamError::Spec(source),
            _ => StreamError::Numbered { number, source },
        })?;
        Ok::<_, StreamError>((frames, *weight))
    });
    Ok(StreamSet::new(frames.collect::<Result<_, _>>()?)?)
}

/// Packets per second of a rate; `None` for [`Rate::Max`].
///
/// # Errors
/// [`StreamError`] if the rate is not positive or needs a line rate.
pub fn rate_pps(rate: Rate) -> Result<Option<f64>, StreamError> {
    match rate {
        Rate::Max => Ok(None),
        Rate::Pps(rate_pps) if rate_pps.is_finite() && rate_pps > 0.0 => Ok(Some(rate_pps)),
        Rate::Pps(_) => Err(StreamError::RateZero(rate)),
        Rate::Bps(_) | Rate::Percent(_) => Err(StreamError::RateNeedsLine(rate)),
    }
}

/// The rate in packets per second, or [`Rate::Max`], of frames of `mean_bytes` on average on a
/// line of `line_bps` bits per second. This is the one place where a rate to send becomes packets:
///
/// - `bps` are bits of frames without FCS, preamble and gap, as pkt-gen prints them: 500 Mbps are
///   1,041,667 frames of 60 bytes.
/// - `%` are of the line, which carries FCS, preamble and gap too, as RFC 2544 counts: 100 % of
///   1 Gbit/s are 1,488,095 frames of 60 bytes (64 with FCS).
///
/// # Errors
/// [`StreamError::NoLine`] for a share of a line that there is not.
pub fn resolve_rate(
    rate: Rate,
    mean_bytes: f64,
    line_bps: Option<u64>,
) -> Result<Rate, StreamError> {
    let pps = |bps: f64, size_bytes: f64| Rate::Pps(bps / (8.0 * size_bytes));
    match rate {
        Rate::Max | Rate::Pps(_) => Ok(rate),
        Rate::Bps(bps) => Ok(pps(bps as f64, mean_bytes.max(1.0))),
        Rate::Percent(share) => {
            let line_bps = line_bps.ok_or(StreamError::NoLine(rate))?;
            let line_bytes = mean_bytes + f64::from(ethernet::LINE_OVERHEAD_BYTES);
            Ok(pps(line_bps as f64 * share / 100.0, line_bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mac::MacAddr;
    use crate::sizes::Sizes;

    fn spec() -> StreamSpec {
        StreamSpec::new(
            MacAddr([2, 0, 0, 0, 0, 1]),
            MacAddr([2, 0, 0, 0, 0, 2]),
            "198.18.10.1:2000-198.18.10.70".parse().expect("a range"),
            "198.19.10.1:2000-198.19.10.70".parse().expect("a range"),
        )
    }

    #[test]
    fn flows_and_sizes_are_of_all_streams() {
        let traffic = Traffic::one(spec()).expect("it can be sent");
        assert_eq!((traffic.flow_count(), traffic.mean_bytes()), (4_900, 60.0));
        let large = StreamSpec { stream: 1, sizes: Sizes::Fixed(1514), ..spec() };
        let both = Traffic::new(vec![(spec(), 3), (large, 1)]).expect("they can be sent");
        assert_eq!((both.flow_count(), both.size_bytes_range()), (9_800, (60, 1514)));
        assert_eq!(both.mean_bytes(), (3.0 * 60.0 + 1514.0) / 4.0);
        let set = both.set(2).expect("two threads can share them");
        assert_eq!(set.thread_count(), 2);
        assert!(matches!(both.set(0), Err(StreamError::ThreadCount(0))));
        assert!(matches!(both.set(257), Err(StreamError::ThreadCount(257))));
    }

    #[test]
    fn bits_become_packets_in_one_place() {
        let resolved = |text: &str, line_bps| match resolve_rate(
            text.parse().expect("a rate"),
            60.0,
            line_bps,
        ) {
            Ok(Rate::Pps(rate_pps)) => rate_pps.floor(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(resolved("100%", Some(1_000_000_000)), 1_488_095.0);
        assert_eq!(resolved("50%", Some(10_000_000_000)), 7_440_476.0);
        assert_eq!(resolved("480Mbps", None), 1_000_000.0);
        assert_eq!(resolved("5kpps", None), 5_000.0);
        assert_eq!(resolve_rate(Rate::Max, 60.0, None), Ok(Rate::Max));
        let error = resolve_rate(Rate::Percent(80.0), 60.0, None).expect_err("there is no line");
        assert!(error.to_string().contains("80%"), "{error}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |rate| rate_pps(rate).expect_err("the rate cannot be sent").to_string();
        assert!(refused(Rate::Pps(0.0)).contains("above zero"));
        assert!(refused(Rate::Pps(f64::NAN)).contains("above zero"));
        assert!(refused(Rate::Bps(1_000)).contains("no line rate"));
        assert!(refused(Rate::Percent(80.0)).contains("no line rate"));
        let small = StreamSpec { sizes: Sizes::Fixed(59), stream: 1, ..spec() };
        let alone = Traffic::one(small.clone()).expect_err("it cannot be sent").to_string();
        assert!(alone.contains("59 bytes") && !alone.contains("stream 1"), "{alone}");
        let among = Traffic::new(vec![(spec(), 1), (small, 1)]).expect_err("it cannot be sent");
        assert!(among.to_string().starts_with("stream 1: "), "{among}");
        let twice = Traffic::new(vec![(spec(), 1), (spec(), 1)]).expect_err("one number twice");
        assert!(matches!(twice, StreamError::Set(_)), "{twice}");
    }
}
