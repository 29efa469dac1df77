//! What is exported of a state that has ended: one flow for each direction in which packets came,
//! as `pflow(4)` of OpenBSD has it (sys/net/if_pflow.c). It neither encodes nor sends.

use std::net::IpAddr;

use crate::states::Record;

/// Packets of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    /// Address and port of who sent them, and of whom they were for.
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    /// IP protocol.
    pub(crate) protocol: u8,
    /// Indexes of the interfaces by which they came in and left; 0: none, or not known.
    pub(crate) interfaces: [u32; 2],
    pub(crate) packets: u64,
    /// Their bytes, IP headers included.
    pub(crate) octets: u64,
    /// When the state began, and when its last packet came: ms since the machine started.
    pub(crate) start_ms: u64,
    pub(crate) finish_ms: u64,
}

/// What the clock says: of packets, of the machine, and of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Now {
    pub(crate) tick: u32,
    pub(crate) uptime_ms: u64,
    pub(crate) unix_ns: u64,
}

impl Now {
    /// When a tick was, ms since the machine started.
    const fn uptime_ms_of(&self, tick: u32) -> u64 {
        let age = self.tick.wrapping_sub(tick).cast_signed();
        let age = if age > 0 { age.unsigned_abs() as u64 } else { 0 };
        let age_ms = (age << weir_bpf::firewall::layout::TICK_SHIFT) / 1_000_000;
        self.uptime_ms.saturating_sub(age_ms)
    }
}

/// The flows of a state whose rule says `pflow`, once for both halves. The ends are those before
/// the half's rules translated them: where that is half A those on the wire on the way in, else
/// those inside. `ifindex` gives the index of the interface in a slot.
pub(crate) fn flows(record: &Record, now: &Now, ifindex: impl Fn(u8) -> u32) -> Vec<Flow> {
    let has = |half: usize| record.has_half(half) && record.pflow[half];
    if !has(0) && !has(1) {
        return Vec::new();
    }
    let [source, destination] = record.wire[0].filter(|_| has(0)).unwrap_or(record.ends);
    let start_ms = now.uptime_ms_of(record.created_tick);
    let finish_ms = now.uptime_ms_of(record.last_tick).max(start_ms);
    let [came, left] = record.interfaces.map(ifindex);
    let flow = |end: usize| Flow {
        source,
        destination,
        protocol: record.protocol,
        interfaces: [came, left],
        packets: record.packets[end],
        octets: record.bytes[end],
        start_ms,
        finish_ms,
    };
    let back =
        Flow { source: destination, destination: source, interfaces: [left, came], ..flow(1) };
    [flow(0), back].into_iter().filter(|flow| flow.octets != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_ms_of_the_machine() {
        let now = Now { tick: 100, uptime_ms: 60_000, unix_ns: 0 };
        assert_eq!(now.uptime_ms_of(100), 60_000);
        // 60 ticks of 2^24 ns.
        assert_eq!(now.uptime_ms_of(40), 60_000 - 1006);
        assert_eq!(now.uptime_ms_of(101), 60_000, "not in the future");
        assert_eq!(Now { uptime_ms: 5, ..now }.uptime_ms_of(0), 0, "not before the machine");
    }
}
