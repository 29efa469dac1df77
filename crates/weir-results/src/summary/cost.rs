//! CPU time per packet of two series, and what it says beside their rates.
//!
//! The test is the one of rates ([`weir_stats::comparison`]), asked of costs; all costs that are
//! read together are a family of their own. A rate is what a DUT's CPU does in its time, so that
//! rate and cost contradict each other only where that time differs: [`contradiction`] says by how
//! much. Nothing here judges a trial.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_stats::comparison::{self, Comparison, Pair, Question};
use weir_stats::welch::WelchError;

use super::Spread;
use crate::number;
use crate::record::Cost;

/// A difference of busy CPUs below this is none.
const BUSY_CPUS_APART_MIN: f64 = 0.02;

/// What a series' packets cost, over the iterations that tell it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostFigure {
    /// Iterations that it is taken over.
    pub count: usize,
    /// Median of the nanoseconds per packet.
    pub median_ns: f64,
    /// Their mean, whose difference is tested.
    pub mean_ns: f64,
    /// The part of it that is the sink's work on the DUT's CPUs: the median; absent where the sink
    /// is elsewhere.
    pub apparatus_ratio: Option<f64>,
    /// CPUs that the DUT kept busy: the median; absent where that is not known.
    pub busy_cpus: Option<f64>,
}

impl CostFigure {
    /// Over these iterations; `None` without any.
    #[must_use]
    pub fn of(costs: &[Cost]) -> Option<Self> {
        let median = |of: fn(&Cost) -> Option<f64>| {
            let values: Vec<f64> = costs.iter().filter_map(of).collect();
            Spread::of(&values)
        };
        let costs_ns = median(|cost| Some(cost.cost_ns))?;
        Some(Self {
            count: costs_ns.count,
            median_ns: costs_ns.median,
            mean_ns: costs_ns.mean,
            apparatus_ratio: median(|cost| cost.apparatus_ratio).map(|s| s.median),
            busy_cpus: median(|cost| cost.busy_cpus).map(|s| s.median),
        })
    }

    /// Whose work is in it besides the DUT's, in words; empty where nobody's is.
    #[must_use]
    pub(crate) fn apparatus(&self) -> String {
        let sink = self.apparatus_ratio.map(|ratio| format!("{} sink", number::share(ratio)));
        sink.unwrap_or_default()
    }
}

/// Compares the costs of pairs of series, which are read together: a place for each pair, `None`
/// where a side has no cost.
#[must_use]
pub fn family(
    pairs: &[(Vec<Cost>, Vec<Cost>)],
    question: &Question,
) -> Vec<Option<Result<Comparison, WelchError>>> {
    let values = |costs: &[Cost]| costs.iter().map(|cost| cost.cost_ns).collect::<Vec<f64>>();
    let has_both = |(a, b): &&(Vec<Cost>, Vec<Cost>)| !a.is_empty() && !b.is_empty();
    let tested: Vec<(Vec<f64>, Vec<f64>)> =
        pairs.iter().filter(has_both).map(|(a, b)| (values(a), values(b))).collect();
    let sets: Vec<Pair<'_>> =
        tested.iter().map(|(baseline, other)| Pair { baseline, other }).collect();
    let mut results = comparison::family(&sets, &question.of_costs()).into_iter();
    pairs.iter().map(|pair| has_both(&pair).then(|| results.next()).flatten()).collect()
}

/// Which way a word says that a value went: up, down, or not proven.
fn way(word: &str) -> i8 {
    match word {
        "faster" | "dearer" => 1,
        "slower" | "cheaper" => -1,
        _ => 0,
    }
}

