//! Records one by one: made, found, told apart, counted, ended.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::audit::audit;
use super::harness::*;
use crate::firewall::layout::{
    self, BLANK_AT, account, control, decision_flags, image, line_account, reason, state,
};
use crate::firewall::sweep::{Ends, Filter, Mode};

fn v4(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn v6(last: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into()
}

#[test]
fn a_flow_finds_its_record_from_both_ends() {
    let Some(table) = table(64, 64, 100) else { return };
    for addr in [v4, |last| v6(u16::from(last))] {
        let (one, two) = ((addr(1), 1000), (addr(2), 53));
        let packet = table.request().ends(one, two);
        let made = table.call(&packet);
        assert_eq!((made.result(), made.get("inserts")), (MISS, 1));
        let again = table.call(&packet);
        assert_eq!((again.result(), again.get("hit.reverse")), (HIT, 0));
        assert_eq!(again.word("hit.covered", 0, 1), 1, "half A covers the way in");
        assert_eq!(again.word("hit.covered", 1, 1), 0, "and not the way out");
        let back = table.call(&packet.clone().ends(two, one).set("operation", u64::from(LOOK)));
        assert_eq!((back.result(), back.get("hit.reverse")), (HIT, 1));
        assert_eq!(back.word("hit.covered", 0, 1), 0, "an answer comes in by the other half");
        assert_eq!(back.word("hit.covered", 1, 1), 1);
        for (src, dst) in [
            ((addr(1), 1001), (addr(2), 53)),
            ((addr(1), 53), (addr(2), 1000)),
            ((addr(3), 1000), (addr(2), 53)),
        ] {
            let other = packet.clone().ends(src, dst).set("operation", u64::from(LOOK));
            assert_eq!(table.call(&other).result(), MISS);
        }
        let tcp = packet.clone().set("packet.protocol", 6).set("operation", u64::from(LOOK));
        assert_eq!(table.call(&tcp).result(), MISS);
    }
    let audit = audit(&table.firewall);
    assert_eq!((audit.live, audit.ipv6), (2, 1));
}

#[test]
fn the_second_half_joins_the_record() {
    let Some(table) = table(64, 64, 100) else { return };
    let packet = table.request();
    assert_eq!(table.call(&packet).get("inserts"), 1);
    // The way out is judged by the ingress program too, where the packet was tracked before.
    let out = packet.clone().set("packet.direction", 1).set("packet.out_interface", 2);
    let out = table.call(&out.set("decision.rule", 8));
    assert_eq!(out.get("inserts"), 1, "the insert adds a half");
    assert_eq!((out.word("hit.covered", 0, 1), out.word("hit.covered", 1, 1)), (1, 1));
    assert_eq!(table.state_count(), 1);
    let line_account_at =
        table.firewall.regions().states.at + out.slot() * 64 + state::SEQ + line_account::HALF;
    let rule =
        |half: u32| table.firewall.arena().read32(line_account_at + half * 4) & layout::RULE_NONE;
    assert_eq!((rule(0), rule(1)), (7, 8));
}

#[test]
fn bound_halves_cover_only_their_interface() {
    let Some(table) = table(64, 64, 100) else { return };
    let if_bound = u64::from(decision_flags::KEEP_STATE | decision_flags::IF_BOUND);
    let packet = table.request().set("decision.flags", if_bound);
    assert_eq!(table.call(&packet).get("inserts"), 1);
    let look = packet.set("operation", u64::from(LOOK));
    assert_eq!(table.call(&look).word("hit.covered", 0, 1), 1);
    let elsewhere = table.call(&look.clone().set("packet.interface", 2));
    assert_eq!((elsewhere.result(), elsewhere.word("hit.covered", 0, 1)), (HIT, 0));
    // Rules that pass it there move the half.
    let moved = look.clone().set("packet.interface", 2).set("operation", KEEP.into());
    assert_eq!(table.call(&moved).get("inserts"), 1);
    assert_eq!(table.call(&look.set("packet.interface", 1)).word("hit.covered", 0, 1), 0);
    assert_eq!((table.state_count(), table.call(&moved).word("hit.covered", 0, 1)), (1, 1));
}

#[test]
fn packets_and_bytes_are_counted_beyond_what_a_line_holds() {
    let Some(table) = table(64, 64, 100) else { return };
    let (regions, arena) = (table.firewall.regions(), table.firewall.arena());
    let accounts = regions.accounts.at..regions.accounts.at + 128 * account::SIZE_BYTES;
    for at in accounts.clone().step_by(8) {
        arena.write64(at, 0x0102_0304_0506_0708);
    }
    let big = table.request().set("packet.ip_bytes", 60_000);
    table.call(&big);
    let is_as_before = |at: u32| arena.read64(at) == 0x0102_0304_0506_0708;
    assert!(accounts.step_by(8).all(is_as_before), "a new record has all in its line");
    for _ in 0..999 {
        table.call(&big);
    }
    let last = table.call(&big);
    let slot = last.slot();
    let line = u64::from(arena.read32(regions.states.at + slot * 64 + state::COUNT));
    let at = regions.accounts.at + slot * account::SIZE_BYTES;
    let lowest = |bits: u32| (1 << bits) - 1;
    let packets = arena.read64(at) & lowest(layout::ACCOUNT_RULE_SHIFT);
    let bytes = arena.read64(at + account::BYTES_CREATED) & lowest(layout::ACCOUNT_SCRUB_SHIFT);
    let shift = layout::STATE_COUNT_PACKETS_SHIFT;
    assert_eq!(packets + (line >> shift), 1001);
    assert_eq!(bytes + (line & lowest(shift)), 1001 * 60_000);
}

#[test]
fn a_full_table_refuses_new_flows_and_keeps_the_others() {
    let Some(table) = table(64, 200, 100) else { return };
    let flows = table.request().set("count", 150);
    let filled = table.call(&flows);
    assert_eq!((filled.get("inserts"), filled.drops("state-limit")), (100, 50));
    assert_eq!(filled.result(), REFUSED + u32::from(reason::STATE_LIMIT));
    let again = table.call(&flows);
    assert_eq!((again.get("hits"), again.get("inserts")), (100, 0), "nobody lost its state");
    assert_eq!(again.drops("state-limit"), 50);
    assert_eq!(audit(&table.firewall).live, 100);
}

#[test]
fn reserved_states_are_for_their_rules() {
    let Some(table) = table(64, 200, 100) else { return };
    table.firewall.arena().write32(BLANK_AT + image::RESERVED_COUNT, 10);
    let flows = table.request().set("count", 150);
    assert_eq!(table.call(&flows).get("inserts"), 90);
    let reserved = table.request().ends((v4(200), 22), (v4(201), 22));
    let flags = decision_flags::KEEP_STATE | decision_flags::RESERVED;
    let reserved = reserved.set("decision.flags", flags.into());
    assert_eq!(table.call(&reserved.set("count", 20)).get("inserts"), 10);
}

#[test]
fn without_slots_the_reason_is_memory() {
    let Some(table) = table(64, 3, 1000) else { return };
    let filled = table.call(&table.request().set("count", 500));
    assert!(filled.drops("memory") > 0, "{filled:?}");
    assert_eq!(filled.get("inserts") + filled.drops("memory"), 500);
    let audit = audit(&table.firewall);
    assert_eq!((audit.live, audit.overflow), (filled.get("inserts"), 3));
    let v6_flows = table.request().ends((v6(1), 1), (v6(0xffff), 1)).set("count", 10);
    assert_eq!(table.call(&v6_flows).drops("memory"), 10, "no slot for their addresses");
    super::audit::audit(&table.firewall);
}

#[test]
fn records_end_when_their_time_is_over() {
    let Some(table) = table(64, 200, 1000) else { return };
    table.set_tick(1000);
    let flows = table.request().set("count", 100);
    assert_eq!(table.call(&flows).get("inserts"), 100);
    table.set_tick(1000 + ticks(50));
    let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
    assert_eq!((swept.live_count, swept.removed_count), (100, 0), "udp.first is 60 s");
    // Forty of them go on, and answers come for twenty.
    let later = flows.clone().set("packet.tick", u64::from(1000 + ticks(55)));
    assert_eq!(table.call(&later.set("count", 40)).get("hits"), 40);
    table.set_tick(1000 + ticks(70));
    let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
    assert_eq!((swept.live_count, swept.removed_count), (40, 60));
    audit(&table.firewall);
    table.set_tick(1000 + ticks(55 + 31));
    let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
    assert_eq!((swept.live_count, swept.removed_count), (0, 40), "udp.single is 30 s");
    assert_eq!(audit(&table.firewall).live, 0);
}

#[test]
fn a_nearly_full_table_forgets_sooner_and_half_open_flows_first() {
    let Some(table) = table(64, 400, 1000) else { return };
    let arena = table.firewall.arena();
    table.set_tick(1000);
    let (one, two) = ((v4(1), 1000), (v4(2), 53));
    let flows = table.request().ends(one, two);
    assert_eq!(table.call(&flows).get("inserts"), 1);
    // Answered and asked again: udp.multiple, 60 s, as udp.first.
    for (src, dst) in [(two, one), (one, two), (two, one)] {
        let packet = table.request().ends(src, dst).set("operation", u64::from(LOOK));
        let packet = if src == two { Table::leaving(packet) } else { packet };
        assert_eq!(table.call(&packet).result(), HIT);
    }
    let once = table.request().ends((v4(100), 1), (v4(2), 53)).set("count", 99);
    assert_eq!(table.call(&once).get("inserts"), 99);
    arena.write32(BLANK_AT + image::ADAPTIVE_START, 50);
    arena.write32(BLANK_AT + image::ADAPTIVE_END, 150);
    // 100 states: half the time is left, a quarter for those that nobody has answered.
    table.set_tick(1000 + ticks(14));
    assert_eq!(table.firewall.sweep_all(Mode::Expire).unwrap().removed_count, 0);
    table.set_tick(1000 + ticks(17));
    let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
    assert_eq!((swept.live_count, swept.removed_count), (1, 99));
    table.set_tick(1000 + ticks(58));
    let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
    assert_eq!(swept.live_count, 1, "with few states nothing is scaled");
}

#[test]
fn an_adaptive_end_that_is_not_above_the_start_scales_nothing() {
    let Some(table) = table(64, 400, 1000) else { return };
    let arena = table.firewall.arena();
    // Behind the packets' tick, also where the programs' clock lags by a fraction of one.
    table.set_tick(1001);
    assert_eq!(table.call(&table.request().set("count", 20)).get("inserts"), 20);
    for (start, end) in [(10, 5), (10, 10)] {
        arena.write32(BLANK_AT + image::ADAPTIVE_START, start);
        arena.write32(BLANK_AT + image::ADAPTIVE_END, end);
        let swept = table.firewall.sweep_all(Mode::Expire).unwrap();
        assert_eq!((swept.live_count, swept.removed_count), (20, 0), "{start} {end}");
    }
    arena.write32(BLANK_AT + image::ADAPTIVE_END, 20);
    assert_eq!(table.firewall.sweep_all(Mode::Expire).unwrap().removed_count, 20, "at the end");
}

#[test]
fn killing_takes_what_fits_the_filter() {
    let Some(table) = table(16, 400, 1000) else { return };
    let to = |address: IpAddr, port, count| {
        let request = table.request().ends((v4(1), 1000), (address, port)).set("count", count);
        assert_eq!(table.call(&request).get("inserts"), count);
    };
    to(Ipv4Addr::new(192, 0, 2, 1).into(), 53, 20);
    to(Ipv4Addr::new(192, 0, 3, 1).into(), 53, 30);
    let six = table.request().ends((v6(1), 7), (v6(0xffff), 53)).set("count", 10);
    assert_eq!(table.call(&six).get("inserts"), 10);
    let network = |address: [u8; 4]| {
        let mut ends = Ends::default();
        ends.address[..4].copy_from_slice(&address);
        ends.mask[..4].copy_from_slice(&[255, 255, 255, 0]);
        ends
    };
    let kill = |filter| table.firewall.sweep_all(Mode::Kill(filter)).unwrap();
    let filter =
        Filter { ip_version: 4, destination: network([192, 0, 2, 0]), ..Filter::default() };
    assert_eq!(kill(filter).removed_count, 20);
    audit(&table.firewall);
    let filter = Filter { ip_version: 4, source: network([192, 0, 3, 0]), ..Filter::default() };
    assert_eq!(kill(filter).removed_count, 0, "it is their destination");
    assert_eq!(kill(Filter { rule: Some(8), ..Filter::default() }).removed_count, 0);
    assert_eq!(kill(Filter { either_way: true, ..filter }).removed_count, 30);
    let swept = kill(Filter { protocol: 17, rule: Some(7), ..Filter::default() });
    assert_eq!((swept.removed_count, swept.live_count), (10, 0));
    assert_eq!(audit(&table.firewall).live, 0);
}

#[test]
fn a_next_hop_is_kept_for_its_direction_and_generation() {
    let Some(table) = table(64, 64, 100) else { return };
    let arena = table.firewall.arena();
    let packet = table.request();
    table.call(&packet);
    let remember = packet.clone().set("operation", u64::from(NEXT_HOP)).set("index", 77);
    table.call(&remember);
    let look = packet.set("operation", u64::from(LOOK));
    let found = table.call(&look);
    assert_eq!((found.get("hit.next_hop"), found.get("hit.generation")), (77, 1));
    let (one, two) = ((v4(1), 1000), (Ipv4Addr::new(192, 0, 2, 1).into(), 53));
    let back = look.clone().ends(two, one);
    assert_eq!(table.call(&back).get("hit.next_hop"), 0);
    arena.write32(control::GENERATION, 2);
    let back = back.set("operation", u64::from(NEXT_HOP)).set("index", 78);
    table.call(&back);
    let found = table.call(&look);
    assert_eq!(found.get("hit.next_hop"), 0, "what another generation found is gone");
    // Long after, the sweep forgets it, so that its number cannot come again.
    arena.write32(control::GENERATION, 2 + 0x2001);
    table.firewall.sweep_all(Mode::Expire).unwrap();
    let found = table.call(&back.set("operation", u64::from(LOOK)));
    assert_eq!((found.get("hit.next_hop"), found.get("hit.generation")), (0, 0));
}

#[test]
fn icmp_errors_pass_with_the_flow_that_they_quote() {
    let Some(table) = table(64, 64, 100) else { return };
    table.call(&table.request());
    let error = Table::leaving(table.request().set("operation", u64::from(ERROR)));
    let answer = table.call(&error);
    assert_eq!((answer.result(), answer.get("hit.reverse")), (HIT, 1), "against what it quotes");
    let other = error.ends((v4(1), 1000), (v4(9), 53));
    assert_eq!(table.call(&other).result(), MISS);
    // TCP: the quoted sequence number must be one that was sent.
    let syn = table.request().set("packet.protocol", 6).set("packet.seq", 5000);
    let syn = syn.set("packet.tcp_flags", 2).set("packet.window", 1000);
    assert_eq!(table.call(&syn).get("inserts"), 1);
    let error = Table::leaving(syn.set("operation", u64::from(ERROR)));
    assert_eq!(table.call(&error).result(), HIT);
    let forged = table.call(&error.set("packet.seq", 5_000_000));
    let mismatch = u64::from(reason::STATE_MISMATCH);
    assert_eq!((forged.result(), forged.get("hit.reason")), (DROP, mismatch));
}
