//! The command line: every command and option, once. Help, completions and manual pages come
//! from these definitions.
//!
//! Nothing is done here; arguments are only named, described and parsed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use weir_wire::units::parse_duration;

pub(crate) mod archive;
pub(crate) mod bench_lab;
pub(crate) mod bisect;
pub(crate) mod compare;
pub(crate) mod connect;
pub(crate) mod console;
pub(crate) mod echo;
pub(crate) mod fw;
pub(crate) mod fw_run;
pub(crate) mod fw_sync;
pub(crate) mod fw_table;
pub(crate) mod http;
pub(crate) mod http_serve;
pub(crate) mod image;
pub(crate) mod ministat;
pub(crate) mod pfctl;
pub(crate) mod plot;
pub(crate) mod pxe;
pub(crate) mod queues;
pub(crate) mod rates;
pub(crate) mod remote;
pub(crate) mod rerss;
pub(crate) mod rss;
pub(crate) mod ruleset;
pub(crate) mod search;
pub(crate) mod traffic;

/// A performance lab for software routers and firewalls.
#[derive(Debug, Parser)]
#[command(
    name = "weir",
    version = crate::VERSION,
    max_term_width = 100,
    after_help = AFTER
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Examples:
  weir doctor                           what this machine can do, and what it lacks
  weir lab run labs/quick/lab.toml      compare two routers in under four minutes
  weir gen -i eth1 --src … --dst …      send packets as fast as this machine can
  weir lab resume results/quick-…       continue where it was interrupted
  weir sink -i eth1                     receive a generator's packets and say what became of them
  weir fw check /etc/pf.conf            what is wrong with a pf.conf, without a firewall
  weir rates --pps 1.5M                 what a rate is in bits, and the links it is enough for

Exit codes:
  0    done
  1    done, but the answer is no: a check failed, a cell is invalid
  2    the request cannot be honoured: usage, bad input, missing privilege
  130  stopped by SIGINT (129 SIGHUP, 143 SIGTERM); what was finished is kept";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  sudo weir doctor
  sudo weir doctor --json | jq '.checks[] | select(.status != \"ok\")'";

const LAB_EXAMPLES: &str = "\
Examples:
  weir lab plan labs/quick/lab.toml          what would run, and for how long
  sudo weir lab run labs/quick/lab.toml      run it; the last line names the report";

