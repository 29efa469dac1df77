//! The arguments of `weir lab plot`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::JsonFlag;

pub(crate) const HELP: &str = "\
A store is the directory of a campaign's, a bisection's or a rate search's results, or one that
`weir lab import` has written. A curve runs along a numeric dimension (flows, a sweep, an archive's
labels); a point of it is the median of a series' valid iterations. Everything else that varies
makes separate curves. The axis is logarithmic where the largest position is 100 times the smallest,
or more; its ticks are powers of two if all positions are (32Ki, 64Ki, ...), and of ten otherwise.

Examples:
  weir lab plot results/flows --out flows.svg
  weir lab plot store --x hash --out hash.png     an archive whose names say 64KBhash
  weir lab plot old new --x flows --panels dut --out flows.svg     small multiples
  weir lab plot results/cores --x cpus --ideal --out cores.svg     speed-up by CPUs
  weir lab plot results/sync --x rate --y sync_lag_p99_ms --out lag.svg
  weir lab plot results/http --x rate --y latency_p99_ns --out latency.svg
  weir lab plot store --strip --out iterations.svg                 every raw point
  weir lab plot store --out flows.gp                               flows.gp and flows.data";

/// `weir lab plot`.
#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    /// Stores; the curves of several are drawn in one figure.
    #[arg(value_name = "STORE", required = true)]
    pub(crate) stores: Vec<PathBuf>,
    /// The dimension of the horizontal axis [default: the numeric one along which
    /// curves are longest].
    #[arg(long, value_name = "DIMENSION", conflicts_with = "strip")]
    pub(crate) x: Option<String>,
    /// Draw what DUTs report of themselves by this name, instead of the figure: a column of the
    /// table of sizes in the report; or the latency: `latency_` with `min`, `p50`, `p90`, `p99`,
    /// `p99_9` or `max` and `_ns`.
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["strip", "ideal"])]
    pub(crate) y: Option<String>,
    /// The dimension that is spread over panels.
    #[arg(long, value_name = "DIMENSION", conflicts_with = "strip")]
    pub(crate) panels: Option<String>,
    /// Make the horizontal axis logarithmic.
    #[arg(long, conflicts_with_all = ["linear", "strip"])]
    pub(crate) log: bool,
    /// Make the horizontal axis linear.
    #[arg(long, conflicts_with = "strip")]
    pub(crate) linear: bool,
    /// What the error bars of a point span.
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        default_value = "range",
        conflicts_with = "strip"
    )]
    pub(crate) bars: BarsArg,
    /// Draw beside each curve the straight line from nothing through its first point: what
    /// twice as many CPUs would bring at best.
    #[arg(long, conflicts_with = "strip")]
    pub(crate) ideal: bool,
    /// Draw every raw point of every series instead of curves.
    #[arg(long)]
    pub(crate) strip: bool,
    /// Only series that match this pattern, such as 'pf-*'.
    #[arg(long, value_name = "GLOB")]
    pub(crate) series: Option<String>,
    /// The heading of the figure.
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// The words under the horizontal axis [default: the dimension].
    #[arg(long, value_name = "TEXT", conflicts_with = "strip")]
    pub(crate) x_label: Option<String>,
    /// The file: .svg, .png, or .gp for a gnuplot script with its data beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What error bars span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BarsArg {
    /// Minimum to maximum of the iterations.
    Range,
    /// The 95 % interval of the median, where there are five iterations or more.
    Interval,
    /// There are none.
    None,
}
