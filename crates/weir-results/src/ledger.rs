//! The ledger: where the packets of one run of the generator went.
//!
//! It takes counter differences and the rules of the testbed and the DUT, and accounts for every
//! packet between two counting points: lost to a named counter, or residual. It never corrects a
//! number: where more packets came out of a step than went in, that is a fault and stays visible.

use crate::counters::{Counters, DropRule, Place, PointRule, Selection};
use crate::record::{Drop, Ledger, Point};

/// Builds the ledger from counter differences.
///
/// `points` are in the order of a packet's way. Drops of 0 packets are left out.
///
/// # Errors
/// Names the counting points that no counter gives.
pub fn build(
    counters: &Counters,
    points: &[PointRule],
    drops: &[DropRule],
) -> Result<Ledger, MissingPoint> {
    build_with_strays(counters, points, drops, 0.0)
}

/// As [`build`], on links that carry more than the traffic: where more came out of a step than went
/// in, but not more than `stray_ratio_max` of what was offered, the surplus is residual and no
/// fault.
///
/// # Errors
/// As [`build`].
pub fn build_with_strays(
    counters: &Counters,
    points: &[PointRule],
    drops: &[DropRule],
    stray_ratio_max: f64,
) -> Result<Ledger, MissingPoint> {
    let mut counted = Vec::with_capacity(points.len());
    for rule in points {
        let Some(packets) = rule.counters.sum(counters) else {
            return Err(MissingPoint::of(rule.name, &rule.counters));
        };
        counted.push(Point {
            name: rule.name.to_owned(),
            packets,
            source: rule.counters.describe(),
        });
    }
    Ok(balance(counted, counted_drops(counters, drops), stray_ratio_max))
}

/// The ledger of several ways at once: the sum of `parts`, which have the same counting points, and
/// `drops` that were counted for all of them together. Of the losses in the parts, those that
/// `is_counted` refuses are left out: `drops` say more of them.
///
/// Faults are those of the sum; a fault of a part may cancel out in it.
#[must_use]
pub fn total(
    parts: &[Ledger],
    is_counted: impl Fn(&Drop) -> bool,
    counters: &Counters,
    drops: &[DropRule],
) -> Ledger {
    let mut points: Vec<Point> = Vec::new();
    for (index, point) in parts.iter().flat_map(|part| part.points.iter().enumerate()) {
        match points.get_mut(index) {
            None => points.push(point.clone()),
            Some(sum) => {
                sum.packets += point.packets;
                sum.source = joined(&sum.source, &point.source);
            }
        }
    }
    let mut summed: Vec<Drop> = Vec::new();
    for drop in parts.iter().flat_map(|part| &part.drops).filter(|drop| is_counted(drop)) {
        let same =
            |d: &&mut Drop| (&d.name, &d.after, d.place) == (&drop.name, &drop.after, drop.place);
        match summed.iter_mut().find(same) {
            None => summed.push(drop.clone()),
            Some(sum) => {
                sum.packets += drop.packets;
                sum.source = joined(&sum.source, &drop.source);
            }
        }
    }
    summed.extend(counted_drops(counters, drops));
    balance(points, summed, 0.0)
}

/// Lets a sum show what is wrong with one of its parts: its faults, and a residual that cancels out
/// against another's.
pub fn hold_against(total: &mut Ledger, name: &str, part: &Ledger) {
    total.faults.extend(part.faults.iter().map(|fault| format!("{name}: {fault}")));
    total.residual_packets = total.residual_packets.max(part.residual_packets);
    total.residual_ratio =
        ratio(total.residual_packets, total.points.first().map_or(0, |p| p.packets));
}

/// Two sources of one number.
fn joined(one: &str, other: &str) -> String {
    let is_there = one.split("; ").any(|source| source == other);
    if is_there { one.to_owned() } else { format!("{one}; {other}") }
}

/// What each rule counted, without those that counted nothing.
fn counted_drops(counters: &Counters, drops: &[DropRule]) -> Vec<Drop> {
    let counted = |rule: &DropRule| {
        let packets = rule.counters.sum(counters).filter(|&p| p > 0)?;
        Some(Drop {
            name: rule.name.clone(),
            packets,
            after: rule.after.to_owned(),
            place: rule.place,
            source: rule.counters.describe(),
        })
    };
    drops.iter().filter_map(counted).collect()
}

/// The part of a ledger from the counting point `first` on; all of it where there is none.
#[must_use]
pub fn from_point(ledger: &Ledger, first: &str) -> Ledger {
    let at = ledger.points.iter().position(|point| point.name == first).unwrap_or(0);
    let points = ledger.points[at..].to_vec();
    let is_left = |drop: &&Drop| points.iter().any(|point| point.name == drop.after);
    let drops = ledger.drops.iter().filter(is_left).cloned().collect();
    balance(points, drops, 0.0)
}

/// A counting point, or a loss, whose counters do not exist on this testbed or DUT.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no counter gives `{name}` (looked for {counters})")]
pub struct MissingPoint {
    /// The point, or the loss.
    pub name: String,
    /// The counters that were looked for.
    pub counters: String,
}

impl MissingPoint {
    /// What these counters would have given.
    pub(crate) fn of(name: &str, counters: &Selection) -> Self {
        Self { name: name.to_owned(), counters: counters.describe() }
    }
}

