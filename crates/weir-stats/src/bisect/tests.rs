use super::*;
use proptest::prelude::*;

fn list(values: &[Vec<f64>]) -> Vec<Candidate<'_>> {
    values.iter().map(|values| Candidate { values, skipped: false }).collect()
}

fn assessed(values: &[Vec<f64>]) -> Assessment {
    assess(&list(values), &Settings::default()).unwrap()
}

/// Three figures near `level`, with 1 % between them.
fn near(level: f64) -> Vec<f64> {
    vec![level * 0.99, level, level * 1.01]
}

#[test]
fn the_ends_come_first_and_in_turn() {
    let mut values = vec![Vec::new(); 5];
    let mut order = Vec::new();
    while let Step::Measure(index) = assessed(&values).step
        && order.len() < 6
    {
        order.push(index);
        values[index].push(100.0);
    }
    assert_eq!(order, [0, 4, 0, 4, 0, 4]);
    let start = assessed(&vec![Vec::new(); 5]);
    assert_eq!((start.no_change, start.change), (0.5, None));
    assert_eq!(start.first_bad, [0.0, 0.125, 0.125, 0.125, 0.125]);
    assert_eq!(start.is_bad, [0.0, 0.25, 0.5, 0.75, 1.0]);
}

#[test]
fn a_large_change_is_found_by_halving_and_confirmed() {
    let truth = 11;
    let mut values = vec![Vec::new(); 16];
    let mut inner = Vec::new();
    let found = loop {
        let Step::Measure(index) = assessed(&values).step else {
            break assessed(&values);
        };
        if (1..15).contains(&index) {
            inner.push(index);
        }
        let wobble = 1.0 + 0.01 * (values[index].len() % 3) as f64;
        values[index].push(if index < truth { 100.0 } else { 50.0 } * wobble);
    };
    assert_eq!(found.step, Step::Found { first: truth, last: truth });
    assert_eq!(inner[0], 7, "{inner:?}");
    assert!(values[truth - 1].len() >= CONFIRM_MIN && values[truth].len() >= CONFIRM_MIN);
    assert!(found.first_bad[truth] > 0.95 && found.no_change < 0.01);
    let change = found.change.unwrap();
    assert!((change.ratio + 0.5).abs() < 0.02, "{change:?}");
    assert!(change.low_ratio < change.ratio && change.ratio < change.high_ratio);
    assert!((change.good - 100.5).abs() < 1.5 && (change.bad - 50.5).abs() < 1.5, "{change:?}");
    assert!(found.misfits.is_empty());
}

#[test]
fn two_candidates_are_a_test_of_the_difference() {
    let changed = assessed(&[near(100.0), near(80.0)]);
    assert_eq!(changed.step, Step::Found { first: 1, last: 1 });
    let mut same = vec![near(100.0), near(100.0)];
    while let Step::Measure(index) = assessed(&same).step {
        let next = same[index][same[index].len() % 3];
        same[index].push(next);
        assert!(same[0].len() < 50, "{:?}", assessed(&same));
    }
    assert_eq!(assessed(&same).step, Step::NoChange);
}

#[test]
fn what_cannot_be_measured_is_passed_over() {
    let values =
        [near(100.0), near(100.0), Vec::new(), near(50.0), near(50.0)].map(|v| v.repeat(2));
    let mut candidates = list(&values);
    assert_eq!(assess(&candidates, &Settings::default()).unwrap().step, Step::Measure(2));
    candidates[2].skipped = true;
    let step = assess(&candidates, &Settings::default()).unwrap().step;
    assert_eq!(step, Step::Found { first: 2, last: 3 });
    candidates[2].skipped = false;
    candidates[4].skipped = true;
    let refused = assess(&candidates, &Settings::default());
    assert_eq!(refused, Err(BisectError::NoEnd { index: 4 }));
}

