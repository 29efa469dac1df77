//! pkt-gen's address ranges: `ADDR[:PORT][-ADDR[:PORT]]`.
//!
//! The first `-` splits the two ends. A missing end means a single address; a missing end port is
//! the start port. Reversed ends are swapped, addresses and ports independently of each other, as
//! pkt-gen does; [`Range::parse`] tells which, so that a caller can mention it.
//!
//! Nothing else is repaired: an octet over 255, an octet with a leading zero (which some programs
//! read as octal), a port over 65535, spaces and trailing text are refused, each with the offset
//! of the offending word.
//!
//! [`Range`] is the IPv4 range, which recognises IPv6 and refuses it; [`Range6`] is the IPv6 range,
//! whose syntax differs; [`AddrRange`] reads both. What a walk over flows needs of any of them is
//! the trait [`Span`].

mod any;
mod v6;

pub use any::{AddrRange, Span};
pub use v6::Range6;

use alloc::string::String;
use core::fmt;
use core::net::Ipv4Addr;
use core::str::FromStr;

/// A block of IPv4 addresses times a block of UDP or TCP ports, both ends included.
///
/// `addr_first <= addr_last` and `port_first <= port_last` hold in every value that
/// [`Range::new`] and [`Range::parse`] return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Range {
    /// Lowest address.
    pub addr_first: Ipv4Addr,
    /// Highest address.
    pub addr_last: Ipv4Addr,
    /// Lowest port.
    pub port_first: u16,
    /// Highest port.
    pub port_last: u16,
}

/// Which ends of a written range stood in reverse order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swapped {
    /// The addresses were swapped.
    pub addr: bool,
    /// The ports were swapped.
    pub port: bool,
}

impl Swapped {
    /// True if anything was swapped.
    #[must_use]
    pub const fn any(self) -> bool {
        self.addr || self.port
    }
}

impl Range {
    /// The port that pkt-gen uses, at both ends of a flow, where none is written.
    pub const PORT_DEFAULT: u16 = 1234;

    /// The range between two addresses and two ports, in whichever order they are given.
    #[must_use]
    pub fn new(addrs: (Ipv4Addr, Ipv4Addr), ports: (u16, u16)) -> Self {
        Self {
            addr_first: addrs.0.min(addrs.1),
            addr_last: addrs.0.max(addrs.1),
            port_first: ports.0.min(ports.1),
            port_last: ports.0.max(ports.1),
        }
    }

    /// Reads `ADDR[:PORT][-ADDR[:PORT]]`, with `default_port` for a start that names no port.
    ///
    /// A `default_port` of 0 means that there is no default: a start without a port is then
    /// refused. An explicit `:0` is taken as written.
    ///
    /// # Errors
    ///
    /// [`RangeError`], which says what is wrong and where in `text`.
    pub fn parse(text: &str, default_port: u16) -> Result<(Self, Swapped), RangeError> {
        Self::parse_with(text, default_port, PortZero::Allowed)
    }

    fn parse_with(
        text: &str,
        default_port: u16,
        zero: PortZero,
    ) -> Result<(Self, Swapped), RangeError> {
        if text.is_empty() {
            return Err(RangeError::new(text, 0..0, RangeErrorKind::Empty));
        }
        let (start_end, rest) = match text.find('-') {
            Some(dash) => (dash, Some(dash + 1)),
            None => (text.len(), None),
        };
        let (addr_start, port_start) = parse_end(text, 0..start_end, zero)?;
        let port_start = match port_start {
            Some(port) => port,
            None if default_port != 0 => default_port,
            None => {
                return Err(RangeError::new(text, 0..start_end, RangeErrorKind::PortMissing));
            }
        };
        let (addr_end, port_end) = match rest {
            Some(offset) => parse_end(text, offset..text.len(), zero)?,
            None => (addr_start, None),
        };
        let port_end = port_end.unwrap_or(port_start);
        let swapped = Swapped { addr: addr_start > addr_end, port: port_start > port_end };
        Ok((Self::new((addr_start, addr_end), (port_start, port_end)), swapped))
    }

