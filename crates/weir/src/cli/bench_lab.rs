//! Arguments of `weir lab import-config` and `weir bench-lab`: those of bench-lab.sh, and a few
//! more.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_wire::units::parse_duration;

use super::{JsonFlag, parse_iterations};

/// What the DUT runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// FreeBSD, nanobsd, and what is made of them (BSDRP, OPNsense, pfSense).
    Freebsd,
    /// OpenBSD.
    Openbsd,
    Linux,
    /// Anything else with a shell.
    Generic,
}

impl System {
    /// Its name in a specification.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Freebsd => "freebsd",
            Self::Openbsd => "openbsd",
            Self::Linux => "linux",
            Self::Generic => "generic",
        }
    }
}

/// The sets of a campaign, and what is done with its results.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchLabSets {
    /// Directory of configuration sets: each directory in it is laid over the DUT's root.
    #[arg(short = 'c', value_name = "CONFIG_DIR")]
    pub(crate) config_dir: Option<PathBuf>,
    /// Directory of pkt-gen sets: each file in it sets variables before the configuration does.
    #[arg(short = 'p', value_name = "PKTGEN_DIR")]
    pub(crate) pktgen_dir: Option<PathBuf>,
    /// Directory of upgrade images, named BSDRP-REVISION-upgrade-….img or .img.xz.
    #[arg(short = 'i', value_name = "IMAGES_DIR")]
    pub(crate) images_dir: Option<PathBuf>,
    /// Iterations of each series (1 to 1000).
    #[arg(short = 'n', value_name = "N", default_value_t = 5, value_parser = parse_iterations)]
    pub(crate) iterations: u32,
    /// Address that is sent the summary at the end, by the system's `mail`.
    #[arg(short = 'r', value_name = "ADDRESS")]
    pub(crate) report_to: Option<String>,
    /// Profile the DUT, in a run of each series that is not counted.
    #[arg(short = 'P')]
    pub(crate) profile: bool,
    /// Keep the DUT's counters of every run, which weir does in any case.
    #[arg(short = 'S')]
    pub(crate) statistics: bool,
    /// Do not ask before the campaign begins.
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// How long traffic runs before it counts [default: 15s].
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) warmup: Option<Duration>,
    /// How long a trial measures [default: 30s]; at least five seconds.
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Configuration file for ssh(1), instead of the user's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
}

/// What to read, and where to put the specification.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportConfigArgs {
    /// The bench-lab.config.
    #[arg(value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// File for the specification; it must not exist.
    #[arg(long, value_name = "SPEC")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) sets: BenchLabSets,
    /// Directory for the results, in the command that is shown at the end.
    #[arg(short = 'd', value_name = "RESULTS")]
    pub(crate) results: Option<PathBuf>,
    /// What the DUT runs.
    #[arg(long, value_enum, default_value = "freebsd")]
    pub(crate) system: System,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What to run, and where the results go.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchLabArgs {
    /// The bench-lab.config.
    #[arg(short = 'f', value_name = "CONFIG")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) sets: BenchLabSets,
    /// Directory for the results: new, empty, or with a campaign to continue.
    #[arg(short = 'd', value_name = "RESULTS", default_value = "/tmp/benchs")]
    pub(crate) results: PathBuf,
    /// What the DUT runs, instead of asking it.
    #[arg(long, value_enum)]
    pub(crate) system: Option<System>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Help of `weir bench-lab`.
pub(crate) const BENCH_LAB_HELP: &str = "\
Runs what bench-lab.sh would run with the same options, files and directories; a link to weir named
bench-lab or bench-lab.sh does the same. It makes a specification from them (RESULTS/lab.toml,
as weir lab import-config), shows what is reachable and how long it will take, asks unless -y, and
runs it as weir lab run: RESULTS is a store with a report. The figures are also in
RESULTS/netbenches, under bench-lab-ministat.sh's file names.

If RESULTS holds a campaign of these sets, it is continued: finished runs are not repeated, a
larger -n adds iterations, more sets add series.

  -P : one more run of each series, not counted, with a profile of the DUT. -n stays, which
       bench-lab.sh sets to 1
  -S : says where each counter of the DUT is kept; they are kept without it, too. -n stays
  -r : mail at the end, by the system's mail; or as MAIL says in the configuration. bench-lab.sh
       mails root@localhost where neither is given; weir sends nothing

docs/bench-lab.md says what else is different.

Examples:
  weir bench-lab -f bench-lab.config -c configs -p pktgen.configs/flows-64-5M -d results/night
  weir bench-lab -f bench-lab.config -i images -c configs -n 3 -d results/night -y -r me@example.org
  ln -s /usr/local/bin/weir bench-lab.sh && ./bench-lab.sh -f bench-lab.config";

/// Help of `weir lab import-config`.
pub(crate) const IMPORT_CONFIG_HELP: &str = "\
Writes the specification (lab.toml) that runs what bench-lab.sh would run with the same options. The
configuration and the pkt-gen sets are evaluated by sh in a clean environment, the set first. The
lines that start pkt-gen are kept; addresses, size and count become those of each traffic.
docs/bench-lab.md says what is different.

Examples:
  weir lab import-config bench-lab.config --out lab.toml -c configs -p pktgen.configs/flows-64-5M
  weir lab plan lab.toml
  weir lab run lab.toml --out results/night --yes";
