//! `weir rss hash`: a line for each flow.

use std::io::{BufWriter, Write as _};

use anyhow::Context as _;
use serde::Serialize;
use weir_wire::flow::FlowSpace;

use super::settings;
use crate::cli::rss::FlowsArgs;
use crate::exit::{NO_OUTPUT, Outcome};

/// A flow as JSON has it.
#[derive(Debug, Serialize)]
struct Hashed {
    src: String,
    dst: String,
    /// Eight hexadecimal digits.
    hash: String,
    /// Only where a table is known.
    #[serde(flatten)]
    target: Option<Target>,
}

#[derive(Debug, Serialize)]
struct Target {
    bucket: usize,
    queue: u16,
}

pub(super) fn command(args: &FlowsArgs) -> anyhow::Result<Outcome> {
    let space = FlowSpace::new(args.src, args.dst)?;
    let steering = settings::hashing(&args.steering, args.src.is_ipv6())?;
    let mut out = BufWriter::new(anstream::stdout());
    for (flow, place) in steering.places(&space) {
        let [src, dst] = [(flow.src, flow.src_port), (flow.dst, flow.dst_port)]
            .map(|end| std::net::SocketAddr::from(end).to_string());
        let hash = format!("{:08x}", place.hash);
        let line = if args.json.json {
            let target = args
                .steering
                .has_table()
                .then_some(Target { bucket: place.bucket, queue: place.queue });
            serde_json::to_string(&Hashed { src, dst, hash, target })
                .context("the answer cannot be written as JSON")?
        } else {
            format!("{src} {dst} {hash}")
        };
        writeln!(out, "{line}").context(NO_OUTPUT)?;
    }
    out.flush().context(NO_OUTPUT)?;
    Ok(Outcome::Done)
}
