//! pkt-gen's IPv6 ranges: `[GROUP@][ADDR]:PORT[-[ADDR][:PORT]]`.
//!
//! The outer brackets around `GROUP@` mean that it may be left out; those around the address are
//! literal, and needed only where a port follows. A range varies one group of 16 bits: group 7, the
//! last, or the one that is named. `::1-::64` are therefore 100 addresses: groups are hexadecimal.
//! In all other groups the ends must agree; pkt-gen takes the start's silently, here it is refused.

use core::fmt;
use core::net::Ipv6Addr;
use core::ops;
use core::str::FromStr;

use super::{PortZero, Range, RangeError, RangeErrorKind, Swapped, is_ipv6, parse_port};

/// A block of IPv6 addresses that differ in one group, times a block of UDP or TCP ports, both ends
/// included.
///
/// In every value, `addr_first <= addr_last` and `port_first <= port_last`, and the addresses
/// differ at most in the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Range6 {
    /// Lowest address.
    pub addr_first: Ipv6Addr,
    /// Highest address.
    pub addr_last: Ipv6Addr,
    /// The group that varies, from 0 (the first of the address) to 7.
    pub group: u8,
    /// Lowest port.
    pub port_first: u16,
    /// Highest port.
    pub port_last: u16,
}

impl Range6 {
    /// The group that varies where none is named: the last.
    pub(crate) const GROUP_DEFAULT: u8 = 7;

    /// The range between two addresses and two ports, in whichever order they are given.
    ///
    /// # Errors
    ///
    /// [`RangeErrorKind::GroupNumber`] if `group` is over 7, and [`RangeErrorKind::GroupDiffers`]
    /// if the addresses differ in another group.
    pub fn new(
        addrs: (Ipv6Addr, Ipv6Addr),
        group: u8,
        ports: (u16, u16),
    ) -> Result<Self, RangeErrorKind> {
        if group > 7 {
            return Err(RangeErrorKind::GroupNumber);
        }
        let pairs = addrs.0.segments().into_iter().zip(addrs.1.segments());
        for (other, (first, last)) in (0..).zip(pairs) {
            if first != last && other != group {
                return Err(RangeErrorKind::GroupDiffers { group: other, varies: group });
            }
        }
        Ok(Self {
            addr_first: addrs.0.min(addrs.1),
            addr_last: addrs.0.max(addrs.1),
            group,
            port_first: ports.0.min(ports.1),
            port_last: ports.0.max(ports.1),
        })
    }

    /// Reads a range, with `default_port` for a start that names no port; 0 means that there is no
    /// default. Port 0 is refused where it is written.
    ///
    /// # Errors
    ///
    /// [`RangeError`], which says what is wrong and where in `text`.
    pub fn parse(text: &str, default_port: u16) -> Result<(Self, Swapped), RangeError> {
        if text.is_empty() {
            return Err(RangeError::new(text, 0..0, RangeErrorKind::Empty));
        }
        let (start_end, rest) = match text.find('-') {
            Some(dash) => (dash, Some(dash + 1)),
            None => (text.len(), None),
        };
        let (group, start_at) = parse_group(text, start_end)?;
        let start = parse_end(text, start_at..start_end)?;
        let port_start = match start.port {
            Some(port) => port,
            None if default_port != 0 => default_port,
            None => return Err(RangeError::new(text, start.at, RangeErrorKind::PortMissing)),
        };
        let end = match rest {
            Some(offset) => {
                let at = offset..text.len();
                if text[at.clone()].contains('@') {
                    return Err(RangeError::new(text, at, RangeErrorKind::GroupAtEnd));
                }
                parse_end(text, at).map_err(|error| match error.kind {
                    RangeErrorKind::Ipv4 => {
                        RangeError { kind: RangeErrorKind::FamilyMixed, ..error }
                    }
                    _ => error,
                })?
            }
            None => End { port: None, ..start.clone() },
        };
        let port_end = end.port.unwrap_or(port_start);
        let swapped = Swapped { addr: start.addr > end.addr, port: port_start > port_end };
        let range = Self::new((start.addr, end.addr), group, (port_start, port_end))
            .map_err(|kind| RangeError::new(text, end.at, kind))?;
        Ok((range, swapped))
    }

    /// Number of addresses, 1 to 65,536.
    #[must_use]
    pub fn addr_count(&self) -> u64 {
        let group = usize::from(self.group & 7);
        let (first, last) = (self.addr_first.segments()[group], self.addr_last.segments()[group]);
        u64::from(last.saturating_sub(first)) + 1
    }

