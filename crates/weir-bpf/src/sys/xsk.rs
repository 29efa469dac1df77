//! Memory and rings of AF_XDP sockets (Documentation/networking/af_xdp.rst,
//! include/uapi/linux/if_xdp.h).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use super::size_u32;

/// Bytes of a frame's place.
pub(crate) const FRAME_BYTES: usize = 2048;

/// Memory that the kernel shares.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nobody else has its address.
unsafe impl Send for Mapping {}

impl Mapping {
    /// New memory, or a ring of a socket.
    fn new(of: Option<(BorrowedFd<'_>, libc::off_t)>, bytes: usize) -> io::Result<Self> {
        let (flags, descriptor, offset) = match of {
            Some((socket, offset)) => (libc::MAP_SHARED, socket.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                descriptor,
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, bytes })
    }

    /// The first byte of a piece that lies within the mapping.
    fn piece(&self, at: usize, bytes: usize) -> NonNull<u8> {
        assert!(at + bytes <= self.bytes, "it is within the mapping");
        // SAFETY: the offset was checked.
        unsafe { self.start.add(at) }
    }

    fn word32(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a 32-bit word is aligned");
        let word = self.piece(at, 4).cast::<u32>();
        // SAFETY: the word is aligned, lives as long as the mapping, and is only touched by
        // atomics.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }

    fn word64(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a 64-bit word is aligned");
        let word = self.piece(at, 8).cast::<u64>();
        // SAFETY: the word is aligned, lives as long as the mapping, and is only touched by
        // atomics.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Memory for frames, each in a place of its own.
#[derive(Debug)]
pub(crate) struct Frames(Mapping);

impl Frames {
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        Mapping::new(None, count * FRAME_BYTES).map(Self)
    }

    /// A frame that the kernel has handed over, and that was not given back yet: the caller's
    /// books say so. It stays within its place.
    pub(crate) fn frame(&mut self, address: u64, bytes: u32) -> &mut [u8] {
        let at = usize::try_from(address).unwrap_or(usize::MAX);
        let bytes = bytes as usize;
        assert!(at % FRAME_BYTES + bytes <= FRAME_BYTES, "a frame is within its place");
        let start = self.0.piece(at, bytes);
        // SAFETY: the piece lies within the mapping, and any bytes are valid `u8`. The kernel
        // does not touch a frame that it has handed over until it is given back, which takes a
        // mutable borrow of the same owner.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) }
    }
}

/// One of the four rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Fill,
    Completion,
    Receive,
    Transmit,
}

/// A ring of a socket: of addresses, or of descriptors.
#[derive(Debug)]
pub(crate) struct Ring {
    memory: Mapping,
    producer_at: usize,
    consumer_at: usize,
    flags_at: usize,
    entries_at: usize,
    entry_words: usize,
    size: u32,
}

impl Ring {
    /// Entries that were put in and not taken out.
    pub(crate) fn used(&self) -> u32 {
        let producer = self.memory.word32(self.producer_at).load(Ordering::Acquire);
        producer.wrapping_sub(self.memory.word32(self.consumer_at).load(Ordering::Acquire))
    }

    /// Room for more.
    pub(crate) fn free(&self) -> u32 {
        self.size - self.used().min(self.size)
    }

    /// Whether the kernel asks to be called before it goes on.
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.memory.word32(self.flags_at).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, position: u32, word: usize) -> &AtomicU64 {
        let index = (position & (self.size - 1)) as usize;
        self.memory.word64(self.entries_at + (index * self.entry_words + word) * 8)
    }

    /// Takes the oldest entry: an address, and for descriptors the length.
    pub(crate) fn pop(&mut self) -> Option<(u64, u32)> {
        if self.used() == 0 {
            return None;
        }
        let consumer = self.memory.word32(self.consumer_at);
        let position = consumer.load(Ordering::Relaxed);
        let address = self.entry(position, 0).load(Ordering::Relaxed);
        let length = match self.entry_words {
            1 => 0,
            _ => low_half(self.entry(position, 1).load(Ordering::Relaxed)),
        };
        consumer.store(position.wrapping_add(1), Ordering::Release);
        Some((address, length))
    }

    /// Puts an entry in, for which there must be room.
    pub(crate) fn push(&mut self, address: u64, length: u32) {
        assert!(self.free() > 0, "there is room");
        let producer = self.memory.word32(self.producer_at);
        let position = producer.load(Ordering::Relaxed);
        self.entry(position, 0).store(address, Ordering::Relaxed);
        if self.entry_words > 1 {
            self.entry(position, 1).store(with_low_half(length), Ordering::Relaxed);
        }
        producer.store(position.wrapping_add(1), Ordering::Release);
    }
}

/// `struct xdp_desc` has the length in the first four of its last eight bytes.
fn low_half(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_ne_bytes();
    u32::from_ne_bytes([a, b, c, d])
}

fn with_low_half(value: u32) -> u64 {
    let [a, b, c, d] = value.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])
}

