//! The arguments of `weir echo`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_net::CpuList;
use weir_wire::range::AddrRange;
use weir_wire::rss::{Fields, Key, Table};
use weir_wire::units::Rate;

use super::JsonFlag;
use super::remote::RemoteArgs;
use super::traffic::{positive, some_time};

pub(crate) const EXAMPLES: &str = "\
The server has a worker for each receive queue, and the client sends flows that reach each of them.
Five counts are kept apart: sent by the client, arrived at the server's queues, read by the server,
sent by the server, arrived at the client. docs/echo.md explains them.

Examples:
  weir echo serve --listen 10.0.0.1:7 -i eth1 --announce
  weir echo client 10.0.0.1:7 --buckets all --rate 200kpps --duration 30s";

const SERVE_HELP: &str = "\
How the kernel chooses the worker of a datagram (--steer):
  hash    by the Toeplitz hash of its flow, computed anew with the interface's key and table
  queue   by the receive queue that it came in on
  cpu     by the CPU that received it: the worker that is on it
  none    by a hash of the kernel's own, which knows of no queues

How datagrams are taken and returned (--backend):
  epoll   one system call for each that is read, and one for each that is sent
  mmsg    many with one system call; with --gro those of one flow together
  uring   io_uring: one request receives them all, and one sends each, many for each system call
  af_xdp  from memory shared with the kernel, past its network stack
  xdp     in the driver, without a worker: the bound

Examples:
  weir echo serve --listen 10.0.0.1:7 -i eth1
  weir echo serve --listen 10.0.0.1:7 -i eth1 --each bucket --steer hash --announce
  weir echo serve --listen 10.0.0.1:7 -i eth1 --backend af_xdp --cpus 2-5 --json
  weir echo serve --listen '[::]:7' --table equal:4 --steer cpu --receive-only";

const CLIENT_HELP: &str = "\
With --buckets the flows are picked so that so many of each bucket are sent; key, table and fields
are those that the server announces (`weir echo serve --announce`), or those that are given. What a
server that announces itself has counted is shown beside what the client has.

With --on, clients run on other machines, on all of them at once, and are added up; at the end the
totals of each are shown, too. --rate and --count are of all machines together;
--flows, --clients and --cpus of each. weir has to be there.

Examples:
  weir echo client 10.0.0.1:7 --buckets all --rate 200kpps --duration 30s
  weir echo client 10.0.0.1:7 --buckets 0-3 --flows 8 --clients 2 --size 510
  weir echo client 10.0.0.1:7 --source 10.0.0.2:2000-10.0.0.9:2063 --flows 512 --count 1M --json
  weir echo client 10.0.0.1:7 --buckets all --table equal:4/8 --rate 10kpps
  weir echo client 10.0.0.1:7 --on client1 --on client2 --buckets all --rate 400kpps";

const ASK_HELP: &str = "\
Asks a server that was started with --announce, over TCP at its address and port. The key is shown,
too.

Examples:
  weir echo ask 10.0.0.1:7
  weir echo ask 10.0.0.1:7 --counts
  weir echo ask 10.0.0.1:7 --json | jq .counts.buckets";

/// What `weir echo` does.
#[derive(Debug, Subcommand)]
pub(crate) enum EchoCommand {
    /// Return UDP datagrams, with a worker for each receive queue or bucket.
    #[command(after_help = SERVE_HELP)]
    Serve(Box<ServeArgs>),
    /// Send UDP datagrams, and count what comes back.
    #[command(after_help = CLIENT_HELP)]
    Client(Box<ClientArgs>),
    /// Print what a server announces: its settings, and what it has counted.
    #[command(after_help = ASK_HELP)]
    Ask(AskArgs),
}

/// How the kernel chooses a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SteerName {
    #[default]
    Hash,
    Queue,
    Cpu,
    None,
}

/// How datagrams are taken and returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum BackendName {
    #[default]
    Epoll,
    Mmsg,
    Uring,
    #[value(name = "af_xdp")]
    AfXdp,
    Xdp,
}

