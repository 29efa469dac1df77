//! Records that were written by hand into the memory of a firewall that nothing is attached to.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use weir_bpf::firewall::layout::Sizes;
use weir_bpf::firewall::{FirewallError, Options};
use weir_wire::random::splitmix64;

use super::*;

const BUCKETS: u32 = 64;

/// Programs that the tests take turns with: the verifier looks at them for tenths of a second.
static LOADED: Mutex<Option<Firewall>> = Mutex::new(None);

/// One test's turn.
struct Turn(MutexGuard<'static, Option<Firewall>>);

impl Deref for Turn {
    type Target = Firewall;

    fn deref(&self) -> &Firewall {
        self.0.as_ref().expect("it was loaded before the turn")
    }
}

/// A firewall with nothing in its memory; `None`, and the reason is printed, without privileges.
#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn firewall() -> Option<Turn> {
    let options = Options {
        hash_seed: [1; 8],
        fragment_count_max: 1,
        source_count_max: 64,
        log_bytes: 4096,
        event_bytes: 4096,
        change_bytes: 4096,
    };
    let sizes =
        Sizes { bucket_count: BUCKETS, overflow_count: 64, heap_bytes: 4096, cpu_count: 64 };
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let firewall = match loaded.take() {
        Some(mut firewall) => firewall.renew(sizes, sizes.slots()).map(|()| firewall),
        None => Firewall::load(&options, sizes, sizes.slots()),
    };
    match firewall {
        Ok(firewall) => {
            *loaded = Some(firewall);
            Some(Turn(loaded))
        }
        Err(FirewallError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: BPF programs need privileges: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn line_at(firewall: &Firewall, slot: u32) -> u32 {
    firewall.regions().states.at + slot * state::SIZE_BYTES
}

fn account_at(firewall: &Firewall, slot: u32) -> u32 {
    firewall.regions().accounts.at + slot * account::SIZE_BYTES
}

/// Writes an established TCP record from 10.0.0.1:1000 to 192.0.2.1:80.
fn write_tcp(firewall: &Firewall, slot: u32, flags: u32, next: u32) {
    let (arena, at) = (firewall.arena(), line_at(firewall, slot));
    let flags = flags | layout::STATE_LIVE | 6 << layout::STATE_PROTOCOL_SHIFT;
    arena.write(at + state::ADDR, &[10, 0, 0, 1, 192, 0, 2, 1]);
    arena.write(at + state::PORT, &[1000_u16.to_be_bytes(), 80_u16.to_be_bytes()].concat());
    arena.write32(at + state::LAST_TICK, 5000);
    arena.write32(at + state::SEQ, 11);
    arena.write32(at + state::SEQ + 4, 12);
    arena.write32(at + state::SEQ + 8, 13);
    arena.write32(at + state::SEQ + 12, 14);
    arena.write32(at + state::MAX_WIN, 2000 << 16 | 1000);
    arena.write(at + state::PHASE, &[4, 4, 0x87, 0x88]);
    arena.write32(at + state::NEXT_HOP, 6 << 16 | 3 << layout::STATE_GATEWAY_SHIFT | 5);
    arena.write(at + state::GENERATION, &[9, 0, 1, 2]);
    arena.write32(at + state::COUNT, 3 << 24 | 300);
    arena.write32(at + state::COUNT + 4, 4 << 24 | 400);
    arena.write32(at + state::NEXT, next);
    let at = account_at(firewall, slot);
    let none = u64::from(layout::RULE_NONE);
    arena.write64(at, 7 << layout::ACCOUNT_RULE_SHIFT | 1000);
    arena.write64(at + 8, none << layout::ACCOUNT_RULE_SHIFT | 2000);
    let scrub = 5 << layout::ACCOUNT_SCRUB_SHIFT;
    arena.write64(at + 16, 0x1234 << layout::ACCOUNT_CREATED_SHIFT | scrub | 100_000);
    arena.write64(at + 24, 0x0001 << layout::ACCOUNT_CREATED_SHIFT | 200_000);
    arena.write32(line_at(firewall, slot) + state::CONTROL, flags);
}

fn all(firewall: &Firewall) -> Vec<Record> {
    let mut records = Vec::new();
    View::new(firewall).for_all(|record| records.push(*record));
    records
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let Some(firewall) = firewall() else { return };
    assert_eq!(all(&firewall), []);
    write_tcp(&firewall, 3, layout::STATE_HALF_A | layout::STATE_IF_BOUND_A, 0);
    let records = all(&firewall);
    let [record] = records[..] else { panic!("{records:?}") };
    assert_eq!(record.slot, 3);
    assert_eq!(record.ends[0], ("10.0.0.1".parse().unwrap(), 1000));
    assert_eq!(record.ends[1], ("192.0.2.1".parse().unwrap(), 80));
    assert_eq!((record.protocol, record.phase), (6, [4, 4]));
    assert_eq!((record.seq, record.max_win), ([[11, 12], [13, 14]], [1000, 2000]));
    assert_eq!((record.wscale, record.interfaces), ([0x87, 0x88], [1, 2]));
    assert_eq!((record.packets, record.bytes), ([1003, 2004], [100_300, 200_400]));
    assert_eq!((record.next_hop, record.generation), ([5, 6], 9));
    assert_eq!((record.gateways, View::new(&firewall).gateways()), ([3, 0], 1 << 3 | 1));
    assert_eq!((record.rules, record.created_tick), ([Some(7), None], 0x1_1234));
    assert_eq!((record.scrubs, View::new(&firewall).scrubs()), ([5, 0], 1 << 5 | 1));
    assert!(record.has_half(0) && !record.has_half(1));
    assert!(record.is_bound(0) && !record.is_bound(1));
}

#[test]
fn a_record_of_udp_has_an_account_once_its_line_was_full() {
    let Some(firewall) = firewall() else { return };
    write_tcp(&firewall, 3, layout::STATE_HALF_A, 0);
    let (arena, at) = (firewall.arena(), line_at(&firewall, 3));
    for (index, count) in (0_u32..).zip([1000, 2000, 100_000, 200_000]) {
        arena.write64(account_at(&firewall, 3) + index * 8, count);
    }
    let maker = 9 | 2 << layout::HALF_TAG_SHIFT | 3 << layout::HALF_SCRUB_SHIFT;
    arena.write32(at + state::SEQ + line_account::HALF, maker);
    arena.write32(at + state::SEQ + line_account::HALF + 4, layout::RULE_NONE);
    arena.write32(at + state::SEQ + line_account::CREATED_TICK, 0x2_3456);
    let flags = layout::STATE_LIVE | layout::STATE_HALF_A | 17 << layout::STATE_PROTOCOL_SHIFT;
    arena.write32(at + state::CONTROL, flags);
    for (has_account, packets, bytes) in
        [(0, [3, 4], [300, 400]), (1, [1003, 2004], [100_300, 200_400])]
    {
        arena.write32(at + state::SEQ + line_account::HAS_ACCOUNT, has_account);
        let records = all(&firewall);
        let [record] = records[..] else { panic!("{records:?}") };
        assert_eq!((record.packets, record.bytes), (packets, bytes));
        assert_eq!((record.rules, record.tags), ([Some(9), None], [2, 0]));
        assert_eq!(record.scrubs, [3, 0]);
        assert_eq!((record.created_tick, record.seq), (0x2_3456, [[0; 2]; 2]));
    }
}

#[test]
fn chains_and_ipv6_records_are_followed() {
    let Some(firewall) = firewall() else { return };
    write_tcp(&firewall, 5, 0, BUCKETS + 1);
    write_tcp(&firewall, BUCKETS + 1, layout::STATE_IPV6, 0);
    let arena = firewall.arena();
    arena.write32(line_at(&firewall, BUCKETS + 1) + state::ADDR + 4, BUCKETS + 2);
    let addresses: Vec<u8> = (0..32).collect();
    let second = line_at(&firewall, BUCKETS + 2);
    arena.write(second + addresses::ADDR, &addresses);
    arena.write32(second + addresses::OWNER, BUCKETS + 1);
    arena.write32(second + addresses::CONTROL, layout::STATE_ADDRESSES);
    let records = all(&firewall);
    assert_eq!(records.len(), 2);
    let expected = ["1:203:405:607:809:a0b:c0d:e0f", "1011:1213:1415:1617:1819:1a1b:1c1d:1e1f"];
    let found = records[1].ends.map(|(address, _)| address.to_string());
    assert_eq!(found, expected);
}

#[test]
fn a_locked_bucket_and_a_damaged_chain_end() {
    let Some(firewall) = firewall() else { return };
    write_tcp(&firewall, 5, layout::STATE_LOCK, 0);
    assert_eq!(all(&firewall).len(), 1, "as it was found");
    assert_eq!(all(&firewall)[0].flags & layout::STATE_LOCK, 0);
    // A chain that leads to itself, and one that leads out of the table.
    write_tcp(&firewall, 5, 0, BUCKETS + 1);
    write_tcp(&firewall, BUCKETS + 1, 0, BUCKETS + 1);
    assert!(all(&firewall).len() <= CHAIN_COUNT_MAX);
    write_tcp(&firewall, BUCKETS + 1, 0, u32::MAX);
    assert_eq!(all(&firewall).len(), 2);
}

#[test]
fn ages_and_timeouts_are_the_tables() {
    let Some(firewall) = firewall() else { return };
    write_tcp(&firewall, 3, 0, 0);
    let record = all(&firewall)[0];
    assert_eq!(record.timeout(), timeout::TCP_ESTABLISHED);
    let arena = firewall.arena();
    let table = layout::BLANK_PROFILE_AT;
    // 1000 s are 59,604 ticks.
    arena.write32(table + timeout::TCP_ESTABLISHED * 4, 59_605);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 5000), 1000);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 5000 + 59_605 / 2), 500);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 5000 + 70_000), 0);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 4000), 1000, "a clock behind");
    assert_eq!(age_s(&record, record.created_tick + 596), 9);
    assert_eq!(age_s(&record, record.created_tick - 1), 0);
    // Three quarters of the way from start to end: a quarter of the time.
    arena.write32(layout::BLANK_AT + image::ADAPTIVE_START, 100);
    arena.write32(layout::BLANK_AT + image::ADAPTIVE_END, 200);
    arena.word64(control::STATE_COUNT).store(175, Ordering::Release);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 5000), 249);
    let half_open = Record { phase: [2, 0], ..record };
    arena.write32(table + timeout::TCP_OPENING * 4, 59_605);
    assert_eq!(View::new(&firewall).expires_in_s(&half_open, 5000), 62, "a sixteenth");
    arena.word64(control::STATE_COUNT).store(300, Ordering::Release);
    assert_eq!(View::new(&firewall).expires_in_s(&record, 5000), 0);
}

