//! How a testbed accounts for packets, and the ledgers of a run that follow: which of its counters
//! are counting points, which are losses, and what the DUT names of them.
//!
//! Plain values and arithmetic. Nothing here reads a counter.

use crate::counters::{self, Counters, DropRule, Place, PointRule};
use crate::ledger::{self, MissingPoint};
use crate::record::{Check, Drop, Ledger};
use crate::verdict::OPINION_MAX;

/// How the drops are called that are packets for the DUT itself, by every driver.
const LOCAL_DELIVERY: &str = "_delivered_locally";

/// How the counters of a testbed account for a packet's way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accounting {
    /// Counting points in the order of a packet's way.
    pub points: Vec<PointRule>,
    /// Named losses that the testbed's counters show.
    pub drops: Vec<DropRule>,
    /// Gaps between two counting points that are a loss of the place between them, although no
    /// counter names it.
    pub gaps: Vec<Gap>,
    /// How many more frames a counting point may have than the one before it, as a share of what
    /// was offered: what else its links carry.
    pub stray_ratio_max: f64,
    /// Whether the DUT's network stack carries more than the traffic: the connection that it is
    /// managed over. What it delivers to itself is no loss of the traffic then.
    pub shares_stack: bool,
    /// How they account for each direction of a traffic with several generators. Where there are
    /// any, the counting points, losses and gaps above are empty: they are the sums of these.
    pub directions: Vec<DirectionRules>,
    /// Where what is accounted for are connections: the counters that name packets of theirs which
    /// were lost, beside those of the DUT. The points are their steps then. Where it is empty, a
    /// lost packet is sent again, and its loss no step's.
    pub connections: Option<Vec<NamedLoss>>,
    /// Counts of somebody who stands beside a counting point and has no part in the traffic.
    pub opinions: Vec<PointRule>,
}

/// How the counters of a testbed account for one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionRules {
    /// From which port of the DUT to which.
    pub name: String,
    /// Counting points in the order of a packet's way.
    pub points: Vec<PointRule>,
    /// Named losses that the testbed's counters show.
    pub drops: Vec<DropRule>,
    /// Whether what leaves the DUT this way came in by several ports, so that only the counting
    /// points from there on are about the same packets.
    pub is_merged: bool,
}

/// A counter of lost packets, each of which was one of a connection that ended with it.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedLoss {
    /// The name of the gaps that they may be of: the way on which they were lost.
    pub way: &'static str,
    /// Name and place; which step they come after is for the gaps to say.
    pub rule: DropRule,
}

/// A loss that is known by the counting points around it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The counting point before it.
    pub after: &'static str,
    /// Name in the ledger.
    pub name: &'static str,
    /// Whose loss it is.
    pub place: Place,
}

impl Gap {
    /// A gap with its name.
    pub fn new(after: &'static str, name: &'static str, place: Place) -> Self {
        Self { after, name, place }
    }
}

/// What a DUT's counters say of its losses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DutLosses {
    /// Its named losses.
    pub drops: Vec<DropRule>,
    /// Losses of the testbed, by name, that are also among them, which say more.
    pub names_drops_of: &'static [&'static str],
    /// Whether nothing but its devices can be counted.
    pub is_opaque: bool,
}

/// What a run has brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Accounted {
    /// Where its packets went.
    pub ledger: Ledger,
    /// The differences of all counters; none where one of them cannot be used.
    pub run: Counters,
    /// The ledger of each direction, where there are several.
    pub directions: Vec<Ledger>,
}

