//! The Internet checksum: one's complement sums of 16-bit words (RFC 1071, RFC 768, RFC 791).
//!
//! A sum is built from partial sums ([`sum`]), folded to 16 bits ([`fold`]) and complemented by
//! whoever stores it. Only the last part of a message may have an odd number of bytes.
//!
//! UDP, TCP and ICMPv6 also cover a *pseudo header* with the addresses, the protocol and the length
//! (RFC 9293 §3.1 over IPv4, RFC 8200 §8.1 over IPv6). [`IpAddress`] is either family's address,
//! and source and destination have the same type, so that families cannot be mixed.

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::protocol;

/// An address as pseudo headers need it: IPv4 or IPv6, and no other type.
pub trait IpAddress: Copy + private::Sealed {
    /// Whether UDP must have a checksum: over IPv6 (RFC 8200 §8.1), not over IPv4 (RFC 768).
    const UDP_CHECKSUM_REQUIRED: bool;

    /// Partial sum of the address.
    fn sum(self) -> u32;
}

impl IpAddress for Ipv4Addr {
    const UDP_CHECKSUM_REQUIRED: bool = false;

    fn sum(self) -> u32 {
        sum(&self.octets())
    }
}

impl IpAddress for Ipv6Addr {
    const UDP_CHECKSUM_REQUIRED: bool = true;

    fn sum(self) -> u32 {
        sum(&self.octets())
    }
}

mod private {
    /// Keeps [`super::IpAddress`] to the two families.
    pub trait Sealed {}
    impl Sealed for core::net::Ipv4Addr {}
    impl Sealed for core::net::Ipv6Addr {}
}

/// One's complement sum of the big-endian 16-bit words of `data`; an odd last byte counts as the
/// high half of a word whose low half is zero.
///
/// The result is at most `0xffff`, so that 65,537 partial sums can be added without overflow.
#[must_use]
pub fn sum(data: &[u8]) -> u32 {
    let (words, last) = data.as_chunks::<2>();
    let mut total: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    if let [byte] = last {
        total += u64::from(*byte) << 8;
    }
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the loop above left 16 bits")]
    let total = total as u32;
    total
}

/// Adds the carries of a partial sum back into its low 16 bits (RFC 1071 §2).
///
/// The result is *not* complemented: the checksum to store is `!fold(sum)`, and a message that
/// contains its right checksum folds to `0xffff`.
#[must_use]
pub const fn fold(sum: u32) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    let twice = (once & 0xffff) + (once >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "two folds of 32 bits leave 16")]
    let folded = twice as u16;
    folded
}

/// The checksum of an IPv4 header, options included, whatever its checksum field (bytes 10 and
/// 11) holds now.
#[must_use]
pub fn ipv4_header(header: &[u8]) -> u16 {
    !fold(sum_without(header, 10))
}

/// The checksum of a message with a pseudo header, whatever the 16 bits at the even offset
/// `checksum_at` hold now. A result of zero stays zero.
#[must_use]
pub fn with_pseudo_header<A: IpAddress>(
    src: A,
    dst: A,
    protocol: u8,
    message: &[u8],
    checksum_at: usize,
) -> u16 {
    // Over IPv4 the length has 16 bits, over IPv6 32 of which the upper ones are zero here.
    let size_bytes = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let pseudo_header = src.sum() + dst.sum() + u32::from(protocol) + u32::from(size_bytes);
    !fold(pseudo_header + sum_without(message, checksum_at))
}

/// The checksum of a UDP datagram, whatever its checksum field (bytes 6 and 7) holds now.
/// `datagram` is header and payload, at most 65,535 bytes.
///
/// A sum of zero is returned as `0xffff`, because zero on the wire means "no checksum".
#[must_use]
pub fn udp<A: IpAddress>(src: A, dst: A, datagram: &[u8]) -> u16 {
    match with_pseudo_header(src, dst, protocol::UDP, datagram, 6) {
        0 => 0xffff,
        checksum => checksum,
    }
}

/// The checksum of a TCP segment (RFC 9293), whatever its checksum field (bytes 16 and 17) holds
/// now. `segment` is header and payload, at most 65,535 bytes.
#[must_use]
pub fn tcp<A: IpAddress>(src: A, dst: A, segment: &[u8]) -> u16 {
    with_pseudo_header(src, dst, protocol::TCP, segment, 16)
}

/// The checksum of an ICMPv4 message (RFC 792), which has no pseudo header, whatever its checksum
/// field (bytes 2 and 3) holds now.
#[must_use]
pub fn icmp_v4(message: &[u8]) -> u16 {
    !fold(sum_without(message, 2))
}

/// The checksum of an ICMPv6 message (RFC 4443), whatever its checksum field (bytes 2 and 3) holds
/// now. `message` is header and payload, at most 65,535 bytes.
#[must_use]
pub fn icmp_v6(src: Ipv6Addr, dst: Ipv6Addr, message: &[u8]) -> u16 {
    with_pseudo_header(src, dst, protocol::ICMP6, message, 2)
}

