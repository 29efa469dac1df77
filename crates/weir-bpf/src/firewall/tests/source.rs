//! Sources that rules track: nodes, states, connections, rates, and what goes over.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use super::audit::audit;
use super::harness::*;
use crate::firewall::layout::{
    BLANK_AT, BLANK_PROFILE_AT, control, decision_flags, image, reason, rule, source_flags, timeout,
};
use crate::firewall::sweep::{Filter, Mode};

/// Limits of a rule: `struct weir_fw_rule` of image.h.
#[derive(Default)]
struct Limits {
    overload: u16,
    is_global: bool,
    states_max: u32,
    nodes_max: u32,
    connections_max: u32,
    rate: (u32, u32),
}

impl Limits {
    /// Writes the rule into the heap; returns where it stands.
    fn write(&self, table: &Table) -> u64 {
        let (arena, at) = (table.firewall.arena(), table.firewall.regions().heap.at);
        arena.populate(at, 4096).unwrap();
        let global = if self.is_global { source_flags::GLOBAL } else { 0 };
        arena.write(at + rule::OVERLOAD, &self.overload.to_ne_bytes());
        arena.write(at + rule::SOURCE_FLAGS, &[source_flags::TRACK | global]);
        arena.write32(at + rule::SOURCE_STATES_MAX, self.states_max);
        arena.write32(at + rule::SOURCE_NODES_MAX, self.nodes_max);
        arena.write32(at + rule::SOURCE_CONN_MAX, self.connections_max);
        arena.write32(at + rule::SOURCE_RATE_COUNT, self.rate.0);
        arena.write32(at + rule::SOURCE_RATE_S, self.rate.1);
        at.into()
    }
}

fn source(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn server() -> (IpAddr, u16) {
    (Ipv4Addr::new(192, 0, 2, 1).into(), 80)
}

/// A request under the rule: the flow of a source's port.
fn flow<'a>(table: &'a Table, rule_at: u64, last: u8, port: u16) -> Request<'a> {
    table
        .request()
        .ends((source(last), port), server())
        .set("decision.flags", u64::from(decision_flags::KEEP_STATE | decision_flags::SOURCE_TRACK))
        .set("decision.rule_at", rule_at)
}

/// Opens a connection as far as its handshake; returns the answer to its last segment.
fn connect<'a>(table: &'a Table, rule_at: u64, last: u8, port: u16, tick: u64) -> Request<'a> {
    let segment = |flags: u64, seq: u64, ack: u64| {
        let request = flow(table, rule_at, last, port).set("packet.protocol", 6);
        let request = request.set("packet.tcp_flags", flags).set("packet.window", 1000);
        request.set("packet.seq", seq).set("packet.ack", ack).set("packet.tick", tick)
    };
    table.call(&segment(2, 1000, 0));
    let back = Table::leaving(segment(18, 9000, 1001));
    table.call(&back.ends(server(), (source(last), port)));
    table.call(&segment(16, 1001, 9001))
}

fn node_count(table: &Table) -> u32 {
    table.firewall.arena().read32(control::SOURCE_COUNT)
}

#[test]
fn a_source_has_so_many_states() {
    let Some(table) = table(64, 200, 100) else { return };
    let rule = Limits { states_max: 3, ..Limits::default() }.write(&table);
    for port in 1..=3 {
        assert_eq!(table.call(&flow(&table, rule, 1, port)).get("inserts"), 1);
    }
    let refused = table.call(&flow(&table, rule, 1, 4));
    let result = REFUSED + u32::from(reason::SRC_LIMIT);
    assert_eq!((refused.result(), refused.drops("src-limit")), (result, 1));
    assert_eq!(table.call(&flow(&table, rule, 2, 4)).get("inserts"), 1, "another source");
    assert_eq!((table.state_count(), node_count(&table)), (4, 2));
    // What ends makes room.
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!((table.state_count(), node_count(&table)), (0, 0));
    assert_eq!(table.call(&flow(&table, rule, 1, 4)).get("inserts"), 1);
    audit(&table.firewall);
}

