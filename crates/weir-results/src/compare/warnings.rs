//! What the series of a comparison show beside their means: the warnings of both sides.

use weir_stats::warning::{self, Warning};

use super::{Matched, Report};
use crate::collection::CollectedSeries;
use crate::summary::analysis::matters;

/// A warning about a series of one of the collections.
#[derive(Debug, Clone, PartialEq)]
pub struct Warned<'a> {
    /// Number of the collection that the series is of.
    pub owner_index: usize,
    /// Name of the series.
    pub series: &'a str,
    /// What it shows.
    pub warning: Warning,
}

/// The warnings of all matched series, in their order, each series once.
pub(super) fn of<'a>(report: &Report<'a>) -> Vec<Warned<'a>> {
    let mut list: Vec<Warned<'a>> = Vec::new();
    let mut done: Vec<(usize, &str)> = Vec::new();
    for m in &report.matched {
        for (owner_index, series) in [(0, m.baseline), (m.other_index, m.other)] {
            // The baseline's series stands in one pair for each other collection, one behind
            // the other.
            let recent = report.collections.len() * 2;
            let name = series.name.as_str();
            if done.iter().rev().take(recent).any(|d| *d == (owner_index, name)) {
                continue;
            }
            done.push((owner_index, name));
            let warnings = of_side(report, m, series, owner_index).into_iter().filter(matters);
            let warned = |warning| Warned { owner_index, series: name, warning };
            list.extend(warnings.map(warned));
        }
    }
    list
}

fn of_side(
    report: &Report<'_>,
    m: &Matched<'_>,
    series: &CollectedSeries,
    owner: usize,
) -> Vec<Warning> {
    match &m.result {
        Ok(c) if owner == 0 => c.baseline_warnings.clone(),
        Ok(c) => c.other_warnings.clone(),
        Err(_) => warning::warnings(&series.values(), report.asked.level),
    }
}

/// Every kind of warning once: the first that there is, and the other series that have one.
pub(super) fn folded<'a>(warned: &'a [Warned<'a>]) -> Vec<(&'a Warned<'a>, Vec<&'a str>)> {
    let mut kinds: Vec<(&Warned<'_>, Vec<&str>)> = Vec::new();
    for w in warned {
        match kinds.iter_mut().find(|(first, _)| first.warning.kind() == w.warning.kind()) {
            Some((_, others)) => others.push(w.series),
            None => kinds.push((w, Vec::new())),
        }
    }
    kinds
}

/// The advice to warnings, each text once, with the kinds of warning that it is for.
pub(super) fn advice(warned: &[Warned<'_>]) -> Vec<(&'static str, &'static str)> {
    let mut advice = Vec::new();
    for w in warned {
        let one = (w.warning.kind(), w.warning.advice());
        if !advice.contains(&one) {
            advice.push(one);
        }
    }
    advice
}
