//! Random rulesets and random packets, on the reference and on the data path.

use std::time::{Duration, Instant};

use weir_oracle::count;
use weir_oracle::device::DeviceError;
use weir_oracle::random::{Case, Disagreement, Features};

use super::device::DataPath;
use super::minimise::minimise;
use super::oracle::Oracle;
use super::with_data_path;

/// Packets of one ruleset.
const PACKET_COUNT: usize = 60;
/// Pairs of a ruleset and a packet that each test runs at least, in a full run.
const PAIR_COUNT_MIN: u64 = 50_000;
/// The same where the data path may choose: all states are read for each, to see what it has.
const CHOSEN_COUNT_MIN: u64 = 10_000;
/// How often a case is run again if the clock went on inside a run.
const TRY_COUNT: usize = 20;
/// So many cases that differ are told.
const DISAGREEMENT_COUNT_MAX: usize = 4;

/// When a soak ends, with `WEIR_SOAK_SECONDS`.
pub(crate) fn soak_end() -> Option<Instant> {
    let asked = std::env::var("WEIR_SOAK_SECONDS").ok()?;
    let seconds = asked.parse().expect("WEIR_SOAK_SECONDS is a number of seconds");
    Some(Instant::now() + Duration::from_secs(seconds))
}

/// Which cases are run: the same ones each time, and others with `WEIR_SOAK_SEED`, which
/// `make soak` draws and prints.
pub(crate) fn soak_seed() -> u64 {
    let Ok(asked) = std::env::var("WEIR_SOAK_SEED") else { return 0 };
    let seed: u32 = asked.parse().expect("WEIR_SOAK_SEED is a number of 32 bits");
    seed.into()
}

/// What was run.
#[derive(Default)]
struct Tally {
    pair_count_min: u64,
    case_count: u64,
    pair_count: u64,
    refused_count: u64,
    differing: Vec<(u64, Disagreement)>,
}

impl Tally {
    fn is_enough(&self, end: Option<Instant>) -> bool {
        let is_over = end.is_none_or(|end| Instant::now() >= end);
        let is_long = self.pair_count >= count::pairs(self.pair_count_min);
        self.differing.len() >= DISAGREEMENT_COUNT_MAX || (is_over && is_long)
    }

