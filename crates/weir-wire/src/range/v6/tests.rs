use super::*;
use crate::range::{AddrRange, Span};
use core::net::{IpAddr, Ipv4Addr};
use proptest::prelude::*;

fn parse(text: &str) -> Range6 {
    Range6::parse(text, 2000).unwrap().0
}

#[test]
fn pkt_gens_example_is_a_hundred() {
    let range = parse("::1-::64");
    assert_eq!((range.addr_count(), range.port_count(), range.pair_count()), (100, 1, 100));
    assert_eq!(range.to_string(), "[::1]:2000-[::64]");
    assert_eq!(range.addr(99), "::64".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn any_group_may_vary() {
    let range = parse("3@[2001:2:0:1::9]:5-[2001:2:0:ffff::9]:7");
    assert_eq!((range.group, range.addr_count(), range.port_count()), (3, 0xffff, 3));
    assert_eq!(range.addr(1), "2001:2:0:2::9".parse::<Ipv6Addr>().unwrap());
    assert_eq!(range.addr_offset("2001:2:0:2::9".parse().unwrap()), Some(1));
    assert_eq!(range.addr_offset("2001:2:0:2::8".parse().unwrap()), None);
    assert_eq!(range.addr_offset("2001:2:0:0::9".parse().unwrap()), None);
    let all = parse("0@[::]-[ffff::]");
    assert_eq!((all.addr_count(), all.addr(65_535)), (65_536, "ffff::".parse().unwrap()));
}

#[test]
fn ports_and_order_follow_the_ipv4_rules() {
    assert_eq!(parse("2001:2::1").to_string(), "[2001:2::1]:2000");
    assert_eq!(parse("[2001:2::1]").to_string(), "[2001:2::1]:2000");
    let (range, swapped) = Range6::parse("[::9]:7-[::1]:9", 0).unwrap();
    assert_eq!(range.to_string(), "[::1]:7-[::9]:9");
    assert_eq!(swapped, Swapped { addr: true, port: false });
    assert_eq!("::1".parse::<Range6>().unwrap().port_first, 1234);
    let error = Range6::parse("[::1]-[::2]:9", 0).unwrap_err();
    assert_eq!(error.to_string(), "`::1` has no port: write `[::1]:PORT`");
}

/// Text, message, and the word that the caret must stand under.
const REFUSED: &[(&str, &str, &str)] = &[
    (
        "[2001:2::1]-[2001:2:1::1]",
        "`2001:2:1::1` differs from the start in group 2, but only group 7 varies: a range varies \
         one group of 16 bits, named as in `2@[ADDR]`",
        "2001:2:1::1",
    ),
    (
        "8@[::1]",
        "`8` is not a group of an IPv6 address: groups are numbered from 0 to 7, as in \
         `7@[::1]-[::64]`",
        "8",
    ),
    ("[::1]-7@[::2]", "`7@[::2]` names a group: only the start of a range does", "7@[::2]"),
    (
        "[::1]:1-10.0.0.9",
        "`10.0.0.9` is of a different address family from the start of the range: both ends are \
         IPv4, or both are IPv6",
        "10.0.0.9",
    ),
    (
        "10.0.0.1-[::9]:1",
        "`[::9]:1` is of a different address family from the start of the range: both ends are \
         IPv4, or both are IPv6",
        "[::9]:1",
    ),
    ("[::1]:0", "port `0` cannot be used: ports run from 1 to 65535", "0"),
    ("10.0.0.1:5-10.0.0.1:0", "port `0` cannot be used: ports run from 1 to 65535", "0"),
    ("[::1]:65536", "`65536` is not a port: it is over 65535", "65536"),
    ("10.0.0.1:65536", "`65536` is not a port: it is over 65535", "65536"),
    ("[::1]:", "the port after `:` is missing", ""),
    ("[::1", "`[::1` lacks a bracket: write `[ADDR]:PORT`", "[::1"),
    ("::1]:5", "`::1]:5` lacks a bracket: write `[ADDR]:PORT`", "::1]:5"),
    ("[::1]x", "`x` follows the bracket: write `[ADDR]:PORT`", "x"),
    ("[]:5", "an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
    ("[::1]-", "an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`", ""),
    (
        "fe80::1%eth0",
        "`fe80::1%eth0` is not an IPv6 address: '%' does not belong there",
        "fe80::1%eth0",
    ),
    ("1::2::3", "`1::2::3` is not an IPv6 address: `::` may occur only once", "1::2::3"),
    ("12345::1", "`12345::1` is not an IPv6 address: 12345 has more than four digits", "12345::1"),
    ("1:2:3", "`1:2:3` is not an IPv6 address: 3 groups where 8 are needed", "1:2:3"),
    ("[10.0.0.1]:5", "`10.0.0.1` is not an IPv6 address: it has no colon", "10.0.0.1"),
];

#[test]
fn refusals_say_what_and_where() {
    for (text, message, word) in REFUSED {
        let error = AddrRange::parse(text, 2000).unwrap_err();
        assert_eq!(error.to_string(), *message, "{text}");
        assert_eq!(&text[error.at()], *word, "{text}");
    }
    assert_eq!(Range6::parse("", 1).unwrap_err().kind(), &RangeErrorKind::Empty);
    assert_eq!(AddrRange::parse("[::1]:5-[::2]:0", 1).unwrap_err().at(), 14..15);
}

#[test]
fn either_family_is_read_by_one_parser() {
    let v4: AddrRange = "10.0.0.1:5-10.0.0.9".parse().unwrap();
    assert!(!v4.is_ipv6() && v4.contains(Ipv4Addr::new(10, 0, 0, 9).into(), 5));
    assert!(!v4.contains(IpAddr::V6(Ipv6Addr::LOCALHOST), 5));
    let v6: AddrRange = "[::1]:5-[::9]".parse().unwrap();
    assert!(v6.is_ipv6() && v6.contains(Ipv6Addr::LOCALHOST.into(), 5));
    assert!(!v6.contains(Ipv6Addr::LOCALHOST.into(), 6));
    assert_eq!((v4.pair_count(), v6.pair_count()), (9, 9));
    assert_eq!(
        (v4.to_string(), v6.to_string()),
        ("10.0.0.1:5-10.0.0.9".into(), "[::1]:5-[::9]".into())
    );
}

proptest! {
    #[test]
    fn canonical_form_is_read_back(
        addr: u128, last: u16, group in 0_u8..8, p in 1_u16.., q in 1_u16.., same: bool
    ) {
        let mut segments = Ipv6Addr::from(addr).segments();
        if !same {
            segments[usize::from(group)] = last;
        }
        let ends = (addr.into(), segments.into());
        let range = Range6::new(ends, group, (p, if same { p } else { q })).unwrap();
        prop_assert_eq!(Range6::parse(&range.to_string(), 0), Ok((range, Swapped::default())));
        prop_assert_eq!(range.to_string().parse(), Ok(AddrRange::V6(range)));
        for offset in [0, range.addr_count() / 2, range.addr_count() - 1] {
            prop_assert_eq!(range.addr_offset(range.addr(offset)), Some(offset));
        }
        prop_assert_eq!(range.addr(range.addr_count() - 1), range.addr_last);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,40}") {
        for error in [
            Range6::parse(&text, 2000).err(), AddrRange::parse(&text, 2000).err(),
        ].into_iter().flatten() {
            prop_assert!(text.get(error.at()).is_some());
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn nearly_right_text_never_panics(text in "[0-9a-f.:\\-\\[\\]@é]{0,30}") {
        match AddrRange::parse(&text, 2000) {
            Ok((range, _)) => prop_assert_eq!(range.to_string().parse(), Ok(range)),
            Err(error) => prop_assert!(text.get(error.at()).is_some()),
        }
    }
}
