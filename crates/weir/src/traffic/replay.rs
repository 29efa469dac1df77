//! `weir gen --pcap`: from a capture file to a plan, and its backends.
//!
//! Everything that can be refused is refused here, before a socket is opened or a file made.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::packet::PacketGenerator;
use weir_gen::pcap::PcapGenerator;
use weir_gen::preflight;
use weir_gen::replay::{Replay, ReplayTiming};
use weir_gen::stream;
use weir_gen::units::{Rate, format_count, format_duration};
use weir_wire::mac::MacAddr;

use super::plan::{Content, Plan, count_within, need_interface, placement};
use crate::cli::traffic::{BackendName, GenArgs, RateArg};

/// A file that will be sent.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) file: PathBuf,
    pub(super) replay: Arc<Replay>,
    pub(super) timing: ReplayTiming,
    /// How often; 0 is without end.
    pub(super) loops: u64,
}

impl Recording {
    /// Reads and checks the file, and rewrites its addresses.
    fn read(args: &GenArgs, file: &Path) -> anyhow::Result<Self> {
        let name = file.display();
        let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
        let mut replay = Replay::parse(bytes).with_context(|| name.to_string())?;
        let (src, dst) = args.one.macs();
        let src = mac("--src-mac", src)?;
        if let Some(src) = src.filter(MacAddr::is_multicast) {
            bail!("--src-mac: {src} cannot be a source: it is a multicast or broadcast address");
        }
        replay.rewrite(src, mac("--dst-mac", dst)?);
        let timing = match args.rate() {
            RateArg::Recorded => ReplayTiming::Recorded,
            RateArg::Rate(_) => ReplayTiming::Rate,
        };
        let loops = args.replay.loops.unwrap_or(1);
        if timing == ReplayTiming::Recorded && loops != 1 && replay.duration().is_zero() {
            bail!(
                "{name} has no times between its packets, by which it could be repeated: give a \
                 --rate (`max` is one too)"
            );
        }
        Ok(Self { file: file.to_owned(), replay: Arc::new(replay), timing, loops })
    }

    /// The backend, ready to start.
    pub(super) fn backend(
        &self,
        backend: &BackendName,
        ifindex: Option<u32>,
        cpus: &[u32],
    ) -> anyhow::Result<Box<dyn Backend>> {
        let replay = Arc::clone(&self.replay);
        Ok(match (backend, ifindex, cpus) {
            (BackendName::Pcap(file), ..) => {
                Box::new(PcapGenerator::replay(replay, self.timing, file))
            }
            (BackendName::Packet, Some(ifindex), [cpu]) => {
                Box::new(PacketGenerator::replay(replay, self.timing, ifindex, *cpu)?)
            }
            _ => bail!("a file is sent from one interface, by one thread"),
        })
    }

    /// The file, for people.
    pub(super) fn describe(&self) -> String {
        let loops = match self.loops {
            0 => ", again and again".to_owned(),
            1 => String::new(),
            count => format!(", {} times", format_count(count)),
        };
        format!(
            "{}: {} packets, {} bytes, recorded over {}{loops}",
            self.file.display(),
            format_count(self.replay.packet_count()),
            format_count(self.replay.byte_count()),
            format_duration(self.replay.duration()),
        )
    }

    /// How many packets are due within a time, at a rate or as recorded; `None` at `max`.
    pub(super) fn due(&self, options: &RunOptions, duration: Duration) -> Option<f64> {
        match self.timing {
            // Without time in the file, all packets are due at once, and no rate was asked for.
            ReplayTiming::Recorded => Some(self.replay.count_within(duration))
                .filter(|count| *count != u64::MAX)
                .map(|count| count as f64),
            ReplayTiming::Rate => {
                let schedule = options.schedule().ok().flatten();
                schedule.map(|schedule| schedule.packets_by(duration))
            }
        }
    }
}

fn mac(option: &str, text: Option<&str>) -> anyhow::Result<Option<MacAddr>> {
    text.map(|text| text.parse().with_context(|| option.to_owned())).transpose()
}

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
        RateArg::Rate(rate) => stream::resolve_rate(rate, recording.replay.mean_bytes(), line_bps)?,
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
            "a file is written in no time: --duration needs a --rate to become a number of \
             packets, or give --count"
        ),
    };
    packet_limit = [packet_limit, by_time].into_iter().flatten().min();
    if packet_limit.is_none() {
        bail!("a capture file needs an end: give --loops or --count");
    }
    Ok((RunOptions { packet_limit, ..options }, None))
}
