//! Answers that have come before their states (`bpf/include/weir/fw/defer.h`): frames that the
//! ingress program has put aside, and the program that judges them for good. It keeps none itself.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use weir_wire::checksum;

use super::layout::{control, deferred};
use super::{AdoptError, DEFERRED, Firewall};
use crate::sys;

/// A frame that waits for its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred {
    /// When it has come: `CLOCK_BOOTTIME`, ns.
    pub time_ns: u64,
    /// By which interface.
    ifindex: u32,
    frame: Vec<u8>,
}

impl Deferred {
    /// Reads a record of the ring (`struct weir_fw_deferred`), and puts its checksum where it
    /// belongs if that is missing.
    pub(super) fn read(record: &[u8]) -> Option<Self> {
        let bytes = |at: u32| record.get(at as usize..);
        let half = |at: u32| Some(usize::from(u16::from_ne_bytes(*bytes(at)?.first_chunk()?)));
        let frame = bytes(deferred::FRAME)?.get(..half(deferred::BYTES)?)?;
        let mut read = Self {
            time_ns: u64::from_ne_bytes(*bytes(deferred::TIME_NS)?.first_chunk()?),
            ifindex: u32::from_ne_bytes(*bytes(deferred::IFINDEX)?.first_chunk()?),
            frame: frame.to_vec(),
        };
        let at = half(deferred::CHECKSUM_AT)?;
        if at != 0 {
            read.finish(at, half(deferred::MESSAGE_AT)?..half(deferred::MESSAGE_END)?)?;
        }
        Some(read)
    }

    /// Where the checksum of a message belongs stands the sum of its pseudo-header so far.
    fn finish(&mut self, at: usize, message: std::ops::Range<usize>) -> Option<()> {
        let sum = !checksum::fold(checksum::sum(self.frame.get(message)?));
        // What comes out as 0 means "none" of UDP, and is the same as its complement.
        let sum = if sum == 0 { u16::MAX } else { sum };
        self.frame.get_mut(at..at + 2)?.copy_from_slice(&sum.to_be_bytes());
        Some(())
    }
}

/// The program that judges such frames for good, over the memory of a firewall.
#[derive(Debug)]
pub struct DeferredProgram(OwnedFd);

impl Firewall {
    /// Loads that program, for which the kernel takes some tenths of a second.
    ///
    /// # Errors
    /// [`AdoptError`] if the kernel refuses it, or does not tell which memory the others use.
    pub fn load_deferred_program(&self) -> Result<DeferredProgram, AdoptError> {
        self.load_late(DEFERRED).map(DeferredProgram)
    }

    /// Says whether answers may come before their states from now on. Whoever says so reads them
    /// ([`Self::deferred_reader`]): those that find no more room are judged at once.
    pub fn defer(&self, is_due: bool) {
        self.arena().write32(control::DEFERS, u32::from(is_due));
    }
}

impl DeferredProgram {
    /// Has a frame judged as if it came now by the interface that it came by, in the calling
    /// thread's network namespace. What passes is left to the kernel.
    ///
    /// # Errors
    /// What the kernel returned: the interface has gone, or there is no memory.
    pub fn judge(&self, deferred: &Deferred) -> io::Result<()> {
        sys::test_run_live_from(self.0.as_fd(), deferred.ifindex, &deferred.frame)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn record(frame: &[u8], checksum_at: u16, message: [u16; 2]) -> Vec<u8> {
        let mut out = vec![0; deferred::SIZE_BYTES as usize];
        let mut put = |at: u32, bytes: &[u8]| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        put(deferred::TIME_NS, &7_u64.to_ne_bytes());
        put(deferred::IFINDEX, &3_u32.to_ne_bytes());
        put(deferred::BYTES, &u16::try_from(frame.len()).unwrap().to_ne_bytes());
        put(deferred::CHECKSUM_AT, &checksum_at.to_ne_bytes());
        put(deferred::MESSAGE_AT, &message[0].to_ne_bytes());
        put(deferred::MESSAGE_END, &message[1].to_ne_bytes());
        put(deferred::FRAME, frame);
        out
    }

    #[test]
    fn a_frame_comes_back_as_it_was() {
        let frame = [7; 60];
        let read = Deferred::read(&record(&frame, 0, [0, 0])).unwrap();
        assert_eq!(read, Deferred { time_ns: 7, ifindex: 3, frame: frame.to_vec() });
    }

    #[test]
    fn a_checksum_that_is_missing_is_put_in() {
        let (src, dst) = (Ipv4Addr::new(10, 1, 0, 2), Ipv4Addr::new(10, 2, 0, 2));
        // Behind 4 bytes, and before padding.
        let datagram = [0x1b, 0x59, 0x1b, 0x5a, 0, 13, 0, 0, b'h', b'e', b'l', b'l', b'o'];
        let right = checksum::udp(src, dst, &datagram);
        let mut frame = [&[0; 4][..], &datagram, &[9; 5]].concat();
        let pseudo = !checksum::with_pseudo_header(src, dst, 17, &[0; 13], 6);
        frame[10..12].copy_from_slice(&pseudo.to_be_bytes());
        let read = Deferred::read(&record(&frame, 10, [4, 17])).unwrap();
        assert_eq!(read.frame[10..12], right.to_be_bytes());
        assert_eq!(read.frame[12..], frame[12..]);
    }

    #[test]
    fn what_does_not_fit_together_is_no_frame() {
        for (at, message) in [(10, [4, 70]), (60, [4, 17]), (10, [17, 4])] {
            assert_eq!(Deferred::read(&record(&[0; 60], at, message)), None);
        }
        assert_eq!(Deferred::read(&[0; 10]), None);
    }
}
