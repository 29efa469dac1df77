//! Why a generator could not be set up, or a run failed; one list for all backends.
//!
//! It never holds losses: those are counted, not failed.

use std::io;
use std::path::PathBuf;

use weir_bpf::attach::AttachError;
use weir_bpf::generator::{ConfigError, FrameError, GeneratorLoadError};
use weir_bpf::map::MapError;
use weir_net::NetlinkError;
use weir_net::private::PrivateNetnsError;

use weir_wire::traffic::StreamError;

/// Why a generator could not be set up, or a run failed.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// The traffic cannot be sent.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The generator program could not be loaded.
    #[error(transparent)]
    Load(#[from] GeneratorLoadError),
    /// The program could not be attached to the parking interface.
    #[error("cannot keep the generator ready: {0}")]
    Park(#[from] AttachError),
    /// The parking interface could not be made.
    #[error("cannot keep the generator ready: {0}")]
    ParkNetns(#[from] PrivateNetnsError),
    /// The parking interface could not be made.
    #[error("cannot keep the generator ready: {0}")]
    ParkLink(#[from] NetlinkError),
    /// The output interface was refused.
    #[error(
        "cannot send to the interface with index {ifindex}: {source}; it must exist in this \
         network namespace, and its driver must transmit XDP frames"
    )]
    Output {
        /// Index of the interface.
        ifindex: u32,
        /// What the kernel returned.
        source: MapError,
    },
    /// A thread was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A single frame could not be made.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Counters could not be read.
    #[error(transparent)]
    Map(#[from] MapError),
    /// No CPU, one of them twice, or more than a signature can number.
    #[error(
        "a generator runs on 1 to 256 different CPUs, one thread on each, but was given {count} \
         CPUs ({cpus})"
    )]
    Cpus {
        /// How many were given.
        count: usize,
        /// The list.
        cpus: String,
    },
    /// A thread could not be started or pinned.
    #[error("cannot run a thread on CPU {cpu}: {source}; is it online and allowed here?")]
    Thread {
        /// Number of the CPU.
        cpu: u32,
        /// What the system returned.
        source: io::Error,
    },
    /// The rise of the rate needs a rate to rise to.
    #[error(
        "a ramp needs a rate to rise to, but the rate is `max`: give one, or leave the ramp out"
    )]
    RampWithoutRate,
    /// A run was started while another one was going on, or stopped while none was.
    #[error("the generator is {0}")]
    State(&'static str),
    /// The kernel ended a run.
    #[error("sending live frames failed: {0}; `weir doctor` says whether the kernel supports them")]
    Run(io::Error),
    /// The program could not hand packets over.
    #[error(
        "{0} packets were not sent, because their output interface is gone or was never connected"
    )]
    Refused(u64),
    /// The packet socket could not be opened.
    #[error(
        "cannot open a packet socket on the interface with index {ifindex}: {source}; it needs \
         root or CAP_NET_RAW, and the interface in this network namespace"
    )]
    Socket {
        /// Index of the interface.
        ifindex: u32,
        /// What the system returned.
        source: io::Error,
    },
    /// The interface to which a packet socket sends cannot be looked at.
    #[error("cannot inspect the interface with index {ifindex}: {source}")]
    Interface {
        /// Index of the interface.
        ifindex: u32,
        /// What the system returned.
        source: NetlinkError,
    },
    /// A frame does not fit the interface or the ring.
    #[error(
        "frames of {size_bytes} bytes cannot be sent through a packet socket on the interface with \
         index {ifindex}: it takes at most {size_bytes_max} bytes, without FCS"
    )]
    FrameSize {
        /// Index of the interface.
        ifindex: u32,
        /// The largest frame.
        size_bytes: usize,
        /// What would be taken.
        size_bytes_max: usize,
    },
    /// The packet socket failed.
    #[error("sending through a packet socket failed: {0}")]
    Send(io::Error),
    /// The kernel refused a frame.
    #[error("the packet socket refused a frame of {size_bytes} bytes: {source}")]
    SendFrame {
        size_bytes: usize,
        /// What the system returned.
        source: io::Error,
    },
    /// Recorded times and a rate exclude each other.
    #[error("packets are sent at their recorded times or at a rate, not both")]
    RecordedWithRate,
    /// The clock of the stamps could not be read.
    #[error("cannot read the monotonic clock: {0}")]
    Clock(io::Error),
    /// A capture file would have no end.
    #[error("a capture file needs an end: give a number of packets")]
    Endless,
    /// The capture file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system returned.
        source: io::Error,
    },
    /// A sending thread panicked.
    #[error("a thread of the generator ended abnormally")]
    Panicked,
}
