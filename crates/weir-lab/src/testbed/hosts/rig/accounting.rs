//! Which counters of the machines and switches are counting points, and which are losses.
//!
//! A counting point that no machine counts is a switch's, where one stands there.

use weir_machine::ssh::system::missed_counters;
use weir_machine::switch::{SwitchPlace, SwitchSpec};
use weir_results::counters::{DropRule, Place, PointRule, Selection};
use weir_results::verdict::STRAY_MAX;

use super::{GENERATOR, HostsRig, RECEIVER, switch_source};
use crate::testbed::{Accounting, Gap};

impl HostsRig {
    /// How the counters account for a packet's way, with what is known of the generators so far.
    pub(super) fn account_now(&self) -> Accounting {
        let points = self.points();
        Accounting {
            drops: self.drops(&points),
            gaps: gaps(&points),
            points,
            stray_ratio_max: STRAY_MAX.value,
            shares_stack: true,
            connections: None,
            directions: Vec::new(),
            opinions: self.opinions(),
        }
    }

    fn points(&self) -> Vec<PointRule> {
        let sent = |name: &str| Selection::new(GENERATOR, &[name]);
        let accepted = self.knows_accepted().then(|| sent("accepted_packets"));
        let (received, forwarded) = (self.parts.device.received(), self.parts.device.forwarded());
        let points = [
            ("offered", Some(sent("offered_packets"))),
            ("accepted", accepted.or_else(|| self.switch_point(SwitchPlace::FromGenerator))),
            ("dut_received", received.or_else(|| self.switch_point(SwitchPlace::ToDut))),
            ("dut_forwarded", forwarded.or_else(|| self.switch_point(SwitchPlace::FromDut))),
            ("delivered", Some(Selection::new(RECEIVER, &["packets"]))),
        ];
        let known = points.into_iter();
        known.filter_map(|(name, counters)| Some(PointRule { name, counters: counters? })).collect()
    }

    /// A counting point of a switch, where no machine counts.
    fn switch_point(&self, place: SwitchPlace) -> Option<Selection> {
        let counts =
            |switch: &&SwitchSpec| switch.counters.iter().any(|(counted, _)| *counted == place);
        let switch = self.parts.spec.switches.iter().find(counts)?;
        Some(Selection::new(&switch_source(&switch.name), &[place.name()]))
    }

    fn drops(&self, points: &[PointRule]) -> Vec<DropRule> {
        let mut drops = self.parts.device.drops();
        for drop in drops.iter_mut().filter(|drop| drop.after == "accepted") {
            drop.after = last_before_dut(points);
        }
        if let Some((source, system, _)) = self.receiving() {
            let after = last_before_receiver(points);
            drops.extend(missed_counters(system).into_iter().map(|counter| {
                let counters = Selection::new(&source, &[counter]);
                DropRule::new(&format!("receiver_{counter}"), after, Place::Sink, counters)
            }));
        }
        drops
    }

    fn opinions(&self) -> Vec<PointRule> {
        let switches = self.parts.spec.switches.iter();
        let rules = switches.flat_map(|switch| {
            switch.counters.iter().map(|(place, _)| PointRule {
                name: place.point(),
                counters: Selection::new(&switch_source(&switch.name), &[place.name()]),
            })
        });
        rules.collect()
    }
}

fn has(points: &[PointRule], name: &str) -> bool {
    points.iter().any(|point| point.name == name)
}

/// The last counting point before the DUT.
fn last_before_dut(points: &[PointRule]) -> &'static str {
    if has(points, "accepted") { "accepted" } else { "offered" }
}

/// The last counting point before the receiver.
fn last_before_receiver(points: &[PointRule]) -> &'static str {
    points.iter().rev().nth(1).map_or("offered", |point| point.name)
}

fn gaps(points: &[PointRule]) -> Vec<Gap> {
    let last_before_dut = last_before_dut(points);
    let mut gaps = Vec::new();
    if has(points, "accepted") {
        gaps.push(Gap::new("offered", "not_accepted", Place::Generator));
    }
    if has(points, "dut_received") {
        gaps.push(Gap::new(last_before_dut, "not_received", Place::Dut));
    }
    if has(points, "dut_forwarded") {
        let received = has(points, "dut_received");
        let before = if received { "dut_received" } else { last_before_dut };
        gaps.push(Gap::new(before, "inside_the_dut", Place::Dut));
        gaps.push(Gap::new("dut_forwarded", "after_the_dut", Place::Sink));
    } else {
        // Nobody counts what leaves the DUT: what did not arrive, and what the receiver's
        // interface did not miss, is taken to be its loss.
        gaps.push(Gap::new(last_before_receiver(points), "not_delivered", Place::Dut));
    }
    gaps
}