#[test]
fn timeouts_follow_phases_as_the_programs_do() {
    let Some(firewall) = firewall() else { return };
    write_tcp(&firewall, 3, 0, 0);
    let record = all(&firewall)[0];
    let tcp = |phase, flags| Record { phase, flags, ..record }.timeout();
    assert_eq!(tcp([2, 0], layout::STATE_FIRST), timeout::TCP_FIRST);
    assert_eq!(tcp([2, 2], 0), timeout::TCP_OPENING);
    assert_eq!(tcp([7, 4], 0), timeout::TCP_CLOSING);
    assert_eq!(tcp([7, 7], 0), timeout::TCP_FINWAIT);
    assert_eq!(tcp([10, 10], 0), timeout::TCP_CLOSED);
    let other = |protocol, phase, flags| Record { protocol, phase, flags, ..record }.timeout();
    assert_eq!(other(UDP, [1, 0], layout::STATE_FIRST), timeout::UDP_FIRST);
    assert_eq!(other(UDP, [2, 1], 0), timeout::UDP_SINGLE);
    assert_eq!(other(UDP, [2, 2], 0), timeout::UDP_MULTIPLE);
    assert_eq!(other(ICMP, [1, 0], layout::STATE_FIRST), timeout::ICMP_FIRST);
    assert_eq!(other(ICMP6, [2, 1], 0), timeout::ICMP_ERROR);
    assert_eq!(other(47, [2, 2], 0), timeout::OTHER_MULTIPLE);
}

