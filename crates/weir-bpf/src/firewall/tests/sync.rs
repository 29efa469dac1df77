//! What another firewall has to know of states: marks, copies and ends; and what comes from one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use weir_wire::protocol::{TCP, UDP};

use super::audit::audit;
use super::harness::*;
use crate::firewall::EventReader;
use crate::firewall::copies::SLOTS_MAX;
use crate::firewall::layout::{self, change, control, phase, state, tcp_phase, translated_change};
use crate::firewall::restore::{Import, Outcome, Restored, Wire};
use crate::firewall::sweep::{Filter, Mode};

const FIN: u64 = 1;
const SYN: u64 = 2;
const RST: u64 = 4;
const ACK: u64 = 16;

/// Of what is sent here: a moment before the packets of the tests.
const LAST_TICK: u32 = 990;

const CLIENT: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 40_000);
const SERVER: (IpAddr, u16) = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 80);

fn control(table: &Table, slot: u32) -> u32 {
    let at = table.firewall.regions().states.at + slot * state::SIZE_BYTES;
    table.firewall.arena().read32(at + state::CONTROL)
}

/// Whether a record is marked, which a hint has to say; unmarks it, by a copy of it.
fn take_mark(table: &Table, reader: &mut EventReader, slot: u32) -> bool {
    let is_marked = control(table, slot) & layout::STATE_DIRTY != 0;
    let mut hints = Vec::new();
    table.firewall.take_hints(|piece| hints.push(piece));
    assert_eq!(hints.contains(&(slot >> layout::DIRTY_SHIFT)), is_marked, "hints: {hints:?}");
    let copied = table.firewall.copy(&[slot], false).unwrap();
    assert_eq!((copied.done_count, copied.busy_count), (1, 0));
    let kinds: Vec<u32> = changes(reader).iter().map(|it| it.0).collect();
    assert_eq!(kinds, if is_marked { vec![layout::EVENT_CHANGED] } else { vec![] });
    assert_eq!(control(table, slot) & layout::STATE_DIRTY, 0);
    is_marked
}

/// Kind, slot and control word of what is in the ring.
fn changes(reader: &mut EventReader) -> Vec<(u32, u32, u32)> {
    let word =
        |bytes: &[u8], at: u32| u32::from_ne_bytes(*bytes[at as usize..].first_chunk().unwrap());
    let events = reader.read(Duration::ZERO).unwrap();
    let of = |event: &Vec<u8>| {
        (word(event, change::KIND), word(event, change::SLOT), word(event, change::LINE))
    };
    events.iter().map(of).collect()
}

fn segment<'a>(table: &'a Table, is_answer: bool, flags: u64, seq: u64, ack: u64) -> Request<'a> {
    let (src, dst) = if is_answer { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
    let request = table
        .request()
        .ends(src, dst)
        .set("packet.protocol", TCP.into())
        .set("packet.tcp_flags", flags)
        .set("packet.seq", seq)
        .set("packet.ack", ack)
        .set("packet.window", 1000)
        .set("packet.direction", is_answer.into())
        .set("packet.interface", u64::from(!is_answer));
    table.call(&request)
}

#[test]
fn a_connection_is_marked_when_it_changes_and_not_else() {
    let Some(table) = table(64, 64, 100) else { return };
    let mut reader = table.firewall.change_reader().unwrap();
    let slot = segment(&table, false, SYN, 1000, 0).slot();
    for (is_answer, flags, seq, ack, is_change) in [
        (false, SYN, 1000, 0, true),
        (true, SYN | ACK, 9000, 1001, true),
        (false, ACK, 1001, 9001, true),
        (false, ACK, 1001, 9001, false),
        (true, ACK, 9001, 1001, false),
        (false, SYN, 5_000_000, 0, false),
        (false, RST, 7_000_000, 0, false),
        (false, FIN | ACK, 1001, 9001, true),
        (false, FIN | ACK, 1001, 9001, false),
        (true, ACK, 9001, 1002, true),
        (true, FIN | ACK, 9001, 1002, true),
        (false, ACK, 1002, 9002, true),
        (false, ACK, 1002, 9002, false),
    ] {
        segment(&table, is_answer, flags, seq, ack);
        let is_marked = take_mark(&table, &mut reader, slot);
        assert_eq!(is_marked, is_change, "flags {flags} of {is_answer}, number {seq}");
    }
}

