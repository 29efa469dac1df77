//! Attaches XDP programs to interfaces with links, and says which one is attached already.
//!
//! A link detaches its program when it is dropped, also when the process is killed. Generic XDP is
//! used only where the caller asks for it: it is slow, and one generic program anywhere makes the
//! kernel test every packet of every interface, which a measurement would see.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Xdp, XdpFlags};
use libbpf_sys::{XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE};

use crate::sys;

/// Where in a packet's way a program runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel has made a packet of the frame.
    #[default]
    Native,
    /// In the network stack, behind any driver, and several times slower.
    Generic,
}

/// A program attached to an interface; dropping it detaches the program.
#[derive(Debug)]
pub struct Link {
    ifindex: u32,
    _fd: OwnedFd,
}

impl Link {
    /// Index of the interface in the namespace in which the program was attached.
    #[must_use]
    pub const fn ifindex(&self) -> u32 {
        self.ifindex
    }
}

/// Why a program could not be attached.
#[derive(Debug, thiserror::Error)]
#[error("cannot attach an XDP program to the interface with index {ifindex}: {source}{hint}")]
pub struct AttachError {
    /// Index of the interface.
    pub ifindex: u32,
    /// What the kernel returned.
    pub source: io::Error,
    hint: &'static str,
}

/// Attaches a program in native mode to an interface of the calling thread's network namespace,
/// until the link is dropped.
///
/// # Errors
/// [`AttachError`] if the interface has no native XDP or has a program already.
pub fn native(program: BorrowedFd<'_>, ifindex: u32) -> Result<Link, AttachError> {
    in_mode(program, ifindex, Mode::Native)
}

/// Attaches a program to an interface of the calling thread's network namespace.
pub(crate) fn in_mode(
    program: BorrowedFd<'_>,
    ifindex: u32,
    mode: Mode,
) -> Result<Link, AttachError> {
    let flags = match mode {
        Mode::Native => XDP_FLAGS_DRV_MODE,
        Mode::Generic => XDP_FLAGS_SKB_MODE,
    };
    match sys::xdp_link_create(program, ifindex, flags) {
        Ok(fd) => Ok(Link { ifindex, _fd: fd }),
        Err(source) => Err(AttachError::new(ifindex, source)),
    }
}

impl AttachError {
    pub(crate) fn new(ifindex: u32, source: io::Error) -> Self {
        let hint = hint(&source);
        Self { ifindex, source, hint }
    }

    /// True if the driver does not take a program in this mode.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        matches!(self.source.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL))
    }

    /// True if frames of the interface's MTU are too long for XDP.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.source.raw_os_error() == Some(libc::ERANGE)
    }

    /// True if privileges are what is missing.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

/// A program that is attached to an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The kernel's number of the program.
    pub id: u32,
    /// Its name, cut to 15 bytes by the kernel; empty if it has none, or may not be asked for.
    pub name: String,
}

/// The XDP program that is attached to an interface of the calling thread's network namespace, if
/// there is one, whatever its mode.
///
/// # Errors
/// What the kernel returned: there is no such interface.
pub fn attached(ifindex: u32) -> io::Result<Option<Attached>> {
    let index = i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // The query looks at the interface alone; the descriptor is one that the type wants.
    let unused = std::fs::File::open("/dev/null")?;
    let id = Xdp::new(unused.as_fd())
        .query_id(index, XdpFlags::NONE)
        .map_err(|error| io::Error::other(error.to_string()))?;
    if id == 0 {
        return Ok(None);
    }
    let name = ProgInfoIter::default().find(|program| program.id == id);
    let name = name.map(|program| program.name.to_string_lossy().into_owned());
    Ok(Some(Attached { id, name: name.unwrap_or_default() }))
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => "; run as root, or with CAP_BPF and CAP_NET_ADMIN",
        Some(libc::ENODEV) => "; there is no such interface in this network namespace",
        Some(libc::EBUSY | libc::EEXIST) => {
            "; another XDP program is attached there: `ip link show` names it, \
             `ip link set dev IF xdp off` removes it"
        }
        Some(libc::EOPNOTSUPP | libc::EINVAL) => {
            "; its driver has no native XDP, or not with its current MTU and queues"
        }
        Some(libc::ERANGE) => "; its MTU is too large for XDP: lower it to 3,400 bytes",
        _ => "",
    }
}
