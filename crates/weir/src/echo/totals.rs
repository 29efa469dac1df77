//! What clients have counted at the end: of one, and of several at once.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_bpf::histogram::Histogram;
use weir_gen::echo::client::{ClientCounts, FlowCounts};
use weir_gen::echo::report::{Announcement, Losses, ServerTotals};
use weir_results::number::{count, counted_len, delay, pps, share};
use weir_wire::rss::Settings;
use weir_wire::units::whole_ns;

use super::flows::ClientFlow;

/// Quantiles of times, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Quantiles {
    pub(super) median_ns: u64,
    p90_ns: u64,
    pub(super) p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

impl Quantiles {
    pub(super) fn of(histogram: &Histogram) -> Option<Self> {
        Some(Self {
            median_ns: histogram.quantile(500)?,
            p90_ns: histogram.quantile(900)?,
            p99_ns: histogram.quantile(990)?,
            p999_ns: histogram.quantile(999)?,
            max_ns: histogram.max()?,
        })
    }
}

/// The flows of one bucket; or all, where no buckets are known.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<u16>,
    flow_count: usize,
    sent_packets: u64,
    refused_packets: u64,
    /// What the server has counted for the bucket, if it tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    misplaced_packets: Option<u64>,
    received_packets: u64,
    dropped_packets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Quantiles>,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.flow_count += other.flow_count;
        self.sent_packets += other.sent_packets;
        self.refused_packets += other.refused_packets;
        self.received_packets += other.received_packets;
        self.dropped_packets += other.dropped_packets;
    }
}

/// What is shown of each of several clients.
pub(super) const CLIENT_COLUMNS: [&str; 7] =
    ["client", "sent", "refused", "came back", "dropped", "median", "99 %"];

/// What is shown at the end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClientReport {
    kind: String,
    duration_ns: u64,
    sent_pps: f64,
    received_pps: f64,
    flow_count: usize,
    sent_packets: u64,
    refused_packets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerTotals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_losses: Option<Losses>,
    received_packets: u64,
    /// Answers that the client's sockets had no room for.
    dropped_packets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<Quantiles>,
    /// How late the client sent what was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<Quantiles>,
    buckets: Vec<Row>,
}

impl ClientReport {
    /// Of one client.
    pub(super) fn new(flows: &[ClientFlow], counts: &ClientCounts) -> Self {
        let mut all = FlowCounts::default();
        counts.flows.iter().for_each(|flow| all.add(flow));
        let mut latency = Histogram::default();
        counts.latency_ns.iter().for_each(|one| latency.add(one));
        let seconds = counts.sending.as_secs_f64().max(1e-9);
        Self {
            kind: "total".to_owned(),
            duration_ns: whole_ns(counts.sending),
            sent_pps: all.sent_packets as f64 / seconds,
            received_pps: all.received_packets as f64 / seconds,
            flow_count: flows.len(),
            sent_packets: all.sent_packets,
            refused_packets: all.refused_packets,
            server: None,
            server_losses: None,
            received_packets: all.received_packets,
            dropped_packets: all.dropped_packets,
            latency: Quantiles::of(&latency),
            lag: Quantiles::of(&counts.lag_ns),
            buckets: rows(flows, counts),
        }
    }

    /// Of several that sent at once. Quantiles cannot be added: there are none.
    pub(super) fn of_all(clients: &[Self]) -> Self {
        let total = |count: fn(&Self) -> u64| clients.iter().map(count).sum();
        let rate = |rate: fn(&Self) -> f64| clients.iter().map(rate).sum();
        let mut buckets = BTreeMap::<_, Row>::new();
        for row in clients.iter().flat_map(|client| &client.buckets) {
            let sum = buckets.entry((row.bucket, row.queue)).or_insert_with(|| Row {
                bucket: row.bucket,
                queue: row.queue,
                ..Row::default()
            });
            sum.add(row);
        }
        Self {
            kind: "total".to_owned(),
            duration_ns: clients.iter().map(|client| client.duration_ns).max().unwrap_or(0),
            sent_pps: rate(|client| client.sent_pps),
            received_pps: rate(|client| client.received_pps),
            flow_count: clients.iter().map(|client| client.flow_count).sum(),
            sent_packets: total(|client| client.sent_packets),
            refused_packets: total(|client| client.refused_packets),
            server: None,
            server_losses: None,
            received_packets: total(|client| client.received_packets),
            dropped_packets: total(|client| client.dropped_packets),
            latency: None,
            lag: None,
            buckets: buckets.into_values().collect(),
        }
    }

