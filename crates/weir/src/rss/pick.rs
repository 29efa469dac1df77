//! `weir rss pick`: flows that reach given buckets.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_results::number::{count, counted};
use weir_wire::flow::FlowSpace;
use weir_wire::rss::pick::{Picked, Selection, Wish, pick};
use weir_wire::rss::{Steering, Toeplitz};

use super::{answer, settings};
use crate::buckets;
use crate::cli::rss::PickArgs;
use crate::exit::Outcome;

/// Most flows that are tried: a few seconds' work.
const TRIES_MAX: u64 = 1 << 28;
/// Most streams of a file for `weir gen`.
const STREAMS_MAX: usize = 256;

#[derive(Debug, Serialize)]
struct Answer {
    flows: Vec<Found>,
    /// Buckets with fewer flows than asked for.
    missing_buckets: Vec<usize>,
    tried_count: u64,
}

#[derive(Debug, Serialize)]
struct Found {
    bucket: usize,
    queue: u16,
    client: SocketAddr,
    server: SocketAddr,
    hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_bucket: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_queue: Option<u16>,
}

pub(super) fn command(args: &PickArgs) -> anyhow::Result<Outcome> {
    let space = FlowSpace::new(args.client, args.server)?;
    let steering = settings::steering(&args.steering, args.client.is_ipv6())?;
    let buckets = buckets::parse(&args.buckets, steering.table.bucket_count())?;
    let wish = Wish {
        flows_per_bucket: args.flows,
        answers: args.answer_queue.map(|queue| answers(args, &steering, queue)).transpose()?,
        buckets,
    };
    if args.stream.is_some() {
        let flow_count = wish.buckets.len().saturating_mul(args.flows);
        ensure!(
            flow_count <= STREAMS_MAX,
            "--stream: {flow_count} flows are more than a file of streams holds ({STREAMS_MAX}): \
             ask for fewer buckets or flows"
        );
    }
    let selection = pick(&steering, &space, &wish, TRIES_MAX);
    let found = Answer::new(&selection);
    if let Some(file) = &args.stream {
        std::fs::write(file, streams(&found.flows))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    answer(args.json.json, &found, || found.text())?;
    if found.missing_buckets.is_empty() {
        return Ok(Outcome::Done);
    }
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(anstream::stderr(), "{}", found.missing_text(space.flow_count())));
    Ok(Outcome::No)
}

/// How the client's interface spreads answers, and the queue that they are to land on.
fn answers(args: &PickArgs, steering: &Steering, queue: u16) -> anyhow::Result<(Steering, u16)> {
    let mut client = steering.clone();
    if let Some(key) = &args.answer_key {
        client.toeplitz = Toeplitz::new(key);
    }
    if let Some(table) = &args.answer_table {
        client.table = table.clone();
    }
    ensure!(
        client.table.queues().contains(&queue),
        "--answer-queue {queue}: the table of the client's interface gives no bucket to that queue"
    );
    Ok((client, queue))
}

impl Answer {
    fn new(selection: &Selection) -> Self {
        let found = |picked: &Picked| Found {
            bucket: picked.place.bucket,
            queue: picked.place.queue,
            client: (picked.flow.src, picked.flow.src_port).into(),
            server: (picked.flow.dst, picked.flow.dst_port).into(),
            hash: format!("{:08x}", picked.place.hash),
            answer_bucket: picked.answer.map(|place| place.bucket),
            answer_queue: picked.answer.map(|place| place.queue),
        };
        Self {
            flows: selection.picked.iter().map(found).collect(),
            missing_buckets: selection.missing.clone(),
            tried_count: selection.tried_count,
        }
    }

    fn text(&self) -> String {
        self.flows.iter().fold(String::new(), |mut text, flow| {
            let Found { bucket, queue, client, server, hash, .. } = flow;
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{bucket} {queue} {client} {server} {hash}");
            text
        })
    }

    fn missing_text(&self, flow_count: u64) -> String {
        format!(
            "{} could not be reached by {}: give --client more addresses or ports (ports make no \
             difference where only addresses are hashed)",
            counted(self.missing_buckets.len() as u64, "bucket"),
            if self.tried_count < flow_count {
                format!("the first {} flows", count(self.tried_count))
            } else {
                format!("any of {}", counted(self.tried_count, "flow"))
            }
        )
    }
}

/// The flows as streams for `weir gen --stream`, named by their buckets.
fn streams(flows: &[Found]) -> String {
    flows.iter().fold(String::new(), |mut text, Found { bucket, client, server, .. }| {
        let stream = format!(
            "[[stream]]\nname = \"bucket {bucket}: {client}\"\nsrc = \"{client}\"\n\
             dst = \"{server}\"\n\n"
        );
        text.push_str(&stream);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_what_the_generator_reads() {
        let flow = |client: &str| Found {
            bucket: 7,
            queue: 1,
            client: client.parse().unwrap(),
            server: "[2001:2:0:8010::1]:80".parse().unwrap(),
            hash: String::new(),
            answer_bucket: None,
            answer_queue: None,
        };
        let text = streams(&[flow("[2001:2:0:10::1]:2000"), flow("[2001:2:0:10::2]:2001")]);
        let tables = weir_gen::stream_file::read(&text).unwrap();
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[1].description.get("src"), Some("[2001:2:0:10::2]:2001"));
    }
}
