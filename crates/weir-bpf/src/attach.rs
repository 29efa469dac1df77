//! Attaches XDP programs to interfaces in native mode, with links.
//!
//! A link detaches its program when it is dropped, also when the process is killed. Generic XDP is
//! never used: it is slow, and one generic program anywhere makes the kernel test every packet of
//! every interface, which a measurement would see.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use libbpf_sys::XDP_FLAGS_DRV_MODE;

use crate::sys;

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

/// Attaches a program in native mode to an interface of the calling thread's network namespace.
pub(crate) fn native(program: BorrowedFd<'_>, ifindex: u32) -> Result<Link, AttachError> {
    match sys::xdp_link_create(program, ifindex, XDP_FLAGS_DRV_MODE) {
        Ok(fd) => Ok(Link { ifindex, _fd: fd }),
        Err(source) => {
            let hint = hint(&source);
            Err(AttachError { ifindex, source, hint })
        }
    }
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
            "; its driver has no native XDP, or not with its present MTU and queues"
        }
        Some(libc::ERANGE) => "; its MTU is too large for XDP: lower it to 3,400 bytes",
        _ => "",
    }
}
