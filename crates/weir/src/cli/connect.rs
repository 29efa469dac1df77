//! The arguments of `weir connect`.
//!
//! Nothing is looked up here; what can be judged from the text alone is.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use weir_gen::connect::{
    Close, PAYLOAD_BYTES_MAX, REPLY_BYTES_DEFAULT, REPLY_BYTES_MIN, REQUEST_BYTES_DEFAULT,
    SERVER_PORT, source_range,
};
use weir_net::CpuList;
use weir_results::traffic::connect::parse_rate;
use weir_results::unit::Unit;
use weir_wire::mac::MacAddr;
use weir_wire::range::AddrRange;
use weir_wire::units::Rate;

use super::traffic::{positive, some_time};
use super::{JsonFlag, ReceiveOptions};

pub(crate) const EXAMPLES: &str = "\
Both ends answer from each packet alone and keep nothing of a connection: SYN, SYN-ACK, request,
reply with FIN, FIN, ACK; with --close rst the client resets, with --close none it stays open.
Nothing is sent again (but SYNs with --retry): what is lost is in the ledger. Sources walk as those
of weir gen do: port fastest, then address. The way back to them has to lead to this interface.
While it runs, this host gets no TCP from --dst to --src. With --json, one object at the end; with
--progress before it one each second, or each --interval.

Examples:
  weir connect -i eth1 --src 198.18.0.1-198.18.3.254 --dst 198.19.0.1:80 --rate 200k --duration 30s
      200,000 connections a second, opened, used and closed
  weir connect -i eth1 --src 198.18.0.1-198.18.0.200 --dst 198.19.0.1 --rate 50k --hold 60s \\
      --close rst
      3,000,000 connections at a time: each is reset a minute after it was opened
  weir connect -i eth1 --src [2001:2::1]-[2001:2::ff] --dst [2001:2:1::1]:80 --rate max --count 1M
  weir connect serve -i eth2 --listen 198.19.0.1:80
      the other end; a real client or server can be either
  weir connect ledger client.json server.json
      what both ends counted, and where connections were lost";

const SERVE_HELP: &str = "\
Answers every SYN to an address and port of --listen, or without it to any that comes in: do not use
an interface then that you are logged in through. A request (what is pushed) gets one reply, a
document of HTTP/1.0, and the connection is closed behind it, unless weir's client says otherwise in
its SYN. Addresses that are none of this host's must be routed to it. Untagged frames only.

Examples:
  weir connect serve -i eth2 --listen 198.19.0.1:80-198.19.0.9
  weir connect serve -i eth2 --listen [2001:2:1::1]:80 --reply 1000 --json > server.json";

const LEDGER_HELP: &str = "\
The files are what `weir connect --json` and `weir connect serve --json` have printed; of several
lines the last one counts.

Example:
  weir connect ledger client.json server.json";

/// `weir connect`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ConnectArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ConnectCommand>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// What `weir connect` does besides opening connections.
#[derive(Debug, Subcommand)]
pub(crate) enum ConnectCommand {
    /// Be the server: answer from each packet alone.
    #[command(after_help = SERVE_HELP)]
    Serve(ServeArgs),
    /// Show what both ends counted, and where connections were lost.
    #[command(after_help = LEDGER_HELP)]
    Ledger(LedgerArgs),
}

/// What opens connections: `weir connect` without a subcommand.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// Interface to connect from.
    #[arg(short = 'i', long = "interface", value_name = "IF", required = true)]
    interface: Option<String>,
    /// Source addresses and ports: `ADDR[:PORT][-ADDR[:PORT]]`, for IPv6 `[ADDR]:PORT[-[ADDR]]`
    /// (ports 1024 to 65535 if none is given).
    #[arg(long, value_name = "RANGE", value_parser = source, required = true)]
    src: Option<AddrRange>,
    /// Destination addresses and ports, in the same form (port 80 if none is given).
    #[arg(long, value_name = "RANGE", value_parser = destination, required = true)]
    dst: Option<AddrRange>,
    /// Source MAC address [default: the interface's].
    #[arg(long, value_name = "MAC")]
    pub(crate) src_mac: Option<MacAddr>,
    /// Destination MAC address [default: that of the next hop to the first destination].
    #[arg(long, value_name = "MAC")]
    pub(crate) dst_mac: Option<MacAddr>,
    /// Connections per second, all threads together: `max`, or a number such as `50k` or `1.5M`
    /// [default: max].
    #[arg(long, value_name = "CPS")]
    rate: Option<ConnectRate>,
    /// Hold each connection for this long, counted from its SYN, before it is closed.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) hold: Option<Duration>,
    /// What becomes of a connection: `fin` (both ends close it), `rst` (the client resets it) or
    /// `none` (it stays open) [default: fin].
    #[arg(long, value_name = "HOW")]
    close: Option<CloseArg>,
    /// Open exactly this many connections, all threads together.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) count: Option<u64>,
    /// Begin with the flow behind the first N: those of a run before, which stay open, say.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) skip: u64,
    /// Open connections for this long; those that are held are still ended.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    /// Bytes of a request, 0 to 1400; 0 is none [default: 64].
    #[arg(long, value_name = "BYTES", value_parser = request_bytes)]
    request: Option<u16>,
    /// Bytes of the server's replies, 2 to 1400: what --hold with --close fin has to acknowledge
    /// [default: 128, as that of `weir connect serve`].
    #[arg(long, value_name = "BYTES", value_parser = reply_bytes)]
    reply: Option<u16>,
    /// How long answers are waited for once nothing more is sent; no longer than anything is
    /// missing.
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "3s")]
    pub(crate) drain: Duration,
    /// Send a SYN again that nobody answers, up to this many times, 0 to 4: after 1, 3, 7 and 15
    /// seconds. Nothing else is sent again [default: 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=4))]
    retry: Option<u8>,
    /// Number of threads, each with its own CPU and transmit queue [default: 1, or one for
    /// each of --cpus].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) threads: Option<u8>,
    /// CPUs to send from, one for each thread: 0-1,3 [default: the first ones].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// Show the counters while it runs, each second or --interval.
    #[arg(long)]
    pub(crate) progress: bool,
    /// Time between two lines of --progress [default: 1s].
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "progress")]
    interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What a client cannot do without; clap does not ask for it where a subcommand is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends<'a> {
    pub(crate) interface: &'a str,
    pub(crate) src: AddrRange,
    pub(crate) dst: AddrRange,
}