/// Gives what is unexplained after the counting point `after` a name and a place: for a DUT that
/// shows no counters of its own, and whose devices tell how much went in and came out.
pub fn attribute_gap(ledger: &mut Ledger, after: &str, name: &str, place: Place) {
    let at = ledger.points.iter().position(|p| p.name == after);
    let pair = at.and_then(|i| Some((ledger.points.get(i)?, ledger.points.get(i + 1)?)));
    let Some((upper, lower)) = pair else { return };
    let named: u64 = ledger.drops.iter().filter(|d| d.after == after).map(|d| d.packets).sum();
    let unexplained = upper.packets.saturating_sub(lower.packets).saturating_sub(named);
    if unexplained == 0 {
        return;
    }
    let source = format!("{} − {}", upper.name, lower.name);
    ledger.drops.push(Drop {
        name: name.to_owned(),
        packets: unexplained,
        after: after.to_owned(),
        place,
        source,
    });
    let (points, drops) = (std::mem::take(&mut ledger.points), std::mem::take(&mut ledger.drops));
    // What is a fault stays one; what was none stays residual.
    let faults = std::mem::take(&mut ledger.faults);
    *ledger = Ledger { faults, ..balance(points, drops, f64::INFINITY) };
}

/// Gives what is missing on these ways the name of a counter of lost packets. No counter says after
/// which step each of them was lost: they are taken from the first steps that lack something, and
/// never more than are missing. Where it has counted more than that, not all of it was of these
/// connections, and perhaps none: a note says so.
pub(crate) fn name_missing(ledger: &mut Ledger, ways: &[&str], counter: &DropRule, counted: u64) {
    let mut left = counted;
    let mut named = Vec::new();
    for drop in ledger.drops.iter_mut().filter(|drop| ways.contains(&drop.name.as_str())) {
        let packets = left.min(drop.packets);
        if packets == 0 {
            continue;
        }
        left -= packets;
        drop.packets -= packets;
        named.push(Drop {
            name: counter.name.clone(),
            packets,
            after: drop.after.clone(),
            place: counter.place,
            source: counter.counters.describe(),
        });
    }
    ledger.drops.retain(|drop| drop.packets > 0);
    ledger.drops.extend(named);
    if left > 0 && ledger.lost_packets() > 0 {
        ledger.notes.push(format!(
            "`{}` counted {counted} packets, and at most {} of the lost connections can be due to \
             it: some of those packets were not theirs",
            counter.name,
            counted - left
        ));
    }
}

/// Holds the gaps between the points against the named drops.
fn balance(points: Vec<Point>, drops: Vec<Drop>, stray_ratio_max: f64) -> Ledger {
    let offered = points.first().map_or(0, |p| p.packets);
    let mut residual_packets = 0_u64;
    let mut faults = Vec::new();
    for pair in points.windows(2) {
        let [upper, lower] = pair else { continue };
        let named: u64 = drops.iter().filter(|d| d.after == upper.name).map(|d| d.packets).sum();
        let Some(gap) = upper.packets.checked_sub(lower.packets) else {
            if ratio(lower.packets - upper.packets, offered) > stray_ratio_max {
                faults.push(format!(
                    "negative loss: {} packets {} but only {} {}",
                    lower.packets, lower.name, upper.packets, upper.name
                ));
            }
            residual_packets += lower.packets - upper.packets + named;
            continue;
        };
        residual_packets += gap.abs_diff(named);
    }
    Ledger {
        residual_ratio: ratio(residual_packets, offered),
        points,
        drops,
        residual_packets,
        faults,
        notes: Vec::new(),
    }
}

/// `part / whole`, 0 of 0 being 0 and something of nothing being all of it.
#[expect(clippy::cast_precision_loss, reason = "packet counts stay far below 2^53")]
fn ratio(part: u64, whole: u64) -> f64 {
    match (part, whole) {
        (0, _) => 0.0,
        (_, 0) => 1.0,
        (p, w) => p as f64 / w as f64,
    }
}

impl Ledger {
    /// A ledger without points: counters that went backwards give none.
    #[must_use]
    pub fn without_points(faults: Vec<String>) -> Self {
        Self {
            points: Vec::new(),
            drops: Vec::new(),
            residual_packets: 0,
            residual_ratio: 0.0,
            faults,
            notes: Vec::new(),
        }
    }

    /// Packets at the counting point `name`.
    #[must_use]
    pub fn point(&self, name: &str) -> Option<u64> {
        self.points.iter().find(|p| p.name == name).map(|p| p.packets)
    }

    /// Packets lost between the first and the last counting point; 0 if more came out than in.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        let first = self.points.first().map_or(0, |p| p.packets);
        let last = self.points.last().map_or(0, |p| p.packets);
        first.saturating_sub(last)
    }

    /// The loss as a share of what was offered.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.lost_packets(), self.points.first().map_or(0, |p| p.packets))
    }

    /// Packets lost at `place` by named counters.
    #[must_use]
    pub(crate) fn lost_at(&self, place: Place) -> u64 {
        self.drops.iter().filter(|d| d.place == place).map(|d| d.packets).sum()
    }

    /// The place that lost most of the named losses, and its share of all lost packets.
    #[must_use]
    pub fn main_place(&self) -> Option<(Place, f64)> {
        let lost = self.lost_packets();
        [Place::Generator, Place::Dut, Place::Sink]
            .into_iter()
            .map(|place| (place, self.lost_at(place)))
            .filter(|&(_, packets)| packets > 0)
            .max_by_key(|&(_, packets)| packets)
            .map(|(place, packets)| (place, ratio(packets, lost.max(packets))))
    }
}

#[cfg(test)]
mod tests;
