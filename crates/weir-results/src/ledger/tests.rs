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

#[test]
fn two_ways_make_one_ledger_and_what_the_dut_names_replaces_what_its_devices_count() {
    let way = |source: &str, forwarded: u64| {
        let of = |name: &'static str, counter: &str| PointRule {
            name,
            counters: Selection::new(source, &[counter]),
        };
        let points = [of("offered", "o"), of("dut_received", "r"), of("delivered", "d")];
        let drops = [
            DropRule::new("ring", "offered", Place::Dut, Selection::new(source, &["ring"])),
            DropRule::new("xdp", "dut_received", Place::Dut, Selection::new(source, &["xdp"])),
        ];
        let values = [("o", 100), ("r", 90), ("ring", 10), ("xdp", 8), ("d", forwarded)];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let counted = Counters::from([(source.to_owned(), values)]);
        build(&counted, &points, &drops).unwrap()
    };
    let parts = [way("a", 82), way("b", 80)];
    assert_eq!((parts[0].residual_packets, parts[1].residual_packets), (0, 2));
    let named = DropRule::new("rule", "dut_received", Place::Dut, Selection::new("t", &["rule"]));
    let named = [named];
    let all = total(&parts, |drop| drop.name != "xdp", &counters(&[("rule", 18)]), &named);
    assert_eq!(all.point("offered"), Some(200));
    assert_eq!(all.point("delivered"), Some(162));
    assert_eq!(all.points[1].source, "a: r; b: r");
    let drops: Vec<(&str, u64)> = all.drops.iter().map(|d| (d.name.as_str(), d.packets)).collect();
    assert_eq!(drops, [("ring", 20), ("rule", 18)]);
    assert_eq!((all.residual_packets, all.faults.len()), (0, 0));

    let end = from_point(&parts[0], "dut_received");
    assert_eq!((end.points.len(), end.drops.len(), end.residual_packets), (2, 1, 0));
}
