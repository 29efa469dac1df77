//! Frames that the tests send, made by weir-wire.

use std::net::IpAddr;

use weir_wire::{checksum, icmp, ipv4, ipv6, tcp, udp};

use super::rig::{BOX_MAC, PEER_MAC};

pub(crate) const ETH_BYTES: usize = 14;

/// Flags of TCP.
pub(crate) const FIN: u8 = 0x01;
pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// A packet between two hosts; the frame goes from a neighbour to the box.
#[derive(Clone)]
pub(crate) struct Ends {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) side: usize,
}

impl Ends {
    pub(crate) fn new(src: &str, dst: &str) -> Self {
        let address = |text: &str| text.parse().expect("an address");
        Self { src: address(src), dst: address(dst), ttl: 64, side: 0 }
    }

    pub(crate) fn ttl(self, ttl: u8) -> Self {
        Self { ttl, ..self }
    }

    /// The same the other way round, from the neighbour on the other side.
    pub(crate) fn back(&self) -> Self {
        Self { src: self.dst, dst: self.src, ttl: self.ttl, side: 1 - self.side }
    }

    /// The frame of a message.
    pub(crate) fn message(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
        frame_of(self.side, &self.packet(protocol, message))
    }

    /// The IP packet around a message.
    pub(crate) fn packet(&self, protocol: u8, message: &[u8]) -> Vec<u8> {
        let payload_bytes = u16::try_from(message.len()).expect("it fits");
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let mut bytes = vec![0; 20 + message.len()];
                let header = ipv4::Repr {
                    src,
                    dst,
                    protocol,
                    tos: 0,
                    ident: 7,
                    dont_fragment: true,
                    ttl: self.ttl,
                    payload_bytes,
                };
                header.emit(&mut bytes[..]).expect("it fits");
                bytes[20..].copy_from_slice(message);
                bytes
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mut bytes = vec![0; 40 + message.len()];
                let header = ipv6::Repr {
                    src,
                    dst,
                    next_header: protocol,
                    traffic_class: 0,
                    flow_label: 0,
                    hop_limit: self.ttl,
                    payload_bytes,
                };
                header.emit(&mut bytes[..]).expect("it fits");
                bytes[40..].copy_from_slice(message);
                bytes
            }
            _ => panic!("two families"),
        }
    }

    pub(crate) fn udp(&self, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; 8 + payload.len()];
        let header = udp::Repr { src_port: ports.0, dst_port: ports.1 };
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header.emit(&mut message[..], payload, src, dst).map(|_| ())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header.emit(&mut message[..], payload, src, dst).map(|_| ())
            }
            _ => panic!("two families"),
        }
        .expect("it fits");
        self.message(17, &message)
    }

    pub(crate) fn tcp(&self, segment: &Segment, payload: &[u8]) -> Vec<u8> {
        let mut message = vec![0; 20 + payload.len()];
        let header = tcp::Repr {
            src_port: segment.ports.0,
            dst_port: segment.ports.1,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            flags: tcp::Flags(segment.flags),
            window: 1000,
            urgent: 0,
        };
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                header.emit(&mut message[..], payload, src, dst).map(|_| ())
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                header.emit(&mut message[..], payload, src, dst).map(|_| ())
            }
            _ => panic!("two families"),
        }
        .expect("it fits");
        self.message(6, &message)
    }

    /// A segment with these options, whose size is a multiple of four, and no data.
    pub(crate) fn tcp_with_options(&self, segment: &Segment, options: &[u8]) -> Vec<u8> {
        let mut frame = self.tcp(segment, options);
        let at = frame.len() - 20 - options.len();
        let message = &mut frame[at..];
        message[12] = u8::try_from(5 + options.len() / 4).expect("they fit") << 4;
        let sum = match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => checksum::tcp(src, dst, message),
            (IpAddr::V6(src), IpAddr::V6(dst)) => checksum::tcp(src, dst, message),
            _ => panic!("two families"),
        };
        message[16..18].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// An echo request.
    pub(crate) fn echo(&self, ident: u16) -> Vec<u8> {
        let echo = icmp::Echo { reply: false, ident, sequence: 1 };
        let mut message = vec![0; 16];
        match (self.src, self.dst) {
            (IpAddr::V4(_), IpAddr::V4(_)) => {
                echo.emit_v4(&mut message[..], &[0; 8]).expect("it fits");
                self.message(1, &message)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                echo.emit_v6(&mut message[..], &[0; 8], src, dst).expect("it fits");
                self.message(58, &message)
            }
            _ => panic!("two families"),
        }
    }
}

/// The segment in a frame; the checksums are right.
pub(crate) fn segment_of(frame: &[u8]) -> Vec<u8> {
    let bytes = &frame[ETH_BYTES..];
    if bytes[0] >> 4 == 4 {
        let packet = ipv4::Packet::new_checked(bytes).expect("a packet");
        let header = ipv4::Repr::parse(&packet).expect("the header is right");
        return checked(packet.payload(), header.src, header.dst);
    }
    let packet = ipv6::Packet::new_checked(bytes).expect("a packet");
    let header = ipv6::Repr::parse(&packet);
    checked(packet.payload(), header.src, header.dst)
}

fn checked<A: checksum::IpAddress>(message: &[u8], src: A, dst: A) -> Vec<u8> {
    let view = tcp::Packet::new_checked(message).expect("a segment");
    assert_eq!(view.checksum(), view.computed_checksum(src, dst), "{message:x?}");
    message.to_vec()
}

/// The options of a segment.
pub(crate) fn options_of(segment: &[u8]) -> &[u8] {
    &segment[20..usize::from(segment[12] >> 4) * 4]
}

/// What the tests say of a TCP segment.
#[derive(Clone, Copy, Default)]
pub(crate) struct Segment {
    pub(crate) ports: (u16, u16),
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
}

/// The frame of a packet that a neighbour sends to the box.
pub(crate) fn frame_of(side: usize, packet: &[u8]) -> Vec<u8> {
    let kind: u16 = if packet[0] >> 4 == 4 { 0x0800 } else { 0x86dd };
    [&BOX_MAC[side][..], &PEER_MAC[side], &kind.to_be_bytes(), packet].concat()
}

/// The same from the left one.
pub(crate) fn frame(packet: &[u8]) -> Vec<u8> {
    frame_of(0, packet)
}

/// A fragment of a UDP datagram over IPv4: offset in bytes, whether more follow, what it carries.
pub(crate) fn fragment(ends: &Ends, at: u16, more: bool, bytes: &[u8]) -> Vec<u8> {
    let mut frame = ends.message(17, bytes);
    let field = (at / 8) | if more { 0x2000 } else { 0 };
    frame[ETH_BYTES + 6..ETH_BYTES + 8].copy_from_slice(&field.to_be_bytes());
    fix(&mut frame);
    frame
}

/// Corrects the header checksum of an IPv4 frame without tags.
pub(crate) fn fix(frame: &mut [u8]) {
    let header_bytes = usize::from(frame[ETH_BYTES] & 15) * 4;
    let end = (ETH_BYTES + header_bytes.max(20)).min(frame.len());
    let header = &mut frame[ETH_BYTES..end];
    header[10..12].fill(0);
    let checksum = checksum::ipv4_header(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// The same frame with VLAN tags, the outer one first: kind and control information.
pub(crate) fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    for (kind, control) in tags {
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&control.to_be_bytes());
    }
    out.extend_from_slice(&frame[12..]);
    out
}
