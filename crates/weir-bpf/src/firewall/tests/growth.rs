//! The index grows and shrinks: alone, step by step, and under the load of several CPUs. What stays
//! is found at any moment.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::audit::audit;
use super::harness::*;
use crate::firewall::layout::{self, BLANK_PROFILE_AT, Slots, control, table};
use crate::firewall::sweep::{Ends, Filter, Mode};

const FEW: Slots = Slots { bucket_count: 16, overflow_count: 6000 };
const MANY: Slots = Slots { bucket_count: 4096, overflow_count: 40_000 };

/// Flows in both families that stay.
const LASTING: u64 = 700;
/// What others make and end meanwhile, at a time.
const PASSING: u64 = 1500;
const ROUNDS: u32 = 50;
/// The tick of what lasts, and how long records live, in ticks.
const NOW: u32 = 1000;
const LIFE: u32 = 40_000;
/// The tick of what may be expired at once.
const LONG_AGO: u32 = NOW.wrapping_sub(LIFE + 1000);

fn flows(table: &Table, is_ipv6: bool, is_lasting: bool) -> Request<'_> {
    let net: u8 = if is_lasting { 1 } else { 2 };
    let (src, dst): (IpAddr, IpAddr) = if is_ipv6 {
        let at = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, u16::from(net), last, 0);
        (at(1).into(), at(2).into())
    } else {
        (Ipv4Addr::new(10, net, 0, 0).into(), Ipv4Addr::new(192, 0, 2, net).into())
    };
    table.request().ends((src, 1000), (dst, 80)).set("packet.tick", NOW.into())
}

fn hits(table: &Table, request: &Request<'_>) -> u64 {
    table.call(&request.clone().set("operation", u64::from(LOOK))).get("hits")
}

#[test]
fn records_are_found_whatever_the_number_of_buckets() {
    let Some(table) = table_that_grows(MANY, FEW, 100_000) else { return };
    let firewall = &table.firewall;
    let all = [false, true].map(|is_ipv6| flows(&table, is_ipv6, true).set("count", LASTING));
    for flows in &all {
        assert_eq!(table.call(flows).get("inserts"), LASTING);
    }
    assert_eq!(firewall.resize(100).unwrap(), 16, "no bucket without memory");
    firewall.extend(MANY).unwrap();
    assert_eq!(firewall.ready(), MANY);
    for bucket_count in [17, 18, 31, 32, 33, 1000, 4096, 4095, 2049, 2048, 2047, 1, 700, 16] {
        let reached = firewall.resize(bucket_count).unwrap();
        assert_eq!(reached, bucket_count.max(2));
        let found = audit(firewall);
        assert_eq!((found.live, found.ipv6), (2 * LASTING, LASTING), "{bucket_count} buckets");
        for flows in &all {
            assert_eq!(hits(&table, flows), LASTING, "{bucket_count} buckets");
        }
        // A sweep sees each of them once.
        let swept = firewall.sweep_all(Mode::Kill(Filter { protocol: 99, ..Filter::default() }));
        assert_eq!(swept.unwrap().live_count, 2 * LASTING);
    }
    assert_eq!(firewall.resize(10_000).unwrap(), 4096, "no bucket without an address");
    let long = audit(firewall).longest_chain;
    assert!(long < 10, "{long} of {} records in {} buckets", 2 * LASTING, 4096);
}

