//! What a packet carries, and its hash: that of the innermost flow, in tunnels and fragments, too.
//!
//! Cards hash the outermost IP header, so that all of a tunnel is one flow to them. Here the walk
//! goes on: over VLAN tags (IEEE 802.1Q), PPPoE sessions (RFC 2516), MPLS labels (RFC 3032, in IP:
//! RFC 4023), GRE (RFC 2784, RFC 2890), IP in IP (RFC 2003, RFC 2473, RFC 4213), VXLAN (RFC 7348)
//! and GENEVE (RFC 8926). What leads to no further IP header ends it, and the innermost one that
//! was reached counts. Fragments follow their first one, which alone has ports ([`Follower`]).
//!
//! This is the reference of `bpf/include/weir/inner.h`, which is compared with it frame by frame.
//! Checksums and lengths within headers are not looked at, as cards do not.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::fields::Fields;
use super::settings::{FlowKind, Settings};
use super::toeplitz::Toeplitz;
use crate::bytes::{u16_at, u32_at};
use crate::flow::Flow;
use crate::{protocol, vlan};

/// Most IP headers that are followed, one within the other.
pub const LEVEL_COUNT_MAX: usize = 4;
/// Most MPLS labels in a row.
const LABEL_COUNT_MAX: usize = 4;
/// Most extension headers of an IPv6 packet.
const EXTENSION_COUNT_MAX: usize = 4;
/// What begins further behind the start of the frame, bytes, is not read.
const AT_MAX: usize = 512;

/// How long later fragments may follow their first one: as pf's `set timeout frag`, ns.
pub const FRAGMENT_TIMEOUT_NS: u64 = 60_000_000_000;

/// EtherTypes. The first one is that of an Ethernet header within another one's packet.
const ETHERNET: u16 = 0x6558;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_UPSTREAM: u16 = 0x8848;

/// UDP ports of overlays.
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// What follows is no header of a tunnel.
    Whole,
    /// Neither IP nor a header that leads to it.
    NotIp,
    /// The frame ends within a header.
    Truncated,
    /// A header has a version or a length that there is not.
    Malformed,
    /// More headers than are followed, or too far behind.
    TooDeep,
}

impl End {
    /// Those that leave something unread, in the order of the program's counters.
    pub const UNREAD: [Self; 4] = [Self::NotIp, Self::Truncated, Self::Malformed, Self::TooDeep];

    /// What it is called in counters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::NotIp => "not_ip",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::TooDeep => "too_deep",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole => "read to the end",
            Self::NotIp => "not IP",
            Self::Truncated => "cut off",
            Self::Malformed => "malformed",
            Self::TooDeep => "too deep",
        })
    }
}

/// What the fragments of one packet have in common (RFC 791, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fragmented {
    src: IpAddr,
    dst: IpAddr,
    ident: u32,
    /// Of IPv4 only.
    protocol: Option<u8>,
}

/// The innermost IP header that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Innermost {
    /// Its addresses.
    pub src: IpAddr,
    pub dst: IpAddr,
    /// Behind its extension headers; `None` if that was not reached.
    pub protocol: Option<u8>,
    /// Where that begins, bytes from the start of the frame.
    pub message_at: usize,
    /// If it is a fragment, but not the first one.
    pub later: Option<Fragmented>,
}

/// What was found in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walk {
    /// `None`: no IP header was reached.
    pub innermost: Option<Innermost>,
    /// IP headers, one within the other.
    pub level_count: usize,
    /// The packets, from the outermost, of which the frame has the first fragment.
    pub firsts: Vec<Fragmented>,
    /// Why it ended.
    pub end: End,
}

