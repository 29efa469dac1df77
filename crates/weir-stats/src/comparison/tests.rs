use super::*;
use crate::simulated::{Source, share};
use proptest::prelude::*;

fn question(margin_ratio: Option<f64>) -> Question {
    Question::new(Level::P95, margin_ratio).unwrap()
}

const BASELINE: [f64; 5] = [1_104_137.0, 1_103_210.0, 1_105_800.0, 1_099_871.0, 1_108_001.0];
const OTHER: [f64; 6] =
    [1_090_120.0, 1_095_544.0, 1_088_123.0, 1_101_250.0, 1_092_007.0, 1_089_990.0];

#[test]
fn a_proven_loss_is_told_with_its_least_size() {
    let got = single(Pair { baseline: &BASELINE, other: &OTHER }, &question(None)).unwrap();
    // 1 − 0.994647, rounded down.
    assert_eq!(got.word.to_string(), "slower by at least 0.53 %");
    assert_eq!(
        got.to_string(),
        "slower by at least 0.53 % (−1.03 %, −1.53 % to −0.53 % at 95 %, p = 0.0012)"
    );
    assert_eq!((got.family_size, got.adjusted_p_value), (1, got.p_value));
    assert!(got.rank.exact && got.shift.shift < 0.0 && got.equivalence.is_none());
    let relative_shift = got.relative_shift.unwrap();
    assert!(relative_shift.interval.unwrap().contains(relative_shift.shift));
    assert!((relative_shift.shift - got.shift.shift / got.baseline.median).abs() < 1e-3);
    // Five iterations are too few for an exact interval of the median.
    assert_eq!(got.baseline_warnings[0].kind(), "too-few");
    assert!(got.other_warnings.is_empty(), "{:?}", got.other_warnings);
}

#[test]
fn the_margin_decides_what_a_small_difference_is_called() {
    let pair = Pair { baseline: &BASELINE, other: &OTHER };
    let word = |margin| single(pair, &question(Some(margin))).unwrap().word;
    assert_eq!(word(0.02), Word::Equivalent { margin_ratio: 0.02 });
    assert_eq!(word(0.02).to_string(), "equivalent within 2 %");
    assert_eq!(word(0.01).name(), "slower");
    let back = Pair { baseline: &OTHER, other: &BASELINE };
    let gain = single(back, &question(Some(0.01))).unwrap();
    assert_eq!(gain.word.name(), "faster");
    assert!(gain.equivalence.unwrap().adjusted_p_loss < 0.05);
}

#[test]
fn noise_is_undecided_and_never_no_difference() {
    let noisy = Pair { baseline: &[90.0, 100.0, 111.0], other: &[92.0, 100.0, 109.0] };
    for margin in [None, Some(0.01)] {
        let got = single(noisy, &question(margin)).unwrap();
        assert_eq!(got.word, Word::Undecided);
        assert!(got.to_string().starts_with("undecided ("), "{got}");
        // It says what it could have found: four fifths of differences of this size.
        assert!(got.detectable_ratio > 0.2, "{}", got.detectable_ratio);
    }
    // A gain that is likely and a loss that is excluded.
    let gain = Pair { baseline: &[99.0, 100.0, 101.0, 100.2], other: &[99.5, 103.0, 100.5, 102.0] };
    let got = single(gain, &question(Some(0.01))).unwrap();
    assert_eq!(got.word.to_string(), "no loss above 1 %", "{got}");
}

#[test]
fn a_family_claims_less_than_its_members_would() {
    let pair = Pair { baseline: &BASELINE, other: &OTHER };
    let same = Pair { baseline: &BASELINE, other: &BASELINE };
    let few = Pair { baseline: &BASELINE, other: &OTHER[..2] };
    let mut pairs = vec![same; 59];
    pairs.extend([few, pair]);
    let got = family(&pairs, &question(None));
    assert_eq!(got[59], Err(WelchError::TooFewValues { have: 2 }));
    let last = got[60].as_ref().unwrap();
    assert_eq!(last.family_size, 60);
    assert!((last.adjusted_p_value - 60.0 * last.p_value).abs() < 1e-12);
    assert_eq!(last.word, Word::Undecided);
    let alone = single(pair, &question(None)).unwrap();
    assert!(last.relative.interval.contains(0.0) && !alone.relative.interval.contains(0.0));
    assert!(last.difference.interval.contains(0.0) && !alone.difference.interval.contains(0.0));
    assert!(last.to_string().contains("at 95 %, p = 0.074, for all 60 together)"), "{last}");
    assert!(family(&[], &question(None)).is_empty());
}

