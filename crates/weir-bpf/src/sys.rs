//! The system calls that have no safe wrapper elsewhere: all unsafe code of the workspace.
//!
//! Sources: bpf(2), Documentation/bpf/bpf_prog_run.rst, netdevice(7), packet(7), sendmmsg(2),
//! include/uapi/linux/ethtool.h.

#![expect(unsafe_code, reason = "this module is where the workspace keeps its unsafe code")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_sys::{BPF_F_TEST_XDP_LIVE_FRAMES, BPF_XDP, bpf_link_create_opts, bpf_test_run_opts};

/// Interface names end with a NUL inside this many bytes.
pub(crate) const IFNAMSIZ: usize = libc::IFNAMSIZ;

/// Turns libbpf's `-errno` into an error.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

fn size_u32(size: usize) -> io::Result<u32> {
    u32::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Runs an XDP program `repeat` times on live frames that start as copies of `frame`, in batches of
/// `batch` (0 is the kernel's default of 64, at most 256), on the calling CPU.
pub(crate) fn test_run_live(
    program: BorrowedFd<'_>,
    frame: &[u8],
    repeat: u32,
    batch: u32,
) -> io::Result<()> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: size_u32(frame.len())?,
        repeat: i32::try_from(repeat).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        flags: BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size: batch,
        ..Default::default()
    };
    // SAFETY: `options` and the frame it points to outlive the call; the kernel reads
    // `data_size_in` bytes of the frame, and with live frames and no output buffers set it writes
    // nothing but the scalar results inside `options`.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok(())
}

/// Runs an XDP program once on a copy of `frame` and returns its verdict; what the frame then holds
/// is left in `output`, whose first bytes (as many as returned) are valid.
pub(crate) fn test_run_once(
    program: BorrowedFd<'_>,
    frame: &[u8],
    output: &mut [u8],
) -> io::Result<(u32, usize)> {
    let mut options = bpf_test_run_opts {
        sz: size_of::<bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: size_u32(frame.len())?,
        data_out: output.as_mut_ptr().cast(),
        data_size_out: size_u32(output.len())?,
        repeat: 1,
        ..Default::default()
    };
    // SAFETY: `options`, the input and the output buffer outlive the call; the kernel reads
    // `data_size_in` bytes of the one and writes at most `data_size_out` bytes to the other.
    check(unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) })?;
    Ok((options.retval, options.data_size_out as usize))
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

/// Opens a packet socket (packet(7)) that sends whole frames to an interface of the calling
/// thread's network namespace, past its queueing discipline, and receives nothing.
pub(crate) fn packet_socket(ifindex: u32) -> io::Result<OwnedFd> {
    let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
    // SAFETY: socket(2) takes no pointers. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor to us, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let bypass: libc::c_int = 1;
    // SAFETY: `bypass` outlives the call, which reads as many bytes of it as its size says.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const bypass).cast(),
            size_u32(size_of_val(&bypass))?,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
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

/// Sends frames with one sendmmsg(2) and returns how many the kernel took, from the first on.
pub(crate) fn send_frames(socket: BorrowedFd<'_>, frames: &[Vec<u8>]) -> io::Result<usize> {
    let mut parts: Vec<libc::iovec> = frames
        .iter()
        .map(|frame| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = parts
        .iter_mut()
        .map(|part| libc::mmsghdr {
            msg_hdr: libc::msghdr {
                msg_name: std::ptr::null_mut(),
                msg_namelen: 0,
                msg_iov: &raw mut *part,
                msg_iovlen: 1,
                msg_control: std::ptr::null_mut(),
                msg_controllen: 0,
                msg_flags: 0,
            },
            msg_len: 0,
        })
        .collect();
    let count = size_u32(messages.len())?;
    // SAFETY: the headers, the vectors to which they point and the frames to which those point
    // outlive the call. The kernel only reads the frames, and writes only `msg_len` of the `count`
    // headers.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
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

    /// The bytes that the kernel wrote, and the zeros behind them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
