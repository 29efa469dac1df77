//! Line rates, and what packets per second are in bits per second.
//!
//! Bits are counted at three layers ([`Layer`]): IP packets; Ethernet frames as weir counts them,
//! which is 14 bytes more; and the line, where every frame also takes FCS, preamble and gap. The
//! sizes of those are in [`weir_wire::ethernet`], that of the simple Internet mix in
//! [`weir_wire::sizes::IMIX`].
//!
//! A line carries at most as many frames as fit with the least gap between them: RFC 2544 §20
//! calls that the maximum frame rate, and its appendix B computes it as is done here. Rates of
//! packets are totals: those of a full-duplex link are the sum of its two directions, which is what
//! a router between two such links forwards when both are full.
//!
//! A frame on a line has 60 bytes at least (64 with FCS); a shorter IP packet is padded. Sizes of a
//! mix are means over its packets, so that padding counts on the line, but never as Ethernet bits:
//! the Ethernet layer is always the IP packet and its header. That makes the simple Internet mix
//! 340⅓, 354⅓ and 381⅚ bytes at the three layers.

use weir_wire::ethernet::{self, FCS_BYTES, LINE_OVERHEAD_BYTES};
use weir_wire::sizes::{IMIX, Sizes};
use weir_wire::stream::ETHERNET_BYTES_MIN;

/// Frame sizes of RFC 2544 §9.1 for Ethernet, bytes with FCS, as the RFC has them.
pub const RFC2544_SIZES_WITH_FCS_BYTES: [u16; 7] = [64, 128, 256, 512, 1024, 1280, 1518];

/// Speeds of usual Ethernet links, bits per second in one direction (IEEE 802.3).
pub const LINKS_BPS: [u64; 10] = [
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
    40_000_000_000,
    50_000_000_000,
    100_000_000_000,
    200_000_000_000,
    400_000_000_000,
];

/// The Ethernet header without tags, bytes.
const HEADER_BYTES: f64 = ethernet::HEADER_BYTES as f64;

/// Where bits are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layer {
    /// IP packets, from the first byte of their header.
    Ip,
    /// IP packets and the 14 bytes of an untagged Ethernet header, without padding and FCS.
    Ethernet,
    /// Frames of 60 bytes at least, with FCS, preamble and gap: what a link's speed is spent on.
    Line,
}

/// Directions of a link that carry packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Duplex {
    /// One.
    Half,
    /// Both: rates are sums of the two.
    Full,
}

impl Duplex {
    fn direction_count(self) -> f64 {
        match self {
            Self::Half => 1.0,
            Self::Full => 2.0,
        }
    }
}

/// Sizes that no Ethernet frame has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a frame of {size_bytes} bytes is too short for Ethernet: the smallest has \
     {ETHERNET_BYTES_MIN}, without the 4 bytes of FCS"
)]
pub struct TooShort {
    /// The smallest size asked for, bytes without FCS.
    pub size_bytes: u16,
}

/// The mean size of packets, at each layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PacketSize {
    ip_bytes: f64,
    /// On the line, with padding, without FCS.
    frame_bytes: f64,
}

impl PacketSize {
    /// The simple Internet mix: seven IP packets of 40 bytes, four of 576, one of 1,500.
    #[must_use]
    pub fn imix() -> Self {
        let count: f64 = IMIX.iter().map(|(_, count)| f64::from(*count)).sum();
        let mean = |bytes: &dyn Fn(f64) -> f64| {
            let sum: f64 =
                IMIX.iter().map(|(size, count)| bytes(f64::from(*size)) * f64::from(*count)).sum();
            sum / count
        };
        Self {
            ip_bytes: mean(&|ip_bytes| ip_bytes),
            frame_bytes: mean(&|ip_bytes| {
                (ip_bytes + HEADER_BYTES).max(f64::from(ETHERNET_BYTES_MIN))
            }),
        }
    }

    /// Frames of these sizes without VLAN tags, each as often as `sizes` means. All but `imix` are
    /// sizes of frames, whose IP packets fill them.
    ///
    /// # Errors
    ///
    /// [`TooShort`] if one of them is under 60 bytes.
    pub fn of(sizes: &Sizes) -> Result<Self, TooShort> {
        if *sizes == Sizes::Imix {
            return Ok(Self::imix());
        }
        // The header's size and the seed matter to the mix and to the order alone.
        let pattern = sizes.pattern(0, ETHERNET_BYTES_MIN, 0);
        let size_bytes = pattern.min_bytes();
        if size_bytes < ETHERNET_BYTES_MIN {
            return Err(TooShort { size_bytes });
        }
        let frame_bytes = pattern.mean_bytes();
        Ok(Self { ip_bytes: frame_bytes - HEADER_BYTES, frame_bytes })
    }

    /// The mean size at a layer, bytes.
    #[must_use]
    pub fn layer_bytes(&self, layer: Layer) -> f64 {
        match layer {
            Layer::Ip => self.ip_bytes,
            Layer::Ethernet => self.ip_bytes + HEADER_BYTES,
            Layer::Line => self.frame_bytes + f64::from(LINE_OVERHEAD_BYTES),
        }
    }

    /// The mean size of the frames that are sent, with padding, bytes without FCS.
    #[must_use]
    pub fn frame_bytes(&self) -> f64 {
        self.frame_bytes
    }

    /// The same with FCS, as RFC 2544 counts.
    #[must_use]
    pub fn frame_with_fcs_bytes(&self) -> f64 {
        self.frame_bytes + f64::from(FCS_BYTES)
    }

    /// Bits per second, at a layer, of `rate_pps` packets per second of this size.
    #[must_use]
    pub fn bps(&self, rate_pps: f64, layer: Layer) -> f64 {
        rate_pps * self.layer_bytes(layer) * 8.0
    }

    /// Packets per second of this size that make `rate_bps` bits per second at a layer.
    #[must_use]
    pub fn pps(&self, rate_bps: f64, layer: Layer) -> f64 {
        rate_bps / (self.layer_bytes(layer) * 8.0)
    }

    /// The maximum frame rate of a link of `link_bps` bits per second in each direction, packets
    /// per second (RFC 2544 §20).
    #[must_use]
    pub fn line_rate_pps(&self, link_bps: u64, duplex: Duplex) -> f64 {
        self.pps(bits(link_bps), Layer::Line) * duplex.direction_count()
    }
}

/// Packets per second that a box has to forward to be enough for a link of `link_bps` bits per
/// second in each direction with the simple Internet mix: as many as make that rate at the Ethernet
/// layer. A line carries 7 % less of them, because it carries padding, FCS, preamble and gap too,
/// so the answer is on the safe side.
#[must_use]
pub fn imix_pps(link_bps: u64, duplex: Duplex) -> f64 {
    PacketSize::imix().pps(bits(link_bps), Layer::Ethernet) * duplex.direction_count()
}

/// The fastest of [`LINKS_BPS`] for which `rate_pps` is enough with the simple Internet mix, as
/// [`imix_pps`] has it; `None` if it is too little for the slowest of them.
#[must_use]
pub fn imix_link_bps(rate_pps: f64, duplex: Duplex) -> Option<u64> {
    LINKS_BPS.into_iter().rfind(|link_bps| rate_pps >= imix_pps(*link_bps, duplex))
}

#[expect(clippy::cast_precision_loss, reason = "speeds of links have few significant digits")]
fn bits(link_bps: u64) -> f64 {
    link_bps as f64
}

#[cfg(test)]
mod tests;
