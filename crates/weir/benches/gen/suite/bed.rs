//! The veth pair that everything is measured on: its namespaces, its regimes, its counters.
//!
//! Namespaces are written down in the registry before they are made, and removed when the bed is
//! dropped; after a SIGKILL, by `weir lab clean` or the next lab.

use std::time::{Duration, Instant};

use weir_bpf::attach::{Link, Mode};
use weir_bpf::ethtool;
use weir_bpf::sink::SinkProgram;
use weir_gen::expect::Expectation;
use weir_gen::observer::Observer;
use weir_machine::cancel::Cancel;
use weir_net::process::{self, Invocation, Process};
use weir_net::registry::{Record, Registry};
use weir_net::{CpuList, Netlink, Netns, NetnsGuard, VethEnd, napi};
use weir_oracle::bench::DropCounter;
use weir_wire::traffic::Traffic;

use super::Result;
use super::senders::{RANGES_4900, stream};
use super::taken::Threads;

/// The CPU of a sender with one thread. A veth's receive queue is that of the sending CPU.
pub(crate) const SENDER_CPU: u32 = 0;

/// The CPU of the second thread, or of the receiver.
pub(crate) const OTHER_CPU: u32 = 1;

const NAPI_PATIENCE: Duration = Duration::from_secs(5);

/// How long something may take to arrive.
const SAMPLE_PATIENCE: Duration = Duration::from_secs(5);
const SAMPLE_POLL: Duration = Duration::from_millis(20);

/// Who does what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Regime {
    /// The CPU that sends also receives: NAPI is not threaded. Nothing is lost, because the ring is
    /// emptied between batches; offered, accepted and delivered are the same.
    Shared,
    /// The receiver is a kernel thread on [`OTHER_CPU`]. What it cannot take is lost.
    Apart,
}

/// What ends the packets' way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Counts and drops, whatever it is.
    Drop,
    /// weir's sink, which counts what is signed.
    BareSink,
    /// weir's sink, with sequence numbers, flows and latency.
    FullSink,
}

/// A program at the far end, attached until it is dropped.
#[derive(Debug)]
pub(crate) struct Receiver {
    program: Program,
    /// The thread that runs it, if it is not the sender's.
    thread: Option<Threads>,
    _link: Option<Link>,
}

#[derive(Debug)]
enum Program {
    Drop(DropCounter),
    BareSink(SinkProgram),
    FullSink(Box<Observer>),
}

impl Receiver {
    /// Packets that have arrived since it was attached.
    pub(crate) fn packets(&self) -> Result<u64> {
        Ok(match &self.program {
            Program::Drop(counter) => counter.packets()?,
            Program::BareSink(sink) => sink.counters()?.total().packets,
            Program::FullSink(sink) => sink.observed()?.counters.total().packets,
        })
    }

    /// The same when no more arrive.
    pub(crate) fn settled_packets(&self) -> Result<u64> {
        let mut last = self.packets()?;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = self.packets()?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
    }
}

/// Packets, and the time that others left for them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Figure {
    packets: u64,
    time: Duration,
    taken: Duration,
}

impl Figure {
    /// Packets over a time of which others took nothing, or it is not known.
    pub(crate) fn new(packets: u64, time: Duration) -> Self {
        Self { packets, time, taken: Duration::ZERO }
    }

    /// Adds another slice of the same sample.
    pub(crate) fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.time += other.time;
        self.taken += other.taken;
    }

    /// Packets per second of the time that was left; zero if there was none.
    pub(crate) fn pps(&self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.packets as f64 / seconds } else { 0.0 }
    }

    /// Share of the time that others took.
    pub(crate) fn taken_share(&self) -> f64 {
        let all = (self.time + self.taken).as_secs_f64();
        if all > 0.0 { self.taken.as_secs_f64() / all } else { 0.0 }
    }
}

/// What was counted over a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    /// Handed to the sending device, whether it took them or not. Zero if the sender is none that
    /// redirects.
    pub(crate) offered: Figure,
    /// Arrived at the program at the far end.
    pub(crate) delivered: Figure,
}

