//! Many datagrams in one system call (recvmmsg(2), sendmmsg(2), io_uring_enter(2)), and what only
//! socket options say of a UDP socket: udp(7), options `UDP_GRO` and `UDP_SEGMENT`; socket(7),
//! option `SO_MEMINFO`.
//!
//! With [`set_gro`] a message may hold several datagrams of one size that came from one peer, which
//! [`Batch::send_back`] returns as one message, too.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::{datagrams, sockets};

pub use crate::sys::datagrams::Batch;
pub use crate::sys::uring::{Ring, Turn};

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

    /// Sends the first messages back to where they came from, as they are, but for those from
    /// `spared_port` and those that were cut: they count as refused.
    pub fn send_back(
        &mut self,
        socket: BorrowedFd<'_>,
        message_count: usize,
        spared_port: u16,
    ) -> Sent {
        let (mut at, mut done) = (0, Sent::default());
        while at < message_count {
            let is_spared =
                |index: &usize| self.is_cut(*index) || self.peer_port(*index) == Some(spared_port);
            let end = (at..message_count).find(is_spared).unwrap_or(message_count);
            self.send_all(socket, at..end, true, &mut done);
            if end < message_count {
                done.refused += self.datagram_count(end);
            }
            at = end + 1;
        }
        done
    }

    /// Sends the first messages, as they were laid out by [`Batch::lay_out`], to the peer of a
    /// connected socket.
    pub fn send(&mut self, socket: BorrowedFd<'_>, message_count: usize) -> Sent {
        let mut done = Sent::default();
        self.send_all(socket, 0..message_count, false, &mut done);
        done
    }

    fn send_all(
        &mut self,
        socket: BorrowedFd<'_>,
        messages: Range<usize>,
        is_back: bool,
        done: &mut Sent,
    ) {
        let Range { start: mut at, end } = messages;
        while at < end {
            let taken = datagrams::send(self, socket, at..end, is_back).unwrap_or(0);
            done.sent += (at..at + taken).map(|index| self.datagram_count(index)).sum::<u64>();
            at += taken;
            if taken == 0 {
                // The first of them is what it does not take.
                done.refused += self.datagram_count(at);
                at += 1;
            }
        }
    }
}

impl<'a> Ring<'a> {
    /// For the datagrams of a socket, which nobody else reads. The calling thread alone may use it.
    ///
    /// # Errors
    /// What the kernel returned: before Linux 6.1 `EINVAL`, where it is switched off
    /// (`kernel.io_uring_disabled`) `EPERM`.
    pub fn open(socket: BorrowedFd<'a>) -> io::Result<Self> {
        Self::new(socket)
    }

    /// Waits until datagrams come, or are gone, but no longer than `timeout`, and gives back what
    /// came, in the next turn, but for those from `spared_port` and those of more than 9 KiB: they
    /// count as refused.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn send_back(&mut self, timeout: Duration, spared_port: u16) -> io::Result<Turn> {
        self.turn(timeout, Some(spared_port))
    }

    /// As [`Ring::send_back`], but nothing goes back.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn receive(&mut self, timeout: Duration) -> io::Result<Turn> {
        self.turn(timeout, None)
    }
}

/// Lets a message hold several datagrams.
///
/// # Errors
/// What the kernel returned; Linux 5.0 or later can.
pub fn set_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockets::set_udp_gro(socket)
}

/// Datagrams that one socket had no room for, since it was opened. The kernel counts modulo 2^32:
/// whoever reads more often than so many are dropped misses none.
#[derive(Debug, Default)]
pub struct DropCounter(AtomicU64);

impl DropCounter {
    /// Reads it; always of the same socket.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn read(&self, socket: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(self.advance(sockets::drop_count(socket)?))
    }

    /// What it is if the kernel's count is that by now.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel's count is the lower half")]
    fn advance(&self, now: u32) -> u64 {
        let before = self.0.load(Ordering::Relaxed);
        let count = before + u64::from(now.wrapping_sub(before as u32));
        self.0.store(count, Ordering::Relaxed);
        count
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    fn a_ring_gives_back_what_came() {
        let [server, client] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let spared = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = spared.local_addr().unwrap().port();
        let at = server.local_addr().unwrap();
        for socket in [&client, &spared] {
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        }
        let mut ring = match Ring::open(server.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                eprintln!("skipped: io_uring is switched off: {error}");
                return;
            }
            ring => ring.unwrap(),
        };
        let mut done = Turn::default();
        let mut turn = |ring: &mut Ring<'_>| {
            let turn = ring.send_back(Duration::from_millis(10), port).unwrap();
            done.read += turn.read;
            done.sent += turn.sent;
            done.refused += turn.refused;
        };
        // More than there are buffers, one after the other.
        for number in 0..2000_u32 {
            let sent = [&number.to_be_bytes()[..], &vec![7; number as usize % 1400]].concat();
            client.send_to(&sent, at).unwrap();
            // What has come in one turn goes in the next one.
            turn(&mut ring);
            turn(&mut ring);
            let mut found = [0; 2000];
            let size = loop {
                match client.recv(&mut found) {
                    Ok(size) => break size,
                    Err(_) => turn(&mut ring),
                }
            };
            assert_eq!(found[..size], sent);
        }
        spared.send_to(b"not back", at).unwrap();
        client.send_to(&[1; 9600], at).unwrap();
        for _ in 0..5 {
            turn(&mut ring);
        }
        assert!(spared.recv(&mut [0; 100]).is_err());
        assert_eq!(done, Turn { read: 2002, sent: 2000, refused: 2 });
        // What waits when it ends is lost, and nothing else.
        client.send_to(b"late", at).unwrap();
        drop(ring);
        let mut ring = Ring::open(server.as_fd()).unwrap();
        client.send_to(b"last", at).unwrap();
        let mut read = 0;
        for _ in 0..5 {
            read += ring.receive(Duration::from_millis(10)).unwrap().read;
        }
        assert!(read > 0);
    }

    #[test]
    fn drops_beyond_32_bits_are_counted() {
        let drops = DropCounter::default();
        let counts = [5, u32::MAX, 4, 4, 3].map(|now| drops.advance(now));
        let round = 1 << 32;
        assert_eq!(counts, [5, round - 1, round + 4, round + 4, 2 * round + 3]);
    }
}
