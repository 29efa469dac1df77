//! The arguments of `weir rss`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_wire::range::AddrRange;
use weir_wire::rss::{Fields, Key, Symmetry, Table};
use weir_wire::units::parse_count;

use super::JsonFlag;

mod interfaces;

use interfaces::{
    BALANCE_HELP, DOCTOR_HELP, PROBE_HELP, SEND_HELP, SET_HELP, SHOW_HELP, UNDO_HELP,
};
pub(crate) use interfaces::{
    BalanceArgs, FieldChoices, KeyChoice, ProbeArgs, SendArgs, SentFlows, SetArgs, ShowArgs,
};

pub(crate) const EXAMPLES: &str = "\
A card hashes the fields of a packet that name its flow with its key (Toeplitz). The hash modulo the
size of the indirection table is the packet's bucket, whose entry is the receive queue. docs/rss.md
explains it in a page.

Examples:
  weir rss hash --src 66.9.149.187:2794 --dst 161.142.100.80:1766
  weir rss predict -i eth1 --src 198.18.10.1:2000-198.18.10.70 --dst 198.19.10.1:2000-198.19.10.70
  weir rss pick --table equal:8 --buckets all --client 10.0.0.1-10.0.0.9 --server 10.0.1.1:7
  weir rss key --buckets 512               a random key that is weak for no field
  weir rss doctor eth1                     why do flows concentrate here?
  weir rss set eth1 --table equal:8 && weir rss probe eth1 --from peer:eth2 --src … --dst …";

const HASH_HELP: &str = "\
One line for each flow: source, destination, and the hash in eight hexadecimal digits.

Examples:
  weir rss hash --src 66.9.149.187:2794 --dst 161.142.100.80:1766
  weir rss hash --src 10.0.0.1-10.0.0.9 --dst 10.0.1.1 --fields 2-tuple
  weir rss hash -i eth1 --proto tcp --src 10.0.0.1:1024-10.0.0.1:1033 --dst 10.0.1.1:80 --json";

const PREDICT_HELP: &str = "\
Counts the flows of each queue and bucket, and says how much more than the mean the busiest one
has: a queue with twice the mean halves what the others are worth. With -i, queues that the same
CPUs work on are added up, if the interface shows its interrupts or NAPI threads. It is a prediction
from what the interface says of itself.

Examples:
  weir rss predict -i eth1 --src 198.18.10.1:2000-198.18.10.70 --dst 198.19.10.1:2000-198.19.10.70
  weir rss predict --table equal:8 --fields 2-tuple --src 10.0.0.1-10.0.3.254 --dst 10.1.0.1
  weir rss predict --table weights:1,0,0,3 --key $(weir rss key) --src … --dst … --json";

const PICK_HELP: &str = "\
One line for each flow that was found: bucket, queue, source, destination, hash. With --answer-queue
only flows whose answers, source and destination exchanged, land on that queue of the client's own
interface. Exit code 1 if a bucket has fewer flows than asked for.

Examples:
  weir rss pick --table equal:8 --buckets all --client 10.0.0.1:1024-10.0.0.1:65535 \\
      --server 10.0.1.1:7
  weir rss pick -i eth1 --buckets 0-7 --flows 4 --client 10.0.0.1-10.0.0.99 --server 10.0.1.1:7
  weir rss pick --table equal:2 --buckets all --client 198.18.10.1:2000-198.18.10.9:2100 \\
      --server 198.19.10.1:2000 --stream picked.toml && weir gen -i eth1 --stream picked.toml";

const KEY_HELP: &str = "\
Without KEY a random one is drawn that is weak for no field. A key is weak for a field if 256 flows
that differ in the last byte of that field alone cannot reach all buckets that so many flows can: of
random keys more than half are, for some field. With KEY, that key is looked at; exit code 1 if it
is weak.

Examples:
  weir rss key
  weir rss key --bytes 52 --buckets 512
  weir rss key 6d:5a:6d:5a:…                is this one weak?";

/// What `weir rss` does.
#[derive(Debug, Subcommand)]
pub(crate) enum RssCommand {
    /// Print the hash of flows.
    #[command(after_help = HASH_HELP)]
    Hash(FlowsArgs),
    /// Say how flows spread over buckets, queues and CPUs.
    #[command(after_help = PREDICT_HELP)]
    Predict(FlowsArgs),
    /// Find flows that reach given buckets.
    #[command(after_help = PICK_HELP)]
    Pick(PickArgs),
    /// Draw a key, or look for the weaknesses of one.
    #[command(after_help = KEY_HELP)]
    Key(KeyArgs),
    /// Show what an interface is set to, and where its queues are worked on.
    #[command(after_help = SHOW_HELP)]
    Show(ShowArgs),
    /// Say why flows concentrate on few CPUs, and what mends it.
    #[command(after_help = DOCTOR_HELP)]
    Doctor(ShowArgs),
    /// Send flows, and look on which queues they arrive.
    #[command(after_help = PROBE_HELP)]
    Probe(Box<ProbeArgs>),
    /// Send the flows that a probe on another machine looks for.
    #[command(after_help = SEND_HELP)]
    Send(SendArgs),
    /// Set key, table and fields of an interface, all or nothing.
    #[command(after_help = SET_HELP)]
    Set(SetArgs),
    /// Move buckets from busy queues to idle ones, again and again.
    #[command(after_help = BALANCE_HELP)]
    Balance(BalanceArgs),
    /// Put back what was there before the first change.
    #[command(after_help = UNDO_HELP)]
    Undo(ShowArgs),
}

