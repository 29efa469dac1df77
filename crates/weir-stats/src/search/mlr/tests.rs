//! The search against devices whose capacity is known.

use proptest::prelude::*;

use super::super::goal::Preset;
use super::super::simulated::Simulated;
use super::super::{OFFER_KEPT_MIN, Standing};
use super::*;

const BUDGET: Budget = Budget { time_max_s: 1e6, trials_max: 10_000 };

fn config(goals: &[Goal]) -> Config {
    Config {
        goals: goals.to_vec(),
        min_load_pps: 1_000.0,
        max_load_pps: 2e6,
        warmup_s: None,
        budget: BUDGET,
    }
}

fn csit() -> Vec<Goal> {
    [0.0, 0.005].map(|loss| Preset::Csit.goal(loss)).to_vec()
}

/// Runs a search to its end.
fn run(config: Config, device: &mut Simulated) -> (Search, Vec<Request>) {
    let mut search = Search::new(config).expect("a search");
    let mut requests = Vec::new();
    while let Step::Trial(request) = search.next_step() {
        assert_eq!(search.next_step(), Step::Trial(request), "asked twice");
        requests.push(request);
        assert!(requests.len() < 20_000, "it does not end");
        search.feed(&device.trial(request.load_pps, request.duration_s));
    }
    (search, requests)
}

#[track_caller]
fn assert_found(result: &GoalResult, capacity_pps: f64) {
    assert_eq!(result.ending, Ending::Regular, "{result:?}");
    let (lower, upper) = (result.lower_pps.expect("lower"), result.upper_pps.expect("upper"));
    assert!(lower < upper, "{result:?}");
    assert!(upper - lower <= upper * result.goal.width_ratio * 1.000_001, "{result:?}");
    // What the device forwards without more than the loss ratio, but for a packet of rounding.
    let true_pps = capacity_pps / (1.0 - result.goal.loss_ratio);
    assert!(lower <= true_pps + 1.0 && upper >= true_pps - 1.0, "{result:?}");
}

#[test]
fn the_known_capacity_lies_between_bounds_of_the_asked_width() {
    for capacity_pps in [1_500.0, 12_345.6, 100_000.0, 999_999.0, 1_900_000.0] {
        let (search, requests) = run(config(&csit()), &mut Simulated::new(capacity_pps));
        let results = search.results();
        assert_found(&results[0], capacity_pps);
        assert_found(&results[1], capacity_pps);
        let pdr = results[1].conditional_throughput_pps.expect("one");
        assert!((pdr / capacity_pps - 1.0).abs() < 0.006, "{pdr} of {capacity_pps}");
        // 11 trials at each of a handful of loads decide a goal of 21 seconds.
        assert!(requests.len() < 140, "{} trials for {capacity_pps}", requests.len());
    }
}

#[test]
fn the_throughput_of_rfc_2544_is_a_bisection_of_full_trials() {
    let goal = Preset::Rfc2544.goal(0.0);
    let (search, requests) = run(config(&[goal]), &mut Simulated::new(345_678.0));
    assert_found(&search.results()[0], 345_678.0);
    assert!(requests.iter().all(|request| request.duration_s == 60.0));
    assert!(requests.len() < 15, "{} trials", requests.len());
    let result = &search.results()[0];
    assert_eq!(result.lower_pps, result.conditional_throughput_pps);
}

#[test]
fn short_first_trials_save_time_and_find_the_same() {
    let long = Preset::Rfc2544.goal(0.0);
    let short = Goal { initial_trial_s: Some(1.0), ..long };
    let time = |goal| {
        let (search, requests) = run(config(&[goal]), &mut Simulated::new(345_678.0));
        assert_found(&search.results()[0], 345_678.0);
        requests.iter().map(|request| request.duration_s).sum::<f64>()
    };
    assert!(time(short) < time(long) * 0.8, "{} of {}", time(short), time(long));
}