#[test]
fn what_is_refused() {
    for margin in [0.0, 1.0, -0.5, f64::NAN] {
        assert!(Question::new(Level::P95, Some(margin)).is_err(), "{margin}");
    }
    let error = Question::new(Level::P95, Some(1.5)).unwrap_err();
    assert_eq!(error.to_string(), "150 % is not a margin: it must be above 0 and below 100 %");
    let zero = Pair { baseline: &[0.0; 3], other: &BASELINE };
    assert_eq!(single(zero, &question(None)), Err(WelchError::NoRatio));
}

/// Twelve comparisons of equal and slightly different series: false words are as rare as stated.
#[test]
fn words_of_a_family_are_false_as_seldom_as_stated() {
    let mut source = Source::new(9);
    let mut false_bounds = 0;
    let false_words = share(300, || {
        let series: Vec<(Vec<f64>, Vec<f64>)> = (0..12)
            .map(|index| {
                let mean = if index < 6 { 100.0 } else { 98.0 };
                (source.normals(6, 100.0, 0.7), source.normals(6, mean, 0.7))
            })
            .collect();
        let pairs: Vec<Pair<'_>> =
            series.iter().map(|(baseline, other)| Pair { baseline, other }).collect();
        let got = family(&pairs, &question(Some(0.02)));
        let words: Vec<Word> = got.iter().map(|c| c.as_ref().unwrap().word).collect();
        let mut is_false = false;
        for (index, word) in words.iter().enumerate() {
            is_false |= match (index < 6, word) {
                (true, Word::Faster { .. } | Word::Slower { .. }) => true,
                (false, Word::Equivalent { .. } | Word::NotWorse { .. }) => true,
                (false, Word::Slower { at_least_ratio }) => {
                    false_bounds += u32::from(*at_least_ratio > 0.02);
                    false
                }
                (false, Word::Faster { .. }) => true,
                _ => false,
            };
        }
        is_false
    });
    // Two families of 5 % each.
    assert!(false_words <= 0.1, "{false_words}");
    assert!(f64::from(false_bounds) / 300.0 <= 0.05, "{false_bounds}");
}

#[test]
fn p_values_are_told_with_their_sign() {
    for (p, text) in [(0.000_05, "< 0.0001"), (0.004_23, "= 0.0042"), (0.5, "= 0.500")] {
        assert_eq!(p_text(p), text);
    }
}

proptest! {
    #[test]
    fn words_agree_with_intervals(
        baseline in prop::collection::vec(90.0_f64..110.0, 3..10),
        other in prop::collection::vec(90.0_f64..110.0, 3..10),
    ) {
        let got = single(Pair { baseline: &baseline, other: &other }, &question(None)).unwrap();
        let Effect { value, interval } = got.relative;
        prop_assert!(interval.contains(value));
        prop_assume!((got.p_value - 0.05).abs() > 1e-6);
        match got.word {
            Word::Faster { at_least_ratio } => prop_assert_eq!(at_least_ratio, interval.low),
            Word::Slower { at_least_ratio } => prop_assert_eq!(at_least_ratio, -interval.high),
            Word::Undecided => prop_assert!(interval.contains(0.0)),
            word => prop_assert!(false, "{word} without a margin"),
        }
    }

    #[test]
    fn words_of_a_family_agree_with_its_intervals(
        values in prop::collection::vec(prop::collection::vec(1.0_f64..110.0, 3..7), 6..=6),
    ) {
        let pair = |pair: &'_ [Vec<f64>]| (pair[0].clone(), pair[1].clone());
        let values: Vec<(Vec<f64>, Vec<f64>)> = values.chunks(2).map(pair).collect();
        let pairs: Vec<Pair<'_>> =
            values.iter().map(|(baseline, other)| Pair { baseline, other }).collect();
        for got in family(&pairs, &question(None)) {
            let got = got.unwrap();
            let Effect { value, interval } = got.relative;
            prop_assert!(interval.low >= -1.0 && interval.contains(value));
            prop_assume!((got.adjusted_p_value - 0.05).abs() > 1e-6);
            match got.word {
                Word::Faster { at_least_ratio } => {
                    prop_assert!(value > 0.0 && at_least_ratio == interval.low.max(0.0));
                }
                Word::Slower { at_least_ratio } => {
                    prop_assert!(value < 0.0 && at_least_ratio == (-interval.high).max(0.0));
                }
                Word::Undecided => {
                    prop_assert!(interval.contains(0.0) && got.difference.interval.contains(0.0));
                }
                word => prop_assert!(false, "{word} without a margin"),
            }
        }
    }
}