/// How packets are spread: an interface's settings, or written ones.
#[derive(Debug, Args)]
pub(crate) struct SteeringArgs {
    /// Take key, table and fields from this interface, in this network namespace.
    #[arg(
        short = 'i',
        value_name = "IF",
        conflicts_with_all = ["key", "table", "fields", "symmetry"]
    )]
    pub(crate) interface: Option<String>,
    /// Which of the interface's settings of fields: udp or tcp [default: udp].
    #[arg(long, value_name = "NAME", requires = "interface")]
    pub(crate) proto: Option<Protocol>,
    /// The key, 40 to 52 bytes in hexadecimal digits [default: Microsoft's, which many drivers
    /// use].
    #[arg(long, value_name = "HEX")]
    pub(crate) key: Option<Key>,
    /// The indirection table: a queue for each bucket (0,1,0,2), equal:QUEUES[/SIZE] (queues in
    /// turn, as drivers begin with) or weights:W,W,…[/SIZE] (as ethtool -X weight); 128 buckets if
    /// no size is given.
    #[arg(long, value_name = "LIST")]
    pub(crate) table: Option<Table>,
    /// What is hashed: 2-tuple (addresses) or 4-tuple (addresses and ports) [default: 4-tuple].
    #[arg(long, value_name = "NAME")]
    pub(crate) fields: Option<Fields>,
    /// What is done to the fields before: none, symmetric-xor or symmetric-or-xor [default: none].
    #[arg(long, value_name = "NAME")]
    pub(crate) symmetry: Option<Symmetry>,
}

impl SteeringArgs {
    /// Whether buckets and queues are known, and not only hashes.
    pub(crate) fn has_table(&self) -> bool {
        self.interface.is_some() || self.table.is_some()
    }
}

/// A protocol whose fields cards set apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Protocol {
    #[default]
    Udp,
    Tcp,
}

impl Protocol {
    /// As it is written.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// The flows that are looked at, and how they are spread.
#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    /// Source addresses and ports: `ADDR[:PORT][-ADDR[:PORT]]`, for IPv6 `[ADDR]:PORT[-[ADDR]]`
    /// (port 1234 if none is given).
    #[arg(long, value_name = "RANGE")]
    pub(crate) src: AddrRange,
    /// Destination addresses and ports, in the same form.
    #[arg(long, value_name = "RANGE")]
    pub(crate) dst: AddrRange,
    #[command(flatten)]
    pub(crate) steering: SteeringArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct PickArgs {
    /// Buckets to reach: all, or a list such as 0-7,12.
    #[arg(long, value_name = "LIST")]
    pub(crate) buckets: String,
    /// Addresses and ports of the client, which are tried in turn, ports first.
    #[arg(long, value_name = "RANGE")]
    pub(crate) client: AddrRange,
    /// Address and port of the server.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) server: AddrRange,
    /// How many flows for each bucket.
    #[arg(long, value_name = "N", default_value = "1", value_parser = flows)]
    pub(crate) flows: usize,
    /// Only flows whose answers land on this queue of the client's interface.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) answer_queue: Option<u16>,
    /// The table of the client's interface [default: that of the server's].
    #[arg(long, value_name = "LIST", requires = "answer_queue")]
    pub(crate) answer_table: Option<Table>,
    /// The key of the client's interface [default: that of the server's].
    #[arg(long, value_name = "HEX", requires = "answer_queue")]
    pub(crate) answer_key: Option<Key>,
    /// Write the flows to this file too, as streams for `weir gen --stream` (256 at most).
    #[arg(long, value_name = "FILE")]
    pub(crate) stream: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) steering: SteeringArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// A key to look at, in hexadecimal digits.
    #[arg(value_name = "KEY")]
    pub(crate) key: Option<Key>,
    /// Bytes of the key to draw, 40 to 52.
    #[arg(long, value_name = "N", default_value_t = 40, conflicts_with = "key")]
    pub(crate) bytes: usize,
    /// Entries of the indirection table that the key is for.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) buckets: usize,
    /// Draw the key that belongs to this number, instead of another one each time.
    #[arg(long, value_name = "N", conflicts_with = "key")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

fn flows(text: &str) -> Result<usize, String> {
    match parse_count(text).map(usize::try_from) {
        Ok(Ok(count @ 1..)) => Ok(count),
        Ok(_) => Err("it must be at least 1".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
