//! AF_XDP sockets that return packets: the frames of one receive queue, in memory shared with the
//! kernel, past its network stack.
//!
//! An XDP program hands them over ([`crate::echo`]). Source: Documentation/networking/af_xdp.rst.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::xsk::{self, FRAME_BYTES, Frames, Ring};

/// Entries of each ring, and frames that can be on their way in; as many again on their way out.
const RING_SIZE: u32 = 4096;
/// Packets of a turn.
const TURN: u32 = 64;
/// How often the kernel is asked in a turn to go on sending, of which it does a few at a time.
const KICKS: u32 = 8;

/// How long a queue may be taken by a socket that was closed.
const BUSY_PATIENCE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(5);

/// The largest frame, bytes, without FCS: what a place holds beside the kernel's headroom.
pub const FRAME_BYTES_MAX: usize = FRAME_BYTES - 256;

/// What a turn did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Frames that were looked at.
    pub received: u64,
    /// Of those: handed to the device to be sent.
    pub returned: u64,
}

/// A socket at one receive queue.
#[derive(Debug)]
pub struct Xsk {
    // In the order in which they must go: the socket before its memory.
    socket: OwnedFd,
    fill: Ring,
    completion: Ring,
    receive: Ring,
    transmit: Ring,
    frames: Frames,
    /// Frames that nobody has.
    idle: VecDeque<u64>,
}

impl Xsk {
    /// Opens a socket for a queue of an interface of the calling thread's network namespace. The
    /// kernel frees a queue a moment after its last socket was closed, which is waited for.
    ///
    /// # Errors
    /// What the kernel returned: `EPERM` without `CAP_NET_RAW`, `EBUSY` if the queue has a socket
    /// already, `EOPNOTSUPP` if the driver has no XDP, `EINVAL` if there is no such queue.
    pub fn open(ifindex: u32, queue: u32) -> io::Result<Self> {
        let socket = xsk::socket()?;
        let frame_count = 2 * RING_SIZE;
        let frames = Frames::new(frame_count as usize)?;
        xsk::register(socket.as_fd(), &frames)?;
        let [fill, completion, receive, transmit] = xsk::rings(socket.as_fd(), RING_SIZE)?;
        let idle = (0..u64::from(frame_count)).map(|index| index * FRAME_BYTES as u64).collect();
        let mut opened = Self { socket, fill, completion, receive, transmit, frames, idle };
        opened.refill();
        let deadline = Instant::now() + BUSY_PATIENCE;
        loop {
            match xsk::bind(opened.socket.as_fd(), ifindex, queue) {
                Err(error) if is_taken(&error) && Instant::now() < deadline => thread::sleep(RETRY),
                bound => return bound.map(|()| opened),
            }
        }
    }

    /// The socket.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits until something has arrived, or for `timeout`.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        match xsk::wait_readable(self.socket.as_fd(), timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    /// Looks at what has arrived, up to 64 frames, without waiting: a frame for which `answer` says
    /// true is sent as it then is.
    ///
    /// # Errors
    /// What the kernel returned: the interface is gone, or down.
    pub fn turn(&mut self, mut answer: impl FnMut(&mut [u8]) -> bool) -> io::Result<Turn> {
        while let Some((address, _)) = self.completion.pop() {
            self.idle.push_back(place_of(address));
        }
        self.refill();
        let mut turn = Turn::default();
        for _ in 0..TURN.min(self.transmit.free()) {
            let Some((address, length)) = self.receive.pop() else { break };
            turn.received += 1;
            if answer(self.frames.frame(address, length)) {
                self.transmit.push(address, length);
                turn.returned += 1;
            } else {
                self.idle.push_back(place_of(address));
            }
        }
        for _ in 0..KICKS {
            if self.transmit.used() == 0 || !self.transmit.needs_wakeup() {
                break;
            }
            match xsk::kick(self.socket.as_fd()) {
                Err(error) if !is_busy(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(turn)
    }

    /// Packets that the socket had no frame or no room in its ring for, since it was opened.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn drop_count(&self) -> io::Result<u64> {
        drop_count(self.socket.as_fd())
    }

    fn refill(&mut self) {
        while self.fill.free() > 0 {
            let Some(address) = self.idle.pop_front() else { break };
            self.fill.push(address, 0);
        }
    }
}

/// As [`Xsk::drop_count`], of a socket that a thread has.
///
/// # Errors
/// What the kernel returned.
pub fn drop_count(socket: BorrowedFd<'_>) -> io::Result<u64> {
    xsk::drop_count(socket)
}

/// The kernel hands frames over with room before them.
fn place_of(address: u64) -> u64 {
    address - address % FRAME_BYTES as u64
}

/// The device has no room just now, or a signal came first.
fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Interrupted
        || matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS))
}

fn is_taken(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBUSY)
}
