//! Puts a frame into a tunnel: the plain construction of what [`crate::rss::inner`] looks into.
//!
//! VLAN tags (IEEE 802.1Q), PPPoE sessions (RFC 2516), MPLS labels (RFC 3032), GRE (RFC 2784, RFC
//! 2890), IP in IP (RFC 2003, RFC 2473, RFC 4213), VXLAN (RFC 7348) and GENEVE (RFC 8926). Outer
//! IPv4 headers forbid fragments; UDP of overlays has no checksum, as RFC 7348 §4.1 has it and RFC
//! 6935 allows over IPv6. Nothing is read of a frame but what it is, and nothing is taken out.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use crate::bytes::{put_u16, put_u32, u16_at};
use crate::ethernet::HEADER_BYTES;
use crate::{ipv4, ipv6, protocol, udp};

/// EtherTypes.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const MPLS: u16 = 0x8847;
const PPPOE_SESSION: u16 = 0x8864;
/// Ethernet within another packet.
const BRIDGED: u16 = 0x6558;

/// Where the type of an Ethernet frame stands.
const TYPE_AT: usize = 12;

/// Time to live of outer headers, hops.
const TTL: u8 = 64;

/// What a frame is put into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encap {
    /// A VLAN tag in front of what is there: 802.1ad's if that is a tag already.
    Vlan {
        /// Of the VLAN, 1 to 4094.
        id: u16,
    },
    /// A PPPoE session.
    Pppoe {
        /// Its number.
        session: u16,
    },
    /// An MPLS label in front of those that are there.
    Mpls {
        /// The label; its low 20 bits count.
        label: u32,
    },
    /// GRE between two hosts: of the IP packet, or of the whole frame if it has none.
    Gre {
        /// The hosts.
        ends: (IpAddr, IpAddr),
        /// RFC 2890's key.
        key: Option<u32>,
    },
    /// The IP packet in another one: 4 in 4, 6 in 4 (6in4), 4 in 6, 6 in 6.
    Ip {
        /// The hosts.
        ends: (IpAddr, IpAddr),
    },
    /// VXLAN between two hosts.
    Vxlan {
        /// The hosts.
        ends: (IpAddr, IpAddr),
        /// Source port: the same for all flows makes one of them.
        src_port: u16,
        /// Network identifier; its low 24 bits count.
        id: u32,
    },
    /// GENEVE between two hosts.
    Geneve {
        /// The hosts.
        ends: (IpAddr, IpAddr),
        /// Source port, as of VXLAN.
        src_port: u16,
        /// Network identifier; its low 24 bits count.
        id: u32,
        /// Words of options, each of 4 bytes; the low 6 bits count.
        option_words: u8,
    },
}

/// The tunnel that all packets of a stream travel in: one, from its first source to its first
/// destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// GRE without options.
    Gre,
    /// VXLAN number 1, always from the same UDP port.
    Vxlan,
    /// PPPoE session number 1, which has no addresses.
    Pppoe,
}

/// Source port of a stream's VXLAN: as RFC 7348 §5 has it, a dynamic one.
const SRC_PORT: u16 = 49_152;

impl Tunnel {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Gre, Self::Vxlan, Self::Pppoe];

    /// What it is between two hosts.
    #[must_use]
    pub const fn between(self, src: IpAddr, dst: IpAddr) -> Encap {
        let ends = (src, dst);
        match self {
            Self::Gre => Encap::Gre { ends, key: None },
            Self::Vxlan => Encap::Vxlan { ends, src_port: SRC_PORT, id: 1 },
            Self::Pppoe => Encap::Pppoe { session: 1 },
        }
    }

    /// Bytes that it adds to a frame with an IP packet.
    #[must_use]
    pub const fn overhead_bytes(self, over_ipv6: bool) -> u16 {
        let ip_bytes: u16 = if over_ipv6 { 40 } else { 20 };
        match self {
            Self::Gre => ip_bytes + 4,
            Self::Vxlan => ip_bytes + 8 + 8 + 14,
            Self::Pppoe => 8,
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gre => "gre",
            Self::Vxlan => "vxlan",
            Self::Pppoe => "pppoe",
        })
    }
}

