//! The arguments of `weir gen`.
//!
//! Nothing is looked up here; what can be judged from the text alone is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgGroup, Args};
use weir_net::CpuList;
use weir_wire::describe::Description;
use weir_wire::units::{Rate, parse_count, parse_duration, parse_rate};

use super::JsonFlag;

pub(crate) const EXAMPLES: &str = "\
Examples:
  weir gen -i eth1 --src 198.18.10.1:2000-198.18.10.70 --dst 198.19.10.1:2000-198.19.10.70
      4,900 flows as fast as possible, until ^C; the MAC address of the next hop is looked up
  weir gen -i eth1 --src 198.18.10.1 --dst 198.19.10.1 --rate 500kpps --ramp 5s --duration 60s
  weir gen -i eth1 --src 198.18.10.1 --dst 198.19.10.1 --threads 2 --cpus 2-3 --count 100M --json
  weir gen -i eth1 --src [2001:2::1]:9-[2001:2::64] --dst [2001:2:1::1]:9 --proto tcp --size imix
  weir gen -i eth1 --stream attack.toml --rate 80%
      several streams at once, by weight: tables [[stream]] with these options' names
  weir gen --backend pcap:out.pcap --src 198.18.10.1 --dst 198.19.10.1 \\
      --dst-mac 02:00:00:00:00:01 --count 1000
      the same packets into a file: no privilege, no interface
  weir gen -i eth1 --pcap recorded.pcap --dst-mac 02:00:00:00:00:01 --loops 10
      the packets of a file, with the gaps of the recording; also `--rate 10kpps`, `--rate max`

Rates: `pps` packets; `bps` bits of frames without FCS, preamble and gap, as pkt-gen prints them;
`%` of the line, with FCS, preamble and gap, as RFC 2544 counts. All are totals over all threads.
Packets walk over their flows as pkt-gen does: source port fastest, then source address,
destination port, destination address.";

/// What there is to send: one of these is given.
const WHAT: [&str; 3] = ["src", "stream", "pcap"];

/// `weir gen`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(WHAT).multiple(false))]
pub(crate) struct GenArgs {
    /// Interface to send from. Not needed with --backend pcap:FILE.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    pub(crate) interface: Option<String>,
    #[command(flatten)]
    pub(crate) one: StreamArgs,
    /// Send the streams of this file, a TOML table `[[stream]]` for each: src, dst and the other
    /// options of a stream with their names, `_` for `-`, and `weight` and `name`.
    #[arg(long, value_name = "FILE")]
    pub(crate) stream: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replay: ReplayArgs,
    /// Rate: `max`, or a number with `pps`, `bps` or `%` (see below); with --pcap also `recorded`
    /// [default: max, with --pcap recorded].
    #[arg(long, value_name = "RATE")]
    rate: Option<RateArg>,
    /// Send exactly this many packets, all threads together.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) count: Option<u64>,
    /// Send for this long.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Time between two lines of output.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = super::interval)]
    pub(crate) interval: Duration,
    /// Let the rate rise linearly from zero over this time.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) ramp: Option<Duration>,
    /// Number of threads, each with its own CPU and transmit queue [default: 1, or one for
    /// each of --cpus].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) threads: Option<u8>,
    /// CPUs to send from, one for each thread: 0-1,3 [default: the first ones].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// How to send: `live` (XDP live frames), `packet` (packet sockets, for devices without XDP),
    /// or `pcap:FILE` (into a capture file, which is replaced) [default: live, with --pcap packet].
    #[arg(long, value_name = "BACKEND")]
    backend: Option<BackendName>,
    /// Leave the time of sending out of the packets, which are then the same from every backend.
    #[arg(long, conflicts_with = "pcap")]
    pub(crate) no_stamps: bool,
    /// Write what is going to be sent into this file, for the receiver's `weir sink --expect FILE`.
    #[arg(long, value_name = "FILE", conflicts_with = "pcap")]
    pub(crate) announce: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

impl GenArgs {
    /// How to send.
    pub(crate) fn backend(&self) -> BackendName {
        let replayed = self.replay.pcap.is_some();
        let default = if replayed { BackendName::Packet } else { BackendName::Live };
        self.backend.clone().unwrap_or(default)
    }

    /// How fast.
    pub(crate) fn rate(&self) -> RateArg {
        let replayed = self.replay.pcap.is_some();
        let default = if replayed { RateArg::Recorded } else { RateArg::Rate(Rate::Max) };
        self.rate.unwrap_or(default)
    }
}

/// The options of a replay.
#[derive(Debug, Default, Args)]
pub(crate) struct ReplayArgs {
    /// Send the packets of this capture file (classic pcap of Ethernet) instead of streams:
    /// unchanged, or with the addresses of --src-mac and --dst-mac in the place of theirs.
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Send the file this many times; 0 means forever [default: 1].
    #[arg(long, value_name = "N", requires = "pcap", value_parser = count)]
    pub(crate) loops: Option<u64>,
}

/// `recorded`, or a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RateArg {
    Recorded,
    Rate(Rate),
}

impl FromStr for RateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "recorded" {
            return Ok(Self::Recorded);
        }
        parse_rate(text).map(Self::Rate).map_err(|error| error.to_string())
    }
}

impl fmt::Display for RateArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recorded => f.write_str("recorded"),
            Self::Rate(rate) => rate.fmt(f),
        }
    }
}

