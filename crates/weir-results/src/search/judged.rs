//! What a trial says of a load, as a search sees it: of both directions, the worse one counts.
//!
//! A search looks for one rate, that of all directions together, of which each is offered an equal
//! part. A DUT that forwards one direction whole and starves the other has not forwarded the load.

use crate::record::{Ledger, TrialRecord};

/// Packets of a trial, as if all directions had done as badly as the worst.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Of all directions.
    pub offered_packets: u64,
    /// Of them, at the loss of the direction that lost most, or of all together if that is more.
    pub delivered_packets: u64,
    /// What the direction that was offered least had, as a share of an equal part, 0 to 1.
    pub least_offered_ratio: f64,
}

impl Judged {
    /// Those of a trial.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "packets of a trial are far below 2^53, and not negative"
    )]
    pub fn of(record: &TrialRecord) -> Self {
        let (offered_packets, mut delivered_packets) = ends(&record.ledger);
        // As a search takes it: a surplus is as bad as a loss.
        let lost = |offered: u64, delivered: u64| match offered {
            0 => 1.0,
            _ => (offered.abs_diff(delivered)) as f64 / offered as f64,
        };
        let mut worst = lost(offered_packets, delivered_packets);
        let mut least_offered_ratio = 1.0_f64;
        for direction in &record.directions {
            let (offered, delivered) = ends(&direction.ledger);
            let part = offered_packets as f64 / record.directions.len() as f64;
            least_offered_ratio = least_offered_ratio.min(offered as f64 / part.max(1.0));
            let loss = lost(offered, delivered);
            if loss > worst {
                worst = loss;
                let kept = offered_packets as f64 * (1.0 - worst).max(0.0);
                delivered_packets = kept.floor() as u64;
            }
        }
        Self { offered_packets, delivered_packets, least_offered_ratio }
    }
}

/// Packets that were offered, and those that were delivered.
fn ends(ledger: &Ledger) -> (u64, u64) {
    let packets = |point: Option<&crate::record::Point>| point.map_or(0, |point| point.packets);
    (packets(ledger.points.first()), packets(ledger.points.last()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Direction, Point};
    use crate::summary::fixture;

    fn ledger(offered: u64, delivered: u64) -> Ledger {
        let point = |name: &str, packets| Point { name: name.into(), packets, source: "s".into() };
        Ledger {
            points: vec![point("offered", offered), point("delivered", delivered)],
            drops: Vec::new(),
            residual_packets: 0,
            residual_ratio: 0.0,
            faults: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn judged(all: (u64, u64), each: &[(u64, u64)]) -> Judged {
        let mut record = fixture::usual().cells[0].0.clone();
        record.ledger = ledger(all.0, all.1);
        let direction = |&(offered, delivered): &(u64, u64)| Direction {
            name: "a way".into(),
            result: record.result,
            ledger: ledger(offered, delivered),
            latency: None,
        };
        record.directions = each.iter().map(direction).collect();
        Judged::of(&record)
    }

    #[test]
    fn of_both_directions_the_worse_one_counts() {
        let expected = |delivered_packets, least_offered_ratio| Judged {
            offered_packets: 2_000,
            delivered_packets,
            least_offered_ratio,
        };
        assert_eq!(judged((2_000, 1_990), &[]), expected(1_990, 1.0));
        let even = judged((2_000, 1_990), &[(1_000, 995), (1_000, 995)]);
        assert_eq!(even, expected(1_990, 1.0));
        // One lost nothing, the other a tenth: a twentieth in sum.
        let starved = judged((2_000, 1_900), &[(1_000, 1_000), (1_000, 900)]);
        assert_eq!(starved, expected(1_800, 1.0));
        // A packet too many in one hides no packet too few in the other.
        let hidden = judged((2_000, 2_000), &[(1_000, 1_010), (1_000, 990)]);
        assert_eq!(hidden, expected(1_980, 1.0));
        let uneven = judged((2_000, 2_000), &[(1_200, 1_200), (800, 800)]);
        assert_eq!(uneven, expected(2_000, 0.8));
    }
}