#[test]
fn other_protocols_are_marked_at_the_second_packet_and_at_answers() {
    let Some(table) = table(64, 64, 100) else { return };
    let mut reader = table.firewall.change_reader().unwrap();
    let slot = table.call(&table.request().ends(CLIENT, SERVER)).slot();
    assert!(take_mark(&table, &mut reader, slot), "a new one");
    for (is_answer, is_change) in
        [(false, true), (false, false), (true, true), (false, true), (true, false), (false, false)]
    {
        let (src, dst) = if is_answer { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let request = table.request().ends(src, dst).set("packet.direction", is_answer.into());
        table.call(&request.set("packet.interface", u64::from(!is_answer)));
        assert_eq!(take_mark(&table, &mut reader, slot), is_change, "{is_answer}");
    }
    let half = Table::leaving(table.request().ends(CLIENT, SERVER));
    assert_eq!(table.call(&half).slot(), slot);
    assert!(take_mark(&table, &mut reader, slot), "half B");
    table.call(&half);
    assert!(!take_mark(&table, &mut reader, slot));
}

#[test]
fn ends_are_told_of_what_was_copied_while_somebody_asks() {
    let Some(table) = table(64, 64, 100) else { return };
    let firewall = &table.firewall;
    let mut reader = firewall.change_reader().unwrap();
    let kill = || firewall.sweep_all(Mode::Kill(Filter::default())).unwrap().removed_count;
    let make = || table.call(&table.request().ends(CLIENT, SERVER)).slot();
    for (asks, is_copied, is_event) in
        [(true, false, false), (false, true, false), (true, true, true)]
    {
        firewall.tell_changes(asks, false);
        let slot = make();
        if is_copied {
            assert!(take_mark(&table, &mut reader, slot));
        }
        assert_eq!(kill(), 1);
        let events = changes(&mut reader);
        assert_eq!(events.len(), usize::from(is_event), "{events:?}");
        assert!(events.iter().all(|it| it.0 == layout::EVENT_GONE && it.1 == slot));
    }
    assert_eq!(firewall.lost_ends(), 0);
}

#[test]
fn a_full_ring_ends_copies_and_counts_ends() {
    let Some(table) = table(256, 256, 1000) else { return };
    let firewall = &table.firewall;
    let mut reader = firewall.change_reader().unwrap();
    firewall.tell_changes(true, false);
    assert_eq!(table.call(&table.request().set("count", 200)).get("inserts"), 200);
    let mut slots: Vec<u32> = (0..512).collect();
    slots.retain(|slot| control(&table, *slot) & layout::STATE_DIRTY != 0);
    assert_eq!(slots.len(), 200);
    // The ring of the tests has one page.
    let first = firewall.copy(&slots, false).unwrap();
    assert!((20..40).contains(&first.done_count), "{first:?}");
    let is_marked = |slot: &u32| control(&table, *slot) & layout::STATE_DIRTY != 0;
    assert!(!slots[..first.done_count].iter().any(is_marked));
    assert!(slots[first.done_count..].iter().all(is_marked));
    assert_eq!(firewall.copy(&slots, false).unwrap().done_count, first.done_count);
    let mut at = changes(&mut reader).len();
    assert_eq!(at, first.done_count);
    while at < slots.len() {
        let copied = firewall.copy(&slots[at..], false).unwrap();
        assert_eq!(changes(&mut reader).len(), copied.done_count);
        at += copied.done_count;
    }
    assert_eq!(firewall.copy(&slots, false).unwrap().done_count, 200, "nothing is marked");
    assert_eq!(changes(&mut reader).len(), 0);
    firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    let event_count = changes(&mut reader).len();
    assert_eq!(firewall.lost_ends() + event_count as u64, 200);
    assert!(firewall.copy(&vec![0; SLOTS_MAX + 1], false).is_err());
}

fn state_of(last: u8, protocol: u8, phase: [u8; 2]) -> Restored {
    let client = Ipv4Addr::new(10, 0, 0, last);
    Restored {
        ends: [(client.into(), 40_000), SERVER],
        wire: [None; 2],
        gateways: [0; 2],
        protocol,
        flags: layout::STATE_HALF_A,
        profile: 0,
        halves: [7, 0],
        interfaces: [1, 0],
        phase,
        seq: [[1000, 2000], [9000, 9900]],
        max_win: [1000; 2],
        wscale: [if phase[1] >= 4 { layout::WSCALE_CONNECTED } else { 0 }, 0],
        packets: [10, 20],
        bytes: [1000, 2000],
        created_tick: 500,
        last_tick: LAST_TICK,
    }
}

fn import(table: &Table, import: Import, is_odd: bool) -> Outcome {
    table.firewall.import(&[import], is_odd).unwrap()[0]
}

#[test]
fn what_was_sent_is_updated_and_ends_and_what_is_here_stays() {
    let Some(table) = table(64, 64, 100) else { return };
    let first = state_of(1, TCP, [tcp_phase::SYN_SENT, tcp_phase::CLOSED]);
    assert_eq!(import(&table, Import::State(first), false), Outcome::Made);
    let both = layout::STATE_HALF_A | layout::STATE_HALF_B;
    let open = state_of(1, TCP, [tcp_phase::ESTABLISHED; 2]);
    let open = Restored { flags: both, halves: [7, 8], interfaces: [1, 2], ..open };
    assert_eq!(import(&table, Import::State(open), false), Outcome::Updated);
    let look = |flags: u64, seq: u64, ack: u64| {
        let request = table.request().set("operation", LOOK.into());
        let request = request.set("packet.protocol", TCP.into()).set("packet.tcp_flags", flags);
        let request = request.ends(CLIENT, SERVER).set("packet.seq", seq).set("packet.ack", ack);
        table.call(&request.set("packet.window", 1000))
    };
    let found = look(ACK, 77_001_000, 55_009_000);
    assert_eq!(found.result(), HIT, "the first segment says where it is");
    assert_eq!((found.word("hit.covered", 0, 1), found.word("hit.covered", 1, 1)), (1, 1));
    assert_eq!(look(ACK, 77_001_000, 55_009_000).result(), HIT);
    assert_eq!(look(ACK, 77_001_000, 99_009_000).result(), DROP, "and what follows has to fit");
    assert_eq!(look(ACK, 1000, 55_009_000).result(), HIT, "without data it may stand anywhere");
    let slot = found.slot();
    let interfaces = || {
        let at = table.firewall.regions().states.at + slot * state::SIZE_BYTES;
        let word = table.firewall.arena().read32(at + state::INTERFACE / 4 * 4).to_ne_bytes();
        let at = (state::INTERFACE % 4) as usize;
        [word[at], word[at + 1]].map(|it| u32::from(it) & layout::STATE_INTERFACE_MASK)
    };
    assert_eq!(interfaces(), [1, 2]);
    // The packets made it this firewall's; the other one has had a later one.
    let open = Restored { last_tick: 1001, ..open };
    let moved = Restored { interfaces: [1, 5], flags: both | layout::STATE_IF_BOUND_B, ..open };
    assert_eq!(import(&table, Import::State(moved), false), Outcome::Updated);
    assert_eq!(interfaces(), [1, 5]);
    assert!(control(&table, slot) & layout::STATE_IF_BOUND_B != 0);
    // Phases never go back.
    assert_eq!(import(&table, Import::State(first), false), Outcome::Updated);
    let at = table.firewall.regions().states.at + slot * state::SIZE_BYTES;
    assert_eq!(table.firewall.arena().read32(at + state::PHASE) & 0xffff, 0x0404);
    // Over, and another one with the same ends.
    let over = Restored { phase: [tcp_phase::TIME_WAIT; 2], ..open };
    assert_eq!(import(&table, Import::State(over), false), Outcome::Updated);
    assert_eq!(import(&table, Import::State(first), false), Outcome::Made);
    assert_eq!(table.state_count(), 1);

    let here = Import::State(state_of(2, UDP, [phase::MULTIPLE; 2]));
    let Import::State(state) = here else { unreachable!() };
    assert_eq!(table.firewall.restore(&state).unwrap(), Outcome::Made);
    assert_eq!(import(&table, here, false), Outcome::Present);
    let gone =
        |last: u8, protocol| Import::Gone { ends: state_of(last, protocol, [0; 2]).ends, protocol };
    let outcomes = [gone(1, TCP), gone(1, TCP), gone(2, UDP), gone(3, UDP)];
    let outcomes = table.firewall.import(&outcomes, false).unwrap();
    assert_eq!(outcomes, [Outcome::Ended, Outcome::Absent, Outcome::Absent, Outcome::Absent]);
    assert_eq!((audit(&table.firewall).live, table.state_count()), (1, 1));
    let v6 = |last| (IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)), 5);
    let many: Vec<Import> = (0..40)
        .map(|last| Import::State(Restored { ends: [v6(last), v6(200)], ..state }))
        .collect();
    let outcomes = table.firewall.import(&many, false).unwrap();
    assert_eq!(outcomes, [Outcome::Made; 40], "more than one group");
    assert_eq!(table.firewall.import(&many, true).unwrap(), [Outcome::Updated; 40]);
    assert_eq!((audit(&table.firewall).live, audit(&table.firewall).ipv6), (41, 40));
}

