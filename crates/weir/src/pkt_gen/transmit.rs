//! `-f tx`: sends, until the count is reached or a signal comes.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use weir_gen::pkt_gen::{Plan, print};
use weir_machine::cancel::Cancel;
use weir_results::number::delay_ns;

use super::console::{ReportTimer, log};
use super::sender::{Sender, counted, counted_by_thread};
use super::{POLL, open, outcome, put, ready, wait};
use crate::exit::Outcome;
use crate::signals;

/// When the first packets are looked at.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// What a device may still be counting when the last call has returned.
const SETTLE: Duration = Duration::from_millis(50);

pub(super) fn command(plan: &Plan) -> anyhow::Result<Outcome> {
    let cancel = signals::listen().context("cannot listen to signals")?;
    let mut sender = Sender::open(plan)?;
    open(plan, sender.path.queue_count)?;
    sender.introduce(plan)?;
    if !wait(plan, &cancel) {
        put(&print::totals(plan.function, plan.style, print::Counters::default(), Duration::ZERO))?;
        return Ok(outcome(&cancel));
    }
    ready();
    let paced = plan.thread_rate_pps.is_some();
    let mut timer = ReportTimer::new(plan);
    sender.backend.start(Sender::options(plan.rate_pps(), plan.packet_count, 0))?;
    watch(&mut sender, &mut timer, paced, &cancel)?;
    let report = sender.backend.stop()?;
    let sent = counted_by_thread(&report, paced);
    timer.end(sent);
    std::thread::sleep(SETTLE);
    sender.check_accepted(sent.packets)?;
    put(&print::totals(plan.function, plan.style, sent, report.duration))?;
    if report.counters.stall_lost_ns > 0 {
        let (stalls, lost) = (report.counters.stalls, delay_ns(report.counters.stall_lost_ns));
        let text = format!(
            "{stalls} stalls took {lost} out of the schedule: something else had the sending CPU"
        );
        log("main", line!(), &text);
    }
    log("main", line!(), "done");
    Ok(outcome(&cancel))
}

/// Reports until the run ends by itself or a signal comes.
fn watch(
    sender: &mut Sender,
    timer: &mut ReportTimer,
    paced: bool,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    let mut first_look = Some(Instant::now() + FIRST_LOOK);
    while sender.backend.is_running() {
        let counters = sender.backend.counters()?;
        if first_look.is_some_and(|at| Instant::now() >= at) {
            first_look = None;
            sender.check_accepted(counters.offered_packets)?;
        }
        if timer.is_due() {
            timer.print(counted(counters.offered_packets, counters.offered_bytes, paced));
        }
        if !cancel.sleep_until(timer.due().min(Instant::now() + POLL)) {
            break;
        }
    }
    Ok(())
}
