//! The timeouts that the data path has, and its ticks.

use weir_bpf::firewall::layout::{self, TIMEOUT_COUNT, timeout};
use weir_rules::names;

/// pf's names of a profile's timeouts.
pub(crate) const PROFILE_TIMEOUTS: [&str; TIMEOUT_COUNT] = {
    let mut names = [""; TIMEOUT_COUNT];
    names[timeout::TCP_FIRST as usize] = "tcp.first";
    names[timeout::TCP_OPENING as usize] = "tcp.opening";
    names[timeout::TCP_ESTABLISHED as usize] = "tcp.established";
    names[timeout::TCP_CLOSING as usize] = "tcp.closing";
    names[timeout::TCP_FINWAIT as usize] = "tcp.finwait";
    names[timeout::TCP_CLOSED as usize] = "tcp.closed";
    names[timeout::UDP_FIRST as usize] = "udp.first";
    names[timeout::UDP_SINGLE as usize] = "udp.single";
    names[timeout::UDP_MULTIPLE as usize] = "udp.multiple";
    names[timeout::ICMP_FIRST as usize] = "icmp.first";
    names[timeout::ICMP_ERROR as usize] = "icmp.error";
    names[timeout::OTHER_FIRST as usize] = "other.first";
    names[timeout::OTHER_SINGLE as usize] = "other.single";
    names[timeout::OTHER_MULTIPLE as usize] = "other.multiple";
    names[timeout::FRAG as usize] = "frag";
    names[timeout::SRC_TRACK as usize] = "src.track";
    names
};

/// The timeouts of a profile in seconds, from those of [`names::TIMEOUTS`].
#[must_use]
pub fn profile_seconds(timeouts: &[u32]) -> [u32; TIMEOUT_COUNT] {
    PROFILE_TIMEOUTS.map(|name| {
        let index = names::timeout(name).map(usize::from);
        index.and_then(|index| timeouts.get(index)).copied().unwrap_or(0)
    })
}

/// Seconds in ticks, rounded up.
#[must_use]
pub fn ticks(seconds: u32) -> u32 {
    let ns = u64::from(seconds) * 1_000_000_000;
    u32::try_from(ns.div_ceil(1 << layout::TICK_SHIFT)).unwrap_or(u32::MAX)
}