/// A counter, and the threads that drive it.
struct Count<'a> {
    threads: &'a Threads,
    packets: u64,
    waited: Duration,
    at: Instant,
}

impl<'a> Count<'a> {
    fn begin(threads: &'a Threads, packets: u64) -> Self {
        Self { threads, packets, waited: threads.waited(), at: Instant::now() }
    }

    fn end(&self, packets: u64) -> Figure {
        let elapsed = self.at.elapsed();
        let waited = self.threads.waited().saturating_sub(self.waited);
        // More than all of the time can only be a clock's fault.
        let taken = if waited < elapsed { waited } else { Duration::ZERO };
        Figure { packets: packets - self.packets, time: elapsed - taken, taken }
    }
}

/// The pair and its namespaces.
#[derive(Debug)]
pub(crate) struct Bed {
    /// The sender's, then the receiver's.
    namespaces: Vec<NetnsGuard>,
    record: Option<Record>,
    out: String,
    into: String,
    queues: u32,
}

impl Bed {
    /// Makes the pair, with so many queues in each direction. `tag` tells beds of one process
    /// apart.
    pub(crate) fn new(tag: u32, queues: u32) -> Result<Self> {
        let id = format!("{}x{tag}", std::process::id());
        let names = [format!("weirbench{id}s"), format!("weirbench{id}r")];
        let record = Some(Registry::default().record(&names)?);
        // Before Linux 6.8, threads of NAPI are found by the interface's name alone.
        let (out, into) = (format!("bo{id}"), format!("bi{id}"));
        let mut bed = Self { namespaces: Vec::new(), record, out, into, queues };
        for name in &names {
            bed.namespaces.push(Netns::create(name)?.guard());
        }
        let (out, into) = (bed.out.as_str(), bed.into.as_str());
        let receiver = &bed.namespaces[1];
        bed.sender().run(|| -> Result<()> {
            quiet()?;
            let netlink = Netlink::open()?;
            let far = VethEnd::new(into).in_netns(receiver);
            netlink.create_veth(&VethEnd::new(out), &far, queues)?;
            Ok(netlink.set_up(out)?)
        })??;
        receiver.run(|| -> Result<()> {
            quiet()?;
            Ok(Netlink::open()?.set_up(into)?)
        })??;
        Ok(bed)
    }

    /// The namespace that sends.
    pub(crate) fn sender(&self) -> &Netns {
        &self.namespaces[0]
    }

    /// Name of the interface that sends.
    pub(crate) fn out(&self) -> &str {
        &self.out
    }

    /// Index of the interface that sends, in its namespace.
    pub(crate) fn out_ifindex(&self) -> Result<u32> {
        self.sender().run(|| -> Result<u32> { Ok(Netlink::open()?.ifindex(&self.out)?) })?
    }

    /// Attaches a program at the far end and places its NAPI.
    pub(crate) fn receive(&self, regime: Regime, end: End) -> Result<Receiver> {
        let into = self.into.as_str();
        self.namespaces[1].run(|| -> Result<Receiver> {
            let ifindex = Netlink::open()?.ifindex(into)?;
            let mut receiver = attach(end, ifindex)?;
            napi::set_threaded(into, regime == Regime::Apart)?;
            if regime == Regime::Apart {
                // Only queue 0 is sent to: its thread, the first, goes to the other CPU.
                let threads = napi::threads_expecting(into, self.queues, NAPI_PATIENCE)?;
                for (thread, cpu) in threads.iter().zip([OTHER_CPU, SENDER_CPU]) {
                    napi::pin(&[thread.pid], &one_cpu(cpu)?)?;
                }
                receiver.thread = threads.first().map(|thread| Threads::one(thread.pid));
            }
            Ok(receiver)
        })?
    }

    /// Frames that were redirected to the sending device, taken or not.
    fn offered_packets(&self) -> Result<u64> {
        let stats = self.sender().run(|| ethtool::stats(&self.out))??;
        let redirected = stats.iter().filter(|(name, _)| {
            name.starts_with("tx_queue_")
                && (name.ends_with("_xdp_xmit") || name.ends_with("_xdp_xmit_errors"))
        });
        Ok(redirected.map(|(_, value)| value).sum())
    }