/// Sums `data` as if the 16-bit word at the even offset `skip` were zero.
fn sum_without(data: &[u8], skip: usize) -> u32 {
    let before = &data[..skip.min(data.len())];
    sum(before) + sum(data.get(skip + 2..).unwrap_or(&[]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 said literally: add words one at a time, take each carry back at once.
    fn naive(data: &[u8]) -> u16 {
        let mut total: u16 = 0;
        for index in (0..data.len()).step_by(2) {
            let high = u16::from(data[index]) * 256;
            let low = data.get(index + 1).map_or(0, |byte| u16::from(*byte));
            let (sum, carry) = total.overflowing_add(high + low);
            total = if carry { sum + 1 } else { sum };
        }
        total
    }

    #[test]
    fn rfc_1071_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&data)), 0xddf2);
    }

    #[test]
    fn known_ipv4_header() {
        // 452e + 4000 + 4011 + c612 + 0a01 + c613 + 0a01, carries taken back, is 6568.
        let header = [
            0x45, 0x00, 0x00, 0x2e, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xde, 0xad, 198, 18, 10, 1,
            198, 19, 10, 1,
        ];
        assert_eq!(ipv4_header(&header), 0x9a97);
    }

    #[test]
    fn udp_zero_is_sent_as_ones() {
        // Zero addresses, protocol 0011, length 0008, port ffde, length 0008: together ffff.
        let zero = Ipv4Addr::UNSPECIFIED;
        let datagram = [0xff, 0xde, 0, 0, 0, 8, 0x12, 0x34];
        assert_eq!(udp(zero, zero, &datagram), 0xffff);
    }

    #[test]
    fn short_and_long_slices_do_not_panic() {
        let zero = Ipv4Addr::UNSPECIFIED;
        for size in [0, 1, 5, 6, 7, 8, 9, 11, 12, 70_000, 300_000] {
            let data = vec![0xff; size];
            let _ = (sum(&data), ipv4_header(&data), udp(zero, zero, &data));
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_naive_sum(data in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(fold(sum(&data)), naive(&data));
            prop_assert!(sum(&data) <= 0xffff);
        }

        #[test]
        fn folding_takes_every_carry_back(total: u32) {
            prop_assert_eq!(fold(total), naive(&total.to_be_bytes()));
        }

        #[test]
        fn udp_agrees_with_a_written_out_pseudo_header(
            src: u32, dst: u32, mut datagram in prop::collection::vec(any::<u8>(), 8..200)
        ) {
            let got = udp(Ipv4Addr::from(src), Ipv4Addr::from(dst), &datagram);
            datagram[6..8].fill(0);
            let mut whole = Vec::new();
            whole.extend(src.to_be_bytes());
            whole.extend(dst.to_be_bytes());
            whole.extend([0, 17]);
            whole.extend(u16::try_from(datagram.len()).unwrap().to_be_bytes());
            whole.extend(&datagram);
            let expected = match !naive(&whole) { 0 => 0xffff, other => other };
            prop_assert_eq!(got, expected);
        }

        #[test]
        fn pseudo_headers_agree_with_written_out_ones(
            src: u128, dst: u128, v4: bool,
            mut message in prop::collection::vec(any::<u8>(), 20..200)
        ) {
            let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            let short = |addr: Ipv6Addr| {
                let [a, b, c, d, ..] = addr.octets();
                Ipv4Addr::new(a, b, c, d)
            };
            let size_bytes = u32::try_from(message.len()).unwrap().to_be_bytes();
            for (protocol, at) in [(protocol::TCP, 16), (protocol::ICMP6, 2)] {
                let got = match (protocol, v4) {
                    (protocol::TCP, true) => tcp(short(src), short(dst), &message),
                    (protocol::TCP, false) => tcp(src, dst, &message),
                    _ => icmp_v6(src, dst, &message),
                };
                let mut whole = Vec::new();
                if protocol == protocol::TCP && v4 {
                    whole.extend([short(src).octets(), short(dst).octets()].concat());
                    whole.extend([0, protocol]);
                    whole.extend(&size_bytes[2..]);
                } else {
                    whole.extend([src.octets(), dst.octets()].concat());
                    whole.extend(size_bytes);
                    whole.extend([0, 0, 0, protocol]);
                }
                message[at..at + 2].fill(0);
                whole.extend(&message);
                prop_assert_eq!(got, !naive(&whole));
            }
            prop_assert_eq!(icmp_v4(&message), !naive(&message));
        }

        #[test]
        fn a_stored_checksum_makes_the_sum_ones(
            mut header in prop::collection::vec(any::<u8>(), 20..=20)
        ) {
            let checksum = ipv4_header(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            // All-zero data has no non-zero sum to complement.
            if header.iter().any(|byte| *byte != 0) {
                prop_assert_eq!(naive(&header), 0xffff);
            }
        }
    }
}