#[test]
fn states_of_tracked_sources_are_killed_by_their_interface() {
    let Some(table) = table(64, 200, 100) else { return };
    for (port, is_global) in [(1, false), (2, true)] {
        let rule = Limits { is_global, ..Limits::default() }.write(&table);
        assert_eq!(table.call(&flow(&table, rule, 1, port)).get("inserts"), 1);
    }
    let kill = |interface| {
        let filter = Filter { interface, ..Filter::default() };
        table.firewall.sweep_all(Mode::Kill(filter)).unwrap().removed_count
    };
    assert_eq!((kill(2), kill(1)), (0, 2));
    audit(&table.firewall);
}

#[test]
fn src_track_keeps_a_source_for_a_while() {
    let Some(table) = table(64, 200, 100) else { return };
    table.firewall.arena().write32(BLANK_PROFILE_AT + timeout::SRC_TRACK * 4, ticks(100));
    let rule = Limits { nodes_max: 1, ..Limits::default() }.write(&table);
    table.set_tick(1000);
    assert_eq!(table.call(&flow(&table, rule, 1, 1)).get("inserts"), 1);
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!((table.state_count(), node_count(&table)), (0, 1));
    assert_eq!(table.call(&flow(&table, rule, 2, 1)).drops("src-limit"), 1);
    table.set_tick(1000 + ticks(90));
    assert_eq!((table.firewall.expire_sources().unwrap(), node_count(&table)), (0, 1));
    table.set_tick(1000 + ticks(110));
    assert_eq!((table.firewall.expire_sources().unwrap(), node_count(&table)), (1, 0));
    assert_eq!(table.call(&flow(&table, rule, 2, 1)).get("inserts"), 1);
}

/// More than one request names, and than one batch reads.
#[test]
fn many_sources_are_read_and_end() {
    const COUNT: u16 = 1500;
    let Some(table) = table(2048, 4000, 2000) else { return };
    table.firewall.arena().write32(BLANK_PROFILE_AT + timeout::SRC_TRACK * 4, ticks(100));
    let rule = Limits::default().write(&table);
    table.set_tick(1000);
    let address = |index: u16| Ipv4Addr::from(0x0a01_0000 + u32::from(index)).into();
    let add = |index| {
        let request = flow(&table, rule, 1, 1).ends((address(index), 1), server());
        assert_eq!(table.call(&request).get("inserts"), 1, "source {index}");
    };
    (0..COUNT).for_each(add);
    let addresses: Vec<IpAddr> =
        table.firewall.sources().unwrap().iter().map(|source| source.address).collect();
    assert_eq!(addresses, (0..COUNT).map(address).collect::<Vec<_>>());
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!((table.state_count(), node_count(&table)), (0, u32::from(COUNT)));
    // These have states again.
    (0..10).for_each(add);
    table.set_tick(1000 + ticks(110));
    let ended = table.firewall.expire_sources().unwrap();
    assert_eq!((ended, node_count(&table)), (u64::from(COUNT) - 10, 10));
    assert_eq!(table.firewall.kill_sources(Filter::default()).unwrap(), 10);
    assert_eq!(table.firewall.sources().unwrap(), []);
}

#[test]
fn what_is_counted_of_a_source_is_read_and_forgotten() {
    let Some(table) = table(64, 200, 100) else { return };
    let rule = Limits { states_max: 2, ..Limits::default() }.write(&table);
    table.set_tick(1000);
    for (last, port) in [(1, 1), (1, 2), (2, 1)] {
        assert_eq!(table.call(&flow(&table, rule, last, port)).get("inserts"), 1);
    }
    let counted = || -> Vec<(IpAddr, u32)> {
        let list = table.firewall.sources().unwrap();
        list.iter().map(|source| (source.address, source.state_count)).collect()
    };
    let all = counted();
    assert_eq!(all.iter().map(|counted| counted.1).collect::<Vec<_>>(), [2, 1]);
    let IpAddr::V4(first) = all[0].0 else { panic!("{all:?}") };
    let mut filter = Filter { ip_version: 4, ..Filter::default() };
    filter.source.address[..4].copy_from_slice(&first.octets());
    filter.source.mask[..4].fill(255);
    assert_eq!(table.firewall.kill_sources(Filter { ip_version: 6, ..filter }).unwrap(), 0);
    assert_eq!(table.firewall.kill_sources(filter).unwrap(), 1);
    assert_eq!((counted(), node_count(&table)), (all[1..].to_vec(), 1));
    assert_eq!(table.state_count(), 3, "the states go on");
    // New ones count from nothing, and old ones that end are not counted off.
    assert_eq!(table.call(&flow(&table, rule, 1, 3)).get("inserts"), 1);
    assert_eq!(counted(), [(all[0].0, 1), all[1]]);
    for port in [1, 2] {
        let mut old = filter;
        old.source.port = port;
        let killed = table.firewall.sweep_all(Mode::Kill(old)).unwrap();
        assert_eq!(killed.removed_count, 1, "port {port}");
    }
    assert_eq!(counted(), [(all[0].0, 1), all[1]]);
    audit(&table.firewall);
    assert_eq!(table.firewall.kill_sources(Filter::default()).unwrap(), 2);
    assert_eq!((counted(), node_count(&table)), (Vec::new(), 0));
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!((table.state_count(), node_count(&table)), (0, 0));
}

