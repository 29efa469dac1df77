//! Random rulesets and packets on the reference device.

use weir_oracle::count;
use weir_oracle::device::Device;
use weir_oracle::format::TestFile;
use weir_oracle::outcome::DropReason;
use weir_oracle::random::{Case, Features, Mix};
use weir_oracle::reference::Reference;
use weir_oracle::runner;
use weir_rules::facts::Facts;
use weir_rules::optimise::{Level, optimise};

const PACKET_COUNT: usize = 60;

/// Pairs of a ruleset and a packet that a test runs in full.
const PAIR_COUNT: u64 = 9_000;

fn case_count() -> u64 {
    count::pairs(PAIR_COUNT).div_ceil(PACKET_COUNT as u64)
}

#[test]
fn cases_are_accepted_and_their_verdicts_well_mixed() {
    for features in [Features::ALL, Features::CORE] {
        let mut mix = Mix::default();
        for seed in 0..case_count() {
            Case::new(seed, &features, PACKET_COUNT).mix(&mut Reference::new(), &mut mix).unwrap();
        }
        let total = mix.out_count + mix.box_count + mix.blocked_count;
        let percent = |count: u64| count * 100 / total;
        let shares = (percent(mix.out_count), percent(mix.box_count), percent(mix.blocked_count));
        assert!(shares.0 >= 15 && shares.1 >= 5 && shares.2 >= 15, "{shares:?}");
    }
}

#[test]
fn translated_packets_come_and_are_answered() {
    let features = Features { translation_percent: 100, ..Features::ALL };
    let (mut mix, mut answered) = (Mix::default(), 0);
    for seed in 0..case_count() {
        let mut device = Reference::new();
        Case::new(seed, &features, PACKET_COUNT).mix(&mut device, &mut mix).unwrap();
        let states = device.states(0).unwrap();
        let is_answered = |state: &&weir_oracle::outcome::StateInfo| {
            state.outside.iter().any(Option::is_some) && state.packets.1 > 0
        };
        answered += states.iter().filter(is_answered).count() as u64;
    }
    let total = mix.out_count + mix.box_count + mix.blocked_count;
    assert!(mix.translated_count * 100 / total >= 10, "{mix:?}");
    assert!(answered * 3 > case_count(), "{answered} of {} cases", case_count());
}

#[test]
fn every_reason_to_drop_comes() {
    let mut drops = std::collections::BTreeMap::<DropReason, u64>::new();
    let features = Features { translation_percent: 80, ..Features::ALL };
    for seed in 0..case_count() * 8 {
        let case = Case::new(seed, &features, PACKET_COUNT);
        let mut device = Reference::new();
        case.mix(&mut device, &mut Mix::default()).unwrap();
        for (reason, count) in device.counters(0).unwrap().drops {
            *drops.entry(reason).or_insert(0) += count;
        }
    }
    for reason in [
        DropReason::Match,
        DropReason::Fragment,
        DropReason::Short,
        DropReason::Normalize,
        DropReason::IpOption,
        DropReason::ProtoCksum,
        DropReason::StateMismatch,
        DropReason::StateLimit,
        DropReason::SrcLimit,
        DropReason::MapFailed,
    ] {
        assert!(drops.get(&reason).is_some_and(|count| *count >= 3), "{reason}: {drops:?}");
    }
}

#[test]
fn states_come_and_are_hit() {
    let (mut inserts, mut packets) = (0, 0);
    for seed in 0..case_count() {
        let case = Case::new(seed, &Features::CORE, PACKET_COUNT);
        let mut device = Reference::new();
        case.mix(&mut device, &mut Mix::default()).unwrap();
        inserts += device.counters(0).unwrap().inserts;
        let states = device.states(0).unwrap();
        packets += states.iter().map(|state| state.packets.0 + state.packets.1).sum::<u64>();
    }
    assert!(inserts > case_count() && packets > 2 * inserts, "{inserts} {packets}");
}

#[test]
fn what_the_optimiser_makes_treats_packets_alike() {
    let network = Case::network().unwrap();
    let facts: &Facts = &network.facts;
    // Limits of a rule are of another rule where rules have become one.
    let features = Features { limits: false, sources: false, ..Features::ALL };
    for seed in 0..case_count() {
        let case = Case::new(seed, &features, PACKET_COUNT);
        let plain = case.compile(facts);
        let mut better = case.compile(facts);
        optimise(&mut better.ruleset, Level::Basic, facts);
        let (mut one, mut other) = (Reference::new(), Reference::new());
        let found = case.compare_as(&network, (&plain, &better), &mut one, &mut other).unwrap();
        assert!(found.is_none(), "seed {seed}: {found:#?}");
    }
}

#[test]
fn a_case_that_differs_becomes_a_packet_test() {
    let case = Case::new(3, &Features::ALL, PACKET_COUNT);
    let network = Case::network().unwrap();
    let compiled = case.compile(&network.facts);
    // The other device has no rules.
    let mut empty = compiled.clone();
    empty.ruleset = weir_rules::ir::Ruleset::default();
    let (mut one, mut other) = (Reference::new(), Reference::new());
    let found = case.compare_as(&network, (&compiled, &empty), &mut one, &mut other).unwrap();
    let test = TestFile::parse("found", &found.expect("they differ").test).unwrap();
    let differences = runner::run(&test, &mut Reference::new());
    assert!(differences.is_empty(), "{differences:?}");
}
