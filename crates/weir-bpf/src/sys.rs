//! The system calls that have no safe wrapper elsewhere: all unsafe code of the workspace.
//!
//! Sources: bpf(2), Documentation/bpf/bpf_prog_run.rst, netdevice(7), packet(7),
//! Documentation/networking/packet_mmap.rst, include/uapi/linux/{ethtool,if_packet,virtio_net}.h.

#![expect(unsafe_code, reason = "this module is where the workspace keeps its unsafe code")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use libbpf_sys::{
    BPF_TCX_EGRESS, BPF_TCX_INGRESS, BPF_XDP, bpf_link_create_opts, bpf_prog_attach_opts,
    bpf_prog_detach_opts, bpf_prog_query_opts,
};

pub(crate) mod batch;
pub(crate) mod datagrams;
mod runs;
pub(crate) mod sockets;
pub(crate) mod tap;
pub(crate) mod uring;
pub(crate) mod xsk;

pub(crate) use self::runs::{test_run_from, test_run_in, test_run_live_from, test_run_packet};
pub use self::runs::{test_run_live, test_run_once};

/// Interface names end with a NUL inside this many bytes.
pub(crate) const IFNAMSIZ: usize = libc::IFNAMSIZ;

/// Turns libbpf's `-errno` into an error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

fn size_u32(size: usize) -> io::Result<u32> {
    u32::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// The kernel's number of a program.
pub(crate) fn program_id(program: BorrowedFd<'_>) -> io::Result<u32> {
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    let text = std::fs::read_to_string(path)?;
    let id = text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    id.ok_or_else(|| io::Error::other("the kernel does not say the program's number"))
}

/// The side of an interface that a program for traffic control is on.
const fn tcx_side(is_egress: bool) -> libbpf_sys::bpf_attach_type {
    if is_egress { BPF_TCX_EGRESS } else { BPF_TCX_INGRESS }
}

/// Attaches a program for traffic control to one side of an interface of the calling thread's
/// network namespace, without a link: it stays when its descriptors are closed.
pub(crate) fn tcx_attach(program: BorrowedFd<'_>, ifindex: u32, is_egress: bool) -> io::Result<()> {
    let options = bpf_prog_attach_opts {
        sz: size_of::<bpf_prog_attach_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let target =
        i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let side = tcx_side(is_egress);
    // SAFETY: `options` outlives the call, which only reads it.
    check(unsafe { bpf_prog_attach_opts(program.as_raw_fd(), target, side, &raw const options) })?;
    Ok(())
}

/// Takes a program away from where [`tcx_attach`] put it.
pub(crate) fn tcx_detach(program: BorrowedFd<'_>, ifindex: u32, is_egress: bool) -> io::Result<()> {
    let options = bpf_prog_detach_opts {
        sz: size_of::<bpf_prog_detach_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let target =
        i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let side = tcx_side(is_egress);
    // SAFETY: `options` outlives the call, which only reads it.
    check(unsafe { bpf_prog_detach_opts(program.as_raw_fd(), target, side, &raw const options) })?;
    Ok(())
}

/// Kernel's numbers of the programs on one side of an interface of the calling thread's network
/// namespace, in the order in which they run.
pub(crate) fn tcx_query(ifindex: u32, is_egress: bool) -> io::Result<Vec<u32>> {
    /// The kernel allows 64 on one side of an interface (`BPF_MPROG_MAX`).
    const PROGRAM_COUNT_MAX: usize = 64;
    let mut ids = [0_u32; PROGRAM_COUNT_MAX];
    let mut options = bpf_prog_query_opts {
        sz: size_of::<bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = size_u32(PROGRAM_COUNT_MAX)?;
    let target =
        i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `options` and the list outlive the call, which writes at most `count` numbers.
    check(unsafe { bpf_prog_query_opts(target, tcx_side(is_egress), &raw mut options) })?;
    // SAFETY: both fields of the union are the same 32-bit number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(ids.into_iter().take(count).collect())
}

/// Size of an arena: every offset of 32 bits lies within it.
pub(crate) const ARENA_BYTES: usize = 1 << 32;

/// Whether nothing is mapped in the [`ARENA_BYTES`] at an address of this process.
pub(crate) fn arena_address_is_free(address: u64) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    // SAFETY: the kernel refuses this if it would replace a mapping, and nothing has the address of
    // a new one.
    let start = unsafe {
        libc::mmap(
            std::ptr::without_provenance_mut(address),
            ARENA_BYTES,
            libc::PROT_NONE,
            libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: this is the whole mapping that was just made.
    unsafe { libc::munmap(start, ARENA_BYTES) };
    start.addr() == address
}

/// A BPF arena, mapped into this process.
///
/// Programs and other processes write to it at any time, so that it is only read and written
/// through atomics. A page that nobody has populated yet is populated by the first access, which
/// ends the process if there is no memory: [`populate`](Self::populate) first.
#[derive(Debug)]
pub(crate) struct ArenaMapping {
    start: NonNull<u8>,
}

// SAFETY: the mapping belongs to the process, not to a thread.
unsafe impl Send for ArenaMapping {}
// SAFETY: what is in it is only touched through atomics.
unsafe impl Sync for ArenaMapping {}

impl ArenaMapping {
    /// Maps an arena at its address, which is its `map_extra`; never in the place of something
    /// else.
    pub(crate) fn new(map: BorrowedFd<'_>, address: u64) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let address = usize::try_from(address).map_err(|_| invalid())?;
        // SAFETY: the kernel refuses this if it would replace a mapping of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::without_provenance_mut(address),
                ARENA_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED_NOREPLACE,
                map.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: NonNull::new(start.cast()).ok_or_else(invalid)? })
    }

    /// Has the kernel give memory to pages; both numbers are multiples of the page size.
    pub(crate) fn populate(&self, at: u32, bytes: usize) -> io::Result<()> {
        if at as usize + bytes > ARENA_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the offset was checked to be within the mapping.
        let start = unsafe { self.start.add(at as usize) };
        // SAFETY: this only populates pages of the mapping, whose contents do not change.
        let result =
            unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The 32-bit word at an offset, which is a multiple of 4.
    pub(crate) fn word32(&self, at: u32) -> &AtomicU32 {
        assert!(at.is_multiple_of(4), "a 32-bit word is aligned");
        // SAFETY: every aligned offset of 32 bits lies within the mapping of 2^32 bytes.
        let word = unsafe { self.start.add(at as usize) }.cast::<u32>();
        // SAFETY: the word is aligned, lives as long as the mapping, and is only touched by
        // atomics.
        unsafe { AtomicU32::from_ptr(word.as_ptr()) }
    }

    /// The 64-bit word at an offset, which is a multiple of 8.
    pub(crate) fn word64(&self, at: u32) -> &AtomicU64 {
        assert!(at.is_multiple_of(8), "a 64-bit word is aligned");
        // SAFETY: every aligned offset of 32 bits lies within the mapping of 2^32 bytes.
        let word = unsafe { self.start.add(at as usize) }.cast::<u64>();
        // SAFETY: the word is aligned, lives as long as the mapping, and is only touched by
        // atomics.
        unsafe { AtomicU64::from_ptr(word.as_ptr()) }
    }
}

impl Drop for ArenaMapping {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), ARENA_BYTES) };
    }
}