#[test]
fn counters_grow_and_windows_of_a_handshake_are_those_that_were_sent() {
    let Some(table) = table(64, 64, 100) else { return };
    let half = state_of(1, TCP, [tcp_phase::SYN_SENT, tcp_phase::CLOSED]);
    assert_eq!(import(&table, Import::State(half), false), Outcome::Made);
    let slot = segment(&table, false, SYN, 1000, 0).slot();
    let regions = table.firewall.regions();
    let account = regions.accounts.at + slot * layout::account::SIZE_BYTES;
    let packets = |end: u32| {
        let word = table.firewall.arena().read64(account + layout::account::PACKETS_RULE + end * 8);
        word & ((1 << layout::ACCOUNT_RULE_SHIFT) - 1)
    };
    let more = Restored { packets: [9, 100], ..half };
    assert_eq!(import(&table, Import::State(more), false), Outcome::Updated);
    assert_eq!((packets(0), packets(1)), (11, 100), "one has come here");
    let far = segment(&table, true, SYN | ACK, 5000, 77_000_000);
    assert_eq!(far.drops("state-mismatch"), 1, "an answer to another number");
}

#[test]
fn what_was_sent_lives_as_long_as_its_sender_and_then_by_its_timeouts() {
    let Some(table) = table(64, 64, 100) else { return };
    let firewall = &table.firewall;
    let expired = || firewall.sweep_all(Mode::Expire).unwrap().removed_count;
    let udp = |last| Import::State(state_of(last, UDP, [phase::MULTIPLE; 2]));
    table.set_tick(LAST_TICK + ticks(3600));
    firewall.keep_imported(true, false, true);
    assert_eq!(import(&table, udp(1), true), Outcome::Made);
    assert_eq!(import(&table, udp(2), false), Outcome::Made);
    let Import::State(here) = udp(3) else { unreachable!() };
    assert_eq!(firewall.restore(&here).unwrap(), Outcome::Made);
    assert_eq!(expired(), 1, "the one that is not the other's");
    firewall.keep_imported(true, false, false);
    assert_eq!(expired(), 1, "the one of an earlier bulk");
    firewall.sweep_all(Mode::Stamp).unwrap();
    firewall.keep_imported(false, false, false);
    assert_eq!(expired(), 0);
    table.set_tick(LAST_TICK + ticks(3600 + 50));
    assert_eq!((expired(), table.state_count()), (0, 1));
    table.set_tick(LAST_TICK + ticks(3600 + 70));
    assert_eq!((expired(), table.state_count()), (1, 0));
}

