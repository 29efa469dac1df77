//! Options of sockets that have no safe wrapper elsewhere: socket(7), filter.rst.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::size_u32;

/// Sets an option of level `SOL_SOCKET`.
///
/// # Safety
/// The kernel must read no more of `value`, and follow no other pointer in it, than is valid for
/// the call.
unsafe fn set_option<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    let size = size_u32(size_of::<T>())?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` outlives the call, which reads `size` bytes of it; what it points to is the
    // caller's promise.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has a BPF program choose among the sockets that share an address.
pub(crate) fn attach_reuseport(socket: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the option is a plain integer.
    unsafe { set_option(socket, libc::SO_ATTACH_REUSEPORT_EBPF, &program.as_raw_fd()) }
}

/// Classic BPF (include/uapi/linux/filter.h): load a word, arithmetic with a constant, return.
const LOAD_WORD: u16 = 0x20;
const SUBTRACT: u16 = 0x14;
const MODULO: u16 = 0x94;
const RETURN_ACCUMULATOR: u16 = 0x16;
/// Where its extensions begin, and the packet's queue among them.
const EXTENSIONS: u32 = 0xffff_f000;
const QUEUE: u32 = 24;

/// Has the packet's receive queue, less `above`, modulo `socket_count` choose among the sockets
/// that share an address, in the order in which they were bound.
pub(crate) fn attach_reuseport_by_queue(
    socket: BorrowedFd<'_>,
    socket_count: u32,
    above: u32,
) -> io::Result<()> {
    let step = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut steps = [
        step(LOAD_WORD, EXTENSIONS + QUEUE),
        step(SUBTRACT, above),
        step(MODULO, socket_count),
        step(RETURN_ACCUMULATOR, 0),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    // SAFETY: the four instructions that it points to outlive the call, which copies them.
    unsafe { set_option(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program) }
}

/// `UDP_GRO` of udp(7).
pub(crate) fn set_udp_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
    let (on, size) = (1_i32, size_u32(size_of::<i32>())?);
    let value = (&raw const on).cast();
    // SAFETY: the integer outlives the call, which reads as much of it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_GRO, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `SO_NETNS_COOKIE` of socket(7): the number of a socket's network namespace.
pub(crate) fn netns_cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let (mut cookie, mut size) = (0_u64, size_u32(size_of::<u64>())?);
    // SAFETY: the integer outlives the call, which writes at most `size` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// Words of `SO_MEMINFO` (include/uapi/linux/sock_diag.h), of which the last is what was dropped.
const MEMORY_WORDS: usize = 9;

/// What a socket has dropped since it was opened, modulo 2^32.
pub(crate) fn drop_count(socket: BorrowedFd<'_>) -> io::Result<u32> {
    let mut words = [0_u32; MEMORY_WORDS];
    let mut size = size_u32(size_of_val(&words))?;
    // SAFETY: the words outlive the call, which writes at most `size` bytes.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(words[MEMORY_WORDS - 1]) }
}