    /// Number of ports, 1 to 65,536.
    #[must_use]
    pub fn port_count(&self) -> u32 {
        u32::from(self.port_last.saturating_sub(self.port_first)) + 1
    }

    /// How far the group that varies stands from the address's low end, bits.
    #[must_use]
    pub fn group_shift(&self) -> u32 {
        16 * (7 - u32::from(self.group & 7))
    }
}

/// The canonical form: brackets and port are always written, group and end only where they matter.
impl fmt::Display for Range6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group != Self::GROUP_DEFAULT {
            write!(f, "{}@", self.group)?;
        }
        write!(f, "[{}]:{}", self.addr_first, self.port_first)?;
        if self.port_last != self.port_first {
            write!(f, "-[{}]:{}", self.addr_last, self.port_last)
        } else if self.addr_last != self.addr_first {
            write!(f, "-[{}]", self.addr_last)
        } else {
            Ok(())
        }
    }
}

impl FromStr for Range6 {
    type Err = RangeError;

    /// As [`Range6::parse`] with pkt-gen's default port, [`Range::PORT_DEFAULT`] (1234).
    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse(text, Range::PORT_DEFAULT).map(|(range, _)| range)
    }
}

/// One end of a written range.
#[derive(Clone)]
struct End {
    addr: Ipv6Addr,
    /// Where the address stands.
    at: ops::Range<usize>,
    port: Option<u16>,
}

/// Reads `GROUP@` at the start of `text[..end]`; returns the group and where the address starts.
fn parse_group(text: &str, end: usize) -> Result<(u8, usize), RangeError> {
    match text[..end].find('@') {
        None => Ok((Range6::GROUP_DEFAULT, 0)),
        Some(at) => match &text.as_bytes()[..at] {
            [digit @ b'0'..=b'7'] => Ok((digit - b'0', at + 1)),
            _ => Err(RangeError::new(text, 0..at, RangeErrorKind::GroupNumber)),
        },
    }
}

/// Reads the `ADDR` or `[ADDR][:PORT]` that stands in `text[at]`.
fn parse_end(text: &str, at: ops::Range<usize>) -> Result<End, RangeError> {
    let word = &text[at.clone()];
    let (addr_at, port) = match word.strip_prefix('[') {
        Some(inner) => {
            let Some(size) = inner.find(']') else {
                return Err(RangeError::new(text, at, RangeErrorKind::Bracket));
            };
            let addr_at = at.start + 1..at.start + 1 + size;
            let rest_at = addr_at.end + 1..at.end;
            let port = match text[rest_at.clone()].strip_prefix(':') {
                Some(_) => Some(parse_port(text, rest_at.start + 1..at.end, PortZero::Refused)?),
                None if rest_at.is_empty() => None,
                None => {
                    return Err(RangeError::new(text, rest_at, RangeErrorKind::AfterBracket));
                }
            };
            (addr_at, port)
        }
        None if word.contains(['[', ']']) => {
            return Err(RangeError::new(text, at, RangeErrorKind::Bracket));
        }
        None => (at, None),
    };
    match parse_addr(&text[addr_at.clone()]) {
        Ok(addr) => Ok(End { addr, at: addr_at, port }),
        Err(kind) => Err(RangeError::new(text, addr_at, kind)),
    }
}

/// Reads an address as RFC 4291 §2.2 writes it, an embedded IPv4 address included, zones excluded.
fn parse_addr(word: &str) -> Result<Ipv6Addr, RangeErrorKind> {
    if let Ok(addr) = word.parse() {
        return Ok(addr);
    }
    if word.is_empty() {
        return Err(RangeErrorKind::AddrMissing);
    }
    if !is_ipv6(word) {
        return Err(RangeErrorKind::Ipv4);
    }
    let belongs = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.';
    if let Some(c) = word.chars().find(|c| !belongs(*c)) {
        return Err(RangeErrorKind::Ipv6Character(c));
    }
    if word.matches("::").count() > 1 || word.contains(":::") {
        return Err(RangeErrorKind::Ipv6Gaps);
    }
    let groups = || word.split(':').filter(|group| !group.is_empty());
    if let Some(group) = groups().find(|group| group.len() > 4 && !group.contains('.')) {
        return Err(RangeErrorKind::Ipv6GroupTooLong(group.into()));
    }
    match groups().count() {
        count if !word.contains('.') && count != 8 => Err(RangeErrorKind::Ipv6GroupCount(count)),
        _ => Err(RangeErrorKind::Ipv6Malformed),
    }
}

#[cfg(test)]
mod tests;