impl ClientArgs {
    /// Between which ends.
    pub(crate) fn ends(&self) -> Option<Ends<'_>> {
        Some(Ends { interface: self.interface.as_deref()?, src: self.src?, dst: self.dst? })
    }

    /// How fast.
    pub(crate) fn rate(&self) -> ConnectRate {
        self.rate.unwrap_or(ConnectRate(Rate::Max))
    }

    /// What becomes of a connection.
    pub(crate) fn close(&self) -> Close {
        match self.close.unwrap_or(CloseArg::Fin) {
            CloseArg::Fin => Close::Fin,
            CloseArg::Rst => Close::Rst,
            CloseArg::None => Close::None,
        }
    }

    /// How often a SYN is sent again.
    pub(crate) fn retries(&self) -> u8 {
        self.retry.unwrap_or(0)
    }

    /// Time between two lines of progress.
    pub(crate) fn interval(&self) -> Duration {
        self.interval.unwrap_or(Duration::from_secs(1))
    }

    pub(crate) fn request_bytes(&self) -> u16 {
        self.request.unwrap_or(REQUEST_BYTES_DEFAULT)
    }

    pub(crate) fn reply_bytes(&self) -> u16 {
        self.reply.unwrap_or(REPLY_BYTES_DEFAULT)
    }
}

/// The other end.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) receive: ReceiveOptions,
    /// Addresses and ports to answer for: `ADDR[:PORT][-ADDR[:PORT]]`, for IPv6
    /// `[ADDR]:PORT[-[ADDR]]` (port 80 if none is given) [default: all that come in].
    #[arg(long, value_name = "RANGE", value_parser = destination)]
    pub(crate) listen: Option<AddrRange>,
    /// Bytes of a reply, 2 to 1400 [default: 128].
    #[arg(long, value_name = "BYTES", value_parser = reply_bytes)]
    reply: Option<u16>,
}

impl ServeArgs {
    pub(crate) fn reply_bytes(&self) -> u16 {
        self.reply.unwrap_or(REPLY_BYTES_DEFAULT)
    }
}

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// What the client has printed.
    #[arg(value_name = "CLIENT")]
    pub(crate) client: PathBuf,
    /// What the server has printed.
    #[arg(value_name = "SERVER")]
    pub(crate) server: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CloseArg {
    Fin,
    Rst,
    None,
}

/// Connections per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ConnectRate(pub(crate) Rate);

impl FromStr for ConnectRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_rate(text, Unit::Cps.things()).map(Self)
    }
}

impl fmt::Display for ConnectRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Rate::Pps(rate_cps) => write!(f, "{rate_cps}"),
            rate => rate.fmt(f),
        }
    }
}

/// A source without ports has all that no server uses.
fn source(text: &str) -> Result<AddrRange, String> {
    source_range(text).map(|(range, _)| range).map_err(|error| error.to_string())
}

fn destination(text: &str) -> Result<AddrRange, String> {
    AddrRange::parse(text, SERVER_PORT).map(|(range, _)| range).map_err(|error| error.to_string())
}

fn request_bytes(text: &str) -> Result<u16, String> {
    bytes(text, 0)
}

fn reply_bytes(text: &str) -> Result<u16, String> {
    bytes(text, REPLY_BYTES_MIN)
}

/// Bytes that go into one packet.
fn bytes(text: &str, min: u16) -> Result<u16, String> {
    let number = text.parse().ok().filter(|bytes| (min..=PAYLOAD_BYTES_MAX).contains(bytes));
    number.ok_or_else(|| {
        format!("it goes into one packet: write a number from {min} to {PAYLOAD_BYTES_MAX}")
    })
}

#[cfg(test)]
mod tests {
    use weir_wire::range::Span as _;

    use super::*;

    #[test]
    fn a_destination_without_a_port_has_that_of_http() {
        assert_eq!(destination("10.0.0.1").map(|range| range.port_first()), Ok(80));
        assert_eq!(destination("10.0.0.1:81").map(|range| range.port_first()), Ok(81));
    }

    #[test]
    fn rates_are_numbers_of_connections() {
        assert_eq!("50k".parse(), Ok(ConnectRate(Rate::Pps(50e3))));
        assert_eq!("max".parse(), Ok(ConnectRate(Rate::Max)));
        for text in ["0", "5kpps", "80%", "-1", ""] {
            assert!(text.parse::<ConnectRate>().is_err(), "{text}");
        }
    }
}
