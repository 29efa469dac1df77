//! `weir queues`: reads the counters of interfaces again and again, and shows what each receive
//! queue got in between.

use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use serde::Serialize;
use weir_machine::access::RemoteSpec;
use weir_machine::cancel::Cancel;
use weir_machine::queues::remote::Remote;
use weir_machine::queues::softnet::SoftnetRates;
use weir_machine::queues::{Moment, QueueCounters, QueueRates, Unfit, linux, rates};
use weir_machine::ssh::{self, Secrets};
use weir_net::{LinkInfo, Netlink};

use crate::cli::queues::QueuesArgs;
use crate::exit::{self, Outcome};
use crate::signals;
use buckets::{BucketRates, Buckets, Cpus};

mod buckets;

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    interface: &'a str,
    /// Since the command began, to the end of the interval.
    t_ns: u64,
    /// Whose clock says how long the interval was, where another machine counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock: Option<Clock>,
    #[serde(flatten)]
    rates: QueueRates,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<BucketRates>,
}

/// A line of `--json` with the host's CPUs.
#[derive(Debug, Serialize)]
struct CpuLine {
    /// As in [`Line`].
    t_ns: u64,
    cpus: Vec<SoftnetRates>,
}

/// Whose clock says how long an interval was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Clock {
    /// That of the machine that counts.
    There,
    /// This machine's, with the time that answers take.
    Here,
}

/// An interface and its last reading.
struct Watched {
    name: String,
    taken: Moment,
    counters: QueueCounters,
    /// Where they are asked for.
    buckets: Option<Buckets>,
}

/// Where counters are read.
enum Source<'a> {
    Here(Netlink),
    There(Remote<'a>),
}

impl Source<'_> {
    fn read(&self, interface: &str) -> anyhow::Result<(QueueCounters, Moment)> {
        let read = match self {
            Self::Here(netlink) => {
                let asked = Instant::now();
                let read = linux::read(netlink, interface).map_err(|e| anyhow!("{e}"));
                read.map(|c| (c, Moment { asked, answered: Instant::now(), clock: None }))
            }
            Self::There(remote) => remote.read(interface).map_err(Into::into),
        };
        read.with_context(|| format!("weir queues cannot read `{interface}`; see `ip link`"))
    }
}

/// How long intervals are.
#[derive(Debug, Default)]
struct Intervals {
    /// What was warned of.
    warned: Vec<Unfit>,
}

impl Intervals {
    /// The interval between two readings, and whose clock says so; `None` where it is this
    /// machine's that counts as well.
    fn between(
        &mut self,
        before: &Moment,
        after: &Moment,
        source: &Source<'_>,
    ) -> (Duration, Option<Clock>) {
        if matches!(source, Source::Here(_)) {
            return (after.since_here(before), None);
        }
        let unfit = match after.since(before) {
            Ok(elapsed) => return (elapsed, Some(Clock::There)),
            Err(unfit) => unfit,
        };
        if !self.warned.contains(&unfit) {
            self.warned.push(unfit);
            let why = match unfit {
                Unfit::Absent => "the other machine's date(1) shows no fractions of a second",
                Unfit::Set => "the other machine's clock was set meanwhile",
            };
            crate::progress::warn(&format!(
                "intervals are timed by this machine's clock because {why}: rates are off by as \
                 much as the delay of its answers varies"
            ));
        }
        (after.since_here(before), Some(Clock::Here))
    }
}

/// Runs the command.
pub(crate) fn command(args: &QueuesArgs) -> anyhow::Result<Outcome> {
    let cancel = signals::listen_alone()?;
    let Some(destination) = &args.ssh else {
        let netlink = Netlink::open()?;
        let links = netlink.links()?;
        let source = Source::Here(netlink);
        let watched = match &args.interfaces[..] {
            [] => all(links, &source)?,
            names => named(names, &source)?,
        };
        return watch(args, &cancel, &source, watched);
    };
    let remote = RemoteSpec {
        name: destination.clone(),
        ssh: Some(destination.clone()),
        config: args.ssh_config.as_ref().map(|path| path.display().to_string()),
        processes: Vec::new(),
    };
    let host = ssh::connect(&remote, &Secrets::default(), &cancel)?;
    let source = Source::There(Remote::new(&host)?);
    let watched = named(&args.interfaces, &source)?;
    watch(args, &cancel, &source, watched)
}

