//! The formats, and counters that real packets move.

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
fn the_kernels_files_are_understood_and_are_the_namespaces_own() {
    let netns = namespace("counters");
    netns
        .run(|| {
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
            let after = snmp().unwrap();
            for counter in ["Ip.InReceives", "Udp.InDatagrams"] {
                assert_eq!(after[counter] - before[counter], 3, "{counter}");
            }
        })
        .unwrap();
}