/// Wire keys hang in other buckets than their records, and never move themselves.
#[test]
fn translated_records_are_found_whatever_the_number_of_buckets() {
    let Some(table) = table_that_grows(MANY, FEW, 100_000) else { return };
    let firewall = &table.firewall;
    let flags = layout::CONTROL_ENABLED | layout::CONTROL_TRANSLATED;
    firewall.arena().write32(control::FLAGS, flags);
    let all = [false, true].map(|is_ipv6| {
        flows(&table, is_ipv6, true).set("count", LASTING).set("redirect", 0x5a00_0000)
    });
    for flows in &all {
        assert_eq!(table.call(flows).get("inserts"), LASTING);
    }
    firewall.extend(MANY).unwrap();
    for bucket_count in [17, 31, 32, 1000, 4096, 4095, 2049, 2047, 8, 700, 16] {
        assert_eq!(firewall.resize(bucket_count).unwrap(), bucket_count);
        let found = audit(firewall);
        assert_eq!((found.live, found.aliases), (2 * LASTING, 2 * LASTING));
        for flows in &all {
            assert_eq!(hits(&table, flows), LASTING, "{bucket_count} buckets");
        }
    }
    // Half of them end, and their wire keys with them.
    let mode = Mode::Kill(Filter { ip_version: 6, ..Filter::default() });
    assert_eq!(firewall.sweep_all(mode).unwrap().removed_count, LASTING);
    assert_eq!(hits(&table, &all[1]), 0);
    for bucket_count in [16, 300, 20] {
        assert_eq!(firewall.resize(bucket_count).unwrap(), bucket_count);
        assert_eq!((audit(firewall).live, audit(firewall).aliases), (LASTING, LASTING));
        assert_eq!(hits(&table, &all[0]), LASTING);
    }
}

#[test]
fn without_a_slot_no_bucket_is_joined_that_needs_one() {
    let most = Slots { bucket_count: 4096, overflow_count: 100 };
    let Some(table) = table_that_grows(most, most, 100_000) else { return };
    let flows = flows(&table, false, true).set("count", 900);
    let made = table.call(&flows);
    let inserted = made.get("inserts");
    assert!(inserted > 800, "{inserted}");
    let stopped_at = table.firewall.resize(16).unwrap();
    assert!((17..4096).contains(&stopped_at), "{stopped_at}");
    assert_eq!(audit(&table.firewall).live, inserted);
    assert_eq!(table.firewall.resize(4096).unwrap(), 4096);
    assert_eq!(audit(&table.firewall).live, inserted);
}

#[test]
fn who_goes_through_all_buckets_holds_the_index_from_shrinking() {
    let Some(table) = table_that_grows(MANY, FEW, 100) else { return };
    table.firewall.extend(MANY).unwrap();
    assert_eq!(table.firewall.resize(64).unwrap(), 64);
    let still = table.firewall.hold_still();
    assert_eq!(table.firewall.resize(32).unwrap(), 64);
    assert_eq!(table.firewall.resize(65).unwrap(), 65, "it may grow");
    drop(still);
    assert_eq!(table.firewall.resize(32).unwrap(), 32);
}

/// What the threads of one step counted.
#[derive(Default)]
struct Counted {
    hits: AtomicU64,
    inserts: AtomicU64,
    others: AtomicU64,
    moves: AtomicU64,
}

fn passing(table: &Table, thread: u32, counted: &Counted) {
    for round in 0..ROUNDS {
        let request = flows(table, (round + thread).is_multiple_of(3), false)
            .set("packet.tick", LONG_AGO.into())
            .set("packet.protocol", if round % 2 == 1 { 6 } else { 17 })
            .set("packet.tcp_flags", 2)
            .set("count", PASSING)
            .set("shuffle", [1, 0x9e_3779, 0x3c_6ef3][((round + thread) % 3) as usize]);
        let answer = table.call(&request);
        counted.hits.fetch_add(answer.get("hits"), Ordering::Relaxed);
        counted.inserts.fetch_add(answer.get("inserts"), Ordering::Relaxed);
        let dropped = answer.drops("memory") + answer.drops("congestion");
        counted.others.fetch_add(dropped, Ordering::Relaxed);
    }
}

