//! The format is what docs/fw-states.md says, and any bytes are a stream or an error.

use super::*;

fn state(number: u64) -> State {
    let byte = number.to_le_bytes()[0];
    let word = u16::from(byte);
    let is_tcp = number.is_multiple_of(2);
    let ends: [(IpAddr, u16); 2] = if number.is_multiple_of(3) {
        [(Ipv6Addr::LOCALHOST.into(), word), (Ipv6Addr::from(u128::from(number)).into(), 443)]
    } else {
        [(Ipv4Addr::new(10, 0, 0, byte).into(), 1000 + word), ([192, 0, 2, 1].into(), 80)]
    };
    let peer = |phase| Peer { phase, wscale: 0x87, max_win: word, seq: [u32::MAX - 5, 77] };
    let wire = |end: usize| Some(Wire { end: (ends[end].0, 50_000 + word), rule: number });
    let half = Half { flags: PRESENT | IF_BOUND, interface: 2, tag: 1, rule: u64::MAX - number };
    State {
        protocol: if is_tcp { 6 } else { 17 },
        flags: if is_tcp { CONNECTED } else { FIRST },
        ends,
        wire: match number % 4 {
            0 => [wire(1), None],
            1 => [wire(1), wire(0)],
            _ => [None; 2],
        },
        gateways: [u16::from(byte % 5 == 4), 2 * u16::from(byte % 5 > 2)],
        peers: [peer(if is_tcp { 4 } else { 1 }), peer(0)],
        halves: [half, if number % 4 == 1 { half } else { Half::default() }],
        packets: [number, 1 << 40],
        bytes: [number * 1000, 7],
        age_ms: 5_000_000_000,
        remaining_ms: 86_400_000,
        idle_ms: 1500,
    }
}

fn stream(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_header(&mut bytes);
    assert!(put_name(&mut bytes, Kind::Interface, 2, "em0"));
    assert!(put_name(&mut bytes, Kind::Tag, 1, "guest"));
    (0..count).for_each(|number| put_state(&mut bytes, &state(number)));
    put_end(&mut bytes, count);
    bytes
}

fn decoded(bytes: &[u8]) -> Result<Vec<Record>, Error> {
    Decoder::new(bytes)?.collect()
}

#[test]
fn what_is_put_is_read() {
    let records = decoded(&stream(50)).unwrap();
    let name = |kind, number, name: &str| Record::Name { kind, number, name: name.to_owned() };
    assert_eq!(records[0], name(Kind::Interface, 2, "em0"));
    assert_eq!(records[1], name(Kind::Tag, 1, "guest"));
    for (number, record) in (0..50).zip(&records[2..]) {
        assert_eq!(*record, Record::State(Box::new(state(number))));
    }
    assert_eq!(records[52..], [Record::End { state_count: 50 }]);
    let mut bytes = Vec::new();
    let long = "x".repeat(NAME_SIZE_BYTES_MAX + 1);
    for (number, name) in [(0, "em0"), (1, ""), (1, &*long)] {
        assert!(!put_name(&mut bytes, Kind::Tag, number, name));
    }
    assert!(bytes.is_empty());
}

/// The bytes of docs/fw-states.md.
#[test]
fn the_document_has_an_example() {
    let document = include_str!("../../../../docs/fw-states.md");
    let block = document.split("```hex\n").nth(1).unwrap().split("```").next().unwrap();
    let words = block.lines().flat_map(|line| line.split('#').next().unwrap().split_whitespace());
    let written: String = words.collect();
    let mut bytes = Vec::new();
    put_header(&mut bytes);
    assert!(put_name(&mut bytes, Kind::Interface, 2, "em0"));
    assert!(put_name(&mut bytes, Kind::Interface, 3, "em1"));
    let half = Half {
        flags: PRESENT,
        interface: 2,
        tag: 0,
        rule: rule_hash("", "pass in all flags S/SA keep state", 0),
    };
    let peer = Peer { phase: 4, wscale: 0x87, max_win: 502, seq: [1000, 65_256] };
    let example = State {
        flags: CONNECTED,
        ends: [([10, 0, 0, 5].into(), 51_234), ([192, 0, 2, 80].into(), 443)],
        peers: [peer, Peer { seq: [2000, 66_256], ..peer }],
        halves: [half, Half::default()],
        packets: [12, 9],
        bytes: [1500, 8000],
        age_ms: 60_000,
        remaining_ms: 86_400_000,
        idle_ms: 1500,
        ..state(2)
    };
    put_state(&mut bytes, &example);
    let rule = rule_hash("", "nat on em1 inet from 10.0.0.0/24 to any -> 203.0.113.9", 0);
    let outside = Wire { end: ([203, 0, 113, 9].into(), 50_321), rule };
    let halves = [half, Half { interface: 3, ..half }];
    let translated = State { wire: [None, Some(outside)], halves, ..example };
    put_state(&mut bytes, &translated);
    put_end(&mut bytes, 2);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, hex);
    let states = [example, translated].map(|state| Record::State(Box::new(state)));
    assert_eq!(decoded(&bytes).unwrap()[2..4], states);
}

