use super::*;
use proptest::prelude::*;

fn near(left: f64, right: f64, relative: f64) -> bool {
    (left - right).abs() <= relative * right.abs()
}

/// Rows of the table that every statistics book prints: df, then p = 0.90, 0.95, 0.975, 0.99,
/// 0.995, 0.999.
const PUBLISHED: &[(f64, [f64; 6])] = &[
    (1.0, [3.078, 6.314, 12.706, 31.821, 63.657, 318.309]),
    (2.0, [1.886, 2.920, 4.303, 6.965, 9.925, 22.327]),
    (3.0, [1.638, 2.353, 3.182, 4.541, 5.841, 10.215]),
    (4.0, [1.533, 2.132, 2.776, 3.747, 4.604, 7.173]),
    (5.0, [1.476, 2.015, 2.571, 3.365, 4.032, 5.893]),
    (7.0, [1.415, 1.895, 2.365, 2.998, 3.499, 4.785]),
    (8.0, [1.397, 1.860, 2.306, 2.896, 3.355, 4.501]),
    (10.0, [1.372, 1.812, 2.228, 2.764, 3.169, 4.144]),
    (20.0, [1.325, 1.725, 2.086, 2.528, 2.845, 3.552]),
    (30.0, [1.310, 1.697, 2.042, 2.457, 2.750, 3.385]),
    (60.0, [1.296, 1.671, 2.000, 2.390, 2.660, 3.232]),
    (100.0, [1.290, 1.660, 1.984, 2.364, 2.626, 3.174]),
    (f64::INFINITY, [1.282, 1.645, 1.960, 2.326, 2.576, 3.090]),
];

#[test]
fn published_table() {
    for (df, row) in PUBLISHED {
        for (p, expected) in [0.90, 0.95, 0.975, 0.99, 0.995, 0.999].into_iter().zip(row) {
            let got = quantile(p, *df);
            assert!((got - expected).abs() <= 0.000_5, "p {p}, df {df}: {got}, not {expected}");
        }
    }
}

#[test]
fn closed_forms() {
    for p in [0.500_1, 0.6, 0.75, 0.9, 0.99, 0.999_99] {
        // One degree of freedom is the Cauchy distribution, two have a square root.
        let cauchy = (std::f64::consts::PI * (p - 0.5)).tan();
        assert!(near(quantile(p, 1.0), cauchy, 1e-10), "{p}");
        let two = (2.0 * p - 1.0) * (2.0 / (4.0 * p * (1.0 - p))).sqrt();
        assert!(near(quantile(p, 2.0), two, 1e-10), "{p}");
    }
}

#[test]
fn the_normal_distribution_to_many_digits() {
    for (p, expected) in [
        (0.75, 0.674_489_750_196_081_7),
        (0.975, 1.959_963_984_540_054),
        (0.995, 2.575_829_303_548_901),
        (0.999_5, 3.290_526_731_491_926),
        (0.999_999, 4.753_424_308_822_899),
    ] {
        assert!(near(quantile(p, f64::INFINITY), expected, 1e-10), "{p}");
    }
    // Far out only the lower tail has digits left.
    assert!(near(quantile(1e-20, f64::INFINITY), -9.262_340_089_798_408, 1e-10));
    // Both evaluations meet where one takes over from the other.
    assert!(near(cdf(-3.000_000_001, f64::INFINITY), cdf(-3.0, f64::INFINITY), 1e-7));
}

#[test]
fn a_short_fraction_is_right_to_eight_digits() {
    for z in [3.000_1, 3.5, 4.0, 6.0, 9.0] {
        assert!(near(normal_upper_tail_by(z, 25), normal_upper_tail(z), 1e-8), "{z}");
    }
}

#[test]
fn many_degrees_of_freedom_approach_the_normal_distribution() {
    let normal = quantile(0.975, f64::INFINITY);
    // The first term of the Cornish-Fisher expansion: z + (z^3 + z) / (4 df).
    for df in [1e4, 1e6, 1e7] {
        let expected = normal + (normal.powi(3) + normal) / (4.0 * df);
        assert!(near(quantile(0.975, df), expected, 2e-8), "{df}: {}", quantile(0.975, df));
    }
    assert_eq!(quantile(0.975, 1e9), normal);
}

