use super::*;
use proptest::prelude::*;

fn addr(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

/// Parses with the default port 2000.
fn parse(text: &str) -> (Range, Swapped) {
    Range::parse(text, 2000).unwrap()
}

#[test]
fn one_address() {
    let one = Range::new((addr(10, 0, 0, 1), addr(10, 0, 0, 1)), (2000, 2000));
    assert_eq!(parse("10.0.0.1"), (one, Swapped::default()));
    assert_eq!(parse("10.0.0.1:2000-10.0.0.1:2000"), (one, Swapped::default()));
    assert_eq!((one.addr_count(), one.port_count(), one.pair_count()), (1, 1, 1));
    assert_eq!(one.to_string(), "10.0.0.1:2000");
}

#[test]
fn missing_ports_follow_pkt_gen() {
    // The start takes the default, the end takes the start's.
    assert_eq!(parse("10.0.0.1-10.0.0.9").0.to_string(), "10.0.0.1:2000-10.0.0.9");
    assert_eq!(parse("10.0.0.1:7-10.0.0.9").0.to_string(), "10.0.0.1:7-10.0.0.9");
    let end_only = parse("10.0.0.1-10.0.0.9:2010").0;
    assert_eq!((end_only.port_first, end_only.port_last), (2000, 2010));
    let from_str: Range = "10.0.0.1-10.0.0.9".parse().unwrap();
    assert_eq!((from_str.port_first, from_str.port_last), (1234, 1234));
}

#[test]
fn without_a_default_the_port_must_be_written() {
    let error = Range::parse("10.0.0.1-10.0.0.9:5", 0).unwrap_err();
    assert_eq!(error.to_string(), "`10.0.0.1` has no port: write `10.0.0.1:PORT`");
    assert_eq!(error.at(), 0..8);
    assert!(Range::parse("10.0.0.1:5-10.0.0.9", 0).is_ok());
    // Port 0 as written is a port like any other: 0 to 65535 are 65,536 ports.
    let all = Range::parse("10.0.0.1:0-10.0.0.1:65535", 0).unwrap().0;
    assert_eq!(all.port_count(), 65_536);
}

#[test]
fn reversed_ends_are_swapped_independently() {
    let forward = parse("198.18.10.1:5-198.18.10.70:9").0;
    for (text, addr, port) in [
        ("198.18.10.70:5-198.18.10.1:9", true, false),
        ("198.18.10.1:9-198.18.10.70:5", false, true),
        ("198.18.10.70:9-198.18.10.1:5", true, true),
    ] {
        let swapped = Swapped { addr, port };
        assert_eq!(parse(text), (forward, swapped), "{text}");
        assert!(swapped.any());
    }
    assert!(!Swapped::default().any());
}

#[test]
fn counts() {
    assert_eq!(parse("198.18.10.1-198.18.10.70").0.addr_count(), 70);
    assert_eq!(parse("198.19.10.0-198.19.15.133").0.addr_count(), 1414);
    let all = parse("0.0.0.0:0-255.255.255.255:65535").0;
    assert_eq!(all.addr_count(), 1 << 32);
    assert_eq!(all.pair_count(), 1 << 48);
}

#[test]
fn contains_both_ends_and_nothing_else() {
    let range = parse("10.0.0.2:5-10.0.0.4:6").0;
    assert!(range.contains(addr(10, 0, 0, 2), 5) && range.contains(addr(10, 0, 0, 4), 6));
    assert!(!range.contains(addr(10, 0, 0, 1), 5) && !range.contains(addr(10, 0, 0, 5), 5));
    assert!(!range.contains(addr(10, 0, 0, 2), 4) && !range.contains(addr(10, 0, 0, 2), 7));
}

/// Text, message, and the word that the caret must stand under.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "the range is empty: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
    ("300.1.1.1", "`300.1.1.1` is not an IPv4 address: 300 is over 255", "300.1.1.1"),
    ("10.0.0.1-10.0.0.256:9", "`10.0.0.256` is not an IPv4 address: 256 is over 255", "10.0.0.256"),
    (
        "10.0.0.99999999999999999999",
        "`10.0.0.99999999999999999999` is not an IPv4 address: 99999999999999999999 is over 255",
        "10.0.0.99999999999999999999",
    ),
    ("10.0.1", "`10.0.1` is not an IPv4 address: 3 numbers where 4 are needed", "10.0.1"),
    ("10:80", "`10` is not an IPv4 address: 1 number where 4 are needed", "10"),
    ("1.2.3.4.5", "`1.2.3.4.5` is not an IPv4 address: 5 numbers where 4 are needed", "1.2.3.4.5"),
    ("10..0.1", "`10..0.1` is not an IPv4 address: a number is missing next to a dot", "10..0.1"),
    (
        "10.0.0.010",
        "`10.0.0.010` is not an IPv4 address: 010 has a leading zero, which some programs read as \
         octal",
        "10.0.0.010",
    ),
    (
        "localhost:80",
        "`localhost` is not an IPv4 address: 'l' is neither a digit nor a dot",
        "localhost",
    ),
    (
        "10.0.0.1 :80",
        "`10.0.0.1 ` is not an IPv4 address: ' ' is neither a digit nor a dot",
        "10.0.0.1 ",
    ),
    (
        "10.0.0.1-10.0.0.9-10.0.0.10",
        "`10.0.0.9-10.0.0.10` is not an IPv4 address: '-' is neither a digit nor a dot",
        "10.0.0.9-10.0.0.10",
    ),
    (
        "10.0.0.0/8",
        "`10.0.0.0/8` is not an IPv4 address: '/' is neither a digit nor a dot",
        "10.0.0.0/8",
    ),
    ("10.0.0.1:", "the port after `:` is missing", ""),
    ("10.0.0.1:80:90", "`80:90` is not a port: ':' is not a digit", "80:90"),
    ("10.0.0.1:+80", "`+80` is not a port: '+' is not a digit", "+80"),
    ("10.0.0.1:http-10.0.0.9", "`http` is not a port: 'h' is not a digit", "http"),
    ("10.0.0.1:80-10.0.0.9:65536", "`65536` is not a port: it is over 65535", "65536"),
    ("10.0.0.1-", "an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
    ("-10.0.0.1", "an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
    (":80", "an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
];

#[test]
fn refusals_say_what_and_where() {
    for (text, message, word) in REFUSED {
        let error = Range::parse(text, 2000).unwrap_err();
        assert_eq!(error.to_string(), *message, "{text}");
        assert_eq!(&text[error.at()], *word, "{text}");
    }
    // An empty word stands where something is missed.
    assert_eq!(Range::parse("10.0.0.1:", 2000).unwrap_err().at(), 9..9);
    assert_eq!(Range::parse("10.0.0.1-", 2000).unwrap_err().at(), 9..9);
    assert_eq!(Range::parse("10.0.0.1-10.0.0.256:9", 2000).unwrap_err().at(), 9..19);
}

#[test]
fn ipv6_is_recognised_and_refused() {
    for (text, word) in [
        ("2001:2::1", "2001:2::1"),
        ("::", "::"),
        ("::1-::64", "::1"),
        ("10.0.0.1-2001:2::1", "2001:2::1"),
        ("[2001:2::1]:2000", "[2001:2::1]:2000"),
        ("3@[2001:2::1]:2000-[2001:2::9]", "3@[2001:2::1]:2000"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
    ] {
        let error = Range::parse(text, 2000).unwrap_err();
        assert_eq!(error.kind(), &RangeErrorKind::Ipv6, "{text}");
        assert_eq!(
            error.to_string(),
            format!(
                "`{word}` is an IPv6 address: IPv6 streams are not built yet; give IPv4 addresses"
            )
        );
        assert_eq!(&text[error.at()], word, "{text}");
    }
}

proptest! {
    #[test]
    fn canonical_form_is_read_back(
        a: u32, b: u32, p: u16, q: u16, same_addr: bool, same_port: bool
    ) {
        let b = if same_addr { a } else { b };
        let q = if same_port { p } else { q };
        let range = Range::new((a.into(), b.into()), (p, q));
        // Whatever the default port is: the canonical form always writes the port.
        for default_port in [0, 1, 2000] {
            let read = Range::parse(&range.to_string(), default_port).unwrap();
            prop_assert_eq!(read, (range, Swapped::default()));
        }
        prop_assert_eq!(range.to_string().parse::<Range>().unwrap(), range);
    }

    #[test]
    fn ends_may_come_in_any_order(a: u32, b: u32, p: u16, q: u16) {
        let (a, b) = (Ipv4Addr::from(a), Ipv4Addr::from(b));
        let (range, swapped) = Range::parse(&format!("{a}:{p}-{b}:{q}"), 0).unwrap();
        prop_assert_eq!(range, Range::new((a, b), (p, q)));
        prop_assert_eq!(swapped, Swapped { addr: a > b, port: p > q });
        prop_assert!(range.addr_first <= range.addr_last && range.port_first <= range.port_last);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,40}") {
        if let Err(error) = Range::parse(&text, 2000) {
            prop_assert!(text.get(error.at()).is_some());
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn nearly_right_text_never_panics(text in "[0-9.:\\-\\[@ é]{0,30}") {
        match Range::parse(&text, 2000) {
            Ok((range, _)) => prop_assert_eq!(range.to_string().parse::<Range>().unwrap(), range),
            Err(error) => prop_assert!(text.get(error.at()).is_some()),
        }
    }
}
