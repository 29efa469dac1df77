use super::*;
use crate::simulated::{Source, share};
use proptest::prelude::*;

const BASELINE: [f64; 5] = [1_104_137.0, 1_103_210.0, 1_105_800.0, 1_099_871.0, 1_108_001.0];
const OTHER: [f64; 6] =
    [1_090_120.0, 1_095_544.0, 1_088_123.0, 1_101_250.0, 1_092_007.0, 1_089_990.0];

fn near(got: f64, expected: f64) -> bool {
    (got - expected).abs() <= 1e-8 * expected.abs()
}

/// Expected figures are those of another implementation (scipy 1.17: `ttest_ind` without equal
/// variances, and its t distribution with a root finder for the ratio).
#[test]
fn figures_of_another_implementation() {
    let welch = Welch::of(&BASELINE, &OTHER).unwrap();
    assert!(near(welch.t(), -4.751_829_113_097_42));
    assert!(near(welch.degrees_of_freedom(), 8.477_466_229_273_446));
    assert!(near(welch.p_value(), 0.001_228_795_952_032_868_3));
    let interval = welch.interval(Level::P95);
    assert!(near(interval.low, -16_826.393_774_877_14), "{interval:?}");
    assert!(near(interval.high, -5_903.206_225_122_954), "{interval:?}");
    let wider = welch.interval(Level::from_percent(99.0).unwrap());
    assert!(near(wider.low, -19_260.161_464_129_887), "{wider:?}");
    assert!(near(welch.ratio(), 0.989_707_697_075_485_4));
    let ratio = welch.ratio_interval(Level::P95);
    assert!(near(ratio.low, 0.984_780_396_840_129_1), "{ratio:?}");
    assert!(near(ratio.high, 0.994_647_181_290_781), "{ratio:?}");
    assert!(near(welch.p_at_most(0.99), 0.552_260_216_636_178_7));
    assert!(near(welch.p_at_most(0.985), 0.029_408_681_048_508_547));
    assert!((welch.p_at_least(1.01) - 4.640_428_318_936_074e-6).abs() < 1e-14);
}

#[test]
fn what_cannot_be_compared() {
    let three = [1.0, 2.0, 3.0];
    assert_eq!(Welch::of(&three, &[1.0, 2.0]), Err(WelchError::TooFewValues { have: 2 }));
    assert_eq!(Welch::of(&three, &[1.0, 2.0, f64::NAN]), Err(WelchError::NotFinite));
    assert_eq!(Welch::of(&[0.0; 3], &three), Err(WelchError::NoRatio));
    assert_eq!(Welch::of(&three, &[-1.0; 3]), Err(WelchError::NoRatio));
    assert!(Welch::of(&three, &[0.0; 3]).is_ok());
}

#[test]
fn values_without_spread() {
    // A tenth has no exact sum.
    let same = Welch::of(&[0.1; 3], &[0.1; 7]).unwrap();
    assert_eq!((same.p_value(), same.t(), same.difference()), (1.0, 0.0, 0.0));
    assert_eq!(same.ratio_interval(Level::P95), Interval { low: 1.0, high: 1.0 });
    let half = Welch::of(&[0.2; 3], &[0.1; 7]).unwrap();
    assert_eq!((half.p_value(), half.ratio()), (0.0, 0.5));
    let interval = half.ratio_interval(Level::P95);
    assert!(near(interval.low, 0.5) && near(interval.high, 0.5));
}

#[test]
fn a_baseline_near_zero_sets_no_upper_limit() {
    let welch = Welch::of(&[0.0, 0.1, 5.0], &[3.0, 4.0, 5.0]).unwrap();
    let interval = welch.ratio_interval(Level::P95);
    assert!(interval.high.is_infinite() && interval.low > 0.0, "{interval:?}");
    let nothing = Welch::of(&[5.0, 5.1, 5.2], &[0.0, 0.0, 0.1]).unwrap();
    assert_eq!(nothing.ratio_interval(Level::P95).low, 0.0);
}

