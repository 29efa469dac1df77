//! The balance of the ledger, on counters written by hand.

use super::*;
use crate::counters::Selection;

fn counters(pairs: &[(&str, u64)]) -> Counters {
    let values = pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
    Counters::from([("t".to_owned(), values)])
}

fn points() -> Vec<PointRule> {
    ["offered", "accepted", "delivered"]
        .into_iter()
        .map(|name| PointRule { name, counters: Selection::new("t", &[name]) })
        .collect()
}

fn drops() -> Vec<DropRule> {
    vec![
        DropRule::new("ring", "offered", Place::Dut, Selection::new("t", &["ring"])),
        DropRule::new("sink", "accepted", Place::Sink, Selection::new("t", &["sink"])),
    ]
}

#[test]
fn every_packet_accounted_for_leaves_no_residual() {
    let c = counters(&[
        ("offered", 100),
        ("accepted", 70),
        ("delivered", 69),
        ("ring", 30),
        ("sink", 1),
    ]);
    let ledger = build(&c, &points(), &drops()).unwrap();
    assert_eq!(ledger.residual_packets, 0);
    assert_eq!(ledger.lost_packets(), 31);
    assert_eq!(ledger.lost_at(Place::Dut), 30);
    let (place, share) = ledger.main_place().unwrap();
    assert_eq!(place, Place::Dut);
    assert!((share - 30.0 / 31.0).abs() < 1e-12);
    assert!(ledger.faults.is_empty());
}

#[test]
fn what_no_counter_explains_is_residual_whatever_its_sign() {
    let c = counters(&[
        ("offered", 100),
        ("accepted", 70),
        ("delivered", 60),
        ("ring", 25),
        ("sink", 15),
    ]);
    let ledger = build(&c, &points(), &drops()).unwrap();
    // 5 lost without a name, and 5 named that were not lost: they must not cancel out.
    assert_eq!(ledger.residual_packets, 10);
    assert!((ledger.residual_ratio - 0.1).abs() < 1e-12);
}

#[test]
fn negative_loss_is_a_fault_and_is_not_hidden() {
    let c = counters(&[
        ("offered", 100),
        ("accepted", 101),
        ("delivered", 101),
        ("ring", 0),
        ("sink", 0),
    ]);
    let ledger = build(&c, &points(), &drops()).unwrap();
    assert_eq!(ledger.faults, ["negative loss: 101 packets accepted but only 100 offered"]);
    assert_eq!(ledger.residual_packets, 1);
    assert_eq!(ledger.lost_packets(), 0);
}

#[test]
fn a_point_without_counter_is_refused() {
    let error = build(&counters(&[("offered", 1)]), &points(), &drops()).unwrap_err();
    assert_eq!(error.to_string(), "no counter gives `accepted` (looked for t: accepted)");
}

#[test]
fn nothing_offered_and_nothing_lost_is_a_ratio_of_zero() {
    let c = counters(&[("offered", 0), ("accepted", 0), ("delivered", 0)]);
    let ledger = build(&c, &points(), &drops()).unwrap();
    assert_eq!(ledger.residual_ratio.to_bits(), 0.0_f64.to_bits());
    assert_eq!(ledger.loss_ratio().to_bits(), 0.0_f64.to_bits());
}

#[test]
fn the_gap_of_an_opaque_dut_is_its_loss_and_no_other_gap_is() {
    let c = counters(&[("offered", 100), ("accepted", 70), ("delivered", 60), ("ring", 28)]);
    let mut ledger = build(&c, &points(), &drops()).unwrap();
    assert_eq!(ledger.residual_packets, 12);
    attribute_gap(&mut ledger, "accepted", "inside_the_dut", Place::Dut);
    assert_eq!(ledger.residual_packets, 2, "the gap after `offered` stays unexplained");
    let inside = ledger.drops.last().unwrap();
    assert_eq!((inside.name.as_str(), inside.packets), ("inside_the_dut", 10));
    attribute_gap(&mut ledger, "accepted", "inside_the_dut", Place::Dut);
    assert_eq!(ledger.drops.len(), 2, "nothing is left to name");
}
