//! The buckets of an interface's receive side scaling, and the CPUs of the whole host: what is
//! shown beside its queues where that is asked for.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use weir_bpf::ethtool;
use weir_bpf::rss::{BucketCount, Link, QueueMark, Watch};
use weir_machine::queues::softnet::{self, SoftnetCounters, SoftnetRates};
use weir_machine::rss::card::{open, receiver};
use weir_results::number::{heights, share};
use weir_wire::rss::FlowKind;

/// Characters of the picture of all buckets.
const BUCKET_WIDTH: usize = 32;

/// The buckets of an interface, counted by a program for traffic control where packets come in.
pub(super) struct Buckets {
    watch: Watch,
    last: (Vec<BucketCount>, Instant),
    _link: Link,
}

/// What the buckets got in an interval.
#[derive(Debug, Serialize)]
pub(super) struct BucketRates {
    interval_ns: u64,
    /// Of each bucket, from bucket 0.
    rates_pps: Vec<f64>,
    /// The busiest one; of several, the first.
    heaviest_bucket: usize,
    /// It divided by the mean of all.
    heaviest_bucket_ratio: f64,
    idle_bucket_count: usize,
    /// Packets on another queue than the settings say, of all packets.
    misplaced_ratio: f64,
}

impl Buckets {
    /// Begins to count.
    pub(super) fn of(interface: &str) -> anyhow::Result<Self> {
        let card = open(interface).context("--buckets")?;
        let settings = card.read()?.settings(interface, FlowKind::Tcp4).context("--buckets")?;
        let watch = Watch::load(&settings, QueueMark::of_driver(&ethtool::driver(interface)?))?;
        let link = watch.attach(receiver(interface)?.ifindex)?;
        let last = (watch.counts()?, Instant::now());
        Ok(Self { watch, last, _link: link })
    }

    /// What came since it was asked the last time.
    pub(super) fn rates(&mut self) -> anyhow::Result<BucketRates> {
        let now = (self.watch.counts()?, Instant::now());
        let before = std::mem::replace(&mut self.last, now);
        let elapsed = self.last.1.saturating_duration_since(before.1);
        Ok(BucketRates::between(&before.0, &self.last.0, elapsed))
    }
}

impl BucketRates {
    #[expect(clippy::cast_precision_loss, reason = "packets of an interval are below 2^53")]
    fn between(before: &[BucketCount], now: &[BucketCount], elapsed: Duration) -> Self {
        let rise = |value: fn(&BucketCount) -> u64| {
            before.iter().zip(now).map(move |(b, n)| value(n).saturating_sub(value(b)))
        };
        let packets: Vec<u64> = rise(|count| count.packets).collect();
        let total: u64 = packets.iter().sum();
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let busier = |a: &(usize, &u64), b: &(usize, &u64)| a.1.cmp(b.1).then(b.0.cmp(&a.0));
        let (heaviest_bucket, heaviest) =
            packets.iter().enumerate().max_by(busier).map_or((0, 0), |(at, most)| (at, *most));
        Self {
            interval_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            heaviest_bucket,
            heaviest_bucket_ratio: heaviest as f64 * packets.len() as f64 / total.max(1) as f64,
            idle_bucket_count: packets.iter().filter(|packets| **packets == 0).count(),
            misplaced_ratio: rise(|count| count.misplaced_packets).sum::<u64>() as f64
                / total.max(1) as f64,
            rates_pps: packets.iter().map(|packets| *packets as f64 / seconds).collect(),
        }
    }

    /// `[128 buckets ▁█▁▁, 96 idle, busiest 17 with 4.00 times the mean, misplaced 0 %]`.
    pub(super) fn text(&self) -> String {
        format!(
            "[{} buckets {}, {} idle, busiest {} with {:.2} times the mean, misplaced {}]",
            self.rates_pps.len(),
            heights(&self.rates_pps, BUCKET_WIDTH),
            self.idle_bucket_count,
            self.heaviest_bucket,
            self.heaviest_bucket_ratio,
            share(self.misplaced_ratio)
        )
    }
}

/// The CPUs of this host.
pub(super) struct Cpus {
    last: (Vec<SoftnetCounters>, Instant),
}

impl Cpus {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { last: (Self::read()?, Instant::now()) })
    }

    fn read() -> anyhow::Result<Vec<SoftnetCounters>> {
        let text = fs::read_to_string(softnet::PATH);
        Ok(softnet::parse(&text.with_context(|| format!("cannot read {}", softnet::PATH))?))
    }

    /// What they did since it was asked the last time.
    pub(super) fn rates(&mut self) -> anyhow::Result<Vec<SoftnetRates>> {
        let now = (Self::read()?, Instant::now());
        let before = std::mem::replace(&mut self.last, now);
        let elapsed = self.last.1.saturating_duration_since(before.1);
        Ok(softnet::rates(&before.0, &self.last.0, elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_compared_with_their_mean() {
        let count = |packets, misplaced_packets| BucketCount {
            packets,
            misplaced_packets,
            ..BucketCount::default()
        };
        let before = [count(10, 0), count(5, 5), count(0, 0), count(7, 0)];
        let now = [count(40, 3), count(15, 5), count(0, 0), count(7, 0)];
        let rates = BucketRates::between(&before, &now, Duration::from_secs(2));
        assert_eq!(rates.rates_pps, [15.0, 5.0, 0.0, 0.0]);
        let text = "[4 buckets █▃▁▁, 2 idle, busiest 0 with 3.00 times the mean, misplaced 7.5 %]";
        assert_eq!(rates.text(), text);
        let none = BucketRates::between(&now, &before, Duration::ZERO);
        assert!(none.rates_pps.iter().all(|rate| *rate == 0.0), "{none:?}");
    }
}
