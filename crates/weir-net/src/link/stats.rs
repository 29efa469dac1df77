//! An interface's 64-bit counters.
//!
//! It never reads them; see [`crate::Netlink::stats64`].

use netlink_packet_route::link::Stats64;

/// An interface's counters since it was made (`struct rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets transmitted.
    pub tx_packets: u64,
    /// Bytes received, without the FCS.
    pub rx_bytes: u64,
    /// Bytes transmitted, without the FCS.
    pub tx_bytes: u64,
    /// Bad packets received.
    pub rx_errors: u64,
    /// Packets that could not be transmitted.
    pub tx_errors: u64,
    /// Good packets that were dropped on reception; for a veth also those its full ring refused.
    pub rx_dropped: u64,
    /// Packets that were dropped on transmission.
    pub tx_dropped: u64,
    /// Multicast packets received.
    pub multicast: u64,
    /// Packets received that no protocol handler took.
    pub rx_nohandler: u64,
    /// Packets missed by the receiver.
    pub rx_missed_errors: u64,
    /// Ring overflows.
    pub rx_over_errors: u64,
    /// FIFO overruns on reception.
    pub rx_fifo_errors: u64,
    /// FIFO errors on transmission.
    pub tx_fifo_errors: u64,
    /// Packets of a wrong length.
    pub rx_length_errors: u64,
    /// Packets with a wrong checksum of the frame.
    pub rx_crc_errors: u64,
    /// Packets with a wrong alignment.
    pub rx_frame_errors: u64,
    /// Transmissions given up.
    pub tx_aborted_errors: u64,
    /// Transmissions that failed for want of a carrier.
    pub tx_carrier_errors: u64,
}

impl From<&Stats64> for LinkStats {
    fn from(stats: &Stats64) -> Self {
        Self {
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            multicast: stats.multicast,
            rx_nohandler: stats.rx_nohandler,
            rx_missed_errors: stats.rx_missed_errors,
            rx_over_errors: stats.rx_over_errors,
            rx_fifo_errors: stats.rx_fifo_errors,
            tx_fifo_errors: stats.tx_fifo_errors,
            rx_length_errors: stats.rx_length_errors,
            rx_crc_errors: stats.rx_crc_errors,
            rx_frame_errors: stats.rx_frame_errors,
            tx_aborted_errors: stats.tx_aborted_errors,
            tx_carrier_errors: stats.tx_carrier_errors,
        }
    }
}

impl LinkStats {
    /// The counters by name, for records and tables.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 19] {
        [
            ("rx_packets", self.rx_packets),
            ("tx_packets", self.tx_packets),
            ("rx_bytes", self.rx_bytes),
            ("tx_bytes", self.tx_bytes),
            ("rx_errors", self.rx_errors),
            ("tx_errors", self.tx_errors),
            ("rx_dropped", self.rx_dropped),
            ("tx_dropped", self.tx_dropped),
            ("multicast", self.multicast),
            ("rx_nohandler", self.rx_nohandler),
            ("rx_missed_errors", self.rx_missed_errors),
            ("rx_over_errors", self.rx_over_errors),
            ("rx_fifo_errors", self.rx_fifo_errors),
            ("tx_fifo_errors", self.tx_fifo_errors),
            ("rx_length_errors", self.rx_length_errors),
            ("rx_crc_errors", self.rx_crc_errors),
            ("rx_frame_errors", self.rx_frame_errors),
            ("tx_aborted_errors", self.tx_aborted_errors),
            ("tx_carrier_errors", self.tx_carrier_errors),
        ]
    }
}
