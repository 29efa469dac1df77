//! Indices of timeouts in [`weir_rules::names::TIMEOUTS`].

/// `tcp.first`.
pub const TCP_FIRST: u8 = 0;
/// `tcp.opening`.
pub const TCP_OPENING: u8 = 1;
/// `tcp.established`.
pub const TCP_ESTABLISHED: u8 = 2;
/// `tcp.closing`.
pub const TCP_CLOSING: u8 = 3;
/// `tcp.finwait`.
pub const TCP_FIN_WAIT: u8 = 4;
/// `tcp.closed`.
pub const TCP_CLOSED: u8 = 5;
/// `udp.first`.
pub const UDP_FIRST: u8 = 12;
/// `udp.single`.
pub const UDP_SINGLE: u8 = 13;
/// `udp.multiple`.
pub const UDP_MULTIPLE: u8 = 14;
/// `icmp.first`.
pub const ICMP_FIRST: u8 = 15;
/// `icmp.error`.
pub const ICMP_ERROR: u8 = 16;
/// `other.first`.
pub const OTHER_FIRST: u8 = 17;
/// `other.single`.
pub const OTHER_SINGLE: u8 = 18;
/// `other.multiple`.
pub const OTHER_MULTIPLE: u8 = 19;
/// `frag`.
pub const FRAGMENT: u8 = 20;
/// `adaptive.start`.
pub const ADAPTIVE_START: u8 = 22;
/// `adaptive.end`.
pub const ADAPTIVE_END: u8 = 23;

/// Of flows that nobody has answered, or that are not yet complete.
pub(super) const HALF_OPEN: [u8; 5] = [TCP_FIRST, TCP_OPENING, UDP_FIRST, ICMP_FIRST, OTHER_FIRST];
