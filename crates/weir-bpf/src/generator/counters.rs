//! What a generator counts.

/// What a thread of the generator did, or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GeneratorCounters {
    /// Packets handed to the output device. Whether it accepted them, only the device knows.
    pub offered_packets: u64,
    /// Bytes of those, without FCS.
    pub offered_bytes: u64,
    /// Times a packet was asked for beyond the limit.
    pub over_limit_packets: u64,
    /// Packets that were not sent because nothing is connected, the CPU has no thread, or the
    /// buffer has another size than the set's largest frame. Zero unless the caller made a mistake.
    pub refused_packets: u64,
    /// Times a packet was asked for before it was due.
    pub early_packets: u64,
    /// Packets that were late by more than can be made up for.
    pub stalls: u64,
    /// Time that those stalls took out of the schedule, nanoseconds.
    pub stall_lost_ns: u64,
    /// Longest time between two packets of a paced thread, nanoseconds; of several, the longest.
    pub gap_max_ns: u64,
}

impl GeneratorCounters {
    /// Adds another thread's counters; of the gaps, the longer one stays.
    pub fn add(&mut self, other: &Self) {
        self.offered_packets += other.offered_packets;
        self.offered_bytes += other.offered_bytes;
        self.over_limit_packets += other.over_limit_packets;
        self.refused_packets += other.refused_packets;
        self.early_packets += other.early_packets;
        self.stalls += other.stalls;
        self.stall_lost_ns += other.stall_lost_ns;
        self.gap_max_ns = self.gap_max_ns.max(other.gap_max_ns);
    }
}
