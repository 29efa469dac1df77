//! Sends whole frames through a packet socket (packet(7)): for devices without XDP.
//!
//! Batches go out by one `sendmmsg` each, past the queueing discipline (`PACKET_QDISC_BYPASS`), so
//! that what a device has no room for is refused instead of queued. There is no transmit ring: with
//! the bypass a ring saves the copy of each frame, but not the kernel's cost of one packet buffer
//! per frame, which is most of it.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use crate::sys;

/// A packet socket that sends to one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Opens a socket that sends to an interface of the calling thread's network namespace. It may
    /// then be used from any thread in any namespace.
    ///
    /// # Errors
    /// What the system returned: `EPERM` without `CAP_NET_RAW`, `ENODEV` if there is no such
    /// interface.
    pub fn open(ifindex: u32) -> io::Result<Self> {
        Ok(Self { socket: sys::packet_socket(ifindex)? })
    }

    /// Sends frames, each from its Ethernet header on and without FCS. Returns how many the device
    /// took, from the first on; the rest may be sent again.
    ///
    /// A device without room is no error: fewer frames, or none, are taken then.
    ///
    /// # Errors
    /// What the system returned if the first frame cannot be sent: `ENETDOWN` if the interface is
    /// down, `EMSGSIZE` if a frame is larger than its MTU allows.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        match sys::send_frames(self.socket.as_fd(), frames) {
            Err(error) if is_full(&error) => Ok(0),
            result => result,
        }
    }
}

/// The device has no room, or a signal came before the first frame.
fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
        || matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN))
}
