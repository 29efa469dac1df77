//! What the sending device says it accepted.
//!
//! It never resets a counter: differences are taken between two readings.

use weir_bpf::ethtool::{self, EthtoolError};
use weir_net::{Netlink, NetlinkError};

/// A device's own count of the frames that were handed to it could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The driver's statistics.
    #[error(transparent)]
    Ethtool(#[from] EthtoolError),
    /// The interface's counters.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// Which of an interface's counters says how many frames it accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceCounter {
    interface: String,
    counts_redirected: bool,
}

impl DeviceCounter {
    /// The counter of frames sent by live frames: a veth has one for redirected frames alone;
    /// other drivers count them with everything else.
    ///
    /// # Errors
    /// [`DeviceError`] if there is no such interface in the calling thread's network namespace.
    pub fn for_live(interface: &str) -> Result<Self, DeviceError> {
        let counts_redirected =
            ethtool::stats(interface)?.iter().any(|(name, _)| is_redirected(name));
        Ok(Self { interface: interface.to_owned(), counts_redirected })
    }

    /// The counter of frames sent through a socket.
    #[must_use]
    pub fn for_packet(interface: &str) -> Self {
        Self { interface: interface.to_owned(), counts_redirected: false }
    }

    /// Name of the counter, as `ethtool -S` or `ip -s link` have it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        if self.counts_redirected { "tx_queue_*_xdp_xmit" } else { "tx_packets" }
    }

    /// Reads the counter, in the namespace that it was made in. `tx_packets` also counts what
    /// others send through the interface.
    ///
    /// # Errors
    /// [`DeviceError`] if the interface is gone.
    pub fn read(&self) -> Result<u64, DeviceError> {
        if !self.counts_redirected {
            return Ok(Netlink::open()?.stats64(&self.interface)?.tx_packets);
        }
        let stats = ethtool::stats(&self.interface)?;
        Ok(stats.iter().filter(|(name, _)| is_redirected(name)).map(|(_, value)| value).sum())
    }
}

fn is_redirected(name: &str) -> bool {
    let queue = name.strip_prefix("tx_queue_").and_then(|rest| rest.strip_suffix("_xdp_xmit"));
    queue.is_some_and(|queue| queue.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_counter_of_what_was_accepted_counts() {
        assert!(is_redirected("tx_queue_0_xdp_xmit") && is_redirected("tx_queue_12_xdp_xmit"));
        for other in ["tx_queue_0_xdp_xmit_errors", "rx_queue_0_xdp_packets", "peer_ifindex"] {
            assert!(!is_redirected(other), "{other}");
        }
    }
}
