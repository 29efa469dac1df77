//! The firewall's programs (`bpf/fw.bpf.c`) and the arena that they share with their control
//! process.
//!
//! [`Firewall::load`] loads the programs and lays out the arena; [`Firewall::attach`] puts the
//! ingress program (XDP) on an interface, [`Firewall::attach_egress`] the one that judges what
//! leaves (tcx), and [`Firewall::attach_entry`] the one that takes the ingress program's place
//! where there is no XDP; all without links, so that they stay when the process ends.
//! [`Firewall::open_exit`] puts the second stage's at an exit, once that is loaded
//! ([`Firewall::load_second_program`]). [`Firewall::adopt`] finds such programs again, and their
//! memory.
//! Everything of the calling thread's network namespace; nothing is pinned in a file system.
//!
//! [`layout`] says what stands where in the [`Arena`]. States are never changed from here:
//! [`sweep`] asks a program to.

mod adopt;
mod arena;
mod attach;
pub mod copies;
mod counted;
pub mod deferred;
mod fragments;
mod hook;
mod index;
pub mod judge;
pub mod layout;
mod limited;
mod load;
mod log;
pub mod reasons;
mod rehearsal;
pub mod restore;
pub mod sources;
mod stages;
pub mod sweep;
mod tcx;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use libbpf_rs::{MapCore as _, MapHandle};

pub use self::adopt::AdoptError;
pub use self::arena::{Arena, ArenaError};
pub use self::attach::{Attachment, Path};
pub use self::counted::{CountedKey, Counts};
pub use self::hook::TcxError;
pub use self::index::Still;
use self::layout::Regions;
pub use self::limited::LimitedSource;
pub use self::load::{FirewallError, Options};
pub use self::log::{DeferredReader, EventReader, LogReader, Overload, OverloadReader};
pub use self::rehearsal::Rehearsal;
pub use self::stages::Stages;
pub use self::tcx::Framing;
use self::tcx::Side;
use crate::sys;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fw.bpf.o"));
const OBJECT_NAME: &str = "fw";
const INGRESS: &str = "weir_fw_ingress";
const SECOND: &str = "weir_fw_second";
const SWEEP: &str = "weir_fw_sweep";
const REHEARSAL: &str = "weir_fw_rehearsal";
const DEFERRED: &str = "weir_fw_deferred";
const ARENA_MAP: &str = "weir_arena";
const EXITS_MAP: &str = "weir_exits";
const LOG_MAP: &str = "weir_log";
const OVERLOADS_MAP: &str = "weir_overloads";
const EVENTS_MAP: &str = "weir_events";
const CHANGES_MAP: &str = "weir_changes";
const DEFERRED_MAP: &str = "weir_deferred";
const SOURCES_MAP: &str = "weir_sources";
const COUNTED_MAP: &str = "weir_counted";
const FRAGMENTS_MAP: &str = "weir_fragments";
const USES_MAP: &str = "weir_uses";

/// Loaded programs and their memory. Dropping it leaves attached programs where they are.
#[derive(Debug)]
pub struct Firewall {
    ingress: OwnedFd,
    /// The kernel's number of it.
    ingress_id: u32,
    tcx: tcx::Programs,
    /// The second stage's, once an exit was opened: until then nobody needs it, and the verifier
    /// takes its time.
    second: OnceLock<OwnedFd>,
    sweep: OwnedFd,
    exits: MapHandle,
    log: MapHandle,
    overloads: MapHandle,
    events: MapHandle,
    changes: MapHandle,
    deferred: MapHandle,
    sources: MapHandle,
    counted: MapHandle,
    fragments: MapHandle,
    uses: MapHandle,
    arena: Arena,
    regions: Regions,
    moving: index::Moving,
}

/// Names of the programs that can stand on interfaces.
fn attached_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(INGRESS).chain(tcx::names())
}

/// What a program made of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// `XDP_*` of the ingress program (1 drop, 2 pass, 3 send back, 4 redirect), `TCX_*` of those
    /// on the kernel's packets (-1 next, 0 pass, 2 drop, 7 redirect).
    pub action: i32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// Mean duration of one run, ns.
    pub duration_ns: u32,
    /// The priority of a packet of the kernel's (`SO_PRIORITY` of socket(7)); 0 of other frames.
    pub priority: u32,
}

/// Room that a program may need before and behind a frame when it makes a reply.
const FRAME_ROOM_BYTES: usize = 512;

