use super::*;
use proptest::prelude::*;

/// For UDP over IPv4 without tags.
fn pattern(text: &str) -> SizePattern {
    text.parse::<Sizes>().unwrap().pattern(14, 60, 1)
}

fn cycle(text: &str) -> Vec<u16> {
    match pattern(text) {
        SizePattern::Cycle(sizes) => sizes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn sizes_go_round() {
    assert_eq!(cycle("60"), [60]);
    let list = pattern("60,590,60,1514");
    let sizes: Vec<u16> = (0..6).map(|s| list.size_bytes(s)).collect();
    assert_eq!(sizes, [60, 590, 60, 1514, 60, 590]);
    assert_eq!((list.min_bytes(), list.max_bytes()), (60, 1514));
    assert_eq!(list.mean_fraction(), (2224, 4));
    assert!((list.mean_bytes() - 556.0).abs() < f64::EPSILON);
    assert_eq!(list.size_bytes(u64::MAX), 1514);
}

#[test]
fn imix_is_seven_four_one() {
    let sizes = cycle("imix");
    let count = |size| sizes.iter().filter(|other| **other == size).count();
    assert_eq!((sizes.len(), count(60), count(590), count(1514)), (12, 7, 4, 1));
    // Spread out: the large one does not start, and small ones stand between.
    assert_eq!(sizes, [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60]);
    assert_eq!(pattern("imix").mean_fraction(), (7 * 60 + 4 * 590 + 1514, 12));
    // IP sizes stay what they are behind a tag, and grow where headers do not fit.
    let tagged = Sizes::Imix.pattern(18, 84, 0);
    assert_eq!((tagged.min_bytes(), tagged.size_bytes(1), tagged.max_bytes()), (84, 594, 1518));
}

#[test]
fn genome_letters_include_the_fcs() {
    assert_eq!(cycle("imix-genome:aaafg"), [60, 60, 60, 1276, 1514]);
    assert_eq!(
        cycle("imix-genome:abcdefghij"),
        [60, 124, 252, 508, 1020, 1276, 1514, 2108, 8996, 15_996]
    );
    assert_eq!(cycle("imix-genome:zAa,z=1522,A=1000"), [1518, 996, 60]);
    // Definitions are printed by letter.
    let genome: Sizes = "imix-genome:zAa,z=1522,A=1000".parse().unwrap();
    assert_eq!(genome.to_string(), "imix-genome:zAa,A=1000,z=1522");
}

#[test]
fn uniform_is_the_documented_function() {
    let sizes = pattern("60-1514");
    let seed = splitmix64(1 ^ 0x7369_7a65, 0);
    for s in [0, 1, 99, u64::MAX] {
        let expected = 60 + (((splitmix64(seed, s) >> 32) * 1455) >> 32);
        assert_eq!(u64::from(sizes.size_bytes(s)), expected);
    }
    assert_eq!((sizes.min_bytes(), sizes.max_bytes()), (60, 1514));
    assert_eq!(sizes.mean_fraction(), (1574, 2));
    let mut seen: Vec<u16> = (0..300).map(|s| pattern("60-62").size_bytes(s)).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [60, 61, 62]);
    let all = pattern("0-65535");
    assert!((0..1000).any(|s| all.size_bytes(s) > 60_000));
}

#[test]
fn refusals() {
    let refused = |text: &str| text.parse::<Sizes>().unwrap_err().to_string();
    for (text, word) in [
        ("", ""),
        ("x", "x"),
        ("+60", "+60"),
        ("65536", "65536"),
        ("60-", ""),
        ("60-70-80", "70-80"),
        ("60,,70", ""),
        ("60,70-80", "70-80"),
        ("IMIX", "IMIX"),
        ("imix-genome", "imix"),
    ] {
        let expected = format!("`{word}` is not a frame size");
        assert!(refused(text).starts_with(&expected), "{text}: {}", refused(text));
    }
    assert!(refused("70-60").starts_with("the sizes 70-60 run backwards"));
    assert_eq!(refused(&"60,".repeat(4096)), "4097 sizes are too many: at most 4096");
    assert!(refused("imix-genome:").starts_with("the genome has no letter"));
    assert!(refused("imix-genome:ak").starts_with("`k` is not a letter"));
    assert!(refused("imix-genome:aZ").starts_with("the genome's letter `Z` has no size"));
    for definition in ["A", "a=64", "B=1", "A=1,A=2", "AA=1"] {
        let text = refused(&format!("imix-genome:A,{definition}"));
        let word = if definition == "A=1,A=2" { "A=2" } else { definition };
        assert!(text.starts_with(&format!("`{word}` defines no letter")), "{text}");
    }
}

fn sizes() -> impl Strategy<Value = Sizes> {
    prop_oneof![
        any::<u16>().prop_map(Sizes::Fixed),
        (any::<u16>(), any::<u16>())
            .prop_map(|(a, b)| Sizes::Uniform { first_bytes: a.min(b), last_bytes: a.max(b) }),
        prop::collection::vec(any::<u16>(), 2..20).prop_map(Sizes::List),
        Just(Sizes::Imix),
        ("[a-jA]{0,20}", any::<u16>()).prop_map(|(letters, size)| {
            format!("imix-genome:{letters}A,A={size}").parse().unwrap()
        }),
    ]
}

proptest! {
    #[test]
    fn printed_is_read_back(sizes in sizes()) {
        prop_assert_eq!(sizes.to_string().parse::<Sizes>(), Ok(sizes));
    }

    #[test]
    fn figures_are_those_of_the_frames(sizes in sizes(), start: u32, seed: u64) {
        let pattern = sizes.pattern(14, 60, seed);
        let count = match &pattern {
            SizePattern::Cycle(sizes) => u64::try_from(sizes.len()).unwrap(),
            SizePattern::Uniform { .. } => 500,
        };
        let frames: Vec<u16> =
            (0..count).map(|s| pattern.size_bytes(u64::from(start) + s)).collect();
        let (min, max) = (pattern.min_bytes(), pattern.max_bytes());
        prop_assert!(frames.iter().all(|size| (min..=max).contains(size)));
        if let SizePattern::Cycle(_) = pattern {
            let total: u64 = frames.iter().map(|size| u64::from(*size)).sum();
            prop_assert_eq!(pattern.mean_fraction(), (total, count));
            prop_assert!(frames.contains(&min) && frames.contains(&max));
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,30}", tail in "[a-zA-Z0-9,=-]{0,20}") {
        let _ = text.parse::<Sizes>();
        if let Ok(sizes) = format!("imix-genome:{tail}").parse::<Sizes>() {
            let _ = sizes.pattern(14, 60, 0).size_bytes(7);
        }
    }
}
