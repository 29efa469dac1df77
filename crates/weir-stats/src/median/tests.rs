use super::*;
use crate::shuffle::SplitMix64;
use crate::simulated::{Source, share};
use proptest::prelude::*;

fn level(percent: f64) -> Level {
    Level::from_percent(percent).unwrap()
}

fn ascending(count: u32) -> Vec<f64> {
    (1..=count).map(f64::from).collect()
}

#[test]
fn ranks_and_coverages_of_the_printed_tables() {
    // Conover's table A3 with p = 1/2: n, rank, coverage of that interval.
    for (count, rank, coverage) in
        [(6, 1, 0.968_75), (10, 2, 0.978_515_625), (20, 6, 0.958_610_534_667_969)]
    {
        let got = order_statistic(&ascending(count), Level::P95).unwrap();
        assert_eq!(got.rank, rank, "{count}");
        assert!((got.coverage - coverage).abs() < 1e-12, "{count}: {}", got.coverage);
        let (low, high) = (rank as f64, f64::from(count) + 1.0 - rank as f64);
        assert_eq!(got.interval, Interval { low, high });
    }
    let many = order_statistic(&ascending(1001), Level::P95).unwrap();
    // 501 − 1.96 · √1001 / 2 = 470.
    assert_eq!(many.rank, 470);
}

#[test]
fn too_few_values_say_how_many_are_needed() {
    for (percent, need) in [(80.0, 4), (90.0, 5), (95.0, 6), (99.0, 8), (99.9, 11)] {
        let level = level(percent);
        assert_eq!(values_needed(level), need);
        let few = order_statistic(&ascending(u32::try_from(need).unwrap() - 1), level);
        assert_eq!(few, Err(TooFew { have: need - 1, need, level }));
        assert!(order_statistic(&ascending(u32::try_from(need).unwrap()), level).is_ok());
    }
    let error = order_statistic(&[1.0; 5], Level::P95).unwrap_err();
    assert_eq!(error.to_string(), "5 values give no such interval at 95 %: 6 are needed");
    assert!(bootstrap(&[1.0; 4], Level::P95).is_err());
    assert!(bootstrap(&[1.0, 2.0, 3.0, 4.0, f64::NAN], Level::P95).is_err());
    assert!(order_statistic(&[f64::INFINITY; 9], Level::P95).is_err());
}

/// The same by drawing resamples, which is what everybody else does.
fn drawn(values: &[f64], level: Level, resamples: usize) -> Interval {
    let mut random = SplitMix64::new(3);
    let count = values.len() as u64;
    let mut medians: Vec<f64> = (0..resamples)
        .map(|_| {
            let pick = |_: &f64| values[usize::try_from(random.below(count)).unwrap()];
            let resample: Vec<f64> = values.iter().map(pick).collect();
            summary::median(&resample).unwrap()
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    // A twentieth on either side.
    assert_eq!(level.percent(), 90.0);
    let cut = resamples / 20;
    Interval { low: medians[cut - 1], high: medians[resamples - cut] }
}

#[test]
fn the_limit_is_what_many_resamples_approach() {
    let mut source = Source::new(11);
    for count in [5, 6, 9, 10, 17, 24, 40] {
        let values = source.normals(count, 100.0, 3.0);
        let (exact, near) =
            (bootstrap(&values, level(90.0)).unwrap(), drawn(&values, level(90.0), 40_000));
        // The cut can fall a value aside where the probabilities are close to the tail.
        let close = |a: f64, b: f64| (a - b).abs() < 0.25;
        assert!(close(exact.low, near.low) && close(exact.high, near.high), "{exact:?} {near:?}");
    }
}

#[test]
fn resampled_medians_are_a_distribution() {
    for count in [5, 6, 7, 12, 31, 50, 100, 1000, 1001] {
        let medians = resampled_medians(&ascending(count));
        let sum: f64 = medians.iter().map(|(_, probability)| probability).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{count}: {sum}");
        let mean: f64 = medians.iter().map(|(median, probability)| median * probability).sum();
        assert!((mean - (f64::from(count) + 1.0) / 2.0).abs() < 1e-6, "{count}: {mean}");
    }
    // Of three, the middle one is in the middle in 13 of 27 resamples.
    let three = resampled_medians(&ascending(3));
    assert!((three[1].1 - 13.0 / 27.0).abs() < 1e-12);
    // Of two: both alike in half of the resamples.
    let two = resampled_medians(&ascending(2));
    assert_eq!(two.iter().map(|(median, _)| *median).collect::<Vec<_>>(), [1.0, 1.5, 2.0]);
    assert!((two[1].1 - 0.5).abs() < 1e-12);
}

/// The stated coverage: of 95 % asked for, at least this much, and no more than the second.
#[test]
fn the_bootstrap_covers_what_is_stated() {
    for (count, least, most) in
        [(5, 0.925, 0.95), (6, 0.92, 0.97), (10, 0.92, 0.97), (20, 0.925, 0.97), (31, 0.92, 0.97)]
    {
        let mut source = Source::new(count as u64);
        let normal = share(4000, || {
            let values = source.normals(count, 100.0, 5.0);
            bootstrap(&values, Level::P95).unwrap().contains(100.0)
        });
        let skewed = share(4000, || {
            let values: Vec<f64> = (0..count).map(|_| source.exponential()).collect();
            bootstrap(&values, Level::P95).unwrap().contains(std::f64::consts::LN_2)
        });
        for covered in [normal, skewed] {
            assert!((least..most).contains(&covered), "{count}: {normal} {skewed}");
        }
    }
}

#[test]
fn order_statistics_keep_their_level_whatever_the_distribution() {
    let mut source = Source::new(1);
    for count in [6, 9, 15] {
        let mut stated = 0.0;
        let covered = share(6000, || {
            let values: Vec<f64> = (0..count).map(|_| source.exponential()).collect();
            let found = order_statistic(&values, Level::P95).unwrap();
            stated = found.coverage;
            found.interval.contains(std::f64::consts::LN_2)
        });
        assert!((covered - stated).abs() < 0.01, "{count}: {covered}, stated {stated}");
    }
}

proptest! {
    #[test]
    fn both_hold_the_median_and_lie_within_the_values(
        values in prop::collection::vec(-1e6_f64..1e6, 6..60)
    ) {
        let median = summary::median(&values).unwrap();
        let sorted = summary::sorted(&values).unwrap();
        let order = order_statistic(&values, Level::P95).unwrap();
        let bootstrap = bootstrap(&values, Level::P95).unwrap();
        prop_assert!(order.coverage >= 0.95);
        for interval in [order.interval, bootstrap] {
            prop_assert!(interval.contains(median));
            prop_assert!(sorted[0] <= interval.low && interval.high <= sorted[sorted.len() - 1]);
        }
    }

    #[test]
    fn a_higher_level_is_never_narrower(
        values in prop::collection::vec(-1e6_f64..1e6, 12..40)
    ) {
        for interval in [bootstrap, |v: &[f64], l| order_statistic(v, l).map(|o| o.interval)] {
            let (narrow, wide) =
                (interval(&values, level(80.0)).unwrap(), interval(&values, level(99.0)).unwrap());
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
        }
    }
}
