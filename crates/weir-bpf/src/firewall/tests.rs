//! Loading the programs and their memory, on a real kernel.

use super::layout::{Sizes, control};
use super::*;

mod audit;
mod growth;
mod harness;
mod restore;
mod reuse;
mod room;
mod source;
mod stress;
mod sync;
mod table;
mod tcp;

use harness::{DATA_PATH, STATES, load};

/// Programs whose load is the test's matter.
fn firewall(bucket_count: u32, overflow_count: u32) -> Option<Firewall> {
    load(STATES, bucket_count, overflow_count)
}

#[test]
fn a_loaded_firewall_describes_its_memory() {
    let Some(firewall) = load(OBJECT, 1024, 100) else { return };
    let arena = firewall.arena();
    assert_eq!(arena.read32(control::MAGIC), layout::MAGIC);
    assert_eq!(arena.read32(control::BUCKET_COUNT), 1024);
    assert_eq!(arena.read32(control::STATES_AT), firewall.regions().states.at);
}

#[test]
fn several_firewalls_have_memory_of_their_own() {
    let Some(first) = firewall(64, 10) else { return };
    let Some(second) = firewall(128, 10) else { return };
    assert_eq!(first.arena().read32(control::BUCKET_COUNT), 64);
    assert_eq!(second.arena().read32(control::BUCKET_COUNT), 128);
    drop(first);
    let Some(third) = firewall(256, 10) else { return };
    assert_eq!(second.arena().read32(control::BUCKET_COUNT), 128);
    assert_eq!(third.arena().read32(control::BUCKET_COUNT), 256);
}

#[test]
fn bytes_go_in_and_out_at_any_offset() {
    let Some(firewall) = DATA_PATH.lend(64, 10) else { return };
    let (arena, heap) = (firewall.arena(), firewall.regions().heap.at);
    arena.populate(heap, 100_000).unwrap();
    let bytes: Vec<u8> = (0..1000_u32).map(|index| (index % 251) as u8).collect();
    for offset in 0..9 {
        arena.clear(heap, 2000);
        arena.write(heap + 64 + offset, &bytes[..990]);
        let mut all = vec![0xff; 1100];
        arena.read(heap + 60 + offset, &mut all);
        assert!(all[..4].iter().all(|byte| *byte == 0), "nothing before");
        assert_eq!(all[4..994], bytes[..990]);
        assert!(all[994..].iter().all(|byte| *byte == 0), "nothing behind");
    }
}

#[test]
fn a_million_slots_that_do_not_fit_are_refused() {
    let options = Options {
        hash_seed: [0; 8],
        fragment_count_max: 1,
        source_count_max: 64,
        log_bytes: 4096,
        event_bytes: 4096,
        change_bytes: 4096,
    };
    let sizes = Sizes { bucket_count: 1 << 26, overflow_count: 0, heap_bytes: 0, cpu_count: 1 };
    let refused = Firewall::load(&options, sizes, sizes.slots()).map(|_| ());
    assert!(matches!(refused, Err(FirewallError::TooLarge { .. })), "{refused:?}");
}