    /// What is counted from now on for a time, with a sender that is running; for longer if
    /// nothing has arrived by then, on a machine that is busy with something else.
    pub(crate) fn sample(
        &self,
        receiver: &Receiver,
        senders: &Threads,
        time: Duration,
        cancel: &Cancel,
    ) -> Result<Sample> {
        let offered = Count::begin(senders, self.offered_packets()?);
        let threads = receiver.thread.as_ref().unwrap_or(senders);
        let delivered = Count::begin(threads, receiver.packets()?);
        wait(time, cancel)?;
        while receiver.packets()? == delivered.packets && delivered.at.elapsed() < SAMPLE_PATIENCE {
            wait(SAMPLE_POLL, cancel)?;
        }
        let offered = offered.end(self.offered_packets()?);
        let delivered = delivered.end(receiver.packets()?);
        Ok(Sample { offered, delivered })
    }

    /// Starts a program in the sender's namespace, with its output in the files of `output`.
    pub(crate) fn spawn(&self, argv: &[&str], output: &Output) -> Result<Process> {
        let invocation = Invocation::program(argv.iter().copied());
        let (stdout, stderr) = (output.stdout.reopen()?, output.stderr.reopen()?);
        Ok(self.sender().run(|| process::spawn(&invocation, stdout, stderr))??)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.namespaces.clear();
        if let Some(record) = self.record.take() {
            // If a namespace is still there, the record stays, and the next lab cleans up.
            let _ = record.close();
        }
    }
}

/// Where a program's output goes.
#[derive(Debug)]
pub(crate) struct Output {
    stdout: tempfile::NamedTempFile,
    stderr: tempfile::NamedTempFile,
}

impl Output {
    pub(crate) fn new() -> Result<Self> {
        let (stdout, stderr) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
        Ok(Self { stdout, stderr })
    }

    /// The last line that was written, to standard error if there is one.
    pub(crate) fn last_line(&self) -> String {
        [&self.stderr, &self.stdout]
            .into_iter()
            .filter_map(|file| std::fs::read(file.path()).ok())
            .find_map(|bytes| {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
            })
            .unwrap_or_else(|| "it wrote nothing".to_owned())
    }
}

/// Waits, or fails if the run is to stop.
pub(crate) fn wait(time: Duration, cancel: &Cancel) -> Result<()> {
    if cancel.sleep(time) { Ok(()) } else { Err("interrupted".into()) }
}

/// A list of one CPU.
pub(crate) fn one_cpu(cpu: u32) -> Result<CpuList> {
    CpuList::new([usize::try_from(cpu)?]).ok_or_else(|| format!("there is no CPU {cpu}").into())
}

/// No neighbour discovery: only the benchmark's packets are to be there.
fn quiet() -> Result<()> {
    for which in ["all", "default"] {
        weir_net::sysctl::write(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
    }
    Ok(())
}

fn attach(end: End, ifindex: u32) -> Result<Receiver> {
    let (program, link) = match end {
        End::Drop => {
            let counter = DropCounter::load()?;
            let link = counter.attach(ifindex)?;
            (Program::Drop(counter), link)
        }
        End::BareSink => {
            let sink = SinkProgram::load()?;
            let link = sink.attach(ifindex)?;
            (Program::BareSink(sink), link)
        }
        End::FullSink => {
            // As `weir sink` attaches it: without locks where there is one queue.
            let sink = Observer::attach(ifindex, Mode::Native, expectation()?)?;
            return Ok(Receiver {
                program: Program::FullSink(Box::new(sink)),
                thread: None,
                _link: None,
            });
        }
    };
    Ok(Receiver { program, thread: None, _link: Some(link) })
}

/// What the full sink is told of the stream whose packets it gets.
fn expectation() -> Result<Expectation> {
    Ok(Expectation::new(&Traffic::one(stream(RANGES_4900)?)?.set(1)?, None))
}
