//! `weir echo serve`.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use weir_bpf::ethtool;
use weir_gen::echo::report::{Announcement, Announcer, Losses, ServerCounts};
use weir_gen::echo::server::{Server, ServerOptions, allows};
use weir_gen::echo::{Backend, EchoError};
use weir_machine::cancel::Cancel;
use weir_machine::queues::softnet;
use weir_machine::rss::card::{self, CardError};
use weir_machine::rss::places::{Roots, with_threads};
use weir_net::{CpuList, Netlink, cpu};
use weir_results::number::counted_len;
use weir_rss::group::queue_mark;
use weir_rss::{Each, Options, Steer};
use weir_wire::rss::{FlowKind, Settings, Table};

use super::show::{self, Seen};
use super::{settings, written};
use crate::cli::echo::{BackendName, EachName, ServeArgs, SteerName};
use crate::exit::Outcome;
use crate::receive::Screen;
use crate::{lab, progress, signals};

/// Bytes of each worker's receive buffer: a tenth of a second of small datagrams.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How often is looked for those who ask, and for signals.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How often the interface's settings are looked at.
const FOLLOW: Duration = Duration::from_secs(1);

pub(super) fn command(args: &ServeArgs) -> anyhow::Result<Outcome> {
    let backend = backend(args.backend);
    let each = if args.each == EachName::Queue { Each::Queue } else { Each::Bucket };
    check(args, backend, each)?;
    if args.interface.is_some() || args.steer == SteerName::Hash || args.steer == SteerName::Cpu {
        lab::require_root("weir echo serve", "attaches programs (CAP_BPF and CAP_NET_ADMIN)")?;
    }
    let cancel = signals::listen_alone()?;
    let (settings, follows) = spread(args)?;
    let cpus = cpus(args, &settings, each)?;
    let options = ServerOptions {
        group: Options {
            address: args.listen,
            interface: if follows { args.interface.clone() } else { None },
            steer: steer(args, &settings, each, &cpus)?,
            settings,
            each,
            receive_buffer_bytes: Some(RECEIVE_BUFFER_BYTES),
        },
        interface: args.interface.clone(),
        backend,
        cpus,
        echoes: !args.receive_only,
        gro: args.gro,
    };
    let before = losses(args.interface.as_deref())?;
    let server = Server::start(&options)?;
    // Who is told something by it may rely on the rest.
    let announcer = args.announce.then(|| Announcer::listen(args.listen)).transpose();
    let announcer = announcer.with_context(|| {
        format!("--announce: cannot listen at TCP port {} of {}", args.listen.port(), args.listen)
    })?;
    let workers = match backend {
        Backend::Xdp => "the driver".to_owned(),
        _ => counted_len(show::worker_count(&options.group), "worker"),
    };
    progress::note(&format!("{workers} at {}", args.listen));
    note_veth(args, backend);
    let run = Run { args, server, announcer, before };
    run.until_end(&cancel)
}

/// A server, who asks it, and what was lost before it was started.
struct Run<'a> {
    args: &'a ServeArgs,
    server: Server,
    announcer: Option<Announcer>,
    before: Losses,
}

impl Run<'_> {
    fn until_end(mut self, cancel: &Cancel) -> anyhow::Result<Outcome> {
        let args = self.args;
        let mut screen = Screen::new(args.json.json);
        let (mut last, mut warning) = (Seen::default(), String::new());
        let begin = Instant::now();
        let (mut next, mut follow) = (begin + args.interval, begin + FOLLOW);
        let end = args.duration.and_then(|duration| begin.checked_add(duration));
        let mut announcer = self.announcer.take();
        let outcome = loop {
            if !cancel.sleep(LOOK_AGAIN.min(args.interval)) {
                break Outcome::Signal(cancel.signal().unwrap_or_default());
            }
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                break Outcome::Done;
            }
            self.server.check()?;
            if let Some(announcer) = &mut announcer {
                announcer.answer(|| self.announcement().ok());
            }
            if now >= follow {
                follow = now + FOLLOW;
                note_changes(self.server.follow(), &mut warning);
            }
            if now >= next {
                next = now + args.interval;
                let seen = see(args, self.server.counts()?, self.before)?;
                let settings = self.server.settings();
                let report = show::server("interval", settings, &seen, Some(&last));
                screen.interval(
                    || serde_json::to_string(&report),
                    || report.line(),
                    || report.text(),
                )?;
                last = seen;
            }
        };
        let before = self.before;
        let settings = self.server.settings().clone();
        let counts = self.server.stop()?;
        let seen = see(args, counts, before)?;
        let report = show::server("total", &settings, &seen, None);
        screen.total(|| serde_json::to_string(&report), || report.text())?;
        Ok(outcome)
    }

    fn announcement(&self) -> anyhow::Result<Announcement> {
        let Seen { counts, losses } = see(self.args, self.server.counts()?, self.before)?;
        let echoes = !self.args.receive_only;
        Ok(Announcement::new(self.server.settings(), echoes, counts, losses))
    }
}

