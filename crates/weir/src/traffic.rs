//! `weir gen`: sends streams or a file's packets, shows it, and says what became of them.
//!
//! It measures nothing itself: it reads counters, once a second and at the end.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_gen::backend::Backend;
use weir_gen::device::DeviceCounter;
use weir_gen::expect::Expectation;
use weir_gen::preflight;
use weir_machine::cancel::Cancel;
use weir_wire::units::format_count;

use crate::cli::traffic::{BackendName, GenArgs};
use crate::exit::Outcome;
use crate::{lab, signals};

mod plan;
mod recording;
mod replay;
pub(crate) mod show;
mod streams;

pub(crate) use plan::sending_cpus;
use plan::{Content, Plan};
use show::{RunResult, Show};

/// When the first packets are looked at.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// How often is looked whether a run has ended by itself.
const POLL: Duration = Duration::from_millis(20);

/// What a device may still be counting when the last call has returned.
const SETTLE: Duration = Duration::from_millis(50);

/// Runs the command.
pub(crate) fn command(args: &GenArgs) -> anyhow::Result<Outcome> {
    if let Some(does) = args.backend().privilege() {
        lab::require_root("weir gen", does)?;
    }
    let plan = match &args.replay.pcap {
        Some(file) => replay::plan(args, file)?,
        None => Plan::of_streams(args)?,
    };
    let cancel = signals::listen().context("cannot listen to signals")?;
    let mut show = Show::new(args.json.json);
    let mut backend = plan.backend()?;
    if let Some(file) = &args.announce {
        announce(&plan, file)?;
    }
    let mut device = Device::new(plan.counter()?)?;
    show.start(&plan);
    backend.start(plan.options)?;
    let watched = watch(&plan, backend.as_mut(), &mut device, &cancel, &mut show);
    let stopped = backend.stop();
    let counters = backend.counters()?;
    let failed = || {
        let packets = format_count(counters.offered_packets);
        match &plan.path {
            Some(path) => format!("`{}` was offered {packets} packets, then", path.link.name),
            None => format!("{packets} packets were written, then"),
        }
    };
    let report = stopped.with_context(failed)?;
    let ended_by = watched?;
    let accepted = device.settled()?;
    if let (Some(path), Some((packets, counter)), BackendName::Live) =
        (&plan.path, accepted, &plan.backend)
    {
        preflight::check_accepted(path, report.counters.offered_packets, packets, counter)?;
    }
    show.end(&RunResult::new(&plan, &report, accepted, ended_by))
        .context(crate::exit::NO_OUTPUT)?;
    Ok(cancel.signal().map_or(Outcome::Done, Outcome::Signal))
}

/// Writes what a receiver is to expect.
fn announce(plan: &Plan, file: &Path) -> anyhow::Result<()> {
    // The command line refuses --announce for anything else.
    let Content::Streams(traffic, _) = &plan.content else { return Ok(()) };
    let set = traffic.set(plan.thread_count.into())?;
    let text = Expectation::new(&set, plan.options.packet_limit).to_json()?;
    std::fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

/// Shows a run until it ends, and says what ended it.
fn watch(
    plan: &Plan,
    backend: &mut dyn Backend,
    device: &mut Device,
    cancel: &Cancel,
    show: &mut Show,
) -> anyhow::Result<&'static str> {
    let begin = Instant::now();
    let end = plan.duration.map(|duration| begin + duration);
    let mut next_line = begin + plan.interval;
    let mut looked = plan.backend != BackendName::Live;
    loop {
        let now = Instant::now();
        if cancel.signal().is_some() {
            return Ok("signal");
        }
        if !backend.is_running() {
            return Ok("count");
        }
        if end.is_some_and(|end| now >= end) {
            return Ok("duration");
        }
        if !looked && now >= begin + FIRST_LOOK {
            looked = true;
            let offered = backend.counters()?.offered_packets;
            if let (Some(path), Some((packets, counter))) = (&plan.path, device.accepted()?) {
                preflight::check_accepted(path, offered, packets, counter)?;
            }
        }
        if now >= next_line {
            next_line += plan.interval;
            let accepted = device.accepted()?.map(|(packets, _)| packets);
            show.second(begin.elapsed(), &backend.counters()?, accepted)
                .context(crate::exit::NO_OUTPUT)?;
        }
        let wake = end.map_or(next_line, |end| next_line.min(end)).min(now + POLL);
        // Whether it was cut short is asked at the top.
        let _ = cancel.sleep_until(wake);
    }
}

/// What the device has accepted since the beginning.
struct Device {
    counter: Option<DeviceCounter>,
    before: u64,
}

impl Device {
    fn new(counter: Option<DeviceCounter>) -> anyhow::Result<Self> {
        let before = counter.as_ref().map_or(Ok(0), DeviceCounter::read)?;
        Ok(Self { counter, before })
    }

    /// Packets, and the name of the counter.
    fn accepted(&self) -> anyhow::Result<Option<(u64, &'static str)>> {
        let Some(counter) = &self.counter else { return Ok(None) };
        Ok(Some((counter.read()?.saturating_sub(self.before), counter.name())))
    }

    /// The same when nothing is under way any more.
    fn settled(&self) -> anyhow::Result<Option<(u64, &'static str)>> {
        if self.counter.is_some() {
            std::thread::sleep(SETTLE);
        }
        self.accepted()
    }
}
