//! The stream model: which packets, and how fast.
//!
//! A stream is plain data, the same for every backend that sends it. It never touches the system;
//! in particular it does not know the link, so that a rate in bits per second or in percent of the
//! line is refused here until somebody resolves it.

use weir_bpf::generator::{SIZE_BYTES_MAX, SIZE_BYTES_MIN};
use weir_wire::flow::{FlowSpace, FlowSpaceError};
use weir_wire::frame::UdpStream;
use weir_wire::mac::MacAddr;
use weir_wire::range::Range;

use crate::units::Rate;

/// Time to live of packets that do not ask for another one.
pub const TTL_DEFAULT: u8 = 64;

/// UDP over IPv4, over all combinations of two ranges of addresses and ports.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stream {
    /// Source addresses and ports.
    pub src: Range,
    /// Destination addresses and ports.
    pub dst: Range,
    /// Frame size without FCS, 60 to 3408 bytes.
    pub size_bytes: u16,
    /// Rate, total over all threads.
    pub rate: Rate,
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Destination MAC address: that of the DUT's interface.
    pub dst_mac: MacAddr,
    /// IPv4 time to live.
    pub ttl: u8,
    /// IPv4 type of service (DSCP and ECN).
    pub tos: u8,
}

/// Why a stream cannot be sent.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StreamError {
    /// The frame size is outside what the generator can make.
    #[error(
        "frames of {0} bytes cannot be sent: the size, without FCS, runs from {SIZE_BYTES_MIN} to \
         {SIZE_BYTES_MAX} bytes"
    )]
    Size(u16),
    /// The ranges have too many combinations.
    #[error(transparent)]
    Flows(#[from] FlowSpaceError),
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
    /// A packet with time to live zero is not forwarded, nor even valid.
    #[error("a time to live of 0 cannot be sent: routers need at least 2")]
    Ttl,
    /// No interface has a group address as its source.
    #[error("{0} cannot be a source: it is a multicast or broadcast address")]
    SourceMac(MacAddr),
}

impl Stream {
    /// Checks that the generator can send this stream as it is.
    ///
    /// # Errors
    /// [`StreamError`] says what it cannot honour.
    pub fn check(&self) -> Result<(), StreamError> {
        if !(SIZE_BYTES_MIN..=SIZE_BYTES_MAX).contains(&self.size_bytes) {
            return Err(StreamError::Size(self.size_bytes));
        }
        if self.ttl == 0 {
            return Err(StreamError::Ttl);
        }
        if self.src_mac.is_multicast() {
            return Err(StreamError::SourceMac(self.src_mac));
        }
        self.flow_space()?;
        rate_pps(self.rate)?;
        Ok(())
    }

    /// The flows of the stream.
    ///
    /// # Errors
    /// [`StreamError::Flows`] if there are 2^64 or more.
    pub fn flow_space(&self) -> Result<FlowSpace, StreamError> {
        Ok(FlowSpace::new(self.src, self.dst)?)
    }

    /// How many flows the stream has.
    ///
    /// # Errors
    /// [`StreamError::Flows`] if there are 2^64 or more.
    pub fn flow_count(&self) -> Result<u64, StreamError> {
        Ok(self.flow_space()?.flow_count())
    }

    /// The frames of the stream, as thread `thread` sends them.
    ///
    /// # Errors
    /// [`StreamError::Flows`] if there are too many flows.
    pub fn frames(&self, thread: u8) -> Result<UdpStream, StreamError> {
        Ok(UdpStream {
            dst_mac: self.dst_mac,
            src_mac: self.src_mac,
            ttl: self.ttl,
            tos: self.tos,
            flows: self.flow_space()?,
            size_bytes: self.size_bytes,
            stream: 0,
            thread,
        })
    }
}

impl Stream {
    /// The frames of the thread, one of `thread_count`, that sends packet number `sequence`.
    ///
    /// The thread number in a packet's signature depends on its sequence number alone, so that runs
    /// that go on where others ended have the frames of a single one.
    ///
    /// # Errors
    /// [`StreamError::Flows`] if there are too many flows.
    pub fn frames_of(&self, sequence: u64, thread_count: usize) -> Result<UdpStream, StreamError> {
        let thread = sequence % (thread_count.max(1) as u64);
        self.frames(u8::try_from(thread).unwrap_or(u8::MAX))
    }

