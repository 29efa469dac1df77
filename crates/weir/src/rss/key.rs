//! `weir rss key`: a random key without weaknesses, or the weaknesses of one.

use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use weir_wire::rss::Key;
use weir_wire::rss::table::BUCKET_COUNT_MAX;

use super::answer;
use crate::cli::rss::KeyArgs;
use crate::exit::Outcome;

#[derive(Debug, Serialize)]
struct Answer {
    key: String,
    bucket_count: usize,
    /// Keys that were drawn until this one; absent if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    drawn_count: Option<u64>,
    weaknesses: Vec<Weak>,
}

#[derive(Debug, Serialize)]
struct Weak {
    field: String,
    reached_bucket_count: u32,
    reachable_bucket_count: u32,
}

pub(super) fn command(args: &KeyArgs) -> anyhow::Result<Outcome> {
    ensure!(
        (1..=BUCKET_COUNT_MAX).contains(&args.buckets),
        "--buckets: a table has 1 to {BUCKET_COUNT_MAX} entries, not {}",
        args.buckets
    );
    let (key, drawn_count) = match &args.key {
        Some(key) => (key.clone(), None),
        None => {
            let seed = args.seed.map_or_else(random_seed, Ok)?;
            let (key, count) = Key::random(seed, args.bytes, args.buckets).context("--bytes")?;
            (key, Some(count))
        }
    };
    let weak = |weakness: weir_wire::rss::key::Weakness| Weak {
        field: weakness.to_string(),
        reached_bucket_count: weakness.reached_count,
        reachable_bucket_count: weakness.reachable_count,
    };
    let found = Answer {
        key: key.to_string(),
        bucket_count: args.buckets,
        drawn_count,
        weaknesses: key.weaknesses(args.buckets).into_iter().map(weak).collect(),
    };
    answer(args.json.json, &found, || found.text())?;
    Ok(if found.weaknesses.is_empty() { Outcome::Done } else { Outcome::No })
}

impl Answer {
    fn text(&self) -> String {
        if self.drawn_count.is_some() {
            return format!("{}\n", self.key);
        }
        if self.weaknesses.is_empty() {
            return format!("weak for no field with {} buckets\n", self.bucket_count);
        }
        let line = |weak: &Weak| {
            format!(
                "weak for {}: 256 in a row reach {} of {} buckets\n",
                weak.field, weak.reached_bucket_count, weak.reachable_bucket_count
            )
        };
        self.weaknesses.iter().map(line).collect()
    }
}

pub(super) fn random_seed() -> anyhow::Result<u64> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 8];
    let read = File::open(SOURCE).and_then(|mut file| file.read_exact(&mut bytes));
    read.with_context(|| format!("cannot read {SOURCE}"))?;
    Ok(u64::from_ne_bytes(bytes))
}