    /// Number of addresses, 1 to 2^32.
    #[must_use]
    pub fn addr_count(&self) -> u64 {
        u64::from(self.addr_last.to_bits().saturating_sub(self.addr_first.to_bits())) + 1
    }

    /// Number of ports, 1 to 65,536.
    #[must_use]
    pub fn port_count(&self) -> u32 {
        u32::from(self.port_last.saturating_sub(self.port_first)) + 1
    }

    /// Number of address and port pairs, 1 to 2^48.
    #[must_use]
    pub fn pair_count(&self) -> u64 {
        Span::pair_count(self)
    }

    /// True if the range holds this address and port.
    #[must_use]
    pub fn contains(&self, addr: Ipv4Addr, port: u16) -> bool {
        (self.addr_first..=self.addr_last).contains(&addr)
            && (self.port_first..=self.port_last).contains(&port)
    }
}

/// The canonical form: the port is always written, the end only where it differs.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.addr_first, self.port_first)?;
        if self.port_last != self.port_first {
            write!(f, "-{}:{}", self.addr_last, self.port_last)
        } else if self.addr_last != self.addr_first {
            write!(f, "-{}", self.addr_last)
        } else {
            Ok(())
        }
    }
}

impl FromStr for Range {
    type Err = RangeError;

    /// As [`Range::parse`] with pkt-gen's default port, [`Range::PORT_DEFAULT`] (1234), and
    /// without telling what was swapped.
    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse(text, Self::PORT_DEFAULT).map(|(range, _)| range)
    }
}

/// Why text is not a range, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}", kind = Message { word, kind })]
pub struct RangeError {
    word: String,
    at: core::ops::Range<usize>,
    kind: RangeErrorKind,
}

impl RangeError {
    fn new(text: &str, at: core::ops::Range<usize>, kind: RangeErrorKind) -> Self {
        Self { word: text[at.clone()].into(), at, kind }
    }

    /// Byte offsets of the offending word inside the text that was parsed; empty where something
    /// is missing, at the place where it is missed.
    #[must_use]
    pub fn at(&self) -> core::ops::Range<usize> {
        self.at.clone()
    }

    /// What is wrong with the word.
    #[must_use]
    pub const fn kind(&self) -> &RangeErrorKind {
        &self.kind
    }
}

/// What is wrong with a word of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RangeErrorKind {
    /// There is no text at all.
    Empty,
    /// No address where one is needed.
    AddrMissing,
    /// The word is an IPv6 address or range.
    Ipv6,
    /// The address has this many numbers instead of four.
    OctetCount(usize),
    /// A number of the address is empty.
    OctetEmpty,
    /// A number of the address is over 255.
    OctetTooLarge(String),
    /// A number of the address has a leading zero.
    OctetLeadingZero(String),
    /// The address holds a character that is neither a digit nor a dot.
    AddrCharacter(char),
    /// No port is written and there is no default.
    PortMissing,
    /// Nothing follows the colon.
    PortEmpty,
    /// The port holds a character that is not a digit.
    PortCharacter(char),
    /// The port is over 65535.
    PortTooLarge,
    /// The port is 0, which is reserved.
    PortZero,
    /// The ends of the range are of different address families.
    FamilyMixed,
    /// The word is an IPv4 address where only IPv6 is read.
    Ipv4,
    /// What stands before `@` is not a group from 0 to 7.
    GroupNumber,
    /// The end of a range names a group: only its start does.
    GroupAtEnd,
    /// The ends differ in a group that does not vary.
    GroupDiffers {
        /// The group in which they differ.
        group: u8,
        /// The only group that varies.
        varies: u8,
    },
    /// A bracket is opened and not closed, or closed and not opened.
    Bracket,
    /// Something other than a port follows the closing bracket.
    AfterBracket,
    /// The IPv6 address holds a character that is no hexadecimal digit, colon or dot.
    Ipv6Character(char),
    /// The IPv6 address has more than one `::`.
    Ipv6Gaps,
    /// A group of the IPv6 address has more than four digits.
    Ipv6GroupTooLong(String),
    /// The IPv6 address has this many groups.
    Ipv6GroupCount(usize),
    /// The IPv6 address is malformed in another way.
    Ipv6Malformed,
}

