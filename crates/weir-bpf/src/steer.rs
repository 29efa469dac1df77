//! Steers packets to one of several sockets that share an address (`SO_REUSEPORT`):
//! `bpf/steer.bpf.c`, and a few instructions of classic BPF for what only those know.
//!
//! Sockets are told apart by their *place*: a number below their count. Opening them is the
//! caller's; whoever attaches a program to one of them does so for all that share the address.
//!
//! Source: socket(7), options `SO_REUSEPORT` and `SO_ATTACH_REUSEPORT_EBPF`;
//! Documentation/networking/filter.rst for the extensions of classic BPF.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle};
use weir_wire::rss::table::TableError;
use weir_wire::rss::{Fields, Key, Settings, Symmetry, Table};

use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};
use crate::rss::{self, QueueMark};
use crate::sys::{sockets, tap};
use crate::words::rss as rss_words;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/steer.bpf.o"));
const OBJECT_NAME: &str = "steer";
const SET_MAP: &str = "weir_steer_set";

/// Why sockets cannot be steered to.
#[derive(Debug, thiserror::Error)]
pub enum SteerError {
    /// The kernel does not take the program.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The settings cannot be written.
    #[error(transparent)]
    Map(#[from] MapError),
    /// CPUs or places that are no table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A socket is none that can be steered to.
    #[error(
        "cannot make a socket number {place} of those that are steered to: {source}; it has to be \
         bound (TCP: listening) with SO_REUSEPORT"
    )]
    Socket {
        /// What it would have been.
        place: u32,
        /// What the kernel returned.
        source: libbpf_rs::Error,
    },
    /// A tap cannot be opened, or takes no program.
    #[error("cannot {step} of the tap `{name}`: {source}")]
    Tap { name: String, step: &'static str, source: io::Error },
    /// The program cannot be attached to the sockets.
    #[error("cannot attach a program to sockets that share an address: {0}")]
    Attach(io::Error),
}

/// By what a program of [`SocketSteering`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Bucket,
    Cpu,
}

/// A program that chooses among sockets, and the sockets that it knows.
#[derive(Debug)]
pub struct SocketSteering {
    program: OwnedFd,
    set: MapHandle,
    sockets: MapHandle,
}

impl SocketSteering {
    /// Loads the program that goes by a packet's bucket: the table of `settings` has a place for
    /// each. There is room for `socket_count` sockets (at least 1).
    ///
    /// # Errors
    /// [`SteerError`] without privileges or kernel support.
    pub fn by_bucket(settings: &Settings, socket_count: u32) -> Result<Self, SteerError> {
        let steering = Self::load(By::Bucket, socket_count)?;
        steering.set(settings)?;
        Ok(steering)
    }

    /// Loads the program that goes by the CPU that receives the packet: `places` has a place for
    /// each, that of CPU 0 first.
    ///
    /// # Errors
    /// [`SteerError`] without privileges or kernel support, or without a place.
    pub fn by_cpu(places: Vec<u16>, socket_count: u32) -> Result<Self, SteerError> {
        let table = Table::new(places)?;
        let steering = Self::load(By::Cpu, socket_count)?;
        // Only the table is looked at.
        let (key, symmetry) = (Key::microsoft(), Symmetry::None);
        steering.set(&Settings { key, table, symmetry, fields: [Fields::FourTuple; 4] })?;
        Ok(steering)
    }

