//! The arguments of `weir fw run`, `status`, `stats` and `stop`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use weir_fw::pflow::Collector;

use super::JsonFlag;
use super::ruleset::{DialectName, parse_macro};

pub(crate) const RUN_HELP: &str = "\
Packets are routed and filtered in XDP, by the kernel's routes and neighbours: switch forwarding on
(sysctl net.ipv4.ip_forward, net.ipv6.conf.all.forwarding). The programs go on every Ethernet
interface of this network namespace that `set skip` does not name, also on those that come later,
or, if every rule has `on`, on those that rules name. Linux 6.12 is the oldest kernel.

The command returns once packets are filtered, and a daemon stays behind that expires states,
follows routes and interfaces and answers weir pfctl and weir fw. If the daemon ends, by SIGTERM or
otherwise, the programs stay and keep filtering; weir fw run then takes over their states and
counters. Only weir fw stop removes them.

Host names are looked up by the system's resolver, once, when the ruleset is loaded. What the data
path cannot do (rtable, for one) is refused with file, line and reason; limits that memory does
not suffice for are refused before any is taken. docs/fw.md has the lists.

Examples:
  sudo weir fw run -f /etc/pf.conf
  sudo weir fw run -f pf.conf --foreground --log /var/log/pflog
  sudo weir fw run -f pf.conf --metrics 9100
  sudo weir fw run -f pf.conf --pflow flowdst=192.0.2.1:2055,flowsrc=192.0.2.9,pflowproto=10
  sudo ip netns exec lab weir fw run -f pf.conf";

pub(crate) const STATUS_HELP: &str = "\
Exit code 1 if no firewall runs in this network namespace.

Examples:
  sudo weir fw status
  sudo weir fw status --json | jq '.states.bytes_per_flow_at_limit'";

pub(crate) const STATS_HELP: &str = "\
Counters since the start or the last weir pfctl -F info, and rates since the firewall was enabled.
Of drops only those that happened are listed. Exit code 1 if no firewall runs in this network
namespace.

Examples:
  sudo weir fw stats
  sudo weir fw stats --rules
  sudo weir fw stats --json | jq '.drops[] | select(.reason == \"state-mismatch\")'";

pub(crate) const STOP_HELP: &str = "\
Takes the programs off all interfaces of this network namespace, also if their daemon is gone:
nothing is filtered any more, and all states and counters are lost. Exit code 1 if there was nothing
to stop.

Example: sudo weir fw stop";

/// `weir fw stats`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct StatsArgs {
    /// Those of rules too: every state is looked at, which takes a second for some millions.
    #[arg(long)]
    pub(crate) rules: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// `weir fw run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The ruleset; `-` is standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Stay in the foreground, with messages on standard error.
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Use generic XDP on interfaces without native XDP: behind any driver, several times slower.
    #[arg(long)]
    pub(crate) generic: bool,
    /// Append packets of rules with `log` to a pcap file (link type PFLOG). SIGHUP reopens it.
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Serve the counters as OpenMetrics: http://ADDRESS:PORT/metrics; on loopback without ADDRESS.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = weir_fw::metrics::address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Export flows of `pflow` rules to a collector, as NetFlow 5, or as IPFIX with pflowproto=10.
    #[arg(long, value_name = "flowdst=ADDRESS:PORT[,flowsrc=ADDRESS][,pflowproto=5|10]")]
    pub(crate) pflow: Option<Collector>,
    /// The dialect of the file [default: recognised from its words].
    #[arg(long, value_name = "DIALECT", value_enum)]
    pub(crate) dialect: Option<DialectName>,
    /// Define a macro; a definition in the file does not override it.
    #[arg(short = 'D', value_name = "NAME=VALUE", value_parser = parse_macro)]
    pub(crate) macros: Vec<(String, String)>,
    /// Names that rulesets use and this machine lacks, in the form of `weir fw check --facts`:
    /// users and their groups, services, protocols, hosts. Interfaces are this machine's.
    #[arg(long, value_name = "FILE")]
    pub(crate) facts: Option<PathBuf>,
    /// What the command starts itself as, to stay in the background.
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) detached: bool,
}
