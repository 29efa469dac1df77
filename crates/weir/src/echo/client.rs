//! `weir echo client`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde::Serialize;
use weir_bpf::histogram::Histogram;
use weir_gen::echo::client::{Client, ClientCounts, ClientOptions, FlowCounts, PAYLOAD_BYTES_MIN};
use weir_gen::echo::report::{self, Announcement, Losses, ServerTotals};
use weir_machine::cancel::Cancel;
use weir_results::number::{count, counted_len, delay, pps, share};
use weir_wire::rss::Settings;
use weir_wire::traffic;
use weir_wire::units::whole_ns;

use super::flows::{self, ClientFlow};
use super::{in_turn, written};
use crate::cli::echo::ClientArgs;
use crate::exit::Outcome;
use crate::receive::Screen;
use crate::{progress, signals};

/// How long it sends, if nothing says it.
const DURATION: Duration = Duration::from_secs(10);
/// How often is looked whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Ethernet's and UDP's headers, and those of IPv4 and IPv6.
const HEADERS_BYTES: [usize; 2] = [14 + 8 + 20, 14 + 8 + 40];

pub(super) fn command(args: &ClientArgs) -> anyhow::Result<Outcome> {
    let payload_bytes = payload_bytes(args)?;
    let rate = traffic::resolve_rate(args.rate, args.size.into(), None)?;
    let rate_pps = traffic::rate_pps(rate)?;
    let cancel = signals::listen_alone()?;
    let announced = match report::ask(args.server) {
        Ok(announced) => Some(announced),
        Err(error) => {
            progress::note(&format!("{error}; what it counts is not shown"));
            None
        }
    };
    let settings = settings(args, announced.as_ref())?;
    let flows = flows::flows(args, settings.as_ref())?;
    let options = ClientOptions {
        server: args.server,
        sources: flows.iter().map(|flow| flow.source).collect(),
        thread_count: args.clients.into(),
        cpus: in_turn(args.cpus.iter().flat_map(|cpus| cpus.iter())),
        payload_bytes,
        rate_pps,
        packet_limit: args.count,
    };
    let client = Client::start(&options)?;
    let mut screen = Screen::new(args.json.json);
    let stopped = watch(args, &client, &cancel, &mut screen)?;
    client.finish();
    let counts = client.join()?;
    let server = announced.and_then(|before| {
        let after = report::ask(args.server);
        let why = |error| progress::warn(&format!("{error}; what it has counted is not shown"));
        Some((before, after.map_err(why).ok()?))
    });
    let report = ClientReport::new(&flows, &counts, settings.as_ref(), server.as_ref());
    screen.total(|| serde_json::to_string(&report), || report.text())?;
    Ok(stopped.map_or(Outcome::Done, Outcome::Signal))
}

fn payload_bytes(args: &ClientArgs) -> anyhow::Result<usize> {
    let headers = HEADERS_BYTES[usize::from(args.server.is_ipv6())];
    let least = headers + PAYLOAD_BYTES_MIN;
    ensure!(
        (least..=1514).contains(&args.size.into()),
        "--size {}: a frame of this client has {least} to 1514 bytes, without FCS",
        args.size
    );
    Ok(usize::from(args.size) - headers)
}

fn settings(
    args: &ClientArgs,
    announced: Option<&Announcement>,
) -> anyhow::Result<Option<Settings>> {
    if let Some(settings) = written(&args.spread) {
        return Ok(Some(settings));
    }
    announced
        .map(|announced| announced.settings().map_err(|why| anyhow::anyhow!("{why}")))
        .transpose()
}

