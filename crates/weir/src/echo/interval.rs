//! What clients have counted since the last time: all together, and bucket by bucket.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_gen::echo::client::{ClientCounts, FlowCounts};
use weir_results::number::{count, delay, pps};
use weir_wire::units::whole_ns;

use super::flows::ClientFlow;
use super::totals::{FlowSums, Quantiles, by_place};

/// The counts of a client at one moment.
#[derive(Debug)]
pub(super) struct Reading {
    at: Instant,
    buckets: BTreeMap<Option<(usize, u16)>, FlowSums>,
}

impl Reading {
    /// Of a client that has not sent anything.
    pub(super) fn first(at: Instant) -> Self {
        Self { at, buckets: BTreeMap::new() }
    }

    pub(super) fn new(at: Instant, flows: &[ClientFlow], counts: &ClientCounts) -> Self {
        Self { at, buckets: by_place(flows, counts) }
    }

    fn total(&self) -> FlowCounts {
        let mut all = FlowCounts::default();
        self.buckets.values().for_each(|bucket| all.add(&bucket.counts));
        all
    }
}

/// What is shown each second.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Interval {
    kind: String,
    duration_ns: u64,
    sent_pps: f64,
    received_pps: f64,
    sent_packets: u64,
    received_packets: u64,
    /// Those of the flows, in their order; none where the flows are of no known bucket.
    #[serde(default)]
    buckets: Vec<BucketInterval>,
}

/// A bucket's part of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct BucketInterval {
    bucket: usize,
    queue: u16,
    sent_pps: f64,
    received_pps: f64,
    /// Answers since the last time that the client's sockets had no room for.
    dropped_packets: u64,
    /// Of the answers since the last time. Of several clients there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Quantiles>,
}

impl Interval {
    /// What has come between two readings of a client that began to send at `begin`.
    pub(super) fn new(begin: Instant, before: &Reading, now: &Reading) -> Self {
        let passed = now.at.duration_since(before.at);
        let (old, all) = (before.total(), now.total());
        let none = FlowSums::default();
        let bucket = |(place, sums): (&Option<(usize, u16)>, &FlowSums)| {
            let old = before.buckets.get(place).unwrap_or(&none);
            let (bucket, queue) = (*place)?;
            let (now, then) = (&sums.counts, &old.counts);
            Some(BucketInterval {
                bucket,
                queue,
                sent_pps: rate_pps(now.sent_packets, then.sent_packets, passed),
                received_pps: rate_pps(now.received_packets, then.received_packets, passed),
                dropped_packets: now.dropped_packets.saturating_sub(then.dropped_packets),
                latency: Quantiles::of(&sums.latency_ns.since(&old.latency_ns)),
            })
        };
        Self {
            kind: "interval".to_owned(),
            duration_ns: whole_ns(now.at.duration_since(begin)),
            sent_pps: rate_pps(all.sent_packets, old.sent_packets, passed),
            received_pps: rate_pps(all.received_packets, old.received_packets, passed),
            sent_packets: all.sent_packets,
            received_packets: all.received_packets,
            buckets: now.buckets.iter().filter_map(bucket).collect(),
        }
    }

    /// Of several clients together, once all have told something.
    pub(super) fn of_all<'a>(clients: impl Iterator<Item = &'a Option<Self>>) -> Option<Self> {
        let mut all: Option<Self> = None;
        let mut buckets = BTreeMap::<_, BucketInterval>::new();
        for client in clients {
            let one = client.as_ref()?;
            let sum = all.get_or_insert_with(|| Self { kind: one.kind.clone(), ..Self::default() });
            sum.duration_ns = sum.duration_ns.max(one.duration_ns);
            sum.sent_pps += one.sent_pps;
            sum.received_pps += one.received_pps;
            sum.sent_packets += one.sent_packets;
            sum.received_packets += one.received_packets;
            for &BucketInterval {
                bucket, queue, sent_pps, received_pps, dropped_packets, ..
            } in &one.buckets
            {
                let sum = buckets.entry((bucket, queue)).or_default();
                (sum.bucket, sum.queue) = (bucket, queue);
                sum.sent_pps += sent_pps;
                sum.received_pps += received_pps;
                sum.dropped_packets += dropped_packets;
            }
        }
        let buckets = buckets.into_values().collect();
        all.map(|all| Self { buckets, ..all })
    }

    /// All together, without the buckets.
    pub(super) fn line(&self) -> String {
        format!(
            "{:.0} s  {} sent, {} came back; {} of {}",
            self.duration_ns as f64 / 1e9,
            pps(self.sent_pps),
            pps(self.received_pps),
            count(self.received_packets),
            count(self.sent_packets)
        )
    }

    /// All together, and bucket by bucket.
    pub(super) fn text(&self) -> String {
        let mut text = self.line() + "\n";
        if !self.buckets.is_empty() {
            text +=
                "\nbucket  queue         sent     received      dropped     median       99 %\n";
        }
        for row in &self.buckets {
            let time = |ns: fn(&Quantiles) -> u64| {
                row.latency.as_ref().map_or_else(|| "-".to_owned(), |all| delay(ns(all) as f64))
            };
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "{:>6} {:>6} {:>12} {:>12} {:>12} {:>10} {:>10}",
                row.bucket,
                row.queue,
                pps(row.sent_pps),
                pps(row.received_pps),
                count(row.dropped_packets),
                time(|all| all.median_ns),
                time(|all| all.p99_ns),
            );
        }
        text
    }
}