/// Iterations of a series, as many as the specification may have.
fn parse_iterations(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(count @ 1..=1000) => Ok(count),
        Ok(0) => Err("the least is 1".to_owned()),
        _ => Err("it must be a whole number, at least 1 and at most 1000".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the campaign of a bench-lab.config, with bench-lab.sh's options.
    #[command(after_help = bench_lab::BENCH_LAB_HELP)]
    BenchLab(Box<bench_lab::BenchLabArgs>),
    /// Open TCP connections without sockets, by the million, and say where they were lost.
    #[command(after_help = connect::EXAMPLES)]
    Connect(Box<connect::ConnectArgs>),
    /// Attach to a machine's console: serial device, socket, TCP or IPMI; drive it by a script.
    #[command(after_help = console::HELP)]
    Console(console::ConsoleArgs),
    /// Show what this machine can do, what it lacks, and what that costs.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(JsonFlag),
    /// Return UDP datagrams with a worker for each receive queue, or send them and count answers.
    #[command(subcommand, after_help = echo::EXAMPLES)]
    Echo(echo::EchoCommand),
    /// Route and filter packets by a pf.conf; check, print, convert and explain one.
    #[command(subcommand, after_help = fw::EXAMPLES)]
    Fw(fw::FwCommand),
    /// Send a stream of packets, and say what became of it.
    #[command(after_help = traffic::EXAMPLES)]
    Gen(Box<traffic::GenArgs>),
    /// Send requests to an HTTP server over many connections, and say what limited it.
    #[command(after_help = http::EXAMPLES)]
    Http(Box<http::HttpArgs>),
    /// Run benchmark campaigns and report on them.
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(LabCommand),
    /// Compare datasets: plot, vitals, Student's t; options and output of FreeBSD's ministat.
    #[command(
        after_help = ministat::HELP,
        override_usage = ministat::USAGE,
        disable_help_flag = true
    )]
    Ministat {
        /// ministat's own options, as listed below, and files.
        #[arg(
            value_name = "OPTIONS",
            num_args = 0..,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// Control the firewall with pfctl's options and output lines; check and print a pf.conf.
    #[command(
        after_help = pfctl::HELP,
        override_usage = pfctl::USAGE,
        disable_help_flag = true
    )]
    Pfctl {
        /// pfctl's own options, as listed below.
        #[arg(
            value_name = "OPTIONS",
            num_args = 0..,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// Send, receive and time packets with pkt-gen's options and output lines.
    #[command(after_help = weir_gen::pkt_gen::usage(), disable_help_flag = true)]
    PktGen {
        /// pkt-gen's own options, as listed below.
        #[arg(
            value_name = "OPTIONS",
            num_args = 0..,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// Boot and install machines from the network: menus on the serial console, DHCP, TFTP, HTTP.
    #[command(subcommand, after_help = pxe::EXAMPLES)]
    Pxe(pxe::PxeCommand),
    /// Show live packet rates of every receive queue, and where packets are lost.
    #[command(after_help = queues::HELP)]
    Queues(queues::QueuesArgs),
    /// Show line rates of links, and what a packet rate is in bits per second.
    #[command(after_help = rates::HELP)]
    Rates(rates::RatesArgs),
    /// Hand packets to CPUs by what they carry: tunnels and fragments, which cards cannot spread.
    #[command(subcommand, after_help = rerss::EXAMPLES)]
    Rerss(rerss::RerssCommand),
    /// Predict which receive queue a flow goes to (receive side scaling), or find flows for one.
    #[command(subcommand, after_help = rss::EXAMPLES)]
    Rss(rss::RssCommand),
    /// Receive a generator's packets: loss, order, duplicates, flows, latency.
    #[command(after_help = SINK_HELP)]
    Sink(SinkOptions),
    /// Send every IP packet back to where it came from.
    #[command(after_help = REFLECT_HELP)]
    Reflect(ReceiveOptions),
    /// Print a completion script for a shell.
    #[command(after_help = "Example: weir completions bash > /etc/bash_completion.d/weir")]
    Completions { shell: Shell },
    /// Write the manual pages.
    #[command(after_help = "Example: weir man --out /usr/local/share/man/man1")]
    Man {
        /// Directory to write them to.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// `--json`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct JsonFlag {
    /// Print the result as JSON on standard output; text for people goes to standard error.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `--yes`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct YesFlag {
    /// Begin without asking when your own machines are used (testbeds of kind hosts).
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
}

/// `--verbose`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct VerboseFlag {
    /// Show every comparison in ministat's layout too.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// `--wait`.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitFlag {
    /// Wait up to this long until no other lab measures on this host and nothing else keeps its
    /// CPUs busy; on a testbed of kind netns also before each trial, for up to half a minute, until
    /// generator and DUT have CPUs that share a cache. Without it, begin at once.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    wait: Option<Duration>,
}

impl WaitFlag {
    /// How long; zero without it.
    pub(crate) fn duration(self) -> Duration {
        self.wait.unwrap_or_default()
    }
}

/// The commands of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show what a specification would run, without running it.
    #[command(after_help = "Example: weir lab plan labs/quick/lab.toml")]
    Plan {
        #[command(flatten)]
        selection: Selection,
        /// Show the order of the trials too.
        #[arg(short, long)]
        verbose: bool,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Run a campaign: calibrate, run every cell on a fresh DUT, compare, report.
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        #[command(flatten)]
        selection: Selection,
        /// Directory for the results [default: results/CAMPAIGN-TIME].
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Continue the campaign in --out: run only what is missing there.
        #[arg(long, requires = "out")]
        resume: bool,
        #[command(flatten)]
        yes: YesFlag,
        #[command(flatten)]
        wait: WaitFlag,
        #[command(flatten)]
        verbose: VerboseFlag,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Find the first bad one of an ordered list: commits, images, configurations.
    #[command(after_help = bisect::HELP)]
    Bisect(Box<bisect::BisectArgs>),
    /// Go on with a campaign, a bisection or a rate search that was interrupted, or add iterations
    /// to a campaign.
    #[command(after_help = "Example: weir lab resume results/quick-20260102-030405 -n 10")]
    Resume {
        /// Directory of the results.
        dir: PathBuf,
        /// Iterations of each series (1 to 1000), instead of the campaign's own number.
        #[arg(short = 'n', value_name = "N", value_parser = parse_iterations)]
        iterations: Option<u32>,
        #[command(flatten)]
        yes: YesFlag,
        #[command(flatten)]
        wait: WaitFlag,
        #[command(flatten)]
        verbose: VerboseFlag,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Rebuild summary, plots and report from the raw results of any run.
    #[command(after_help = "Example: weir lab report results/quick-20260102-030405")]
    Report {
        /// Directory of the results.
        dir: PathBuf,
        #[command(flatten)]
        verbose: VerboseFlag,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Compare campaigns or imported archives, series by series.
    #[command(after_help = compare::HELP)]
    Compare(compare::CompareArgs),
    /// Draw curves along a numeric axis, or every raw point, as SVG, PNG or for gnuplot.
    #[command(after_help = plot::HELP)]
    Plot(plot::PlotArgs),
    /// Read results of bench-lab.sh into a store.
    #[command(after_help = archive::IMPORT_HELP)]
    Import(archive::ImportArgs),
    /// Write the specification that runs what bench-lab.sh would run.
    #[command(after_help = bench_lab::IMPORT_CONFIG_HELP)]
    ImportConfig(Box<bench_lab::ImportConfigArgs>),
    /// Write the figures of a store under the file names of another lab.
    #[command(after_help = archive::EXPORT_HELP)]
    Export(archive::ExportArgs),
    /// Search for the rate that each DUT still forwards: no-drop and partial-drop rate, RFC 2544.
    #[command(after_help = search::HELP)]
    Search(search::SearchArgs),
    /// Build images for virtual DUTs.
    #[command(subcommand, after_help = image::HELP)]
    Image(image::ImageCommand),
    /// Remove what an earlier lab that was killed has left on this host.
    #[command(after_help = "Example: sudo weir lab clean")]
    Clean {
        #[command(flatten)]
        json: JsonFlag,
    },
}

const RUN_EXAMPLES: &str = "\
Examples:
  weir lab run labs/quick/lab.toml
  weir lab run labs/quick/lab.toml -n 3 --only '*.flows-128'
  weir lab run labs/connections/lab.toml     connections per second, instead of packets
  weir lab run lab.toml --out results/night --resume
  weir lab run lab.toml --wait 30m";

/// Which specification, and which part of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// The specification (lab.toml).
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// Iterations of each series (1 to 1000), instead of the specification's number.
    #[arg(short = 'n', value_name = "N", value_parser = parse_iterations)]
    pub(crate) iterations: Option<u32>,
    /// Only series, or cells (SERIES/ITERATION), that match this pattern.
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Option<String>,
}

/// Where and how long packets are received.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReceiveOptions {
    /// The interface, in this network namespace.
    #[arg(short = 'i', value_name = "IF")]
    pub(crate) interface: String,
    /// How long; without it, until SIGINT or SIGTERM.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Time between two lines of output.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Use generic XDP, which works behind any driver, but several times slower.
    #[arg(long)]
    pub(crate) generic: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The shortest time between two reports: shorter ones show the scheduler.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// A time between two reports.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(interval) if interval >= INTERVAL_MIN => Ok(interval),
        Ok(_) => Err("it must be at least 10ms".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// What `weir sink` is asked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct SinkOptions {
    #[command(flatten)]
    pub(crate) receive: ReceiveOptions,
    /// JSON object that describes the streams to come: flows, threads, number of packets.
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
}

const SINK_HELP: &str = "\
Packets with weir's signature end here: UDP, TCP and ICMP echo over IPv4 and IPv6, with up to two
VLAN tags or in a tunnel of weir gen --encap. All others are counted as foreign and passed to the
network stack. Loss is what is missing up to the highest sequence number that came; what was lost
after it is known only if --expect announces the number of packets. Reordering is RFC 4737's; a
packet more than 65,472 numbers late is counted as too late. Threads of a stream are taken to be
those up to the highest one heard of, and flows are not counted, unless --expect names them. Latency
is one-way and needs stamped packets of a generator on this host. Above 1 Mpps on a CPU, the times
of arrival of 8 in 251 packets are read instead of all, because the clock costs a quarter of what a
packet costs; how many were measured is reported, and everything else covers every packet. Start a
new sink for a generator that starts over: its sequence numbers begin again.

Flows are told apart by sequence numbers, which say which flow the sender gave a packet, and not by
addresses and ports, which a DUT may translate: --expect checks that each flow arrived, not whose
addresses it had.

The file of --expect, which weir gen --announce FILE writes, holds one JSON object:
  {\"streams\": [{\"stream\": 0, \"src\": \"198.18.10.1:2000-198.18.10.70\",
                \"dst\": \"198.19.10.1:2000-198.19.10.70\", \"flow_count\": 4900,
                \"thread_count\": 1, \"first_sequence\": 0, \"packets\": 1000000}]}
with one entry for each stream, IPv4 or IPv6. first_sequence may be left out (0), packets too (not
known), and random (false): the flows of a random walk (weir gen --random) are not counted.

With --json, one object after each --interval (\"kind\": \"interval\") and one at the end
(\"total\"); counts and distributions cover the time since the start, rates the interval or the
whole time.

Examples:
  weir sink -i eth1
  weir sink -i eth1 --duration 10s --expect stream.json --json
  ip netns exec lab weir sink -i veth1";

const REFLECT_HELP: &str = "\
Exchanges source and destination of MAC, IP and UDP or TCP, and sends the packet out of the same
interface (XDP_TX), under the same VLAN tags (two at most). An ICMP echo request becomes its reply.
Everything else in the packet stays, and all checksums remain right. Multicast and broadcast frames,
other ICMP messages and anything that is not IP are passed to the network stack.

While it runs, this host does not get any other IP packet from that interface: do not use the one
that you are logged in through. On a veth, the other end gets what is returned only while it has an
XDP program itself, such as weir sink's; GRO is not enough.

Examples:
  weir reflect -i eth1
  weir reflect -i eth1 --duration 1m --json";
