use super::*;
use crate::simulated::{Source, share};
use proptest::prelude::*;

#[test]
fn figures_of_another_implementation() {
    let baseline = [1_104_137.0, 1_103_210.0, 1_105_800.0, 1_099_871.0, 1_108_001.0];
    let other = [1_090_120.0, 1_095_544.0, 1_088_123.0, 1_101_250.0, 1_092_007.0, 1_089_990.0];
    // scipy 1.17, `mannwhitneyu(method="exact")`.
    let test = mann_whitney(&baseline, &other).unwrap();
    assert!(test.exact && test.u == 1.0 && (test.share - 1.0 / 30.0).abs() < 1e-15);
    assert!((test.p_value - 0.008_658_008_658_008_658).abs() < 1e-15);
    // With ties, its normal approximation.
    let baseline = [1.0, 2.0, 2.0, 3.0, 5.0, 8.0, 8.0, 9.0];
    let other = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0];
    let test = mann_whitney(&baseline, &other).unwrap();
    assert!(!test.exact && test.u == 41.0);
    assert!((test.p_value - 0.145_105_680_485_149_96).abs() < 1e-12, "{}", test.p_value);
}

#[test]
fn distributions_that_are_known() {
    // Two against two: six orders, U of 0 1 2 2 3 4.
    let two = distribution(2, 2);
    let sixths: Vec<f64> = two.iter().map(|p| (p * 6.0).round()).collect();
    assert_eq!(sixths, [1.0, 1.0, 2.0, 1.0, 1.0]);
    // Printed critical values of U (two-sided 5 %): 5 and 5: 2; 8 and 10: 17; 20 and 20: 127.
    for (a, b, critical) in [(5, 5, 2), (8, 10, 17), (20, 20, 127), (4, 4, 0)] {
        assert_eq!(interval_rank(a, b, Level::P95), Some(critical + 1), "{a} {b}");
    }
    assert_eq!(interval_rank(3, 3, Level::P95), None);
    let sum: f64 = distribution(20, 20).iter().sum();
    assert!((sum - 1.0).abs() < 1e-12);
}

#[test]
fn too_few_values_say_how_many_are_needed() {
    assert_eq!(values_needed(Level::P95), 4);
    assert_eq!(values_needed(Level::from_percent(99.0).unwrap()), 5);
    let shift = shift(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0], Level::P95).unwrap();
    assert_eq!(shift.shift, 10.0);
    assert_eq!(shift.interval.unwrap_err().need, 4);
    let test = mann_whitney(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]).unwrap();
    assert!((test.p_value - 0.1).abs() < 1e-12);
}

#[test]
fn shifts_by_hand() {
    // Differences 4 5 6 3 4 5 2 3 4, sorted 2 3 3 4 4 4 5 5 6.
    let got = shift(&[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0], Level::from_percent(80.0).unwrap());
    let got = got.unwrap();
    assert_eq!(got.shift, 4.0);
    // A twentieth in either tail, and two twentieths with the next: the interval is 2 to 6 at 90 %,
    // 3 to 5 at 80 %.
    assert_eq!(got.interval, Ok(Interval { low: 3.0, high: 5.0 }));
}

#[test]
fn what_says_nothing() {
    assert_eq!(mann_whitney(&[], &[1.0]), None);
    assert_eq!(mann_whitney(&[1.0], &[f64::NAN]), None);
    assert_eq!(shift(&[1.0], &[], Level::P95), None);
    let same = mann_whitney(&[3.0; 5], &[3.0; 6]).unwrap();
    assert_eq!((same.p_value, same.share, same.exact), (1.0, 0.5, false));
}

#[test]
fn exact_and_approximate_meet() {
    let (a, b) = (20, 20);
    let exact: f64 = distribution(a, b)[..=127].iter().sum();
    let z = (200.0 - 127.0 - 0.5) / normal_variance(a, b, 0.0).sqrt();
    let normal = student_t::cdf(-z, f64::INFINITY);
    assert!((exact - normal).abs() < 0.001, "{exact} {normal}");
}

#[test]
fn levels_are_kept_whatever_the_distribution() {
    let mut source = Source::new(2);
    let (mut errors, mut runs) = (0, 0);
    let covered = share(4000, || {
        let mut values =
            |shift: f64| (0..8).map(|_| source.exponential() + shift).collect::<Vec<f64>>();
        let (baseline, other) = (values(0.0), values(0.7));
        runs += 1;
        let moved: Vec<f64> = other.iter().map(|value| value - 0.7).collect();
        errors += u32::from(mann_whitney(&baseline, &moved).unwrap().p_value <= 0.05);
        shift(&baseline, &other, Level::P95).unwrap().interval.unwrap().contains(0.7)
    });
    // U of 13 has 0.0499 with eight a side: the next smaller exact level.
    assert!((0.945..0.965).contains(&covered), "{covered}");
    assert!(f64::from(errors) / f64::from(runs) < 0.06);
}

proptest! {
    #[test]
    fn test_and_interval_agree(
        baseline in prop::collection::vec(0.0_f64..100.0, 4..15),
        other in prop::collection::vec(0.0_f64..100.0, 4..15),
    ) {
        let test = mann_whitney(&baseline, &other).unwrap();
        let found = shift(&baseline, &other, Level::P95).unwrap();
        prop_assume!(test.exact);
        let interval = found.interval.unwrap();
        prop_assert_eq!(test.p_value <= 0.05 + 1e-9, !interval.contains(0.0));
        prop_assert!(interval.contains(found.shift));
    }

    #[test]
    fn exchanged_sides_mirror(
        baseline in prop::collection::vec(0_u8..30, 4..40),
        other in prop::collection::vec(0_u8..30, 4..40),
    ) {
        let floats = |values: &[u8]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        let (baseline, other) = (floats(&baseline), floats(&other));
        let (there, back) =
            (mann_whitney(&baseline, &other).unwrap(), mann_whitney(&other, &baseline).unwrap());
        prop_assert!((there.p_value - back.p_value).abs() < 1e-12);
        prop_assert!((there.share + back.share - 1.0).abs() < 1e-12);
        let there = shift(&baseline, &other, Level::P95).unwrap();
        let back = shift(&other, &baseline, Level::P95).unwrap();
        prop_assert_eq!(there.shift, -back.shift);
        prop_assert_eq!(there.interval.unwrap().low, -back.interval.unwrap().high);
    }
}