/// Shows what there is until it has ended; the signal that ended it.
fn watch(
    args: &ClientArgs,
    client: &Client,
    cancel: &Cancel,
    screen: &mut Screen,
) -> anyhow::Result<Option<i32>> {
    let begin = Instant::now();
    let duration = args.duration.or_else(|| args.count.is_none().then_some(DURATION));
    let end = duration.and_then(|duration| begin.checked_add(duration));
    let (mut next, mut last) = (begin + args.interval, (begin, FlowCounts::default()));
    while client.is_running() {
        let wake = end.map_or(next, |end| end.min(next)).min(Instant::now() + LOOK_AGAIN);
        if !cancel.sleep_until(wake) {
            return Ok(cancel.signal());
        }
        let now = Instant::now();
        if end.is_some_and(|end| now >= end) {
            break;
        }
        if now >= next {
            next = now + args.interval;
            let all = sum(&client.flow_counts()?);
            let line = Interval::new(begin, last, all);
            screen.interval(
                || serde_json::to_string(&line),
                || line.text(),
                || line.text() + "\n",
            )?;
            last = (now, all);
        }
    }
    Ok(None)
}

fn sum(flows: &[FlowCounts]) -> FlowCounts {
    let mut all = FlowCounts::default();
    flows.iter().for_each(|flow| all.add(flow));
    all
}

/// What is shown each second.
#[derive(Debug, Serialize)]
struct Interval {
    kind: &'static str,
    duration_ns: u64,
    sent_pps: f64,
    received_pps: f64,
    sent_packets: u64,
    received_packets: u64,
}

impl Interval {
    fn new(begin: Instant, (from, before): (Instant, FlowCounts), now: FlowCounts) -> Self {
        let seconds = from.elapsed().as_secs_f64().max(1e-9);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        Self {
            kind: "interval",
            duration_ns: whole_ns(begin.elapsed()),
            sent_pps: rate(now.sent_packets, before.sent_packets),
            received_pps: rate(now.received_packets, before.received_packets),
            sent_packets: now.sent_packets,
            received_packets: now.received_packets,
        }
    }

    fn text(&self) -> String {
        format!(
            "{:.0} s  {} sent, {} came back; {} of {}",
            self.duration_ns as f64 / 1e9,
            pps(self.sent_pps),
            pps(self.received_pps),
            count(self.received_packets),
            count(self.sent_packets)
        )
    }
}

/// Quantiles of times, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Quantiles {
    median_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    max_ns: u64,
}