#[test]
fn a_loss_floor_leaves_no_no_drop_rate_but_a_partial_drop_rate() {
    let mut device = Simulated { loss_floor: 1e-4, ..Simulated::new(500_000.0) };
    let (search, _) = run(config(&csit()), &mut device);
    let results = search.results();
    assert_eq!(results[0].ending, Ending::MinLoadFails);
    assert_eq!((results[0].lower_pps, results[0].conditional_throughput_pps), (None, None));
    assert_eq!(results[1].ending, Ending::Regular);
    let lower = results[1].lower_pps.expect("a bound");
    assert!((lower / (500_000.0 / 0.995) - 1.0).abs() < 0.006, "{lower}");
}

#[test]
fn noise_moves_the_bounds_no_further_than_it_goes() {
    for seed in 0..20 {
        let device = Simulated { noise: 0.03, hiccups: 0.1, ..Simulated::new(400_000.0) };
        let (search, _) = run(config(&csit()), &mut device.seeded(seed));
        for result in search.results() {
            assert_eq!(result.ending, Ending::Regular, "seed {seed}: {result:?}");
            let lower = result.lower_pps.expect("a bound");
            // Half of the trials may be bad: hiccups in a tenth of them must not matter.
            let range = 400_000.0 * 0.96..400_000.0 * 1.012;
            assert!(range.contains(&lower), "seed {seed}: {lower}");
        }
    }
}

#[test]
fn without_an_exceed_ratio_one_bad_trial_condemns_a_load() {
    let mut device = Simulated { hiccups: 0.5, ..Simulated::new(400_000.0) };
    let plain = Goal { duration_sum_s: 21.0, final_trial_s: 1.0, ..Preset::Rfc2544.goal(0.0) };
    let (search, _) = run(config(&[plain]), &mut device);
    let strict = search.results()[0].lower_pps.expect("a bound");
    assert!((strict / 360_000.0 - 1.0).abs() < 0.006, "{strict}");
}

#[test]
fn a_device_that_forwards_all_is_said_to_do_so() {
    let (search, requests) = run(config(&csit()), &mut Simulated::new(5e6));
    for result in search.results() {
        assert_eq!(result.ending, Ending::MaxLoadPasses);
        assert_eq!((result.lower_pps, result.upper_pps), (Some(2e6), None));
        assert_eq!(result.conditional_throughput_pps, Some(2e6));
    }
    assert!(requests.iter().all(|request| request.load_pps == 2e6));
}

#[test]
fn what_the_sender_cannot_offer_is_not_the_devices_limit() {
    let mut device = Simulated { sender_pps: 700_000.0, ..Simulated::new(5e6) };
    let (search, _) = run(config(&csit()), &mut device);
    for result in search.results() {
        assert_eq!(result.ending, Ending::TestbedLimited, "{result:?}");
        let lower = result.lower_pps.expect("a bound");
        assert!((690_000.0..=700_000.0 / OFFER_KEPT_MIN.value).contains(&lower), "{lower}");
        assert_eq!(result.upper_pps, None);
    }
    // A device that is slower than the sender is found although the highest load cannot be offered.
    let mut device = Simulated { sender_pps: 700_000.0, ..Simulated::new(300_000.0) };
    let (search, _) = run(config(&csit()), &mut device);
    assert_found(&search.results()[0], 300_000.0);
}

#[test]
fn a_sender_that_can_do_nothing_ends_the_search() {
    let mut device = Simulated { sender_pps: 10.0, ..Simulated::new(5e6) };
    let (search, requests) = run(config(&csit()), &mut device);
    assert!(requests.len() < 50, "{}", requests.len());
    for result in search.results() {
        assert_eq!(result.ending, Ending::TestbedLimited);
        assert_eq!(result.lower_pps, None);
    }
}

#[test]
fn a_sender_that_keeps_no_rate_is_soon_found_out() {
    let mut search = Search::new(config(&csit())).expect("a search");
    let mut count = 0;
    while let Step::Trial(request) = search.next_step() {
        count += 1;
        // Held up all the time, it offers a fiftieth less than it is asked for, whatever that is.
        let mut measured = Simulated::new(5e6).trial(request.load_pps, request.duration_s);
        measured.offered_pps *= 0.98;
        search.feed(&measured);
    }
    assert!(count < 50, "{count} trials");
    assert!(search.results().iter().all(|result| result.ending == Ending::TestbedLimited));
}

