//! The format is what docs/fw-sync.md says, in pieces of any size; and the fuzz target without a
//! fuzzer, over seeded changes of a stream. `WEIR_FUZZ_ROUNDS` makes it longer, `WEIR_FUZZ_SEED`
//! different; cargo-fuzz (CONTRIBUTING.md) goes deeper.

#[path = "../../../../../fuzz/streams.rs"]
mod target;

use weir_wire::random::splitmix64;

use super::*;
use crate::sync::{self, Half, Kind, PRESENT, Peer, State, Wire};

/// Changed streams, unless the environment says more.
const ROUNDS: u64 = 5000;
const SEED: u64 = 0x7765_6972;

fn key(last: u8) -> Key {
    let ends: [(IpAddr, u16); 2] = if last.is_multiple_of(2) {
        [([10, 0, 0, last].into(), 51_234), ([192, 0, 2, 80].into(), 443)]
    } else {
        let v6 = |word| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, word]);
        [(v6(u16::from(last)), 51_234), (v6(0x80), 443)]
    };
    Key { protocol: 6, ends }
}

fn state(last: u8) -> State {
    let peer = Peer { phase: 4, wscale: 0x87, max_win: 502, seq: [1000, 65_256] };
    State {
        protocol: 6,
        flags: sync::CONNECTED,
        ends: key(last).ends,
        wire: [None; 2],
        gateways: [0; 2],
        peers: [peer; 2],
        halves: [Half { flags: PRESENT, interface: 2, tag: 0, rule: 9 }, Half::default()],
        packets: [12, 9],
        bytes: [1500, 8000],
        age_ms: 60_000,
        remaining_ms: 86_400_000,
        idle_ms: 1500,
    }
}

fn items() -> Vec<Item> {
    let name = Record::Name { kind: Kind::Interface, number: 2, name: "em0".to_owned() };
    let tag = Record::Name { kind: Kind::Tag, number: 3, name: "office".to_owned() };
    let gateway = Record::Name { kind: Kind::Gateway, number: 1, name: "10.0.0.1@em0".to_owned() };
    let wire = Wire { end: ([198, 51, 100, 1].into(), 50_000), rule: 9 };
    let parts = State { wire: [Some(wire), None], gateways: [1, 0], ..state(8) };
    vec![
        Item::Session(Session { id: 0x0102_0304_0506_0708, table: 0x1112_1314_1516_1718 }),
        Item::Record(name),
        Item::Record(tag),
        Item::BulkBegin(2),
        Item::Record(Record::State(Box::new(state(4)))),
        Item::Record(gateway),
        Item::Record(Record::State(Box::new(parts))),
        Item::Record(Record::State(Box::new(state(5)))),
        Item::BulkEnd(2),
        Item::Gone(key(6)),
        Item::Gone(key(7)),
        Item::Mark(Mark { sequence: 1, sent_ms: 1_700_000_000_123, record_count: 5 }),
        Item::Acknowledgement(1),
        Item::Mark(Mark { sequence: 2, sent_ms: u64::MAX, record_count: 0 }),
    ]
}

fn stream(items: &[Item]) -> Vec<u8> {
    target::written(items)
}

/// What comes of some pieces, of which no more than a record waits.
fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Item>, Option<Error>) {
    target::decoded(pieces, |decoder, piece| {
        assert!(decoder.bytes.len() - decoder.taken < (1 << 16) + 4 + piece.len());
    })
}

#[test]
fn a_stream_is_read_in_pieces_of_any_size() {
    let bytes = stream(&items());
    for at in 0..=bytes.len() {
        let (one, two) = bytes.split_at(at);
        assert_eq!(decoded([one, two]), (items(), None), "cut at {at}");
    }
    for size in [1, 2, 3, 7, 100] {
        assert_eq!(decoded(bytes.chunks(size)), (items(), None), "pieces of {size}");
    }
}

#[test]
fn a_truncation_gives_what_came_and_no_error() {
    let bytes = stream(&items());
    let mut last = 0;
    for size in 0..bytes.len() {
        let (found, error) = decoded([&bytes[..size]]);
        assert_eq!(error, None);
        assert_eq!(found, items()[..found.len()]);
        assert!(found.len() >= last && found.len() < items().len());
        last = found.len();
    }
}

#[test]
fn what_is_wrong_is_named_and_what_is_unknown_skipped() {
    let cause = |bytes: &[u8]| decoded([bytes]).1.unwrap();
    assert_eq!(cause(b"GET / HTTP/1.1").cause, Cause::Magic);
    let mut bytes = stream(&[]);
    bytes[9] = 9;
    assert_eq!(cause(&bytes).cause, Cause::Version(9));
    let lies = Mark { sequence: 1, sent_ms: 0, record_count: 7 };
    let error = cause(&stream(&[Item::Gone(key(2)), Item::Mark(lies)]));
    assert_eq!(error, Error { at: 12 + 42, cause: Cause::Count { said: 7, found: 1 } });
    let state = Item::Record(Record::State(Box::new(state(4))));
    let bulk = [Item::BulkBegin(9), state.clone(), state, Item::Gone(key(2)), Item::BulkEnd(3)];
    assert_eq!(cause(&stream(&bulk)).cause, Cause::Count { said: 3, found: 2 });
    let mut bytes = stream(&[]);
    sync::put_end(&mut bytes, 0);
    assert!(
        matches!(cause(&bytes).cause, Cause::Value { .. }),
        "a file ends, and a stream does not"
    );
    let mut bytes = stream(&[]);
    put_record(&mut bytes, TYPE_BULK_BEGIN, &[1]);
    assert_eq!(cause(&bytes).cause, Cause::Size { kind: TYPE_BULK_BEGIN, size: 1 });
    let mut bytes = stream(&[]);
    put_record(&mut bytes, 0x7000, &[0; 65_535]);
    put_bulk_begin(&mut bytes, 0);
    let unknown = Item::Record(Record::Unknown(0x7000));
    assert_eq!(decoded(bytes.chunks(1000)), (vec![unknown, Item::BulkBegin(0)], None));
}

/// The bytes of docs/fw-sync.md.
#[test]
fn the_document_has_an_example() {
    let document = include_str!("../../../../../docs/fw-sync.md");
    let block = document.split("```hex\n").nth(1).unwrap().split("```").next().unwrap();
    let words = block.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    let written: String = words.collect();
    let mark = Mark { sequence: 1, sent_ms: 1_700_000_000_123, record_count: 2 };
    let example = [
        items()[0].clone(),
        items()[1].clone(),
        Item::BulkBegin(1),
        Item::Record(Record::State(Box::new(state(4)))),
        Item::BulkEnd(1),
        Item::Gone(key(6)),
        Item::Mark(mark),
    ];
    let hex: String = stream(&example).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, hex);
    let answer: String =
        stream(&[Item::Acknowledgement(1)]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(document.contains(&answer), "{answer}");
}

#[test]
fn streams_are_read_or_refused() {
    let good = stream(&items());
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