#[test]
fn what_a_bulk_did_not_bring_ends_or_becomes_this_firewalls() {
    let Some(table) = table(64, 64, 100) else { return };
    let firewall = &table.firewall;
    table.set_tick(2000);
    let udp = |last| Import::State(state_of(last, UDP, [phase::MULTIPLE; 2]));
    let all = [udp(1), udp(2), udp(3)];
    assert_eq!(firewall.import(&all, false).unwrap(), [Outcome::Made; 3]);
    firewall.keep_imported(true, true, true);
    assert_eq!(import(&table, udp(1), true), Outcome::Updated);
    // A packet of the third one came here.
    let used = table.request().ends((Ipv4Addr::new(10, 0, 0, 3).into(), 40_000), SERVER);
    assert_eq!(table.call(&used.set("packet.tick", 1500)).result(), HIT);
    let forget = |idle_since| firewall.sweep_all(Mode::Forget { idle_since }).unwrap();
    assert_eq!(forget(Some(1400)).removed_count, 1, "the second one is gone");
    let gone = |last| Import::Gone { ends: state_of(last, UDP, [0; 2]).ends, protocol: UDP };
    assert_eq!(import(&table, gone(3), true), Outcome::Absent, "it is this firewall's");
    assert_eq!(import(&table, gone(1), true), Outcome::Ended);
    assert_eq!(firewall.import(&[udp(4)], false).unwrap(), [Outcome::Made]);
    assert_eq!(forget(None).removed_count, 0, "without a tick none goes");
    assert_eq!(import(&table, gone(4), true), Outcome::Absent);
    assert_eq!(audit(firewall).live, 2);
}

