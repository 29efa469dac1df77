//! The arguments of what looks at an interface, sends to it or changes it.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::rss::table::Shape;
use weir_wire::rss::{Fields, FlowKind, Key};
use weir_wire::units::{Rate, parse_count, parse_duration};

use super::Protocol;
use crate::cli::JsonFlag;
use crate::cli::remote::RemoteArgs;

pub(crate) const SHOW_HELP: &str = "\
Hash function, key, table, fields of each kind of flow; and for each receive queue its buckets, its
interrupt, its NAPI thread, the CPUs of both, and receive packet steering. Nothing is changed.

Examples:
  weir rss show eth1
  weir rss show eth1 --json | jq -r .rss.key";

pub(crate) const DOCTOR_HELP: &str = "\
Looks for what keeps flows from spreading over CPUs: UDP hashed by its addresses alone, a table over
fewer queues than there are, a weak key, several queues on a CPU, receive packet steering on top,
irqbalance, fragments. Each finding has the command that mends it. Exit code 1 if there is one.

Examples:
  weir rss doctor eth1
  weir rss doctor eth1 --json | jq -r '.findings[].command'";

pub(crate) const PROBE_HELP: &str = "\
Sends a packet of each flow from an interface of another network namespace of this host, or of
another machine by ssh(1), which is where the other end of the cable (or of the veth pair) has to
be, and looks on which queue of IF it arrives. What IF says is compared with what it does. The
packets end there: nothing else sees them. Exit code 1 if a flow is lost, or on another queue than
predicted. On the other machine, `weir rss send` is started, as root.

With --learn nothing has to be known of the hash: flows are sorted by the queue they were seen on.

Examples:
  weir rss probe eth1 --from peer:eth2 --src 198.18.10.1:2000-198.18.10.9:2099 --dst 198.19.10.1:53
  weir rss probe eth1 --from root@generator:eth2 --src 10.0.0.1:1024-10.0.0.9:1073 \\
      --dst 10.0.1.1:80 --proto tcp --json
  weir rss probe eth1 --from peer:eth2 --learn --stream even.toml --src … --dst …";

pub(crate) const SEND_HELP: &str = "\
Sends a packet of each flow, through the interface's queueing discipline, with the signature that
`weir rss probe` looks for on the machine at the other end of the cable. `weir rss probe --from
HOST:IF` starts it.

Examples:
  weir rss send eth2 --dst-mac 02:00:00:00:00:01 --src 10.0.0.1:1024-10.0.0.9:1073 \\
      --dst 10.0.1.1:7";

pub(crate) const SET_HELP: &str = "\
All of it or nothing: what the interface cannot have is refused beforehand, and if a step fails,
what was set before it is put back. The former settings are on disk (/run/weir/rss) before the first
change, and `weir rss undo` puts them back, also after a crash. What the interface shows afterwards
is compared with what it was told; whether it does it, `weir rss probe` tells.

Examples:
  weir rss set eth1 --key random           a key that is weak for no field
  weir rss set eth1 --table equal:8
  weir rss set eth1 --table weights:1,0,0,3
  weir rss set eth1 --fields udp4=4-tuple,udp6=4-tuple";

pub(crate) const BALANCE_HELP: &str = "\
Counts the packets of each bucket where they come in, and after each interval moves buckets from the
busiest queues to the idlest: only as many as are needed. A bucket that is alone too heavy stays.
Runs until it is stopped; what it has set stays until `weir rss undo`.

Examples:
  weir rss balance eth1 --every 10s
  weir rss balance eth1 --every 1s --moves 4 --ratio 1.2 --count 60 --json";

pub(crate) const UNDO_HELP: &str = "\
Puts back what `weir rss set` and `weir rss balance` found before their first change, also after a
crash. Exit code 1 if nothing is on record.

Examples:
  weir rss undo eth1";

/// An interface to look at.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The interface, in this network namespace.
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The interface that is to receive, in this network namespace.
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// Where packets leave: a network namespace of this host and an interface in it, or, if there
    /// is none of that name, a destination for ssh(1) and an interface of that machine.
    #[arg(long, value_name = "NETNS:IF|HOST:IF")]
    pub(crate) from: From,
    #[command(flatten)]
    pub(crate) sent: SentFlows,
    /// Sort flows by where they are seen; the interface need not show its hash.
    #[arg(long)]
    pub(crate) learn: bool,
    /// Write as many flows for each queue that was seen to this file, as streams for `weir gen
    /// --stream` (256 at most).
    #[arg(long, value_name = "FILE")]
    pub(crate) stream: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What a probe sends.
