//! The fuzz target of state synchronisation without a fuzzer: over a stream with every record, and
//! over seeded changes of it. `WEIR_FUZZ_ROUNDS` makes it longer, `WEIR_FUZZ_SEED` different;
//! cargo-fuzz (CONTRIBUTING.md) goes deeper.

#[path = "../../../../fuzz/streams.rs"]
mod target;

use std::net::IpAddr;

use weir_fw::sync::stream::{Item, Key, Mark, Session};
use weir_fw::sync::{self, Half, Kind, Peer, Record, State};
use weir_wire::random::splitmix64;

/// Changed streams, unless the environment says more.
const ROUNDS: u64 = 5000;
const SEED: u64 = 0x7765_6972;

fn key(host: u8) -> Key {
    let address = |net: u8| match host % 2 {
        0 => IpAddr::from([10, net, 0, host]),
        _ => IpAddr::from([0x2001, 0xdb8, 0, net.into(), 0, 0, 0, host.into()]),
    };
    Key { protocol: 6, ends: [(address(1), 51_234), (address(2), 443)] }
}

fn state(host: u8) -> Item {
    let peer = Peer { phase: 4, wscale: 0x87, max_win: 502, seq: [1000, 65_256] };
    let half = Half { flags: sync::PRESENT, interface: 2, tag: 3, rule: 9 };
    Item::Record(Record::State(Box::new(State {
        protocol: 6,
        flags: sync::CONNECTED,
        ends: key(host).ends,
        peers: [peer; 2],
        halves: [half, Half::default()],
        packets: [12, 9],
        bytes: [1500, 8000],
        age_ms: 60_000,
        remaining_ms: 86_400_000,
    })))
}

fn name(kind: Kind, number: u16, name: &str) -> Item {
    Item::Record(Record::Name { kind, number, name: name.to_owned() })
}

fn every_record() -> Vec<Item> {
    vec![
        Item::Session(Session { id: 0x0102_0304_0506_0708, table: 0x1112_1314_1516_1718 }),
        name(Kind::Interface, 2, "em0"),
        name(Kind::Tag, 3, "office"),
        Item::BulkBegin,
        state(4),
        state(5),
        Item::BulkEnd(2),
        Item::Gone(key(6)),
        Item::Gone(key(7)),
        Item::Mark(Mark { sequence: 1, sent_ms: 1_700_000_000_123, record_count: 4 }),
        Item::Acknowledgement(1),
        Item::Mark(Mark { sequence: 2, sent_ms: u64::MAX, record_count: 0 }),
    ]
}

#[test]
fn streams_are_read_or_refused() {
    let good = target::written(&every_record());
    target::stream(&good);
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    };
    let (rounds, seed) = (number("WEIR_FUZZ_ROUNDS", ROUNDS), number("WEIR_FUZZ_SEED", SEED));
    let mut count = 0;
    let mut below = |bound: usize| {
        count += 1;
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from(splitmix64(seed, count) % bound).expect("64 bits")
    };
    for round in 0..rounds {
        let mut bytes = good.clone();
        for _ in 0..=below(4) {
            let at = below(bytes.len());
            match below(4) {
                0 => bytes.truncate(at + 1),
                1 => bytes.extend_from_slice(&good[below(good.len())..]),
                _ => bytes[at] = below(256).to_le_bytes()[0],
            }
        }
        let judged = std::panic::catch_unwind(|| target::stream(&bytes));
        assert!(judged.is_ok(), "round {round} of seed {seed}: {bytes:02x?}");
    }
}
