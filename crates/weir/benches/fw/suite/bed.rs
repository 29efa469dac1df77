//! Where a device under test stands: the lab's own testbed, placed as this benchmark wants it.
//!
//! The device has a CPU to itself. Generator and sink share the other.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_bpf::attach::Link;
use weir_lab::dut::{self, DutDriver};
use weir_lab::model::NetnsSpec;
use weir_lab::testbed::netns::NetnsTestbed;
use weir_lab::testbed::{Burst, Rig, Testbed as _, Topology};
use weir_machine::cancel::Cancel;
use weir_machine::host::Host;
use weir_net::registry::clean_leftovers;
use weir_net::{Netlink, Netns, napi};
use weir_oracle::bench::Router;
use weir_results::dut::Dut;
use weir_results::traffic::Traffic;
use weir_stats::priming::{self, Filled, Flows, Line};
use weir_wire::units::Rate;

use super::boxes::Box as Device;
use super::priority::{self, Measuring};
use super::rows::MOST;
use super::{Error, Result, Settings};
use crate::chrt;
use crate::near::Near;

/// The CPU of generator and sink, and that of the device under test.
const GENERATOR_CPU: u32 = 0;
const DUT_CPU: u32 = 1;

/// The device by which packets come, as the testbed calls it.
const DUT_IN: &str = "dut0";
/// The one by which they leave.
pub(crate) const DUT_OUT: &str = "dut1";
const SINK: &str = "sink0";

/// How often a sink that nobody wakes looks into its ring, which holds 256 frames, ns.
const SINK_POLL_NS: u64 = 40_000;

/// No fewer connections are made room for.
const CONNTRACK_MIN: u64 = 500_000;

/// How long the last packets of a burst are under way, and how often somebody looks.
const SETTLE: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(2);

/// The share of the flows that must be known before anything is measured.
const FILLED_SHARE_MIN: f64 = 0.995;

/// How the sink comes to know that something has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sink {
    /// The device's thread wakes it, which costs the device CPU time: for each group of frames
    /// that it sends, or for each frame if it sends them one by one.
    Woken,
    /// It looks by a timer (`gro_flush_timeout`, `napi_defer_hard_irqs`), which costs the device
    /// nothing, and the generator more.
    Polled,
}

/// Makes testbeds.
pub(crate) struct Bed {
    testbed: NetnsTestbed,
    near: Near,
    cancel: Cancel,
}

impl Bed {
    /// Takes the host for itself. If connections are to be tracked, there is room for all flows,
    /// as long as this lives.
    pub(crate) fn new(settings: &Settings, cancel: &Cancel) -> Result<Self> {
        let leftovers = clean_leftovers()?;
        if let Some(problem) = leftovers.problems.first() {
            return Err(problem.to_string().into());
        }
        let online = weir_net::cpu::online()?;
        if [GENERATOR_CPU, DUT_CPU].iter().any(|&cpu| !online.contains(cpu as usize)) {
            return Err(format!(
                "CPUs {GENERATOR_CPU} and {DUT_CPU} are needed, but only {online} are online"
            )
            .into());
        }
        let tracks = settings.rows.iter().any(|row| row.series.starts_with("nft_"));
        let spec = NetnsSpec {
            generator_cpus: Some(GENERATOR_CPU.to_string()),
            dut_cpus: Some(DUT_CPU.to_string()),
            sink_cpus: Some(GENERATOR_CPU.to_string()),
            napi_cpus: None,
            rps_cpus: None,
            queues: 1,
            rss: None,
            links: 1,
            mtu_bytes: None,
            conntrack_max: tracks.then(|| settings.scaled(MOST).max(CONNTRACK_MIN)),
        };
        Ok(Self {
            testbed: NetnsTestbed::new(&spec, Duration::ZERO, cancel.clone())?,
            near: Near::new([GENERATOR_CPU, DUT_CPU].map(|cpu| cpu as usize), settings.patience),
            cancel: cancel.clone(),
        })
    }

    /// Waits, or fails if the run is to stop.
    pub(crate) fn wait(&self, time: Duration) -> Result<()> {
        if self.cancel.sleep(time) { Ok(()) } else { Err("interrupted".into()) }
    }

    /// Takes a sample while generator and device are near each other.
    pub(crate) fn near<T>(&self, sample: impl FnMut() -> Result<T>) -> Result<T> {
        self.near.sample(&self.cancel, sample)
    }

    /// Samples that were taken while they were far apart.
    pub(crate) fn far_count(&self) -> u32 {
        self.near.far_count()
    }