#[test]
fn a_bulk_that_was_cut_leaves_nothing_behind() {
    let Some(table) = table(64, 64, 100) else { return };
    let firewall = &table.firewall;
    table.set_tick(2000);
    let udp = |last| Import::State(state_of(last, UDP, [phase::MULTIPLE; 2]));
    firewall.keep_imported(true, true, true);
    assert_eq!(firewall.import(&[udp(1), udp(2)], true).unwrap(), [Outcome::Made; 2]);
    // The second one ends there, and of the next bulk nothing comes but its beginning.
    firewall.keep_imported(true, false, true);
    firewall.sweep_all(Mode::Stamp).unwrap();
    firewall.keep_imported(false, false, false);
    firewall.keep_imported(true, true, true);
    assert_eq!(import(&table, udp(1), true), Outcome::Updated);
    let forgotten = firewall.sweep_all(Mode::Forget { idle_since: Some(2000) }).unwrap();
    assert_eq!(forgotten.removed_count, 1, "the one that has ended meanwhile");
    assert_eq!(audit(firewall).live, 1);
}

#[test]
fn a_packet_takes_a_state_over_and_the_other_firewall_hears_of_it() {
    let Some(table) = table(64, 64, 100) else { return };
    let mut reader = table.firewall.change_reader().unwrap();
    let udp = |last_tick| Restored { last_tick, ..state_of(1, UDP, [phase::MULTIPLE; 2]) };
    assert_eq!(import(&table, Import::State(udp(900)), false), Outcome::Made);
    let packet = |tick: u32| {
        table.call(&table.request().ends(CLIENT, SERVER).set("packet.tick", tick.into()))
    };
    let slot = packet(900).slot();
    let gone = || Import::Gone { ends: udp(0).ends, protocol: UDP };
    for (tick, is_taken) in [(940, false), (959, false), (960, true), (1100, false)] {
        assert_eq!(packet(tick).result(), HIT);
        assert_eq!(take_mark(&table, &mut reader, slot), is_taken, "at {tick}");
    }
    assert_eq!(import(&table, gone(), false), Outcome::Absent, "it is this firewall's");
    assert_eq!(import(&table, Import::State(udp(1099)), false), Outcome::Present);
    assert_eq!(import(&table, Import::State(udp(1100)), false), Outcome::Present);
    // The other one had a packet after the last one here.
    assert_eq!(import(&table, Import::State(udp(1101)), false), Outcome::Updated);
    assert_eq!(import(&table, gone(), false), Outcome::Ended);
    assert_eq!(audit(&table.firewall).live, 0);
}

