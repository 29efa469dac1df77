//! The arguments of `weir gen`.
//!
//! Nothing is looked up here; what can be judged from the text alone is.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use weir_gen::units::{Rate, parse_count, parse_duration, parse_rate};
use weir_net::CpuList;
use weir_wire::mac::MacAddr;
use weir_wire::range::{Range, Swapped};

use super::JsonFlag;

pub(crate) const EXAMPLES: &str = "\
Examples:
  weir gen -i eth1 --src 198.18.10.1:2000-198.18.10.70 --dst 198.19.10.1:2000-198.19.10.70
      4,900 flows as fast as possible, until ^C; the MAC address of the next hop is looked up
  weir gen -i eth1 --src 198.18.10.1 --dst 198.19.10.1 --rate 500kpps --ramp 5s --duration 60s
  weir gen -i eth1 --src 198.18.10.1 --dst 198.19.10.1 --threads 2 --cpus 2-3 --count 100M --json
  weir gen --backend pcap:out.pcap --src 198.18.10.1 --dst 198.19.10.1 \\
      --dst-mac 02:00:00:00:00:01 --count 1000
      the same packets into a file: no privilege, no interface

Rates: `pps` packets; `bps` bits of frames without FCS, preamble and gap, as pkt-gen prints them;
`%` of the line, with FCS, preamble and gap, as RFC 2544 counts. All are totals over all threads.
Packets are UDP over IPv4, and walk over their flows as pkt-gen does: source port fastest, then
source address, destination port, destination address.";

/// `weir gen`.
#[derive(Debug, Args)]
pub(crate) struct GenArgs {
    /// Interface to send from. Not needed with --backend pcap:FILE.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// Source addresses and ports: `ADDR[:PORT][-ADDR[:PORT]]` (port 1234 if none is given).
    #[arg(long, value_name = "RANGE", value_parser = range)]
    pub(crate) src: StreamRange,
    /// Destination addresses and ports, in the same form.
    #[arg(long, value_name = "RANGE", value_parser = range)]
    pub(crate) dst: StreamRange,
    /// Source MAC address [default: the interface's; 02:00:00:00:00:01 without one].
    #[arg(long, value_name = "MAC")]
    pub(crate) src_mac: Option<MacAddr>,
    /// Destination MAC address [default: that of the next hop to the first destination].
    #[arg(long, value_name = "MAC")]
    pub(crate) dst_mac: Option<MacAddr>,
    /// Frame size in bytes, without the 4 bytes of FCS: 60 to 3408 (1514 but with live frames).
    #[arg(long, value_name = "N", default_value = "60", value_parser = size)]
    pub(crate) size: u16,
    /// IPv4 time to live.
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) ttl: u8,
    /// Differentiated services code point, 0 to 63.
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(..=63))]
    pub(crate) dscp: u8,
    /// Rate: `max`, or a number with `pps`, `bps` or `%` (see below).
    #[arg(long, value_name = "RATE", default_value = "max", value_parser = parse_rate)]
    pub(crate) rate: Rate,
    /// Send exactly that many packets, all threads together.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) count: Option<u64>,
    /// Send for that long.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Let the rate rise linearly from zero for that long.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) ramp: Option<Duration>,
    /// Number of threads, each on a CPU and a transmit queue of its own [default: 1, or one for
    /// each of --cpus].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) threads: Option<u8>,
    /// CPUs to send from, one for each thread: 0-1,3 [default: the first ones].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// How to send: `live` (XDP live frames), `packet` (packet sockets, for devices without XDP),
    /// or `pcap:FILE` (into a capture file, which is replaced).
    #[arg(long, value_name = "BACKEND", default_value = "live")]
    pub(crate) backend: BackendName,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// A range, and whether its ends were swapped to make it one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamRange {
    pub(crate) range: Range,
    pub(crate) swapped: Swapped,
}

/// `live`, `packet` or `pcap:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BackendName {
    Live,
    Packet,
    Pcap(PathBuf),
}

impl FromStr for BackendName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "live" => Ok(Self::Live),
            None if text == "packet" => Ok(Self::Packet),
            Some(("pcap", file)) if !file.is_empty() => Ok(Self::Pcap(file.into())),
            _ if text.starts_with("pcap") => Err("a file is missing: write `pcap:FILE`".into()),
            _ => Err("there are `live`, `packet` and `pcap:FILE`".into()),
        }
    }
}

fn range(text: &str) -> Result<StreamRange, String> {
    let (range, swapped) =
        Range::parse(text, Range::PORT_DEFAULT).map_err(|error| error.to_string())?;
    if range.port_first == 0 {
        return Err(
            "port 0 is reserved, and many routers drop it: ports run from 1 to 65535".into()
        );
    }
    Ok(StreamRange { range, swapped })
}

fn size(text: &str) -> Result<u16, String> {
    let size = parse_count(text).map_err(|error| {
        format!("{error}; ranges, lists and mixes of sizes are not built yet: give one number")
    })?;
    u16::try_from(size).ok().filter(|size| (60..=3408).contains(size)).ok_or_else(|| {
        "frames have 60 bytes (headers and signature) to 3408, without the 4 bytes of FCS".into()
    })
}

fn positive(text: &str) -> Result<u64, String> {
    match parse_count(text) {
        Ok(0) => Err("it must be above zero".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("it must be above zero".into()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}
