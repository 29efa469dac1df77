//! States that were stored, made again: found by their packets, counted, and never in the way of
//! what is there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_wire::protocol::{ICMP, TCP, UDP};

use super::audit::audit;
use super::harness::*;
use crate::firewall::layout::{self, control, phase, tcp_phase};
use crate::firewall::restore::{Outcome, Restored};
use crate::firewall::sweep::{Filter, Mode};

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn v6(last: u8) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into()
}

/// A state of UDP with both halves.
fn state(ends: [(IpAddr, u16); 2]) -> Restored {
    Restored {
        ends,
        wire: [None; 2],
        gateways: [0; 2],
        protocol: UDP,
        flags: layout::STATE_HALF_A | layout::STATE_HALF_B,
        profile: 0,
        halves: [7, 8],
        interfaces: [1, 2],
        phase: [phase::MULTIPLE; 2],
        seq: [[0; 2]; 2],
        max_win: [0; 2],
        wscale: [0; 2],
        packets: [1000, 2],
        bytes: [5_000_000_000, 80],
        created_tick: 500,
        last_tick: 900,
    }
}

#[test]
fn a_state_made_again_is_found_from_both_ends_and_stays_the_first() {
    let Some(table) = table(64, 64, 100) else { return };
    let mut made = 0;
    for (protocol, ports) in [(UDP, [1000, 53]), (ICMP, [77, 8])] {
        for addr in [v4, v6] {
            let ends = [(addr(1), ports[0]), (addr(2), ports[1])];
            let restored = Restored { protocol, ..state(ends) };
            assert_eq!(table.firewall.restore(&restored).unwrap(), Outcome::Made);
            assert_eq!(table.firewall.restore(&restored).unwrap(), Outcome::Present);
            let turned = Restored { ends: [ends[1], ends[0]], ..restored };
            assert_eq!(table.firewall.restore(&turned).unwrap(), Outcome::Present);
            let packet = table.request().set("packet.protocol", protocol.into());
            let packet = packet.set("operation", LOOK.into());
            let there = table.call(&packet.clone().ends(ends[0], ends[1]));
            assert_eq!((there.result(), there.get("hit.reverse")), (HIT, 0));
            assert_eq!((there.word("hit.covered", 0, 1), there.word("hit.covered", 1, 1)), (1, 1));
            let back = table.call(&packet.ends(ends[1], ends[0]));
            assert_eq!((back.result(), back.get("hit.reverse")), (HIT, 1));
            made += 1;
        }
    }
    let found = audit(&table.firewall);
    assert_eq!((found.live, found.ipv6, table.state_count()), (made, 2, made));
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!((audit(&table.firewall).live, table.state_count()), (0, 0));
}

#[test]
fn a_connection_goes_on_within_its_window_alone() {
    let Some(table) = table(64, 64, 100) else { return };
    let ends = [(v4(1), 1000), (v4(2), 80)];
    let established = tcp_phase::ESTABLISHED;
    let connected = layout::WSCALE_CONNECTED;
    let restored = Restored {
        protocol: TCP,
        phase: [established; 2],
        seq: [[10_000, 10_000 + 5000], [70_000, 70_000 + 5000]],
        max_win: [5000; 2],
        wscale: [connected, 0],
        ..state(ends)
    };
    assert_eq!(table.firewall.restore(&restored).unwrap(), Outcome::Made);
    assert_eq!(table.firewall.arena().read32(control::HALF_OPEN_COUNT), 0);
    let packet = table.request().ends(ends[0], ends[1]).set("packet.protocol", TCP.into());
    let packet = packet.set("operation", LOOK.into()).set("packet.tcp_flags", 0x10);
    let packet = packet.set("packet.ack", 70_000).set("packet.window", 5000);
    let packet = packet.set("packet.payload_bytes", 100);
    let fits = table.call(&packet.clone().set("packet.seq", 10_000));
    assert_eq!(fits.result(), HIT);
    let far = table.call(&packet.set("packet.seq", 900_000));
    assert_eq!(far.drops("state-mismatch"), 1);
    let opening = Restored { ends: [(v4(3), 1), ends[1]], wscale: [0; 2], ..restored };
    assert_eq!(table.firewall.restore(&opening).unwrap(), Outcome::Made);
    assert_eq!(table.firewall.arena().read32(control::HALF_OPEN_COUNT), 1);
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!(table.firewall.arena().read32(control::HALF_OPEN_COUNT), 0);
    assert_eq!(audit(&table.firewall).live, 0);
}

#[test]
fn limit_and_memory_refuse_and_leave_nothing() {
    let Some(table) = table(1, 2, 4) else { return };
    let of = |last| state([(v6(last), 1), (v6(200), 2)]);
    // One bucket and two slots: the second state would need two of them, for itself and addresses.
    assert_eq!(table.firewall.restore(&of(1)).unwrap(), Outcome::Made);
    assert_eq!(table.firewall.restore(&of(2)).unwrap(), Outcome::Memory);
    let found = audit(&table.firewall);
    assert_eq!((found.live, table.state_count()), (1, 1));
    let Some(table) = super::harness::table(64, 64, 3) else { return };
    for last in 1..=3 {
        assert_eq!(table.firewall.restore(&of(last)).unwrap(), Outcome::Made);
    }
    assert_eq!(table.firewall.restore(&of(4)).unwrap(), Outcome::Limit);
    assert_eq!((audit(&table.firewall).live, table.state_count()), (3, 3));
    let mixed = state([(v4(1), 1), (v6(1), 1)]);
    assert!(table.firewall.restore(&mixed).is_err());
}
