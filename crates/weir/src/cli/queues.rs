//! The arguments of `weir queues`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_wire::units::parse_duration;

use super::JsonFlag;

pub(crate) const HELP: &str = "\
One line for each interface and interval:

  [Q0 856K/s] [Q1 840K/s] ... [QT 6811K/s 16440K/s -> 13K/s] [rx_missed_errors 9629K/s]

  Q0 Q1 …   packets per second that each receive queue handed up, and what it lost, if any
  QT        all queues together; what the interface took from the line, lost packets
            included; -> what it sent
  then      losses of the interface by the name of its counter, if there are any
  -         no rate: the counter was reset, or the driver has none for queues

With --buckets, a program for traffic control counts the packets of each bucket of the interface's
receive side scaling where they come in, and those that are on another queue than its settings say
(root, or CAP_BPF and CAP_NET_ADMIN): buckets, idle ones, the busiest against the mean, misplaced
packets. With --softnet, a line follows with the packets that the stack took on each CPU of the
host, and what it dropped, how often it ran out of time, collisions, and packets from other CPUs.

Queues that are far apart show a traffic whose flows the card cannot spread, or a mapping of queues
to CPUs that is not what was intended: docs/queues.md. The counters are the driver's own (ethtool
-S); without --buckets no privilege is needed, and nothing is changed.

Examples:
  weir queues                               all interfaces that have counters for queues
  weir queues eth1 eth2 --interval 5s
  weir queues --ssh root@dut ix0 ix1        of another machine, FreeBSD or Linux
  weir queues eth1 --buckets --softnet
  weir queues eth1 --count 10 --json | jq '.queues[].rx_rate_pps'";

/// `weir queues`.
#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    /// Interfaces, in this network namespace [default: all that are up and have counters for
    /// queues].
    #[arg(value_name = "IF")]
    pub(crate) interfaces: Vec<String>,
    /// Read the counters of another machine (FreeBSD or Linux); a destination for ssh(1).
    #[arg(long, value_name = "DESTINATION", requires = "interfaces")]
    pub(crate) ssh: Option<String>,
    /// Configuration file for ssh(1) [default: your own].
    #[arg(long, value_name = "FILE", requires = "ssh")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// Count the packets of each bucket of receive side scaling, and those that are misplaced.
    #[arg(long, requires = "interfaces", conflicts_with = "ssh")]
    pub(crate) buckets: bool,
    /// Show what each CPU of this host took from the network, and dropped.
    #[arg(long, conflicts_with = "ssh")]
    pub(crate) softnet: bool,
    /// Time between two lines, from 10ms.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Stop after this many lines; without it, at SIGINT or SIGTERM.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Drivers refresh what a card counts itself a few times a second at most, and a daemon that is
/// asked more often does little else.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A time between two looks.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    if interval < INTERVAL_MIN {
        return Err(format!("an interval must be at least {INTERVAL_MIN:?}"));
    }
    Ok(interval)
}
