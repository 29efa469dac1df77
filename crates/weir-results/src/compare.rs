//! Two or more collections compared: the first is the baseline, every other one is held against it.
//!
//! Series are matched by their levels, not by their names. A dimension in which each of two
//! collections has a single level is what is being compared (two images, say) and does not take
//! part; every other dimension that both have must agree. What has no partner, or more than one, is
//! listed and never dropped. All comparisons of a call are one family: words and the criterion for
//! failure hold for all of them together ([`weir_stats::comparison`]).
//!
//! Nothing here reads files or prints: collections in, a [`Report`] out.

mod costs;
mod document;
mod environment;
mod host;
mod json;
mod matching;
mod toggles;
mod warnings;

use weir_stats::comparison::{self, BadMargin, Comparison, Pair, Question, Word};
use weir_stats::interval::{Interval, Level};
use weir_stats::welch::{VALUES_MIN, WelchError};
use weir_stats::{Summary, median, ministat};

pub use costs::CostMatched;
pub use environment::Difference as EnvironmentDifference;
pub use host::HostChange;
pub use matching::{Changed, Unmatched};
pub use toggles::{ToggleClaim, ToggleMatched};
pub use warnings::Warned;

use crate::collection::{CollectedSeries, Collection};
use crate::document::{Cell, Document, Line};
use crate::number;
use crate::plot::Figure;
use crate::plot::collect::{self, Request};
use crate::proof::{self, Claim};

/// Series that a plot of raw points holds at most; those with the largest differences are taken.
pub(crate) const PLOTTED_MAX: usize = 40;

/// The figure of raw points.
const ITERATIONS: &str = "iterations";

/// What is compared, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// Level of every interval and word.
    pub level: Level,
    /// The margin within which two series count as equivalent, a share of the baseline's mean.
    pub margin_ratio: f64,
    /// The loss beyond which the answer is no; absent if no loss is.
    pub regression_ratio: Option<f64>,
    /// The rise of the CPU time per packet beyond which the answer is no; absent if no rise is.
    pub cost_ratio: Option<f64>,
    /// Whether a series of the baseline that another collection lacks makes the answer a no.
    pub missing_fails: bool,
}

impl Asked {
    /// The margin, if none is asked for.
    pub(crate) const MARGIN_RATIO: f64 = 0.01;
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            level: Level::P95,
            margin_ratio: Self::MARGIN_RATIO,
            regression_ratio: None,
            cost_ratio: None,
            missing_fails: false,
        }
    }
}

/// A series of the baseline and its partner.
#[derive(Debug)]
pub struct Matched<'a> {
    /// Number of the collection that it is compared with, from 1.
    pub other_index: usize,
    /// The baseline's series.
    pub baseline: &'a CollectedSeries,
    /// Its partner.
    pub other: &'a CollectedSeries,
    /// The comparison, or why there is none.
    pub result: Result<Comparison, WelchError>,
    /// What it proves; absent where there is no comparison.
    pub claim: Option<Claim>,
    /// Whether a loss beyond what is allowed is proven.
    pub regressed: bool,
    /// What packets cost the DUT in CPU time; absent where one of the two does not tell.
    pub cost: Option<CostMatched>,
}

/// Everything that is said about the collections.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was asked.
    pub asked: Asked,
    /// The collections; the first is the baseline.
    pub collections: &'a [Collection],
    /// The matched series, in the order of the baseline.
    pub matched: Vec<Matched<'a>>,
    /// Those of DUTs with a toggle on both sides, in the same order; not in the list above.
    pub toggled: Vec<ToggleMatched<'a>>,
    /// The series without a partner, with the reason.
    pub unmatched: Vec<Unmatched>,
    /// The dimensions in which whole collections differ.
    pub changed: Vec<Changed>,
    /// What differs between the environments.
    pub environment: Vec<EnvironmentDifference>,
    /// How fast the hosts were, against the baseline's, where that is known.
    pub hosts: Vec<HostChange>,
}

/// Why nothing can be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// One collection, or none.
    #[error("a comparison takes two or more collections, not {0}")]
    TooFew(usize),
    /// A margin that is none.
    #[error(transparent)]
    Margin(#[from] BadMargin),
    /// No series has a partner.
    #[error(
        "no series of `{baseline}` has a partner in any other: {example}. Series are matched by \
         their levels in the dimensions that vary: {dimensions}"
    )]
    NothingMatches {
        /// Name of the first collection.
        baseline: String,
        /// The first series without a partner, and why.
        example: String,
        /// The dimensions that occur.
        dimensions: String,
    },
}