/// A text that names no tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tunnels are `gre`, `vxlan` and `pppoe`")]
pub struct TunnelError;

impl FromStr for Tunnel {
    type Err = TunnelError;

    fn from_str(text: &str) -> Result<Self, TunnelError> {
        match text {
            "gre" => Ok(Self::Gre),
            "vxlan" => Ok(Self::Vxlan),
            "pppoe" => Ok(Self::Pppoe),
            _ => Err(TunnelError),
        }
    }
}

/// Why a frame cannot be put into a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncapError {
    /// This tunnel carries IP packets only.
    #[error("the tunnel carries IP packets: the frame is none, or has tags or labels before one")]
    NotIp,
    /// It has no Ethernet header, or would have more than 65,535 bytes.
    #[error("frames of {0} bytes cannot be put into a tunnel")]
    Size(usize),
    /// The ends of a tunnel have different address families.
    #[error("a tunnel's ends have addresses of the same family, not {0} and {1}")]
    Families(IpAddr, IpAddr),
}

impl Encap {
    /// The frame in this tunnel, under the same MAC addresses.
    ///
    /// # Errors
    ///
    /// [`EncapError`] if the tunnel cannot carry it.
    pub fn wrap(&self, frame: &[u8]) -> Result<Vec<u8>, EncapError> {
        if frame.len() < HEADER_BYTES {
            return Err(EncapError::Size(frame.len()));
        }
        let (kind, packet) = (u16_at(frame, TYPE_AT), &frame[HEADER_BYTES..]);
        let is_ip = kind == IPV4 || kind == IPV6;
        let (new_kind, content) = match *self {
            Self::Vlan { id } => {
                let is_tag = kind == VLAN || kind == SERVICE_VLAN;
                let tag = join(&[&id.to_be_bytes(), &kind.to_be_bytes(), packet]);
                (if is_tag { SERVICE_VLAN } else { VLAN }, tag)
            }
            Self::Pppoe { session } => (PPPOE_SESSION, pppoe(session, kind, packet)?),
            Self::Mpls { label } if is_ip || kind == MPLS => {
                // The lowest one says that it is.
                let bottom = u32::from(is_ip) << 8;
                let entry = label << 12 | bottom | u32::from(TTL);
                (MPLS, join(&[&entry.to_be_bytes(), packet]))
            }
            Self::Ip { ends } if is_ip => {
                let number = if kind == IPV4 { protocol::IPV4 } else { protocol::IPV6 };
                return ip(frame, ends, number, packet);
            }
            Self::Mpls { .. } | Self::Ip { .. } => return Err(EncapError::NotIp),
            Self::Gre { ends, key } => {
                let (kind, content) = if is_ip { (kind, packet) } else { (BRIDGED, frame) };
                let flags: u16 = if key.is_some() { 0x2000 } else { 0 };
                let key = key.map(u32::to_be_bytes);
                let key = key.as_ref().map_or(&[][..], |key| key.as_slice());
                let header = [flags.to_be_bytes(), kind.to_be_bytes()].concat();
                return ip(frame, ends, protocol::GRE, &join(&[&header, key, content]));
            }
            Self::Vxlan { ends, src_port, id } => {
                let header = [0x0800_0000_u32.to_be_bytes(), (id << 8).to_be_bytes()].concat();
                let content = join(&[&header, frame]);
                return overlay(frame, ends, (src_port, 4789), &content);
            }
            Self::Geneve { ends, src_port, id, option_words } => {
                let words = option_words & 0x3f;
                let first = u32::from(words) << 24 | u32::from(BRIDGED);
                let header = [first.to_be_bytes(), (id << 8).to_be_bytes()].concat();
                // Options of no class that is known, without data: 4 bytes each.
                let options = vec![0; usize::from(words) * 4];
                let content = join(&[&header, &options, frame]);
                return overlay(frame, ends, (src_port, 6081), &content);
            }
        };
        Ok(link(frame, new_kind, &content))
    }
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// A frame with the MAC addresses of another one.
fn link(frame: &[u8], kind: u16, content: &[u8]) -> Vec<u8> {
    join(&[&frame[..TYPE_AT], &kind.to_be_bytes(), content])
}

fn pppoe(session: u16, kind: u16, packet: &[u8]) -> Result<Vec<u8>, EncapError> {
    let ppp: u16 = match kind {
        IPV4 => 0x0021,
        IPV6 => 0x0057,
        MPLS => 0x0281,
        _ => return Err(EncapError::NotIp),
    };
    let size = packet.len() + 2;
    let length = u16::try_from(size).map_err(|_| EncapError::Size(size))?;
    // Version 1, type 1, code 0: session data.
    let words = [0x1100, session, length, ppp].map(u16::to_be_bytes);
    Ok(join(&[words.as_flattened(), packet]))
}

/// A frame with the MAC addresses of another one, and a message between two hosts.
fn ip(
    frame: &[u8],
    ends: (IpAddr, IpAddr),
    number: u8,
    message: &[u8],
) -> Result<Vec<u8>, EncapError> {
    let size = || EncapError::Size(message.len());
    let payload_bytes = u16::try_from(message.len()).map_err(|_| size())?;
    let (kind, header) = match ends {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut packet = vec![0; ipv4::HEADER_BYTES + message.len()];
            let repr = ipv4::Repr {
                src,
                dst,
                protocol: number,
                tos: 0,
                ident: 0,
                dont_fragment: true,
                ttl: TTL,
                payload_bytes,
            };
            repr.emit(&mut packet[..]).map_err(|_| size())?;
            packet.truncate(ipv4::HEADER_BYTES);
            (IPV4, packet)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut packet = vec![0; ipv6::HEADER_BYTES + message.len()];
            let repr = ipv6::Repr {
                src,
                dst,
                next_header: number,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: TTL,
                payload_bytes,
            };
            repr.emit(&mut packet[..]).map_err(|_| size())?;
            packet.truncate(ipv6::HEADER_BYTES);
            (IPV6, packet)
        }
        (src, dst) => return Err(EncapError::Families(src, dst)),
    };
    Ok(link(frame, kind, &join(&[&header, message])))
}