    /// Sets a device up and starts it.
    pub(crate) fn stand(&self, device: Device, dut: &Dut, sink: Sink) -> Result<Stand<'_>> {
        let rig = self.testbed.build(Topology::Dut)?;
        let driver = dut::driver(dut);
        let mut stand = Stand {
            bed: self,
            rig: Some(rig),
            driver,
            link: None,
            thread: 0,
            started: Duration::ZERO,
            ready_at: Instant::now(),
        };
        stand.thread = stand.napi_thread("dut", DUT_IN)?;
        chrt::raise(stand.napi_thread("sink", SINK)?, priority::SINK)?;
        chrt::raise(stand.thread, priority::DEVICE)?;
        if sink == Sink::Polled {
            stand.poll_sink()?;
        }
        let begin = Instant::now();
        let host = host(stand.rig.as_deref())?;
        stand.driver.prepare(host)?;
        stand.driver.start(host)?;
        stand.driver.ready(host, &self.cancel)?;
        stand.started = begin.elapsed();
        stand.ready_at = Instant::now();
        if device == Device::Minimal {
            let router = Router::load()?;
            let netns = Netns::open(host.name())?;
            stand.link = Some(netns.run(|| -> Result<Link> {
                Ok(router.attach(Netlink::open()?.ifindex(DUT_IN)?)?)
            })??);
        }
        Ok(stand)
    }
}

fn host(rig: Option<&dyn Rig>) -> Result<&dyn Host> {
    Ok(rig.and_then(Rig::dut_host).ok_or("the testbed has no place for a device")?)
}

/// A device under test that is set up; taken down when it is dropped.
pub(crate) struct Stand<'a> {
    bed: &'a Bed,
    rig: Option<Box<dyn Rig>>,
    driver: Box<dyn DutDriver>,
    /// The minimal router's.
    link: Option<Link>,
    /// The thread that receives.
    thread: i32,
    started: Duration,
    ready_at: Instant,
}

/// What was delivered over a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// Packets per second of the time that others left to the device.
    pub(crate) pps: f64,
    /// CPU time of the device's thread for each of them, ns.
    pub(crate) cost_ns: f64,
    /// Packets per second that the generator offered.
    pub(crate) offered_pps: f64,
    /// Share of the time that others took from it.
    pub(crate) taken_share: f64,
    /// Share of the time that was left in which it had something to do.
    pub(crate) busy_share: f64,
    /// Packets that arrived at the sink.
    pub(crate) packets: u64,
}

impl Stand<'_> {
    /// How long it took from the first command until it was ready.
    pub(crate) fn started(&self) -> Duration {
        self.started
    }

    /// Waits until it has run for so long: weir loads the program of its second stage meanwhile.
    pub(crate) fn settle(&self, time: Duration) -> Result<()> {
        self.bed.wait(time.saturating_sub(self.ready_at.elapsed()))
    }

    /// Where it stands.
    pub(crate) fn host(&self) -> Result<&dyn Host> {
        host(self.rig.as_deref())
    }

    fn rig(&mut self) -> Result<&mut (dyn Rig + 'static)> {
        Ok(self.rig.as_deref_mut().ok_or("it is taken down")?)
    }

    /// One of the testbed's namespaces.
    fn netns(&self, role: &str) -> Result<Netns> {
        let name = self.host()?.name().to_owned();
        let (head, _) = name.rsplit_once('-').ok_or("the testbed's names have changed")?;
        Ok(Netns::open(&format!("{head}-{role}"))?)
    }

    /// From now on the sink looks by a timer.
    fn poll_sink(&self) -> Result<()> {
        let class = PathBuf::from("/sys/class/net").join(SINK);
        Ok(self.netns("sink")?.run(|| {
            fs::write(class.join("gro_flush_timeout"), SINK_POLL_NS.to_string())?;
            fs::write(class.join("napi_defer_hard_irqs"), i32::MAX.to_string())
        })??)
    }

    /// The thread that empties the ring of a device in one of the testbed's namespaces.
    fn napi_thread(&self, role: &str, device: &str) -> Result<i32> {
        let threads = self.netns(role)?.run(|| napi::threads(device))??;
        Ok(threads.first().ok_or_else(|| format!("{device} has no thread"))?.pid)
    }

    /// States that the device keeps now.
    pub(crate) fn states(&self) -> Result<u64> {
        Ok(self.driver.flows(self.host()?)?.unwrap_or(0))
    }

    /// Gets ready for a traffic.
    pub(crate) fn load(&mut self, traffic: &Traffic) -> Result<()> {
        Ok(self.rig()?.load(traffic)?)
    }

    /// Sends each flow of the traffic that is loaded once, until the device knows them.
    pub(crate) fn fill(&mut self, flow_count: u64) -> Result<()> {
        let flows = Flows {
            streams: &[(0, flow_count)],
            in_parts: true,
            is_foretold: true,
            is_all: &|known| known as f64 >= flow_count as f64 * FILLED_SHARE_MIN,
        };
        let Filled { known, .. } = priming::fill(self, &flows)?;
        let known = known.unwrap_or(0);
        if (known as f64) < flow_count as f64 * FILLED_SHARE_MIN {
            let limit = self.driver.flow_limit(self.host()?)?.unwrap_or_default();
            return Err(format!("only {known} of {flow_count} flows are known; {limit}").into());
        }
        Ok(())
    }

    fn start(&mut self, burst: Burst) -> Result<Measuring> {
        let rig = self.rig()?;
        Measuring::begin(|| Ok(rig.start(burst)?))
    }

    /// What arrives over `time` of the traffic that is loaded, sent as fast as possible.
    pub(crate) fn sample(&mut self, time: Duration) -> Result<Sample> {
        let _measuring = self.start(Burst { is_measured: true, ..Burst::new(Rate::Max, None) })?;
        let sampled = self.bed.wait(time / 5).and_then(|()| self.count(time));
        self.rig()?.stop()?;
        sampled
    }

    fn count(&mut self, time: Duration) -> Result<Sample> {
        let thread = self.thread;
        let (first, before, at) = (self.rig()?.reading()?, Clock::of(thread)?, Instant::now());
        self.bed.wait(time)?;
        let (last, after, elapsed) = (self.rig()?.reading()?, Clock::of(thread)?, at.elapsed());
        let waited = (after.waited - before.waited).min(elapsed / 2);
        let left = elapsed - waited;
        let ran = (after.ran - before.ran).max(Duration::from_micros(1));
        let packets = last.rx_packets - first.rx_packets;
        Ok(Sample {
            pps: packets as f64 / left.as_secs_f64(),
            cost_ns: ran.as_secs_f64() * 1e9 / packets.max(1) as f64,
            offered_pps: (last.tx_packets - first.tx_packets) as f64 / elapsed.as_secs_f64(),
            taken_share: waited.as_secs_f64() / elapsed.as_secs_f64(),
            busy_share: ran.as_secs_f64() / left.as_secs_f64(),
            packets,
        })
    }
}