/// What was counted, and lost since `before`.
fn see(args: &ServeArgs, counts: ServerCounts, before: Losses) -> anyhow::Result<Seen> {
    let mut losses = losses(args.interface.as_deref())?.since(before);
    if args.backend == BackendName::AfXdp && args.interface.as_deref().is_some_and(is_veth) {
        // A veth counts as its drops what an AF_XDP socket has no room for.
        let by_sockets = counts.totals().dropped_packets;
        losses.device_packets = losses.device_packets.saturating_sub(by_sockets);
    }
    Ok(Seen { counts, losses })
}

fn is_veth(interface: &str) -> bool {
    ethtool::driver(interface).is_ok_and(|driver| driver == "veth")
}

fn backend(name: BackendName) -> Backend {
    match name {
        BackendName::Epoll => Backend::Epoll,
        BackendName::Mmsg => Backend::Mmsg,
        BackendName::Uring => Backend::Uring,
        BackendName::AfXdp => Backend::AfXdp,
        BackendName::Xdp => Backend::Xdp,
    }
}

/// What does not go together.
fn check(args: &ServeArgs, backend: Backend, each: Each) -> anyhow::Result<()> {
    ensure!(
        !args.gro || backend == Backend::Mmsg,
        "--gro puts datagrams together that are read together: it needs --backend mmsg"
    );
    ensure!(
        !backend.is_xdp() || args.interface.is_some(),
        "--backend af_xdp and xdp take datagrams from an interface: name it with -i"
    );
    ensure!(
        allows(backend, each),
        "--each bucket: af_xdp and xdp have all packets of a queue, so that buckets cannot be told \
         apart: leave it out"
    );
    ensure!(
        !backend.is_xdp() || args.steer == SteerName::Hash,
        "--steer: with af_xdp and xdp the card has chosen the queue and so the worker: leave it out"
    );
    ensure!(
        !(backend == Backend::Xdp && args.receive_only),
        "--receive-only: xdp has nobody who would read"
    );
    ensure!(args.listen.port() != 0, "--listen: give a port above 0, which clients can know");
    Ok(())
}

/// How datagrams are spread, and whether that is the interface's doing.
fn spread(args: &ServeArgs) -> anyhow::Result<(Settings, bool)> {
    if let Some(settings) = written(&args.spread) {
        return Ok((settings, false));
    }
    let Some(interface) = &args.interface else {
        let cpu_count = u16::try_from(cpu::online()?.count()).unwrap_or(u16::MAX);
        let table = Table::equal(cpu_count, usize::from(cpu_count))?;
        return Ok((settings(table, None, None), false));
    };
    let kind = FlowKind::of(true, args.listen.is_ipv6());
    let read = card::open(interface).and_then(|card| card.read()?.settings(interface, kind));
    match read {
        Ok(settings) => Ok((settings, true)),
        Err(error @ CardError::None { .. }) => {
            bail!("{error}; give --table equal:N for N workers nevertheless")
        }
        Err(error) => Err(error.into()),
    }
}

/// The CPUs of the workers: of queues, where they are known.
fn cpus(args: &ServeArgs, settings: &Settings, each: Each) -> anyhow::Result<Vec<usize>> {
    if let Some(cpus) = &args.cpus {
        return Ok(cpus.iter().collect());
    }
    let online = cpu::online()?;
    let all: Vec<usize> = online.iter().collect();
    let Some(interface) = &args.interface else { return Ok(all) };
    let mut places = Roots::default().places(interface);
    with_threads(&mut places, interface);
    let of_queue = |queue: usize| {
        let place = places.queues.get(queue)?;
        // Where several may, none is known.
        let cpus: CpuList = place.cpus()?.parse().ok()?;
        (cpus.count() == 1 && online.contains(cpus.first())).then(|| cpus.first())
    };
    let queues: Vec<usize> = match each {
        Each::Queue => (0..settings.table.queue_count()).collect(),
        Each::Bucket => settings.table.queues().iter().copied().map(usize::from).collect(),
    };
    let known: Option<Vec<usize>> = queues.into_iter().map(of_queue).collect();
    Ok(known.unwrap_or(all))
}