fn watch(
    args: &QueuesArgs,
    cancel: &Cancel,
    source: &Source<'_>,
    mut watched: Vec<Watched>,
) -> anyhow::Result<Outcome> {
    let begin = Instant::now();
    let mut next = begin;
    let mut shown = 0;
    let mut intervals = Intervals::default();
    if args.buckets {
        for interface in &mut watched {
            interface.buckets = Some(Buckets::of(&interface.name)?);
        }
    }
    let mut cpus = if args.softnet { Some(Cpus::new()?) } else { None };
    while args.count.is_none_or(|count| shown < count) {
        next += args.interval;
        if !cancel.sleep_until(next) {
            return Ok(Outcome::Signal(cancel.signal().unwrap_or_default()));
        }
        let with_names = watched.len() > 1;
        for interface in &mut watched {
            let (counters, taken) = match source.read(&interface.name) {
                // What was interrupted by the signal is no failure.
                Err(_) if cancel.signal().is_some() => break,
                other => other?,
            };
            let (elapsed, clock) = intervals.between(&interface.taken, &taken, source);
            let rates = rates(&interface.counters, &counters, elapsed);
            (interface.counters, interface.taken) = (counters, taken);
            let since = taken.answered.saturating_duration_since(begin);
            let buckets = interface.buckets.as_mut().map(Buckets::rates).transpose()?;
            let (name, t_ns) = (&interface.name, nanoseconds(since));
            let line = Line { interface: name, t_ns, clock, rates, buckets };
            line.show(args.json.json, with_names)?;
        }
        if let Some(cpus) = &mut cpus {
            show_cpus(args.json.json, begin.elapsed(), cpus.rates()?)?;
        }
        shown += 1;
        // After a pause (a stopped process), the next line is of a whole interval again.
        next = next.max(Instant::now().checked_sub(args.interval).unwrap_or(next));
    }
    Ok(Outcome::Done)
}

fn first(name: String, source: &Source<'_>) -> anyhow::Result<Watched> {
    let (counters, taken) = source.read(&name)?;
    Ok(Watched { taken, counters, name, buckets: None })
}

/// The interfaces that were asked for.
fn named(names: &[String], source: &Source<'_>) -> anyhow::Result<Vec<Watched>> {
    let watched: Vec<Watched> =
        names.iter().map(|name| first(name.clone(), source)).collect::<Result<_, _>>()?;
    for interface in watched.iter().filter(|w| w.counters.rx_packets.is_empty()) {
        crate::progress::warn(&format!(
            "the driver of `{}` does not count the packets of each queue, or counts them under \
             unknown names (see `ethtool -S {}`): only its totals are shown",
            interface.name, interface.name
        ));
    }
    Ok(watched)
}

/// All interfaces that have something to show.
fn all(links: Vec<LinkInfo>, source: &Source<'_>) -> anyhow::Result<Vec<Watched>> {
    let names = links.into_iter().filter(|l| l.is_up && !l.is_loopback).map(|link| link.name);
    let mut watched: Vec<Watched> =
        names.map(|name| first(name, source)).collect::<Result<_, _>>()?;
    watched.retain(|interface| !interface.counters.rx_packets.is_empty());
    if watched.is_empty() {
        bail!(
            "no interface that is up has counters for its queues: name one to see its totals, \
             such as `weir queues eth0`"
        );
    }
    Ok(watched)
}

impl Line<'_> {
    fn show(&self, json: bool, with_name: bool) -> anyhow::Result<()> {
        let text = if json {
            serde_json::to_string(self)?
        } else {
            let name = if with_name { format!("{} ", self.interface) } else { String::new() };
            let buckets = self.buckets.as_ref().map(|buckets| format!(" {}", buckets.text()));
            format!("{name}{}{}", self.rates, buckets.unwrap_or_default())
        };
        exit::put(&format!("{text}\n"))
    }
}

fn show_cpus(json: bool, since: Duration, cpus: Vec<SoftnetRates>) -> anyhow::Result<()> {
    let text = if json {
        serde_json::to_string(&CpuLine { t_ns: nanoseconds(since), cpus })?
    } else {
        let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        cpus.join(" ")
    };
    exit::put(&format!("{text}\n"))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