/// Looks for what is there all the time, and finds it.
fn lasting(table: &Table, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for is_ipv6 in [false, true] {
            let flows = flows(table, is_ipv6, true).set("count", LASTING);
            let answer = table.call(&flows.set("operation", u64::from(LOOK)));
            // A virtual CPU may be taken away while it holds a lock: who waits for it gives up.
            let found = answer.get("hits") + answer.drops("congestion");
            assert_eq!(found, LASTING, "of IPv6: {is_ipv6}");
        }
    }
}

fn sweeps(table: &Table, stop: &AtomicBool) -> u64 {
    let (mut removed, mut round) = (0, 0_u32);
    while !stop.load(Ordering::Relaxed) {
        let swept = if round.is_multiple_of(2) {
            // As the daemon does, which lets the index shrink meanwhile.
            table.firewall.sweep(Mode::Expire, 0..u32::MAX)
        } else {
            let mut source = Ends::default();
            source.address[..4].copy_from_slice(&[10, 2, 0, round.to_le_bytes()[0] & 0x0f]);
            source.mask[..4].copy_from_slice(&[255, 255, 0, 0x0f]);
            let filter = Filter { ip_version: 4, source, ..Filter::default() };
            table.firewall.sweep_all(Mode::Kill(filter))
        };
        removed += swept.unwrap().removed_count;
        round += 1;
    }
    removed
}

/// Grows and shrinks until it is told to stop, and ends at a number of buckets.
fn resizes(table: &Table, low: u32, end: u32, stop: &AtomicBool, counted: &Counted) {
    loop {
        for bucket_count in [MANY.bucket_count, low] {
            let before = table.firewall.bucket_count();
            let reached = table.firewall.resize(bucket_count).unwrap();
            counted.moves.fetch_add(reached.abs_diff(before).into(), Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    // Everybody else has ended: nothing stands in its way.
    let reached = table.firewall.resize(end).unwrap();
    assert_eq!(reached, end, "{:?}", audit(&table.firewall));
}

/// Tells threads to stop, also when something has failed.
struct Stops<'a>([&'a AtomicBool; 2]);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|stop| stop.store(true, Ordering::Relaxed));
    }
}