fn steer(
    args: &ServeArgs,
    settings: &Settings,
    each: Each,
    cpus: &[usize],
) -> anyhow::Result<Steer> {
    Ok(match args.steer {
        SteerName::Hash => Steer::Hash,
        SteerName::None => Steer::Kernel,
        SteerName::Queue => {
            ensure!(
                each == Each::Queue,
                "--steer queue: a queue has several buckets: use --each queue, or --steer hash"
            );
            let interface = args.interface.as_deref();
            Steer::Queue(queue_mark(interface.context("--steer queue: of which interface? (-i)")?)?)
        }
        SteerName::Cpu => {
            let worker_count = match each {
                Each::Queue => settings.table.queue_count(),
                Each::Bucket => settings.table.bucket_count(),
            };
            Steer::Cpu(places_of_cpus(cpus, worker_count, possible_cpu_count()?))
        }
    })
}

/// How many CPUs there may ever be, counted from 0.
fn possible_cpu_count() -> anyhow::Result<usize> {
    let path = "/sys/devices/system/cpu/possible";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let cpus: CpuList = text.trim().parse().with_context(|| format!("{path} is no list"))?;
    Ok(cpus.iter().max().unwrap_or(0) + 1)
}

/// The worker of each CPU, that of CPU 0 first: the first one that is on it, or else any. Workers
/// are on `cpus` in turn.
fn places_of_cpus(cpus: &[usize], worker_count: usize, cpu_count: usize) -> Vec<u16> {
    let place = |cpu: usize| {
        let of_cpu = cpus.iter().position(|other| *other == cpu).unwrap_or(cpu);
        u16::try_from(of_cpu % worker_count.max(1)).unwrap_or(0)
    };
    (0..cpu_count).map(place).collect()
}

/// Says what has changed; the same warning once.
fn note_changes(changed: Result<bool, EchoError>, warning: &mut String) {
    match changed {
        Ok(false) => warning.clear(),
        Ok(true) => progress::note("the interface's settings have changed: workers go by them"),
        Err(error) if *warning == error.to_string() => {}
        Err(error) => {
            *warning = error.to_string();
            progress::warn(warning);
        }
    }
}

/// What the user of a veth must know who returns packets before the stack has seen them.
fn note_veth(args: &ServeArgs, backend: Backend) {
    let Some(interface) = args.interface.as_deref().filter(|_| backend.is_xdp()) else { return };
    if is_veth(interface) {
        let also = match backend {
            Backend::Xdp => ", and takes what is returned only while it has an XDP program itself",
            _ => "",
        };
        progress::note(&format!(
            "`{interface}` is a veth: its far end has to compute checksums itself (`ethtool -K \
             PEER tx off`){also}"
        ));
    }
}

/// What was lost before sockets, since the host was started.
fn losses(interface: Option<&str>) -> anyhow::Result<Losses> {
    let text = fs::read_to_string(softnet::PATH)
        .with_context(|| format!("cannot read {}", softnet::PATH))?;
    let device_packets = match interface {
        Some(interface) => {
            let stats = Netlink::open()?.stats64(interface)?;
            stats.rx_dropped + stats.rx_missed_errors + stats.rx_errors
        }
        None => 0,
    };
    let cpus = softnet::parse(&text);
    let backlog_packets = cpus.iter().map(|cpu| u64::from(cpu.dropped)).sum();
    Ok(Losses { device_packets, backlog_packets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_the_worker_that_is_on_it() {
        assert_eq!(places_of_cpus(&[2, 0], 2, 5), [1, 1, 0, 1, 0]);
        assert_eq!(places_of_cpus(&[0, 1, 2, 3], 2, 4), [0, 1, 0, 1]);
        assert_eq!(places_of_cpus(&[0, 0, 1, 1], 4, 2), [0, 2]);
        assert!(possible_cpu_count().is_ok_and(|count| count > 0));
    }
}