/// What explains that rate and cost do not say the same; `None` where they do. The words are
/// those of the two comparisons, the figures the baseline's and the other's.
#[must_use]
pub fn contradiction(
    (rate_word, cost_word): (&str, &str),
    (baseline, other): (&CostFigure, &CostFigure),
) -> Option<String> {
    let (rate, cost) = (way(rate_word), way(cost_word));
    if rate == -cost {
        return None;
    }
    let rate = match rate {
        1 => "the rate is higher",
        -1 => "the rate is lower",
        _ => "no difference of the rate is proven",
    };
    let cost = match cost {
        1 => "a packet costs more CPU time",
        -1 => "a packet costs less CPU time",
        _ => "no difference of the CPU time per packet is proven",
    };
    let mut text = format!("{rate}, and {cost}: ");
    let (Some(before), Some(after)) = (baseline.busy_cpus, other.busy_cpus) else {
        text.push_str("how long the DUT's CPUs were idle is not recorded");
        return Some(text);
    };
    let cpus = |busy: f64| format!("{busy:.2} {}", if busy > 1.005 { "CPUs" } else { "CPU" });
    let why = if after < before - BUSY_CPUS_APART_MIN {
        "the DUT had less of its CPUs, and waited for packets or while something else had them"
    } else if after > before + BUSY_CPUS_APART_MIN {
        "the DUT had more of its CPUs, which were idle for that time before"
    } else {
        "idle time does not explain it"
    };
    // Writing to a string cannot fail.
    let _ = write!(text, "{why} (it kept {} busy, the baseline {})", cpus(after), cpus(before));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(busy_cpus: Option<f64>) -> CostFigure {
        let (median_ns, mean_ns) = (1_000.0, 1_000.0);
        CostFigure { count: 5, median_ns, mean_ns, apparatus_ratio: Some(0.3), busy_cpus }
    }

    #[test]
    fn what_rate_and_cost_say_apart_is_explained_by_idle_time() {
        let said = |words, before, after| {
            contradiction(words, (&figure(before), &figure(after))).unwrap_or_default()
        };
        for words in [("slower", "dearer"), ("faster", "cheaper"), ("undecided", "equivalent")] {
            assert_eq!(said(words, Some(1.0), Some(0.5)), "", "{words:?}");
        }
        let idle = said(("slower", "equivalent"), Some(0.93), Some(0.61));
        assert_eq!(
            idle,
            "the rate is lower, and no difference of the CPU time per packet is proven: the DUT \
             had less of its CPUs, and waited for packets or while something else had them (it \
             kept 0.61 CPU busy, the baseline 0.93 CPU)"
        );
        assert!(said(("faster", "undecided"), Some(0.5), Some(1.5)).contains("1.50 CPUs busy"));
        let same = said(("undecided", "cheaper"), Some(0.93), Some(0.93));
        assert!(same.contains("costs less CPU time: idle time does not explain it"), "{same}");
        assert!(said(("slower", "cheaper"), None, Some(1.0)).contains("is not recorded"));
    }

    #[test]
    fn costs_are_a_family_of_those_that_have_them() {
        let costs = |factor: f64| -> Vec<Cost> {
            let cost = |part: f64| Cost {
                cost_ns: factor * part,
                apparatus_ratio: Some(0.25),
                run_ns: 1,
                packets: 1,
                busy_cpus: None,
            };
            [998.0, 1_001.0, 1_000.0, 999.0, 1_002.0].map(cost).to_vec()
        };
        let question = Question::new(weir_stats::Level::P95, Some(0.01)).unwrap();
        let pairs = [
            (costs(1.0), costs(0.7)),
            (costs(1.0), Vec::new()),
            (costs(1.0), costs(1.1)),
            (costs(1.0), costs(1.0)),
        ];
        let words: Vec<&str> = family(&pairs, &question)
            .iter()
            .map(|found| found.as_ref().map_or("", |c| c.as_ref().unwrap().word.name()))
            .collect();
        assert_eq!(words, ["cheaper", "", "dearer", "equivalent"]);
        let first = family(&pairs, &question)[0].clone().unwrap().unwrap();
        assert_eq!(first.family_size, 3);
        assert!(first.word.to_string().starts_with("cheaper by at least 29."), "{}", first.word);
    }

    #[test]
    fn a_figure_names_the_sinks_part() {
        assert_eq!(figure(None).apparatus(), "30 % sink");
        assert_eq!(CostFigure::of(&[]), None);
    }
}
