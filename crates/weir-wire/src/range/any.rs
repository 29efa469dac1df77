//! Ranges of either address family, and what all ranges have in common.

use core::fmt;
use core::hash::Hash;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

use super::{PortZero, Range, Range6, RangeError, RangeErrorKind, Swapped, is_ipv6};

/// What a walk needs of a range: its addresses and its ports, counted from the first.
pub trait Span: Copy + Eq + Hash + fmt::Debug + fmt::Display + Into<AddrRange> {
    /// An address of the range.
    type Addr: Copy + Eq + Hash + fmt::Debug + Into<IpAddr>;

    /// Number of addresses, 1 to 2^32.
    fn addr_count(&self) -> u64;

    /// Lowest port.
    fn port_first(&self) -> u16;

    /// Number of ports, 1 to 65,536.
    fn port_count(&self) -> u32;

    /// The address at `offset` from the first, which must be below [`Span::addr_count`].
    fn addr(&self, offset: u64) -> Self::Addr;

    /// The inverse of [`Span::addr`]: `None` for an address outside the range.
    fn addr_offset(&self, addr: Self::Addr) -> Option<u64>;

    /// Number of address and port pairs, 1 to 2^48.
    fn pair_count(&self) -> u64 {
        self.addr_count() * u64::from(self.port_count())
    }

    /// The port at `offset` from the first, which must be below [`Span::port_count`].
    #[expect(clippy::cast_possible_truncation, reason = "offsets stay under the range's count")]
    fn port(&self, offset: u64) -> u16 {
        self.port_first() + offset as u16
    }

    /// The inverse of [`Span::port`]: `None` for a port outside the range.
    fn port_offset(&self, port: u16) -> Option<u64> {
        let offset = port.checked_sub(self.port_first())?;
        (u32::from(offset) < self.port_count()).then_some(u64::from(offset))
    }
}

impl Span for Range {
    type Addr = Ipv4Addr;

    fn addr_count(&self) -> u64 {
        Self::addr_count(self)
    }

    fn port_first(&self) -> u16 {
        self.port_first
    }

    fn port_count(&self) -> u32 {
        Self::port_count(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "offsets stay under the range's count")]
    fn addr(&self, offset: u64) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr_first.to_bits() + offset as u32)
    }

    fn addr_offset(&self, addr: Ipv4Addr) -> Option<u64> {
        let inside = (self.addr_first..=self.addr_last).contains(&addr);
        inside.then(|| u64::from(addr.to_bits() - self.addr_first.to_bits()))
    }
}

impl Span for Range6 {
    type Addr = Ipv6Addr;

    fn addr_count(&self) -> u64 {
        Self::addr_count(self)
    }

    fn port_first(&self) -> u16 {
        self.port_first
    }

    fn port_count(&self) -> u32 {
        Self::port_count(self)
    }

    fn addr(&self, offset: u64) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.addr_first.to_bits() + (u128::from(offset) << self.group_shift()))
    }

    fn addr_offset(&self, addr: Ipv6Addr) -> Option<u64> {
        let distance = addr.to_bits().checked_sub(self.addr_first.to_bits())?;
        let offset = u64::try_from(distance >> self.group_shift()).ok()?;
        let inside = offset < self.addr_count() && self.addr(offset) == addr;
        inside.then_some(offset)
    }
}

/// A range of either family: what a command line or a specification reads.
///
/// Unlike [`Range`], it refuses port 0, which is reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddrRange {
    /// IPv4: `ADDR[:PORT][-ADDR[:PORT]]`.
    V4(Range),
    /// IPv6: `[GROUP@][ADDR]:PORT[-[ADDR][:PORT]]`, the brackets being literal.
    V6(Range6),
}

impl AddrRange {
    /// Reads a range of the family in which its start is written. Ports are as for
    /// [`Range::parse`], except that an explicit port 0 is refused.
    ///
    /// # Errors
    ///
    /// [`RangeError`], which says what is wrong and where in `text`.
    pub fn parse(text: &str, default_port: u16) -> Result<(Self, Swapped), RangeError> {
        let start = text.split('-').next().unwrap_or_default();
        if is_ipv6(start) {
            return Range6::parse(text, default_port).map(|(range, s)| (Self::V6(range), s));
        }
        match Range::parse_with(text, default_port, PortZero::Refused) {
            Ok((range, swapped)) => Ok((Self::V4(range), swapped)),
            // The start is not IPv6, so it is the end that is.
            Err(error) if error.kind == RangeErrorKind::Ipv6 => {
                Err(RangeError { kind: RangeErrorKind::FamilyMixed, ..error })
            }
            Err(error) => Err(error),
        }
    }

    /// The range of one address and port.
    ///
    /// # Panics
    ///
    /// Never: one address differs from itself in no group.
    #[must_use]
    pub fn single(addr: IpAddr, port: u16) -> Self {
        match addr {
            IpAddr::V4(addr) => Self::V4(Range::new((addr, addr), (port, port))),
            IpAddr::V6(addr) => {
                let range = Range6::new((addr, addr), 7, (port, port));
                Self::V6(range.expect("one address differs from itself in no group"))
            }
        }
    }

    /// Whether the addresses are IPv6.
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        matches!(self, Self::V6(_))
    }

    /// True if the range holds this address and port.
    #[must_use]
    pub fn contains(&self, addr: IpAddr, port: u16) -> bool {
        self.addr_offset(addr).is_some() && self.port_offset(port).is_some()
    }
}

impl Span for AddrRange {
    type Addr = IpAddr;

    fn addr_count(&self) -> u64 {
        match self {
            Self::V4(range) => range.addr_count(),
            Self::V6(range) => range.addr_count(),
        }
    }

    fn port_first(&self) -> u16 {
        match self {
            Self::V4(range) => range.port_first,
            Self::V6(range) => range.port_first,
        }
    }

    fn port_count(&self) -> u32 {
        match self {
            Self::V4(range) => range.port_count(),
            Self::V6(range) => range.port_count(),
        }
    }

    fn addr(&self, offset: u64) -> IpAddr {
        match self {
            Self::V4(range) => range.addr(offset).into(),
            Self::V6(range) => range.addr(offset).into(),
        }
    }

    fn addr_offset(&self, addr: IpAddr) -> Option<u64> {
        match (self, addr) {
            (Self::V4(range), IpAddr::V4(addr)) => range.addr_offset(addr),
            (Self::V6(range), IpAddr::V6(addr)) => range.addr_offset(addr),
            _ => None,
        }
    }
}

impl From<Range> for AddrRange {
    fn from(range: Range) -> Self {
        Self::V4(range)
    }
}

impl From<Range6> for AddrRange {
    fn from(range: Range6) -> Self {
        Self::V6(range)
    }
}

/// The canonical form, which is read back as the same range.
impl fmt::Display for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(range) => range.fmt(f),
            Self::V6(range) => range.fmt(f),
        }
    }
}

impl FromStr for AddrRange {
    type Err = RangeError;

    /// As [`AddrRange::parse`] with pkt-gen's default port, [`Range::PORT_DEFAULT`] (1234).
    fn from_str(text: &str) -> Result<Self, RangeError> {
        Self::parse(text, Range::PORT_DEFAULT).map(|(range, _)| range)
    }
}
