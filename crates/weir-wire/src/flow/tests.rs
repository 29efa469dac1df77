use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn space(src: &str, dst: &str) -> FlowSpace {
    FlowSpace::new(src.parse().unwrap(), dst.parse().unwrap()).unwrap()
}

#[test]
fn published_flow_counts() {
    for (src, dst, flow_count) in [
        ("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.70", 4_900),
        ("198.18.10.1:2000-198.18.15.133", "198.19.10.0:2000-198.19.15.133", 1_997_982),
        ("198.18.10.1:2000-198.18.10.70", "198.19.10.1:2000-198.19.10.71", 4_970),
        ("198.18.10.0:2000-198.18.15.133", "198.19.10.0:2000-198.19.15.133", 1_999_396),
        ("10.0.0.1", "10.1.0.1", 1),
    ] {
        assert_eq!(space(src, dst).flow_count(), flow_count, "{src} to {dst}");
    }
}

#[test]
fn the_walk_is_an_odometer() {
    let flows: Vec<String> = space("10.0.0.1:5-10.0.0.2:6", "10.9.0.1:7-10.9.0.2:8")
        .iter()
        .map(|f| f.to_string())
        .collect();
    let expected = [
        "10.0.0.1:5 > 10.9.0.1:7",
        "10.0.0.1:6 > 10.9.0.1:7",
        "10.0.0.2:5 > 10.9.0.1:7",
        "10.0.0.2:6 > 10.9.0.1:7",
        "10.0.0.1:5 > 10.9.0.1:8",
        "10.0.0.1:6 > 10.9.0.1:8",
        "10.0.0.2:5 > 10.9.0.1:8",
        "10.0.0.2:6 > 10.9.0.1:8",
        "10.0.0.1:5 > 10.9.0.2:7",
        "10.0.0.1:6 > 10.9.0.2:7",
        "10.0.0.2:5 > 10.9.0.2:7",
        "10.0.0.2:6 > 10.9.0.2:7",
        "10.0.0.1:5 > 10.9.0.2:8",
        "10.0.0.1:6 > 10.9.0.2:8",
        "10.0.0.2:5 > 10.9.0.2:8",
        "10.0.0.2:6 > 10.9.0.2:8",
    ];
    assert_eq!(flows, expected);
}

#[test]
fn addresses_walk_over_octet_borders() {
    let space = space("10.0.0.255:1-10.0.1.0", "10.9.0.1:1");
    assert_eq!(space.flow(1).src, Ipv4Addr::new(10, 0, 1, 0));
    assert_eq!(space.iter().nth(1).unwrap().src, Ipv4Addr::new(10, 0, 1, 0));
}

#[test]
fn flow_counts_beyond_64_bits_are_refused() {
    let all: Range = "0.0.0.0:0-255.255.255.255:65535".parse().unwrap();
    let small: Range = "10.0.0.1:1-10.0.0.1:65535".parse().unwrap();
    let error = FlowSpace::new(all, all).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0.0.0.0:0-255.255.255.255:65535 to 0.0.0.0:0-255.255.255.255:65535 make 2^64 flows or \
         more, which cannot be counted: use smaller ranges"
    );
    // 2^48 × 65,535 is the last that fits.
    let largest = FlowSpace::new(all, small).unwrap();
    assert_eq!(largest.flow_count(), (1 << 48) * 65_535);
    let last = largest.flow(largest.flow_count() - 1);
    assert_eq!(last.to_string(), "255.255.255.255:65535 > 10.0.0.1:65535");
    assert_eq!(largest.index_of(&last), Some(largest.flow_count() - 1));
    assert_eq!(largest.iter().size_hint().0, usize::try_from(largest.flow_count()).unwrap());
}

#[test]
fn the_walk_starts_again_after_the_last_flow() {
    let space = space("10.0.0.1:1-10.0.0.3:4", "10.9.0.1:1-10.9.0.5:2");
    assert_eq!(space.flow(space.flow_count()), space.flow(0));
    assert_eq!(space.flow(u64::MAX), space.flow(u64::MAX % space.flow_count()));
}

#[test]
fn foreign_flows_have_no_index() {
    let space = space("10.0.0.1:1-10.0.0.3:4", "10.9.0.1:1-10.9.0.5:2");
    let inside = space.flow(7);
    assert_eq!(space.index_of(&inside), Some(7));
    assert_eq!(space.index_of(&Flow { src_port: 5, ..inside }), None);
    assert_eq!(space.index_of(&Flow { dst: Ipv4Addr::new(10, 9, 0, 6), ..inside }), None);
}

#[test]
fn families_are_one() {
    let v4: AddrRange = "10.0.0.1".parse().unwrap();
    let v6: AddrRange = "[::1]:5-[::3]:6".parse().unwrap();
    let error = FlowSpace::new(v4, v6).unwrap_err().to_string();
    assert_eq!(
        error,
        "10.0.0.1:1234 to [::1]:5-[::3]:6 are of different address families: give two IPv4 or two \
         IPv6 ranges"
    );
    let space = FlowSpace::new(v6, v6).unwrap();
    assert_eq!(space.flow_count(), 36);
    let flows: Vec<String> = space.iter().map(|flow| flow.to_string()).collect();
    assert_eq!(flows[0], "[::1]:5 > [::1]:5");
    assert_eq!(flows[3], "[::2]:6 > [::1]:5");
    assert_eq!(flows[35], "[::3]:6 > [::3]:6");
    for (index, flow) in (0..).zip(space.iter()) {
        assert_eq!((space.index_of(&flow), flow), (Some(index), space.flow(index)));
    }
}

/// Small spaces anywhere in the address and port numbers, so that all flows can be walked.
fn spaces() -> impl Strategy<Value = FlowSpace> {
    let range = || {
        (0..=u32::MAX - 3, 0_u32..4, 0..=u16::MAX - 3, 0_u16..4).prop_map(|(addr, n, port, m)| {
            Range::new((addr.into(), (addr + n).into()), (port, port + m))
        })
    };
    (range(), range()).prop_map(|(src, dst)| FlowSpace::new(src, dst).unwrap())
}

proptest! {
    #[test]
    fn walking_equals_indexing(space in spaces()) {
        let walked: Vec<Flow> = space.iter().collect();
        let indexed: Vec<Flow> = (0..space.flow_count()).map(|index| space.flow(index)).collect();
        prop_assert_eq!(&walked, &indexed);
        let distinct: HashSet<Flow> = walked.iter().copied().collect();
        prop_assert_eq!(u64::try_from(distinct.len()).unwrap(), space.flow_count());
        for (index, flow) in (0..).zip(&walked) {
            prop_assert_eq!(space.index_of(flow), Some(index));
        }
    }

    #[test]
    fn index_of_inverts_flow(a: u32, b: u32, p: u16, q: u16, c: u32, d: u32, index: u64) {
        let src = Range::new((a.into(), b.into()), (p, q));
        let dst = Range::new((c.into(), d.into()), (q, q));
        if let Ok(space) = FlowSpace::new(src, dst) {
            let index = index % space.flow_count();
            prop_assert_eq!(space.index_of(&space.flow(index)), Some(index));
        }
    }
}
