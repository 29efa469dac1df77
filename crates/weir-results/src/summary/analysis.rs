//! What statistics say of a series and of a comparison, beside spread and ministat's test.
//!
//! The methods are `weir-stats`'; here their results become what `summary.json` holds. Figures of
//! packets per second are rates, shares of a mean or a median are in per cent.

use serde::{Deserialize, Serialize};
use weir_stats::comparison::{self, Pair, Question};
use weir_stats::interval::TooFew;
use weir_stats::number::percent;
use weir_stats::stopping::{self, Decision};
use weir_stats::warning::{self, Warning};
use weir_stats::welch::WelchError;
use weir_stats::{Interval, Level, median, power};

use crate::machine_use::Distance;
use crate::matrix::Campaign;
use crate::proof::{self, Claim, Ground};
use crate::record::Cost;
use crate::summary::Trial;
use crate::summary::cost::{self, CostFigure};
use crate::verdict::is_far;

/// The half width that [`SeriesAnalysis::iterations_for_one_percent`] is about.
const ONE_PERCENT: f64 = 0.01;

/// An interval of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateInterval {
    /// Lower end, in packets per second.
    pub low_pps: f64,
    /// Upper end, in packets per second.
    pub high_pps: f64,
    /// What it covers exactly, in per cent, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage_percent: Option<f64>,
}

/// Something about a series that its figures do not show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesWarning {
    /// `clusters`, `trend`, `outliers`, `no-spread`, `too-few`, `max-reached` or `moved`.
    pub kind: String,
    /// What it is.
    pub text: String,
    /// What to do about it.
    pub advice: String,
    /// The iterations that it is about, where it is about some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iterations: Vec<u32>,
}

/// Why a series has as many iterations as it has (`iterations = "auto"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// Its interval is narrow enough.
    NarrowEnough,
    /// It has had all that the specification gives it.
    MaxReached,
    /// It has not stopped yet.
    Open,
}

/// What the iterations of a series say beside their spread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesAnalysis {
    /// Level of the intervals, in per cent.
    pub confidence_percent: f64,
    /// The median's percentile bootstrap interval; absent for fewer than five values.
    pub median_bootstrap: Option<RateInterval>,
    /// The median's interval between two of the values; absent for too few values.
    pub median_exact: Option<RateInterval>,
    /// Half of the width of Student's interval of the mean, in per cent of the mean.
    pub mean_half_width_percent: Option<f64>,
    /// About how many iterations would give the mean to ±1 %.
    pub iterations_for_one_percent: Option<usize>,
    /// Why it has as many iterations as it has; absent where a number was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// Warnings, with advice.
    pub warnings: Vec<SeriesWarning>,
}

/// What may be said of two series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparisonAnalysis {
    /// `faster`, `slower`, `undecided`, `not-dut-limited` or `other-programs`.
    pub word: String,
    /// The word with its sizes, intervals and p-values.
    pub text: String,
    /// Mean of the baseline's figures that are compared.
    pub baseline_mean_pps: f64,
    /// Mean of the other's.
    pub other_mean_pps: f64,
    /// Difference of the means in per cent of the baseline's.
    pub difference_percent: f64,
    /// Lower end of its interval (Fieller), at the level at which the intervals of all comparisons
    /// hold together: where no difference is proven, it contains 0.
    pub low_percent: f64,
    /// Upper end of its interval; absent where there is none.
    pub high_percent: Option<f64>,
    /// Two-sided p-value of Welch's test.
    pub p_value: f64,
    /// The same after Holm's correction over the campaign's comparisons, which decides the word.
    pub adjusted_p_value: f64,
    /// How many comparisons that are.
    pub family_size: usize,
    /// Two-sided p-value of the Mann–Whitney test.
    pub mann_whitney_p_value: f64,
    /// The Hodges–Lehmann shift.
    pub shift_pps: f64,
    /// Lower end of its interval; absent for too few values.
    pub shift_low_pps: Option<f64>,
    /// Upper end of its interval; absent for too few values.
    pub shift_high_pps: Option<f64>,
    /// The smallest true difference, in per cent of the baseline's mean, that would have been
    /// proven with the power below.
    pub detectable_percent: f64,
    /// That power, in per cent.
    pub power_percent: f64,
}