/// Walks through an Ethernet frame.
#[must_use]
pub fn walk(frame: &[u8]) -> Walk {
    let mut walk = Walk { innermost: None, level_count: 0, firsts: Vec::new(), end: End::Whole };
    let mut next = (0, ETHERNET);
    for _ in 0..LEVEL_COUNT_MAX {
        let followed = link(frame, next.0, next.1).and_then(|(at, is_ipv6)| {
            if is_ipv6 { walk.ipv6(frame, at) } else { walk.ipv4(frame, at) }
        });
        match followed {
            Ok(Some(header)) => next = header,
            Ok(None) => return walk,
            Err(end) => return Walk { end, ..walk },
        }
    }
    Walk { end: End::TooDeep, ..walk }
}

/// That the frame has `count` bytes from `at` on.
fn check(frame: &[u8], at: usize, count: usize) -> Result<(), End> {
    if at + count <= frame.len() { Ok(()) } else { Err(End::Truncated) }
}

/// Goes to the next IP header, over Ethernet, tags, PPPoE and labels: where it begins, and whether
/// it is IPv6's.
fn link(frame: &[u8], mut at: usize, mut kind: u16) -> Result<(usize, bool), End> {
    if at > AT_MAX {
        return Err(End::TooDeep);
    }
    if kind == ETHERNET {
        check(frame, at, 14)?;
        kind = u16_at(frame, at + 12);
        at += 14;
    }
    for _ in 0..2 {
        if kind != 0x8100 && kind != 0x88a8 {
            break;
        }
        check(frame, at, vlan::TAG_BYTES)?;
        kind = u16_at(frame, at + 2);
        at += vlan::TAG_BYTES;
    }
    if kind == PPPOE_SESSION {
        check(frame, at, 8)?;
        // Version 1, type 1, code 0.
        if u16_at(frame, at) != 0x1100 {
            return Err(End::Malformed);
        }
        kind = match u16_at(frame, at + 6) {
            0x0021 => IPV4,
            0x0057 => IPV6,
            0x0281 => MPLS,
            _ => return Err(End::NotIp),
        };
        at += 8;
    }
    if kind == MPLS || kind == MPLS_UPSTREAM {
        (at, kind) = labels(frame, at)?;
    }
    match kind {
        IPV4 => Ok((at, false)),
        IPV6 => Ok((at, true)),
        _ => Err(End::NotIp),
    }
}

/// Goes over MPLS labels, which do not say what is behind them: that is known by its version.
fn labels(frame: &[u8], mut at: usize) -> Result<(usize, u16), End> {
    for _ in 0..LABEL_COUNT_MAX {
        check(frame, at, 4)?;
        let is_bottom = frame[at + 2] & 1 == 1;
        at += 4;
        if is_bottom {
            check(frame, at, 1)?;
            return match frame[at] >> 4 {
                4 => Ok((at, IPV4)),
                6 => Ok((at, IPV6)),
                _ => Err(End::NotIp),
            };
        }
    }
    Err(End::TooDeep)
}

/// A header that is to be looked at next: where it begins, and its EtherType.
type Next = Option<(usize, u16)>;

impl Walk {
    fn ipv4(&mut self, frame: &[u8], at: usize) -> Result<Next, End> {
        check(frame, at, 20)?;
        let header_bytes = usize::from(frame[at] & 0xf) * 4;
        if frame[at] >> 4 != 4 || header_bytes < 20 {
            return Err(End::Malformed);
        }
        let address = |at| IpAddr::V4(Ipv4Addr::from_bits(u32_at(frame, at)));
        let (src, dst) = (address(at + 12), address(at + 16));
        let (ident, number, field) = (u16_at(frame, at + 4), frame[at + 9], u16_at(frame, at + 6));
        let name = Fragmented { src, dst, ident: ident.into(), protocol: Some(number) };
        let is_later = field & 0x1fff != 0;
        if !is_later && field & 0x2000 != 0 {
            self.begin(name);
        }
        self.arrive(
            frame,
            Innermost {
                src,
                dst,
                protocol: Some(number),
                message_at: at + header_bytes,
                later: is_later.then_some(name),
            },
        )
    }