/// The same of a UDP datagram without a checksum.
fn overlay(
    frame: &[u8],
    ends: (IpAddr, IpAddr),
    (src_port, dst_port): (u16, u16),
    content: &[u8],
) -> Result<Vec<u8>, EncapError> {
    let size = udp::HEADER_BYTES + content.len();
    let length = u16::try_from(size).map_err(|_| EncapError::Size(size))?;
    let mut header = [0; udp::HEADER_BYTES];
    put_u16(&mut header, 0, src_port);
    put_u32(&mut header, 2, u32::from(dst_port) << 16 | u32::from(length));
    ip(frame, ends, protocol::UDP, &join(&[&header, content]))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    /// An Ethernet header with the type IPv4, and three bytes of packet.
    const FRAME: [u8; 17] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0xaa, 0xbb];

    fn ends() -> (IpAddr, IpAddr) {
        (IpAddr::from([198, 18, 10, 1]), IpAddr::from([198, 19, 10, 1]))
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn wrapped(encap: Encap, frame: &[u8]) -> String {
        let frame = encap.wrap(frame).unwrap();
        assert_eq!(frame[..TYPE_AT], FRAME[..TYPE_AT]);
        hex(&frame[TYPE_AT..])
    }

    #[test]
    fn headers_that_lead_to_a_packet() {
        assert_eq!(wrapped(Encap::Vlan { id: 100 }, &FRAME), "81000064080045aabb");
        let tagged = Encap::Vlan { id: 100 }.wrap(&FRAME).unwrap();
        assert!(wrapped(Encap::Vlan { id: 200 }, &tagged).starts_with("88a800c881000064080045"));
        let pppoe = wrapped(Encap::Pppoe { session: 7 }, &FRAME);
        assert_eq!(pppoe, "8864110000070005002145aabb");
        assert_eq!(wrapped(Encap::Mpls { label: 16 }, &FRAME), "88470001014045aabb");
        let labelled = Encap::Mpls { label: 16 }.wrap(&FRAME).unwrap();
        let two = wrapped(Encap::Mpls { label: 17 }, &labelled);
        assert_eq!(two, "8847000110400001014045aabb", "the lower one is the bottom");
    }

    /// The checksum of the outer header is ipv4's; here is what stands around it.
    #[test]
    fn tunnels_between_hosts() {
        let gre = wrapped(Encap::Gre { ends: ends(), key: Some(5) }, &FRAME);
        assert!(gre.starts_with("08004500001f00004000402f"), "{gre}");
        assert!(gre.ends_with("c6120a01c6130a01200008000000000545aabb"), "{gre}");
        let ip = wrapped(Encap::Ip { ends: ends() }, &FRAME);
        assert!(ip.starts_with("08004500001700004000") && ip.ends_with("c6120a01c6130a0145aabb"));
        let vxlan = wrapped(Encap::Vxlan { ends: ends(), src_port: 9, id: 3 }, &FRAME);
        let inner = hex(&FRAME);
        assert!(vxlan.ends_with(&format!("000912b5002100000800000000000300{inner}")), "{vxlan}");
        let encap = Encap::Geneve { ends: ends(), src_port: 9, id: 3, option_words: 1 };
        let geneve = wrapped(encap, &FRAME);
        let tail = format!("000917c1002500000100655800000300{:08}{inner}", 0);
        assert!(geneve.ends_with(&tail), "{geneve}");
    }

    #[test]
    fn tunnels_of_streams_are_as_long_as_they_say() {
        for tunnel in Tunnel::ALL {
            assert_eq!(format!("{tunnel}").parse(), Ok(tunnel));
            for (over_ipv6, host) in [(false, "192.0.2.1"), (true, "2001:db8::1")] {
                let host: IpAddr = host.parse().unwrap();
                let wrapped = tunnel.between(host, host).wrap(&FRAME).unwrap();
                let overhead_bytes = usize::from(tunnel.overhead_bytes(over_ipv6));
                assert_eq!(wrapped.len() - FRAME.len(), overhead_bytes, "{tunnel}");
            }
        }
        assert_eq!("ipsec".parse::<Tunnel>(), Err(TunnelError));
    }

    #[test]
    fn what_cannot_be_carried_is_refused() {
        let arp = [&FRAME[..12], &[8, 6], &FRAME[14..]].concat();
        assert_eq!(Encap::Ip { ends: ends() }.wrap(&arp), Err(EncapError::NotIp));
        assert_eq!(Encap::Mpls { label: 1 }.wrap(&arp), Err(EncapError::NotIp));
        assert_eq!(Encap::Pppoe { session: 1 }.wrap(&arp), Err(EncapError::NotIp));
        assert!(wrapped(Encap::Gre { ends: ends(), key: None }, &arp).contains("00006558"));
        assert_eq!(Encap::Vlan { id: 1 }.wrap(&[0; 13]), Err(EncapError::Size(13)));
        let mixed = (ends().0, "2001:2::1".parse().unwrap());
        let error = Encap::Ip { ends: mixed }.wrap(&FRAME).unwrap_err();
        assert_eq!(error, EncapError::Families(mixed.0, mixed.1));
        let large = [&FRAME[..], &[0; 65_520]].concat();
        assert!(matches!(Encap::Ip { ends: ends() }.wrap(&large), Err(EncapError::Size(_))));
    }
}
