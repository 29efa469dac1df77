//! What tx and ping send with: an interface that was looked at, and the backend that suits it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use weir_bpf::generator::SIZE_BYTES_MAX;
use weir_gen::backend::{BATCH_FRAMES, Backend, GeneratorReport, RunOptions};
use weir_gen::device::DeviceCounter;
use weir_gen::live::LiveGenerator;
use weir_gen::packet::PacketGenerator;
use weir_gen::pkt_gen::print::{self, Counters};
use weir_gen::pkt_gen::{Packets, Plan};
use weir_gen::preflight::{self, Path, PreflightError};
use weir_wire::mac::MacAddr;
use weir_wire::traffic::Traffic;
use weir_wire::units::Rate;

use super::{console, put};

/// Stands for the interface's address while only the sizes are wanted.
const ANY_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

/// Where packets are sent from, and how.
pub(super) struct Sender {
    pub(super) backend: Box<dyn Backend>,
    pub(super) path: Path,
    pub(super) traffic: Traffic,
    /// Of live frames, what the device has accepted before the first one: the kernel does not say
    /// when it loses one.
    accepted: Option<(DeviceCounter, u64)>,
}

impl Sender {
    /// Looks at the path, chooses the backend and makes it ready. Nothing is sent.
    pub(super) fn open(plan: &Plan) -> anyhow::Result<Self> {
        let Some(packets) = &plan.packets else {
            bail!("-f {} sends nothing", plan.function);
        };
        let cpus = cpus(plan)?;
        let (_, size_bytes_max) = Traffic::one(packets.stream(ANY_MAC))?.size_bytes_range();
        let mut path = preflight::interface(&plan.interface.name, size_bytes_max, false)?;
        let live = choose(&mut path, &cpus, size_bytes_max)?;
        if plan.verbose {
            path.notes.iter().for_each(|note| console::log("main", line!(), note));
        }
        let traffic = Traffic::one(packets.stream(interface_mac(packets, &path)?))?;
        let (backend, accepted): (Box<dyn Backend>, _) = if live {
            let counter = DeviceCounter::for_live(&path.link.name)?;
            let before = counter.read()?;
            let generator = LiveGenerator::with_private_park(&traffic, path.link.ifindex, &cpus)?;
            (Box::new(generator), Some((counter, before)))
        } else {
            (Box::new(PacketGenerator::new(&traffic, path.link.ifindex, &cpus)?), None)
        };
        Ok(Self { backend, path, traffic, accepted })
    }

    /// Prints what will be sent: the second line of standard output, and with -v the flows.
    pub(super) fn introduce(&self, plan: &Plan) -> anyhow::Result<()> {
        let Some(packets) = &plan.packets else { return Ok(()) };
        let link_mac = self.path.link.mac.map(|mac| MacAddr(mac).to_string()).unwrap_or_default();
        let src_mac = packets.src_mac_text.as_deref().unwrap_or(&link_mac);
        let (src, dst) = (&packets.src_text, &packets.dst_text);
        put(&print::ends(src, dst, src_mac, &packets.dst_mac_text))?;
        let flow_count = self.traffic.flow_count();
        console::log("main", line!(), &format!("{flow_count} flows"));
        if plan.verbose {
            for (spec, _) in self.traffic.streams() {
                console::log("main", line!(), &format!("source {}", spec.src));
                console::log("main", line!(), &format!("destination {}", spec.dst));
            }
        }
        Ok(())
    }

    /// Options of a run of `packet_limit` packets at `rate_pps`, from packet `first_sequence` on.
    pub(super) fn options(
        rate_pps: Option<u64>,
        packet_limit: Option<u64>,
        first_sequence: u64,
    ) -> RunOptions {
        RunOptions {
            rate: rate_pps.map_or(Rate::Max, |rate_pps| Rate::Pps(rate_pps as f64)),
            ramp: Duration::ZERO,
            packet_limit,
            first_sequence,
            timestamps: true,
        }
    }

