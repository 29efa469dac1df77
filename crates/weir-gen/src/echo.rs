//! Datagrams that are echoed: a [`server`] with a worker for each receive queue or bucket, a
//! [`client`] that counts what comes back, and the [`report`] that the one gives the other.
//!
//! Five counts are kept apart, so that a datagram that is missing is missing between two of them:
//! sent by the client, arrived at the server's queues, read by the server, sent by the server,
//! arrived at the client.

use std::io;

use weir_bpf::echo::EchoAttachError;
use weir_bpf::ethtool::EthtoolError;
use weir_bpf::map::MapError;
use weir_bpf::object::LoadError;
use weir_bpf::rss::RssError;
use weir_net::cpu::CpuError;
use weir_net::netlink::NetlinkError;
use weir_rss::GroupError;
use weir_rss::card::CardError;

pub mod client;
pub mod report;
pub mod server;

/// How the server takes and returns datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// One system call for each that is read, and one for each that is sent.
    Epoll,
    /// Many with one system call.
    Mmsg,
    /// Requests in memory shared with the kernel, many for each system call.
    Uring,
    /// From memory shared with the kernel, past its network stack.
    AfXdp,
    /// In the driver: the bound of what a server can do.
    Xdp,
}

impl Backend {
    /// Whether datagrams go past the network stack.
    #[must_use]
    pub const fn is_xdp(self) -> bool {
        matches!(self, Self::AfXdp | Self::Xdp)
    }
}

/// Why datagrams are not sent, or not echoed.
#[derive(Debug, thiserror::Error)]
pub enum EchoError {
    /// The server's sockets.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The interface's settings.
    #[error(transparent)]
    Card(#[from] CardError),
    /// The program that counts.
    #[error(transparent)]
    Program(#[from] RssError),
    /// What it has counted cannot be read.
    #[error(transparent)]
    Counters(#[from] MapError),
    /// It cannot be put at the interface.
    #[error(transparent)]
    Attach(#[from] EchoAttachError),
    /// The sockets that it hands frames to.
    #[error(transparent)]
    Hand(#[from] LoadError),
    /// The interface.
    #[error(transparent)]
    Link(#[from] NetlinkError),
    /// Who drives the interface cannot be read.
    #[error(transparent)]
    Driver(#[from] EthtoolError),
    /// A backend that works at an interface has none.
    #[error("past the network stack, datagrams are taken from an interface: name it")]
    NoInterface,
    /// A queue of the interface gives no socket.
    #[error(
        "cannot open an AF_XDP socket at queue {queue} of `{interface}`: {source}; {}",
        queue_hint(interface, source)
    )]
    Queue { interface: String, queue: usize, source: io::Error },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// A thread cannot be put on its CPU.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// A worker's socket.
    #[error("worker {worker} cannot go on: {source}")]
    Worker { worker: usize, source: io::Error },
    /// The client's threads or sockets.
    #[error("the client cannot go on: {0}")]
    Client(io::Error),
    /// A client's socket.
    #[error("cannot send from {address}: {source}{}", hint(source))]
    Socket { address: std::net::SocketAddr, source: io::Error },
}

fn queue_hint(interface: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(nix::libc::EBUSY) => {
            "another program has a socket there (`ss --xdp`): end it".to_owned()
        }
        Some(nix::libc::EOPNOTSUPP) => {
            format!("the driver of `{interface}` has no AF_XDP: take datagrams from sockets")
        }
        Some(nix::libc::EPERM) => "it takes CAP_NET_RAW: run it as root".to_owned(),
        _ => format!("`ethtool -l {interface}` shows its queues"),
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(nix::libc::EMFILE) => {
            "; every flow takes an open file: raise the limit with `ulimit -n`, or use fewer flows"
        }
        Some(nix::libc::EADDRNOTAVAIL) => {
            "; the address is not one of this host's: `ip addr add ADDR dev IF`, or for a whole \
             range `ip route add local PREFIX dev lo`"
        }
        Some(nix::libc::ENETUNREACH) => "; there is no route to the server: see `ip route get`",
        _ => "",
    }
}