#[test]
fn windows_are_learned_anew_of_a_connection_that_the_other_firewall_had() {
    let Some(table) = table(64, 64, 100) else { return };
    let open = state_of(1, TCP, [tcp_phase::ESTABLISHED; 2]);
    assert_eq!(table.firewall.restore(&open).unwrap(), Outcome::Made);
    let look = |tick: u32, seq: u64| {
        let request = table.request().set("operation", LOOK.into()).ends(CLIENT, SERVER);
        let request = request.set("packet.protocol", TCP.into()).set("packet.tcp_flags", ACK);
        let request = request.set("packet.seq", seq).set("packet.ack", 55_009_000);
        let request = request.set("packet.window", 1000).set("packet.payload_bytes", 100);
        table.call(&request.set("packet.tick", tick.into()))
    };
    let sent = |last_tick| Import::State(Restored { last_tick, ..open });
    assert_eq!(import(&table, sent(LAST_TICK), false), Outcome::Present);
    assert_eq!(look(5000, 77_001_000).result(), DROP, "here it was not so far");
    assert_eq!(import(&table, sent(5000), false), Outcome::Updated);
    assert_eq!(look(5100, 77_001_000).result(), HIT, "there it was");
    assert_eq!(look(5101, 88_001_000).result(), DROP, "and has to fit again");
    // It is this firewall's again, which the other one hears, and the other one's once more.
    let mut reader = table.firewall.change_reader().unwrap();
    let slot = look(5102, 77_001_100).slot();
    assert!(take_mark(&table, &mut reader, slot));
    assert_eq!(import(&table, sent(5100), false), Outcome::Present);
    assert_eq!(look(5103, 88_001_000).result(), DROP);
    assert_eq!(import(&table, sent(5110), false), Outcome::Updated);
    let again = look(5111, 88_001_000);
    assert_eq!(again.result(), HIT);
    // However soon: it has windows here, which are not those of the other firewall.
    assert!(take_mark(&table, &mut reader, again.slot()));
    // The other one has not heard of that: it hears it once more.
    assert_eq!(import(&table, sent(5110), false), Outcome::Present);
    assert_eq!(look(5112, 99_001_000).result(), DROP);
    assert!(!take_mark(&table, &mut reader, again.slot()));
    let tell = Import::Tell { ends: open.ends, protocol: TCP };
    assert_eq!(import(&table, tell, false), Outcome::Present);
    assert!(take_mark(&table, &mut reader, again.slot()));
    // What it has from elsewhere is no news.
    let elsewhere = Import::SecondHand(Restored { last_tick: 7000, ..open });
    assert_eq!(import(&table, elsewhere, false), Outcome::Present);
    assert_eq!(look(7000, 88_001_100).result(), HIT);
    assert!(!take_mark(&table, &mut reader, again.slot()));
    // Of what is the other one's it hears nothing.
    assert_eq!(import(&table, sent(7001), false), Outcome::Updated);
    assert_eq!(import(&table, tell, false), Outcome::Absent);
    assert!(!take_mark(&table, &mut reader, again.slot()));
}

#[test]
fn what_has_gone_by_the_other_firewall_may_be_acknowledged_here() {
    let Some(table) = table(64, 64, 100) else { return };
    let scale = 0x80 | 7;
    let wscale = [scale | layout::WSCALE_CONNECTED, scale];
    let open = Restored { wscale, ..state_of(1, TCP, [tcp_phase::ESTABLISHED; 2]) };
    assert_eq!(import(&table, Import::State(open), false), Outcome::Made);
    // A piece that was lost is sent again; the server has what follows it, 3 MB.
    let piece = segment(&table, false, ACK, 1_000_000, 7_000_000);
    assert_eq!(piece.result(), HIT);
    let answer = |ack: u64, seq: u64, size: u64| {
        let request = table.request().ends(SERVER, CLIENT).set("packet.protocol", TCP.into());
        let request = request.set("packet.direction", 1).set("packet.interface", 0);
        let request = request.set("packet.tcp_flags", ACK).set("packet.seq", seq);
        let request = request.set("packet.ack", ack).set("packet.payload_bytes", size);
        table.call(&request.set("packet.window", 30_000)).drops("state-mismatch")
    };
    assert_eq!(answer(20_000_000, 7_000_000, 100), 1, "more than the largest window");
    assert_eq!(answer(4_000_000, 99_000_000, 0), 1, "the same, without data");
    assert_eq!(answer(4_000_000, 99_000_000, 100), 1, "the number of its data does not fit");
    assert_eq!(answer(4_000_000, 7_000_000, 100), 0);
    let next = segment(&table, false, ACK, 4_000_000, 7_000_100);
    assert_eq!(next.result(), HIT, "and it goes on from there");
    // For two sweeps.
    let expire = || assert_eq!(table.firewall.sweep_all(Mode::Expire).unwrap().removed_count, 0);
    expire();
    assert_eq!(answer(5_000_000, 7_000_100, 100), 0);
    expire();
    assert_eq!(answer(6_000_000, 7_000_200, 100), 1);
    // While the client's packets go by the other firewall still, nobody opens the window here.
    let gone = Import::Gone { ends: open.ends, protocol: TCP };
    assert_eq!(import(&table, gone, false), Outcome::Absent, "it was taken over");
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    assert_eq!(import(&table, Import::State(open), false), Outcome::Made);
    for number in 0..50 {
        assert_eq!(answer(4_000_000, 7_000_000 + 100_000 * number, 100), 0, "{number}");
    }
    // One that was here from its first packet has sent all by here.
    let here = Restored { ends: [(state_of(2, TCP, [0; 2])).ends[0], SERVER], ..open };
    assert_eq!(table.firewall.restore(&here).unwrap(), Outcome::Made);
    let request = table.request().ends(SERVER, here.ends[0]).set("packet.protocol", TCP.into());
    let request = request.set("packet.direction", 1).set("packet.interface", 0);
    let request = request.set("packet.tcp_flags", ACK).set("packet.seq", 9000);
    let request = request.set("packet.ack", 1000 + 100_000).set("packet.window", 30_000);
    assert_eq!(table.call(&request).drops("state-mismatch"), 1);
}

