//! What the difference of two series proves of their DUTs: the one rule for campaigns, comparisons
//! of stores, and what `--fail-on` asks.
//!
//! A test of means knows numbers only. Here stands what else a proof needs. A figure that something
//! other than the DUT limited is a *lower bound* of what the DUT does: the other side can be faster
//! than the baseline if the baseline's figures are its DUT's limit, and slower if its own are. What
//! other programs had of the CPUs of one side more than of the other's may be the whole difference,
//! so that it is taken off. Nothing here changes a figure or an interval.

use std::collections::BTreeMap;
use std::fmt;

use weir_stats::Interval;
use weir_stats::comparison::{Comparison, Word};

use crate::number;
use crate::record::VerdictKind;

/// What the trials of a side say of its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Ground {
    /// Whether the DUT limited every one of them.
    pub is_dut_limited: bool,
    /// What went to other programs, by CPU: the mean over the trials, 0 to 1.
    pub foreign: BTreeMap<String, f64>,
}

impl Ground {
    /// Of trials, each with its verdict, where it has one, and with what went to other programs. An
    /// archive's run without a verdict is taken as its DUT's limit.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "numbers of trials are small")]
    pub fn of(trials: &[(Option<VerdictKind>, &BTreeMap<String, f64>)]) -> Self {
        let is_limit = |kind: Option<VerdictKind>| kind.is_none_or(VerdictKind::is_dut_limited);
        let mut foreign = BTreeMap::new();
        for (cpu, ratio) in trials.iter().flat_map(|(_, foreign)| *foreign) {
            *foreign.entry(cpu.clone()).or_insert(0.0) += ratio / trials.len() as f64;
        }
        Self { is_dut_limited: trials.iter().all(|(kind, _)| is_limit(*kind)), foreign }
    }
}

/// The bounds of what the other side had of its CPUs, as a share of what the baseline had: at most
/// 1, and at least 1.
fn had((baseline, other): (&Ground, &Ground)) -> (f64, f64) {
    let left = |side: &Ground, cpu: &str| 1.0 - side.foreign.get(cpu).copied().unwrap_or(0.0);
    let cpus = baseline.foreign.keys().chain(other.foreign.keys());
    let shares = cpus.map(|cpu| left(other, cpu) / left(baseline, cpu).max(f64::MIN_POSITIVE));
    shares.fold((1.0, 1.0), |(low, high), share| (share.min(low), share.max(high)))
}

/// What may be said of two series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Claim {
    /// The word of the test; a size in it is what is proven, rounded down as it is printed.
    Word(Word),
    /// Nothing of the DUTs: something else limited figures of at least one side.
    NotDutLimited {
        /// Whether the DUT limited the baseline's.
        baseline: bool,
        /// Whether it limited the other's.
        other: bool,
    },
    /// Nothing: it may be what other programs had of a CPU more on one side than on the other.
    OtherPrograms {
        /// That share, 0 to 1.
        ratio: f64,
    },
    /// Nothing: the two sides are from hosts that were not equally fast.
    HostDiffers,
}

impl Claim {
    /// The word alone, in data.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Word(word) => word.name(),
            Self::NotDutLimited { .. } => "not-dut-limited",
            Self::OtherPrograms { .. } => "other-programs",
            Self::HostDiffers => "host-differs",
        }
    }

    /// Whether a loss, of costs a rise, of more than `ratio` is proven.
    #[must_use]
    pub fn is_regression_beyond(&self, ratio: f64) -> bool {
        match self {
            Self::Word(Word::Slower { at_least_ratio } | Word::Dearer { at_least_ratio }) => {
                *at_least_ratio > ratio
            }
            _ => false,
        }
    }

    /// Whether the test decides, and nothing that stands in its way.
    #[must_use]
    pub const fn is_tested(&self) -> bool {
        matches!(self, Self::Word(_))
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => word.fmt(f),
            Self::NotDutLimited { baseline, other } => {
                let whose = match (baseline, other) {
                    (false, false) => "neither side's",
                    (false, true) => "the baseline's is not",
                    _ => "the other's is not",
                };
                write!(f, "not the DUT's limit ({whose})")
            }
            Self::OtherPrograms { ratio } => write!(
                f,
                "undecided (other programs had {} of a CPU more on one side)",
                number::share(*ratio)
            ),
            Self::HostDiffers => f.write_str("not compared (the host differs)"),
        }
    }
}