impl Drop for Stand<'_> {
    fn drop(&mut self) {
        self.link = None;
        if let Some(rig) = self.rig.take() {
            if let Some(host) = rig.dut_host() {
                // What still runs goes with its namespace.
                drop(self.driver.stop(host));
            }
            // What cannot be removed stays on record, and the next start cleans up.
            drop(rig.teardown());
        }
    }
}

/// For how long a thread has run and waited for its CPU (Documentation/scheduler/sched-stats.rst).
struct Clock {
    ran: Duration,
    waited: Duration,
}

impl Clock {
    fn of(thread: i32) -> Result<Self> {
        let path = PathBuf::from(format!("/proc/{thread}/schedstat"));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut words = text.split_whitespace().map_while(|word| word.parse().ok());
        let mut next = || Duration::from_nanos(words.next().unwrap_or(0));
        Ok(Self { ran: next(), waited: next() })
    }
}

impl Line for Stand<'_> {
    type Error = Error;

    fn send(&mut self, _: usize, flows: Range<u64>, rate_pps: f64) -> Result<u64> {
        let count = flows.end - flows.start;
        let before = self.rig()?.arrived_packets()?;
        let in_window = self.rig()?.has_window();
        let rate = if in_window { Rate::Max } else { Rate::Pps(rate_pps) };
        let burst = Burst { in_window, ..Burst::new(rate, Some(count)) };
        let burst = Burst { first_packet: flows.start, ..burst };
        // Above all others, what paces itself would keep the kernel's workers from their CPU.
        let measuring = if in_window {
            self.rig()?.start(burst)?;
            None
        } else {
            Some(self.start(burst)?)
        };
        let waited = loop {
            if self.rig()?.finished() {
                break Ok(());
            }
            if let Err(interrupted) = self.bed.wait(LOOK) {
                break Err(interrupted);
            }
        };
        self.rig()?.stop()?;
        drop(measuring);
        waited?;
        let (mut through, mut waited) = (0, Duration::ZERO);
        while through < count && waited < SETTLE {
            let now = self.rig()?.arrived_packets()? - before;
            waited = if now > through { Duration::ZERO } else { waited + LOOK };
            through = now;
            if through < count {
                self.bed.wait(LOOK)?;
            }
        }
        Ok(through)
    }

    fn known(&mut self) -> Result<Option<u64>> {
        Ok(self.driver.flows(self.host()?)?)
    }
}