/// Makes an AF_XDP socket.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A plain C type that the kernel reads as an option of these sockets.
trait XdpOption {}
impl XdpOption for u32 {}
impl XdpOption for libc::xdp_umem_reg {}

fn set_option<T: XdpOption>(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let size = size_u32(size_of::<T>())?;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` outlives the call, which reads `size` bytes of it.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives a socket its memory. The kernel pins the pages for as long as the socket is open, by
/// whatever descriptor: if it outlives the mapping, it writes to pages that nobody else gets.
pub(crate) fn register(socket: BorrowedFd<'_>, frames: &Frames) -> io::Result<()> {
    // SAFETY: all of the structure may be zeros.
    let mut request: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
    request.addr = frames.0.start.as_ptr().addr() as u64;
    request.len = frames.0.bytes as u64;
    request.chunk_size = size_u32(FRAME_BYTES)?;
    set_option(socket, libc::XDP_UMEM_REG, &request)
}

/// Makes the four rings, of `size` entries each (a power of two).
pub(crate) fn rings(socket: BorrowedFd<'_>, size: u32) -> io::Result<[Ring; 4]> {
    use Which::{Completion, Fill, Receive, Transmit};
    for which in [Fill, Completion, Receive, Transmit] {
        let option = match which {
            Fill => libc::XDP_UMEM_FILL_RING,
            Completion => libc::XDP_UMEM_COMPLETION_RING,
            Receive => libc::XDP_RX_RING,
            Transmit => libc::XDP_TX_RING,
        };
        set_option(socket, option, &size)?;
    }
    // SAFETY: all of the structure may be zeros.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get_option(socket, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
    let ring = |which| ring(socket, which, &offsets, size);
    Ok([ring(Fill)?, ring(Completion)?, ring(Receive)?, ring(Transmit)?])
}

fn ring(
    socket: BorrowedFd<'_>,
    which: Which,
    offsets: &libc::xdp_mmap_offsets,
    size: u32,
) -> io::Result<Ring> {
    let page = |offset: u64| libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
    let (at, entry_words, page) = match which {
        Which::Fill => (&offsets.fr, 1, page(libc::XDP_UMEM_PGOFF_FILL_RING)),
        Which::Completion => (&offsets.cr, 1, page(libc::XDP_UMEM_PGOFF_COMPLETION_RING)),
        Which::Receive => (&offsets.rx, 2, libc::XDP_PGOFF_RX_RING),
        Which::Transmit => (&offsets.tx, 2, libc::XDP_PGOFF_TX_RING),
    };
    let offset = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let entries_at = offset(at.desc);
    let bytes = entries_at + size as usize * entry_words * 8;
    Ok(Ring {
        memory: Mapping::new(Some((socket, page)), bytes)?,
        producer_at: offset(at.producer),
        consumer_at: offset(at.consumer),
        flags_at: offset(at.flags),
        entries_at,
        entry_words,
        size,
    })
}

/// A plain C type that the kernel writes as an option of these sockets.
trait XdpAnswer {}
impl XdpAnswer for libc::xdp_mmap_offsets {}
impl XdpAnswer for libc::xdp_statistics {}

fn get_option<T: XdpAnswer>(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: &mut T,
) -> io::Result<()> {
    let mut size = size_u32(size_of::<T>())?;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: `value` outlives the call, which writes at most `size` bytes to it.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_XDP, option, value, &raw mut size)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds the socket to a queue of an interface; the driver writes to its memory directly where it
/// can, and copies where it cannot.
pub(crate) fn bind(socket: BorrowedFd<'_>, ifindex: u32, queue: u32) -> io::Result<()> {
    // SAFETY: all of the structure may be zeros.
    let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
    address.sxdp_family =
        u16::try_from(libc::AF_XDP).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    address.sxdp_flags = libc::XDP_USE_NEED_WAKEUP;
    address.sxdp_ifindex = ifindex;
    address.sxdp_queue_id = queue;
    let size = size_u32(size_of_val(&address))?;
    // SAFETY: `address` outlives the call, which reads `size` bytes of it.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel send what is in the transmit ring.
pub(crate) fn kick(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: there is no buffer: what is sent is in the socket's own ring and memory.
    let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until something has arrived, or for `timeout` (whole milliseconds, rounded up).
pub(crate) fn wait_readable(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut interest = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let timeout_ms = timeout.as_micros().div_ceil(1000);
    let timeout_ms = libc::c_int::try_from(timeout_ms).unwrap_or(libc::c_int::MAX);
    // SAFETY: the one entry that the call reads and writes outlives it.
    let ready = unsafe { libc::poll(&raw mut interest, 1, timeout_ms) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Packets that the socket had no frame or no room in its ring for.
pub(crate) fn drop_count(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all of the structure may be zeros.
    let mut statistics: libc::xdp_statistics = unsafe { std::mem::zeroed() };
    get_option(socket, libc::XDP_STATISTICS, &mut statistics)?;
    Ok(statistics.rx_dropped + statistics.rx_ring_full)
}