    fn load(by: By, socket_count: u32) -> Result<Self, SteerError> {
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
            object::resize(opened, "weir_steer_sockets", socket_count)
        })?;
        let program = match by {
            By::Bucket => "weir_steer_hash",
            By::Cpu => "weir_steer_cpu",
        };
        Ok(Self {
            program: object.program(program)?,
            set: object.map(SET_MAP, rss_words::WORDS * WORD_BYTES)?,
            sockets: object.map("weir_steer_sockets", WORD_BYTES)?,
        })
    }

    /// Changes key, fields and table; packets that come meanwhile may go by parts of either.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses.
    pub fn set(&self, settings: &Settings) -> Result<(), MapError> {
        map::write(&self.set, 0, &rss::value_of_places(settings))
    }

    /// Gives a socket its place. It has to be bound, or for TCP to listen, with `SO_REUSEPORT`.
    ///
    /// # Errors
    /// [`SteerError::Socket`] if it is none that can be steered to, or the place is too high.
    pub fn add(&self, place: u32, socket: BorrowedFd<'_>) -> Result<(), SteerError> {
        let descriptor = u64::from(socket.as_raw_fd().cast_unsigned()).to_ne_bytes();
        self.sockets
            .update(&place.to_ne_bytes(), &descriptor, MapFlags::ANY)
            .map_err(|source| SteerError::Socket { place, source })
    }

    /// Steers to the sockets that share the address of `socket`. The kernel keeps the program as
    /// long as one of them is open.
    ///
    /// # Errors
    /// [`SteerError::Attach`] if the kernel refuses.
    pub fn attach(&self, socket: BorrowedFd<'_>) -> Result<(), SteerError> {
        sockets::attach_reuseport(socket, self.program.as_fd()).map_err(SteerError::Attach)
    }
}

/// A tap with several queues (`IFF_MULTI_QUEUE`), of which what the kernel sends by it is read as a
/// card with receive side scaling would spread it.
///
/// Source: Documentation/networking/tuntap.rst, "Multiqueue tuntap interface"; the ioctl
/// `TUNSETSTEERINGEBPF`.
#[derive(Debug)]
pub struct TapSteering {
    set: MapHandle,
}

impl TapSteering {
    /// Opens a queue of a tap of the calling thread's network namespace, and makes the tap with
    /// the first. Frames are read and written whole, without a header of their own.
    ///
    /// # Errors
    /// [`SteerError::Tap`] without `CAP_NET_ADMIN`, or if the name is that of something else.
    pub fn open_queue(name: &str) -> Result<File, SteerError> {
        let opened = tap::open_queue(name).map(File::from);
        opened.map_err(|source| tap_error(name, "open a queue", source))
    }

    /// Loads the program, and gives it to the tap that a queue is of. The tap keeps it.
    ///
    /// # Errors
    /// [`SteerError`] without privileges or kernel support.
    pub fn attach(name: &str, queue: &File, settings: &Settings) -> Result<Self, SteerError> {
        let object = Loaded::load_prepared(OBJECT_NAME, OBJECT, |_| Ok(()))?;
        let steering = Self { set: object.map(SET_MAP, rss_words::WORDS * WORD_BYTES)? };
        steering.set(settings)?;
        let program = object.program("weir_steer_tap")?;
        tap::attach_steering(queue.as_fd(), program.as_fd())
            .map_err(|source| tap_error(name, "choose the queue", source))?;
        Ok(steering)
    }

    /// Changes key, fields and table; packets that come meanwhile may go by parts of either.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses.
    pub fn set(&self, settings: &Settings) -> Result<(), MapError> {
        map::write(&self.set, 0, &rss::value_of_places(settings))
    }
}

fn tap_error(name: &str, step: &'static str, source: io::Error) -> SteerError {
    SteerError::Tap { name: name.to_owned(), step, source }
}

/// Steers to the sockets that share the address of `socket` by the receive queue of a packet,
/// modulo `socket_count`: places are given in the order in which sockets are bound, or for TCP
/// begin to listen. It needs no privileges.
///
/// # Errors
/// [`SteerError::Attach`] if the kernel refuses.
pub fn attach_by_queue(
    socket: BorrowedFd<'_>,
    socket_count: u32,
    mark: QueueMark,
) -> Result<(), SteerError> {
    let above = match mark {
        QueueMark::Number => 0,
        QueueMark::NumberAndOne => 1,
    };
    sockets::attach_reuseport_by_queue(socket, socket_count.max(1), above)
        .map_err(SteerError::Attach)
}
