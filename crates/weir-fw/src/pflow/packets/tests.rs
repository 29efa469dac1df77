//! Packets of flows, by their bytes.

use weir_wire::random::splitmix64;

use super::*;

const NOW: Now = Now { tick: 0, uptime_ms: 0x0102_0304, unix_ns: 1_600_000_000_000_000_007 };

fn flow(source: &str, destination: &str) -> Flow {
    Flow {
        source: (source.parse().unwrap(), 4096),
        destination: (destination.parse().unwrap(), 53),
        protocol: 17,
        interfaces: [2, 3],
        packets: 5,
        octets: 700,
        start_ms: 1000,
        finish_ms: 2000,
    }
}

fn flow4() -> Flow {
    flow("10.0.0.1", "10.0.0.2")
}

fn flow6() -> Flow {
    flow("2001:db8::1", "2001:db8::2")
}

#[test]
fn version_5_byte_by_byte() {
    let mut exporter = Exporter::new(Protocol::V5);
    assert_eq!(exporter.add(&flow4(), &NOW), []);
    assert_eq!(exporter.add(&flow6(), &NOW), [], "no IPv6");
    assert_eq!(exporter.due(&NOW, false), [], "it waits for more");
    let later = Now { uptime_ms: NOW.uptime_ms + WAIT_MS, ..NOW };
    let packets = exporter.due(&later, false);
    let mut expected = vec![0, 5, 0, 1, 1, 2, 6, 0xec];
    expected.extend(1_600_000_000_u32.to_be_bytes());
    expected.extend([0, 0, 0, 7, 0, 0, 0, 0, 42, 21, 0, 0]);
    expected.extend([10, 0, 0, 1, 10, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 3]);
    expected.extend([0, 0, 0, 5, 0, 0, 2, 0xbc, 0, 0, 3, 0xe8, 0, 0, 7, 0xd0]);
    expected.extend([0x10, 0, 0, 53, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(expected.len(), V5_HEADER_BYTES + V5_RECORD_BYTES);
    assert_eq!(packets, [Packet { bytes: expected, record_count: 1 }]);
    assert_eq!(exporter.due(&later, true), [], "nothing is sent twice");
}

#[test]
fn ipfix_byte_by_byte() {
    let mut exporter = Exporter::new(Protocol::Ipfix);
    let [templates] = &exporter.due(&NOW, false)[..] else { panic!("templates alone") };
    let mut expected = vec![0, 10, 0, 124];
    expected.extend(1_600_000_000_u32.to_be_bytes());
    expected.extend([0, 0, 0, 0, 0, 0, 0, 42, 0, 2, 0, 108]);
    let rest = [
        [0, 10, 0, 4],
        [0, 14, 0, 4],
        [0, 2, 0, 8],
        [0, 1, 0, 8],
        [0, 152, 0, 8],
        [0, 153, 0, 8],
        [0, 7, 0, 2],
        [0, 11, 0, 2],
        [0, 5, 0, 1],
        [0, 4, 0, 1],
    ];
    expected.extend([1, 0, 0, 12, 0, 8, 0, 4, 0, 12, 0, 4]);
    expected.extend(rest.as_flattened());
    expected.extend([1, 1, 0, 12, 0, 27, 0, 16, 0, 28, 0, 16]);
    expected.extend(rest.as_flattened());
    assert_eq!((&templates.bytes, templates.record_count), (&expected, 0));

    assert_eq!(exporter.add(&flow6(), &NOW), []);
    assert_eq!(exporter.add(&flow4(), &NOW), []);
    let [four, six] = &exporter.due(&NOW, true)[..] else { panic!("one of each family") };
    let boot_ms = NOW.unix_ns / 1_000_000 - NOW.uptime_ms;
    let common = |out: &mut Vec<u8>| {
        out.extend([0, 0, 0, 2, 0, 0, 0, 3]);
        for value in [5, 700, boot_ms + 1000, boot_ms + 2000] {
            out.extend(u64::to_be_bytes(value));
        }
        out.extend([0x10, 0, 0, 53, 0, 17]);
    };
    let mut expected = vec![0, 10, 0, 74];
    expected.extend(1_600_000_000_u32.to_be_bytes());
    expected.extend([0, 0, 0, 0, 0, 0, 0, 42, 1, 0, 0, 58, 10, 0, 0, 1, 10, 0, 0, 2]);
    common(&mut expected);
    assert_eq!((&four.bytes, expected.len()), (&expected, 74));
    let mut expected = vec![0, 10, 0, 98];
    expected.extend(1_600_000_000_u32.to_be_bytes());
    expected.extend([0, 0, 0, 1, 0, 0, 0, 42, 1, 1, 0, 82]);
    expected.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    expected.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    common(&mut expected);
    assert_eq!((&six.bytes, expected.len()), (&expected, 98));
}

#[test]
fn templates_come_again() {
    let mut exporter = Exporter::new(Protocol::Ipfix);
    let mut sent = Vec::new();
    for seconds in 0..100 {
        let now = Now { uptime_ms: seconds * 1000, ..NOW };
        sent.extend(exporter.due(&now, false).iter().map(|_| seconds));
    }
    assert_eq!(sent, [0, 30, 60, 90]);
}

/// Whatever comes: all of it is sent, once, in order, in packets that fit, and the numbers of
/// records in headers are those of what came before.
#[test]
fn nothing_is_lost_or_doubled() {
    let number = |packet: &Packet, at: usize, size: usize| {
        packet.bytes[at..at + size].iter().fold(0, |all, byte| all << 8 | usize::from(*byte))
    };
    for seed in 0..200_u64 {
        let random = |index: u64| splitmix64(seed, index);
        let protocol = if seed % 2 == 0 { Protocol::V5 } else { Protocol::Ipfix };
        let mut exporter = Exporter::new(protocol);
        let (mut packets, mut octets, mut now) = (Vec::new(), [0; 2], NOW);
        for index in 0..random(0) % 300 {
            let is_ipv6 = random(index * 4 + 1) % 3 == 0;
            let base = if is_ipv6 { flow6() } else { flow4() };
            let flow = Flow { octets: random(index * 4 + 2) >> 32, ..base };
            octets[usize::from(is_ipv6)] += flow.octets;
            now.uptime_ms += random(index * 4 + 3) % 90;
            packets.extend(exporter.add(&flow, &now));
            packets.extend(exporter.due(&now, false));
        }
        packets.extend(exporter.due(&now, true));
        let (mut sequence, mut found) = (0, [0; 2]);
        for packet in &packets {
            assert!(packet.bytes.len() <= PAYLOAD_BYTES_MAX || protocol == Protocol::V5);
            assert!(packet.bytes.len() <= 1500 - 20 - 8);
            let (first, size, at, width) = match protocol {
                Protocol::V5 => {
                    assert_eq!(number(packet, 2, 2), packet.record_count as usize);
                    assert_eq!(number(packet, 16, 4), sequence);
                    (V5_HEADER_BYTES, V5_RECORD_BYTES, 20, 4)
                }
                Protocol::Ipfix => {
                    assert_eq!(number(packet, 2, 2), packet.bytes.len());
                    assert_eq!(number(packet, 18, 2), packet.bytes.len() - MESSAGE_HEADER_BYTES);
                    assert_eq!(number(packet, 8, 4), sequence);
                    match number(packet, 16, 2) {
                        256 => (20, 54, 24, 8),
                        257 => (20, 78, 48, 8),
                        _ => continue,
                    }
                }
            };
            assert_eq!(packet.bytes.len(), first + size * packet.record_count as usize);
            sequence += packet.record_count as usize;
            let is_ipv6 = usize::from(size == 78);
            for record in 0..packet.record_count as usize {
                found[is_ipv6] += number(packet, first + record * size + at, width) as u64;
            }
        }
        if protocol == Protocol::V5 {
            octets[1] = 0;
        }
        assert_eq!(found, octets, "{seed}");
    }
}

/// What does not fit into 32 bits is shared out to records that it fits into.
#[test]
fn large_flows_are_several_of_version_5() {
    let (packets, octets) = (9_000_000_001, 0x5_0000_0003);
    let large = Flow { packets, octets, ..flow4() };
    let pieces = pieces(&large);
    assert_eq!(pieces.len(), 6);
    assert!(pieces.iter().all(|piece| piece.octets <= u64::from(u32::MAX)));
    assert_eq!(pieces.iter().map(|piece| piece.octets).sum::<u64>(), octets);
    assert_eq!(pieces.iter().map(|piece| piece.packets).sum::<u64>(), packets);
    let mut exporter = Exporter::new(Protocol::Ipfix);
    assert_eq!(exporter.add(&large, &NOW), []);
    assert_eq!(exporter.due(&NOW, true)[1].record_count, 1, "64 bits suffice");
}
