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
/// Time between two lines of `--progress`.
const LINE: Duration = Duration::from_secs(1);

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
    let (ended_by, concurrent_max) = watched?;
    let counts = settled(&client)?;
    let run = Run { plan: &plan, report: &report, counts, concurrent_max, ended_by };
    ClientResult::new(&run, client.latency_ns()?).show(args.json.json)?;
    Ok(cancel.signal().map_or(Outcome::Done, Outcome::Signal))
}

/// Shows a run until it ends; says what ended it, and how many connections were held at a time.
fn watch(
    args: &ClientArgs,
    plan: &Plan,
    client: &mut Client,
    cancel: &Cancel,
) -> anyhow::Result<(&'static str, u64)> {
    let begin = Instant::now();
    let end = plan.duration.map(|duration| begin + duration);
    let mut next_line = begin + LINE;
    let mut lines = Progress::new(args.json.json);
    let (mut ended_by, mut concurrent_max) = ("count", 0);
    loop {
        let now = Instant::now();
        let (counters, sent) = client.counters()?;
        let held = sent.syns.offered_packets.saturating_sub(sent.ends.offered_packets);
        concurrent_max = held.max(concurrent_max);
        if cancel.signal().is_some() {
            return Ok(("signal", concurrent_max));
        }
        if !client.is_running() {
            return Ok((ended_by, concurrent_max));
        }
        if end.is_some_and(|end| now >= end) {
            ended_by = "duration";
            client.end_opening();
        }
        if args.progress && now >= next_line {
            next_line += LINE;
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
