//! Routes that are kept where nothing is filtered: for whom, how long, and that they are the
//! kernel's.

use weir_bpf::firewall::layout::{KEPT_SET_COUNT, control, table};
use weir_fw::engine;
use weir_net::{CpuList, Netlink, cpu};

use super::frames::{Ends, fix};
use super::rig::{OTHER_MAC, PASS, PEER_MAC, REDIRECT, Rig};

/// The MAC address that a frame leaves to.
#[track_caller]
fn leaves_to(rig: &Rig, frame: &[u8]) -> [u8; 6] {
    let verdict = rig.receive(0, frame);
    assert_eq!(verdict.action, REDIRECT);
    verdict.frame[..6].try_into().expect("six bytes")
}

fn asked(rig: &Rig) -> u64 {
    rig.table_counter(table::FIB_LOOKUPS)
}

/// Test runs are done by any CPU, each of which keeps routes of its own: on one from here on.
fn stay_on_a_cpu() {
    let first = CpuList::new([cpu::online().expect("some").first()]).expect("one");
    cpu::pin_current_thread(&first).expect("it may run there");
}

/// The neighbour that routes lead to gets another address.
fn move_neighbour(rig: &Rig) {
    let add = || {
        let netlink = Netlink::open().expect("netlink opens");
        let to = "10.0.2.2".parse().expect("an address");
        netlink.add_neighbour("b1", to, OTHER_MAC).expect("replaced");
    };
    rig.inside.run(add).expect("the namespace is entered");
}

#[test]
fn a_flow_keeps_its_route_until_something_changes() {
    let Some(rig) = Rig::new("kept") else { return };
    stay_on_a_cpu();
    let through = Ends::new("192.0.2.1", "10.0.2.2");
    let frame = through.udp((1000, 2000), b"hello");
    let first = rig.receive(0, &frame);
    for _ in 0..3 {
        assert_eq!(rig.receive(0, &frame).frame, first.frame);
    }
    assert_eq!((asked(&rig), rig.forwarded()), (1, 4), "the kernel was asked once");
    // What a route does not say is looked at in every packet.
    for (what, other) in [
        ("over the MTU", through.udp((1000, 2000), &[0; 1480])),
        ("the last hop", through.ttl(1).udp((1000, 2000), b"")),
    ] {
        let verdict = rig.receive(0, &other);
        assert_eq!((verdict.action, verdict.frame), (PASS, other), "{what}");
    }
    move_neighbour(&rig);
    assert_eq!(leaves_to(&rig, &frame), PEER_MAC[1], "nobody has told the box");
    engine::renew_next_hops(&rig.firewall);
    assert_eq!(leaves_to(&rig, &frame), OTHER_MAC);
}

#[test]
fn what_makes_another_flow_is_asked_for_by_itself() {
    let Some(rig) = Rig::new("keptkey") else { return };
    stay_on_a_cpu();
    let through = Ends::new("192.0.2.1", "10.0.2.2");
    let mut marked = through.udp((1000, 2000), b"");
    marked[15] = 0x10;
    fix(&mut marked);
    let flows = [
        through.udp((1000, 2000), b""),
        through.udp((1001, 2000), b""),
        through.udp((1000, 2001), b""),
        through.udp((2000, 1000), b""),
        Ends::new("192.0.2.2", "10.0.2.2").udp((1000, 2000), b""),
        Ends::new("192.0.2.1", "10.0.2.9").udp((1000, 2000), b""),
        marked,
    ];
    for (count, frame) in (1_u64..).zip(&flows) {
        let mac = if count == 6 { OTHER_MAC } else { PEER_MAC[1] };
        for _ in 0..2 {
            assert_eq!(leaves_to(&rig, frame), mac, "flow {count}");
            assert_eq!(asked(&rig), count, "flow {count}");
        }
    }
}

#[test]
fn more_flows_than_there_is_room_for_go_where_they_belong() {
    let Some(rig) = Rig::new("keptmany") else { return };
    stay_on_a_cpu();
    let round = |port: u16| {
        for source in 0..=u8::MAX {
            for turn in 0..64_u16 {
                let is_odd = (turn + u16::from(source)) % 2 == 1;
                let (to, mac) = match is_odd {
                    true => ("10.0.2.9", OTHER_MAC),
                    false => ("10.0.2.2", PEER_MAC[1]),
                };
                let ends = Ends::new(&format!("192.0.2.{source}"), to);
                assert_eq!(leaves_to(&rig, &ends.udp((turn, port), b"")), mac);
            }
        }
        asked(&rig)
    };
    let flow_count = 256 * 64;
    let first = round(7);
    assert_eq!(first, flow_count);
    let again = round(7) - first;
    assert!(flow_count > u64::from(KEPT_SET_COUNT) * 3, "more than there is room for");
    assert!(again > flow_count / 4, "{again} were asked for again: not all had room");
    assert!(again < flow_count * 9 / 10, "{again} were asked for again: hardly any was kept");
}

#[test]
fn routes_of_long_ago_are_not_found_when_their_number_comes_again() {
    let Some(rig) = Rig::new("keptwrap") else { return };
    stay_on_a_cpu();
    let frame = Ends::new("192.0.2.1", "10.0.2.2").udp((1000, 2000), b"");
    let arena = rig.firewall.arena();
    assert_eq!(leaves_to(&rig, &frame), PEER_MAC[1]);
    move_neighbour(&rig);
    engine::renew_next_hops(&rig.firewall);
    engine::forget_routes(&rig.firewall);
    // 65,534 changes later.
    arena.write32(control::GENERATION, 1);
    assert_eq!(leaves_to(&rig, &frame), OTHER_MAC);
    // What is of now stays.
    let before = asked(&rig);
    engine::forget_routes(&rig.firewall);
    assert_eq!(leaves_to(&rig, &frame), OTHER_MAC);
    assert_eq!(asked(&rig), before);
}