#[derive(Debug, Args)]
pub(crate) struct SentFlows {
    /// Source addresses and ports, as of `weir rss hash`.
    #[arg(long, value_name = "RANGE")]
    pub(crate) src: AddrRange,
    /// Destination addresses and ports.
    #[arg(long, value_name = "RANGE")]
    pub(crate) dst: AddrRange,
    /// What the packets are: udp or tcp.
    #[arg(long, value_name = "NAME", default_value = "udp")]
    pub(crate) proto: Protocol,
    /// Flows to send, from the first of the ranges on.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = probed_flows)]
    pub(crate) flows: u32,
    /// Packets per second.
    #[arg(long, value_name = "RATE", default_value = "20kpps")]
    pub(crate) rate: Rate,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The interface that packets leave by, in this network namespace.
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// MAC address of the interface that is probed.
    #[arg(long, value_name = "MAC")]
    pub(crate) dst_mac: MacAddr,
    #[command(flatten)]
    pub(crate) sent: SentFlows,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The interface, in this network namespace.
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// The key, in hexadecimal digits, or random.
    #[arg(long, value_name = "HEX")]
    pub(crate) key: Option<KeyChoice>,
    /// The indirection table: a queue for each bucket, equal:QUEUES or weights:W,W,…
    #[arg(long, value_name = "LIST")]
    pub(crate) table: Option<Shape>,
    /// What is hashed of tcp4, udp4, tcp6, udp6: 2-tuple or 4-tuple.
    #[arg(long, value_name = "KIND=NAME,…")]
    pub(crate) fields: Vec<FieldChoices>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct BalanceArgs {
    /// The interface, in this network namespace.
    #[arg(value_name = "IF")]
    pub(crate) interface: String,
    /// Time between two looks, from 100ms.
    #[arg(long, value_name = "D", default_value = "10s", value_parser = every)]
    pub(crate) every: Duration,
    /// Most buckets that move at a time.
    #[arg(long, value_name = "N", default_value = "8", value_parser = moves)]
    pub(crate) moves: usize,
    /// Packets of the busiest queue, divided by the mean, at which nothing moves: above 1.
    #[arg(long, value_name = "X", default_value = "1.1", value_parser = ratio)]
    pub(crate) ratio: f64,
    /// Stop after this many looks; without it, at SIGINT or SIGTERM.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Where packets leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct From {
    /// A network namespace, or a machine.
    pub(crate) place: String,
    pub(crate) interface: String,
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // An address of IPv6 has colons, too.
        match text.rsplit_once(':') {
            Some((place, interface)) if !place.is_empty() && !interface.is_empty() => {
                Ok(Self { place: place.into(), interface: interface.into() })
            }
            _ => Err("write a network namespace or a machine, and an interface there: peer:eth2, \
                      root@generator:eth2"
                .into()),
        }
    }
}

/// A key to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeyChoice {
    Given(Key),
    /// One that is weak for no field.
    Random,
}

impl FromStr for KeyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "random" => Ok(Self::Random),
            _ => text.parse().map(Self::Given).map_err(|error| format!("{error}")),
        }
    }
}

/// What is to be hashed of kinds of flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldChoices(pub(crate) Vec<(FlowKind, Fields)>);

impl FromStr for FieldChoices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choice = |word: &str| {
            let (kind, fields) =
                word.split_once('=').ok_or_else(|| format!("`{word}` is not KIND=NAME"))?;
            let kind: FlowKind = kind.parse().map_err(|error| format!("`{kind}`: {error}"))?;
            let fields: Fields = fields.parse().map_err(|error| format!("`{fields}`: {error}"))?;
            Ok((kind, fields))
        };
        text.split(',').map(choice).collect::<Result<_, String>>().map(Self)
    }
}

fn probed_flows(text: &str) -> Result<u32, String> {
    let most = weir_bpf::rss::FLOW_COUNT_MAX;
    match parse_count(text).map(u32::try_from) {
        Ok(Ok(count)) if (1..=most).contains(&count) => Ok(count),
        Ok(_) => Err(format!("it must be 1 to {most}")),
        Err(error) => Err(error.to_string()),
    }
}

fn moves(text: &str) -> Result<usize, String> {
    super::flows(text)
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ratio) if ratio > 1.0 && ratio.is_finite() => Ok(ratio),
        _ => Err("it must be a number above 1, such as 1.1".into()),
    }
}

fn every(text: &str) -> Result<Duration, String> {
    /// Counters of many buckets take a while to read.
    const LEAST: Duration = Duration::from_millis(100);
    let every = parse_duration(text).map_err(|error| error.to_string())?;
    if every < LEAST {
        return Err(format!("it must be at least {LEAST:?}"));
    }
    Ok(every)
}
