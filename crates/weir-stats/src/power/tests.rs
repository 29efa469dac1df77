use super::*;
use crate::simulated::{Source, share};
use proptest::prelude::*;

/// Another implementation's non-central t (scipy 1.17), which agrees with R's `power.t.test`.
#[test]
fn figures_of_another_implementation() {
    for (df, effect, expected) in [
        (1.0, 2.0, 0.125_756_317_757_052_8),
        (4.0, 3.5, 0.744_870_058_950_872_5),
        (8.4, 2.9, 0.725_431_917_275_625_7),
        (18.0, 5.0_f64.sqrt(), 0.562_006_646_586_149_3),
        (38.0, 10.0_f64.sqrt(), 0.868_953_027_723_989_9),
    ] {
        let got = power(effect, df, Level::P95);
        assert!((got - expected).abs() < 1e-4, "{df} {effect}: {got}, not {expected}");
    }
    assert!((power(0.0, 7.0, Level::P95) - 0.05).abs() < 1e-5);
}

#[test]
fn the_effect_is_found_as_often_as_stated() {
    // Five against five of deviation 2: standard error 2 · √(2/5).
    let effect = detectable_effect(8.0, Level::P95, POWER);
    let shift = effect * 2.0 * 0.4_f64.sqrt();
    let mut source = Source::new(8);
    let found = share(4000, || {
        let (a, b) = (source.normals(5, 100.0, 2.0), source.normals(5, 100.0 + shift, 2.0));
        Welch::of(&a, &b).unwrap().p_value() <= 0.05
    });
    assert!((0.77..0.82).contains(&found), "{found}");
    assert!(detectable_effect(8.0, Level::P95, 0.03).is_nan());
    assert!(detectable_effect(8.0, Level::P95, 1.0).is_nan());
}

#[test]
fn relative_to_the_baseline() {
    let (a, b) = ([98.0, 100.0, 102.0], [98.0, 100.0, 102.0]);
    let welch = Welch::of(&a, &b).unwrap();
    let effect = detectable_effect(4.0, Level::P95, POWER);
    let expected = effect * (8.0_f64 / 3.0).sqrt() / 100.0;
    assert!((detectable_ratio(&welch, Level::P95, POWER) - expected).abs() < 1e-9);
    let flat = Welch::of(&[5.0; 3], &[5.0; 3]).unwrap();
    assert_eq!(detectable_ratio(&flat, Level::P95, POWER), 0.0);
}

#[test]
fn values_for_a_half_width_by_hand() {
    // t of 4 degrees of freedom is 2.776: ±1.2415 % of a deviation of 1 %, n = 5.
    assert!((half_width(5, 1.0, Level::P95) - 1.241_7).abs() < 1e-4);
    assert_eq!(values_for_half_width(1.0, 1.25, Level::P95), Some(5));
    assert_eq!(values_for_half_width(1.0, 1.24, Level::P95), Some(6));
    // 1.96² · 100 = 384, and two more for t.
    assert_eq!(values_for_half_width(10.0, 1.0, Level::P95), Some(387));
    assert_eq!(values_for_half_width(0.0, 1.0, Level::P95), Some(2));
    assert_eq!(values_for_half_width(1.0, 0.0, Level::P95), None);
    assert_eq!(values_for_half_width(1e9, 1.0, Level::P95), None);
    assert!(half_width(1, 1.0, Level::P95).is_infinite());
}

proptest! {
    #[test]
    fn power_grows_with_the_effect(
        df in 1.0_f64..60.0, effect in 0.0_f64..6.0, more in 0.1_f64..3.0
    ) {
        let (less, more) = (power(effect, df, Level::P95), power(effect + more, df, Level::P95));
        prop_assert!(less < more + 1e-9 && more <= 1.0);
    }

    #[test]
    fn effect_and_power_are_inverse(df in 2.0_f64..60.0, target in 0.2_f64..0.97) {
        let effect = detectable_effect(df, Level::P95, target);
        prop_assert!((power(effect, df, Level::P95) - target).abs() < 1e-4);
    }

    #[test]
    fn the_count_is_the_smallest(stddev in 0.1_f64..20.0, width in 0.2_f64..10.0) {
        let count = values_for_half_width(stddev, width, Level::P95).unwrap();
        prop_assert!(half_width(count, stddev, Level::P95) <= width);
        prop_assert!(count == 2 || half_width(count - 1, stddev, Level::P95) > width);
    }
}
