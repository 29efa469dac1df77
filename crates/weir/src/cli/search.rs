//! `weir lab search`: its options.

use std::path::PathBuf;

use clap::Args;
use weir_lab::model::search::parse_percent;

use super::JsonFlag;

/// Help that follows the options.
pub(crate) const HELP: &str = "\
For every DUT, sweep value and traffic of the specification, and every frame size of its [search]
table, the rate that is still forwarded: by MLRsearch (RFC 9971), with the goals of the FD.io CSIT
project unless the table or an option says otherwise. Bounds that something other than the DUT
limits are marked with >=.

Every trial is kept with its counters and verdict. A search that was interrupted continues with
--resume, or by `weir lab resume DIR`, from the trial that was running.

Examples:
  weir lab search labs/search/lab.toml
  weir lab search lab.toml --ndr --pdr 0.5% --only 'nft.*'
  weir lab search lab.toml --rfc2544 --out results/night --resume";

/// What `weir lab search` is asked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct SearchArgs {
    /// The specification (lab.toml).
    #[arg(value_name = "SPEC")]
    pub(crate) spec: PathBuf,
    /// Find the no-drop rate.
    #[arg(long)]
    pub(crate) ndr: bool,
    /// Find the rate at which this share is lost (0.5%); may be given several times.
    #[arg(long, value_name = "LOSS", value_parser = loss)]
    pub(crate) pdr: Vec<f64>,
    /// Find the throughput of RFC 2544: trials of a minute, none of which may lose a packet.
    #[arg(long)]
    pub(crate) rfc2544: bool,
    /// Only series that match this pattern.
    #[arg(long, value_name = "GLOB")]
    pub(crate) only: Option<String>,
    /// Directory for the results [default: results/CAMPAIGN-search-TIME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue the searches in --out.
    #[arg(long, requires = "out")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) yes: super::YesFlag,
    #[command(flatten)]
    pub(crate) wait: super::WaitFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// A loss ratio above 0 % and below 100 %.
fn loss(text: &str) -> Result<f64, String> {
    match parse_percent(text) {
        Some(ratio) if ratio > 0.0 && ratio < 1.0 => Ok(ratio),
        _ => Err(format!("`{text}` is not a loss above 0% and below 100%: write it as 0.5%")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_a_per_cent() {
        assert_eq!(loss("0.5%"), Ok(0.005));
        for bad in ["0.5", "0%", "100%", "-1%", ""] {
            loss(bad).expect_err(bad);
        }
    }
}