#[test]
fn a_rule_and_all_rules_have_so_many_sources() {
    let Some(table) = table(64, 200, 100) else { return };
    let rule = Limits { nodes_max: 2, ..Limits::default() }.write(&table);
    let inserts = |last| table.call(&flow(&table, rule, last, 1)).get("inserts");
    assert_eq!((inserts(1), inserts(2), inserts(3), inserts(1)), (1, 1, 0, 0));
    assert_eq!(table.call(&flow(&table, rule, 2, 9)).get("inserts"), 1, "a known source");
    let other = |last| table.call(&flow(&table, rule, last, 1).set("decision.rule", 8));
    assert_eq!(other(7).get("inserts"), 1, "another rule");
    table.firewall.arena().write32(BLANK_AT + image::SOURCE_LIMIT, 3);
    assert_eq!(other(8).drops("src-limit"), 1, "set limit src-nodes 3");
    assert_eq!(node_count(&table), 3);
}

#[test]
fn global_tracking_counts_over_rules_and_halves_share_a_node() {
    let Some(table) = table(64, 200, 100) else { return };
    let limits = Limits { states_max: 2, is_global: true, ..Limits::default() };
    let rule = limits.write(&table);
    assert_eq!(table.call(&flow(&table, rule, 1, 1)).get("inserts"), 1);
    let out = flow(&table, rule, 1, 1).set("decision.rule", 8);
    let out = out.set("packet.direction", 1).set("packet.out_interface", 2);
    assert_eq!(table.call(&out).get("inserts"), 1, "the other half, under another rule");
    let second = flow(&table, rule, 1, 2).set("decision.rule", 8);
    assert_eq!(table.call(&second).get("inserts"), 1);
    assert_eq!(table.call(&flow(&table, rule, 1, 3)).drops("src-limit"), 1);
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!(node_count(&table), 0);
}

#[test]
fn a_connection_too_many_ends_and_is_told() {
    let Some(table) = table(64, 200, 100) else { return };
    let limits = Limits { connections_max: 2, overload: 1, ..Limits::default() };
    let rule = limits.write(&table);
    let mut overloads = table.firewall.overload_reader().unwrap();
    for port in 1..=2 {
        assert_eq!(connect(&table, rule, 1, port, 1000).result(), HIT);
    }
    connect(&table, rule, 1, 3, 1000);
    assert_eq!(table.state_count(), 2, "the third one is gone");
    let reported = overloads.read(Duration::from_millis(10)).unwrap();
    let [event] = reported[..] else { panic!("{reported:?}") };
    assert_eq!((event.rule, event.address), (7, source(1)));
    // Until its table is asked, the source makes no further states.
    assert_eq!(table.call(&flow(&table, rule, 1, 9)).drops("src-limit"), 1);
    let later = flow(&table, rule, 1, 9).set("packet.tick", 1100);
    assert_eq!(table.call(&later).get("inserts"), 1);
    audit(&table.firewall);
}

#[test]
fn connections_are_limited_by_their_rate() {
    let Some(table) = table(64, 200, 100) else { return };
    let limits = Limits { rate: (3, 10), ..Limits::default() };
    let rule = limits.write(&table);
    let connects = |port: u16, seconds: u32| {
        let tick = u64::from(ticks(1000 + seconds) + 1);
        connect(&table, rule, 1, port, tick);
        table.state_count()
    };
    assert_eq!((connects(1, 0), connects(2, 0), connects(3, 0)), (1, 2, 3));
    assert_eq!(connects(4, 0), 3, "the fourth in ten seconds ends");
    assert_eq!(connects(5, 20), 4, "they fade");
}