/// Attaches an XDP program to an interface of the calling thread's network namespace with a link,
/// which detaches when it is closed. `flags` are `XDP_FLAGS_*`.
pub(crate) fn xdp_link_create(
    program: BorrowedFd<'_>,
    ifindex: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as libbpf_sys::size_t,
        flags,
        ..Default::default()
    };
    let target =
        i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: `options` outlives the call, which only reads it.
    let fd = check(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), target, BPF_XDP, &raw const options)
    })?;
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a program for traffic control to one side of an interface of the calling thread's
/// network namespace with a link, which detaches when it is closed.
pub(crate) fn tcx_link_create(
    program: BorrowedFd<'_>,
    ifindex: u32,
    is_egress: bool,
) -> io::Result<OwnedFd> {
    let options = bpf_link_create_opts {
        sz: size_of::<bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    let target =
        i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let side = tcx_side(is_egress);
    // SAFETY: `options` outlives the call, which only reads it.
    let fd = check(unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), target, side, &raw const options)
    })?;
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a packet socket (packet(7)) that sends whole frames to an interface of the calling
/// thread's network namespace and receives nothing; past its queueing discipline and what is
/// attached to its egress side, or through both.
pub(crate) fn packet_socket(ifindex: u32, is_direct: bool) -> io::Result<OwnedFd> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    // SAFETY: socket(2) takes no pointers. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_packet_option(&socket, libc::PACKET_QDISC_BYPASS, &i32::from(is_direct))?;
    let address = libc::sockaddr_ll {
        sll_family: u16::try_from(libc::AF_PACKET).map_err(invalid)?,
        sll_protocol: 0,
        sll_ifindex: i32::try_from(ifindex).map_err(invalid)?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let size = size_u32(size_of_val(&address))?;
    // SAFETY: `address` outlives the call, which reads `size` bytes of it.
    let result = unsafe { libc::bind(fd, (&raw const address).cast(), size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
}

/// A plain C type without padding that the kernel reads as an option of packet sockets.
trait PacketOption {}
impl PacketOption for libc::c_int {}
impl PacketOption for libc::tpacket_req {}

/// Sets an option of a packet socket (packet(7)).
fn set_packet_option<T: PacketOption>(
    socket: &OwnedFd,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let size = size_u32(size_of_val(value))?;
    let (level, value) = (libc::SOL_PACKET, std::ptr::from_ref(value).cast());
    // SAFETY: `value` outlives the call, which reads `size` bytes of it.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's header of a slot: `struct tpacket2_hdr`, of which only status and length matter.
const SLOT_HEADER_BYTES: usize = size_of::<libc::tpacket2_hdr>();

/// Size of the status, with which the header begins.
const STATUS_BYTES: usize = size_of::<u32>();

/// Where the frame begins in a slot. `struct virtio_net_hdr` stands between the two headers.
const SLOT_FRAME_AT: usize = SLOT_HEADER_BYTES + VNET_HEADER_BYTES;

/// Size of `struct virtio_net_hdr`.
const VNET_HEADER_BYTES: usize = 10;

/// Where `hdr_len` stands in it: how much of a frame is copied into the packet buffer itself.
const VNET_COPIED_AT: usize = 2;

/// The largest frame of a slot, bytes: `hdr_len` has 16 bits.
pub(crate) const SLOT_FRAME_BYTES_MAX: usize = u16::MAX as usize;

/// Whose a slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Ours, with nothing in it.
    Free,
    /// The kernel's as soon as it is called: a frame is to be sent.
    Requested,
    /// The kernel's: it has taken the frame, and not let go of it yet.
    Sending,
    /// Ours: the kernel refused what is in it.
    Refused,
}

/// The transmit ring of a packet socket, mapped into this process: slots of one frame each.
///
/// The kernel looks at slots only inside a call of [`send_ring`], and gives back those that are
/// [`SlotState::Sending`] at any time. It copies each frame as a whole (`hdr_len` says so), so that
/// nothing refers to a slot's bytes behind that call.
#[derive(Debug)]
pub(crate) struct TxRing {
    start: NonNull<u8>,
    slot_bytes: usize,
    slot_count: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nobody else has its address.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Gives a socket a ring of `slot_count` slots for frames of up to `frame_bytes_max` bytes, and
    /// maps it. `slot_count` is rounded up to whole blocks.
    pub(crate) fn new(
        socket: &OwnedFd,
        frame_bytes_max: usize,
        slot_count: usize,
    ) -> io::Result<Self> {
        /// A multiple of the page size of every architecture.
        const BLOCK_BYTES: usize = 1 << 16;
        if frame_bytes_max > SLOT_FRAME_BYTES_MAX || slot_count == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // Both are powers of two, so that slots fill blocks without gaps.
        let slot_bytes = (SLOT_FRAME_AT + frame_bytes_max).next_power_of_two();
        let block_bytes = slot_bytes.max(BLOCK_BYTES);
        let block_count = (slot_count * slot_bytes).div_ceil(block_bytes);
        let slot_count = block_count * block_bytes / slot_bytes;
        let version = libc::tpacket_versions::TPACKET_V2 as libc::c_int;
        set_packet_option(socket, libc::PACKET_VERSION, &version)?;
        set_packet_option(socket, libc::PACKET_VNET_HDR, &1_i32)?;
        let request = libc::tpacket_req {
            tp_block_size: size_u32(block_bytes)?,
            tp_block_nr: size_u32(block_count)?,
            tp_frame_size: size_u32(slot_bytes)?,
            tp_frame_nr: size_u32(slot_count)?,
        };
        set_packet_option(socket, libc::PACKET_TX_RING, &request)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                slot_count * slot_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, slot_bytes, slot_count })
    }

    /// Number of slots.
    pub(crate) fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// The first byte of a slot.
    fn slot(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.slot_count, "there is no such slot");
        // SAFETY: the offset is within the mapping, whose size is the product of both counts.
        unsafe { self.start.add(index * self.slot_bytes) }
    }

    /// The status word of a slot, which the kernel writes too.
    fn status(&self, index: usize) -> &AtomicU32 {
        let status = self.slot(index).cast::<u32>().as_ptr();
        // SAFETY: a slot begins with the aligned 32-bit status, which lives as long as the mapping,
        // and is never touched here but through this function.
        unsafe { AtomicU32::from_ptr(status) }
    }

    /// Whose a slot is.
    pub(crate) fn state(&self, index: usize) -> SlotState {
        let status = self.status(index).load(Ordering::Acquire);
        if status & libc::TP_STATUS_WRONG_FORMAT != 0 {
            SlotState::Refused
        } else if status & libc::TP_STATUS_SENDING != 0 {
            SlotState::Sending
        } else if status & libc::TP_STATUS_SEND_REQUEST != 0 {
            SlotState::Requested
        } else {
            SlotState::Free
        }
    }

    /// The bytes of a slot behind the status; `None` while the kernel may look at them.
    fn bytes(&mut self, index: usize) -> Option<&mut [u8]> {
        if self.state(index) == SlotState::Sending {
            return None;
        }
        let start = self.slot(index).as_ptr().wrapping_add(STATUS_BYTES);
        let size_bytes = self.slot_bytes - STATUS_BYTES;
        // SAFETY: the slot lies within the mapping, and any bytes are valid `u8`. The kernel
        // touches them only inside `send_ring`, which borrows the ring mutably, or while it is
        // sending, which was excluded; and the slice leaves the status out.
        Some(unsafe { slice::from_raw_parts_mut(start, size_bytes) })
    }

    /// Room for a frame of that size; `None` if the slot is not free, or too small.
    pub(crate) fn frame(&mut self, index: usize, size_bytes: usize) -> Option<&mut [u8]> {
        if self.state(index) != SlotState::Free {
            return None;
        }
        self.bytes(index)?.get_mut(SLOT_FRAME_AT - STATUS_BYTES..)?.get_mut(..size_bytes)
    }

    /// Asks for the frame of `size_bytes` in a free slot to be sent by the next [`send_ring`].
    pub(crate) fn request(&mut self, index: usize, size_bytes: usize) {
        let copied = u16::try_from(size_bytes).unwrap_or(u16::MAX);
        let length = u32::try_from(VNET_HEADER_BYTES + size_bytes).unwrap_or(u32::MAX);
        let Some(bytes) = self.bytes(index) else { return };
        let (header, rest) = bytes.split_at_mut(SLOT_HEADER_BYTES - STATUS_BYTES);
        header[..4].copy_from_slice(&length.to_ne_bytes());
        let vnet = &mut rest[..VNET_HEADER_BYTES];
        vnet.fill(0);
        vnet[VNET_COPIED_AT..VNET_COPIED_AT + 2].copy_from_slice(&copied.to_ne_bytes());
        self.status(index).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
    }

    /// Takes back a slot that the kernel does not have.
    pub(crate) fn withdraw(&mut self, index: usize) {
        if self.state(index) != SlotState::Sending {
            self.status(index).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and nothing borrowed from it outlives the ring.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.slot_count * self.slot_bytes) };
    }
}