    /// Runs one case; again if it may have been the clock that made them differ.
    fn run(&mut self, case: &Case, seed: u64, device: &mut DataPath) -> Result<(), DeviceError> {
        let mut found = None;
        for count in 0..TRY_COUNT {
            device.is_careful = count > 0;
            found = match case.compare(&mut Oracle::new(), device) {
                Ok(found) => found,
                Err(_) if device.was_refused() => {
                    self.refused_count += 1;
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            if found.is_none() || !device.has_slipped {
                break;
            }
        }
        device.is_careful = false;
        self.case_count += 1;
        self.pair_count += case.packet_count() as u64;
        self.differing.extend(found.map(|found| (seed, found)));
        Ok(())
    }

    fn report(&self, device: &mut DataPath) -> String {
        device.is_careful = true;
        let reports = self.differing.iter().map(|(seed, found)| {
            let (at, first, second) = (&found.at, &found.first, &found.second);
            let short = minimise(&found.test, &mut Oracle::new(), device);
            format!("seed {seed}: {at}\n  reference: {first}\n  data path: {second}\n{short}")
        });
        reports.collect::<Vec<_>>().join("\n----\n")
    }
}

#[expect(clippy::print_stderr, reason = "how much was run has to be known")]
fn compare(what: &str, features: &Features, first_seed: u64, is_in_two_stages: bool) {
    with_data_path(what, |device| {
        if is_in_two_stages {
            device.use_two_stages().expect("the program loads");
        }
        let may_choose = features.translation_percent == 100
            || features.modulate_percent == 100
            || features.family_percent == 100
            || features.rewrites;
        let pair_count_min = if may_choose { CHOSEN_COUNT_MIN } else { PAIR_COUNT_MIN };
        let (mut tally, end) = (Tally { pair_count_min, ..Tally::default() }, soak_end());
        let mut seed = first_seed + soak_seed();
        while !tally.is_enough(end) {
            let case = Case::new(seed, features, PACKET_COUNT);
            if let Err(error) = tally.run(&case, seed, device) {
                panic!("seed {seed}: {error}\n{}", case.rules);
            }
            seed += 1;
        }
        eprintln!(
            "{what}: {} pairs of {} rulesets run, {} rulesets refused, {} rulesets differ",
            tally.pair_count,
            tally.case_count,
            tally.refused_count,
            tally.differing.len()
        );
        assert!(tally.differing.is_empty(), "{}", tally.report(device));
        assert_eq!(tally.refused_count, 0, "the data path refuses what it has");
        let staged_count = device.staged_count();
        assert_eq!(staged_count > 0, is_in_two_stages, "{staged_count} packets were staged");
    });
}

/// All but gateways: what has any is judged in one stage.
const ALL_BY_ROUTES: Features = Features { gateway_percent: 0, ..Features::ALL };

#[test]
fn rulesets_of_all_constructs_treat_packets_alike() {
    // Those that change packets have tests of their own.
    compare("all", &Features { rewrites: false, ..Features::ALL }, 0, false);
}

#[test]
fn rulesets_that_change_packets_treat_packets_alike() {
    compare("changes", &Features::ALL, 13 << 32, false);
}

#[test]
fn packets_are_changed_alike_in_two_stages() {
    let features = Features { returns: false, translation_percent: 0, ..ALL_BY_ROUTES };
    compare("changes-stages", &features, 17 << 32, true);
}

#[test]
fn two_stages_treat_packets_alike() {
    // Rules that answer are judged in one. From other seeds on, the same differences come up in one
    // stage: of sources that are a broadcast address, of sources that a rule that has gone limits.
    let features =
        Features { rewrites: false, returns: false, translation_percent: 0, ..ALL_BY_ROUTES };
    compare("stages", &features, 5 << 32, true);
}

#[test]
fn rulesets_that_translate_treat_packets_alike() {
    let features = Features { rewrites: false, translation_percent: 100, ..Features::ALL };
    compare("translation", &features, 9 << 32, false);
}

#[test]
fn rulesets_with_limiters_treat_packets_alike() {
    let features = Features { rewrites: false, limiter_percent: 100, ..Features::ALL };
    compare("limiters", &features, 41 << 32, false);
}

#[test]
fn rulesets_with_gateways_treat_packets_alike() {
    let features = Features { rewrites: false, gateway_percent: 100, ..Features::ALL };
    compare("gateways", &features, 21 << 32, false);
}

#[test]
fn rulesets_that_modulate_treat_packets_alike() {
    let features = Features { rewrites: false, modulate_percent: 100, ..Features::ALL };
    compare("modulation", &features, 29 << 32, false);
}

#[test]
fn rulesets_with_sockets_treat_packets_alike() {
    let features = Features { translation_percent: 0, divert_percent: 100, ..Features::ALL };
    compare("sockets", &features, 31 << 32, false);
}

#[test]
fn rulesets_that_change_families_treat_packets_alike() {
    let features = Features {
        translation_percent: 30,
        gateway_percent: 0,
        modulate_percent: 30,
        family_percent: 100,
        ..Features::ALL
    };
    compare("families", &features, 37 << 32, false);
}

#[test]
fn rulesets_that_ask_for_systems_treat_packets_alike() {
    let features = Features { rewrites: false, systems: true, ..Features::ALL };
    compare("systems", &features, 41 << 32, false);
}

#[test]
fn systems_are_seen_alike_in_two_stages() {
    let features = Features {
        systems: true,
        rewrites: false,
        returns: false,
        translation_percent: 0,
        ..ALL_BY_ROUTES
    };
    compare("systems-stages", &features, 43 << 32, true);
}

#[test]
fn rulesets_of_the_core_treat_packets_alike() {
    compare("core", &Features::CORE, 1 << 32, false);
}
