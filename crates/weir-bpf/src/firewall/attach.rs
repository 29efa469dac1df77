//! Puts the programs on interfaces, without links, and takes them off.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::{Program, Xdp, XdpFlags};

use super::Firewall;
use super::tcx::Side;
use crate::attach::{AttachError, Mode};
use crate::sys;

/// Which program judges what comes in by an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// XDP's in the driver, which forwards what passes.
    Native,
    /// XDP's behind the driver, which forwards too.
    Generic,
    /// One on the kernel's packets (tcx), which the kernel forwards.
    Tcx,
}

impl From<Mode> for Path {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Native => Self::Native,
            Mode::Generic => Self::Generic,
        }
    }
}

/// What of a firewall is on an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Which program judges what comes in; `None` if there is none.
    pub ingress: Option<Path>,
    /// Whether there is one for what leaves.
    pub egress: bool,
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
        if self.xdp_attached(ifindex).map_err(failed)? == Some(mode) {
            return Ok(());
        }
        xdp_attach(self.ingress.as_fd(), ifindex, mode).map_err(failed)
    }

    /// The mode of this firewall's XDP program on an interface.
    fn xdp_attached(&self, ifindex: u32) -> io::Result<Option<Mode>> {
        let (native, generic) = xdp_ids(ifindex)?;
        Ok(if native == self.ingress_id {
            Some(Mode::Native)
        } else if generic == self.ingress_id {
            Some(Mode::Generic)
        } else {
            None
        })
    }

    /// What of this firewall is on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn attachment(&self, ifindex: u32) -> io::Result<Attachment> {
        let ingress = match self.xdp_attached(ifindex)? {
            Some(mode) => Some(mode.into()),
            None => self.tcx_attached(ifindex, Side::In)?.map(|_| Path::Tcx),
        };
        let egress = self.tcx_attached(ifindex, Side::Out)?.is_some();
        Ok(Attachment { ingress, egress })
    }

    /// Takes all programs of this firewall off an interface of the calling thread's network
    /// namespace, as far as they are there.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach(&self, ifindex: u32) -> io::Result<()> {
        self.detach_ingress(ifindex)?;
        self.detach_divert(ifindex)?;
        self.detach_egress(ifindex)
    }

    /// Takes what judges packets that come in off such an interface, if it is there: what judges
    /// those that leave stays, and is never away meanwhile.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach_ingress(&self, ifindex: u32) -> io::Result<()> {
        if let Some(mode) = self.xdp_attached(ifindex)? {
            let detached = Xdp::new(self.ingress.as_fd()).detach(index(ifindex)?, flags(mode));
            detached.map_err(|error| system_error(&error))?;
        }
        self.detach_tcx(ifindex, Side::In)
    }

    /// The other way round.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach_egress(&self, ifindex: u32) -> io::Result<()> {
        self.detach_tcx(ifindex, Side::Out)
    }

    /// Takes what hands packets to sockets off such an interface, if it is there.
    ///
    /// # Errors
    /// What the kernel returned: there is no such interface.
    pub fn detach_divert(&self, ifindex: u32) -> io::Result<()> {
        self.detach_tcx(ifindex, Side::Sockets)
    }
}

/// The kernel's numbers of all programs on an interface of the calling thread's network namespace
/// that may be a firewall's: XDP's and those for traffic control.
pub(super) fn program_ids(ifindex: u32) -> io::Result<Vec<u32>> {
    let (native, generic) = xdp_ids(ifindex)?;
    let mut ids: Vec<u32> = [native, generic].into_iter().filter(|id| *id != 0).collect();
    for side in [Side::In, Side::Out] {
        ids.append(&mut sys::tcx_query(ifindex, side.is_egress())?);
    }
    Ok(ids)
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
    for side in Side::ALL {
        for id in sys::tcx_query(ifindex, side.is_egress())? {
            if side.names().iter().any(|name| is_ours(id, name)) {
                sys::tcx_detach(program(id)?.as_fd(), ifindex, side.is_egress())?;
                was_there = true;
            }
        }
    }
    Ok(was_there)
}

/// Whether an interface of the calling thread's network namespace has a program of which `is_ours`
/// says so.
pub(super) fn has(ifindex: u32, is_ours: &dyn Fn(u32, &str) -> bool) -> io::Result<bool> {
    let ids = program_ids(ifindex)?;
    Ok(ids.into_iter().any(|id| super::attached_names().any(|name| is_ours(id, name))))
}