/// Compares every collection with the first.
///
/// # Errors
/// When there is nothing to compare: see [`CompareError`].
pub fn compare(collections: &[Collection], asked: Asked) -> Result<Report<'_>, CompareError> {
    let (Some((baseline, others)), true) = (collections.split_first(), collections.len() > 1)
    else {
        return Err(CompareError::TooFew(collections.len()));
    };
    let question = Question::new(asked.level, Some(asked.margin_ratio))?;
    let (mut found, mut unmatched, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for (index, other) in others.iter().enumerate() {
        let result = matching::of(baseline, other, index + 1);
        found.extend(result.pairs);
        unmatched.extend(result.unmatched);
        changed.extend(result.changed);
    }
    if found.is_empty() {
        let example = unmatched.first().map_or_else(String::new, Unmatched::line);
        return Err(CompareError::NothingMatches {
            baseline: baseline.name.clone(),
            example,
            dimensions: collect::dimensions(collections).join(", "),
        });
    }
    // In the order of the baseline, the other collections beside each other.
    let place = |series: &CollectedSeries| {
        baseline.series.iter().position(|s| s.name == series.name).unwrap_or(usize::MAX)
    };
    found.sort_by_cached_key(|p: &matching::Pair<'_>| (place(p.baseline), p.other_index));
    let hosts = host::changes(collections);
    let (toggled, found): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|pair| toggles::both(pair).is_some());
    Ok(Report {
        matched: judged(found, &question, &asked, &hosts),
        toggled: toggles::of(&toggled, &asked, &hosts),
        hosts,
        asked,
        collections,
        unmatched,
        changed,
        environment: environment::differences(collections),
    })
}

/// The comparisons of all pairs, as one family, and the criterion for failure.
fn judged<'a>(
    pairs: Vec<matching::Pair<'a>>,
    question: &Question,
    asked: &Asked,
    hosts: &[HostChange],
) -> Vec<Matched<'a>> {
    let values: Vec<(Vec<f64>, Vec<f64>)> =
        pairs.iter().map(|p| (p.baseline.proving(), p.other.proving())).collect();
    let sets: Vec<Pair<'_>> = values.iter().map(|(a, b)| Pair { baseline: a, other: b }).collect();
    let results = comparison::family(&sets, question);
    let claim = |(pair, result): (&matching::Pair<'_>, &Result<Comparison, WelchError>)| {
        let comparison = result.as_ref().ok()?;
        if host::differs(hosts, pair.other_index) {
            return Some(Claim::HostDiffers);
        }
        let (baseline, other) = (pair.baseline.ground(), pair.other.ground());
        Some(proof::of_rates(comparison, (&baseline, &other), asked.regression_ratio))
    };
    let claims: Vec<Option<Claim>> = pairs.iter().zip(&results).map(claim).collect();
    let mut costs = costs::of(&pairs, question, (asked, hosts), &claims).into_iter();
    let is_beyond =
        |claim: &Claim| asked.regression_ratio.is_some_and(|r| claim.is_regression_beyond(r));
    let join = |((pair, result), claim): ((matching::Pair<'a>, _), Option<Claim>)| Matched {
        other_index: pair.other_index,
        baseline: pair.baseline,
        other: pair.other,
        result,
        regressed: claim.as_ref().is_some_and(is_beyond),
        claim,
        cost: costs.next().flatten(),
    };
    pairs.into_iter().zip(results).zip(claims).map(join).collect()
}

impl Matched<'_> {
    /// The word, as data has it; that of a comparison that cannot be made is `none`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.claim.as_ref().map_or("none", Claim::name)
    }

    /// Whether the baseline delivered nothing in any run, so that no share of it is a number.
    #[must_use]
    pub(crate) fn baseline_is_zero(&self) -> bool {
        let values = self.baseline.values();
        !values.is_empty() && values.iter().all(|v| v.total_cmp(&0.0).is_eq())
    }

    /// The comparison in ministat's layout; `None` with fewer than three values on a side, and
    /// where the baseline is 0, for which that layout has no numbers.
    #[must_use]
    pub fn ministat(&self) -> Option<String> {
        if self.baseline_is_zero() {
            return None;
        }
        let (a, b) = (self.baseline.values(), self.other.values());
        let sets = [
            ministat::Set { name: "baseline", values: &a },
            ministat::Set { name: "other", values: &b },
        ];
        ministat::render(&sets, &ministat::Options::default()).ok()
    }
}

