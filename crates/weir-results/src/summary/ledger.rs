//! The ledger of a series: the median of every entry over the iterations.

use crate::record::{Drop, Ledger, Point};
use crate::summary::LedgerSummary;

/// The median ledger; `None` without any. A counter that an iteration lacks counts as 0 there.
pub(super) fn median(ledgers: &[&Ledger]) -> Option<LedgerSummary> {
    let first = ledgers.first()?;
    let points: Vec<Point> = first
        .points
        .iter()
        .map(|point| {
            let counted = |l: &&Ledger| {
                l.points.iter().find(|p| p.name == point.name).map_or(0, |p| p.packets)
            };
            Point { packets: median_of(ledgers.iter().map(counted).collect()), ..point.clone() }
        })
        .collect();
    let residual_packets = median_of(ledgers.iter().map(|l| l.residual_packets).collect());
    let mut ratios: Vec<f64> = ledgers.iter().map(|l| l.residual_ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let (lower, upper) = (ratios[(ratios.len() - 1) / 2], ratios[ratios.len() / 2]);
    Some(LedgerSummary {
        points,
        drops: drops(ledgers),
        residual_packets,
        residual_ratio: f64::midpoint(lower, upper),
    })
}

/// Every named loss of any of the ledgers, those of the first counting points first.
fn drops(ledgers: &[&Ledger]) -> Vec<Drop> {
    let mut found: Vec<&Drop> = Vec::new();
    for drop in ledgers.iter().flat_map(|l| &l.drops) {
        if !found.iter().any(|d| same(d, drop)) {
            found.push(drop);
        }
    }
    let rank =
        |d: &Drop| ledgers[0].points.iter().position(|p| p.name == d.after).unwrap_or(usize::MAX);
    found.sort_by_key(|d| rank(d));
    found
        .into_iter()
        .map(|drop| {
            let packets =
                |l: &&Ledger| l.drops.iter().filter(|d| same(d, drop)).map(|d| d.packets).sum();
            Drop { packets: median_of(ledgers.iter().map(packets).collect()), ..drop.clone() }
        })
        .collect()
}

fn same(a: &Drop, b: &Drop) -> bool {
    a.name == b.name && a.after == b.after && a.place == b.place
}

/// The median of counts, the mean of a middle pair rounded down.
pub(super) fn median_of(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    let Some(&upper) = counts.get(counts.len() / 2) else {
        return 0;
    };
    counts[(counts.len() - 1) / 2].midpoint(upper)
}
