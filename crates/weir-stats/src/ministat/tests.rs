use super::*;
use proptest::prelude::*;

/// The example of ministat's manual page.
const IGUANA: [f64; 7] = [50.0, 200.0, 150.0, 400.0, 750.0, 400.0, 150.0];
const CHAMELEON: [f64; 5] = [150.0, 400.0, 720.0, 500.0, 930.0];
/// Medians of two series of six iterations: an even count.
const OFF: [f64; 6] = [866_969.0, 867_120.5, 865_990.0, 866_402.0, 868_011.0, 866_969.0];
const ON: [f64; 6] = [542_704.0, 541_990.5, 543_120.0, 542_211.0, 540_876.0, 542_704.0];

fn set<'a>(name: &'a str, values: &'a [f64]) -> Set<'a> {
    Set { name, values }
}

#[test]
fn manual_page_example() {
    let sets = [set("iguana", &IGUANA), set("chameleon", &CHAMELEON)];
    let text = render(&sets, &Options::default()).unwrap();
    assert_eq!(text, include_str!("../../tests/golden/iguana-chameleon.txt"));
}

#[test]
fn separate_bars() {
    let sets = [set("iguana", &IGUANA), set("chameleon", &CHAMELEON)];
    let options = Options { separate_bars: true, width: 60, ..Options::default() };
    let text = render(&sets, &options).unwrap();
    assert_eq!(text, include_str!("../../tests/golden/separate-bars.txt"));
}

#[test]
fn proven_difference_of_even_counts() {
    let sets = [set("forwarding.pps", &OFF), set("nft-stateful.pps", &ON)];
    let text = render(&sets, &Options::default()).unwrap();
    assert_eq!(text, include_str!("../../tests/golden/proven-even.txt"));
}

#[test]
fn a_higher_stack_of_an_earlier_set_is_cut_off() {
    let (tall, flat, middle) = ([1.0, 1.0, 1.0, 1.0, 9.0], [2.0, 4.0, 6.0], [1.0, 1.0, 3.0]);
    let sets = [set("tall", &tall), set("flat", &flat), set("middle", &middle)];
    let options = Options { width: 30, ..Options::default() };
    let text = render(&sets, &options).unwrap();
    assert_eq!(text, include_str!("../../tests/golden/cut-stacks.txt"));
}

#[test]
fn seven_sets_and_every_symbol() {
    let values: Vec<[f64; 3]> = (0..7).map(|n| [0.0, 1.0 + f64::from(n), 20.0]).collect();
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let sets: Vec<Set<'_>> =
        names.iter().zip(&values).map(|(name, values)| set(name, values)).collect();
    let text = render(&sets, &Options { width: 40, ..Options::default() }).unwrap();
    assert_eq!(text, include_str!("../../tests/golden/seven-sets.txt"));
}

#[test]
fn quiet_and_vitals_only() {
    let sets = [set("iguana", &IGUANA), set("chameleon", &CHAMELEON)];
    let options = Options { quiet: true, vitals_only: true, ..Options::default() };
    assert_eq!(
        render(&sets, &options).unwrap(),
        "x   7            50           750           200           300     238.04761\n\
         +   5           150           930           500           540     299.08193\n"
    );
    let options = Options { plot: false, ..Options::default() };
    assert_eq!(
        render(&sets, &options).unwrap(),
        "x iguana\n\
         + chameleon\n    \
         N           Min           Max        Median           Avg        Stddev\n\
         x   7            50           750           200           300     238.04761\n\
         +   5           150           930           500           540     299.08193\n\
         No difference proven at 95.0% confidence\n"
    );
}

#[test]
fn no_spread_no_plot() {
    let text = render(&[set("flat", &[5.0; 3])], &Options::default()).unwrap();
    assert_eq!(text.lines().nth(1), Some("[no plot, span is zero width]"));
    let equal = compare(&[5.0; 3], &[5.0; 3], Confidence::P95).unwrap();
    assert!(!equal.proven && equal.half_width == 0.0);
    let different = compare(&[5.0; 3], &[6.0; 3], Confidence::P95).unwrap();
    assert!(different.proven && different.percent == 20.0);
}

/// As the original has it, as far as it does not write past its memory.
#[test]
fn no_columns_leave_a_frame() {
    let options = Options { width: 0, separate_bars: true, ..Options::default() };
    let text = render(&[set("a", &[1.0, 2.0, 3.0, 9.0]), set("b", &[1.0, 2.0, 3.0])], &options);
    assert!(text.unwrap().starts_with("x a\n+ b\n++\n||\n||\n||\n||\n||\n++\n"));
}

#[test]
fn the_version_of_2015() {
    let options = Options {
        plot: false,
        version: Version::Of2015,
        even_median: EvenMedian::Upper,
        ..Options::default()
    };
    let line = |values: &[f64]| {
        let text = render(&[set("s", values)], &options).unwrap();
        text.lines().last().unwrap().to_owned()
    };
    assert_eq!(
        line(&[1.0, 2.0, 4.0, 9.0]),
        "x   4             1             9             4             4     3.5590261"
    );
    // The sums say that the variance of equal values is a little under zero.
    assert_eq!(
        line(&[0.1; 3]),
        "x   3           0.1           0.1           0.1           0.1          -nan"
    );
    assert_eq!(
        line(&[-0.0; 3]),
        "x   3            -0            -0            -0             0             0"
    );
    let text = render(&[set("a", &OFF), set("b", &ON)], &options).unwrap();
    let expected = EXPECTED[1] * 100.0 / 866_910.25;
    assert!(text.contains(&format!("\t-37.4482% +/- {}%\n", g(expected))), "{text}");
    let huge = [1e160, 1.1e160, 1.2e160];
    assert!(matches!(render(&[set("h", &huge)], &options), Err(MinistatError::NotFinite(_))));
}