/// Joins the offending word and what is wrong with it.
struct Message<'a> {
    word: &'a str,
    kind: &'a RangeErrorKind,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word;
        match self.kind {
            RangeErrorKind::Empty => {
                f.write_str("the range is empty: write `ADDR[:PORT][-ADDR[:PORT]]`")
            }
            RangeErrorKind::AddrMissing => {
                f.write_str("an address is missing: write `ADDR[:PORT][-ADDR[:PORT]]`")
            }
            RangeErrorKind::Ipv6 => write!(
                f,
                "`{word}` is an IPv6 address: IPv6 streams are not built yet; give IPv4 addresses"
            ),
            RangeErrorKind::OctetCount(count) => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "`{word}` is not an IPv4 address: {count} number{s} where 4 are needed")
            }
            RangeErrorKind::OctetEmpty => {
                write!(f, "`{word}` is not an IPv4 address: a number is missing next to a dot")
            }
            RangeErrorKind::OctetTooLarge(octet) => {
                write!(f, "`{word}` is not an IPv4 address: {octet} is over 255")
            }
            RangeErrorKind::OctetLeadingZero(octet) => write!(
                f,
                "`{word}` is not an IPv4 address: {octet} has a leading zero, which some programs \
                 read as octal"
            ),
            RangeErrorKind::AddrCharacter(c) => {
                write!(f, "`{word}` is not an IPv4 address: {c:?} is neither a digit nor a dot")
            }
            RangeErrorKind::PortMissing if word.contains(':') => {
                write!(f, "`{word}` has no port: write `[{word}]:PORT`")
            }
            RangeErrorKind::PortMissing => {
                write!(f, "`{word}` has no port: write `{word}:PORT`")
            }
            RangeErrorKind::PortEmpty => f.write_str("the port after `:` is missing"),
            RangeErrorKind::PortCharacter(c) => {
                write!(f, "`{word}` is not a port: {c:?} is not a digit")
            }
            RangeErrorKind::PortTooLarge => write!(f, "`{word}` is not a port: it is over 65535"),
            RangeErrorKind::PortZero => {
                write!(f, "port `{word}` cannot be used: ports run from 1 to 65535")
            }
            RangeErrorKind::FamilyMixed => write!(
                f,
                "`{word}` is of a different address family from the start of the range: both ends \
                 are IPv4, or both are IPv6"
            ),
            RangeErrorKind::Ipv4 => {
                write!(f, "`{word}` is not an IPv6 address: it has no colon")
            }
            kind => self.fmt_ipv6(f, kind),
        }
    }
}

impl Message<'_> {
    /// What only IPv6 ranges get wrong.
    fn fmt_ipv6(&self, f: &mut fmt::Formatter<'_>, kind: &RangeErrorKind) -> fmt::Result {
        let word = self.word;
        match kind {
            RangeErrorKind::GroupNumber => write!(
                f,
                "`{word}` is not a group of an IPv6 address: groups are numbered from 0 to 7, \
                 as in `7@[::1]-[::64]`"
            ),
            RangeErrorKind::GroupAtEnd => {
                write!(f, "`{word}` names a group: only the start of a range does")
            }
            RangeErrorKind::GroupDiffers { group, varies } => write!(
                f,
                "`{word}` differs from the start in group {group}, but only group {varies} varies: \
                 a range varies one group of 16 bits, named as in `{group}@[ADDR]`"
            ),
            RangeErrorKind::Bracket => {
                write!(f, "`{word}` lacks a bracket: write `[ADDR]:PORT`")
            }
            RangeErrorKind::AfterBracket => {
                write!(f, "`{word}` follows the bracket: write `[ADDR]:PORT`")
            }
            RangeErrorKind::Ipv6Character(c) => {
                write!(f, "`{word}` is not an IPv6 address: {c:?} does not belong there")
            }
            RangeErrorKind::Ipv6Gaps => {
                write!(f, "`{word}` is not an IPv6 address: `::` may occur only once")
            }
            RangeErrorKind::Ipv6GroupTooLong(group) => {
                write!(f, "`{word}` is not an IPv6 address: {group} has more than four digits")
            }
            RangeErrorKind::Ipv6GroupCount(count) => {
                let s = if *count == 1 { "" } else { "s" };
                write!(f, "`{word}` is not an IPv6 address: {count} group{s} where 8 are needed")
            }
            _ => write!(f, "`{word}` is not an IPv6 address"),
        }
    }
}

