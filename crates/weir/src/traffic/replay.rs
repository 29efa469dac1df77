//! `weir gen --pcap`: from a capture file to a plan.
//!
//! Everything that can be refused is refused here, before a socket is opened or a file made.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_gen::backend::RunOptions;
use weir_gen::preflight;
use weir_gen::replay::ReplayTiming;
use weir_wire::traffic;
use weir_wire::units::Rate;

use super::plan::{Content, Plan, count_within, need_interface, placement};
use super::recording::Recording;
use crate::cli::traffic::{BackendName, GenArgs, RateArg};

/// The plan of a replay.
pub(super) fn plan(args: &GenArgs, file: &Path) -> anyhow::Result<Plan> {
    let backend = args.backend();
    if backend == BackendName::Live {
        bail!(
            "--pcap is not sent by XDP live frames: use `--backend packet`, or leave --backend out"
        );
    }
    need_interface(args)?;
    if args.interface.is_some() && matches!(backend, BackendName::Pcap(_)) {
        bail!("--pcap into a file needs no interface: leave out -i, or --backend");
    }
    let (cpus, thread_count) = placement(args)?;
    if thread_count != 1 {
        bail!(
            "--pcap is sent by one thread, because {thread_count} threads would lose the order of \
             the packets: leave out --threads, and name one CPU"
        );
    }
    if let BackendName::Pcap(out) = &backend
        && let (Ok(from), Ok(to)) = (file.canonicalize(), out.canonicalize())
        && from == to
    {
        bail!("{} would be replaced by its own replay: write to another file", file.display());
    }
    let recording = Recording::read(args, file)?;
    let mut path = match (&args.interface, &backend) {
        (Some(interface), BackendName::Packet) => {
            Some(preflight::interface(interface, sendable_bytes(&recording)?, true)?)
        }
        _ => None,
    };
    let line_bps = path.as_ref().and_then(|path| path.line_bps);
    let rate = match args.rate() {
        RateArg::Recorded => Rate::Max,
        RateArg::Rate(rate) => {
            traffic::resolve_rate(rate, recording.replay.mean_bytes(), line_bps)?
        }
    };
    if args.ramp.is_some() && args.rate() == RateArg::Recorded {
        bail!("--ramp needs a --rate to rise to, but the packets are sent as they were recorded");
    }
    let (options, duration) = ending(args, &recording, rate)?;
    let notes = path.iter_mut().flat_map(|path| std::mem::take(&mut path.notes)).collect();
    Ok(Plan {
        content: Content::Replay(recording),
        requested: args.rate(),
        options,
        duration,
        interval: args.interval,
        backend,
        path,
        cpus,
        thread_count,
        notes,
    })
}

/// The largest frame, if an interface can have such frames at all.
fn sendable_bytes(recording: &Recording) -> anyhow::Result<u16> {
    let (_, max_bytes) = recording.replay.size_bytes_range();
    u16::try_from(max_bytes).with_context(|| {
        let first = recording.replay.first_over(u16::MAX.into()).unwrap_or_default();
        format!(
            "{}: packet {first} is larger than 65535 bytes, which no interface sends: record with \
             segmentation and receive offloads off (`ethtool -K IF tso off gso off gro off`)",
            recording.file.display()
        )
    })
}

/// When the run ends: with the last round, a number of packets, a time, whichever comes first.
fn ending(
    args: &GenArgs,
    recording: &Recording,
    rate: Rate,
) -> anyhow::Result<(RunOptions, Option<Duration>)> {
    let rounds = recording.loops.saturating_mul(recording.replay.packet_count());
    let mut packet_limit =
        [args.count, Some(rounds).filter(|rounds| *rounds > 0)].into_iter().flatten().min();
    let ramp = args.ramp.unwrap_or(Duration::ZERO);
    let options = RunOptions { rate, ramp, packet_limit, first_sequence: 0, timestamps: false };
    let schedule = options.schedule()?;
    if !matches!(args.backend(), BackendName::Pcap(_)) {
        return Ok((options, args.duration));
    }
    // A file is written in no time: what a duration means is how many packets it has.
    let by_time = match (recording.timing, schedule, args.duration) {
        (_, _, None) => None,
        (ReplayTiming::Recorded, _, Some(time)) => Some(recording.replay.count_within(time)),
        (ReplayTiming::Rate, Some(schedule), Some(time)) => {
            Some(count_within(schedule.packets_by(time)))
        }
        (ReplayTiming::Rate, None, Some(_)) => bail!(
            "writing a file takes no time: --duration needs a --rate to become a number of \
             packets, or give --count"
        ),
    };
    packet_limit = [packet_limit, by_time].into_iter().flatten().min();
    if packet_limit.is_none() {
        bail!("a capture file needs an end: give --loops or --count");
    }
    Ok((RunOptions { packet_limit, ..options }, None))
}
