//! The client of `weir connect`: opens connections, shows it, and says what became of them.
//!
//! It measures nothing itself: it reads counters, once a second and at the end.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_gen::connect::Client;
use weir_gen::connect::ledger::Counts;
use weir_machine::cancel::Cancel;

use super::plan::{self, Plan};
use super::show::{self, ClientResult, Progress, Run};
use crate::cli::connect::ClientArgs;
use crate::exit::Outcome;
use crate::{lab, progress, signals};

/// How often is looked whether a run has ended by itself.
const POLL: Duration = Duration::from_millis(20);
/// When no counter has moved for this long, no answer is under way any more.
const QUIET: Duration = Duration::from_millis(200);
/// No longer is waited for that.
const SETTLE_MAX: Duration = Duration::from_secs(3);

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
    let Watched { ended_by, concurrent_max, opening } = watched?;
    let counts = settled(&client)?;
    let run = Run { plan: &plan, report: &report, counts, concurrent_max, opening, ended_by };
    ClientResult::new(&run, client.latency_ns()?).show(args.json.json)?;
    Ok(cancel.signal().map_or(Outcome::Done, Outcome::Signal))
}

/// What was seen of a run.
struct Watched {
    ended_by: &'static str,
    /// Connections that were held at a time.
    concurrent_max: u64,
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
    let mut watched = Watched { ended_by: "count", concurrent_max: 0, opening: Duration::ZERO };
    let mut opened = 0;
    loop {
        let now = Instant::now();
        let (counters, sent) = client.counters()?;
        let held = sent.syns.offered_packets.saturating_sub(sent.ends.offered_packets);
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

/// The counts when nothing is under way any more.
fn settled(client: &Client) -> anyhow::Result<Counts> {
    let begin = Instant::now();
    let mut counts = Counts::from(client.counters()?.0);
    let mut since = begin;
    while since.elapsed() < QUIET && begin.elapsed() < SETTLE_MAX {
        std::thread::sleep(POLL);
        let now = Counts::from(client.counters()?.0);
        if now != counts {
            (counts, since) = (now, Instant::now());
        }
    }
    Ok(counts)
}
