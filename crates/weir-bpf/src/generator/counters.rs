//! Decodes `struct weir_lane_counters` of `bpf/include/weir/lane.h`.

/// Words of one CPU's counters.
pub(super) const WORDS: usize = 8;

/// What the generator did, summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounters {
    /// Packets handed to the output device. Whether it accepted them, only the device knows.
    pub offered_packets: u64,
    /// Bytes of those, without FCS.
    pub offered_bytes: u64,
    /// Times a packet was asked for beyond the limit.
    pub over_limit_packets: u64,
    /// Packets that were not sent because nothing is connected, the CPU has no lane, or the buffer
    /// has another size than the lane says. Zero unless the caller made a mistake.
    pub refused_packets: u64,
    /// Times a packet was asked for before it was due.
    pub early_packets: u64,
    /// Packets that were late by more than can be made up for.
    pub stalls: u64,
    /// Time that those stalls took out of the schedule, nanoseconds.
    pub stall_lost_ns: u64,
    /// Longest time between two packets of a paced lane, nanoseconds; the maximum over all CPUs.
    pub gap_max_ns: u64,
}

impl GeneratorCounters {
    /// Adds up the words of all CPUs.
    pub(super) fn sum(cpus: &[Vec<u64>]) -> Self {
        let mut total = Self::default();
        for words in cpus {
            let &[offered, bytes, over_limit, refused, early, stalls, lost_ns, gap_ns] =
                words.as_slice()
            else {
                unreachable!("the map's value size was checked when it was loaded");
            };
            total.offered_packets += offered;
            total.offered_bytes += bytes;
            total.over_limit_packets += over_limit;
            total.refused_packets += refused;
            total.early_packets += early;
            total.stalls += stalls;
            total.stall_lost_ns += lost_ns;
            total.gap_max_ns = total.gap_max_ns.max(gap_ns);
        }
        total
    }
}
