//! `weir echo ask`: what a server says of itself.

use weir_gen::echo::report::{self, Announcement, ServerCounts};
use weir_results::number::{count, counted};

use crate::cli::echo::AskArgs;
use crate::exit::{self, Outcome};

pub(super) fn command(args: &AskArgs) -> anyhow::Result<Outcome> {
    let said = report::ask(args.server)?;
    exit::put(&match (args.json.json, args.counts) {
        (true, _) => exit::json(&said)?,
        (false, true) => counts(&said.counts),
        (false, false) => text(&said),
    })?;
    Ok(Outcome::Done)
}

/// A name and a number in each line.
fn counts(counts: &ServerCounts) -> String {
    let totals = counts.totals();
    let sums = [
        ("arrived_packets", totals.arrived_packets),
        ("misplaced_packets", totals.arrived_packets.map(|_| totals.misplaced_packets)),
        ("read_packets", Some(totals.read_packets)),
        ("sent_packets", Some(totals.sent_packets)),
        ("refused_packets", Some(totals.refused_packets)),
        ("dropped_packets", Some(totals.dropped_packets)),
    ];
    let sums = sums.into_iter().filter_map(|(name, sum)| Some(format!("{name} {}\n", sum?)));
    let buckets = counts.buckets.iter().enumerate();
    let buckets = buckets
        .map(|(bucket, one)| format!("bucket_{bucket}_arrived_packets {}\n", one.arrived_packets));
    sums.chain(buckets).collect()
}

fn text(said: &Announcement) -> String {
    let totals = said.counts.totals();
    let queues = said.table.iter().max().map_or(0, |queue| u64::from(*queue) + 1);
    let arrived = totals.arrived_packets.map_or_else(|| "not counted".to_owned(), count);
    let echoes = if said.echoes { "returned" } else { "only read" };
    format!(
        "key       {}\ntable     {} over {}\nfields    udp4 {}, udp6 {}\ndatagrams {echoes}\n\
         arrived   {arrived}\nread      {}\nsent      {}\n",
        said.key,
        counted(said.table.len() as u64, "bucket"),
        counted(queues, "queue"),
        said.fields[weir_wire::rss::FlowKind::Udp4 as usize],
        said.fields[weir_wire::rss::FlowKind::Udp6 as usize],
        count(totals.read_packets),
        count(totals.sent_packets),
    )
}

#[cfg(test)]
mod tests {
    use weir_gen::echo::report::{BucketCounts, Losses, WorkerCounts};

    use super::*;

    #[test]
    fn settings_and_counts_are_in_lines() {
        let settings = super::super::settings("0,1,0".parse().unwrap(), None, None);
        let counts = ServerCounts::default();
        let text = text(&Announcement::new(&settings, true, counts, Losses::default()));
        assert!(
            text.contains("3 buckets over 2 queues") && text.contains("udp4 4-tuple"),
            "{text}"
        );
        assert!(text.contains("arrived   not counted"), "{text}");
    }

    #[test]
    fn counts_are_names_and_numbers() {
        let bucket = |arrived_packets| BucketCounts { arrived_packets, ..BucketCounts::default() };
        let worker =
            WorkerCounts { read_packets: 5, dropped_packets: 2, ..WorkerCounts::default() };
        let workers = vec![worker];
        let all =
            ServerCounts { workers, buckets: vec![bucket(3), bucket(4)], ..Default::default() };
        let text = counts(&all);
        assert!(text.starts_with("arrived_packets 7\nmisplaced_packets 0\nread_packets 5\n"));
        assert!(
            text.ends_with("bucket_0_arrived_packets 3\nbucket_1_arrived_packets 4\n"),
            "{text}"
        );
        // Where nobody looks at what comes in, nothing is said of it.
        assert!(counts(&ServerCounts::default()).starts_with("read_packets 0\n"));
    }
}