/// Rounded down to a hundredth of a per cent, as words print it; 0 where nothing is proven.
pub(crate) fn at_least(ratio: f64) -> f64 {
    ((ratio * 1e4).floor() / 1e4).max(0.0)
}

/// What two series of rates prove. A loss of more than `asked_ratio`, where one is asked about,
/// comes before equivalence within a wider margin.
#[must_use]
pub fn of_rates(
    comparison: &Comparison,
    (baseline, other): (&Ground, &Ground),
    asked_ratio: Option<f64>,
) -> Claim {
    let (had_min, had_max) = had((baseline, other));
    let Interval { low, high } = comparison.relative.interval;
    let loss = at_least(1.0 - (1.0 + high) / had_min);
    let gain = at_least((1.0 + low) / had_max - 1.0);
    let limited =
        Claim::NotDutLimited { baseline: baseline.is_dut_limited, other: other.is_dut_limited };
    let others = Claim::OtherPrograms { ratio: (1.0 - had_min).max(1.0 - 1.0 / had_max) };
    // A gain that nothing but the baseline's hog explains would hide a loss.
    let hides = |margin: f64| had_max - 1.0 >= margin;
    let shows = |margin: f64| 1.0 - had_min >= margin;
    match comparison.word {
        _ if other.is_dut_limited && asked_ratio.is_some_and(|asked| loss > asked) => {
            Claim::Word(Word::Slower { at_least_ratio: loss })
        }
        Word::Slower { .. } if !other.is_dut_limited => limited,
        Word::Slower { .. } if loss <= 0.0 && had_min < 1.0 => others,
        Word::Slower { .. } => Claim::Word(Word::Slower { at_least_ratio: loss }),
        _ if !baseline.is_dut_limited => limited,
        Word::Faster { .. } if gain <= 0.0 && had_max > 1.0 => others,
        Word::Faster { .. } => Claim::Word(Word::Faster { at_least_ratio: gain }),
        Word::Equivalent { margin_ratio } | Word::NotWorse { margin_ratio }
            if hides(margin_ratio) =>
        {
            others
        }
        Word::Equivalent { margin_ratio } if !other.is_dut_limited => {
            Claim::Word(Word::NotWorse { margin_ratio })
        }
        Word::Equivalent { margin_ratio } if shows(margin_ratio) => others,
        Word::Equivalent { .. } | Word::NotWorse { .. } => Claim::Word(comparison.word),
        _ if !other.is_dut_limited => limited,
        word => Claim::Word(word),
    }
}

/// What two series of costs prove, with the rise that is asked about. Costs are of the DUT,
/// whatever limited the rate, and count the DUT's CPU time alone.
#[must_use]
pub fn of_costs(comparison: &Comparison, asked_ratio: Option<f64>) -> Claim {
    let rise = at_least(comparison.relative.interval.low);
    match comparison.word {
        _ if asked_ratio.is_some_and(|asked| rise > asked) => {
            Claim::Word(Word::Dearer { at_least_ratio: rise })
        }
        Word::Dearer { .. } => Claim::Word(Word::Dearer { at_least_ratio: rise }),
        word => Claim::Word(word),
    }
}

#[cfg(test)]
mod tests {
    use weir_stats::Level;
    use weir_stats::comparison::{self, Pair, Question};

    use super::*;

    fn compared(factor: f64) -> Comparison {
        let around = |rate: f64| [0.998, 1.001, 1.0, 0.999, 1.002].map(|part| part * rate);
        let (baseline, other) = (around(1e6), around(factor * 1e6));
        let question = Question::new(Level::P95, Some(0.01)).unwrap();
        comparison::single(Pair { baseline: &baseline, other: &other }, &question).unwrap()
    }

