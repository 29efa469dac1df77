//! The arguments of `weir lab compare`.

use std::path::PathBuf;

use clap::Args;

use super::{JsonFlag, VerboseFlag};

pub(crate) const HELP: &str = "\
The first store is the baseline; every other one is compared with it. A store is the directory of a
campaign's, a bisection's or a rate search's results, or one that `weir lab import` has written.
Series are matched by their levels (DUT, traffic, sweep values, ...); a dimension in which each
store has one level, such as the image, is what is compared. Series without a partner are listed.

Verdicts hold for all comparisons together (Holm, at 95 %): faster, slower, equivalent within
--margin, no loss above --margin, undecided. A regression fails only if it is proven to be larger
than what is allowed, after the same correction. The DUT's CPU time per packet is compared beside
the rate by the same test: cheaper, dearer, equivalent, no rise above --margin, undecided.

Exit codes: 0 done; 1 --fail-on applies, or cells were damaged; 2 the request cannot be honoured.

Examples:
  weir lab compare results/before results/after
  weir lab compare old new --fail-on 'regression>1%' --fail-on missing
  weir lab compare old new --fail-on 'cost>1%'      a shared machine, where rates swing
  weir lab compare old new --series 'pf-*' --out compare.html
  weir lab compare old new newer --out compare       all formats, and the plots
  weir lab compare old new --json | jq '.series[] | select(.word == \"slower\").baseline.name'";

/// `weir lab compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Stores: the baseline first, then one or more others.
    #[arg(value_name = "STORE", num_args = 2.., required = true)]
    pub(crate) stores: Vec<PathBuf>,
    /// What makes the exit code 1: `regression>P%`, a proven loss of more than P % of the
    /// baseline, `cost>P%`, a proven rise of the CPU time per packet by more than P %, or
    /// `missing`, a series that another store lacks or has no valid run of; may be given for each.
    #[arg(long, value_name = "CRITERION", value_parser = criterion)]
    pub(crate) fail_on: Vec<Criterion>,
    /// Only series that match this pattern, such as 'pf-*'.
    #[arg(long, value_name = "GLOB")]
    pub(crate) series: Option<String>,
    /// The margin within which two series count as equivalent, in per cent of the baseline.
    #[arg(long, value_name = "P%", default_value = "1%", value_parser = margin)]
    pub(crate) margin: f64,
    /// Write the report: FILE.html, FILE.md or FILE.json; a name without an ending is a directory
    /// that gets all of them, and the plots as SVG, PNG and for gnuplot.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) verbose: VerboseFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// What makes the answer a no.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Criterion {
    /// A proven loss beyond this share of the baseline.
    Regression(f64),
    /// A proven rise of the CPU time per packet beyond this share of the baseline.
    Cost(f64),
    /// A series that is not everywhere.
    Missing,
}

fn criterion(text: &str) -> Result<Criterion, String> {
    let text = text.trim();
    if text == "missing" {
        return Ok(Criterion::Missing);
    }
    let bound = |name: &str| text.strip_prefix(name)?.trim_start().strip_prefix('>');
    if let Some(share) = bound("regression") {
        return percent(share).map(Criterion::Regression);
    }
    let share = bound("cost").ok_or_else(|| {
        "a criterion is `regression>P%` or `cost>P%`, such as `regression>1%`, or `missing`"
            .to_owned()
    })?;
    percent(share).map(Criterion::Cost)
}

fn margin(text: &str) -> Result<f64, String> {
    let ratio = percent(text)?;
    if ratio > 0.0 { Ok(ratio) } else { Err("a margin must be above 0 %".to_owned()) }
}

/// `1%` as 0.01.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').map(str::trim_end);
    let number =
        number.ok_or_else(|| format!("`{text}` is not a percentage: write one such as 1%"))?;
    match number.parse::<f64>() {
        Ok(value) if (0.0..100.0).contains(&value) => Ok(value / 100.0),
        _ => Err(format!("`{text}` is not a percentage from 0 % to below 100 %")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Criterion, criterion, margin};

    #[test]
    fn criteria_are_read_as_they_are_written() {
        assert_eq!(criterion("regression>1%"), Ok(Criterion::Regression(0.01)));
        assert_eq!(criterion(" regression > 0.5 % "), Ok(Criterion::Regression(0.005)));
        assert_eq!(criterion("regression>0%"), Ok(Criterion::Regression(0.0)));
        assert_eq!(criterion("cost>2%"), Ok(Criterion::Cost(0.02)));
        assert_eq!(criterion("missing"), Ok(Criterion::Missing));
        for bad in [
            "",
            "regression",
            "regression>1",
            "regression<1%",
            "regression>x%",
            "slower",
            "cost>",
            "costs>1%",
            "regression>100%",
            "regression>-1%",
            "regression>NaN%",
        ] {
            assert!(criterion(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_margin_is_above_nothing() {
        assert_eq!(margin("2%"), Ok(0.02));
        assert!(margin("0%").is_err());
        assert!(margin("2").is_err());
    }
}