    /// Adds what the server has counted between two announcements. Clients go by `settings`.
    pub(super) fn add_server(
        &mut self,
        settings: Option<&Settings>,
        (before, after): &(Announcement, Announcement),
    ) {
        let seen = after.counts.since(&before.counts);
        // The server's are those of its own settings; --table may have given others here.
        let are_same_buckets =
            [before, after].iter().all(|said| said.settings().ok().as_ref() == settings);
        for row in &mut self.buckets {
            let there = row.bucket.filter(|_| are_same_buckets);
            let there = there.and_then(|bucket| seen.buckets.get(bucket));
            row.arrived_packets = there.map(|there| there.arrived_packets);
            row.misplaced_packets = there.map(|there| there.misplaced_packets);
        }
        self.server = Some(seen.totals());
        self.server_losses = Some(after.losses.since(before.losses));
    }

    /// Leaves out what the server has counted: it is not of this client alone.
    pub(super) fn without_server(mut self) -> Self {
        (self.server, self.server_losses) = (None, None);
        for row in &mut self.buckets {
            (row.arrived_packets, row.misplaced_packets) = (None, None);
        }
        self
    }

    /// The counts of one of several clients, as columns of [`CLIENT_COLUMNS`].
    pub(super) fn columns(&self, name: &str) -> [String; CLIENT_COLUMNS.len()] {
        let time = |ns: fn(&Quantiles) -> u64| {
            self.latency.as_ref().map_or_else(|| "-".to_owned(), |times| delay(ns(times) as f64))
        };
        [
            name.to_owned(),
            count(self.sent_packets),
            count(self.refused_packets),
            count(self.received_packets),
            count(self.dropped_packets),
            time(|times| times.median_ns),
            time(|times| times.p99_ns),
        ]
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{} for {:.1} s: {} sent, {} came back\n\n",
            counted_len(self.flow_count, "flow"),
            self.duration_ns as f64 / 1e9,
            pps(self.sent_pps),
            pps(self.received_pps)
        );
        text += &self.ways();
        for (what, times) in [("latency", self.latency), ("lateness of the client", self.lag)] {
            let Some(times) = times else { continue };
            let [median, p99, p999, max] =
                [times.median_ns, times.p99_ns, times.p999_ns, times.max_ns]
                    .map(|ns| delay(ns as f64));
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{what}: median {median}, 99 % {p99}, 99.9 % {p999}, max {max}");
        }
        if self.buckets.iter().any(|row| row.bucket.is_some()) {
            text += &self.bucket_lines();
        }
        text
    }

    /// The five counts, what is missing between two of them, and where it was lost, as far as that
    /// is known.
    fn ways(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, packets: u64, before: Option<u64>, lost: &[(u64, &str)]| {
            let missing = before.map_or_else(String::new, |before| difference(before, packets));
            let mut why: Vec<String> = lost
                .iter()
                .map(|(packets, place)| format!("{} {place}", count(*packets)))
                .collect();
            let known: u64 = lost.iter().map(|(packets, _)| packets).sum();
            let unknown = before.unwrap_or(0).saturating_sub(packets).saturating_sub(known);
            if unknown > 0 {
                why.push(format!("{} not accounted for", count(unknown)));
            }
            let why = why.join(", ");
            let line = format!("{what:<24} {:>14} {missing:>16}  ({why})", count(packets));
            text += line.trim_end();
            text.push('\n');
        };
        let refused = [(self.refused_packets, "refused by the client's host")];
        line("sent by the client", self.sent_packets, None, &refused);
        let mut before = self.sent_packets;
        if let Some(server) = self.server {
            if let Some(arrived) = server.arrived_packets {
                let Losses { device_packets, backlog_packets } =
                    self.server_losses.unwrap_or_default();
                let lost = [
                    (device_packets, "lost by its interface"),
                    (backlog_packets, "lost by backlogs"),
                ];
                line("arrived at the server", arrived, Some(before), &lost);
                before = arrived;
            }
            let lost = [(server.dropped_packets, "dropped by its sockets")];
            line("read by the server", server.read_packets, Some(before), &lost);
            let lost = [(server.refused_packets, "refused by its host")];
            line("sent by the server", server.sent_packets, Some(server.read_packets), &lost);
            before = server.sent_packets;
        }
        let lost = [(self.dropped_packets, "dropped by the client's sockets")];
        line("arrived at the client", self.received_packets, Some(before), &lost);
        text
    }

    fn bucket_lines(&self) -> String {
        let mut text = String::from(
            "\nbucket  queue  flows         sent      arrived     received  misplaced     median\n",
        );
        let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        for row in &self.buckets {
            let misplaced = row.misplaced_packets.zip(row.arrived_packets);
            // Writing to a text cannot fail.
            let _ = writeln!(
                text,
                "{:>6} {:>6} {:>6} {:>12} {:>12} {:>12} {:>10} {:>10}",
                known(row.bucket.map(|bucket| bucket.to_string())),
                known(row.queue.map(|queue| queue.to_string())),
                row.flow_count,
                count(row.sent_packets),
                known(row.arrived_packets.map(count)),
                count(row.received_packets),
                known(misplaced.map(|(some, all)| share(some as f64 / all.max(1) as f64))),
                known(row.latency.map(|latency| delay(latency.median_ns as f64))),
            );
        }
        text
    }
}

