//! The command line: every command and option, once. Help, completions and manual pages come
//! from these definitions.
//!
//! Nothing is done here; arguments are only named, described and parsed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, value_parser};
use clap_complete::Shell;

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
  weir lab resume results/quick-…       go on where it was interrupted

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

/// The most iterations of a series, as the specification has it.
const ITERATIONS: std::ops::RangeInclusive<i64> = 1..=1000;

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tell what this machine can do, what it lacks, and what that costs.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(JsonFlag),
    /// Run benchmark campaigns and report them.
    #[command(subcommand, after_help = LAB_EXAMPLES)]
    Lab(LabCommand),
    /// Print a completion script for a shell.
    #[command(after_help = "Example: weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// The shell.
        shell: Shell,
    },
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

/// The commands of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show what a specification would run, without running it.
    #[command(after_help = "Example: weir lab plan labs/quick/lab.toml")]
    Plan {
        #[command(flatten)]
        selection: Selection,
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
        json: JsonFlag,
    },
    /// Go on with a campaign that was interrupted, or add iterations to it.
    #[command(after_help = "Example: weir lab resume results/quick-20260102-030405 -n 10")]
    Resume {
        /// Directory of the results.
        dir: PathBuf,
        /// Iterations of each series (1 to 1000), instead of the campaign's own number.
        #[arg(short = 'n', value_name = "N", value_parser = value_parser!(u32).range(ITERATIONS))]
        iterations: Option<u32>,
        #[command(flatten)]
        json: JsonFlag,
    },
    /// Rebuild summary, plots and report from the raw results.
    #[command(after_help = "Example: weir lab report results/quick-20260102-030405")]
    Report {
        /// Directory of the results.
        dir: PathBuf,
        #[command(flatten)]
        json: JsonFlag,
    },
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
  weir lab run lab.toml --out results/night --resume";

/// Which specification, and which part of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selection {
    /// The specification (lab.toml).
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// Iterations of each series (1 to 1000), instead of the specification's number.
    #[arg(short = 'n', value_name = "N", value_parser = value_parser!(u32).range(ITERATIONS))]
    pub(crate) iterations: Option<u32>,
    /// Only series, or cells (SERIES/ITERATION), that match this pattern.
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Option<String>,
}
