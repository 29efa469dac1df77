use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

const SRC: Ipv4Addr = Ipv4Addr::new(198, 18, 10, 1);
const DST: Ipv4Addr = Ipv4Addr::new(198, 19, 10, 1);

/// Ports 2000, eleven bytes, payload "abc", then one byte of padding.
///
/// Checked by hand: c612 + 0a01 + c613 + 0a01 + 0011 + 000b + 07d0 + 07d0 + 000b + 6162 + 6300
/// is 7452 with its carries taken back; the checksum is its complement.
const DATAGRAM: [u8; 12] = [0x07, 0xd0, 0x07, 0xd0, 0x00, 0x0b, 0x8b, 0xad, b'a', b'b', b'c', 0x00];

const REPR: Repr = Repr { src_port: 2000, dst_port: 2000 };

#[test]
fn deconstruct() {
    let packet = Packet::new_checked(DATAGRAM).unwrap();
    assert_eq!(packet.size_bytes(), 11);
    assert_eq!(packet.payload(), b"abc");
    assert_eq!(packet.checksum(), 0x8bad);
    assert_eq!(Repr::parse(&packet, SRC, DST), Ok(REPR));
}

#[test]
fn construct() {
    let mut bytes = [0xa5; 12];
    bytes[11] = 0;
    assert_eq!(REPR.emit(bytes, b"abc", SRC, DST).unwrap().into_inner(), DATAGRAM);
}

#[test]
fn changed_fields_and_checksum() {
    let mut packet = Packet::new_checked(DATAGRAM).unwrap();
    packet.buffer[field::SRC_PORT].copy_from_slice(&1_u16.to_be_bytes());
    packet.buffer[field::DST_PORT].copy_from_slice(&65_535_u16.to_be_bytes());
    assert!(Repr::parse(&packet, SRC, DST).is_err());
    packet.fill_checksum(SRC, DST);
    let repr = Repr { src_port: 1, dst_port: 65_535 };
    assert_eq!(Repr::parse(&packet, SRC, DST), Ok(repr));
}

#[test]
fn impossible_lengths() {
    let view = |bytes: &[u8]| Packet::new_checked(bytes.to_vec()).unwrap_err().to_string();
    assert_eq!(view(&DATAGRAM[..7]), "the UDP header needs 8 bytes, but the buffer holds 7");
    assert_eq!(view(&DATAGRAM[..10]), "the UDP datagram needs 11 bytes, but the buffer holds 10");
    let mut bytes = DATAGRAM;
    bytes[5] = 7;
    assert_eq!(view(&bytes), "UDP length 7 is less than the header's 8 bytes");
}

#[test]
fn wrong_and_absent_checksums() {
    let mut bytes = DATAGRAM;
    bytes[8] = b'A';
    let error = Repr::parse(&Packet::new_checked(bytes).unwrap(), SRC, DST).unwrap_err();
    let text = "UDP checksum is 0x8bad, but the datagram sums to 0xabad";
    assert_eq!(error.to_string(), text);
    bytes[6..8].fill(0);
    assert_eq!(Repr::parse(&Packet::new_checked(bytes).unwrap(), SRC, DST), Ok(REPR));
}

#[test]
fn over_ipv6_the_checksum_is_required() {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
    let mut bytes = REPR.emit([0; 12], b"abc", src, dst).unwrap().into_inner();
    assert_eq!(Repr::parse(&Packet::new_checked(bytes).unwrap(), src, dst), Ok(REPR));
    bytes[6..8].fill(0);
    let error = Repr::parse(&Packet::new_checked(bytes).unwrap(), src, dst).unwrap_err();
    assert_eq!(error.to_string(), "the UDP datagram has no checksum, which IPv6 requires");
}

#[test]
fn emitting_into_too_little_room_is_refused() {
    let error = REPR.emit([0; 10], b"abc", SRC, DST).unwrap_err();
    assert_eq!(error.to_string(), "the UDP datagram needs 11 bytes, but the buffer holds 10");
    let payload = vec![0; 65_528];
    assert!(REPR.emit(vec![0; 70_000], &payload, SRC, DST).is_err());
    let packet = REPR.emit(vec![0; 70_000], &payload[1..], SRC, DST).unwrap();
    assert_eq!(packet.size_bytes(), 65_535);
}

proptest! {
    #[test]
    fn emitted_is_parsed_back(
        src: u32, dst: u32, src_port: u16, dst_port: u16,
        payload in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        let (src, dst) = (Ipv4Addr::from(src), Ipv4Addr::from(dst));
        let repr = Repr { src_port, dst_port };
        let packet = repr.emit([0xa5; 120], &payload, src, dst).unwrap();
        prop_assert_eq!(Repr::parse(&packet, src, dst), Ok(repr));
        prop_assert_eq!(packet.payload(), &payload);
        prop_assert!(packet.checksum() != 0);
    }

    #[test]
    fn a_flipped_bit_is_seen(
        payload in prop::collection::vec(any::<u8>(), 1..100),
        at: prop::sample::Index,
        bit in 0_u8..8
    ) {
        let mut bytes = REPR.emit([0; 120], &payload, SRC, DST).unwrap().into_inner();
        bytes[HEADER_BYTES + at.index(payload.len())] ^= 1_u8 << bit;
        prop_assert!(Repr::parse(&Packet::new_checked(bytes).unwrap(), SRC, DST).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(packet) = Packet::new_checked(&bytes) {
            let _ = (packet.payload(), packet.computed_checksum(SRC, DST));
            let _ = Repr::parse(&packet, SRC, DST);
        }
    }
}