/// A median with its interval, where there are values enough for one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figured {
    /// Values that count.
    pub count: usize,
    /// Their median, in the series' unit.
    pub median: f64,
    /// The bootstrap's interval of the median.
    pub interval: Option<Interval>,
}

/// The median of a series; `None` if no value counts.
#[must_use]
pub(crate) fn figured(series: &CollectedSeries, level: Level) -> Option<Figured> {
    let values = series.values();
    let summary = Summary::of(&values)?;
    Some(Figured {
        count: summary.count,
        median: summary.median,
        interval: median::bootstrap(&values, level).ok(),
    })
}

impl Report<'_> {
    /// Whether the answer is a no: a regression or a rise of the cost beyond what is allowed, or a
    /// series that is missing where that counts.
    #[must_use]
    pub fn fails(&self) -> bool {
        let costs = || self.matched.iter().filter_map(|m| m.cost.as_ref());
        self.matched.iter().any(|m| m.regressed)
            || self.toggled.iter().any(|toggled| toggled.regressed)
            || costs().any(|cost| cost.regressed)
            || (self.asked.missing_fails && self.lacks() > 0)
    }

    /// Series of the baseline that another collection lacks, or has without a run that counts.
    #[must_use]
    pub fn lacks(&self) -> usize {
        let void =
            |m: &&Matched<'_>| m.other.values().is_empty() && !m.baseline.values().is_empty();
        let unmatched = self.unmatched.iter().filter(|u| u.owner_index == 0).count();
        unmatched + self.matched.iter().filter(void).count() + toggles::lacks(self)
    }

    /// How often each word was said, in the order of [`WORDS`].
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        let count = |word: &&str| self.matched.iter().filter(|m| m.word() == *word).count();
        WORDS.iter().map(|word| (*word, count(word))).filter(|(_, count)| *count > 0).collect()
    }

    /// The answer in a sentence.
    #[must_use]
    pub fn answer(&self) -> String {
        let mut parts = Vec::new();
        if !self.matched.is_empty() {
            let counts = self.counts();
            let counts = counts.iter().map(|(word, count)| format!("{count} {}", spelled(word)));
            let counts: Vec<String> = counts.collect();
            let comparisons = number::counted_len(self.matched.len(), "comparison");
            parts.push(format!("{comparisons}: {}", counts.join(", ")));
        }
        if !self.toggled.is_empty() {
            parts.push(toggles::answer(self));
        }
        parts.join("; ")
    }

    /// The answer to what makes a failure; `None` where nothing does.
    #[must_use]
    pub fn verdict(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(ratio) = self.asked.regression_ratio {
            let regressed = self.matched.iter().filter(|m| m.regressed).count();
            // Of two settings, the cost is compared and not the rate.
            let untested = self.matched.iter().filter(|m| !is_tested(m.claim.as_ref())).count()
                + self.toggled.len();
            let loss = number::percent(ratio);
            parts.push(match regressed {
                0 => format!("no regression beyond {loss} is proven"),
                1 => format!("1 regression beyond {loss} is proven"),
                n => format!("{n} regressions beyond {loss} are proven"),
            });
            if untested > 0 {
                parts.push(format!("{untested} could not be tested"));
            }
        }
        parts.extend(self.asked.cost_ratio.map(|ratio| costs::verdict(self, ratio)));
        if self.asked.missing_fails {
            parts.push(format!("{} series of the baseline are missing", self.lacks()));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The figures: raw points of the series that differ most, and curves where there is a numeric
    /// axis. Each with a name for its file.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, Figure)> {
        let mut figures = Vec::new();
        if self.matched.is_empty() {
            return figures;
        }
        let plotted = self.plotted();
        if let Ok(mut figure) = collect::strip(&plotted) {
            let shown = self.matched.len().min(PLOTTED_MAX);
            if shown < self.matched.len() {
                let count = self.matched.len();
                figure.note = format!(
                    "The {shown} series of {count} whose medians differ most. {}",
                    figure.note
                );
            }
            figures.push((ITERATIONS, figure));
        }
        let count: usize = self.collections.iter().map(|c| c.series.len()).sum();
        if count <= collect::SERIES_MAX
            && let Ok(figure) = collect::curves(self.collections, &Request::default())
        {
            figures.push(("curves", figure));
        }
        figures
    }

    /// The collections, reduced to the matched series that differ most, under the baseline's
    /// names.
    fn plotted(&self) -> Vec<Collection> {
        let size = |m: &Matched<'_>| {
            let relative = m.result.as_ref().map_or(0.0, |c| c.relative.value.abs());
            if relative.is_finite() { relative } else { 0.0 }
        };
        let mut order: Vec<usize> = (0..self.matched.len()).collect();
        order.sort_by(|a, b| size(&self.matched[*b]).total_cmp(&size(&self.matched[*a])));
        order.truncate(PLOTTED_MAX);
        order.sort_unstable();
        let kept: Vec<&Matched<'_>> = order.iter().map(|index| &self.matched[*index]).collect();
        let reduced = |(index, collection): (usize, &Collection)| {
            let mut series: Vec<CollectedSeries> = Vec::new();
            for m in &kept {
                let matched = if index == 0 { Some(m.baseline) } else { None };
                let matched = matched.or_else(|| (m.other_index == index).then_some(m.other));
                let is_new = series.iter().all(|s| s.name != m.baseline.name);
                if let Some(matched) = matched.filter(|_| is_new) {
                    series
                        .push(CollectedSeries { name: m.baseline.name.clone(), ..matched.clone() });
                }
            }
            Collection { series, ..collection.clone() }
        };
        self.collections.iter().enumerate().map(reduced).collect()
    }

    /// What the matched series show beside their means, each series once.
    #[must_use]
    pub fn warnings(&self) -> Vec<Warned<'_>> {
        warnings::of(self)
    }

    /// Why series have no block in ministat's layout; `None` where no baseline is 0.
    fn zero_note(&self) -> Option<String> {
        let zero = self.matched.iter().filter(|m| m.baseline_is_zero());
        let names: Vec<&str> = zero.map(|m| m.baseline.name.as_str()).collect();
        let (first, rest) = names.split_first()?;
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        Some(format!("no ministat block for {first}{more}: every run of the baseline has 0"))
    }

    /// The report for people. `roots` are the collections' stores as a page links them, in their
    /// order; an empty one gives no links.
    #[must_use]
    pub fn document(&self, roots: &[String]) -> Document {
        document::document(self, roots)
    }

    /// Every comparison in ministat's layout, where it has one: title and text.
    #[must_use]
    pub fn ministat(&self) -> Vec<(String, String)> {
        document::ministat(self)
    }

    /// The report as data.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        json::value(self)
    }
}