/// Reads the `ADDR[:PORT]` that stands in `text[at]`.
fn parse_end(
    text: &str,
    at: core::ops::Range<usize>,
    zero: PortZero,
) -> Result<(Ipv4Addr, Option<u16>), RangeError> {
    let word = &text[at.clone()];
    if is_ipv6(word) {
        return Err(RangeError::new(text, at, RangeErrorKind::Ipv6));
    }
    let (addr_at, port_at) = match word.find(':') {
        Some(colon) => (at.start..at.start + colon, Some(at.start + colon + 1..at.end)),
        None => (at, None),
    };
    let addr =
        parse_addr(&text[addr_at.clone()]).map_err(|kind| RangeError::new(text, addr_at, kind))?;
    let port = match port_at {
        Some(at) => Some(parse_port(text, at, zero)?),
        None => None,
    };
    Ok((addr, port))
}

/// Recognises `[::1]:80`, pkt-gen's `3@[::1]`, and bare IPv6 addresses, but not a dotted address
/// followed by a malformed port such as `10.0.0.1:80:90`.
fn is_ipv6(word: &str) -> bool {
    let mut parts = word.split(':');
    let before_colon = parts.next().unwrap_or_default();
    word.contains('[') || (parts.count() >= 2 && !before_colon.contains('.'))
}

fn parse_addr(word: &str) -> Result<Ipv4Addr, RangeErrorKind> {
    if word.is_empty() {
        return Err(RangeErrorKind::AddrMissing);
    }
    if let Some(c) = word.chars().find(|c| !c.is_ascii_digit() && *c != '.') {
        return Err(RangeErrorKind::AddrCharacter(c));
    }
    let count = word.split('.').count();
    if count != 4 {
        return Err(RangeErrorKind::OctetCount(count));
    }
    let mut octets = [0; 4];
    for (octet, digits) in octets.iter_mut().zip(word.split('.')) {
        if digits.is_empty() {
            return Err(RangeErrorKind::OctetEmpty);
        }
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(RangeErrorKind::OctetLeadingZero(digits.into()));
        }
        *octet = digits.parse().map_err(|_| RangeErrorKind::OctetTooLarge(digits.into()))?;
    }
    Ok(octets.into())
}

/// Reads the port that stands in `text[at]`.
fn parse_port(text: &str, at: core::ops::Range<usize>, zero: PortZero) -> Result<u16, RangeError> {
    let word = &text[at.clone()];
    let kind = if word.is_empty() {
        RangeErrorKind::PortEmpty
    } else if let Some(c) = word.chars().find(|c| !c.is_ascii_digit()) {
        RangeErrorKind::PortCharacter(c)
    } else {
        match word.parse() {
            Ok(0) if zero == PortZero::Refused => RangeErrorKind::PortZero,
            Ok(port) => return Ok(port),
            Err(_) => RangeErrorKind::PortTooLarge,
        }
    };
    Err(RangeError::new(text, at, kind))
}

/// Whether port 0 may be written. It is reserved (RFC 6335 §6) and hosts do not answer on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PortZero {
    Allowed,
    Refused,
}

#[cfg(test)]
mod tests;