    fn ground(is_dut_limited: bool, foreign_ratio: f64) -> Ground {
        Ground { is_dut_limited, foreign: BTreeMap::from([("1".to_owned(), foreign_ratio)]) }
    }

    fn word(factor: f64, (baseline, other): (bool, bool)) -> &'static str {
        let sides = (ground(baseline, 0.0), ground(other, 0.0));
        of_rates(&compared(factor), (&sides.0, &sides.1), None).name()
    }

    #[test]
    fn a_figure_that_the_dut_did_not_limit_is_a_lower_bound() {
        for (factor, both, baseline_alone, other_alone) in [
            (0.95, "slower", "not-dut-limited", "slower"),
            (1.05, "faster", "faster", "not-dut-limited"),
            (1.0, "equivalent", "not-worse", "not-dut-limited"),
        ] {
            assert_eq!(word(factor, (true, true)), both, "{factor}");
            assert_eq!(word(factor, (true, false)), baseline_alone, "{factor}");
            assert_eq!(word(factor, (false, true)), other_alone, "{factor}");
            assert_eq!(word(factor, (false, false)), "not-dut-limited", "{factor}");
        }
    }

    #[test]
    fn what_other_programs_had_is_taken_off() {
        let claim = |factor: f64, foreign: (f64, f64)| {
            let sides = (ground(true, foreign.0), ground(true, foreign.1));
            of_rates(&compared(factor), (&sides.0, &sides.1), Some(0.01))
        };
        // A hog below the limit of disturbance takes its share of the rate, and proves nothing.
        let hog = claim(1.0 - 0.047, (0.0, 0.047));
        assert_eq!(hog.name(), "other-programs");
        assert!(!hog.is_regression_beyond(0.01) && !hog.is_tested());
        assert!(hog.to_string().contains("4.7 % of a CPU more"), "{hog}");
        assert_eq!(claim(1.0 / (1.0 - 0.047), (0.047, 0.0)).name(), "other-programs");
        // One that both sides had proves as much as none.
        assert!(claim(0.953, (0.047, 0.047)).is_regression_beyond(0.01));
        // A loss beyond the hog's share stays, by what is left of it.
        let beyond = claim(0.8, (0.0, 0.047));
        let Claim::Word(Word::Slower { at_least_ratio }) = beyond else { panic!("{beyond:?}") };
        assert!((0.15..0.161).contains(&at_least_ratio), "{at_least_ratio}");
        // It may hide a loss, too.
        assert_eq!(claim(1.0, (0.047, 0.0)).name(), "other-programs");
    }

    #[test]
    fn the_bound_that_is_printed_decides() {
        let sides = (ground(true, 0.0), ground(true, 0.0));
        for factor in [0.97, 0.988, 0.99, 0.995] {
            for asked in [0.001, 0.005, 0.01, 0.02] {
                let claim = of_rates(&compared(factor), (&sides.0, &sides.1), Some(asked));
                let text = claim.to_string();
                let printed = text.strip_prefix("slower by at least ");
                let printed = printed.and_then(|p| p.strip_suffix(" %")?.parse::<f64>().ok());
                let beyond = printed.is_some_and(|percent| percent > asked * 100.0 + 1e-9);
                assert_eq!(claim.is_regression_beyond(asked), beyond, "{factor} {asked}: {text}");
            }
        }
    }

    #[test]
    fn one_figure_of_another_limit_makes_a_side_a_bound() {
        let none = BTreeMap::new();
        let hog = BTreeMap::from([("1".to_owned(), 0.04)]);
        let side =
            |kinds: [Option<VerdictKind>; 2]| Ground::of(&[(kinds[0], &none), (kinds[1], &hog)]);
        assert!(side([Some(VerdictKind::DutBound), Some(VerdictKind::Overloaded)]).is_dut_limited);
        assert!(side([None, None]).is_dut_limited);
        let mixed = side([Some(VerdictKind::DutBound), Some(VerdictKind::GeneratorBound)]);
        assert!(!mixed.is_dut_limited);
        assert!((mixed.foreign["1"] - 0.02).abs() < 1e-12);
    }
}
