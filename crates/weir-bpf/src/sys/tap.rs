//! Taps with several queues, and tuns: Documentation/networking/tuntap.rst,
//! include/uapi/linux/if_tun.h.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;

use libc::IFNAMSIZ;

const DEVICE: &str = "/dev/net/tun";
/// `_IOW('T', 202, int)`, `_IOW('T', 208, unsigned int)` and `_IOR('T', 224, int)`.
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETOFFLOAD: libc::Ioctl = 0x4004_54d0;
const TUNSETSTEERINGEBPF: libc::Ioctl = 0x8004_54e0;
/// A tap, frames without a header of their own, several queues.
const TAP_FLAGS: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_MULTI_QUEUE;
/// A tun, packets without a header of their own.
const TUN_FLAGS: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI;
/// `TUN_F_CSUM`, `TUN_F_TSO4` and `TUN_F_TSO6`.
const OFFLOADS: libc::c_ulong = 0x01 | 0x02 | 0x04;

/// Opens a queue of a tap, which is made with the first; reads and writes do not wait.
pub(crate) fn open_queue(name: &str) -> io::Result<OwnedFd> {
    open(name, TAP_FLAGS, libc::O_NONBLOCK)
}

/// Opens a tun, which is made if there is none; reads wait. With `has_offload` packets have a
/// `struct virtio_net_hdr` in front, and leave checksums and segments of TCP to who reads them.
pub(crate) fn open_tun(name: &str, has_offload: bool) -> io::Result<OwnedFd> {
    if !has_offload {
        return open(name, TUN_FLAGS, 0);
    }
    let tun = open(name, TUN_FLAGS | libc::IFF_VNET_HDR, 0)?;
    // SAFETY: the request takes an integer, and no pointer.
    let result = unsafe { libc::ioctl(tun.as_raw_fd(), TUNSETOFFLOAD, OFFLOADS) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(tun) }
}

fn open(name: &str, flags: libc::c_int, file_flags: libc::c_int) -> io::Result<OwnedFd> {
    let is_name = (1..IFNAMSIZ).contains(&name.len()) && !name.bytes().any(|byte| byte == 0);
    if !is_name {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut ifr_name = [0; IFNAMSIZ];
    for (place, byte) in ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte.cast_signed();
    }
    let ifru_flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
    let mut request =
        libc::ifreq { ifr_name, ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags } };
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(file_flags).open(DEVICE)?;
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
