use super::*;
use crate::simulated::Source;
use crate::welch::Welch;
use proptest::prelude::*;

const RULE: Rule = Rule { half_width_ratio: 0.01, level: Level::P95, values_min: 5, runs_max: 60 };

/// Runs a series until the rule stops it.
fn run(rule: &Rule, mut draw: impl FnMut() -> f64) -> Vec<f64> {
    let mut values = Vec::new();
    while rule.decide(values.len(), &values) == Decision::Continue {
        values.push(draw());
    }
    values
}

/// What many series come to.
struct Outcome {
    /// Mean of the means minus the true mean, as a share of the wanted half width.
    bias: f64,
    /// How often the final interval covers the true mean.
    coverage: f64,
    /// Iterations of a series, on average.
    iterations: f64,
}

fn simulate(rule: &Rule, series: u32, mut draw: impl FnMut() -> f64) -> Outcome {
    let (mut bias, mut covered, mut iterations) = (0.0, 0, 0);
    for _ in 0..series {
        let values = run(rule, &mut draw);
        let summary = Summary::of(&values).unwrap();
        let count = summary.count as f64;
        let t = (summary.mean - 1.0).abs() / (summary.stddev / count.sqrt());
        covered += u32::from(student_t::cdf(-t, count - 1.0) >= rule.level.alpha() / 2.0);
        bias += (summary.mean - 1.0) / rule.half_width_ratio;
        iterations += values.len();
    }
    let series = f64::from(series);
    Outcome {
        bias: bias / series,
        coverage: f64::from(covered) / series,
        iterations: iterations as f64 / series,
    }
}

/// Spreads from far under the wanted half width to far over it.
const SPREADS: [f64; 5] = [0.004, 0.008, 0.012, 0.02, 0.03];

#[test]
fn normal_series_stay_within_the_stated_bounds() {
    for spread in SPREADS {
        let mut source = Source::new(17);
        let got = simulate(&RULE, 3000, || 1.0 + spread * source.normal());
        assert!(got.bias.abs() < 0.02, "{spread}: biased by {}", got.bias);
        assert!(got.coverage >= 0.91, "{spread}: covered {}", got.coverage);
    }
}

#[test]
fn skewed_series_stay_within_the_stated_bounds() {
    for spread in SPREADS {
        let mut source = Source::new(18);
        let got = simulate(&RULE, 2000, || 1.0 - spread * (source.exponential() - 1.0));
        assert!((-0.02..0.4).contains(&got.bias), "{spread}: biased by {}", got.bias);
        assert!(got.coverage >= 0.78, "{spread}: covered {}", got.coverage);
    }
}

#[test]
fn comparisons_of_equal_series_err_at_most_as_stated() {
    for spread in [0.008, 0.015, 0.025] {
        let mut source = Source::new(19);
        let mut draw = || 1.0 + spread * source.normal();
        let errors = (0..3000)
            .filter(|_| {
                let (a, b) = (run(&RULE, &mut draw), run(&RULE, &mut draw));
                Welch::of(&a, &b).unwrap().p_value() <= 0.05
            })
            .count();
        assert!((0.03..=0.1).contains(&(errors as f64 / 3000.0)), "{spread}: {errors}");
    }
}

#[test]
fn the_time_is_spent_where_the_noise_is() {
    let mut source = Source::new(20);
    let quiet = simulate(&RULE, 300, || 1.0 + 0.004 * source.normal()).iterations;
    let noisy = simulate(&RULE, 300, || 1.0 + 0.02 * source.normal()).iterations;
    // (1.96 · 2 %/1 %)² is 15, and some for the unknown spread.
    assert!((5.0..5.3).contains(&quiet) && (14.0..20.0).contains(&noisy), "{quiet} {noisy}");
}

#[test]
fn decisions_by_hand() {
    let rule = Rule { half_width_ratio: 0.02, values_min: 3, runs_max: 6, ..RULE };
    // Deviation 1 of mean 100, n = 3: 4.303/√3 is 2.5 %; n = 4: 3.182/2 is 1.6 %.
    let values = [99.0, 100.0, 101.0];
    assert_eq!(rule.decide(3, &values), Decision::Continue);
    assert_eq!(rule.values_expected(&values), Some(4));
    assert_eq!(rule.decide(4, &[99.0, 101.0, 99.0, 101.0]), Decision::NarrowEnough);
    let expected = student_t::quantile(0.975, 2.0) / 3.0_f64.sqrt() / 100.0;
    assert!((half_width_ratio(&values, Level::P95).unwrap() - expected).abs() < 1e-12);
    // Invalid runs give no values, and make no series endless.
    assert_eq!(rule.decide(5, &values), Decision::Continue);
    assert_eq!(rule.decide(6, &values), Decision::MaxReached);
    assert_eq!(rule.decide(6, &[]), Decision::MaxReached);
    // Narrow with its last run is narrow.
    assert_eq!(rule.decide(6, &[100.0; 6]), Decision::NarrowEnough);
    assert_eq!(rule.decide(2, &[100.0; 2]), Decision::Continue);
    assert_eq!(rule.decide(5, &[0.0; 5]), Decision::Continue);
    assert_eq!(rule.values_expected(&[1.0]), None);
}

proptest! {
    #[test]
    fn narrow_is_what_the_half_width_says(
        values in prop::collection::vec(90.0_f64..110.0, 2..30), width_ratio in 0.001_f64..0.2
    ) {
        let rule = Rule { half_width_ratio: width_ratio, values_min: 2, runs_max: 1000, ..RULE };
        let half_width = half_width_ratio(&values, rule.level).unwrap();
        prop_assume!((half_width - width_ratio).abs() > 1e-9);
        let decision = rule.decide(values.len(), &values);
        prop_assert_eq!(decision == Decision::NarrowEnough, half_width < width_ratio);
    }

    #[test]
    fn every_series_ends(
        values in prop::collection::vec(0.1_f64..10.0, 100), most in 2_usize..60
    ) {
        let rule = Rule { runs_max: most, ..RULE };
        let mut left = values.into_iter();
        let run = run(&rule, || left.next().unwrap());
        prop_assert!(run.len() <= most);
    }
}
