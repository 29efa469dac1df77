//! The formats, the differences, and counters that real packets move.

use super::*;
use crate::netlink::Netlink;
use crate::testing::namespace;

fn map(pairs: &[(&str, u64)]) -> CounterMap {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[test]
fn pairs_of_lines() {
    let text = "Ip: Forwarding InReceives\nIp: 1 42\nTcp: MaxConn InSegs\nTcp: -1 7\n";
    let expected = map(&[("Ip.Forwarding", 1), ("Ip.InReceives", 42), ("Tcp.InSegs", 7)]);
    assert_eq!(parse_pairs(text).unwrap(), expected);
    for (text, line, part) in [
        ("Ip: A B\nIp: 1\n", 2, "differ"),
        ("Ip: A\nUdp: 1\n", 2, "values of Ip"),
        ("Ip: A\n", 1, "without values"),
        ("Ip A\nIp 1\n", 1, "colon"),
        ("Ip: A\nIp: x\n", 2, "`x`"),
        ("Ip: A\nIp: -x\n", 2, "`-x`"),
    ] {
        let (number, reason) = parse_pairs(text).unwrap_err();
        assert_eq!(number, line, "{text:?}");
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn a_name_and_a_value_on_each_line() {
    let text = "Ip6InReceives                   \t12\nIp6InHdrErrors \t0\n";
    let expected = map(&[("Ip6InReceives", 12), ("Ip6InHdrErrors", 0)]);
    assert_eq!(parse_lines(text).unwrap(), expected);
    assert_eq!(parse_lines("A 1\nB\n").unwrap_err().0, 2);
    assert!(parse_lines("A x\n").unwrap_err().1.contains("`x`"));
}

#[test]
fn conntrack_sums_the_cpus_but_not_the_entries() {
    let text = "entries  clashres found new invalid\n\
                0000000a  00000001 0000000f 00000000 00000002\n\
                0000000a  00000002 00000001 00000000 00000003\n";
    assert_eq!(
        parse_conntrack(text).unwrap(),
        map(&[
            ("nf_conntrack.entries", 10),
            ("nf_conntrack.clashres", 3),
            ("nf_conntrack.found", 16),
            ("nf_conntrack.new", 0),
            ("nf_conntrack.invalid", 5),
        ])
    );
    assert!(parse_conntrack("").is_err());
    assert!(parse_conntrack("entries found\n0000000a\n").is_err());
    assert!(parse_conntrack("entries\nxyz\n").is_err());
}

#[test]
fn differences_find_increases_new_counters_and_resets() {
    let before = map(&[("Ip.A", 5), ("Ip.B", 9), ("Ip.C", 1)]);
    let after = map(&[("Ip.A", 8), ("Ip.B", 2), ("Ip.D", 4)]);
    let result = difference(&before, &after, Width::Bits64);
    assert_eq!(result.increases, map(&[("Ip.A", 3), ("Ip.D", 4)]));
    assert_eq!(
        result.resets,
        [
            CounterReset { name: "Ip.B".to_owned(), before: 9, after: Some(2) },
            CounterReset { name: "Ip.C".to_owned(), before: 1, after: None },
        ]
    );
}

#[test]
fn counters_of_32_bits_may_pass_their_end() {
    const RANGE: u64 = 1 << 32;
    let cases = [
        (Width::SumsOf32Bits, RANGE - 10, 5, Some(15)),
        (Width::SumsOf32Bits, 1000, 5, None),
        // Two CPUs' counters, of which one or both passed their end.
        (Width::SumsOf32Bits, 2 * RANGE - 10, RANGE - 4, Some(6)),
        (Width::SumsOf32Bits, 2 * RANGE - 10, 3, Some(13)),
        (Width::Bits64, RANGE - 10, 5, None),
    ];
    for (width, before, after, expected) in cases {
        let result = difference(&map(&[("a", before)]), &map(&[("a", after)]), width);
        assert_eq!(result.increases.get("a").copied(), expected, "{width:?} {before} {after}");
        assert_eq!(result.resets.len(), usize::from(expected.is_none()));
    }
}

#[test]
fn the_kernels_files_are_understood_and_are_the_namespaces_own() {
    let own = namespace("counters");
    own.run(|| {
        let before = snmp().unwrap();
        assert_eq!(before["Ip.InReceives"], 0, "a new namespace has received nothing");
        assert!(netstat().unwrap().contains_key("IpExt.InNoRoutes"));
        if let Some(counters) = conntrack().unwrap() {
            assert!(counters.contains_key("nf_conntrack.insert_failed"));
        }
        Netlink::open().unwrap().set_up("lo").unwrap();
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..3 {
            sender.send_to(b"x", receiver.local_addr().unwrap()).unwrap();
        }
        let mut buffer = [0; 1];
        for _ in 0..3 {
            receiver.recv(&mut buffer).unwrap();
        }
        let result = difference(&before, &snmp().unwrap(), Width::Bits64);
        assert_eq!(result.resets, []);
        assert_eq!(result.increases["Ip.InReceives"], 3);
        assert_eq!(result.increases["Udp.InDatagrams"], 3);
    })
    .unwrap();
}