/// The words in the order in which they are counted.
pub const WORDS: [&str; 9] = [
    "host-differs",
    "slower",
    "faster",
    "equivalent",
    "not-worse",
    "undecided",
    "other-programs",
    "not-dut-limited",
    "none",
];

/// Whether a test decides about a pair.
fn is_tested(claim: Option<&Claim>) -> bool {
    claim.is_some_and(Claim::is_tested)
}

/// A word as people read it.
fn spelled(word: &str) -> &str {
    match word {
        "not-worse" => "not worse",
        "none" => "not comparable",
        "host-differs" => "not compared, as the host differs",
        "other-programs" => "undecided beside other programs",
        "not-dut-limited" => "not the DUT's limit",
        word => word,
    }
}

/// What may be said of a pair, in words.
fn words(result: &Result<Comparison, WelchError>, claim: Option<&Claim>) -> String {
    match result {
        Ok(comparison) => match claim {
            // A word without its size would hide that nothing is known of it.
            Some(Claim::Word(Word::Undecided)) | None => {
                let ratio = comparison.detectable_ratio;
                let size =
                    if ratio.is_finite() { number::share(ratio) } else { "any size".to_owned() };
                format!("undecided (a difference of {size} would have been found)")
            }
            Some(claim) => claim.to_string(),
        },
        Err(WelchError::TooFewValues { have }) => {
            let values = if *have == 1 { "value" } else { "values" };
            format!(
                "not comparable: {have} {values} on a side, and {VALUES_MIN} are needed on each"
            )
        }
        Err(error) => format!("not comparable: {error}"),
    }
}

/// The difference of a comparison, with its interval.
fn difference_cell(result: &Result<Comparison, WelchError>) -> Cell {
    let Ok(comparison) = result else { return "–".into() };
    let (value, interval) = comparison.relative.percent();
    Cell::from(Line::new().strong(value)).under(interval).sorted(comparison.relative.value)
}

/// What a comparison says, marked where that is a regression.
fn verdict_cell(
    result: &Result<Comparison, WelchError>,
    claim: Option<&Claim>,
    regressed: bool,
) -> Cell {
    match regressed {
        true => Cell::from(Line::new().strong(words(result, claim))).style("regressed"),
        false => words(result, claim).into(),
    }
}

#[cfg(test)]
mod tests;
