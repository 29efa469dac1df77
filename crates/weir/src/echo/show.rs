//! What a server has counted, worker by worker and bucket by bucket.

use std::fmt::Write as _;

use serde::Serialize;
use weir_gen::echo::report::{BucketCounts, Losses, ServerCounts, ServerTotals, WorkerCounts};
use weir_results::number::{count, pps, share};
use weir_rss::{Each, Options};
use weir_wire::rss::Settings;

/// What was counted up to some time.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) counts: ServerCounts,
    pub(super) losses: Losses,
}

/// A JSON object: the counts since the start, and rates since the last one.
#[derive(Debug, Serialize)]
pub(super) struct ServerReport {
    kind: &'static str,
    duration_ns: u64,
    arrived_pps: f64,
    sent_pps: f64,
    #[serde(flatten)]
    totals: ServerTotals,
    misplaced_ratio: f64,
    losses: Losses,
    workers: Vec<WorkerRow>,
    buckets: Vec<BucketRow>,
}

#[derive(Debug, Serialize)]
struct WorkerRow {
    worker: usize,
    #[serde(flatten)]
    counts: WorkerCounts,
    /// Share of a CPU's time since the last report.
    cpu_ratio: f64,
}

#[derive(Debug, Serialize)]
struct BucketRow {
    bucket: usize,
    queue: u16,
    /// Who works on it, alone or on all of its queue; `None` where there is nobody.
    worker: Option<usize>,
    #[serde(flatten)]
    counts: BucketCounts,
    /// Since the last report.
    arrived_pps: f64,
}

/// Number of workers that sockets are opened for.
pub(super) fn worker_count(options: &Options) -> usize {
    match options.each {
        Each::Queue => options.settings.table.queue_count(),
        Each::Bucket => options.settings.table.bucket_count(),
    }
}

/// Of a server with these settings; rates are since `last`, or else since the start.
pub(super) fn server(
    kind: &'static str,
    settings: &Settings,
    seen: &Seen,
    last: Option<&Seen>,
) -> ServerReport {
    let nothing = ServerCounts::default();
    let rise = seen.counts.since(last.map_or(&nothing, |last| &last.counts));
    let seconds = (rise.duration_ns as f64 / 1e9).max(1e-9);
    let (risen, totals) = (rise.totals(), seen.counts.totals());
    let arrived = totals.arrived_packets.unwrap_or(totals.read_packets);
    let workers = seen.counts.workers.iter().zip(&rise.workers).enumerate();
    let is_alone = seen.counts.workers.len() == seen.counts.buckets.len();
    let worker_of = |bucket: usize, queue: u16| {
        let worker = if is_alone { bucket } else { queue.into() };
        (worker < seen.counts.workers.len()).then_some(worker)
    };
    let buckets = seen.counts.buckets.iter().zip(&rise.buckets);
    let buckets = buckets.zip(settings.table.queues()).enumerate();
    ServerReport {
        kind,
        duration_ns: seen.counts.duration_ns,
        arrived_pps: risen.arrived_packets.unwrap_or(risen.read_packets) as f64 / seconds,
        sent_pps: risen.sent_packets as f64 / seconds,
        totals,
        misplaced_ratio: totals.misplaced_packets as f64 / arrived.max(1) as f64,
        losses: seen.losses,
        workers: workers
            .map(|(worker, (counts, rise))| WorkerRow {
                worker,
                counts: counts.clone(),
                cpu_ratio: rise.cpu_time_ns as f64 / 1e9 / seconds,
            })
            .collect(),
        buckets: buckets
            .map(|(bucket, ((counts, rise), queue))| BucketRow {
                bucket,
                queue: *queue,
                worker: worker_of(bucket, *queue),
                counts: *counts,
                arrived_pps: rise.arrived_packets as f64 / seconds,
            })
            .collect(),
    }
}

