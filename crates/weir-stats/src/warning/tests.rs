use super::*;
use crate::simulated::Source;
use proptest::prelude::*;

fn kinds(values: &[f64]) -> Vec<&'static str> {
    warnings(values, Level::P95).iter().map(Warning::kind).collect()
}

/// The stated rate: what a well-behaved series may be warned about.
#[test]
fn normal_series_are_seldom_warned_about() {
    for count in [5, 6, 8, 10, 11, 15, 22] {
        let mut source = Source::new(count as u64);
        let (mut clusters, mut trends, mut outliers, mut any) = (0, 0, 0, 0);
        let runs = 6000;
        for _ in 0..runs {
            // A spread that makes every size matter.
            let values = source.normals(count, 100.0, 4.0);
            let found = kinds(&values);
            let has = |kind: &str| u32::from(found.contains(&kind));
            (clusters, trends) = (clusters + has("clusters"), trends + has("trend"));
            outliers += has("outliers");
            any += u32::from(found.iter().any(|kind| *kind != "too-few"));
        }
        let rate = |hits: u32| f64::from(hits) / f64::from(runs);
        for hits in [clusters, trends, outliers] {
            assert!(rate(hits) <= 0.018, "{count}: {clusters} {trends} {outliers}");
        }
        assert!(rate(any) <= 0.035, "{count}: {any}");
        // The tests are at work, not asleep.
        assert!(clusters > 20 && outliers > 20 && (count < 6 || trends > 6), "{count}");
    }
}

#[test]
fn boots_that_take_two_roads_are_seen() {
    let values = [1_000.0, 1_101.0, 1_099.0, 1_002.0, 999.0];
    let found = warnings(&values, Level::from_percent(90.0).unwrap());
    let [Warning::Clusters(clusters)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((clusters.low_count, clusters.high_count), (3, 2));
    assert!((clusters.distance() - 99.666).abs() < 0.01 && clusters.low_max == 1_002.0);
    assert_eq!(
        found[0].to_string(),
        "the iterations fall into two clusters, 2 of them 10.0 % above the other 3"
    );
    let mut source = Source::new(4);
    let mut seen = 0;
    for _ in 0..200 {
        let values: Vec<f64> = (0..10)
            .map(|_| if source.uniform() < 0.5 { 100.0 } else { 108.0 } + source.normal())
            .collect();
        seen += u32::from(kinds(&values).contains(&"clusters"));
    }
    // Now and then all of them take one road, or all but one.
    assert!(seen > 170, "{seen}");
}

#[test]
fn a_drift_is_seen() {
    let values: Vec<f64> = (0..8).map(|n| 100.0 - f64::from(n) * 0.5).collect();
    let found = warnings(&values, Level::P95);
    let [Warning::Trend { drift_ratio, p_value }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!((drift_ratio + 3.5 / 98.25).abs() < 1e-12 && *p_value < 1e-4);
    assert!(found[0].to_string().starts_with("the rate falls by 3.6 % of the median"));
    // A drift too small to matter.
    let little: Vec<f64> = (0..8).map(|n| 100.0 - f64::from(n) * 0.01).collect();
    assert!(kinds(&little).is_empty());
}

#[test]
fn single_strays_are_outliers_and_no_cluster() {
    let values = [100.0, 101.0, 99.5, 70.0, 100.4, 99.0, 100.8, 99.9];
    let found = warnings(&values, Level::P95);
    let [Warning::Outliers { indices, farthest_ratio }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(indices, &[3]);
    assert!((farthest_ratio + 0.2996).abs() < 0.001);
    assert_eq!(found[0].to_string(), "value 4 is an outlier, up to -30.0 % from the median");
    // Two on the same side hide each other from Grubbs's test, not from Rosner's.
    let mut many: Vec<f64> = (0..15).map(|n| 100.0 + f64::from(n % 5) * 0.2).collect();
    (many[2], many[9]) = (80.0, 80.5);
    let found = warnings(&many, Level::P95);
    let [Warning::Outliers { indices, .. }] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(indices, &[2, 9]);
    assert!(found[0].to_string().starts_with("values 3, 10 are outliers"));
}

#[test]
fn series_that_cannot_be_measured_so() {
    assert_eq!(kinds(&[5.0; 8]), ["no-spread"]);
    assert_eq!(kinds(&[5.0, 6.0]), ["too-few"]);
    assert_eq!(kinds(&[]), [""; 0]);
    assert_eq!(kinds(&[1.0, f64::NAN]), [""; 0]);
    assert_eq!(kinds(&[0.0, 0.0, 0.0, 0.0, 0.0, 9.0]), [""; 0]);
    let few = warnings(&[5.0, 6.0], Level::P95);
    assert_eq!(
        few[0].to_string(),
        "2 values cannot give an exact interval of the median at 95 %: 6 are needed"
    );
    assert!(few[0].advice().contains("more iterations"));
}

#[test]
fn every_threshold_has_a_name_of_its_own() {
    let mut names: Vec<_> = THRESHOLDS.iter().map(|t| t.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), THRESHOLDS.len());
}

proptest! {
    #[test]
    fn the_unit_does_not_matter(
        values in prop::collection::vec(50_u32..150, 5..40), power in -3_i32..8
    ) {
        let floats: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
        let scaled: Vec<f64> = floats.iter().map(|v| v * 2_f64.powi(power)).collect();
        prop_assert_eq!(kinds(&floats), kinds(&scaled));
    }

    #[test]
    fn only_a_trend_looks_at_the_order(
        values in prop::collection::vec(50.0_f64..150.0, 5..40), turn: prop::sample::Index
    ) {
        let mut turned = values.clone();
        turned.rotate_left(turn.index(values.len()));
        let others = |values: &[f64]| {
            kinds(values).into_iter().filter(|kind| *kind != "trend").collect::<Vec<_>>()
        };
        prop_assert_eq!(others(&values), others(&turned));
    }
}
