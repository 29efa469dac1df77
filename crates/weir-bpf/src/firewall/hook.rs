//! Puts the programs on the kernel's packets (tcx) on interfaces, and takes them off.
//!
//! Nothing is done to programs that are somebody else's.

use std::io;
use std::os::fd::AsFd as _;

use super::tcx::{Framing, Program, Side};
use super::{AdoptError, Firewall};
use crate::sys;

/// Why a program could not be attached to an interface's traffic control, or detached.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} the tcx {side} program at the interface with index {ifindex}: {source}")]
pub struct TcxError {
    /// "attach" or "detach".
    pub verb: &'static str,
    /// "ingress" or "egress".
    pub side: &'static str,
    /// Index of the interface.
    pub ifindex: u32,
    /// What the kernel returned.
    pub source: io::Error,
}

impl Firewall {
    /// The program for a side and a framing, which is loaded if it is not.
    pub(super) fn tcx_program(&self, side: Side, framing: Framing) -> Result<Program, AdoptError> {
        let name = side.name(framing);
        let mut loaded = self.tcx.lock();
        if let Some(program) = loaded.iter().find(|program| program.name == name) {
            return Ok(program.clone());
        }
        let program = Program::new(name, self.load_late(name)?).map_err(AdoptError::Query)?;
        loaded.push(program.clone());
        Ok(program)
    }

    /// The program of this firewall on a side of an interface of the calling thread's network
    /// namespace.
    pub(super) fn tcx_attached(&self, ifindex: u32, side: Side) -> io::Result<Option<Program>> {
        let ids = sys::tcx_query(ifindex, side.is_egress())?;
        Ok(self.tcx.on(side).into_iter().find(|program| ids.contains(&program.id)))
    }

    /// Puts the program that judges what comes in on an interface of the calling thread's network
    /// namespace that has no XDP: before none and behind all others. It stays when the process
    /// ends; if it is there already, that is fine.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn attach_entry(&self, ifindex: u32, framing: Framing) -> Result<(), TcxError> {
        self.attach_tcx(ifindex, Side::In, framing)
    }

    /// The same of the program that judges what leaves.
    ///
    /// # Errors
    /// As [`Self::attach_entry`].
    pub fn attach_egress(&self, ifindex: u32, framing: Framing) -> Result<(), TcxError> {
        self.attach_tcx(ifindex, Side::Out, framing)
    }

    /// The same of the program that hands packets to sockets, behind the one that judges them.
    ///
    /// # Errors
    /// As [`Self::attach_entry`].
    pub fn attach_divert(&self, ifindex: u32, framing: Framing) -> Result<(), TcxError> {
        self.attach_tcx(ifindex, Side::Sockets, framing)
    }

    fn attach_tcx(&self, ifindex: u32, side: Side, framing: Framing) -> Result<(), TcxError> {
        let failed = |source| TcxError { verb: "attach", side: side.word(), ifindex, source };
        if self.tcx_attached(ifindex, side).map_err(failed)?.is_some() {
            return Ok(());
        }
        let program = self.tcx_program(side, framing);
        let program = program.map_err(|error| failed(io::Error::other(error.to_string())))?;
        sys::tcx_attach(program.fd.as_fd(), ifindex, side.is_egress()).map_err(failed)
    }

    /// Takes a program off a side of such an interface, if it is there.
    pub(super) fn detach_tcx(&self, ifindex: u32, side: Side) -> io::Result<()> {
        match self.tcx_attached(ifindex, side)? {
            Some(program) => sys::tcx_detach(program.fd.as_fd(), ifindex, side.is_egress()),
            None => Ok(()),
        }
    }
}