fn rate_pps(now: u64, before: u64, passed: Duration) -> f64 {
    now.saturating_sub(before) as f64 / passed.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use weir_bpf::histogram::Histogram;

    use super::*;

    /// Two flows of bucket 4 and one of bucket 2, each of which has sent so many and got one back
    /// less, the last after so long.
    fn reading(at: Instant, sent_packets: u64, latencies_ns: &[u64]) -> Reading {
        let flow = |port, bucket| ClientFlow {
            source: ([10, 0, 0, 2], port).into(),
            place: Some((bucket, 1)),
        };
        let received_packets = sent_packets - 1;
        let one = FlowCounts { sent_packets, received_packets, ..FlowCounts::default() };
        let mut latency_ns = Histogram::default();
        latencies_ns.iter().for_each(|ns| latency_ns.record(*ns));
        let counts = ClientCounts {
            flows: vec![one; 3],
            latency_ns: vec![latency_ns; 3],
            sending: Duration::from_secs(1),
            lag_ns: Histogram::default(),
        };
        Reading::new(at, &[flow(1, 4), flow(2, 2), flow(3, 4)], &counts)
    }

    #[test]
    fn rates_and_latency_are_those_since_the_last_time() {
        let begin = Instant::now();
        let first = reading(begin + Duration::from_secs(1), 11, &[5]);
        let second = reading(begin + Duration::from_secs(3), 31, &[5, 50, 50]);
        let interval = Interval::new(begin, &first, &second);
        assert_eq!((interval.sent_pps, interval.sent_packets), (30.0, 93));
        assert_eq!(interval.duration_ns, 3_000_000_000);
        let rows: Vec<_> =
            interval.buckets.iter().map(|row| (row.bucket, row.sent_pps, row.latency)).collect();
        let [(2, of_one, latency), (4, of_two, _)] = rows[..] else { panic!("{rows:?}") };
        assert_eq!((of_one, of_two), (10.0, 20.0));
        assert_eq!(latency.map(|times| times.median_ns), Some(50));
        let text = interval.text();
        assert_eq!(text.lines().count(), 1 + 2 + 2, "{text}");
        assert!(text.ends_with("50 ns      50 ns\n"), "{text}");
        let from_start = Interval::new(begin, &Reading::first(begin), &first);
        assert_eq!((from_start.sent_pps, from_start.received_pps), (33.0, 30.0));
    }

    #[test]
    fn intervals_of_several_clients_are_added_up_bucket_by_bucket() {
        let begin = Instant::now();
        let now = reading(begin + Duration::from_secs(1), 3, &[7]);
        let interval = || Interval::new(begin, &Reading::first(begin), &now);
        // As it comes from another machine.
        let text = serde_json::to_string(&interval()).unwrap();
        let clients = [Some(interval()), Some(serde_json::from_str(&text).unwrap())];
        let all = Interval::of_all(clients.iter()).expect("both have told");
        assert_eq!((all.sent_packets, all.sent_pps), (18, 18.0));
        let rows: Vec<_> = all.buckets.iter().map(|row| (row.bucket, row.sent_pps)).collect();
        assert_eq!(rows, [(2, 6.0), (4, 12.0)]);
        assert!(all.text().ends_with("-\n"), "quantiles cannot be added: {}", all.text());
        assert!(Interval::of_all([Some(interval()), None].iter()).is_none());
    }
}
