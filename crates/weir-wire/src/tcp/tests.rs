use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;

const SRC: Ipv4Addr = Ipv4Addr::new(198, 18, 10, 1);
const DST: Ipv4Addr = Ipv4Addr::new(198, 19, 10, 1);

const REPR: Repr = Repr {
    src_port: 2000,
    dst_port: 80,
    sequence: 1,
    acknowledgement: 2,
    flags: Flags(0x12),
    window: 0xffff,
    urgent: 0,
};

/// With the checksum field at zero.
const SEGMENT: [u8; 22] = [
    0x07, 0xd0, 0x00, 0x50, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x12, 0xff, 0xff, 0x00, 0x00, 0, 0, b'a',
    b'b',
];

#[test]
fn golden() {
    let packet = REPR.emit([0xa5; 22], b"ab", SRC, DST).unwrap();
    assert_eq!(packet.payload(), b"ab");
    assert_eq!(Repr::parse(&packet, SRC, DST), Ok(REPR));
    let checksum = packet.checksum();
    let mut bytes = packet.into_inner();
    bytes[16..18].fill(0);
    assert_eq!(bytes, SEGMENT);
    let words = [
        0xc612_u32, 0x0a01, 0xc613, 0x0a01, 0x0006, 0x0016, 0x07d0, 0x0050, 1, 2, 0x5012, 0xffff,
        0x6162,
    ];
    assert_eq!(checksum, !checksum::fold(words.iter().sum()));
}

#[test]
fn flags_are_tcpdumps() {
    for (text, flags) in [
        ("S", Flags::SYN),
        ("S.", Flags::SYN | Flags::ACK),
        ("FP.", Flags::FIN | Flags::PSH | Flags::ACK),
        ("R", Flags::RST),
        ("FSRP.UEW", Flags(0xff)),
        ("SEW", Flags::SYN | Flags::ECE | Flags::CWR),
        (".U", Flags::ACK | Flags::URG),
        ("none", Flags::NONE),
    ] {
        assert_eq!(flags.to_string(), text);
        assert_eq!(text.parse(), Ok(flags));
    }
    assert_eq!(".S".parse(), Ok(Flags::SYN | Flags::ACK));
    for text in ["", "s", "SS", "SYN", "S,A", "none."] {
        let error = text.parse::<Flags>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{text}` are not TCP flags")), "{error}");
    }
}

#[test]
fn what_the_value_cannot_hold_is_refused() {
    let view = |bytes: &[u8]| Packet::new_checked(bytes.to_vec()).unwrap_err().to_string();
    assert_eq!(view(&SEGMENT[..19]), "the TCP header needs 20 bytes, but the buffer holds 19");
    let changed = |value: u8, size: usize| {
        let mut bytes = [SEGMENT, SEGMENT].concat();
        bytes[12] = value;
        bytes.truncate(size);
        bytes
    };
    assert_eq!(view(&changed(0x40, 22)), "TCP header length is 4 words, the smallest is 5");
    assert_eq!(view(&changed(0x60, 22)), "the TCP header needs 24 bytes, but the buffer holds 22");
    let parse = |value: u8| {
        let mut bytes = changed(value, 40);
        let checksum = checksum::tcp(SRC, DST, &bytes);
        put_u16(&mut bytes, field::CHECKSUM, checksum);
        Repr::parse(&Packet::new_checked(bytes).unwrap(), SRC, DST).unwrap_err()
    };
    assert_eq!(parse(0x60), ParseError::TcpOptions(4));
    assert_eq!(parse(0x51), ParseError::TcpReservedBits(1));
    let packet = Packet::new_checked(SEGMENT).unwrap();
    let error = Repr::parse(&packet, SRC, DST).unwrap_err();
    assert!(error.to_string().starts_with("TCP checksum is 0x0000, but"), "{error}");
    for size in [21, 23] {
        assert!(REPR.emit(vec![0; size], b"ab", SRC, DST).is_err());
    }
}

proptest! {
    #[test]
    fn emitted_is_parsed_back(
        src: u128, dst: u128, ports: (u16, u16), numbers: (u32, u32), flags: u8, window: u16,
        urgent: u16, payload in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        let repr = Repr {
            src_port: ports.0,
            dst_port: ports.1,
            sequence: numbers.0,
            acknowledgement: numbers.1,
            flags: Flags(flags),
            window,
            urgent,
        };
        let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
        let room = vec![0xa5; HEADER_BYTES + payload.len()];
        let packet = repr.emit(room.clone(), &payload, src, dst).unwrap();
        prop_assert_eq!(Repr::parse(&packet, src, dst), Ok(repr));
        prop_assert_eq!(packet.payload(), &payload);
        let packet = repr.emit(room, &payload, SRC, DST).unwrap();
        prop_assert_eq!(Repr::parse(&packet, SRC, DST), Ok(repr));
        prop_assert_eq!(Flags(flags).to_string().parse(), Ok(Flags(flags)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(packet) = Packet::new_checked(&bytes) {
            let _ = (packet.payload(), Repr::parse(&packet, SRC, DST));
        }
    }

    #[test]
    fn arbitrary_flags_never_panic(text in "\\PC{0,10}") {
        let _ = text.parse::<Flags>();
    }
}