/// What may be said of the CPU time per packet of two series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostAnalysis {
    /// `cheaper`, `dearer` or `undecided`.
    pub word: String,
    /// The word with its sizes, intervals and p-values.
    pub text: String,
    pub baseline: CostFigure,
    pub other: CostFigure,
    /// Difference of the means in per cent of the baseline's.
    pub difference_percent: f64,
    /// Lower end of its interval (Fieller), at the level at which the intervals of all costs hold
    /// together.
    pub low_percent: f64,
    /// Upper end of its interval; absent where there is none.
    pub high_percent: Option<f64>,
    /// Two-sided p-value of Welch's test after Holm's correction over the campaign's costs.
    pub adjusted_p_value: f64,
    /// How many comparisons that are.
    pub family_size: usize,
    /// Why it does not say what the rates say; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradiction: Option<String>,
}

impl ComparisonAnalysis {
    /// Whether a difference is proven; of no margin is asked here.
    pub(crate) fn is_proven(&self) -> bool {
        self.is_slower() || self.word == "faster"
    }

    /// Whether a loss is proven.
    pub(crate) fn is_slower(&self) -> bool {
        self.word == "slower"
    }
}

/// Analyses the iterations of a series, in their order.
pub(super) fn series(cells: &[&Trial], campaign: &Campaign) -> SeriesAnalysis {
    let rule = campaign.stopping_rule();
    let level = rule.map_or_else(Level::default, |rule| rule.level);
    let valid = cells.iter().filter(|(r, _)| !r.verdict.kind.is_void());
    let (numbers, values): (Vec<u32>, Vec<f64>) =
        valid.map(|(r, _)| (r.iteration, r.result.rate_pps)).unzip();
    let half_width_ratio = stopping::half_width_ratio(&values, level);
    let decision = rule.map(|rule| rule.decide(cells.len(), &values));
    let mut warnings = warnings(&values, &numbers, level);
    if let (Some(rule), Some(Decision::MaxReached)) = (rule, decision) {
        warnings.push(max_reached(&rule, &values, half_width_ratio));
    }
    warnings.extend(moved(cells));
    SeriesAnalysis {
        confidence_percent: level.percent(),
        median_bootstrap: rate_interval(median::bootstrap(&values, level), None),
        median_exact: match median::order_statistic(&values, level) {
            Ok(exact) => rate_interval(Ok(exact.interval), Some(percent(exact.coverage))),
            Err(_) => None,
        },
        mean_half_width_percent: half_width_ratio.map(|ratio| ratio * 100.0),
        iterations_for_one_percent: needed(&values, ONE_PERCENT, level),
        stopped: decision.map(|decision| match decision {
            Decision::NarrowEnough => Stopped::NarrowEnough,
            Decision::MaxReached => Stopped::MaxReached,
            Decision::Continue => Stopped::Open,
        }),
        warnings,
    }
}

/// What `values` show beside their median; `numbers` are their iterations.
pub(crate) fn warnings(values: &[f64], numbers: &[u32], level: Level) -> Vec<SeriesWarning> {
    let found = warning::warnings(values, level).into_iter().filter(matters);
    found.map(|warning| worded(&warning, numbers)).collect()
}

/// Whether a warning says more than the figures: where the bootstrap gives an interval, the lack of
/// an exact one shows in its place.
pub(crate) fn matters(warning: &Warning) -> bool {
    match warning {
        Warning::TooFew(few) => few.have < median::BOOTSTRAP_VALUES_MIN,
        _ => true,
    }
}

/// Further series that a warning names at most; the rest is counted.
const NAMED_MAX: usize = 3;

