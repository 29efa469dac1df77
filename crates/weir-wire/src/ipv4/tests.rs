use super::*;
use proptest::prelude::*;

/// A packet of 24 bytes with four of payload, then two bytes of Ethernet padding.
const PACKET: [u8; 26] = [
    0x45, 0x10, 0x00, 0x18, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0x88, 0x69, 198, 18, 10, 1, 198,
    19, 10, 1, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x00,
];

const REPR: Repr = Repr {
    src: Ipv4Addr::new(198, 18, 10, 1),
    dst: Ipv4Addr::new(198, 19, 10, 1),
    protocol: crate::protocol::UDP,
    tos: 0x10,
    ident: 0x1234,
    dont_fragment: true,
    ttl: 64,
    payload_bytes: 4,
};

/// `PACKET` with one byte changed and, if asked, the checksum made right again.
fn changed(at: usize, value: u8) -> [u8; 26] {
    let mut bytes = PACKET;
    bytes[at] = value;
    bytes[10..12].fill(0);
    let checksum = checksum::ipv4_header(&bytes[..20]);
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

#[test]
fn deconstruct() {
    let packet = Packet::new_checked(PACKET).unwrap();
    assert_eq!(packet.header_bytes(), 20);
    assert_eq!(packet.total_bytes(), 24);
    assert_eq!(packet.checksum(), packet.computed_checksum());
    assert_eq!(packet.payload(), [0xde, 0xad, 0xbe, 0xef]);
    assert!(packet.dont_fragment() && !packet.more_fragments());
    assert_eq!(packet.fragment_offset_bytes(), 0);
    assert_eq!(Repr::parse(&packet), Ok(REPR));
}

#[test]
fn construct() {
    let mut bytes = [0xa5; 26];
    bytes[20..].copy_from_slice(&PACKET[20..]);
    assert_eq!(REPR.emit(bytes).unwrap().into_inner(), PACKET);
}

#[test]
fn changed_fields_and_checksum() {
    let mut packet = Packet::new_checked(PACKET).unwrap();
    packet.buffer[field::TTL] = 63;
    packet.buffer[field::SRC].copy_from_slice(&[10, 0, 0, 1]);
    packet.buffer[field::DST].copy_from_slice(&[10, 0, 0, 2]);
    assert!(!packet.checksum_is_valid());
    packet.fill_checksum();
    let repr = Repr { ttl: 63, src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), ..REPR };
    assert_eq!(Repr::parse(&packet), Ok(repr));
}

#[test]
fn impossible_lengths_and_versions() {
    let view = |bytes: &[u8]| Packet::new_checked(bytes.to_vec()).unwrap_err().to_string();
    assert_eq!(view(&PACKET[..19]), "the IPv4 header needs 20 bytes, but the buffer holds 19");
    assert_eq!(view(&PACKET[..23]), "the IPv4 packet needs 24 bytes, but the buffer holds 23");
    assert_eq!(view(&changed(0, 0x65)), "IP version is 6, not 4");
    assert_eq!(view(&changed(0, 0x44)), "IPv4 header length is 4 words, the smallest is 5");
    assert_eq!(view(&changed(3, 19)), "IPv4 total length 19 is less than its header's 20 bytes");
    assert_eq!(view(&changed(0, 0x47)), "IPv4 total length 24 is less than its header's 28 bytes");
}

#[test]
fn what_the_value_cannot_hold_is_refused() {
    let parse = |bytes: &[u8]| Repr::parse(&Packet::new_checked(bytes).unwrap()).unwrap_err();
    assert_eq!(parse(&changed(0, 0x46)), ParseError::Ipv4Options(4));
    assert_eq!(parse(&changed(6, 0x20)), ParseError::Ipv4Fragment);
    assert_eq!(parse(&changed(7, 0x01)), ParseError::Ipv4Fragment);
    assert_eq!(parse(&changed(6, 0xc0)), ParseError::Ipv4ReservedBit);
    let mut wrong = PACKET;
    wrong[8] = 63;
    let expected = "IPv4 header checksum is 0x8869, but the header sums to 0x8969";
    assert_eq!(parse(&wrong).to_string(), expected);
}

#[test]
fn a_checksum_of_ones_stands_for_zero() {
    // Find an identification for which the checksum is zero, then send it the other way.
    let bytes = (0..=u16::MAX)
        .map(|ident| Repr { ident, ..REPR }.emit(PACKET).unwrap())
        .find(|packet| packet.checksum() == 0)
        .map(Packet::into_inner);
    let mut bytes = bytes.unwrap();
    bytes[10..12].fill(0xff);
    assert!(Repr::parse(&Packet::new_checked(bytes).unwrap()).is_ok());
}

#[test]
fn emitting_into_too_little_room_is_refused() {
    let error = REPR.emit([0; 23]).unwrap_err();
    assert_eq!(error.to_string(), "the IPv4 packet needs 24 bytes, but the buffer holds 23");
    let largest = Repr { payload_bytes: Repr::PAYLOAD_BYTES_MAX, ..REPR };
    assert_eq!(largest.emit(vec![0; 65_535]).unwrap().total_bytes(), 65_535);
    let larger = Repr { payload_bytes: Repr::PAYLOAD_BYTES_MAX + 1, ..REPR };
    assert!(larger.emit(vec![0; 70_000]).is_err());
}

proptest! {
    #[test]
    fn emitted_is_parsed_back(
        src: u32, dst: u32, protocol: u8, tos: u8, ident: u16, dont_fragment: bool, ttl: u8,
        payload_bytes in 0_u16..200
    ) {
        let (src, dst) = (src.into(), dst.into());
        let repr = Repr { src, dst, protocol, tos, ident, dont_fragment, ttl, payload_bytes };
        let packet = repr.emit([0xa5; 220]).unwrap();
        prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        prop_assert_eq!(packet.payload().len(), usize::from(payload_bytes));
        prop_assert!(packet.payload().iter().all(|byte| *byte == 0xa5));
        let bytes = packet.into_inner();
        prop_assert!(Packet::new_checked(bytes).is_ok());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        view_everything(&bytes);
    }

    #[test]
    fn nearly_right_bytes_never_panic(at in 0_usize..26, value: u8, size in 0_usize..=26) {
        let mut bytes = PACKET;
        bytes[at] = value;
        view_everything(&bytes[..size]);
    }
}

fn view_everything(bytes: &[u8]) {
    if let Ok(packet) = Packet::new_checked(bytes) {
        let _ = (packet.payload(), packet.checksum_is_valid(), packet.computed_checksum());
        let _ = (packet.src(), packet.dst(), packet.fragment_offset_bytes());
        if let Ok(repr) = Repr::parse(&packet) {
            let mut copy = bytes.to_vec();
            assert_eq!(Repr::parse(&repr.emit(&mut copy).unwrap()), Ok(repr));
        }
    }
}
