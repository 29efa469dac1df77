//! Sends whole frames through the transmit ring of a packet socket (packet(7),
//! Documentation/networking/packet_mmap.rst): for devices without XDP.
//!
//! Frames are written straight into memory that the kernel shares, and one call sends all that were
//! written. They go past the queueing discipline (`PACKET_QDISC_BYPASS`), so that what a device has
//! no room for is refused instead of queued; or, where asked for, through the stack. The kernel
//! would make packet buffers of references to the ring, which a veth copies page by page; a header
//! in front of each frame (`PACKET_VNET_HDR`) makes it copy the frame at once, and leaves nothing
//! of a packet in the ring behind the call.
//! With that header the kernel does not compare frames with the MTU: the caller has to.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use crate::sys::{self, SlotState, TxRing};

/// The largest frame of a ring, bytes.
pub const FRAME_BYTES_MAX: usize = sys::SLOT_FRAME_BYTES_MAX;

/// Slots of a ring whose frames have usual sizes.
const SLOT_COUNT: usize = 256;

/// Bytes of a ring whose frames are large, which then has fewer slots.
const RING_BYTES: usize = 1 << 20;

/// How frames get to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Path {
    /// Past everything: as fast as can be, on the queue of the sending CPU.
    #[default]
    Direct,
    /// Through what is attached to the interface's egress side, which may choose the queue, and
    /// through its queueing discipline.
    Stack,
}

/// Why the kernel did not take all frames.
#[derive(Debug)]
pub enum PacketError {
    /// What the system returned: `ENETDOWN` if the interface is down, `ENXIO` if it is gone.
    System(io::Error),
    /// The kernel refused a frame.
    Frame {
        size_bytes: usize,
        /// What the system returned: `EINVAL` for one that is shorter than its header.
        source: io::Error,
    },
}

/// A packet socket that sends to one interface, with its ring.
#[derive(Debug)]
pub struct PacketRing {
    ring: TxRing,
    socket: OwnedFd,
    frame_bytes_max: usize,
    /// The kernel's position: of the oldest frame that it has not taken.
    first: usize,
    /// Sizes of the frames that are written and not taken, from `first` on.
    waiting: VecDeque<usize>,
}

impl PacketRing {
    /// Opens a socket that sends to an interface of the calling thread's network namespace, with a
    /// ring for frames of up to `frame_bytes_max` bytes (at most [`FRAME_BYTES_MAX`]). It may then
    /// be used from any thread in any namespace.
    ///
    /// # Errors
    /// What the system returned: `EPERM` without `CAP_NET_RAW`, `ENODEV` if there is no such
    /// interface, `ENOMEM` without memory for the ring.
    pub fn open(ifindex: u32, frame_bytes_max: usize, path: Path) -> io::Result<Self> {
        let socket = sys::packet_socket(ifindex, path == Path::Direct)?;
        let slot_count = (RING_BYTES / frame_bytes_max.max(1)).clamp(16, SLOT_COUNT);
        let ring = TxRing::new(&socket, frame_bytes_max, slot_count)?;
        let waiting = VecDeque::with_capacity(ring.slot_count());
        Ok(Self { ring, socket, frame_bytes_max, first: 0, waiting })
    }

    /// Where to write the next frame, of `size_bytes` from its Ethernet header on and without FCS:
    /// what stands there is left over from older frames. [`Self::push`] makes it one of the frames
    /// to send. `None` if the ring is full.
    ///
    /// # Panics
    /// If the frame is larger than what the ring was opened for.
    pub fn frame(&mut self, size_bytes: usize) -> Option<&mut [u8]> {
        assert!(size_bytes <= self.frame_bytes_max, "the ring is for smaller frames");
        if self.waiting.len() == self.ring.slot_count() {
            return None;
        }
        self.ring.frame(self.slot(self.waiting.len()), size_bytes)
    }

    /// Adds the frame that was written to those that [`Self::flush`] sends.
    ///
    /// # Panics
    /// If there was no room for it.
    pub fn push(&mut self, size_bytes: usize) {
        assert!(self.frame(size_bytes).is_some(), "the ring is full");
        self.ring.request(self.slot(self.waiting.len()), size_bytes);
        self.waiting.push_back(size_bytes);
    }

    /// Has the kernel send what was written, without waiting. Returns how many frames and how many
    /// bytes it took, from the oldest on; the rest stays in the ring for the next call.
    ///
    /// A device without room is no error: fewer frames, or none, are taken then.
    ///
    /// # Errors
    /// [`PacketError`], with what was taken nevertheless.
    pub fn flush(&mut self) -> Result<(u64, u64), ((u64, u64), PacketError)> {
        let result = sys::send_ring(self.socket.as_fd(), &mut self.ring);
        let (mut packets, mut bytes) = (0, 0);
        while let Some(&size_bytes) = self.waiting.front() {
            match self.ring.state(self.first) {
                SlotState::Free | SlotState::Sending => {}
                SlotState::Requested => break,
                SlotState::Refused => {
                    let source = result.err().unwrap_or_else(|| io::ErrorKind::InvalidData.into());
                    return Err(((packets, bytes), PacketError::Frame { size_bytes, source }));
                }
            }
            self.waiting.pop_front();
            self.first = self.slot(1);
            packets += 1;
            bytes += size_bytes as u64;
        }
        match result {
            Err(error) if !is_full(&error) => Err(((packets, bytes), PacketError::System(error))),
            _ => Ok((packets, bytes)),
        }
    }

    /// Waits until there may be room again, at most for `timeout`.
    ///
    /// # Errors
    /// What the system returned.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        match sys::wait_writable(self.socket.as_fd(), timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes back all frames that were written and not taken.
    pub fn clear(&mut self) {
        for index in 0..self.waiting.len() {
            self.ring.withdraw(self.slot(index));
        }
        self.waiting.clear();
    }

    /// The slot that many behind the kernel's position.
    fn slot(&self, behind: usize) -> usize {
        (self.first + behind) % self.ring.slot_count()
    }
}

/// The device or the socket's buffer has no room, or a signal came first.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
        || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN))
}