    fn ipv6(&mut self, frame: &[u8], at: usize) -> Result<Next, End> {
        check(frame, at, 40)?;
        if frame[at] >> 4 != 6 {
            return Err(End::Malformed);
        }
        let address = |at: usize| {
            let words = [0, 4, 8, 12].map(|word| u128::from(u32_at(frame, at + word)));
            IpAddr::V6(Ipv6Addr::from_bits(words.iter().fold(0, |all, word| all << 32 | word)))
        };
        let mut innermost = Innermost {
            src: address(at + 8),
            dst: address(at + 24),
            protocol: Some(frame[at + 6]),
            message_at: at + 40,
            later: None,
        };
        let stepped = self.extensions(frame, &mut innermost);
        let next = self.arrive(frame, innermost);
        stepped.and(next)
    }

    /// Steps over extension headers, to that of a later fragment at most.
    fn extensions(&mut self, frame: &[u8], innermost: &mut Innermost) -> Result<(), End> {
        for _ in 0..EXTENSION_COUNT_MAX {
            let at = innermost.message_at;
            let is_fragment = match innermost.protocol {
                Some(0 | 43 | 60) => false,
                Some(44) => true,
                _ => return Ok(()),
            };
            if at > AT_MAX {
                return Ok(());
            }
            if let Err(end) = check(frame, at, 8) {
                innermost.protocol = None;
                return Err(end);
            }
            innermost.protocol = Some(frame[at]);
            if !is_fragment {
                innermost.message_at += (usize::from(frame[at + 1]) + 1) * 8;
                continue;
            }
            innermost.message_at += 8;
            let (field, ident) = (u16_at(frame, at + 2), u32_at(frame, at + 4));
            let Innermost { src, dst, .. } = *innermost;
            let name = Fragmented { src, dst, ident, protocol: None };
            if field & 0xfff8 != 0 {
                innermost.later = Some(name);
                return Ok(());
            }
            if field & 1 != 0 {
                self.begin(name);
            }
        }
        Ok(())
    }

    /// Notes a packet whose first fragment this is; more than there may be headers are not.
    fn begin(&mut self, name: Fragmented) {
        if self.firsts.len() < LEVEL_COUNT_MAX {
            self.firsts.push(name);
        }
    }

    /// Notes an IP header, and goes over what leads into a tunnel.
    fn arrive(&mut self, frame: &[u8], mut innermost: Innermost) -> Result<Next, End> {
        let at = innermost.message_at;
        let is_too_far = at > AT_MAX;
        if is_too_far {
            innermost.protocol = None;
        }
        self.innermost = Some(innermost);
        self.level_count += 1;
        if is_too_far {
            return Err(End::TooDeep);
        }
        if innermost.later.is_some() {
            return Ok(None);
        }
        match innermost.protocol {
            Some(protocol::IPV4) => Ok(Some((at, IPV4))),
            Some(protocol::IPV6) => Ok(Some((at, IPV6))),
            // MPLS in IP.
            Some(137) => Ok(Some((at, MPLS))),
            Some(protocol::GRE) => gre(frame, at),
            Some(protocol::UDP) => overlay(frame, at),
            _ => Ok(None),
        }
    }
}

/// What follows GRE's header; nothing if its version or what it carries is not known.
fn gre(frame: &[u8], at: usize) -> Result<Next, End> {
    check(frame, at, 4)?;
    let (flags, kind) = (u16_at(frame, at), u16_at(frame, at + 2));
    let is_known = [IPV4, IPV6, ETHERNET, MPLS, MPLS_UPSTREAM].contains(&kind);
    // Routing, and any version but 0.
    if flags & 0x4007 != 0 || !is_known {
        return Ok(None);
    }
    let options = [0x8000, 0x2000, 0x1000].iter().filter(|flag| flags & **flag != 0).count();
    Ok(Some((at + 4 + 4 * options, kind)))
}