/// The options of a single stream: those of `weir_wire::describe::FIELDS` that make sense for one.
#[derive(Debug, Default, Args)]
pub(crate) struct StreamArgs {
    /// Source addresses and ports: `ADDR[:PORT][-ADDR[:PORT]]`, for IPv6 `[ADDR]:PORT[-[ADDR]]`
    /// (port 1234 if none is given).
    #[arg(long, value_name = "RANGE", requires = "dst")]
    src: Option<String>,
    /// Destination addresses and ports, in the same form.
    #[arg(long, value_name = "RANGE", requires = "src")]
    dst: Option<String>,
    /// Source MAC address [default: the interface's; 02:00:00:00:00:01 without one; with --pcap
    /// those of the file].
    #[arg(long, value_name = "MAC")]
    src_mac: Option<String>,
    /// Destination MAC address [default: that of the next hop to the first destination; with --pcap
    /// those of the file].
    #[arg(long, value_name = "MAC")]
    dst_mac: Option<String>,
    /// What to send: udp, tcp or icmp (echo requests) [default: udp].
    #[arg(long, value_name = "NAME", conflicts_with_all = ["stream", "pcap"])]
    proto: Option<String>,
    /// Flags of TCP: letters of FSRP.UEW, or none [default: S].
    #[arg(long, value_name = "FLAGS", conflicts_with_all = ["stream", "pcap"])]
    tcp_flags: Option<String>,
    /// Frame size in bytes, without the 4 bytes of FCS: `N`, `A-B` (uniform), `N,N,...` (one after
    /// the other), `imix` (7:4:1 of 40, 576 and 1500-byte IP packets) or `imix-genome:LETTERS`
    /// (RFC 6985) [default: the smallest, 60 for UDP over IPv4].
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["stream", "pcap"])]
    size: Option<String>,
    /// VLAN tag `ID[@PRIORITY]`, or two, outer and inner, joined by a comma (QinQ).
    #[arg(long, value_name = "TAGS", conflicts_with_all = ["stream", "pcap"])]
    vlan: Option<String>,
    /// Send all packets in one tunnel, from the first source to the first destination address: gre,
    /// vxlan or pppoe (which has no addresses).
    #[arg(long, value_name = "TUNNEL", conflicts_with_all = ["stream", "pcap", "vlan", "spread"])]
    encap: Option<String>,
    /// Time to live or hop limit [default: 64].
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "pcap"])]
    ttl: Option<String>,
    /// Differentiated services code point, 0 to 63 [default: 0].
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "pcap"])]
    dscp: Option<String>,
    /// IPv4's "don't fragment": true or false [default: true].
    #[arg(long, value_name = "BOOL", conflicts_with_all = ["stream", "pcap"])]
    df: Option<String>,
    /// Draw each packet's addresses and ports at random from the ranges.
    #[arg(long, conflicts_with_all = ["stream", "pcap"])]
    random: bool,
    /// Instead of all flows, one for each of so many buckets of a card's receive side scaling:
    /// `buckets:N`, `buckets:N/KEY` [default: all flows; as key, Microsoft's].
    #[arg(long, value_name = "BUCKETS", conflicts_with_all = ["stream", "pcap", "random"])]
    spread: Option<String>,
    /// Seed of random flows and sizes [default: 0].
    #[arg(long, value_name = "N", conflicts_with_all = ["stream", "pcap"])]
    seed: Option<String>,
}

impl StreamArgs {
    /// The MAC addresses that were given: source and destination.
    pub(crate) fn macs(&self) -> (Option<&str>, Option<&str>) {
        (self.src_mac.as_deref(), self.dst_mac.as_deref())
    }

    /// What was given, by the names of the fields.
    pub(crate) fn description(&self) -> Description {
        let random = self.random.then(|| "true".to_owned());
        let fields = [
            ("src", &self.src),
            ("dst", &self.dst),
            ("src_mac", &self.src_mac),
            ("dst_mac", &self.dst_mac),
            ("proto", &self.proto),
            ("tcp_flags", &self.tcp_flags),
            ("size", &self.size),
            ("vlan", &self.vlan),
            ("encap", &self.encap),
            ("ttl", &self.ttl),
            ("dscp", &self.dscp),
            ("df", &self.df),
            ("random", &random),
            ("spread", &self.spread),
            ("seed", &self.seed),
        ];
        let mut description = Description::default();
        for (name, text) in fields {
            if let Some(text) = text {
                description.set(name, text);
            }
        }
        description
    }
}

/// `live`, `packet` or `pcap:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BackendName {
    Live,
    Packet,
    Pcap(PathBuf),
}

impl BackendName {
    /// What it needs root for; `None` for files, which anyone may write.
    pub(crate) fn privilege(&self) -> Option<&'static str> {
        match self {
            Self::Live => Some("loads BPF programs (CAP_BPF and CAP_NET_ADMIN)"),
            Self::Packet => Some("sends raw frames (CAP_NET_RAW)"),
            Self::Pcap(_) => None,
        }
    }
}

impl FromStr for BackendName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "live" => Ok(Self::Live),
            None if text == "packet" => Ok(Self::Packet),
            Some(("pcap", file)) if !file.is_empty() => Ok(Self::Pcap(file.into())),
            _ if text.starts_with("pcap") => Err("a file is missing: write `pcap:FILE`".into()),
            _ => Err("the backends are `live`, `packet` and `pcap:FILE`".into()),
        }
    }
}

fn count(text: &str) -> Result<u64, String> {
    parse_count(text).map_err(|error| error.to_string())
}

pub(super) fn positive(text: &str) -> Result<u64, String> {
    match parse_count(text) {
        Ok(0) => Err("it must be above zero".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}
