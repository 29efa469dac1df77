//! Taps with several queues: Documentation/networking/tuntap.rst, include/uapi/linux/if_tun.h.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use libc::IFNAMSIZ;

const DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)` and `_IOR('T', 224, int)`.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0;
/// A tap, frames without a header of their own, several queues.
const FLAGS: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;

/// Opens a queue of a tap, which is made with the first; reads and writes do not wait.
pub(crate) fn open_queue(name: &str) -> io::Result<OwnedFd> {
    let is_name = (1..IFNAMSIZ).contains(&name.len()) && !name.bytes().any(|byte| byte == 0);
    if !is_name {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut ifr_name = [0; IFNAMSIZ];
    for (place, byte) in ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte.cast_signed();
    }
    let ifru_flags = libc::c_short::try_from(FLAGS).map_err(io::Error::other)?;
    let mut request =
        libc::ifreq { ifr_name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags } };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
    // SAFETY: the request outlives the call, which reads and writes no more than a `struct ifreq`.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(file.into()) }
}

/// Has a program of type socket filter choose the queue that each packet is read from.
pub(crate) fn attach_steering(queue: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: the integer outlives the call, which reads as much of it.
    let result = unsafe { libc::ioctl(queue.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
