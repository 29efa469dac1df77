//! Which address and which port a pool gives: sets of ports, the address with the fewest states,
//! one outer end for all destinations.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_bpf::firewall::sweep::{self, Filter};

use super::frames::{Ends, Segment};
use super::rig::{REDIRECT, Rig};
use super::translation::{Seen, address, kill, seen};

/// The port of another host.
type Goal = (&'static str, u16);

const GOALS: [Goal; 3] = [("10.0.2.2", 53), ("10.0.2.2", 54), ("10.0.2.2", 55)];
const GOALS6: [Goal; 3] = [("fd00:2::2", 53), ("fd00:2::2", 54), ("fd00:2::2", 55)];

/// A datagram from a port inside to another host, as it leaves.
fn sent(rig: &Rig, inside: (&str, u16), goal: Goal) -> Option<Seen> {
    let verdict = rig.receive(0, &Ends::new(inside.0, goal.0).udp((inside.1, goal.1), b""));
    (verdict.action == REDIRECT).then(|| seen(&verdict.frame))
}

/// The outer ends that a port inside has for each of the goals.
fn outer_ends(rig: &Rig, inside: (&str, u16)) -> BTreeSet<(IpAddr, u16)> {
    let sent = GOALS.iter().map(|goal| sent(rig, inside, *goal).expect("it leaves").src);
    sent.collect()
}

/// The states whose source the world sees as this address of IPv4.
fn seen_as(text: &str) -> Filter {
    let mut source = sweep::Ends::default();
    if let IpAddr::V4(address) = address(text) {
        source.address[..4].copy_from_slice(&address.octets());
    }
    source.mask[..4].fill(0xff);
    Filter { ip_version: 4, source, is_outside: true, ..Filter::default() }
}

#[test]
fn ports_are_those_of_a_customer_edge() {
    let nat = "nat on b1 inet from 10.0.1.0/24 to any -> 10.0.2.1 map-e-portset 4/10/0x155\npass\n";
    let Some(rig) = Rig::with_rules("mape", nat) else { return };
    let mut ports = BTreeSet::new();
    for port in 1..=60 {
        // Fifteen blocks of four ports each; which of them is free is looked for in 60 at random.
        let (_, given) = sent(&rig, ("10.0.1.2", port), GOALS[0]).expect("a port is free").src;
        assert_eq!(given >> 2 & 0x3ff, 0x155, "{given:#x} has the identifier");
        assert_ne!(given >> 12, 0, "{given:#x} is none of the first block");
        assert!(ports.insert(given), "{given} is in use");
    }
    assert!(sent(&rig, ("10.0.1.2", 61), GOALS[0]).is_none(), "all of them are in use");
    assert_eq!(rig.dropped(1, 1, "map-failed") + rig.dropped(0, 1, "map-failed"), 1);
    assert!(sent(&rig, ("10.0.1.2", 61), GOALS[1]).is_some(), "for that host they are not");
}

#[test]
fn an_inner_end_has_one_outer_end_for_all_destinations() {
    for (family, inside, more, outside, goals) in [
        ("inet", "10.0.1.2", "10.0.1.3", "10.0.2.1", GOALS),
        ("inet6", "fd00:1::2", "fd00:1::3", "fd00:2::1", GOALS6),
    ] {
        let nat = format!(
            "nat on b1 {family} from any to any -> {outside} port 6000:6001 \
             endpoint-independent\npass\n"
        );
        let Some(rig) = Rig::with_rules("endpoint", &nat) else { return };
        let leave = |host: &str, port: u16, goal: Goal| sent(&rig, (host, port), goal);
        let first = leave(inside, 1000, goals[0]).expect("it leaves").src;
        for goal in goals {
            assert_eq!(leave(inside, 1000, goal).expect("it leaves").src, first, "{goal:?}");
        }
        // Nobody else gets that end, not for a destination either that it has no state with.
        let second = leave(more, 1000, goals[0]).expect("the other port").src;
        assert_ne!(first, second);
        assert_eq!(leave(more, 1000, goals[2]).expect("it leaves").src, second);
        assert!(leave(inside, 1001, goals[1]).is_none(), "both ports are given away");
        // TCP chooses for each destination.
        let ends = Ends::new(inside, goals[1].0);
        let mut given = BTreeSet::new();
        for port in 1001..1003 {
            let ports = (port, 80);
            let segment = Segment { ports, sequence: 1, acknowledgement: 0, flags: 0x02 };
            let verdict = rig.receive(0, &ends.tcp(&segment, b""));
            assert_eq!(verdict.action, REDIRECT);
            given.insert(seen(&verdict.frame).src.1);
        }
        assert_eq!(given.into_iter().collect::<Vec<_>>(), [6000, 6001]);
        // With the last state the end is anybody's again.
        assert!(kill(&rig, Filter::default()) >= 7);
        let ends: BTreeSet<_> =
            (1..=2).map(|port| leave(more, port, goals[0]).expect("it leaves").src).collect();
        assert_eq!(ends.len(), 2);
        assert!(leave(more, 3, goals[0]).is_none());
    }
}

#[test]
fn an_outer_end_that_a_port_keeps_is_one_for_all() {
    let nat = "nat on b1 inet from any to any -> 10.0.2.1 static-port endpoint-independent\npass\n";
    let Some(rig) = Rig::with_rules("endstatic", nat) else { return };
    assert_eq!(outer_ends(&rig, ("10.0.1.2", 1000)), [(address("10.0.2.1"), 1000)].into());
    assert!(sent(&rig, ("10.0.1.3", 1000), ("10.0.2.2", 99)).is_none(), "it is somebody else's");
    assert!(sent(&rig, ("10.0.1.3", 1001), ("10.0.2.2", 99)).is_some());
}

#[test]
fn the_address_with_the_fewest_states_is_next() {
    let nat = "match out on b1 inet nat-to { 10.0.2.1, 10.0.2.8/31 } least-states\npass\n";
    let Some(rig) = Rig::with_openbsd_rules("least", nat) else { return };
    let mut port = 1000;
    let mut next = || {
        port += 1;
        sent(&rig, ("10.0.1.2", port), GOALS[0]).expect("it leaves").src
    };
    let counted = |list: &[(IpAddr, u16)]| {
        let of = |text: &str| list.iter().filter(|(ip, _)| *ip == address(text)).count();
        ["10.0.2.1", "10.0.2.8", "10.0.2.9"].map(of)
    };
    let first: Vec<_> = (0..9).map(|_| next()).collect();
    assert_eq!(counted(&first), [3, 3, 3]);
    // Two that have no state any more get the next four.
    let removed: u64 = ["10.0.2.8", "10.0.2.9"].iter().map(|text| kill(&rig, seen_as(text))).sum();
    assert_eq!(removed, 6);
    let second: Vec<_> = (0..4).map(|_| next()).collect();
    assert_eq!(counted(&second), [0, 2, 2]);
    let third: Vec<_> = (0..5).map(|_| next()).collect();
    assert_eq!(counted(&third), [1, 2, 2]);
}

#[test]
fn redirections_go_to_the_server_with_the_fewest_states() {
    let rdr = "pass in on b0 inet proto udp to 10.0.1.1 port 53 rdr-to { 10.0.2.2, 10.0.2.3 } \
               least-states\npass out\n";
    let Some(rig) = Rig::with_openbsd_rules("leastrdr", rdr) else { return };
    let mut taken = [0; 2];
    for port in 1..=8 {
        // The kernel has yet to find out where one of them is: it gets the packet as it will leave.
        let verdict = rig.receive(0, &Ends::new("10.0.1.2", "10.0.1.1").udp((port, 53), b""));
        let to = seen(&verdict.frame).dst.0;
        taken[usize::from(to == address("10.0.2.3"))] += 1;
    }
    assert_eq!(taken, [4, 4]);
    // Who repeats goes where the flow is.
    let frame = Ends::new("10.0.1.2", "10.0.1.1").udp((1, 53), b"");
    let before = seen(&rig.receive(0, &frame).frame);
    assert_eq!(seen(&rig.receive(0, &frame).frame), before);
}

#[test]
fn two_cpus_that_choose_the_same_port_both_get_one() {
    let nat = "nat on b1 inet from any to any -> 10.0.2.1 port 6000:6063\npass\n";
    let Some(rig) = Rig::with_rules("race", nat) else { return };
    for _ in 0..100 {
        let open = |host: &'static str| {
            let frames: Vec<Vec<u8>> =
                (1..=32).map(|port| Ends::new(host, "10.0.2.2").udp((port, 53), b"")).collect();
            frames.iter().filter(|frame| rig.receive(0, frame).action == REDIRECT).count()
        };
        let opened: usize = std::thread::scope(|scope| {
            let threads = ["10.0.1.2", "10.0.1.3"].map(|host| scope.spawn(move || open(host)));
            threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
        });
        assert_eq!(opened, 64, "there is a port for each");
        assert_eq!(kill(&rig, Filter::default()), 64);
    }
}
