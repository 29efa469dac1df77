//! From the arguments of `weir gen` to what will be sent, over which path, from where.
//!
//! Everything that can be refused is refused here, before anything is loaded or attached.

use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_gen::backend::{Backend, RunOptions};
use weir_gen::device::DeviceCounter;
use weir_gen::live::LiveGenerator;
use weir_gen::packet::PacketGenerator;
use weir_gen::pcap::PcapGenerator;
use weir_gen::preflight::{self, Path};
use weir_net::CpuList;
use weir_wire::traffic::{self, Traffic};
use weir_wire::units::Rate;

use super::recording::Recording;
use super::streams::Streams;
use crate::cli::traffic::{BackendName, GenArgs, RateArg};

/// What will be sent.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) content: Content,
    /// As it was written; the options' is in packets per second.
    pub(super) requested: RateArg,
    pub(super) options: RunOptions,
    pub(super) duration: Option<Duration>,
    pub(super) interval: Duration,
    pub(super) backend: BackendName,
    pub(super) path: Option<Path>,
    pub(super) cpus: Vec<u32>,
    pub(super) thread_count: u8,
    pub(super) notes: Vec<String>,
}

/// The packets of a run.
#[derive(Debug)]
pub(super) enum Content {
    /// Streams, and their names in the same order.
    Streams(Traffic, Vec<String>),
    /// A file.
    Replay(Recording),
}

impl Content {
    /// The mean frame size, bytes without FCS.
    pub(super) fn mean_bytes(&self) -> f64 {
        match self {
            Self::Streams(traffic, _) => traffic.mean_bytes(),
            Self::Replay(recording) => recording.replay.mean_bytes(),
        }
    }

    /// The smallest and the largest frame, bytes without FCS.
    pub(super) fn size_bytes_range(&self) -> (usize, usize) {
        match self {
            Self::Streams(traffic, _) => {
                let (min_bytes, max_bytes) = traffic.size_bytes_range();
                (min_bytes.into(), max_bytes.into())
            }
            Self::Replay(recording) => recording.replay.size_bytes_range(),
        }
    }
}

impl Plan {
    /// The plan of streams.
    pub(super) fn of_streams(args: &GenArgs) -> anyhow::Result<Self> {
        if args.replay.loops.is_some() {
            bail!("--loops repeats a capture file: give one with --pcap, or leave it out");
        }
        let mut streams = Streams::read(args)?;
        let (_, size_bytes_max) = streams.traffic()?.size_bytes_range();
        let tagged = streams.traffic()?.streams().iter().any(|(spec, _)| !spec.tags.is_empty());
        need_interface(args)?;
        let RateArg::Rate(requested) = args.rate() else {
            bail!("--rate recorded needs a file that was recorded: --pcap FILE");
        };
        let (cpus, thread_count) = placement(args)?;
        let mut path = args
            .interface
            .as_deref()
            .map(|name| preflight::interface(name, size_bytes_max, tagged))
            .transpose()?;
        match (&args.backend(), &mut path) {
            (BackendName::Live, Some(path)) => preflight::live(path, &cpus)?,
            (BackendName::Packet, Some(path)) => preflight::queues(path, cpus.len())?,
            _ => {}
        }
        let mut notes = std::mem::take(&mut streams.notes);
        notes.extend(path.iter_mut().flat_map(|path| std::mem::take(&mut path.notes)));
        streams.address(args.interface.as_deref(), path.as_ref())?;
        let traffic = streams.traffic()?;
        let line_bps = path.as_ref().and_then(|path| path.line_bps);
        let rate = traffic::resolve_rate(requested, traffic.mean_bytes(), line_bps)?;
        let (options, duration) = ending(args, rate)?;
        Ok(Self {
            content: Content::Streams(traffic, streams.names),
            requested: args.rate(),
            options,
            duration,
            interval: args.interval,
            backend: args.backend(),
            path,
            cpus,
            thread_count,
            notes,
        })
    }

    /// The backend, ready to start.
    pub(super) fn backend(&self) -> anyhow::Result<Box<dyn Backend>> {
        let ifindex = self.path.as_ref().map(|path| path.link.ifindex);
        let traffic = match &self.content {
            Content::Streams(traffic, _) => traffic,
            Content::Replay(recording) => {
                return recording.backend(&self.backend, ifindex, &self.cpus);
            }
        };
        Ok(match (&self.backend, ifindex) {
            (BackendName::Pcap(file), _) => {
                Box::new(PcapGenerator::new(traffic, file, self.thread_count.into())?)
            }
            (BackendName::Live, Some(ifindex)) => {
                Box::new(LiveGenerator::with_private_park(traffic, ifindex, &self.cpus)?)
            }
            (BackendName::Packet, Some(ifindex)) => {
                Box::new(PacketGenerator::new(traffic, ifindex, &self.cpus)?)
            }
            (_, None) => bail!("an interface to send from is missing: `-i IF`"),
        })
    }