/// Worked out from the definitions in another program.
#[test]
fn comparison_checked_elsewhere() {
    let comparison = compare(&OFF, &ON, Confidence::P95).unwrap();
    let near = |left: f64, right: f64| (left - right).abs() <= 1e-9 * right.abs();
    assert!(comparison.proven);
    assert_eq!(comparison.t, 2.228);
    assert!(near(comparison.difference, EXPECTED[0]), "{comparison:?}");
    assert!(near(comparison.half_width, EXPECTED[1]), "{comparison:?}");
    assert!(near(comparison.percent, EXPECTED[2]), "{comparison:?}");
    assert!(near(comparison.percent_half_width, EXPECTED[3]), "{comparison:?}");
    assert!(near(comparison.pooled_stddev, EXPECTED[4]), "{comparison:?}");
}

const EXPECTED: [f64; 5] = [-324642.6667, 953.2743101, -37.44824411, 0.09443563941, 741.0769922];

#[test]
fn a_reference_of_mean_zero_has_no_percentage() {
    let comparison = compare(&[-1.0, 0.0, 1.0], &[9.0, 10.0, 11.0], Confidence::P95).unwrap();
    assert!(comparison.proven && !comparison.percent.is_finite());
    assert!(comparison.to_string().contains("\tinf% +/- "), "{comparison}");
}

#[test]
fn refusals() {
    let message = |sets: &[Set<'_>], options: &Options| {
        render(sets, options).map_err(|error| error.to_string()).unwrap_err()
    };
    let options = Options::default();
    let good = set("good", &IGUANA);
    assert_eq!(message(&[], &options), "0 datasets were given: ministat takes 1 to 7");
    assert_eq!(message(&[good; 8], &options), "8 datasets were given: ministat takes 1 to 7");
    assert_eq!(
        message(&[good, set("few", &[1.0, 2.0])], &options),
        "Dataset few must contain at least 3 data points"
    );
    for values in [[1.0, 2.0, f64::NAN], [1.0, 1e308, -1e308]] {
        assert_eq!(
            message(&[set("bad", &values)], &options),
            "Dataset bad holds a value that is not a finite number, or is too large to square"
        );
        assert_eq!(compare(&IGUANA, &values, Confidence::P95), None);
    }
    for width in [1, WIDTH_MAX + 1] {
        let text = format!("a plot cannot be {width} columns wide: give 2 to 10000");
        assert_eq!(message(&[good], &Options { width, ..options }), text);
        let options = Options { width, plot: false, ..options };
        assert!(render(&[good], &options).is_ok(), "no plot, no width");
    }
    assert_eq!(compare(&IGUANA, &[1.0, 2.0], Confidence::P95), None);
}

proptest! {
    #[test]
    fn never_panics_and_keeps_its_shape(
        sets in prop::collection::vec(prop::collection::vec(prop::num::f64::ANY, 0..12), 0..9),
        width in 0_usize..120, separate_bars: bool
    ) {
        let sets: Vec<Set<'_>> = sets.iter().map(|values| set("s", values)).collect();
        let options = Options { width, separate_bars, ..Options::default() };
        if let Ok(text) = render(&sets, &options) {
            prop_assert!(text.ends_with('\n'));
            for line in text.lines().filter(|line| line.starts_with('|')) {
                prop_assert_eq!(line.chars().count(), width + 2);
                prop_assert!(line.ends_with('|'));
            }
        }
    }

    #[test]
    fn every_value_of_a_single_set_is_drawn(
        values in prop::collection::vec(-1e6_f64..1e6, 3..40), width in 2_usize..120
    ) {
        let options = Options { width, ..Options::default() };
        let text = render(&[set("s", &values)], &options).unwrap();
        let drawn = text.lines().filter(|line| line.starts_with('|')).collect::<String>();
        prop_assert_eq!(drawn.matches('x').count(), values.len());
        prop_assert_eq!(drawn.matches('A').count(), 1);
    }

    #[test]
    fn swapping_the_sets_turns_the_sign(
        a in prop::collection::vec(1.0_f64..1e6, 3..20),
        b in prop::collection::vec(1.0_f64..1e6, 3..20)
    ) {
        let forward = compare(&a, &b, Confidence::P95).unwrap();
        let backward = compare(&b, &a, Confidence::P95).unwrap();
        prop_assert_eq!(forward.difference, -backward.difference);
        prop_assert!((forward.half_width - backward.half_width).abs()
            <= 1e-9 * forward.half_width);
        prop_assert_eq!(forward.proven, forward.difference.abs() > forward.half_width);
    }

    #[test]
    fn more_confidence_is_wider(
        a in prop::collection::vec(1.0_f64..1e6, 3..20),
        b in prop::collection::vec(1.0_f64..1e6, 3..20)
    ) {
        let widths: Vec<f64> = Confidence::ALL
            .iter()
            .map(|level| compare(&a, &b, *level).unwrap().half_width)
            .collect();
        prop_assert!(widths.is_sorted_by(|narrow, wide| narrow < wide));
    }
}