/// ` (also nft.a, nft.b and 2 more)`; empty without any.
pub(crate) fn also(others: &[&str]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let named = others.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match others.len().saturating_sub(NAMED_MAX) {
        0 => format!(" (also {named})"),
        more => format!(" (also {named} and {more} more)"),
    }
}

fn rate_interval(
    found: Result<Interval, TooFew>,
    coverage_percent: Option<f64>,
) -> Option<RateInterval> {
    let Interval { low, high } = found.ok()?;
    Some(RateInterval { low_pps: low, high_pps: high, coverage_percent })
}

/// About how many values give the mean to `half_width_ratio`.
fn needed(values: &[f64], half_width_ratio: f64, level: Level) -> Option<usize> {
    let summary = weir_stats::Summary::of(values).filter(|s| s.count > 1 && s.mean > 0.0)?;
    power::values_for_half_width(summary.stddev, half_width_ratio * summary.mean, level)
}

fn worded(warning: &Warning, numbers: &[u32]) -> SeriesWarning {
    let mut text = warning.to_string();
    let mut iterations = Vec::new();
    if let Warning::Outliers { indices, farthest_ratio } = warning {
        iterations = indices.iter().filter_map(|i| numbers.get(*i).copied()).collect();
        let names: Vec<String> = iterations.iter().map(ToString::to_string).collect();
        let (name, are) =
            if names.len() == 1 { ("iteration", "lies") } else { ("iterations", "lie") };
        text = format!(
            "{name} {} {are} far from the others, up to {:+.1} % from the median",
            names.join(", "),
            farthest_ratio * 100.0
        );
    }
    let advice = warning.advice().to_owned();
    SeriesWarning { kind: warning.kind().to_owned(), text, advice, iterations }
}

/// Whether the DUT's CPU was nearer to the generator's in some valid iterations than in others.
fn moved(cells: &[&Trial]) -> Option<SeriesWarning> {
    let valid = cells.iter().filter(|(record, _)| !record.verdict.kind.is_void());
    let distances: Vec<(u32, Distance)> = valid
        .filter_map(|(record, _)| Some((record.iteration, record.machine.as_ref()?.distance?)))
        .collect();
    let nearest_ns = distances.iter().map(|(_, d)| d.ns.min).min_by(f64::total_cmp)?;
    let farthest_ns = distances.iter().map(|(_, d)| d.ns.max).max_by(f64::total_cmp)?;
    let far = distances.iter().filter(|(_, d)| is_far(d.ns.max, nearest_ns));
    let iterations: Vec<u32> = far.map(|(iteration, _)| *iteration).collect();
    if iterations.is_empty() {
        return None;
    }
    let text = format!(
        "in {} of {} iterations a cache line took up to {farthest_ns:.0} ns from the generator's \
         CPU to the DUT's; the shortest was {nearest_ns:.0} ns",
        iterations.len(),
        distances.len()
    );
    let has_waited = distances.iter().any(|(_, distance)| distance.nearest_ns.is_some());
    let advice = if has_waited {
        "a packet costs up to twice as much over the longer distance, and the host moves the CPUs \
         of a virtual machine: have it pin them"
    } else {
        "a packet costs up to twice as much over the longer distance, and the host moves the CPUs \
         of a virtual machine: run again with --wait 10m, which waits for the shorter one, or have \
         it pin them"
    };
    let (kind, advice) = ("moved".to_owned(), advice.to_owned());
    Some(SeriesWarning { kind, text, advice, iterations })
}

fn max_reached(rule: &stopping::Rule, values: &[f64], ratio: Option<f64>) -> SeriesWarning {
    let target_percent = percent(rule.half_width_ratio);
    let reached = match ratio {
        Some(ratio) => format!("its mean is known to ±{:.2} % only", ratio * 100.0),
        None => "too few of its iterations are valid for an interval".to_owned(),
    };
    let advice = match rule.values_expected(values) {
        Some(count) => format!(
            "about {count} valid iterations would do if the spread stays as it is: raise `max`, \
             or find out what makes the device so uneven"
        ),
        None => "look at why iterations are invalid before running more of them".to_owned(),
    };
    SeriesWarning {
        kind: "max-reached".to_owned(),
        text: format!(
            "after all of its {} iterations {reached}, not to ±{target_percent:.2} %",
            rule.runs_max
        ),
        advice,
        iterations: Vec::new(),
    }
}