/// What there is a worker for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum EachName {
    #[default]
    Queue,
    Bucket,
}

/// How packets are spread, where no interface says it.
#[derive(Debug, Args)]
pub(crate) struct SpreadArgs {
    /// The indirection table: a queue for each bucket (0,1,0,2), equal:QUEUES[/SIZE] or
    /// weights:W,W,…[/SIZE].
    #[arg(long, value_name = "LIST")]
    pub(crate) table: Option<Table>,
    /// The key, 40 to 52 bytes in hexadecimal digits [default: Microsoft's].
    #[arg(long, value_name = "HEX", requires = "table")]
    pub(crate) key: Option<Key>,
    /// What is hashed: 2-tuple or 4-tuple [default: 4-tuple].
    #[arg(long, value_name = "NAME", requires = "table")]
    pub(crate) fields: Option<Fields>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port, which all workers share.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,
    /// Interface that datagrams come in by: its settings, unless --table is given, and a count of
    /// what arrives. Without it there are as many workers as CPUs, and arrivals are not counted.
    #[arg(short = 'i', value_name = "IF")]
    pub(crate) interface: Option<String>,
    #[command(flatten)]
    pub(crate) spread: SpreadArgs,
    /// What there is a worker for: each queue that the table names, or each bucket.
    #[arg(long, value_name = "NAME", default_value = "queue")]
    pub(crate) each: EachName,
    /// How the worker of a datagram is chosen: see below.
    #[arg(long, value_name = "NAME", default_value = "hash")]
    pub(crate) steer: SteerName,
    /// How datagrams are taken and returned: see below.
    #[arg(long, value_name = "NAME", default_value = "epoll")]
    pub(crate) backend: BackendName,
    /// Read and return datagrams of one flow together, as the kernel's GRO and GSO do (mmsg).
    #[arg(long)]
    pub(crate) gro: bool,
    /// Read datagrams, and return none.
    #[arg(long)]
    pub(crate) receive_only: bool,
    /// Tell whoever connects the settings, also the key, and the counts, over TCP at the same
    /// address and port.
    #[arg(long)]
    pub(crate) announce: bool,
    /// CPUs of the workers, in turn [default: those of the interface's queues, or else all].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// End after this time.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Time between two lines of output.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::interval)]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Address and port of the server.
    #[arg(value_name = "ADDR:PORT")]
    pub(crate) server: SocketAddr,
    /// Pick flows for these buckets: all, or a list such as 0-7,12.
    #[arg(long, value_name = "LIST")]
    pub(crate) buckets: Option<String>,
    /// Number of flows: of each bucket [default: 1], or without --buckets of all together
    /// [default: 16].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) flows: Option<u64>,
    /// Addresses and ports of the flows, tried in turn, ports first [default: this host's address,
    /// from port 1024 on].
    #[arg(long, value_name = "RANGE")]
    pub(crate) source: Option<AddrRange>,
    #[command(flatten)]
    pub(crate) spread: SpreadArgs,
    /// Threads, of which each sends a share of the flows.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) clients: u16,
    /// Bytes of a frame, without FCS.
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub(crate) size: u16,
    /// Rate of all clients together: max, or a number with pps or bps.
    #[arg(long, value_name = "RATE", default_value = "max")]
    pub(crate) rate: Rate,
    /// Send exactly this many datagrams, all clients together.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) count: Option<u64>,
    /// Send for this long [default: 10s, with --count without end].
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// CPUs of the clients, in turn [default: any].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Time between two lines of output.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::interval)]
    pub(crate) interval: Duration,
    /// Send from this machine, a destination for ssh(1), instead of from this one; repeated: from
    /// several at once.
    #[arg(long, value_name = "HOST")]
    pub(crate) on: Vec<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// Address and port of the server.
    #[arg(value_name = "ADDR:PORT")]
    pub(crate) server: SocketAddr,
    /// Print only what it has counted, a name and a number in a line, as `levels` of a lab's DUT.
    #[arg(long, conflicts_with = "json")]
    pub(crate) counts: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}
