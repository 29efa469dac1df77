use super::*;
use proptest::prelude::*;

fn close(left: Option<f64>, right: f64) -> bool {
    left.is_some_and(|left| (left - right).abs() < 1e-12)
}

#[test]
fn constant_series_are_stable() {
    for value in [0.0, 1e6, -3.0] {
        for count in [6, 30, 2500] {
            let samples = vec![value; count];
            assert_eq!(trend(&samples), Some(0.0));
            assert_eq!(level_shift(&samples), Some(0.0));
        }
    }
}

#[test]
fn too_few_samples_say_nothing() {
    assert_eq!(trend(&[1.0; 4]), None);
    assert_eq!(level_shift(&[1.0; 4]), None);
    assert_eq!(trend(&[1.0; 5]), Some(0.0));
    // Five samples cannot be split into twice three.
    assert_eq!(level_shift(&[1.0; 5]), None);
    assert_eq!(level_shift(&[1.0; 6]), Some(0.0));
    assert_eq!(trend(&[1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0]), None);
    assert_eq!(level_shift(&[1.0, 1.0, f64::INFINITY, 1.0, 1.0, 1.0]), None);
}

#[test]
fn a_straight_line_has_its_own_slope() {
    // 100 to 110 over eleven samples: 10 of the median 105.
    let rising: Vec<f64> = (0..=10).map(|n| 100.0 + f64::from(n)).collect();
    assert!(close(trend(&rising), 10.0 / 105.0));
    let falling: Vec<f64> = rising.iter().rev().copied().collect();
    assert!(close(trend(&falling), -10.0 / 105.0));
    // The largest shift splits anywhere: medians of both sides are 5.5 apart at every split.
    assert!(close(level_shift(&rising), 5.5 / 105.0));
    assert_eq!(level_shift(&falling), level_shift(&rising));
}

#[test]
fn slopes_checked_by_hand() {
    // Slopes over one step: 1, -1, 3, 1; over two: 0, 1, 2; over three: 1, 1; over four: 1. The
    // middle pair of the ten is 1 and 1. Four steps of 1, over the median 2.
    assert!(close(trend(&[1.0, 2.0, 1.0, 4.0, 5.0]), 4.0 * 1.0 / 2.0));
}

#[test]
fn a_jump_is_seen_in_full() {
    let mut samples = vec![100.0; 20];
    samples[14..].fill(80.0);
    // The right side is a clean 80 from sample 14 on, the left a clean 100; the median is 100.
    assert!(close(level_shift(&samples), 0.2));
    // A jump so near the end that a side would have under a fifth of the samples is no level.
    let mut late = vec![100.0; 20];
    late[19] = 80.0;
    assert_eq!(level_shift(&late), Some(0.0));
    assert_eq!(trend(&late), Some(0.0));
}

#[test]
fn stray_samples_move_neither() {
    let mut samples = vec![1000.0; 30];
    (samples[3], samples[17], samples[28]) = (0.0, 5000.0, 1.0);
    assert_eq!(trend(&samples), Some(0.0));
    assert_eq!(level_shift(&samples), Some(0.0));
}

#[test]
fn a_movement_over_a_median_of_zero_is_infinite() {
    let samples = [0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 9.0];
    assert_eq!(level_shift(&samples), Some(f64::INFINITY));
    let rising: Vec<f64> = (-3..=3).map(f64::from).collect();
    assert_eq!(trend(&rising), Some(f64::INFINITY));
}

#[test]
fn long_series_are_cut_into_blocks() {
    let count: u32 = 10_000;
    let samples: Vec<f64> = (0..count).map(|n| 1000.0 + f64::from(n) / 100.0).collect();
    assert_eq!(condensed(&samples).len(), SAMPLES_MAX);
    let exact = 99.99 / 1049.995;
    assert!((trend(&samples).unwrap() - exact).abs() < 1e-3 * exact + 1e-4);
    let uneven = &samples[..1001];
    assert_eq!(condensed(uneven).len(), SAMPLES_MAX);
    assert!(trend(uneven).unwrap() > 0.0 && level_shift(uneven).unwrap() > 0.0);
    assert_eq!(condensed(&samples[..1000]), &samples[..1000]);
}

/// Both measures as their definitions read, without running medians.
fn naive(samples: &[f64]) -> (Option<f64>, Option<f64>) {
    let all = summary::median(samples).unwrap();
    let n = samples.len();
    let mut slopes = Vec::new();
    let mut shifts = Vec::new();
    for i in 0..n {
        for j in i + 1..n {
            slopes.push((samples[j] - samples[i]) / (j - i) as f64);
        }
        if i >= 3 && n - i >= 3 && 5 * i >= n && 5 * (n - i) >= n {
            let left = summary::median(&samples[..i]).unwrap();
            let right = summary::median(&samples[i..]).unwrap();
            shifts.push((right - left).abs());
        }
    }
    let trend = (n >= 5).then(|| summary::median(&slopes).unwrap() * (n as f64 - 1.0) / all);
    (trend, shifts.into_iter().reduce(f64::max).map(|shift| shift / all))
}

proptest! {
    #[test]
    fn agrees_with_the_definitions(samples in prop::collection::vec(1.0_f64..1e7, 5..60)) {
        let (expected_trend, expected_shift) = naive(&samples);
        let (trend, shift) = (trend(&samples).unwrap(), level_shift(&samples));
        prop_assert!((trend - expected_trend.unwrap()).abs() <= 1e-9 * trend.abs());
        prop_assert_eq!(shift.is_some(), expected_shift.is_some());
        if let (Some(shift), Some(expected)) = (shift, expected_shift) {
            prop_assert!((shift - expected).abs() <= 1e-9 * shift);
        }
    }

    #[test]
    fn the_unit_does_not_matter(
        samples in prop::collection::vec(1.0_f64..1e7, 6..60), factor in 0.001_f64..1000.0
    ) {
        let scaled: Vec<f64> = samples.iter().map(|sample| sample * factor).collect();
        let (a, b) = (trend(&samples).unwrap(), trend(&scaled).unwrap());
        prop_assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs()));
        let (a, b) = (level_shift(&samples).unwrap(), level_shift(&scaled).unwrap());
        prop_assert!(a >= 0.0 && (a - b).abs() <= 1e-9 * (1.0 + a));
    }

    #[test]
    fn backwards_in_time_only_the_sign_turns(
        samples in prop::collection::vec(1.0_f64..1e7, 6..60)
    ) {
        let backwards: Vec<f64> = samples.iter().rev().copied().collect();
        prop_assert!((trend(&samples).unwrap() + trend(&backwards).unwrap()).abs() < 1e-9);
        prop_assert_eq!(level_shift(&samples), level_shift(&backwards));
    }
}
