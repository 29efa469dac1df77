//! What is fuzzed of state synchronisation, as a plain function: cargo-fuzz calls it with what it
//! makes up, `make test` with seeded changes of a stream that has every record.

use weir_fw::sync::stream::{self, Decoder, Item};
use weir_fw::sync::{self, Error, Record};

/// Any bytes as the stream of another firewall: they are a stream or an error within them, in
/// pieces of any size, and what was read is written as bytes that are read as the same.
///
/// # Panics
///
/// If one of that does not hold.
pub(crate) fn stream(data: &[u8]) {
    let (items, error) = decode([data]);
    if let Some(Error { at, cause }) = &error {
        assert!(*at <= data.len() && !cause.to_string().is_empty(), "{error:?}");
    }
    let first = data.first().map_or(0, |byte| usize::from(*byte));
    let (one, two) = data.split_at(first.min(data.len()));
    let expected = (items, error);
    assert_eq!(decode([one, two]), expected, "cut at {}", one.len());
    assert_eq!(decode(data.chunks(1)), expected, "byte by byte");

    // States that it cannot read count where the other side says how many there were.
    let is_unread =
        |item: &Item| matches!(item, Item::Record(Record::Unknown(sync::UNKNOWN_STATE)));
    if expected.0.iter().any(is_unread) {
        return;
    }
    let known = expected.0.into_iter();
    let known: Vec<Item> =
        known.filter(|item| !matches!(item, Item::Record(Record::Unknown(_)))).collect();
    let again = written(&known);
    assert_eq!(decode([&again[..]]), (known, None), "written and read again");
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Item>, Option<Error>) {
    decoded(pieces, |_, _| {})
}

/// What comes of some pieces; `check` sees the decoder after each of them.
pub(crate) fn decoded<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    check: impl Fn(&Decoder, &[u8]),
) -> (Vec<Item>, Option<Error>) {
    let (mut decoder, mut items) = (Decoder::new(), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_item() {
                Ok(Some(item)) => items.push(item),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(decoder.next_item().as_ref(), Err(&error), "it stays");
                    return (items, Some(error));
                }
            }
        }
        check(&decoder, piece);
    }
    (items, None)
}

/// The stream of some items.
pub(crate) fn written(items: &[Item]) -> Vec<u8> {
    let mut bytes = Vec::new();
    sync::put_header(&mut bytes);
    for item in items {
        match item {
            Item::Session(session) => stream::put_session(&mut bytes, *session),
            Item::Record(Record::Name { kind, number, name }) => {
                assert!(sync::put_name(&mut bytes, *kind, *number, name), "{item:?}");
            }
            Item::Record(Record::State(state)) => sync::put_state(&mut bytes, state),
            Item::Record(_) => {}
            Item::Gone(key) => stream::put_gone(&mut bytes, key),
            Item::Mark(mark) => stream::put_mark(&mut bytes, *mark),
            Item::Acknowledgement(sequence) => stream::put_acknowledgement(&mut bytes, *sequence),
            Item::BulkBegin(count) => stream::put_bulk_begin(&mut bytes, *count),
            Item::BulkEnd(count) => stream::put_bulk_end(&mut bytes, *count),
        }
    }
    bytes
}