impl Accounting {
    /// The ledgers of the run between two readings of all counters; a calibration has no DUT.
    ///
    /// # Errors
    /// When a counting point has no counter, or, of connections, a loss on a device of the testbed.
    pub fn account(
        &self,
        dut: Option<&DutLosses>,
        before: &Counters,
        after: &Counters,
    ) -> Result<Accounted, MissingPoint> {
        let run = match counters::difference(before, after) {
            Ok(run) => run,
            Err(faults) => {
                let none = |_| Ledger::without_points(Vec::new());
                let directions = self.directions.iter().map(none).collect();
                let ledger = Ledger::without_points(faults);
                return Ok(Accounted { ledger, run: Counters::new(), directions });
            }
        };
        let drops = match &self.connections {
            // Those of the DUT are of packets, and name what is missing below.
            Some(_) => self.drops.clone(),
            None => self.drops(dut),
        };
        let (mut ledger, directions) = if self.directions.is_empty() {
            let strays = self.stray_ratio_max;
            (ledger::build_with_strays(&run, &self.points, &drops, strays)?, Vec::new())
        } else {
            self.by_direction(dut, &drops, &run)?
        };
        // Where nobody counts what leaves it, not all of the gap need be its loss.
        if dut.is_some_and(|dut| dut.is_opaque) && ledger.point("dut_forwarded").is_some() {
            ledger::attribute_gap(&mut ledger, "dut_received", "inside_the_dut", Place::Dut);
        }
        for &Gap { after, name, place } in &self.gaps {
            ledger::attribute_gap(&mut ledger, after, name, place);
        }
        if let Some(named) = &self.connections {
            for NamedLoss { way, rule } in named {
                let counted = rule.counters.sum(&run);
                let counted =
                    counted.ok_or_else(|| MissingPoint::of(&rule.name, &rule.counters))?;
                ledger::name_missing(&mut ledger, &[way], rule, counted);
            }
            let ways: Vec<&str> = named.iter().map(|loss| loss.way).collect();
            // Which way it was going when the DUT dropped it, its counters do not say. Without
            // ways, packets are no part of what is accounted for.
            let dut = dut.filter(|_| !ways.is_empty());
            for rule in dut.iter().flat_map(|dut| &dut.drops) {
                // Some of them exist only once they have counted.
                let counted = rule.counters.sum(&run).unwrap_or(0);
                ledger::name_missing(&mut ledger, &ways, rule, counted);
            }
        }
        Ok(Accounted { ledger, run, directions })
    }

    /// Losses that the testbed and the DUT name.
    fn drops(&self, dut: Option<&DutLosses>) -> Vec<DropRule> {
        let mut drops = self.drops.clone();
        let named_by_dut = dut.map_or(&[][..], |dut| dut.names_drops_of);
        drops.retain(|drop| !named_by_dut.contains(&drop.name.as_str()));
        drops.extend(dut.into_iter().flat_map(|dut| dut.drops.iter().cloned()));
        if self.shares_stack {
            drops.retain(|drop| !drop.name.ends_with(LOCAL_DELIVERY));
        }
        drops
    }

    /// The ledger over all directions, and that of each.
    fn by_direction(
        &self,
        dut: Option<&DutLosses>,
        drops: &[DropRule],
        run: &Counters,
    ) -> Result<(Ledger, Vec<Ledger>), MissingPoint> {
        let parts =
            self.directions.iter().map(|each| ledger::build(run, &each.points, &each.drops));
        let parts = parts.collect::<Result<Vec<Ledger>, _>>()?;
        let named_by_dut = dut.map_or(&[][..], |dut| dut.names_drops_of);
        let is_counted = |drop: &Drop| !named_by_dut.contains(&drop.name.as_str());
        let mut total = ledger::total(&parts, is_counted, run, drops);
        let shown = |(rules, part): (&DirectionRules, Ledger)| {
            let mut part = match rules.is_merged {
                true => ledger::from_point(&part, "dut_forwarded"),
                false => part,
            };
            // The DUT's counters do not tell directions apart.
            ledger::attribute_gap(&mut part, "dut_received", "inside_the_dut", Place::Dut);
            ledger::hold_against(&mut total, &rules.name, &part);
            part
        };
        let parts = self.directions.iter().zip(parts).map(shown).collect();
        Ok((total, parts))
    }

    /// Holds the counts of those who have no part in the traffic against the ledger's.
    #[must_use]
    pub fn checks(&self, ledger: &Ledger, run: &Counters) -> Vec<Check> {
        let offered = ledger.points.first().map_or(0, |p| p.packets);
        let held = |rule: &PointRule| {
            let (counted, seen) = (ledger.point(rule.name)?, rule.counters.sum(run)?);
            let apart = counted.abs_diff(seen);
            Some(Check {
                name: format!("{} beside {}", rule.counters.source, rule.name),
                passed: packets(apart) <= OPINION_MAX.value * packets(offered),
                detail: format!(
                    "{} counted {seen}, `{}` is {counted}: {apart} apart",
                    rule.counters.describe(),
                    rule.name
                ),
            })
        };
        self.opinions.iter().filter_map(held).collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn packets(count: u64) -> f64 {
    count as f64
}
