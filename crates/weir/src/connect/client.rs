//! The client of `weir connect`: opens connections, shows it, and says what became of them.
//!
//! It measures nothing itself: it reads counters, while it runs and at the end.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_gen::connect::Client;
use weir_gen::connect::ledger::{self, Counts, Course};
use weir_machine::cancel::Cancel;

use super::plan::{self, Plan};
use super::show::{self, ClientResult, Progress, Run};
use crate::cli::connect::ClientArgs;
use crate::exit::Outcome;
use crate::{lab, progress, signals};

/// How often is looked whether a run has ended by itself.
const POLL: Duration = Duration::from_millis(20);
/// When nothing is missing and no counter has moved for this long, nothing more is under way.
const QUIET: Duration = Duration::from_millis(200);

pub(super) fn command(args: &ClientArgs) -> anyhow::Result<Outcome> {
    lab::require_root("weir connect", "loads BPF programs (CAP_BPF and CAP_NET_ADMIN)")?;
    let plan = Plan::new(args)?;
    let cancel = signals::listen_alone().context("cannot listen to signals")?;
    let mut client = Client::attach(&plan.config, plan.path.link.ifindex, &plan.cpus)?;
    let notes = plan::check_path(&plan.path.link.name, &plan.cpus)?;
    for note in plan.notes.iter().chain(&notes) {
        progress::warn(note);
    }
    show::start(&plan);
    client.start(&plan.options)?;
    let watched = watch(args, &plan, &mut client, &cancel);
    let report = client.stop()?;
    let Watched { ended_by, concurrent_max, over, opening } = watched?;
    let counts = settled(&client, &plan.course, args.drain)?;
    let held = counts.established.saturating_sub(over);
    let run = Run { plan: &plan, report: &report, counts, concurrent_max, held, opening, ended_by };
    ClientResult::new(&run, client.latency_ns()?).show(args.json.json)?;
    Ok(cancel.signal().map_or(Outcome::Done, Outcome::Signal))
}

/// What was seen of a run.
struct Watched {
    ended_by: &'static str,
    /// Connections that were held at a time.
    concurrent_max: u64,
    /// Those that had been established for so long at the end that they were ended.
    over: u64,
    /// When the last connection was opened.
    opening: Duration,
}

/// Shows a run until it ends, and says what was seen of it.
fn watch(
    args: &ClientArgs,
    plan: &Plan,
    client: &mut Client,
    cancel: &Cancel,
) -> anyhow::Result<Watched> {
    let begin = Instant::now();
    let end = plan.duration.map(|duration| begin + duration);
    let mut next_line = begin + args.interval();
    let mut lines = Progress::new(args.json.json);
    let mut watched =
        Watched { ended_by: "count", concurrent_max: 0, over: 0, opening: Duration::ZERO };
    let mut opened = 0;
    let mut established = Established::default();
    loop {
        let now = Instant::now();
        let (counters, sent) = client.counters()?;
        let held = established.within(plan.config.hold, now, counters.established);
        watched.over = counters.established - held;
        watched.concurrent_max = held.max(watched.concurrent_max);
        if sent.syns.offered_packets > opened {
            (opened, watched.opening) = (sent.syns.offered_packets, now - begin);
        }
        if cancel.signal().is_some() {
            watched.ended_by = "signal";
            return Ok(watched);
        }
        if !client.is_running() {
            return Ok(watched);
        }
        if end.is_some_and(|end| now >= end) {
            watched.ended_by = "duration";
            client.end_opening();
        }
        if args.progress && now >= next_line {
            next_line += args.interval();
            let held = plan.concurrent.map(|_| held);
            lines.show(begin.elapsed(), &Counts::from(counters), held)?;
        }
        // Whether it was cut short is asked at the top.
        let _ = cancel.sleep_until(now + POLL);
    }
}

/// How many connections had been established at some times.
#[derive(Default)]
struct Established(VecDeque<(Instant, u64)>);

impl Established {
    /// With how many there are now: those that were established within the last `hold`, after which
    /// each is ended.
    fn within(&mut self, hold: Duration, now: Instant, count: u64) -> u64 {
        self.0.push_back((now, count));
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= hold) {
            self.0.pop_front();
        }
        let is_over = |(at, _): &&(Instant, u64)| now.duration_since(*at) >= hold;
        count - self.0.front().filter(is_over).map_or(0, |(_, before)| *before)
    }
}

/// The counts when nothing is under way any more, or after so long.
fn settled(client: &Client, course: &Course, drain: Duration) -> anyhow::Result<Counts> {
    let begin = Instant::now();
    let mut counts = Counts::from(client.counters()?.0);
    let mut since = begin;
    while begin.elapsed() < drain {
        // What came more often than it should is not waited for.
        let missing = ledger::missing(course, &counts, None);
        if since.elapsed() >= QUIET && missing.iter().all(|lost| lost.count < 0) {
            break;
        }
        std::thread::sleep(POLL);
        let now = Counts::from(client.counters()?.0);
        if now != counts {
            (counts, since) = (now, Instant::now());
        }
    }
    Ok(counts)
}