    /// Packet number `sequence` as every backend with `thread_count` threads sends it. Its size
    /// must be one that [`UdpStream::build`] can make.
    ///
    /// # Errors
    /// [`StreamError::Flows`] if there are too many flows.
    pub fn frame(&self, sequence: u64, thread_count: usize) -> Result<Vec<u8>, StreamError> {
        Ok(self.frames_of(sequence, thread_count)?.build(sequence))
    }
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

/// What a frame takes on an Ethernet line beyond its size: FCS, preamble and gap, bytes.
const LINE_OVERHEAD_BYTES: u64 = 4 + 8 + 12;

/// The rate in packets per second, or [`Rate::Max`], of frames of `size_bytes` on a line of
/// `line_bps` bits per second. This is the one place where bits become packets:
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
    size_bytes: u16,
    line_bps: Option<u64>,
) -> Result<Rate, StreamError> {
    let pps = |bps: f64, size_bytes: u64| Rate::Pps(bps / (8 * size_bytes) as f64);
    match rate {
        Rate::Max | Rate::Pps(_) => Ok(rate),
        Rate::Bps(bps) => Ok(pps(bps as f64, u64::from(size_bytes.max(1)))),
        Rate::Percent(share) => {
            let line_bps = line_bps.ok_or(StreamError::NoLine(rate))?;
            let line_bytes = u64::from(size_bytes) + LINE_OVERHEAD_BYTES;
            Ok(pps(line_bps as f64 * share / 100.0, line_bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn stream() -> Stream {
        Stream {
            src: range("198.18.10.1:2000-198.18.10.70"),
            dst: range("198.19.10.1:2000-198.19.10.70"),
            size_bytes: 60,
            rate: Rate::Max,
            src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
            dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
            ttl: TTL_DEFAULT,
            tos: 0,
        }
    }

    #[test]
    fn flows_are_counted() {
        assert_eq!(stream().check(), Ok(()));
        assert_eq!(stream().flow_count(), Ok(4_900));
    }

    #[test]
    fn bits_become_packets_in_one_place() {
        let resolved = |text: &str, line_bps| match resolve_rate(
            text.parse().expect("a rate"),
            60,
            line_bps,
        ) {
            Ok(Rate::Pps(rate_pps)) => rate_pps.floor(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(resolved("100%", Some(1_000_000_000)), 1_488_095.0);
        assert_eq!(resolved("50%", Some(10_000_000_000)), 7_440_476.0);
        assert_eq!(resolved("480Mbps", None), 1_000_000.0);
        assert_eq!(resolved("5kpps", None), 5_000.0);
        assert_eq!(resolve_rate(Rate::Max, 60, None), Ok(Rate::Max));
        let error = resolve_rate(Rate::Percent(80.0), 60, None).expect_err("there is no line");
        assert!(error.to_string().contains("80%"), "{error}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |change: fn(&mut Stream)| {
            let mut changed = stream();
            change(&mut changed);
            changed.check().expect_err("the stream cannot be sent").to_string()
        };
        assert!(refused(|s| s.size_bytes = 59).contains("59 bytes"));
        assert!(refused(|s| s.size_bytes = 3409).contains("3408"));
        assert!(refused(|s| s.rate = Rate::Pps(0.0)).contains("above zero"));
        assert!(refused(|s| s.rate = Rate::Pps(f64::NAN)).contains("above zero"));
        assert!(refused(|s| s.rate = Rate::Bps(1_000)).contains("no line rate"));
        assert!(refused(|s| s.rate = Rate::Percent(80.0)).contains("no line rate"));
        assert!(refused(|s| s.ttl = 0).contains("time to live"));
        assert!(refused(|s| s.src_mac = MacAddr::BROADCAST).contains("broadcast"));
        assert!(
            refused(|s| {
                s.src = range("0.0.0.0:0-255.255.255.255:65535");
                s.dst = s.src;
            })
            .contains("flows")
        );
    }
}