impl Quantiles {
    fn of(histogram: &Histogram) -> Option<Self> {
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
#[derive(Debug, Serialize)]
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

/// What is shown at the end.
#[derive(Debug, Serialize)]
struct ClientReport {
    kind: &'static str,
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
    fn new(
        flows: &[ClientFlow],
        counts: &ClientCounts,
        settings: Option<&Settings>,
        server: Option<&(Announcement, Announcement)>,
    ) -> Self {
        let all = sum(&counts.flows);
        let mut latency = Histogram::default();
        counts.latency_ns.iter().for_each(|one| latency.add(one));
        let seen = server.map(|(before, after)| after.counts.since(&before.counts));
        let seconds = counts.sending.as_secs_f64().max(1e-9);
        let mut buckets = rows(flows, counts);
        // The server's are those of its own settings; --table may have given others here.
        let are_same_buckets = server.is_some_and(|(before, after)| {
            [before, after].iter().all(|said| said.settings().ok().as_ref() == settings)
        });
        for row in &mut buckets {
            let there = seen.as_ref().filter(|_| are_same_buckets);
            let there = there.and_then(|seen| seen.buckets.get(row.bucket?));
            row.arrived_packets = there.map(|there| there.arrived_packets);
            row.misplaced_packets = there.map(|there| there.misplaced_packets);
        }
        Self {
            kind: "total",
            duration_ns: whole_ns(counts.sending),
            sent_pps: all.sent_packets as f64 / seconds,
            received_pps: all.received_packets as f64 / seconds,
            flow_count: flows.len(),
            sent_packets: all.sent_packets,
            refused_packets: all.refused_packets,
            server: seen.map(|seen| seen.totals()),
            server_losses: server.map(|(before, after)| after.losses.since(before.losses)),
            received_packets: all.received_packets,
            dropped_packets: all.dropped_packets,
            latency: Quantiles::of(&latency),
            lag: Quantiles::of(&counts.lag_ns),
            buckets,
        }
    }

    fn text(&self) -> String {
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

    /// The five counts, and what is missing between two of them.
    fn ways(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, packets: u64, before: Option<u64>, why: String| {
            let missing = before.map_or_else(String::new, |before| difference(before, packets));
            let line = format!("{what:<24} {:>14} {missing:>16}  {why}", count(packets));
            text += line.trim_end();
            text.push('\n');
        };
        let refused = format!("({} refused by the client's host)", count(self.refused_packets));
        line("sent by the client", self.sent_packets, None, refused);
        let mut before = self.sent_packets;
        if let Some(server) = self.server {
            if let Some(arrived) = server.arrived_packets {
                let Losses { device_packets, backlog_packets } =
                    self.server_losses.unwrap_or_default();
                let why = format!(
                    "({} lost by its interface, {} by backlogs)",
                    count(device_packets),
                    count(backlog_packets)
                );
                line("arrived at the server", arrived, Some(before), why);
                before = arrived;
            }
            let why = format!("({} dropped by its sockets)", count(server.dropped_packets));
            line("read by the server", server.read_packets, Some(before), why);
            let why = format!("({} refused by its host)", count(server.refused_packets));
            line("sent by the server", server.sent_packets, Some(server.read_packets), why);
            before = server.sent_packets;
        }
        let why = format!("({} dropped by the client's sockets)", count(self.dropped_packets));
        line("arrived at the client", self.received_packets, Some(before), why);
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

/// Flows of the same bucket together.
fn rows(flows: &[ClientFlow], counts: &ClientCounts) -> Vec<Row> {
    let mut sums = std::collections::BTreeMap::new();
    for (flow, (one, latency)) in flows.iter().zip(counts.flows.iter().zip(&counts.latency_ns)) {
        let entry = (0, FlowCounts::default(), Histogram::default());
        let (flow_count, all, latencies) = sums.entry(flow.place).or_insert(entry);
        *flow_count += 1;
        all.add(one);
        latencies.add(latency);
    }
    let row = |(place, (flow_count, all, latency)): (
        Option<(usize, u16)>,
        (usize, FlowCounts, Histogram),
    )| Row {
        bucket: place.map(|(bucket, _)| bucket),
        queue: place.map(|(_, queue)| queue),
        flow_count,
        sent_packets: all.sent_packets,
        refused_packets: all.refused_packets,
        arrived_packets: None,
        misplaced_packets: None,
        received_packets: all.received_packets,
        dropped_packets: all.dropped_packets,
        latency: Quantiles::of(&latency),
    };
    sums.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
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
        let report = ClientReport::new(&flows, &counts, None, None);
        let buckets: Vec<_> = report.buckets.iter().map(|row| row.bucket).collect();
        assert_eq!(buckets, [Some(2), Some(4)]);
        assert_eq!((report.buckets[1].sent_packets, report.buckets[1].flow_count), (20, 2));
        assert_eq!((report.sent_pps, report.received_pps), (15.0, 10.5));
        let text = report.text();
        assert!(
            text.contains("arrived at the client                21           9 less"),
            "{text}"
        );
        assert!(text.contains("latency: median 50 ns") && !text.contains("lateness"), "{text}");
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
            let report = ClientReport::new(&flows, &counts, Some(settings), Some(&server));
            assert_eq!(report.buckets[0].arrived_packets, arrived);
            assert_eq!(report.server.and_then(|server| server.arrived_packets), Some(14));
            assert!(report.text().contains("5 more"), "{}", report.text());
        }
        assert_eq!([difference(5, 5), difference(5, 3)], ["0 less", "2 less"]);
        assert_eq!(difference(0, u64::MAX), "18446744073709551615 more");
    }
}
