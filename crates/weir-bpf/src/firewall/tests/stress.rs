//! Several CPUs at once: more flows than slots, records that expire as fast as they can, and
//! deletes meanwhile; then every slot is accounted for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::audit::audit;
use super::harness::*;
use crate::firewall::layout::{BLANK_PROFILE_AT, CONTROL_ENABLED, CONTROL_TRANSLATED};
use crate::firewall::layout::{control, table};
use crate::firewall::sweep::{Ends, Filter, Mode};

/// Rounds of each thread.
const ROUNDS: u32 = 60;
const FLOWS: u64 = 4096;
/// Makes flow numbers jump about: odd.
const SHUFFLES: [u64; 4] = [1, 0x9e_3779, 0x3c_6ef3, 0xda_a66b];

/// Changes the last byte of a destination.
const REDIRECT: u64 = 0x5a00_0000;

/// What a thread of packets counted.
#[derive(Default)]
struct Counted {
    hits: AtomicU64,
    inserts: AtomicU64,
    refused: AtomicU64,
    congestion: AtomicU64,
}

fn packets(table: &Table, thread: u32, redirect: u64, counted: &Counted) {
    for round in 0..ROUNDS {
        let is_ipv6 = (round + thread).is_multiple_of(3);
        let (src, dst): (IpAddr, IpAddr) = if is_ipv6 {
            let net = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, last, 0);
            (net(1).into(), net(2).into())
        } else {
            (Ipv4Addr::new(10, 0, 0, 0).into(), Ipv4Addr::new(192, 0, 2, 1).into())
        };
        let tcp = round % 2 == 1;
        let request = table
            .request()
            .ends((src, 1000), (dst, 80))
            .set("packet.protocol", if tcp { 6 } else { 17 })
            .set("packet.tcp_flags", 2)
            .set("packet.tick", u64::from(1000 + round))
            .set("count", FLOWS)
            // Every other round speaks to the same hosts directly.
            .set("redirect", if round % 4 < 2 { redirect } else { 0 })
            .set("shuffle", SHUFFLES[(round as usize + thread as usize) % SHUFFLES.len()]);
        let answer = table.call(&request);
        counted.hits.fetch_add(answer.get("hits"), Ordering::Relaxed);
        counted.inserts.fetch_add(answer.get("inserts"), Ordering::Relaxed);
        let refused = ["memory", "state-limit", "state-insert"].map(|reason| answer.drops(reason));
        let refused: u64 = refused.iter().sum();
        counted.refused.fetch_add(refused, Ordering::Relaxed);
        counted.congestion.fetch_add(answer.drops("congestion"), Ordering::Relaxed);
    }
}

fn sweeps(table: &Table, stop: &AtomicBool) -> u64 {
    let mut removed = 0;
    let mut round = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        // Half of the rounds expire what is a tick old, the others kill a part of the flows.
        let mode = if round.is_multiple_of(2) {
            Mode::Expire
        } else {
            let mut source = Ends::default();
            source.address[3] = round.to_le_bytes()[0] & 0x0f;
            source.mask[3] = 0x0f;
            Mode::Kill(Filter { ip_version: 4, source, ..Filter::default() })
        };
        removed += table.firewall.sweep_all(mode).unwrap().removed_count;
        round += 1;
    }
    removed
}

/// Runs packets on several threads beside a sweeper; returns what both counted.
fn stress(bucket_count: u32, overflow_count: u32, limit: u32, timeout_ticks: u32, redirect: u64) {
    let Some(table) = table(bucket_count, overflow_count, limit) else { return };
    let flags = CONTROL_ENABLED | if redirect == 0 { 0 } else { CONTROL_TRANSLATED };
    table.firewall.arena().write32(control::FLAGS, flags);
    for index in 0..16 {
        table.firewall.arena().write32(BLANK_PROFILE_AT + index * 4, timeout_ticks);
    }
    table.set_tick(1000 + ROUNDS);
    let (counted, stop) = (Counted::default(), AtomicBool::new(false));
    let removed = thread::scope(|scope| {
        let sweeper = scope.spawn(|| sweeps(&table, &stop));
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let (table, counted) = (&table, &counted);
                scope.spawn(move || packets(table, index, redirect, counted))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        sweeper.join().unwrap()
    });
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let found = audit(&table.firewall);
    // A flow that two CPUs begin at a time has one record, and both say that they kept state.
    assert!(load(&counted.inserts) >= removed + found.live, "what came is there or has gone");
    assert_eq!(table.counted(table::INSERTS), removed + found.live);
    assert_eq!(table.counted(table::REMOVALS), removed);
    let all = load(&counted.hits) + load(&counted.inserts) + load(&counted.refused);
    assert_eq!(all + load(&counted.congestion), 4 * u64::from(ROUNDS) * FLOWS);
    assert!(load(&counted.hits) > 0 && load(&counted.inserts) > 0);
    assert_eq!(table.counted(table::TRANSLATIONS) > 0, redirect != 0);
    // Whoever is left can be ended, and then every slot is free again: those of aliases as soon as
    // somebody comes by.
    for _ in 0..2 {
        table.firewall.sweep_all(Mode::Kill(Filter::default())).unwrap();
    }
    let empty = audit(&table.firewall);
    assert_eq!((empty.live, empty.overflow, empty.aliases, empty.ended), (0, 0, 0, 0));
}

#[test]
fn many_cpus_with_more_flows_than_slots() {
    stress(1024, 900, 1_000_000, 1, 0);
}

#[test]
fn many_cpus_at_the_limit_of_states() {
    stress(512, 4096, 1500, 8, 0);
}

#[test]
fn many_cpus_in_very_few_buckets() {
    stress(16, 4096, 3000, 4, 0);
}

#[test]
fn many_cpus_with_translated_flows() {
    stress(1024, 2000, 1_000_000, 1, REDIRECT);
    stress(16, 4096, 3000, 4, REDIRECT);
}
