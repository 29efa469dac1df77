//! IP protocols: the numbers of those that weir knows more of than their number.

/// Protocol number of ICMP.
pub const ICMP: u8 = 1;
/// Protocol number of IPv4 in IP.
pub const IPV4: u8 = 4;
/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Protocol number of IPv6 in IP.
pub const IPV6: u8 = 41;
/// Protocol number of generic routing encapsulation.
pub const GRE: u8 = 47;
/// Protocol number of ICMPv6.
pub const ICMP6: u8 = 58;
/// Protocol number of SCTP.
pub const SCTP: u8 = 132;

/// The protocol of a packet in the other address family (RFC 7915): ICMP and ICMPv6
/// change places, all others stay.
#[must_use]
pub const fn other_family(protocol: u8) -> u8 {
    match protocol {
        ICMP => ICMP6,
        ICMP6 => ICMP,
        other => other,
    }
}

/// The word for one of them in descriptions of packets.
#[must_use]
pub const fn word(protocol: u8) -> Option<&'static str> {
    match protocol {
        ICMP => Some("icmp"),
        TCP => Some("tcp"),
        UDP => Some("udp"),
        ICMP6 => Some("icmp6"),
        SCTP => Some("sctp"),
        _ => None,
    }
}
