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