/// What follows UDP's header and that of VXLAN or GENEVE; nothing if it is neither.
fn overlay(frame: &[u8], at: usize) -> Result<Next, End> {
    check(frame, at, 8)?;
    let port = u16_at(frame, at + 2);
    if port != VXLAN_PORT && port != GENEVE_PORT {
        return Ok(None);
    }
    check(frame, at, 16)?;
    let first = frame[at + 8];
    if port == VXLAN_PORT {
        // A network identifier is there.
        let has_id = first & 0x08 != 0;
        return Ok(has_id.then_some((at + 16, ETHERNET)));
    }
    let kind = u16_at(frame, at + 10);
    let is_known = first >> 6 == 0 && [IPV4, IPV6, ETHERNET].contains(&kind);
    Ok(is_known.then_some((at + 16 + usize::from(first & 0x3f) * 4, kind)))
}

/// The hash of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hashed {
    /// It has no IP header.
    Not,
    /// Of its innermost flow.
    Flow(u32),
    /// A later fragment: of the first one, which is known.
    Followed(u32),
    /// A later fragment: of its addresses, because the first one is not known.
    Early(u32),
}

impl Hashed {
    /// The hash, if there is one.
    #[must_use]
    pub const fn hash(self) -> Option<u32> {
        match self {
            Self::Not => None,
            Self::Flow(hash) | Self::Followed(hash) | Self::Early(hash) => Some(hash),
        }
    }
}

/// Hashes frame after frame, and remembers first fragments.
#[derive(Debug, Clone)]
pub struct Follower {
    toeplitz: Toeplitz,
    settings: Settings,
    timeout_ns: u64,
    limit: usize,
    /// When they were seen, and their hashes.
    firsts: BTreeMap<Fragmented, (u64, u32)>,
}

impl Follower {
    /// With these settings; first fragments are remembered for `timeout_ns`, and `limit` of them at
    /// most: the oldest one goes when there is no room.
    #[must_use]
    pub fn new(settings: Settings, timeout_ns: u64, limit: usize) -> Self {
        let toeplitz = Toeplitz::new(&settings.key);
        Self { toeplitz, settings, timeout_ns, limit, firsts: BTreeMap::new() }
    }

    /// The hash of a frame that comes at `now_ns`.
    pub fn hash(&mut self, frame: &[u8], now_ns: u64) -> Hashed {
        let walk = walk(frame);
        let Some(innermost) = &walk.innermost else { return Hashed::Not };
        let is_young = |seen_ns: u64| now_ns.saturating_sub(seen_ns) <= self.timeout_ns;
        let first = innermost.later.and_then(|name| self.firsts.get(&name));
        let hashed = match (first, innermost.later) {
            (Some((seen_ns, hash)), _) if is_young(*seen_ns) => Hashed::Followed(*hash),
            (_, Some(_)) => Hashed::Early(self.flow_hash(frame, innermost)),
            (_, None) => Hashed::Flow(self.flow_hash(frame, innermost)),
        };
        for name in walk.firsts {
            self.firsts.insert(name, (now_ns, hashed.hash().unwrap_or(0)));
            if self.firsts.len() > self.limit {
                let oldest = self.firsts.iter().min_by_key(|(_, (seen_ns, _))| *seen_ns);
                let oldest = oldest.map(|(name, _)| *name);
                oldest.map(|name| self.firsts.remove(&name));
            }
        }
        hashed
    }

    fn flow_hash(&self, frame: &[u8], innermost: &Innermost) -> u32 {
        let Innermost { src, dst, protocol, message_at, later } = *innermost;
        let is_udp = protocol == Some(protocol::UDP);
        let has_ports = later.is_none()
            && (is_udp || protocol == Some(protocol::TCP))
            && frame.len() >= message_at + 4;
        let mut fields = Fields::TwoTuple;
        let mut flow = Flow { src, dst, src_port: 0, dst_port: 0 };
        if has_ports {
            fields = self.settings.fields_of(FlowKind::of(is_udp, src.is_ipv6()));
            flow.src_port = u16_at(frame, message_at);
            flow.dst_port = u16_at(frame, message_at + 2);
        }
        self.toeplitz.hash(flow, fields, self.settings.symmetry)
    }
}

#[cfg(test)]
mod tests;
