//! What to do next: stop with an answer, or measure which candidate.

use super::fit::{self, Fit, Posterior};
use super::{CONFIRM_MIN, Candidate, FOUND_DOUBT, NO_CHANGE_DOUBT, Settings, Step};

/// Of each candidate, the probability that it is bad, if anything changes.
pub(super) fn is_bad(first_bad: &[f64]) -> Vec<f64> {
    let total = first_bad.iter().sum::<f64>();
    let mut sum = 0.0;
    let mut bad: Vec<f64> = first_bad
        .iter()
        .map(|probability| {
            sum += probability;
            if total > 0.0 { (sum / total).min(1.0) } else { 0.0 }
        })
        .collect();
    if let Some(last) = bad.last_mut() {
        *last = 1.0;
    }
    bad
}

/// The next step.
pub(super) fn step(
    candidates: &[Candidate<'_>],
    posterior: &Posterior,
    fit: &Fit,
    settings: &Settings,
) -> Step {
    let spent = candidates.iter().map(|c| c.values.len()).sum::<usize>();
    let doubt = 1.0 - settings.confidence;
    let (found, none) = (doubt * FOUND_DOUBT, doubt * NO_CHANGE_DOUBT);
    if let Some(answer) = answer(candidates, posterior, found, none) {
        match unconfirmed(candidates, answer) {
            Some(index) if spent < settings.measurements_max => return Step::Measure(index),
            Some(_) => return Step::Undecided,
            None => return answer,
        }
    }
    if spent < settings.measurements_max {
        return Step::Measure(choose(candidates, posterior, fit));
    }
    let answer = answer(candidates, posterior, doubt, doubt);
    answer.filter(|a| unconfirmed(candidates, *a).is_none()).unwrap_or(Step::Undecided)
}

/// A neighbour of the change that was not measured often enough.
fn unconfirmed(candidates: &[Candidate<'_>], answer: Step) -> Option<usize> {
    let Step::Found { first, last } = answer else {
        return None;
    };
    let few = |index: &usize| candidates[*index].values.len() < CONFIRM_MIN;
    [first - 1, last].into_iter().find(few)
}

/// The answer, if one leaves no more doubt than this.
fn answer(
    candidates: &[Candidate<'_>],
    posterior: &Posterior,
    found_doubt: f64,
    no_change_doubt: f64,
) -> Option<Step> {
    if 1.0 - posterior.no_change <= no_change_doubt {
        return Some(Step::NoChange);
    }
    // A candidate that cannot be measured does not tell the hypotheses on its two sides apart.
    let mut first = 1;
    let mut sum = 0.0;
    for (index, probability) in posterior.first_bad.iter().enumerate().skip(1) {
        sum += probability;
        if candidates[index].skipped {
            continue;
        }
        if 1.0 - sum <= found_doubt {
            return Some(Step::Found { first, last: index });
        }
        (first, sum) = (index + 1, 0.0);
    }
    None
}

/// The candidate whose measurement is worth most.
fn choose(candidates: &[Candidate<'_>], posterior: &Posterior, fit: &Fit) -> usize {
    let last = candidates.len() - 1;
    let measured = |index: usize| candidates[index].values.len();
    let end = if measured(last) < measured(0) { last } else { 0 };
    let bad = is_bad(&posterior.first_bad);
    let none = posterior.no_change;
    // Variances of the yes-or-no questions: whether anything changes, and whether one is bad.
    let worth = |index: &usize| (1.0 - none) * bad[*index] * (1.0 - bad[*index]);
    let inner = (1..last).filter(|index| !candidates[*index].skipped);
    let best = inner.reduce(|best, index| {
        let (a, b) = (worth(&best), worth(&index));
        let fewer = (a - b).abs() <= 1e-12 && measured(index) < measured(best);
        if b > a + 1e-12 || fewer { index } else { best }
    });
    let Some(best) = best.filter(|best| worth(best) > none * (1.0 - none)) else {
        return end;
    };
    // A candidate is compared with the levels: they have to be known as well as it is.
    let (good, bad) = fit.sides(fit::most_probable(&posterior.first_bad));
    if good.weight.min(bad.weight) >= fit.group(best).count {
        best
    } else if good.weight <= bad.weight {
        0
    } else {
        last
    }
}
