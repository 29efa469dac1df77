//! Puts the programs on interfaces, without links, and takes them off.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::{Program, Xdp, XdpFlags};

use super::Firewall;
use crate::attach::{AttachError, Mode};
use crate::sys;

/// What of a firewall is on an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attachment {
    /// The mode of the ingress program; `None` if it is not there.
    pub ingress: Option<Mode>,
    /// Whether the egress program is there.
    pub egress: bool,
}

/// Why the egress program could not be attached or detached.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} the egress program at the interface with index {ifindex}: {source}")]
pub struct EgressError {
    /// "attach" or "detach".
    pub verb: &'static str,
    /// Index of the interface.
    pub ifindex: u32,
    /// What the kernel returned.
    pub source: io::Error,
}

/// Turns libbpf's error of a netlink request into the system's.
fn system_error(error: &libbpf_rs::Error) -> io::Error {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(found) = current.downcast_ref::<io::Error>()
            && let Some(code) = found.raw_os_error()
        {
            return io::Error::from_raw_os_error(code);
        }
        source = current.source();
    }
    // Where the library keeps its cause to itself, its text has the number.
    let text = error.to_string();
    let code = text.rsplit_once("os error ").and_then(|(_, rest)| {
        rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
    });
    code.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error)
}

fn index(ifindex: u32) -> io::Result<i32> {
    i32::try_from(ifindex).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

const fn flags(mode: Mode) -> XdpFlags {
    match mode {
        Mode::Native => XdpFlags::DRV_MODE,
        Mode::Generic => XdpFlags::SKB_MODE,
    }
}

/// The numbers of the XDP programs on an interface, by mode.
fn xdp_ids(ifindex: u32) -> io::Result<(u32, u32)> {
    // The query looks at the interface alone; the descriptor is one that the type wants.
    let unused = std::fs::File::open("/dev/null")?;
    let answer = Xdp::new(unused.as_fd())
        .query(index(ifindex)?, XdpFlags::NONE)
        .map_err(|error| system_error(&error))?;
    Ok((answer.drv_prog_id, answer.skb_prog_id))
}

/// Puts an XDP program where none is.
fn xdp_attach(program: BorrowedFd<'_>, ifindex: u32, mode: Mode) -> io::Result<()> {
    let flags = flags(mode) | XdpFlags::UPDATE_IF_NOEXIST;
    let attached = Xdp::new(program).attach(index(ifindex)?, flags);
    attached.map_err(|error| system_error(&error))
}

impl Firewall {
    /// Puts the ingress program on an interface of the calling thread's network namespace. It stays
    /// when the process ends. Another program there is left alone, which is an error; one of this
    /// firewall's own, in the same mode, is fine.
    ///
    /// # Errors
    /// [`AttachError`] if the driver has no XDP in that mode, or another program is there.
    pub fn attach(&self, ifindex: u32, mode: Mode) -> Result<(), AttachError> {
        let failed = |source| AttachError::new(ifindex, source);
        if self.attachment(ifindex).map_err(failed)?.ingress == Some(mode) {
            return Ok(());
        }
        xdp_attach(self.ingress.as_fd(), ifindex, mode).map_err(failed)
    }

    /// Puts the egress program on an interface of the calling thread's network namespace, before
    /// none and behind all others. It stays when the process ends; if it is there already, that is
    /// fine.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn attach_egress(&self, ifindex: u32) -> Result<(), EgressError> {
        let failed = |source| EgressError { verb: "attach", ifindex, source };
        if self.attachment(ifindex).map_err(failed)?.egress {
            return Ok(());
        }
        sys::tcx_egress_attach(self.egress.as_fd(), ifindex).map_err(failed)
    }

    /// What of this firewall is on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn attachment(&self, ifindex: u32) -> io::Result<Attachment> {
        let (native, generic) = xdp_ids(ifindex)?;
        let ingress = if native == self.ids.ingress {
            Some(Mode::Native)
        } else if generic == self.ids.ingress {
            Some(Mode::Generic)
        } else {
            None
        };
        let egress = sys::tcx_egress_query(ifindex)?.contains(&self.ids.egress);
        Ok(Attachment { ingress, egress })
    }

    /// Takes both programs of this firewall off an interface of the calling thread's network
    /// namespace, as far as they are there.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach(&self, ifindex: u32) -> io::Result<()> {
        self.detach_ingress(ifindex)?;
        self.detach_egress(ifindex)
    }

    /// Takes the ingress program alone off such an interface, if it is there: the other one stays,
    /// and is never away meanwhile.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach_ingress(&self, ifindex: u32) -> io::Result<()> {
        let Some(mode) = self.attachment(ifindex)?.ingress else { return Ok(()) };
        let detached = Xdp::new(self.ingress.as_fd()).detach(index(ifindex)?, flags(mode));
        detached.map_err(|error| system_error(&error))
    }

    /// The same of the egress program.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach_egress(&self, ifindex: u32) -> io::Result<()> {
        if self.attachment(ifindex)?.egress {
            sys::tcx_egress_detach(self.egress.as_fd(), ifindex)?;
        }
        Ok(())
    }
}

/// A handle to the XDP program on an interface of the calling thread's network namespace.
pub(super) fn xdp_program(ifindex: u32) -> io::Result<Option<(u32, OwnedFd)>> {
    let (native, generic) = xdp_ids(ifindex)?;
    let id = if native == 0 { generic } else { native };
    if id == 0 { Ok(None) } else { program(id).map(|program| Some((id, program))) }
}

/// A handle to a program by its number.
pub(super) fn program(id: u32) -> io::Result<OwnedFd> {
    Program::fd_from_id(id).map_err(|error| system_error(&error))
}

/// Takes programs off an interface of the calling thread's network namespace: those of which
/// `is_ours` says so, by the kernel's number and the name that they ought to have. Tells whether
/// any was there.
pub(super) fn remove(ifindex: u32, is_ours: &dyn Fn(u32, &str) -> bool) -> io::Result<bool> {
    let (native, generic) = xdp_ids(ifindex)?;
    let mut was_there = false;
    for (id, mode) in [(native, Mode::Native), (generic, Mode::Generic)] {
        if id != 0 && is_ours(id, super::INGRESS) {
            Xdp::new(program(id)?.as_fd())
                .detach(index(ifindex)?, flags(mode))
                .map_err(|error| system_error(&error))?;
            was_there = true;
        }
    }
    for id in sys::tcx_egress_query(ifindex)? {
        if is_ours(id, super::EGRESS) {
            sys::tcx_egress_detach(program(id)?.as_fd(), ifindex)?;
            was_there = true;
        }
    }
    Ok(was_there)
}

/// Whether an interface of the calling thread's network namespace has a program of which `is_ours`
/// says so.
pub(super) fn has(ifindex: u32, is_ours: &dyn Fn(u32, &str) -> bool) -> io::Result<bool> {
    let (native, generic) = xdp_ids(ifindex)?;
    let has_ingress = [native, generic].iter().any(|id| *id != 0 && is_ours(*id, super::INGRESS));
    let has_egress = || {
        let ids = sys::tcx_egress_query(ifindex)?;
        Ok(ids.iter().any(|id| is_ours(*id, super::EGRESS)))
    };
    if has_ingress { Ok(true) } else { has_egress() }
}