    /// The device's count of what it accepted; a file has none.
    pub(super) fn counter(&self) -> anyhow::Result<Option<DeviceCounter>> {
        let Some(path) = &self.path else { return Ok(None) };
        Ok(match self.backend {
            BackendName::Live => Some(DeviceCounter::for_live(&path.link.name)?),
            BackendName::Packet => Some(DeviceCounter::for_packet(&path.link.name)),
            BackendName::Pcap(_) => None,
        })
    }
}

/// Refuses a backend that needs an interface without one.
pub(super) fn need_interface(args: &GenArgs) -> anyhow::Result<()> {
    if args.interface.is_none() && !matches!(args.backend(), BackendName::Pcap(_)) {
        bail!("an interface to send from is missing: `-i IF`");
    }
    Ok(())
}

/// The CPUs to send from, and the number of threads.
pub(super) fn placement(args: &GenArgs) -> anyhow::Result<(Vec<u32>, u8)> {
    if matches!(args.backend(), BackendName::Pcap(_)) {
        if args.cpus.is_some() {
            bail!("--cpus has no meaning with --backend pcap:FILE: leave it out");
        }
        return Ok((Vec::new(), args.threads.unwrap_or(1)));
    }
    sending_cpus(args.cpus.as_ref(), args.threads)
}

/// The CPUs of threads that send, and their number: those that are given, or as many as are asked
/// for.
pub(crate) fn sending_cpus(
    cpus: Option<&CpuList>,
    threads: Option<u8>,
) -> anyhow::Result<(Vec<u32>, u8)> {
    let given = cpus.map(CpuList::iter).map(Iterator::collect::<Vec<_>>);
    let asked = threads.map(usize::from);
    if let (Some(cpus), Some(threads)) = (&given, asked)
        && cpus.len() != threads
    {
        bail!(
            "--threads {threads} and the {} CPUs of --cpus do not fit: each thread needs its own \
             CPU",
            cpus.len()
        );
    }
    let count = given.as_ref().map(Vec::len).or(asked).unwrap_or(1);
    let thread_count = u8::try_from(count)
        .with_context(|| format!("{count} threads are too many: weir can number 255"))?;
    let online: Vec<usize> = weir_net::cpu::online()?.iter().collect();
    let cpus = match given {
        Some(cpus) => cpus,
        None if count <= online.len() => online[..count].to_vec(),
        None => bail!(
            "{count} threads need as many CPUs, but this process may use {}: use fewer threads",
            online.len()
        ),
    };
    if let Some(cpu) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        bail!("CPU {cpu} of --cpus is not online, or not allowed for this process");
    }
    let cpus: Result<Vec<u32>, _> = cpus.into_iter().map(u32::try_from).collect();
    Ok((cpus?, thread_count))
}

/// When the run ends: a number of packets, a time, both (whichever comes first) or neither.
fn ending(args: &GenArgs, rate: Rate) -> anyhow::Result<(RunOptions, Option<Duration>)> {
    let ramp = args.ramp.unwrap_or(Duration::ZERO);
    let mut options = RunOptions {
        rate,
        ramp,
        packet_limit: args.count,
        first_sequence: 0,
        timestamps: !args.no_stamps,
    };
    let schedule = options.schedule()?;
    if !matches!(args.backend(), BackendName::Pcap(_)) {
        return Ok((options, args.duration));
    }
    // A file is written in no time: what a duration means is how many packets it has.
    let by_time = match (schedule, args.duration) {
        (Some(schedule), Some(duration)) => Some(count_within(schedule.packets_by(duration))),
        (None, Some(_)) => bail!(
            "writing a file takes no time: --duration needs a --rate to become a number of \
             packets, or give --count"
        ),
        (_, None) => None,
    };
    options.packet_limit = match (args.count, by_time) {
        (Some(count), Some(by_time)) => Some(count.min(by_time)),
        (count, by_time) => count.or(by_time),
    };
    if options.packet_limit.is_none() {
        bail!("a capture file needs an end: give --count, or --rate and --duration");
    }
    Ok((options, None))
}

/// Packets that are due before the end of a time in which `packets` are due.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion from floating point saturates, and the number is not negative"
)]
pub(super) fn count_within(packets: f64) -> u64 {
    packets.ceil() as u64
}
