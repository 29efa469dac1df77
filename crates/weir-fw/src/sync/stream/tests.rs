//! The format is what docs/fw-sync.md says, in pieces of any size. (`tests/it/streams.rs` has any
//! bytes.)

use super::*;
use crate::sync::{self, Half, Kind, PRESENT, Peer, State};

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
        peers: [peer; 2],
        halves: [Half { flags: PRESENT, interface: 2, tag: 0, rule: 9 }, Half::default()],
        packets: [12, 9],
        bytes: [1500, 8000],
        age_ms: 60_000,
        remaining_ms: 86_400_000,
    }
}

fn items() -> Vec<Item> {
    let name = Record::Name { kind: Kind::Interface, number: 2, name: "em0".to_owned() };
    vec![
        Item::Session(Session { id: 0x0102_0304_0506_0708, table: 0x1112_1314_1516_1718 }),
        Item::Record(name),
        Item::BulkBegin,
        Item::Record(Record::State(Box::new(state(4)))),
        Item::Record(Record::State(Box::new(state(5)))),
        Item::BulkEnd(2),
        Item::Gone(key(6)),
        Item::Gone(key(7)),
        Item::Mark(Mark { sequence: 1, sent_ms: 1_700_000_000_123, record_count: 4 }),
        Item::Acknowledgement(1),
        Item::Mark(Mark { sequence: 2, sent_ms: u64::MAX, record_count: 0 }),
    ]
}

fn put(out: &mut Vec<u8>, item: &Item) {
    match item {
        Item::Session(session) => put_session(out, *session),
        Item::Record(Record::Name { kind, number, name }) => {
            assert!(sync::put_name(out, *kind, *number, name));
        }
        Item::Record(Record::State(state)) => sync::put_state(out, state),
        Item::Record(_) => {}
        Item::Gone(key) => put_gone(out, key),
        Item::Mark(mark) => put_mark(out, *mark),
        Item::Acknowledgement(sequence) => put_acknowledgement(out, *sequence),
        Item::BulkBegin => put_bulk_begin(out),
        Item::BulkEnd(count) => put_bulk_end(out, *count),
    }
}

fn stream(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    sync::put_header(&mut bytes);
    items.iter().for_each(|item| put(&mut bytes, item));
    bytes
}

/// What comes of some pieces.
fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Item>, Option<Error>) {
    let (mut decoder, mut items) = (Decoder::new(), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_item(), Err(error.clone()), "it stays");
                    return (items, Some(error));
                }
            }
        }
        assert!(decoder.bytes.len() - decoder.taken < (1 << 16) + 4 + piece.len());
    }
    (items, None)
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
    put(&mut bytes, &Item::BulkBegin);
    let unknown = Item::Record(Record::Unknown(0x7000));
    assert_eq!(decoded(bytes.chunks(1000)), (vec![unknown, Item::BulkBegin], None));
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
        Item::BulkBegin,
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