#[test]
fn nothing_is_missed_while_the_index_grows_and_shrinks_under_load() {
    let Some(table) = table_that_grows(MANY, FEW, 100_000) else { return };
    for index in 0..16 {
        table.firewall.arena().write32(BLANK_PROFILE_AT + index * 4, LIFE);
    }
    table.set_tick(NOW);
    table.firewall.extend(MANY).unwrap();
    for is_ipv6 in [false, true] {
        let flows = flows(&table, is_ipv6, true).set("count", LASTING);
        assert_eq!(table.call(&flows).get("inserts"), LASTING);
    }
    let mut removed = 0;
    for (low, end) in [(16, 4096), (1500, 2048), (16, 16), (64, 3000), (16, 777)] {
        removed += table.firewall.sweep_all(Mode::Expire).unwrap().removed_count;
        let (counted, stop) = (Counted::default(), AtomicBool::new(false));
        let stop_moving = AtomicBool::new(false);
        removed += thread::scope(|scope| {
            let (table, counted) = (&table, &counted);
            let _stops = Stops([&stop, &stop_moving]);
            let threads: Vec<_> =
                (0..3).map(|index| scope.spawn(move || passing(table, index, counted))).collect();
            let sweeper = scope.spawn(|| sweeps(table, &stop));
            let looker = scope.spawn(|| lasting(table, &stop));
            let mover = scope.spawn(|| resizes(table, low, end, &stop_moving, counted));
            for thread in threads {
                thread.join().unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            looker.join().unwrap();
            let removed = sweeper.join().unwrap();
            stop_moving.store(true, Ordering::Relaxed);
            mover.join().unwrap();
            removed
        });
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = load(&counted.hits) + load(&counted.inserts) + load(&counted.others);
        assert_eq!(all, 3 * u64::from(ROUNDS) * PASSING, "every packet is accounted for");
        let [hits, inserts, moves] = [&counted.hits, &counted.inserts, &counted.moves].map(load);
        assert!(hits > 0 && inserts > 0 && moves > 0, "{hits} {inserts} {moves}, to {end}");
        let found = audit(&table.firewall);
        assert_eq!(table.firewall.bucket_count(), end);
        assert_eq!(table.counted(table::INSERTS), removed + found.live);
        assert_eq!(table.counted(table::REMOVALS), removed);
        assert!(found.live >= 2 * LASTING);
        lasting_are_all_there(&table);
    }
    table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    let empty = audit(&table.firewall);
    assert_eq!((empty.live, empty.overflow), (0, 0));
}

fn lasting_are_all_there(table: &Table) {
    for is_ipv6 in [false, true] {
        let flows = flows(table, is_ipv6, true).set("count", LASTING);
        assert_eq!(hits(table, &flows), LASTING);
    }
}

/// What is taken meanwhile is what has memory, and each slot is one record's.
#[test]
fn memory_comes_while_packets_take_it() {
    /// Slots that get memory at a time: few, so that packets run out of them again and again.
    const STEP: u32 = 8;
    const FIRST: Slots = Slots { bucket_count: 16, overflow_count: 8 * STEP };
    const LAST: Slots = Slots { bucket_count: 1024, overflow_count: 4000 };
    let Some(table) = table_that_grows(LAST, FIRST, 100_000) else { return };
    let firewall = &table.firewall;
    let flags = layout::CONTROL_ENABLED | layout::CONTROL_TRANSLATED;
    firewall.arena().write32(control::FLAGS, flags);
    let is_done = AtomicBool::new(false);
    // Some of all kinds, which may get none later on: they need two slots at a time.
    let (mut inserts, mut refused) = (0, 0);
    for (is_ipv6, redirect) in [(true, 0), (false, 0x5a00_0000)] {
        let flows = flows(&table, is_ipv6, false).set("count", 8).set("redirect", redirect);
        inserts += table.call(&flows.set("packet.src_port", 0xf00f)).get("inserts");
    }
    assert_eq!(inserts, 16);
    thread::scope(|scope| {
        let _stops = Stops([&is_done, &is_done]);
        let threads: Vec<_> = (0..3_u32)
            .map(|number| {
                let (table, is_done) = (&table, &is_done);
                scope.spawn(move || {
                    let (mut inserts, mut refused, mut port) = (0, 0, 0);
                    while !is_done.load(Ordering::Relaxed) {
                        port += 1;
                        let flows = flows(table, number == 1, false)
                            .set("count", 8)
                            .set("packet.src_port", u64::from(number) << 12 | port & 0xfff);
                        let redirect = if number == 2 { 0x5a00_0000 } else { 0 };
                        let answer = table.call(&flows.set("redirect", redirect));
                        inserts += answer.get("inserts");
                        refused += answer.drops("memory");
                    }
                    (inserts, refused)
                })
            })
            .collect();
        for overflow_count in (FIRST.overflow_count..=LAST.overflow_count).step_by(STEP as usize) {
            // Buckets are split where there is a slot for what moves, and joined again.
            let bucket_count = FIRST.bucket_count + overflow_count / 4 % 500;
            firewall.extend(Slots { bucket_count, overflow_count }).unwrap();
            firewall.resize(bucket_count).unwrap();
            while firewall.overflow_used() < overflow_count {
                thread::yield_now();
            }
        }
        is_done.store(true, Ordering::Relaxed);
        for thread in threads {
            let (made, not_made) = thread.join().unwrap();
            inserts += made;
            refused += not_made;
        }
    });
    assert!(refused > 0, "they ran out of slots");
    assert_eq!(firewall.overflow_used(), LAST.overflow_count);
    let found = audit(firewall);
    assert_eq!(found.live, inserts);
    assert!(found.ipv6 > 0 && found.aliases > 0, "{found:?}");
}