#[test]
fn void_trials_are_tried_again_and_not_for_ever() {
    let mut device = Simulated { voids: 0.2, ..Simulated::new(300_000.0) };
    let (search, _) = run(config(&csit()), &mut device);
    // Three in a row are rare at a fifth.
    assert!(
        search
            .results()
            .iter()
            .all(|r| r.ending == Ending::Regular || r.ending == Ending::Stopped(Stopped::Void))
    );
    let mut device = Simulated { voids: 1.1, ..Simulated::new(300_000.0) };
    let (search, requests) = run(config(&csit()), &mut device);
    assert_eq!(requests.len(), 3);
    for result in search.results() {
        assert_eq!(result.ending, Ending::Stopped(Stopped::Void));
        assert_eq!((result.lower_pps, result.indicated_pps), (None, None));
    }
}

#[test]
fn a_search_that_is_out_of_time_or_trials_says_so_and_what_it_knows() {
    let budget = Budget { time_max_s: 30.0, trials_max: 10_000 };
    let (search, _) = run(Config { budget, ..config(&csit()) }, &mut Simulated::new(3e5));
    let results = search.results();
    assert_eq!(results[0].ending, Ending::Stopped(Stopped::Time));
    let indicated = results[0].indicated_pps.expect("a coarse stage has one");
    assert!((indicated / 3e5 - 1.0).abs() < 0.03, "{indicated}");
    let budget = Budget { time_max_s: 1e6, trials_max: 7 };
    let (search, requests) = run(Config { budget, ..config(&csit()) }, &mut Simulated::new(3e5));
    assert_eq!(requests.len(), 7);
    assert_eq!(search.results()[0].ending, Ending::Stopped(Stopped::Trials));
}

#[test]
fn the_warm_up_is_not_used() {
    let config = Config { warmup_s: Some(5.0), ..config(&csit()) };
    let mut search = Search::new(config).expect("a search");
    let warmup = Request { load_pps: 2e6, duration_s: 5.0, purpose: Purpose::Warmup };
    assert_eq!(search.next_step(), Step::Trial(warmup));
    // A cold machine loses everything.
    search.feed(&Measured {
        offered_packets: 10_000_000,
        delivered_packets: 0,
        offered_pps: 2e6,
        elapsed_s: 5.0,
        standing: Standing::Good,
    });
    let mut device = Simulated::new(5e6);
    while let Step::Trial(request) = search.next_step() {
        assert_eq!(request.purpose, Purpose::Search);
        search.feed(&device.trial(request.load_pps, request.duration_s));
    }
    assert_eq!(search.results()[0].ending, Ending::MaxLoadPasses);
}

#[test]
fn an_upper_bound_below_a_lower_one_goes_before_it() {
    // Loss inversion: bad between 300 and 310 kpps, good above up to 500.
    let goal = Preset::Rfc2544.goal(0.0);
    let mut search = Search::new(config(&[goal])).expect("a search");
    while let Step::Trial(request) = search.next_step() {
        let load = request.load_pps;
        let loses = (300e3..310e3).contains(&load) || load > 500e3;
        let capacity = if loses { load * 0.9 } else { load };
        search.feed(&Simulated::new(capacity).trial(load, request.duration_s));
    }
    let result = &search.results()[0];
    assert_eq!(result.ending, Ending::Regular);
    let (lower, upper) = (result.lower_pps.expect("lower"), result.upper_pps.expect("upper"));
    assert!((lower < upper) && (upper <= 310e3 || lower >= 310e3), "{lower} {upper}");
}

#[test]
fn bounds_that_rounding_keeps_apart_are_not_blamed_on_other_goals() {
    // Thousandths of a packet per second: 0.005 and 0.006 are further apart than the width.
    let goal = Goal { duration_sum_s: 1e6, final_trial_s: 1e6, ..Preset::Rfc2544.goal(0.0) };
    let config = Config { min_load_pps: 0.001, max_load_pps: 1.0, ..config(&[goal]) };
    let mut search = Search::new(config).expect("a search");
    while let Step::Trial(request) = search.next_step() {
        let lost = request.load_pps > 0.005_5;
        search.feed(&Measured {
            offered_packets: 1_000,
            delivered_packets: if lost { 900 } else { 1_000 },
            offered_pps: request.load_pps,
            elapsed_s: 1.0,
            standing: Standing::Good,
        });
    }
    let result = &search.results()[0];
    assert_eq!((result.lower_pps, result.upper_pps), (Some(0.005), Some(0.006)));
    assert_eq!(result.ending, Ending::Stopped(Stopped::Resolution));
    assert!(Stopped::Resolution.reason().contains("once rounded"));
}