/// Has the kernel send the frames that were requested, from its own position in the ring on, until
/// it finds a slot without one, or cannot go on; it never waits.
pub(crate) fn send_ring(socket: BorrowedFd<'_>, _ring: &mut TxRing) -> io::Result<()> {
    // SAFETY: there is no buffer: the frames are in the socket's own ring, which is borrowed
    // mutably, so that nobody writes to it during the call.
    let sent = unsafe { libc::send(socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until a socket can take more, or for `timeout` (whole milliseconds, rounded up).
pub(crate) fn wait_writable(socket: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut interest = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    let timeout_ms = timeout.as_micros().div_ceil(1000);
    let timeout_ms = libc::c_int::try_from(timeout_ms).unwrap_or(libc::c_int::MAX);
    // SAFETY: the one entry that the call reads and writes outlives it.
    let ready = unsafe { libc::poll(&raw mut interest, 1, timeout_ms) };
    if ready < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls `SIOCETHTOOL` for an interface of the calling thread's network namespace.
///
/// `request` starts with the command. The kernel reads and writes as much as the command's
/// structure takes, so that the caller must size it by that structure; for the commands with a
/// variable tail it must leave room for a tail that has grown since its size was asked.
pub(crate) fn ethtool(name: &[u8; IFNAMSIZ], request: &mut EthtoolRequest) -> io::Result<()> {
    // SAFETY: socket(2) takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut interface = libc::ifreq {
        ifr_name: name.map(u8::cast_signed),
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: request.bytes.as_mut_ptr().cast() },
    };
    // SAFETY: `interface` and the request's bytes, to which its pointer leads, outlive the call.
    // The kernel touches as many bytes as the command's structure takes, which `EthtoolRequest`'s
    // constructor guarantees to be there.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut interface) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Number of entries by which a variable tail may grow between asking its size and reading it.
const SPARE_ENTRIES: usize = 4096;

/// The buffer of one ethtool command, as large as the kernel may want it.
#[derive(Debug)]
pub(crate) struct EthtoolRequest {
    bytes: Vec<u8>,
}

impl EthtoolRequest {
    /// Room for every fixed structure of include/uapi/linux/ethtool.h that this crate uses, the
    /// largest being `ethtool_drvinfo` with 196 bytes, and for a tail of `entries` entries of
    /// `entry_bytes` bytes behind it, with spare ones.
    pub(crate) fn new(command: u32, entries: usize, entry_bytes: usize) -> Self {
        let mut bytes = vec![0; 256 + (entries + SPARE_ENTRIES) * entry_bytes];
        bytes[..4].copy_from_slice(&command.to_ne_bytes());
        Self { bytes }
    }

    /// Sets the 32-bit field at `offset`.
    pub(crate) fn set_u32(&mut self, offset: usize, value: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }

    /// Writes bytes from `offset` on.
    pub(crate) fn set_bytes(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes that the kernel wrote, and the zeros behind them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sums, without carry, the products of words and keys, and leaves bits 31 to 62 of each sum: for
/// each of `inputs`, whose words are multiplied with the keys one by one. `None` where the CPU has
/// no carry-less multiplication.
#[cfg(target_arch = "x86_64")]
pub(crate) fn carryless_sums<const N: usize>(
    inputs: &[[u32; N]],
    keys: &[u64; N],
    sums: &mut [u32],
) -> Option<()> {
    if !std::arch::is_x86_feature_detected!("pclmulqdq") {
        return None;
    }
    // SAFETY: the CPU has the instruction, which is all that the function asks for.
    unsafe { pclmulqdq_sums(inputs, keys, sums) };
    Some(())
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "pclmulqdq")]
fn pclmulqdq_sums<const N: usize>(inputs: &[[u32; N]], keys: &[u64; N], sums: &mut [u32]) {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_setzero_si128,
        _mm_xor_si128,
    };
    let keys = keys.map(|key| _mm_cvtsi64_si128(key.cast_signed()));
    for (input, sum) in inputs.iter().zip(sums) {
        let mut total = _mm_setzero_si128();
        for (word, key) in input.iter().zip(keys) {
            let word = _mm_cvtsi64_si128(i64::from(*word));
            total = _mm_xor_si128(total, _mm_clmulepi64_si128::<0>(word, key));
        }
        let low = _mm_cvtsi128_si64(total).cast_unsigned();
        *sum = u32::try_from(low >> 31 & u64::from(u32::MAX)).unwrap_or(0);
    }
}

/// As above: no other architecture's instruction is used.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn carryless_sums<const N: usize>(
    _inputs: &[[u32; N]],
    _keys: &[u64; N],
    _sums: &mut [u32],
) -> Option<()> {
    None
}

/// `MEMBARRIER_CMD_GLOBAL` of membarrier(2), which waits for a grace period of RCU: longer than any
/// poll of a device that has begun.
const MEMBARRIER_GLOBAL: libc::c_int = 1;

/// Waits until every program that handles packets now, and every poll of a device that it runs in,
/// has ended.
///
/// # Errors
/// What the kernel returned: `EINVAL` where CPUs run without ticks (`nohz_full`).
pub(crate) fn wait_for_polls() -> io::Result<()> {
    // SAFETY: The call reads and writes no memory.
    let result = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What ioctl_nsfs(2) says of a namespace: another one that it stands in a relation to.
pub(crate) fn related_namespace(
    namespace: BorrowedFd<'_>,
    relation: libc::Ioctl,
) -> io::Result<OwnedFd> {
    // SAFETY: the relations take no argument, so that no memory is read or written.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), relation) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(result) })
}

/// `NS_GET_OWNER_UID` of ioctl_nsfs(2): `_IO(0xb7, 4)`.
const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;

/// The user who made a user namespace.
pub(crate) fn namespace_owner_uid(namespace: BorrowedFd<'_>) -> io::Result<u32> {
    let mut uid: libc::uid_t = 0;
    // SAFETY: `uid` outlives the call, and it is what the kernel writes.
    let result = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_OWNER_UID, &raw mut uid) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(uid) }
}

/// `setpriority(2)` for the calling thread.
pub(crate) fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: the call takes plain numbers; 0 is the calling thread, to Linux.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives the calling thread a real-time priority, which what it starts does not get.
pub(crate) fn set_real_time_priority(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread, and the parameters live through the call.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