#[test]
fn ends_and_nonsense() {
    assert_eq!(quantile(0.0, 5.0), f64::NEG_INFINITY);
    assert_eq!(quantile(1.0, 5.0), f64::INFINITY);
    assert_eq!(quantile(0.5, 5.0), 0.0);
    assert_eq!((cdf(f64::INFINITY, 5.0), cdf(f64::NEG_INFINITY, 5.0)), (1.0, 0.0));
    assert_eq!(cdf(0.0, 5.0), 0.5);
    for (p, df) in [(-0.1, 5.0), (1.1, 5.0), (f64::NAN, 5.0), (0.9, 0.0), (0.9, f64::NAN)] {
        assert!(quantile(p, df).is_nan(), "{p} {df}");
    }
    assert!(cdf(1.0, -1.0).is_nan() && cdf(f64::NAN, 1.0).is_nan());
}

#[test]
fn gamma_function() {
    assert!(ln_gamma(1.0).abs() < 1e-14 && ln_gamma(2.0).abs() < 1e-14);
    assert!(near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13));
    // 20! and 100!
    assert!(near(ln_gamma(21.0), 2_432_902_008_176_640_000.0_f64.ln(), 1e-14));
    assert!(near(ln_gamma(101.0), 363.739_375_555_563_5, 1e-14));
}

#[test]
fn ministat_s_table() {
    assert_eq!(ministat_t(Confidence::P95, 1), 12.706);
    assert_eq!(ministat_t(Confidence::P95, 8), 2.306);
    assert_eq!(ministat_t(Confidence::P80, 100), 1.290);
    assert_eq!(ministat_t(Confidence::P80, 101), 1.282);
    assert_eq!(ministat_t(Confidence::P95, 0), 1.960);
    // Misprints of the last column, and its neighbours that are right.
    assert_eq!(ministat_t(Confidence::P99_5, 1), 318.313);
    assert_eq!(ministat_t(Confidence::P99_5, 8), 4.499);
    assert_eq!(ministat_t(Confidence::P99_5, 13), 3.852);
    assert_eq!(ministat_t(Confidence::P99, 8), 3.355);
    assert_eq!(ministat_t(Confidence::P99_5, 1000), 3.090);
}

#[test]
fn confidence_levels() {
    for level in Confidence::ALL {
        assert_eq!(Confidence::from_percent(level.percent()), Some(level));
    }
    assert_eq!(Confidence::from_percent(97.0), None);
    assert_eq!(Confidence::default(), Confidence::P95);
    assert!(Confidence::P99 < Confidence::P99_5);
}

proptest! {
    #[test]
    fn cdf_inverts_quantile(p in 1e-6_f64..0.999_999, df in 0.5_f64..2000.0) {
        prop_assert!((cdf(quantile(p, df), df) - p).abs() < 1e-12);
    }

    #[test]
    fn tails_are_inverted_to_their_last_digits(exponent in -30.0_f64..-1.0, df in 1.0_f64..2000.0) {
        let p = 10_f64.powf(exponent);
        prop_assert!(near(cdf(quantile(p, df), df), p, 1e-9));
    }

    #[test]
    fn symmetric(p in 0.000_001_f64..0.5, df in 0.5_f64..2000.0, t in 0.0_f64..100.0) {
        // 1 − p is rounded, which the steep tail magnifies.
        prop_assert!(near(quantile(1.0 - p, df), -quantile(p, df), 1e-6));
        prop_assert!((cdf(t, df) + cdf(-t, df) - 1.0).abs() < 1e-15);
    }

    #[test]
    fn monotone(p in 0.001_f64..0.99, step in 0.000_1_f64..0.009, df in 0.5_f64..2000.0) {
        prop_assert!(quantile(p, df) < quantile(p + step, df));
        // Fewer degrees of freedom have heavier tails.
        let upper = 0.5 + p / 2.0;
        prop_assert!(quantile(upper, df) > quantile(upper, df * 1.5));
        prop_assert!(quantile(upper, df) > quantile(upper, f64::INFINITY));
    }
}