impl Verdict {
    /// What an XDP program makes of a copy of a frame that comes in by an interface of the calling
    /// thread's network namespace; each run gets what the last one made of it.
    fn of_run(
        program: BorrowedFd<'_>,
        ifindex: u32,
        frame: &[u8],
        repeat: u32,
    ) -> io::Result<Self> {
        let mut output = vec![0; frame.len() + FRAME_ROOM_BYTES];
        let (action, bytes, duration_ns) =
            sys::test_run_from(program, Some(ifindex), frame, &mut output, repeat)?;
        output.truncate(bytes);
        Ok(Self { action: action.cast_signed(), frame: output, duration_ns, priority: 0 })
    }
}

impl Firewall {
    /// The memory that programs and control process share.
    #[must_use]
    pub const fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Where things stand in it.
    #[must_use]
    pub const fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Sources, and rules that limit their number, that the table of sources has room for.
    #[must_use]
    pub fn source_count_max(&self) -> u32 {
        self.sources.max_entries()
    }

    /// Runs the ingress program once on a copy of a frame that comes in by an interface of the
    /// calling thread's network namespace; see [`Self::run_ingress_repeatedly`].
    ///
    /// # Errors
    /// What the kernel returned: `EINVAL` if the interface has no receive queues with memory for
    /// XDP (veth: until a native program is attached), or if the frame is shorter than 14 bytes.
    pub fn run_ingress(&self, ifindex: u32, frame: &[u8]) -> io::Result<Verdict> {
        self.run_ingress_repeatedly(ifindex, frame, 1)
    }

    /// Runs the ingress program `repeat` times on the calling CPU, each time on what the last run
    /// made of the frame. Redirected frames go nowhere.
    ///
    /// # Errors
    /// As [`Self::run_ingress`].
    pub(crate) fn run_ingress_repeatedly(
        &self,
        ifindex: u32,
        frame: &[u8],
        repeat: u32,
    ) -> io::Result<Verdict> {
        Verdict::of_run(self.ingress.as_fd(), ifindex, frame, repeat)
    }

    /// As [`Self::run_ingress`], on a frame before which `metadata` stands, as another program may
    /// have put it there. The verdict's frame begins with what then stands before it.
    ///
    /// # Errors
    /// As [`Self::run_ingress`]; `metadata` is a multiple of 4 bytes, and short.
    pub fn run_ingress_behind(
        &self,
        ifindex: u32,
        metadata: &[u8],
        frame: &[u8],
    ) -> io::Result<Verdict> {
        let input = [metadata, frame].concat();
        let number = |count: usize| u32::try_from(count).map_err(io::Error::other);
        let context = libbpf_sys::xdp_md {
            data: number(metadata.len())?,
            data_end: number(input.len())?,
            ingress_ifindex: ifindex,
            ..Default::default()
        };
        let mut output = vec![0; input.len() + FRAME_ROOM_BYTES];
        let program = self.ingress.as_fd();
        let (action, bytes, duration_ns) =
            sys::test_run_in(program, Some(&context), &input, &mut output, 1)?;
        output.truncate(bytes);
        Ok(Verdict { action: action.cast_signed(), frame: output, duration_ns, priority: 0 })
    }

    /// Runs the egress program once on a copy of a frame that leaves by an Ethernet interface of
    /// the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel returned.
    pub fn run_egress(&self, ifindex: u32, frame: &[u8]) -> io::Result<Verdict> {
        self.run_packet(Side::Out, ifindex, frame)
    }

    /// The same of the program that judges what comes in by an interface without XDP.
    ///
    /// # Errors
    /// What the kernel returned, also if it refuses to load the program.
    pub fn run_entry(&self, ifindex: u32, frame: &[u8]) -> io::Result<Verdict> {
        self.run_packet(Side::In, ifindex, frame)
    }

    fn run_packet(&self, side: Side, ifindex: u32, frame: &[u8]) -> io::Result<Verdict> {
        let program = self.tcx_program(side, Framing::Ethernet).map_err(io::Error::other)?;
        let mut output = vec![0; frame.len() + FRAME_ROOM_BYTES];
        let (action, bytes, priority) =
            sys::test_run_packet(program.fd.as_fd(), ifindex, frame, &mut output)?;
        output.truncate(bytes);
        Ok(Verdict { action: action.cast_signed(), frame: output, duration_ns: 0, priority })
    }
}
