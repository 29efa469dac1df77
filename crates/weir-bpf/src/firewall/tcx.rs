//! The programs on the kernel's packets (tcx): one for each side of an interface, one that hands
//! packets to sockets, and of each one for what packets begin with.
//!
//! That for what leaves an Ethernet interface is loaded with the firewall, because nearly every
//! firewall needs it; each of the others with the first interface that does, because the verifier
//! takes its time.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sys;

/// What the packets of an interface begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// An Ethernet header.
    Ethernet,
    /// The IP header: tun, WireGuard, PPP, tunnels.
    Bare,
}

/// A side of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// What comes in.
    In,
    /// What leaves.
    Out,
    /// What comes in and was judged, and may be for a socket of `divert-to`, or have changed its
    /// family by `af-to`.
    Sockets,
}

/// The program that is loaded with the firewall.
pub(super) const EGRESS: &str = "weir_fw_egress";
const ENTRY: &str = "weir_fw_entry";
const ENTRY_BARE: &str = "weir_fw_entry3";
const EGRESS_BARE: &str = "weir_fw_egress3";
const DIVERT: &str = "weir_fw_divert";
const DIVERT_BARE: &str = "weir_fw_divert3";

/// Names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    Side::ALL.into_iter().flat_map(Side::names)
}

/// Those that are loaded when an interface needs them.
pub(super) const LATE: [&str; 5] = [ENTRY, ENTRY_BARE, EGRESS_BARE, DIVERT, DIVERT_BARE];

impl Side {
    pub(super) const ALL: [Self; 3] = [Self::In, Self::Out, Self::Sockets];

    /// Names of the programs on this side.
    pub(super) const fn names(self) -> [&'static str; 2] {
        match self {
            Self::In => [ENTRY, ENTRY_BARE],
            Self::Out => [EGRESS, EGRESS_BARE],
            Self::Sockets => [DIVERT, DIVERT_BARE],
        }
    }

    pub(super) const fn name(self, framing: Framing) -> &'static str {
        let [ethernet, bare] = self.names();
        match framing {
            Framing::Ethernet => ethernet,
            Framing::Bare => bare,
        }
    }

    pub(super) const fn is_egress(self) -> bool {
        matches!(self, Self::Out)
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::In | Self::Sockets => "ingress",
            Self::Out => "egress",
        }
    }
}

/// One that is loaded.
#[derive(Debug, Clone)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// The kernel's number.
    pub(super) id: u32,
    pub(super) fd: Arc<OwnedFd>,
}

/// Those that are loaded.
#[derive(Debug, Default)]
pub(super) struct Programs(Mutex<Vec<Program>>);

impl Programs {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Program>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in, by its name.
    pub(super) fn add(&self, name: &'static str, fd: OwnedFd) -> io::Result<()> {
        let program = Program::new(name, fd)?;
        self.lock().push(program);
        Ok(())
    }

    /// Those for a side.
    pub(super) fn on(&self, side: Side) -> Vec<Program> {
        let is_on = |program: &&Program| side.names().contains(&program.name);
        self.lock().iter().filter(is_on).cloned().collect()
    }
}

impl Program {
    pub(super) fn new(name: &'static str, fd: OwnedFd) -> io::Result<Self> {
        let id = sys::program_id(fd.as_fd())?;
        Ok(Self { name, id, fd: Arc::new(fd) })
    }
}