/// What a count is less, or more, than the one before it.
fn difference(before: u64, packets: u64) -> String {
    match packets.checked_sub(before) {
        None | Some(0) => format!("{} less", before - packets),
        Some(more) => format!("{more} more"),
    }
}

fn rows(flows: &[ClientFlow], counts: &ClientCounts) -> Vec<Row> {
    let row = |(place, sums): (Option<(usize, u16)>, FlowSums)| Row {
        bucket: place.map(|(bucket, _)| bucket),
        queue: place.map(|(_, queue)| queue),
        flow_count: sums.flow_count,
        sent_packets: sums.counts.sent_packets,
        refused_packets: sums.counts.refused_packets,
        arrived_packets: None,
        misplaced_packets: None,
        received_packets: sums.counts.received_packets,
        dropped_packets: sums.counts.dropped_packets,
        latency: Quantiles::of(&sums.latency_ns),
    };
    by_place(flows, counts).into_iter().map(row).collect()
}

/// What the flows of a bucket have counted together.
#[derive(Debug, Clone, Default)]
pub(super) struct FlowSums {
    pub(super) flow_count: usize,
    pub(super) counts: FlowCounts,
    pub(super) latency_ns: Histogram,
}

/// Flows of the same bucket together; those without a known one, too.
pub(super) fn by_place(
    flows: &[ClientFlow],
    counts: &ClientCounts,
) -> BTreeMap<Option<(usize, u16)>, FlowSums> {
    let mut all: BTreeMap<_, FlowSums> = BTreeMap::new();
    for (flow, (one, latency_ns)) in flows.iter().zip(counts.flows.iter().zip(&counts.latency_ns)) {
        let sums = all.entry(flow.place).or_default();
        sums.flow_count += 1;
        sums.counts.add(one);
        sums.latency_ns.add(latency_ns);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_gen::echo::report::{BucketCounts, ServerCounts};

    use super::*;

    #[test]
    fn flows_of_a_bucket_are_one_row() {
        let flow = |port, bucket| ClientFlow {
            source: ([10, 0, 0, 2], port).into(),
            place: Some((bucket, 1)),
        };
        let flows = [flow(1, 4), flow(2, 2), flow(3, 4)];
        let one = FlowCounts { sent_packets: 10, received_packets: 7, ..FlowCounts::default() };
        let mut latency = Histogram::default();
        latency.record(50);
        let counts = ClientCounts {
            flows: vec![one; 3],
            latency_ns: vec![latency; 3],
            sending: Duration::from_secs(2),
            lag_ns: Histogram::default(),
        };
        let report = ClientReport::new(&flows, &counts);
        let buckets: Vec<_> = report.buckets.iter().map(|row| row.bucket).collect();
        assert_eq!(buckets, [Some(2), Some(4)]);
        assert_eq!((report.buckets[1].sent_packets, report.buckets[1].flow_count), (20, 2));
        assert_eq!((report.sent_pps, report.received_pps), (15.0, 10.5));
        let text = report.text();
        assert!(
            text.contains("arrived at the client                21           9 less"),
            "{text}"
        );
        let lost = "(0 dropped by the client's sockets, 9 not accounted for)";
        assert!(text.contains(lost), "{text}");
        assert!(text.contains("latency: median 50 ns") && !text.contains("lateness"), "{text}");
    }

    #[test]
    fn clients_are_added_up_bucket_by_bucket() {
        let client = |bucket, sent_packets| {
            let flow = ClientFlow { source: ([10, 0, 0, 2], 1).into(), place: Some((bucket, 0)) };
            let one = FlowCounts { sent_packets, received_packets: 2, ..FlowCounts::default() };
            let mut latency = Histogram::default();
            latency.record(50);
            let counts = ClientCounts {
                flows: vec![one],
                latency_ns: vec![latency],
                sending: Duration::from_secs(1),
                lag_ns: Histogram::default(),
            };
            // As it comes from another machine.
            let text = serde_json::to_string(&ClientReport::new(&[flow], &counts)).unwrap();
            serde_json::from_str::<ClientReport>(&text).unwrap().without_server()
        };
        let clients = [client(1, 5), client(3, 7), client(1, 2)];
        let all = ClientReport::of_all(&clients);
        assert_eq!((all.sent_packets, all.received_packets, all.flow_count), (14, 6, 3));
        let buckets: Vec<_> =
            all.buckets.iter().map(|row| (row.bucket, row.sent_packets, row.flow_count)).collect();
        assert_eq!(buckets, [(Some(1), 7, 2), (Some(3), 7, 1)]);
        assert!(all.text().contains("8 less") && !all.text().contains("latency"));
        assert_eq!(clients[1].columns("b")[..2], ["b".to_owned(), "7".to_owned()]);
        assert_eq!(clients[1].columns("b")[5], "50 ns");
    }

    #[test]
    fn buckets_of_another_table_get_no_counts_of_the_server() {
        let announced = super::super::settings("0,1".parse().expect("a table"), None, None);
        let other = super::super::settings("0,1,0".parse().expect("a table"), None, None);
        let said = |arrived_packets| {
            let bucket = BucketCounts { arrived_packets, ..BucketCounts::default() };
            let counts = ServerCounts { buckets: vec![bucket; 2], ..ServerCounts::default() };
            Announcement::new(&announced, true, counts, Losses::default())
        };
        let server = (said(1), said(8));
        let flows = [ClientFlow { source: ([10, 0, 0, 2], 1).into(), place: Some((1, 1)) }];
        let counts = ClientCounts {
            flows: vec![FlowCounts { sent_packets: 9, ..FlowCounts::default() }],
            sending: Duration::from_secs(1),
            latency_ns: vec![Histogram::default()],
            lag_ns: Histogram::default(),
        };
        for (settings, arrived) in [(&announced, Some(7)), (&other, None)] {
            let mut report = ClientReport::new(&flows, &counts);
            report.add_server(Some(settings), &server);
            assert_eq!(report.buckets[0].arrived_packets, arrived);
            assert_eq!(report.server.and_then(|server| server.arrived_packets), Some(14));
            assert!(report.text().contains("5 more"), "{}", report.text());
        }
        assert_eq!([difference(5, 5), difference(5, 3)], ["0 less", "2 less"]);
        assert_eq!(difference(0, u64::MAX), "18446744073709551615 more");
    }
}