impl ServerReport {
    pub(super) fn line(&self) -> String {
        let ServerTotals { read_packets, sent_packets, dropped_packets, .. } = self.totals;
        format!(
            "{:.0} s  {} in, {} out; {} arrived, {} read, {} sent; {} dropped by sockets, \
             misplaced {}",
            self.duration_ns as f64 / 1e9,
            pps(self.arrived_pps),
            pps(self.sent_pps),
            self.totals.arrived_packets.map_or_else(|| "?".to_owned(), count),
            count(read_packets),
            count(sent_packets),
            count(dropped_packets),
            share(self.misplaced_ratio),
        )
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.line() + "\n";
        // Writing to a text cannot fail.
        if !self.workers.is_empty() {
            let _ = writeln!(
                text,
                "\nworker  CPU         read         sent      refused      dropped    CPU time"
            );
        }
        for WorkerRow { worker, counts, cpu_ratio } in &self.workers {
            let cpu = counts.cpu.map_or_else(|| "-".to_owned(), |cpu| cpu.to_string());
            let _ = writeln!(
                text,
                "{worker:>6} {cpu:>4} {:>12} {:>12} {:>12} {:>12} {:>11}",
                count(counts.read_packets),
                count(counts.sent_packets),
                count(counts.refused_packets),
                count(counts.dropped_packets),
                share(*cpu_ratio),
            );
        }
        text += &bucket_lines(&self.buckets, &self.workers);
        let Losses { device_packets, backlog_packets } = self.losses;
        let _ = writeln!(
            text,
            "\nlost before the sockets: {} by the interface, {} by the host's backlogs",
            count(device_packets),
            count(backlog_packets)
        );
        text
    }
}

/// The buckets that something arrived for; with what became of it, where each has a worker.
fn bucket_lines(rows: &[BucketRow], workers: &[WorkerRow]) -> String {
    let mut text = String::new();
    let is_alone = rows.len() == workers.len();
    for BucketRow { bucket, queue, worker, counts, arrived_pps } in rows {
        let (arrived, misplaced) = (counts.arrived_packets, counts.misplaced_packets);
        if arrived == 0 {
            continue;
        }
        if text.is_empty() {
            text += "\nbucket  queue      arrived    misplaced         rate";
            if is_alone {
                text += "         read         sent      dropped    CPU time";
            }
            text.push('\n');
        }
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "{bucket:>6} {queue:>6} {:>12} {:>12} {:>12}",
            count(arrived),
            share(misplaced as f64 / arrived as f64),
            pps(*arrived_pps)
        );
        if let Some(WorkerRow { counts, cpu_ratio, .. }) =
            worker.filter(|_| is_alone).and_then(|worker| workers.get(worker))
        {
            let _ = write!(
                text,
                " {:>12} {:>12} {:>12} {:>11}",
                count(counts.read_packets),
                count(counts.sent_packets),
                count(counts.dropped_packets),
                share(*cpu_ratio)
            );
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_sums_rates_and_what_arrived() {
        let settings = super::super::settings("1,0".parse().expect("a table"), None, None);
        let worker = |read_packets| WorkerCounts {
            cpu: Some(3),
            read_packets,
            sent_packets: read_packets,
            cpu_time_ns: read_packets * 1_000_000,
            ..WorkerCounts::default()
        };
        let seen = |duration_ns, read| Seen {
            counts: ServerCounts {
                duration_ns,
                workers: vec![worker(read), worker(0)],
                buckets: vec![
                    BucketCounts {
                        arrived_packets: read + 5,
                        misplaced_packets: 5,
                        refused_packets: 0,
                    },
                    BucketCounts::default(),
                ],
                is_reflected: false,
            },
            losses: Losses { device_packets: 7, backlog_packets: 0 },
        };
        let (before, now) = (seen(1_000_000_000, 1000), seen(3_000_000_000, 1500));
        let report = server("interval", &settings, &now, Some(&before));
        assert_eq!((report.arrived_pps, report.sent_pps), (250.0, 250.0));
        assert!((report.workers[0].cpu_ratio - 0.25).abs() < 1e-9);
        assert_eq!((report.buckets[0].queue, report.totals.arrived_packets), (1, Some(1505)));
        assert_eq!((report.buckets[0].arrived_pps, report.buckets[1].arrived_pps), (250.0, 0.0));
        let text = report.text();
        assert!(text.contains("1,505 arrived, 1,500 read, 1,500 sent"), "{text}");
        assert!(text.contains("lost before the sockets: 7 by the interface"), "{text}");
        assert_eq!(text.matches("\n     1").count(), 1, "an idle bucket is left out: {text}");
    }
}
