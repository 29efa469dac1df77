//! Many datagrams in one system call (recvmmsg(2), sendmmsg(2)), and what only socket options say
//! of a UDP socket: udp(7), options `UDP_GRO` and `UDP_SEGMENT`; socket(7), option `SO_MEMINFO`.
//!
//! With [`set_gro`] a message may hold several datagrams of one size that came from one peer, which
//! [`Batch::send_back`] returns as one message, too.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::{datagrams, sockets};

pub use crate::sys::datagrams::Batch;

/// Room for a message of the largest size.
pub const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// What became of the datagrams of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Datagrams that it did not take.
    pub refused: u64,
}

impl Batch {
    /// Takes the messages that wait at a socket, without waiting for any; says how many.
    ///
    /// # Errors
    /// What the kernel returned: also what came back of earlier datagrams, as `ECONNREFUSED`.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        match datagrams::receive(self, socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Sends the first messages back to where they came from, as they are.
    pub fn send_back(&mut self, socket: BorrowedFd<'_>, message_count: usize) -> Sent {
        self.send_all(socket, message_count, true)
    }

    /// Sends the first messages, as they were laid out by [`Batch::lay_out`], to the peer of a
    /// connected socket.
    pub fn send(&mut self, socket: BorrowedFd<'_>, message_count: usize) -> Sent {
        self.send_all(socket, message_count, false)
    }

    fn send_all(&mut self, socket: BorrowedFd<'_>, count: usize, is_back: bool) -> Sent {
        let (mut at, mut done) = (0, Sent::default());
        while at < count {
            let taken = datagrams::send(self, socket, at..count, is_back).unwrap_or(0);
            done.sent += (at..at + taken).map(|index| self.datagram_count(index)).sum::<u64>();
            at += taken;
            if taken == 0 {
                // The first of them is what it does not take.
                done.refused += self.datagram_count(at);
                at += 1;
            }
        }
        done
    }
}

/// Lets a message hold several datagrams.
///
/// # Errors
/// What the kernel returned; Linux 5.0 or later can.
pub fn set_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockets::set_udp_gro(socket)
}

/// Datagrams that a socket had no room for, since it was opened.
///
/// # Errors
/// What the kernel returned.
pub fn drop_count(socket: BorrowedFd<'_>) -> io::Result<u64> {
    sockets::drop_count(socket)
}