#[test]
fn what_is_no_search_is_refused() {
    let good = config(&csit());
    for (min_load_pps, max_load_pps) in
        [(0.0, 1.0), (2.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0)]
    {
        let bad = Config { min_load_pps, max_load_pps, ..good.clone() };
        assert!(matches!(Search::new(bad), Err(ConfigError::Loads { .. })));
    }
    assert!(matches!(Search::new(config(&[])), Err(ConfigError::NoGoal)));
    let goal = Goal { loss_ratio: 2.0, ..csit()[0] };
    assert!(matches!(Search::new(config(&[goal])), Err(ConfigError::Goal(_))));
}

prop_compose! {
    fn any_goal()(
        loss_ratio in prop::sample::select(vec![0.0, 0.001, 0.005, 0.1]),
        exceed_ratio in prop::sample::select(vec![0.0, 0.25, 0.5, 0.9]),
        final_trial_s in 0.5_f64..10.0,
        whole in 1.0_f64..12.0,
        width_ratio in prop::sample::select(vec![0.001, 0.005, 0.05, 0.3]),
        initial in prop::option::of(0.05_f64..1.0),
    ) -> Goal {
        Goal {
            loss_ratio,
            exceed_ratio,
            final_trial_s,
            duration_sum_s: final_trial_s * whole,
            width_ratio,
            initial_trial_s: initial.map(|share| share * final_trial_s),
        }
    }
}

proptest! {
    #[test]
    fn any_device_is_found_within_the_width(
        goals in prop::collection::vec(any_goal(), 1..3),
        capacity in 2_000.0_f64..1.9e6,
    ) {
        let (search, _) = run(config(&goals), &mut Simulated::new(capacity));
        for result in search.results() {
            // Where the loss allows the highest load, it passes.
            if capacity / (1.0 - result.goal.loss_ratio) < 1.99e6 {
                prop_assert_eq!(result.ending, Ending::Regular);
                let true_pps = capacity / (1.0 - result.goal.loss_ratio);
                let (lower, upper) = (result.lower_pps.unwrap(), result.upper_pps.unwrap());
                prop_assert!(lower <= true_pps * 1.001 && upper >= true_pps * 0.999);
            }
        }
    }

    #[test]
    fn whatever_it_is_told_it_ends_and_bounds_never_cross(
        goals in prop::collection::vec(any_goal(), 1..4),
        answers in prop::collection::vec((0_u8..10, 0.0_f64..1.0), 1..200),
    ) {
        let mut search = Search::new(config(&goals)).expect("a search");
        let mut answers = answers.iter().cycle();
        let mut count = 0_u32;
        while let Step::Trial(request) = search.next_step() {
            count += 1;
            prop_assert!(count < 10_001);
            prop_assert!(request.load_pps >= 1_000.0 * 0.999_999);
            prop_assert!(request.load_pps <= 2e6 * 1.000_001);
            prop_assert!(search.ceiling_pps <= 2e6);
            let &(kind, share) = answers.next().expect("endless");
            let mut device = Simulated::new(request.load_pps * 2.0);
            let mut measured = device.trial(request.load_pps, request.duration_s);
            match kind {
                0 => measured.standing = Standing::Void,
                1 => measured.offered_pps *= share,
                2..=4 => measured.delivered_packets = 0,
                5 => measured.delivered_packets += 17,
                _ => {}
            }
            search.feed(&measured);
            for result in search.results() {
                if let (Some(lower), Some(upper)) = (result.lower_pps, result.upper_pps) {
                    prop_assert!(lower < upper);
                }
            }
        }
        prop_assert_eq!(search.next_step(), Step::Done);
        for result in search.results() {
            if let Some(pps) = result.conditional_throughput_pps {
                prop_assert!((0.0..=2e6 * 1.000_001).contains(&pps));
            }
        }
    }
}