#[test]
fn a_side_that_delivers_nothing_is_a_ratio_of_zero() {
    for other in [[0.0; 3], [1e-9, 0.0, 2e-9]] {
        let welch = Welch::of(&[1e6, 1.1e6, 1.2e6], &other).unwrap();
        let interval = welch.ratio_interval(Level::P95);
        assert!(interval.low == 0.0 && (0.0..1e-3).contains(&interval.high), "{interval:?}");
        assert!(welch.p_value() < 0.05);
    }
}

#[test]
fn intervals_cover_and_tests_err_as_often_as_stated() {
    // Unequal counts and spreads, where the pooled test fails: its small side is the noisy one.
    let mut source = Source::new(5);
    let (mut errors, mut pooled) = (0, 0);
    let covered = share(4000, || {
        let baseline = source.normals(12, 100.0, 1.0);
        let other = source.normals(5, 100.0, 6.0);
        let welch = Welch::of(&baseline, &other).unwrap();
        errors += u32::from(welch.p_value() < 0.05);
        let student = crate::ministat::compare(&baseline, &other, crate::Confidence::P95).unwrap();
        pooled += u32::from(student.proven);
        welch.ratio_interval(Level::P95).contains(1.0)
    });
    let errors = f64::from(errors) / 4000.0;
    assert!((0.94..0.96).contains(&covered), "{covered}");
    assert!((0.04..0.06).contains(&errors), "{errors}");
    assert!(f64::from(pooled) / 4000.0 > 0.12, "the pooled test holds, too: {pooled}");
}

#[test]
fn the_ratio_s_interval_covers_another_ratio() {
    let mut source = Source::new(6);
    let covered = share(4000, || {
        let (baseline, other) = (source.normals(5, 100.0, 4.0), source.normals(6, 130.0, 9.0));
        let welch = Welch::of(&baseline, &other).unwrap();
        welch.ratio_interval(Level::P95).contains(1.3)
    });
    assert!((0.94..0.965).contains(&covered), "{covered}");
}

proptest! {
    #[test]
    fn p_value_and_interval_agree(
        baseline in prop::collection::vec(50.0_f64..150.0, 3..12),
        other in prop::collection::vec(50.0_f64..150.0, 3..12),
    ) {
        let welch = Welch::of(&baseline, &other).unwrap();
        let p = welch.p_value();
        prop_assume!((p - 0.05).abs() > 1e-6);
        prop_assert_eq!(p < 0.05, !welch.interval(Level::P95).contains(0.0));
        prop_assert_eq!(p < 0.05, !welch.ratio_interval(Level::P95).contains(1.0));
        prop_assert!(welch.ratio_interval(Level::P95).contains(welch.ratio()));
    }

    #[test]
    fn the_unit_does_not_matter(
        baseline in prop::collection::vec(50.0_f64..150.0, 3..12),
        other in prop::collection::vec(50.0_f64..150.0, 3..12),
        factor in 1e-3_f64..1e7,
    ) {
        let scale = |values: &[f64]| values.iter().map(|v| v * factor).collect::<Vec<_>>();
        let welch = Welch::of(&baseline, &other).unwrap();
        let scaled = Welch::of(&scale(&baseline), &scale(&other)).unwrap();
        prop_assert!((welch.p_value() - scaled.p_value()).abs() < 1e-9);
        let (a, b) = (welch.ratio_interval(Level::P95), scaled.ratio_interval(Level::P95));
        prop_assert!((a.low - b.low).abs() < 1e-8);
        prop_assert!(a.high == b.high || (a.high / b.high - 1.0).abs() < 1e-8);
    }

    #[test]
    fn exchanged_sides_give_the_same_p(
        baseline in prop::collection::vec(50.0_f64..150.0, 3..12),
        other in prop::collection::vec(50.0_f64..150.0, 3..12),
    ) {
        let (there, back) =
            (Welch::of(&baseline, &other).unwrap(), Welch::of(&other, &baseline).unwrap());
        prop_assert!((there.p_value() - back.p_value()).abs() < 1e-12);
        prop_assert!((there.p_at_most(1.1) - back.p_at_least(1.0 / 1.1)).abs() < 1e-9);
    }
}
