//! The arguments of `weir rerss`.

use std::time::Duration;

use clap::{Args, Subcommand};
use weir_bpf::rerss::QUEUE_SIZE_MAX;
use weir_net::CpuList;
use weir_wire::rss::Key;
use weir_wire::rss::table::Shape;
use weir_wire::units::Rate;

use super::JsonFlag;
use super::rss::FieldChoices;
use super::traffic::some_time;

pub(crate) const EXAMPLES: &str = "\
A card takes all of a tunnel for one flow, so that one CPU has all of its work. This hands packets
to CPUs by the flow that they carry, before the network stack sees them. docs/rerss.md says when it
helps.

Examples:
  weir rerss run -i eth1
  weir rerss run -i eth1 --cpus 2-5 --from 1Mpps --json
  weir rerss stop -i eth1";

const RUN_HELP: &str = "\
Looks into VLAN tags, PPPoE sessions, MPLS, GRE, IP in IP, 6in4, VXLAN and GENEVE, four IP headers
deep; later fragments follow their first one for 60 s. What has no IP header stays on its CPU, and
so does a packet whose bucket belongs to the CPU that it is on.

Waking another CPU costs more than it brings while there are few packets: below the rate of --from
everything stays where it is. It goes on as soon as more come in a second, and off when for five
seconds less than three quarters of it came. A bucket that changes its CPU is emptied before: its
packets are dropped and counted (drained) for some hundredths of a second, and no flow is reordered.

An interface has one XDP program: this and `weir fw` cannot be at the same one. It ends at SIGINT or
SIGTERM, and leaves nothing behind.

Examples:
  weir rerss run -i eth1
  weir rerss run -i eth1 --cpus 2-5 --from 1Mpps --json
  weir rerss run -i eth1 --cpus 0,1 --table weights:1,3 --fields udp4=2-tuple
  weir rerss run -i eth1 --from 0 --duration 1m       on whatever comes";

const STOP_HELP: &str = "\
Sends SIGTERM to the process that has `weir rerss` at the interface, and waits until it is gone from
there. Exit code 1 if there is none.

Example:
  weir rerss stop -i eth1";

/// What `weir rerss` does.
#[derive(Debug, Subcommand)]
pub(crate) enum RerssCommand {
    /// Hand the packets of an interface to CPUs by what they carry.
    #[command(after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// End the one that runs at an interface.
    #[command(after_help = STOP_HELP)]
    Stop(StopArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The interface that packets come in by, in this network namespace.
    #[arg(short = 'i', value_name = "IF")]
    pub(crate) interface: String,
    /// CPUs to hand packets to [default: all that this process may run on].
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<CpuList>,
    /// The place in --cpus, from 0, for each bucket: 0,1,0,2, equal:CPUS[/SIZE] or
    /// weights:W,W,…[/SIZE] [default: CPUs in turn, 128 buckets].
    #[arg(long, value_name = "LIST")]
    pub(crate) table: Option<Shape>,
    /// The key, 40 to 52 bytes in hexadecimal digits [default: the interface's; Microsoft's if it
    /// has none].
    #[arg(long, value_name = "HEX")]
    pub(crate) key: Option<Key>,
    /// What is hashed of tcp4, udp4, tcp6, udp6: 2-tuple or 4-tuple [default: 4-tuple].
    #[arg(long, value_name = "KIND=NAME,…")]
    pub(crate) fields: Vec<FieldChoices>,
    /// Received packets per second from which on packets are handed to CPUs; 0: always.
    #[arg(
        long,
        visible_alias = "above",
        value_name = "RATE",
        default_value = "600kpps",
        value_parser = from
    )]
    pub(crate) from: f64,
    /// Packets that can wait for each CPU, at most 16384.
    #[arg(long, value_name = "N", default_value = "2048", value_parser = queue)]
    pub(crate) queue: u32,
    /// How long; without it, until SIGINT or SIGTERM.
    #[arg(long, value_name = "D", value_parser = some_time)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The interface, in this network namespace.
    #[arg(short = 'i', value_name = "IF")]
    pub(crate) interface: String,
}

/// Packets per second, of which 0 are possible.
fn from(text: &str) -> Result<f64, String> {
    const WHAT: &str = "it must be packets per second, such as 600kpps, or 0";
    if matches!(text, "0" | "0pps") {
        return Ok(0.0);
    }
    match text.parse::<Rate>().map_err(|error| error.to_string())? {
        Rate::Pps(rate_pps) => Ok(rate_pps),
        Rate::Max | Rate::Bps(_) | Rate::Percent(_) => Err(WHAT.into()),
    }
}

fn queue(text: &str) -> Result<u32, String> {
    match weir_wire::units::parse_count(text).map(u32::try_from) {
        Ok(Ok(size)) if (1..=QUEUE_SIZE_MAX).contains(&size) => Ok(size),
        Ok(_) => Err(format!("it must be 1 to {QUEUE_SIZE_MAX}, which is the kernel's limit")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_packets_per_second() {
        assert_eq!(from("0"), Ok(0.0));
        assert_eq!(from("1.5Mpps"), Ok(1_500_000.0));
        for text in ["max", "50%", "1Gbps"] {
            assert!(from(text).unwrap_err().contains("packets per second"), "{text}");
        }
    }

    #[test]
    fn queues_have_the_kernels_limits() {
        assert_eq!((queue("1"), queue("16384")), (Ok(1), Ok(16_384)));
        for text in ["0", "16385", "5G"] {
            assert!(queue(text).unwrap_err().contains("1 to 16384"), "{text}");
        }
    }
}