/// A flow by half A and half B whose source has another port on the wire at half B, and whose
/// destination has another one at half A if `is_redirected`.
fn translated(last: u8, port: u16, is_redirected: bool, is_ipv6: bool) -> Restored {
    let flags = layout::STATE_HALF_A | layout::STATE_HALF_B;
    let plain = Restored {
        flags,
        halves: [7, 8],
        interfaces: [1, 2],
        ..state_of(last, UDP, [phase::MULTIPLE; 2])
    };
    let (mut ends, [mut outside, mut asked]): ([(IpAddr, u16); 2], [IpAddr; 2]) =
        (plain.ends, [[192, 0, 2, 200].into(), [198, 51, 100, 1].into()]);
    if is_ipv6 {
        let v6 =
            |word: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, word, last.into()));
        ends = [(v6(1), 40_000), (v6(2), 80)];
        [outside, asked] = [v6(3), v6(4)];
    }
    let redirected = Wire { end: (asked, 8080), rule: 9 };
    let wire = [is_redirected.then_some(redirected), Some(Wire { end: (outside, port), rule: 10 })];
    Restored { ends, wire, ..plain }
}

#[test]
fn translated_states_come_with_what_they_have_on_the_wire() {
    let Some(table) = table(64, 256, 100) else { return };
    let firewall = &table.firewall;
    let aliases = || firewall.arena().read64(control::ALIAS_COUNT);
    let flags = || firewall.arena().read32(control::FLAGS) & layout::CONTROL_TRANSLATED;
    assert_eq!(flags(), 0);
    let all = [(false, false), (true, false), (false, true), (true, true)];
    for ((is_redirected, is_ipv6), last) in all.into_iter().zip(1..) {
        let state = translated(last, 50_000 + u16::from(last), is_redirected, is_ipv6);
        let before = aliases();
        let say = |state: Restored, is_odd: bool| import(&table, Import::State(state), is_odd);
        // First the half where it comes in, as the other firewall may have looked in between.
        let half = Restored { flags: layout::STATE_HALF_A, wire: [state.wire[0], None], ..state };
        assert_eq!(say(half, false), Outcome::Made);
        assert_eq!(aliases(), before + u64::from(is_redirected));
        assert_eq!(say(state, false), Outcome::Updated);
        assert_eq!(aliases(), before + 1 + u64::from(is_redirected), "the other half has come");
        assert_eq!(say(state, true), Outcome::Updated);
        assert_eq!(say(state, true), Outcome::Updated, "again and again");
        assert_eq!(aliases(), before + 1 + u64::from(is_redirected));
        audit(firewall);
        // Another flow that would have the same on the wire.
        let thief = translated(100 + last, 50_000 + u16::from(last), false, is_ipv6);
        let thief = Restored { ends: [thief.ends[0], state.ends[1]], wire: state.wire, ..thief };
        assert_eq!(say(thief, true), Outcome::Present, "somebody has it");
        // The same flow with another port on the wire.
        let other = Restored { wire: translated(last, 7, is_redirected, is_ipv6).wire, ..state };
        assert_eq!(say(other, true), Outcome::Present);
        let plain = Restored { wire: [None; 2], ..state };
        assert_eq!(say(plain, true), Outcome::Present, "it was not translated");
        audit(firewall);
        // A packet that answers, from the wire of half B.
        let outside = state.wire[1].unwrap().end;
        let answer = table.request().set("operation", LOOK.into()).ends(state.ends[1], outside);
        let found = table.call(&answer.set("packet.protocol", UDP.into()));
        assert_eq!(found.result(), HIT, "{state:?}");
    }
    assert_ne!(flags(), 0);
    let found = audit(firewall);
    assert_eq!((found.live, found.aliases), (4, 6));

    // They are copied with all of it, and gone.
    let mut reader = firewall.change_reader().unwrap();
    let slots: Vec<u32> = (0..64 + 256).collect();
    assert_eq!(firewall.copy(&slots[..SLOTS_MAX], true).unwrap().busy_count, 0);
    assert_eq!(firewall.copy(&slots[SLOTS_MAX..], true).unwrap().busy_count, 0);
    let events = reader.read(Duration::ZERO).unwrap();
    assert_eq!(events.len(), 4);
    assert!(events.iter().all(|event| event.len() == translated_change::SIZE_BYTES as usize));
    for ((is_redirected, is_ipv6), last) in all.into_iter().zip(1..) {
        let ends = translated(last, 0, is_redirected, is_ipv6).ends;
        assert_eq!(import(&table, Import::Gone { ends, protocol: UDP }, true), Outcome::Ended);
    }
    // What belongs to nobody is taken out by who comes by.
    firewall.sweep_all(Mode::Expire).unwrap();
    let found = audit(firewall);
    assert_eq!((found.live, found.aliases, found.overflow), (0, 0, 0));
}

