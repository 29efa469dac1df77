//! What ping reports of round trips: counts in bins by powers of two.

use std::fmt::Write as _;

use weir_bpf::histogram::Histogram;

/// Round trips since the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrips {
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    /// By the number of the highest bit that is set; 0 and 1 ns are the first.
    bins: [u64; 64],
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, min_ns: u64::MAX, bins: [0; 64] }
    }
}

impl RoundTrips {
    /// Counts a round trip.
    pub fn add(&mut self, round_trip_ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(round_trip_ns);
        self.min_ns = self.min_ns.min(round_trip_ns);
        self.bins[bin(round_trip_ns)] += 1;
    }

    /// Those that a histogram has counted since it was `earlier`. Count, sum and bins are exact; so
    /// is the smallest one if it is smaller than all that were counted before, and otherwise it is
    /// within 1/64.
    #[must_use]
    pub fn since(earlier: &Histogram, now: &Histogram) -> Self {
        let mut trips = Self::default();
        let mut before = earlier.buckets().peekable();
        for (first_ns, last_ns, count) in now.buckets() {
            // A bucket never loses what it has, so those of `earlier` are all among these.
            let known = before.next_if(|(first, ..)| *first == first_ns).map_or(0, |(_, _, n)| n);
            let new = count.saturating_sub(known);
            if new == 0 {
                continue;
            }
            trips.count += new;
            trips.bins[bin(first_ns)] += new;
            trips.min_ns = trips.min_ns.min(first_ns + (last_ns - first_ns) / 2);
        }
        if trips.count > 0 {
            trips.sum_ns = u128::from(now.sum().wrapping_sub(earlier.sum()));
            let (smallest, before) = (now.min().unwrap_or(0), earlier.min().unwrap_or(u64::MAX));
            trips.min_ns = if smallest < before { smallest } else { trips.min_ns.max(before) };
        }
        trips
    }

    /// Counts those of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        for (bin, more) in self.bins.iter_mut().zip(other.bins) {
            *bin += more;
        }
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ns }
    }

    fn mean_ns(&self) -> u128 {
        self.sum_ns / u128::from(self.count.max(1))
    }

    /// The report of a second: pkt-gen's two messages, the second of which has two lines and is not
    /// there if there was no reply.
    #[must_use]
    pub fn report(&self) -> Vec<String> {
        let (min_ns, mean_ns) = (self.min_ns(), self.mean_ns());
        let first = format!("count {} RTT: min {min_ns} av {mean_ns} ns", self.count);
        let used = |bin: &usize| self.bins[*bin] > 0;
        let ends = ((0..64).find(used), (0..64).rfind(used));
        let (Some(low), Some(high)) = ends else { return vec![first] };
        let mut counts = String::new();
        for count in &self.bins[low..=high] {
            // Writing to a string does not fail.
            let _ = write!(counts, " {count:5}");
        }
        vec![first, format!("k: {} .. {}\n\t{counts}", 1_u64 << low, 1_u64 << high)]
    }

    /// The message at the end, over all replies.
    #[must_use]
    pub fn totals(&self) -> String {
        let (min_ns, mean_ns) = (self.min_ns(), self.mean_ns());
        format!("RTT over {} packets: min {min_ns} av {mean_ns} ns", self.count)
    }
}

fn bin(round_trip_ns: u64) -> usize {
    usize::try_from(round_trip_ns.max(1).ilog2()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_pkt_gens() {
        let mut second = RoundTrips::default();
        for round_trip_ns in [1500, 2047, 2048, 9000, 9001] {
            second.add(round_trip_ns);
        }
        assert_eq!(
            second.report(),
            ["count 5 RTT: min 1500 av 4719 ns", "k: 1024 .. 8192\n\t     2     1     0     2",]
        );
        let mut all = RoundTrips::default();
        all.merge(&second);
        all.add(100);
        assert_eq!(all.totals(), "RTT over 6 packets: min 100 av 3949 ns");
        assert_eq!(all.count(), 6);
    }

    #[test]
    fn a_histograms_growth_is_counted() {
        let mut histogram = Histogram::default();
        for round_trip_ns in [5_000, 70_000] {
            histogram.record(round_trip_ns);
        }
        let earlier = histogram.clone();
        assert_eq!(RoundTrips::since(&earlier, &earlier), RoundTrips::default());
        let all = RoundTrips::since(&Histogram::default(), &earlier);
        assert_eq!(all.totals(), "RTT over 2 packets: min 5000 av 37500 ns");
        for round_trip_ns in [5_000, 9_001, 16_000] {
            histogram.record(round_trip_ns);
        }
        let second = RoundTrips::since(&earlier, &histogram);
        assert_eq!(
            second.report(),
            ["count 3 RTT: min 5055 av 10000 ns", "k: 4096 .. 8192\n\t     1     2"]
        );
        histogram.record(1_500);
        let last = RoundTrips::since(&earlier, &histogram);
        assert!(last.report()[0].contains("min 1500 av"), "{last:?}");
    }

    #[test]
    fn no_reply_is_no_division_by_zero() {
        let none = RoundTrips::default();
        assert_eq!(none.report(), ["count 0 RTT: min 0 av 0 ns"]);
        assert_eq!(none.totals(), "RTT over 0 packets: min 0 av 0 ns");
    }

    #[test]
    fn extreme_times_have_a_bin() {
        let mut trips = RoundTrips::default();
        trips.add(0);
        trips.add(u64::MAX);
        let report = trips.report();
        assert_eq!(report[1].split('\n').next(), Some("k: 1 .. 9223372036854775808"));
        assert_eq!(report[1].split_whitespace().filter(|word| *word == "1").count(), 3);
    }
}