#[test]
fn a_dead_box_and_figures_that_repeat_exactly() {
    let dead = assessed(&[vec![1e6; 3], vec![1e6; 2], vec![0.0; 2], vec![0.0; 3]]);
    assert_eq!(dead.step, Step::Found { first: 2, last: 2 });
    assert!((dead.change.unwrap().ratio + 1.0).abs() < 1e-3);
    let risen = assessed(&[vec![0.0; 3], vec![0.0; 2], vec![1e6; 2], vec![1e6; 3]]);
    assert_eq!(risen.step, Step::Found { first: 2, last: 2 });
    let same = assessed(&[vec![1e6; 3], vec![1e6; 3]]);
    assert_eq!(same.step, Step::NoChange);
    let zero = assessed(&[vec![0.0; 3], vec![0.0; 3]]);
    assert_eq!(zero.step, Step::NoChange);
}

/// A change under the margin is none.
#[test]
fn the_margin_decides_what_counts() {
    let values = [[1000.0, 1001.0, 999.0].repeat(9), [996.0, 995.0, 994.0].repeat(9)];
    assert_eq!(assessed(&values).step, Step::NoChange);
    let strict = Settings { margin_ratio: 0.002, ..Settings::default() };
    let step = assess(&list(&values), &strict).unwrap().step;
    assert_eq!(step, Step::Found { first: 1, last: 1 });
}

#[test]
fn a_list_that_changes_twice_names_the_misfit() {
    let values = [near(100.0), near(100.0), near(80.0), near(80.0), near(50.0), near(50.0)]
        .map(|v| v.repeat(3));
    let assessment = assessed(&values);
    assert!(!assessment.misfits.is_empty(), "{assessment:?}");
}

#[test]
fn the_limit_ends_it() {
    let limit = Settings { measurements_max: 6, ..Settings::default() };
    let noisy = vec![90.0, 100.0, 110.0];
    let values = [noisy.clone(), Vec::new(), noisy.iter().map(|v| v * 0.9).collect()];
    let assessment = assess(&list(&values), &limit).unwrap();
    assert_eq!(assessment.step, Step::Undecided);
    let more = assess(&list(&values), &Settings::default()).unwrap();
    assert!(matches!(more.step, Step::Measure(_)));
}

#[test]
fn bad_input_is_refused() {
    let one = [near(1.0)];
    let refused = |values: &[Vec<f64>]| assess(&list(values), &Settings::default()).unwrap_err();
    assert_eq!(refused(&one), BisectError::TooFew { count: 1 });
    assert_eq!(refused(&[]), BisectError::TooFew { count: 0 });
    let broken = [near(1.0), vec![f64::NAN], near(1.0)];
    assert_eq!(refused(&broken), BisectError::NotFinite { index: 1 });
    for (confidence, margin_ratio) in [(0.5, 0.01), (1.0, 0.01), (0.95, 0.0), (0.95, f64::NAN)] {
        let settings = Settings { confidence, margin_ratio, ..Settings::default() };
        let two = [near(1.0), near(2.0)];
        assert_eq!(assess(&list(&two), &settings), Err(BisectError::Settings));
    }
}

proptest! {
    #[test]
    fn probabilities_are_probabilities(
        values in prop::collection::vec(prop::collection::vec(0.0_f64..1e9, 0..6), 2..12),
        scale in 1e-3_f64..1e3
    ) {
        let assessment = assessed(&values);
        let sum = assessment.first_bad.iter().sum::<f64>() + assessment.no_change;
        prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        prop_assert!(assessment.first_bad.iter().all(|p| (0.0..=1.0).contains(p)));
        prop_assert!(assessment.is_bad.is_sorted());
        // The unit does not matter, nor does the order of a candidate's measurements.
        let other: Vec<Vec<f64>> =
            values.iter().map(|v| v.iter().rev().map(|x| x * scale).collect()).collect();
        let other = assessed(&other);
        for (a, b) in assessment.first_bad.iter().zip(&other.first_bad) {
            prop_assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }
}
