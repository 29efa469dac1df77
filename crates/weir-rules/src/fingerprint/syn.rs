//! What of a SYN fingerprints look at (`pf_osfp_fingerprint_hdr` of pf_osfp.c).

/// The options of TCP (RFC 9293, RFC 7323, RFC 2018).
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WSCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const TIMESTAMP: u8 = 8;
}

/// An option of TCP that fingerprints know, by its number in an [`Order`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Nop = 0,
    Wscale = 1,
    Mss = 2,
    Sack = 3,
    Timestamp = 4,
}

/// The options of a SYN by their order: three bits each, the last one lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Order {
    pub packed: u64,
    pub count: u8,
}

impl Order {
    /// As many as fit (`PF_OSFP_MAX_OPTS`).
    pub(super) const COUNT_MAX: u8 = 21;

    pub(super) fn push(&mut self, kind: Kind) {
        self.packed = self.packed << 3 | kind as u64;
        self.count += 1;
    }
}

/// What of a SYN fingerprints look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Syn {
    pub window: u16,
    pub ttl: u8,
    /// The don't-fragment bit; of IPv6 it counts as set.
    pub df: bool,
    /// Length of the packet, IP header included, bytes.
    pub size_bytes: u16,
    pub order: Order,
    /// Largest segment, bytes; 0: none is named.
    pub mss: u16,
    /// Shift of the window; 0 if none is named.
    pub wscale: u8,
    /// There is a timestamp, and it is 0.
    pub zero_timestamp: bool,
}

impl Syn {
    /// Adds what the options of its TCP header say. `None` if they cannot be read, or one of them
    /// is in no fingerprint.
    #[must_use]
    pub fn with_options(mut self, options: &[u8]) -> Option<Self> {
        let mut rest = options;
        while let Some(kind) = rest.first().copied().filter(|kind| *kind != option::END) {
            if kind == option::NOP {
                self.order.push(Kind::Nop);
                rest = &rest[1..];
                continue;
            }
            let size = usize::from(*rest.get(1)?);
            let value = rest.get(..size)?.get(2..)?;
            self.order.push(match kind {
                option::MSS => {
                    let mss = value.first_chunk::<2>().copied();
                    self.mss = mss.map_or(self.mss, u16::from_be_bytes);
                    Kind::Mss
                }
                option::WSCALE => {
                    self.wscale = value.first().copied().unwrap_or(self.wscale);
                    Kind::Wscale
                }
                option::SACK_PERMITTED => Kind::Sack,
                option::TIMESTAMP => {
                    let is_whole = value.len() >= 8;
                    self.zero_timestamp |= is_whole && value.starts_with(&[0; 4]);
                    Kind::Timestamp
                }
                _ => return None,
            });
            rest = &rest[size..];
        }
        Some(self)
    }
}