    /// Refuses to go on if all that was sent so far was lost.
    pub(super) fn check_accepted(&self, offered_packets: u64) -> anyhow::Result<()> {
        if let Some((counter, before)) = &self.accepted {
            let accepted = counter.read()?.saturating_sub(*before);
            preflight::check_accepted(&self.path, offered_packets, accepted, counter.name())
                .map_err(|error| refusal(&error))?;
        }
        Ok(())
    }
}

/// What was sent, by pkt-gen's names. A batch is what a thread hands over at once.
pub(super) fn counted(packets: u64, bytes: u64, paced: bool) -> Counters {
    let batch = if paced { 1 } else { u64::from(BATCH_FRAMES) };
    Counters { packets, bytes, batches: packets.div_ceil(batch) }
}

/// The same of a run that has ended: every thread's last batch may be a part.
pub(super) fn counted_by_thread(report: &GeneratorReport, paced: bool) -> Counters {
    let threads = report.threads.iter().map(|thread| thread.counters);
    threads.fold(Counters::default(), |all, thread| {
        let thread = counted(thread.offered_packets, thread.offered_bytes, paced);
        Counters {
            packets: all.packets + thread.packets,
            bytes: all.bytes + thread.bytes,
            batches: all.batches + thread.batches,
        }
    })
}

/// A CPU for each thread: those of -a, or the first ones that this process may use.
fn cpus(plan: &Plan) -> anyhow::Result<Vec<u32>> {
    let count = usize::from(plan.threads);
    let placed: Option<Vec<u32>> =
        (0..plan.threads).map(|thread| plan.placement.cpu(thread)).collect();
    if let Some(cpus) = placed {
        let twice = cpus.iter().enumerate().find(|(index, cpu)| cpus[..*index].contains(cpu));
        if let Some((thread, cpu)) = twice {
            bail!(
                "-p {count} with this -a and -c: thread {thread} would be the second one on CPU \
                 {cpu}, but each needs its own CPU"
            );
        }
        return Ok(cpus);
    }
    let online: Vec<usize> = weir_net::cpu::online()?.iter().collect();
    if count > online.len() {
        bail!(
            "-p {count}: each thread needs its own CPU, but this process may use {}",
            online.len()
        );
    }
    let cpus: Result<Vec<u32>, _> = online[..count].iter().map(|&cpu| u32::try_from(cpu)).collect();
    cpus.context("a CPU's number is too large")
}

/// Whether live frames can be sent; if not, packet sockets must do. A path that would lose
/// everything is refused.
fn choose(path: &mut Path, cpus: &[u32], size_bytes_max: u16) -> anyhow::Result<bool> {
    let fall_back = |why: &str| {
        let text = format!("{why}: packet sockets are used, which are about ten times slower");
        console::log("main", line!(), &text);
    };
    if size_bytes_max > SIZE_BYTES_MAX {
        preflight::queues(path, cpus.len())?;
        fall_back(&format!("frames of more than {SIZE_BYTES_MAX} bytes are too large for XDP"));
        return Ok(false);
    }
    match preflight::live(path, cpus) {
        Ok(()) => Ok(true),
        Err(PreflightError::NoTransmit { interface, driver }) => {
            fall_back(&format!("driver {driver} of `{interface}` does not transmit XDP frames"));
            Ok(false)
        }
        Err(error) => Err(refusal(&error)),
    }
}

/// A refusal, without advice that names options which pkt-gen does not have.
fn refusal(error: &PreflightError) -> anyhow::Error {
    let text = error.to_string();
    anyhow::anyhow!(text.replace("`--backend packet`", "`weir gen --backend packet`"))
}

fn interface_mac(packets: &Packets, path: &Path) -> anyhow::Result<MacAddr> {
    match (path.link.mac, &packets.src_mac_text) {
        (Some(mac), _) => Ok(MacAddr(mac)),
        (None, Some(_)) => Ok(ANY_MAC),
        (None, None) => bail!("`{}` has no MAC address: give one with -S", path.link.name),
    }
}
