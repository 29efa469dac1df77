//! Options of `weir lab bisect`.

use std::path::PathBuf;

use clap::{Args, value_parser};
use weir_results::bisect::RUNS_MAX;
use weir_wire::units::parse_number;

use super::JsonFlag;

/// Smallest limit: three runs of each end, below which nothing can be said.
const RUNS_MIN: u64 = 6;

/// What `weir lab bisect` says behind its options.
pub(crate) const HELP: &str = "\
The list is a part of the specification: from --good to --bad, in the order in which its DUTs, or
the values of a sweep, are written. Each run is a cell on a freshly built DUT. Which candidate runs
next follows from what is known: first the ends, then the one about which least is
known; runs repeat until one place of the change has the probability that --confidence asks for.
Noise needs no setting. A candidate whose runs are invalid (it does not build, it does not start) is
skipped.

Exit codes: 0 found; 1 nothing changes by the margin or more, or it is undecided; 2 refused.

Examples:
  weir lab bisect lab.toml --good v1.2 --bad v1.9
  weir lab bisect lab.toml --good v1.2 --bad v1.9 --metric flows-4900 --margin 2%
  weir lab bisect lab.toml --good commit=3f2a91c --bad commit=b00d5e1 --out results/slow
  weir lab bisect lab.toml --good v1.2 --bad v1.9 --out results/slow --resume

docs/bisect.md has a specification that builds a commit for each run.";

/// What `weir lab bisect` is asked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct BisectArgs {
    /// The specification (lab.toml).
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// A DUT or a value of a sweep that is good; DIMENSION=NAME where that is ambiguous.
    #[arg(long, value_name = "NAME")]
    pub(crate) good: String,
    /// One of the same list that is bad.
    #[arg(long, value_name = "NAME")]
    pub(crate) bad: String,
    /// Which series of each candidate is measured: the name of one candidate's series, or a
    /// pattern for series' names with or without the candidate's part [default: the only one].
    #[arg(long, value_name = "SERIES")]
    pub(crate) metric: Option<String>,
    /// Probability that an answer needs, above 50% and below 100%.
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = confidence)]
    pub(crate) confidence: f64,
    /// The smallest change that matters, up or down, as a share of the good level.
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = margin)]
    pub(crate) margin: f64,
    /// The most runs, invalid ones included.
    #[arg(
        long,
        value_name = "N",
        default_value_t = RUNS_MAX as u64,
        value_parser = value_parser!(u64).range(RUNS_MIN..=RUNS_MAX as u64)
    )]
    pub(crate) max_runs: u64,
    /// Directory for the results [default: results/CAMPAIGN-bisect-TIME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the search in --out.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) yes: super::YesFlag,
    #[command(flatten)]
    pub(crate) wait: super::WaitFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// A share, written in per cent.
fn percent(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    match parse_number(number) {
        Ok(percent) if percent > low && percent < high => Ok(percent / 100.0),
        Ok(_) => Err(format!("it must be a percentage above {low}% and below {high}%")),
        Err(error) => Err(error.to_string()),
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    percent(text, 50.0, 100.0)
}

fn margin(text: &str) -> Result<f64, String> {
    percent(text, 0.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::{confidence, margin};

    #[test]
    fn percentages_are_shares() {
        assert_eq!(confidence("95%"), Ok(0.95));
        assert_eq!(confidence("99"), Ok(0.99));
        assert_eq!(margin("0.5%"), Ok(0.005));
        for bad in ["50%", "100%", "x", "", "%", "-95%"] {
            assert!(confidence(bad).is_err(), "{bad}");
        }
        assert!(margin("0%").is_err() && margin("100%").is_err());
    }
}