#[test]
fn a_translated_state_without_room_leaves_nothing_behind() {
    let Some(table) = table(64, 1, 100) else { return };
    let state = translated(1, 50_001, true, false);
    // A half that is not there is not translated.
    let half = Restored { flags: layout::STATE_HALF_A, wire: [None, state.wire[1]], ..state };
    assert_eq!(import(&table, Import::State(half), false), Outcome::Made);
    assert_eq!(audit(&table.firewall).aliases, 0);
    let gone = Import::Gone { ends: state.ends, protocol: UDP };
    assert_eq!(import(&table, gone, false), Outcome::Ended);
    for _ in 0..3 {
        assert_eq!(import(&table, Import::State(state), false), Outcome::Memory);
    }
    assert_eq!(audit(&table.firewall).live, 0);
    drop(table);
    let Some(table) = super::harness::table(64, 64, 0) else { return };
    assert_eq!(import(&table, Import::State(state), false), Outcome::Limit);
    let found = audit(&table.firewall);
    assert_eq!((found.live, found.aliases), (0, 0));
}

/// The other firewall has a new connection in the place of one that is over, whose end was lost.
#[test]
fn a_translated_connection_takes_the_place_of_one_that_is_over() {
    let Some(table) = table(64, 256, 100) else { return };
    for (last, port) in [(1, 50_001), (2, 50_009)] {
        let both = translated(last, 50_000 + u16::from(last), true, false);
        let say = |phase: [u8; 2], wire: [Option<Wire>; 2]| {
            let state = Restored { ends: both.ends, wire, ..state_of(last, TCP, phase) };
            let state = Restored { flags: both.flags, halves: both.halves, ..state };
            import(&table, Import::State(state), false)
        };
        let open = [tcp_phase::ESTABLISHED; 2];
        assert_eq!(say(open, both.wire), Outcome::Made);
        assert_eq!(say([tcp_phase::TIME_WAIT; 2], both.wire), Outcome::Updated);
        // With the port of before, or another one.
        let wire = translated(last, port, true, false).wire;
        assert_eq!(say(open, wire), Outcome::Busy, "its place becomes free");
        assert_eq!(say(open, wire), Outcome::Made);
        assert_eq!(say(open, wire), Outcome::Updated);
        audit(&table.firewall);
    }
    assert_eq!((audit(&table.firewall).live, audit(&table.firewall).aliases), (2, 4));
}