#[test]
fn every_truncation_lacks_the_end() {
    let bytes = stream(3);
    for size in 0..bytes.len() {
        let found = decoded(&bytes[..size]);
        match found {
            Err(Error { at, .. }) => assert!(at <= size),
            // It is whole between two records, and has no end.
            Ok(records) => assert!(!matches!(records.last(), Some(Record::End { .. }))),
        }
    }
}

#[test]
fn any_bytes_are_a_stream_or_an_error() {
    let good = stream(4);
    let mut random = 0x5eed_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=next() % 4 {
            let at = usize::try_from(next()).unwrap() % bytes.len();
            bytes[at] = next().to_le_bytes()[0];
        }
        match decoded(&bytes) {
            Err(Error { at, cause }) => {
                assert!(at <= bytes.len() && !cause.to_string().is_empty());
                refused += 1;
            }
            // What is read is written as the same bytes, but for what is skipped.
            Ok(records) => {
                let mut again = Vec::new();
                put_header(&mut again);
                again[10..12].copy_from_slice(&bytes[10..12]);
                let is_known = |record: &Record| !matches!(record, Record::Unknown(_));
                let all_known = records.iter().all(is_known);
                for record in records {
                    match record {
                        Record::Name { kind, number, name } => {
                            assert!(put_name(&mut again, kind, number, &name));
                        }
                        Record::State(state) => put_state(&mut again, &state),
                        Record::End { state_count } => put_end(&mut again, state_count),
                        Record::Unknown(_) => {}
                    }
                }
                assert!(!all_known || again == bytes);
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let cause = |bytes: &[u8]| decoded(bytes).unwrap_err();
    assert_eq!(cause(b"garbage").cause, Cause::Magic);
    let good = stream(1);
    let mut version = good.clone();
    version[9] = 2;
    assert_eq!(cause(&version), Error { at: 8, cause: Cause::Version(2) });
    let mut behind = good.clone();
    behind.push(0);
    assert_eq!(cause(&behind), Error { at: good.len(), cause: Cause::Behind });
    let mut count = good.clone();
    *count.last_mut().unwrap() = 9;
    assert_eq!(cause(&count).cause, Cause::Count { said: 9, found: 1 });
    let mut unknown = good.clone();
    let end = unknown.split_off(good.len() - 12);
    unknown.extend([0x70, 0, 0, 3, 1, 2, 3]);
    unknown.extend(end);
    assert!(decoded(&unknown).unwrap().contains(&Record::Unknown(0x7000)));
}

/// A stream of a state with these parts.
fn with_parts(parts: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_header(&mut bytes);
    let at = bytes.len();
    put_state(&mut bytes, &State { wire: [None; 2], gateways: [0; 2], ..state(2) });
    bytes.extend(parts);
    let size = STATE_SIZE_BYTES + u16::try_from(parts.len()).unwrap();
    bytes[at..at + 2].copy_from_slice(&TYPE_STATE_OF_PARTS.to_be_bytes());
    bytes[at + 2..at + 4].copy_from_slice(&size.to_be_bytes());
    put_end(&mut bytes, 1);
    bytes
}

#[test]
fn parts_are_known_or_their_state_is_not() {
    let gateways = [0, 3, 0, 4, 0, 1, 0, 2];
    let Record::State(found) = decoded(&with_parts(&gateways)).unwrap().remove(0) else {
        panic!("it is a state");
    };
    assert_eq!(found.gateways, [1, 2]);
    let unknown = [&gateways[..], &[0x70, 0, 0, 1, 9]].concat();
    let records = decoded(&with_parts(&unknown)).expect("it counts as a state");
    assert_eq!(records[0], Record::Unknown(UNKNOWN_STATE));
    let wire: Vec<u8> = [0, 2, 0, 26].into_iter().chain([0; 26]).collect();
    for (wrong, field) in [
        (&[][..], "the size of a state's parts"),
        (&gateways[..7], "a part's size"),
        (&[0, 3, 0, 3, 0, 1, 0], "a part's size"),
        (&[0, 3, 0, 5, 0, 1, 0, 0, 0], "a part's size"),
        (&[0, 3, 0], "a part's size"),
        (&[gateways, gateways].concat(), "a part behind a later one"),
        (&[&gateways[..], &wire].concat(), "a part behind a later one"),
        (&[0, 3, 0, 4, 0, 0, 0, 0], "a state's number of gateways"),
        (&wire, "the wire of a half that is not there"),
    ] {
        let error = decoded(&with_parts(wrong)).unwrap_err();
        let is_it = matches!(error.cause, Cause::Value { field: found, .. } if found == field);
        assert!(is_it, "{field}: {error}");
    }
}

#[test]
fn rules_have_names_of_their_own() {
    let all = [
        rule_hash("", "pass all", 0),
        rule_hash("", "pass all", 1),
        rule_hash("a", "pass all", 0),
        rule_hash("", "block all", 0),
    ];
    let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(rule_hash("a", "b", 0), rule_hash("a", "b", 0));
}