#[test]
fn a_bucket_comes_from_the_one_without_its_highest_bit() {
    assert_eq!([0, 1, 2, 3, 12, 13].map(parent), [0, 0, 0, 1, 4, 5]);
    assert_eq!((bucket_of(13, 5), bucket_of(12, 5), bucket_of(4, 5)), (1, 4, 4));
    for (new, buckets, is_touched) in [
        (8..8, 0..8, false),
        (8..9, 0..1, true),
        (8..9, 1..8, false),
        (10..12, 3..4, true),
        (10..12, 4..8, false),
        (15..17, 7..8, true),
        (15..17, 0..1, true),
        (15..17, 1..7, false),
    ] {
        assert_eq!(splits(new.clone(), &buckets), is_touched, "{new:?} {buckets:?}");
    }
}

/// An index that grows at random moments while somebody reads it: what was there is seen once.
#[test]
fn what_a_growing_index_moves_is_read_once() {
    const RECORDS: u64 = 3000;
    const CHUNK: u32 = 16;
    for seed in 0..40_u64 {
        let mut draws = 0;
        let mut draw = |most: u64| {
            draws += 1;
            splitmix64(seed, draws) % most
        };
        let place = |record: u64, count: u32| bucket_of(low(splitmix64(!seed, record)) >> 8, count);
        let mut bucket_count = 16 + u32::try_from(draw(200)).unwrap();
        let mut passed = Passed::default();
        let mut seen = std::collections::BTreeMap::new();
        let mut from = 0;
        while from < bucket_count {
            let to = bucket_count.min(from + CHUNK);
            // Read until nothing of it was split meanwhile, as `read_range` does.
            let (mut found, mut before) = (Vec::new(), bucket_count);
            loop {
                found.clear();
                for bucket in (from..to).filter(|bucket| !passed.has(*bucket)) {
                    found.extend((0..RECORDS).filter(|r| place(*r, bucket_count) == bucket));
                    if draw(3) == 0 && bucket_count < 3000 {
                        bucket_count += u32::try_from(draw(40)).unwrap();
                    }
                }
                if !splits(before..bucket_count, &(from..to)) {
                    break;
                }
                before = bucket_count;
            }
            passed.note(from, bucket_count);
            found.iter().for_each(|record| *seen.entry(*record).or_insert(0) += 1);
            from = to;
        }
        let is_once = seen.len() as u64 == RECORDS && seen.values().all(|count| *count == 1);
        assert!(is_once, "seed {seed}: {bucket_count} buckets");
    }
}