/// The figures of a series that may prove something, and what their trials say of them.
pub(super) type Side = (Vec<f64>, Ground);

/// Compares pairs of series, which are one family, in their order; the reason where one cannot be.
pub(super) fn comparisons(
    pairs: &[(Side, Side)],
    level: Level,
) -> Vec<Result<ComparisonAnalysis, WelchError>> {
    // Without a margin no question can be refused.
    let Ok(question) = Question::new(level, None) else {
        return Vec::new();
    };
    let values: Vec<Pair<'_>> =
        pairs.iter().map(|((a, _), (b, _))| Pair { baseline: a, other: b }).collect();
    let found = comparison::family(&values, &question).into_iter().zip(pairs);
    let analyse = |(found, ((_, a), (_, b))): (Result<comparison::Comparison, _>, &(_, _))| {
        found.map(|found| analysis(&found, proof::of_rates(&found, (a, b), None)))
    };
    found.map(analyse).collect()
}

/// Compares the costs of the same pairs, which are a family of their own; `rates` are what is said
/// of their rates.
pub(super) fn costs(
    pairs: &[(Vec<Cost>, Vec<Cost>)],
    rates: &[Result<ComparisonAnalysis, WelchError>],
    level: Level,
) -> Vec<Option<CostAnalysis>> {
    let Ok(question) = Question::new(level, None) else {
        return Vec::new();
    };
    let mut results = cost::family(pairs, &question).into_iter();
    let analyse = |(pair, rate): (&(Vec<Cost>, Vec<Cost>), &Result<ComparisonAnalysis, _>)| {
        let comparison = results.next()??.ok()?;
        let (baseline, other) = (CostFigure::of(&pair.0)?, CostFigure::of(&pair.1)?);
        let word = comparison.word.name();
        let contradiction = |rate: &ComparisonAnalysis| {
            cost::contradiction((&rate.word, word), (&baseline, &other))
        };
        let relative = comparison.relative;
        Some(CostAnalysis {
            word: word.to_owned(),
            text: comparison.to_string(),
            contradiction: rate.as_ref().ok().and_then(contradiction),
            baseline,
            other,
            difference_percent: relative.value * 100.0,
            low_percent: relative.interval.low * 100.0,
            high_percent: Some(relative.interval.high * 100.0).filter(|high| high.is_finite()),
            adjusted_p_value: comparison.adjusted_p_value,
            family_size: comparison.family_size,
        })
    };
    pairs.iter().zip(rates).map(analyse).collect()
}

fn analysis(comparison: &comparison::Comparison, claim: Claim) -> ComparisonAnalysis {
    let relative = comparison.relative;
    let shift = comparison.shift.interval.ok();
    ComparisonAnalysis {
        word: claim.name().to_owned(),
        text: format!("{claim} ({})", comparison.evidence()),
        baseline_mean_pps: comparison.baseline.mean,
        other_mean_pps: comparison.other.mean,
        difference_percent: relative.value * 100.0,
        low_percent: relative.interval.low * 100.0,
        high_percent: Some(relative.interval.high * 100.0).filter(|high| high.is_finite()),
        p_value: comparison.p_value,
        adjusted_p_value: comparison.adjusted_p_value,
        family_size: comparison.family_size,
        mann_whitney_p_value: comparison.rank.p_value,
        shift_pps: comparison.shift.shift,
        shift_low_pps: shift.map(|s| s.low),
        shift_high_pps: shift.map(|s| s.high),
        detectable_percent: comparison.detectable_ratio * 100.0,
        power_percent: power::POWER * 100.0,
    }
}

#[cfg(test)]
mod tests;
