//! `-f ping`: sends a burst, waits for a reply, sends again; times every reply.
//!
//! Packets carry the time at which the kernel made them, and the sink, in the driver of the same
//! interface, compares it with the same clock: the program itself is not in the round trip.

use std::time::{Duration, Instant};

use weir_bpf::histogram::Histogram;
use weir_bpf::sink::{Arrival, SinkObserver};
use weir_gen::pkt_gen::Plan;
use weir_gen::pkt_gen::print::Counters;
use weir_gen::pkt_gen::rtt::RoundTrips;
use weir_machine::cancel::Cancel;

use super::console::{ReportTimer, log};
use super::sender::Sender;
use super::{attach, open, outcome, ready, session, wait};
use crate::exit::Outcome;

/// How long pkt-gen waits for a reply before it sends again.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the replies to the last burst are waited for, after the first of them.
const LAST_REPLIES: Duration = Duration::from_millis(100);

/// How often is looked for a reply. It is no part of what is measured.
const LOOK: Duration = Duration::from_micros(50);

/// Bit of the first octet of a MAC address that is no single station's.
const GROUP_BIT: u8 = 1;

pub(super) fn command(plan: &Plan) -> anyhow::Result<Outcome> {
    let session = session(plan)?;
    let mut sender = Sender::open(plan)?;
    let group = sender.traffic.streams().iter().any(|(s, _)| s.dst_mac.0[0] & GROUP_BIT != 0);
    if group {
        log(
            "main",
            line!(),
            "-D is missing, or a group address: netmap's pong replies to those, weir's and other \
             hosts do not",
        );
    }
    let sink = SinkObserver::load_timing_all(&[], Arrival::AnyCpu)?;
    let link = attach(&session, |mode| sink.attach(session.link.ifindex, mode))?;
    open(plan, sender.path.queue_count)?;
    sender.introduce(plan)?;
    let mut ping = Ping {
        plan,
        sink: &sink,
        cancel: &session.cancel,
        sent: Counters::default(),
        seen: Histogram::default(),
        timer: ReportTimer::new(plan),
    };
    let ended = match wait(plan, &session.cancel) {
        true => {
            ready();
            ping.run(&mut sender)
        }
        false => Ok(()),
    };
    ping.end()?;
    drop(link);
    ended?;
    session.check_present()?;
    Ok(outcome(&session.cancel))
}

struct Ping<'a> {
    plan: &'a Plan,
    sink: &'a SinkObserver,
    cancel: &'a Cancel,
    sent: Counters,
    /// What the last report has told.
    seen: Histogram,
    timer: ReportTimer,
}

impl Ping<'_> {
    /// Sends until there were enough packets, or a signal comes.
    fn run(&mut self, sender: &mut Sender) -> anyhow::Result<()> {
        self.timer = ReportTimer::new(self.plan);
        let mut due = Instant::now();
        loop {
            let left = self.plan.packet_count.map(|count| count - self.sent.packets);
            let burst = left.unwrap_or(u64::MAX).min(self.plan.burst.into());
            if burst == 0 || !self.pause(due)? {
                return Ok(());
            }
            if let Some(rate_pps) = self.plan.thread_rate_pps {
                // What was missed is not made up for: a reply that is late would cause a burst.
                due = due.max(Instant::now())
                    + Duration::from_secs_f64(burst as f64 / rate_pps as f64);
            }
            let replies = self.sink.counters()?.total().packets;
            sender.backend.start(Sender::options(None, Some(burst), self.sent.packets))?;
            let counters = sender.backend.wait()?.counters;
            self.sent.packets += counters.offered_packets;
            self.sent.bytes += counters.offered_bytes;
            self.sent.batches += 1;
            if !self.replied(replies + 1, REPLY_TIMEOUT)? {
                sender.check_accepted(self.sent.packets)?;
            }
            if left == Some(burst) {
                self.replied(replies + burst, LAST_REPLIES)?;
            }
        }
    }

    /// Waits until so many replies have come. False if they have not, in that time.
    fn replied(&mut self, count: u64, timeout: Duration) -> anyhow::Result<bool> {
        let end = Instant::now() + timeout;
        while self.sink.counters()?.total().packets < count {
            if Instant::now() >= end || self.cancel.signal().is_some() {
                return Ok(false);
            }
            self.report_if_due()?;
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// Waits until `due`, with reports on the way. False if a signal came.
    fn pause(&mut self, due: Instant) -> anyhow::Result<bool> {
        loop {
            self.report_if_due()?;
            if !self.cancel.sleep_until(due.min(self.timer.due())) {
                return Ok(false);
            }
            if Instant::now() >= due {
                return Ok(true);
            }
        }
    }

    fn report_if_due(&mut self) -> anyhow::Result<()> {
        if self.timer.is_due() {
            self.round_trips()?;
            self.timer.print(self.sent);
        }
        Ok(())
    }

    /// Tells the round trips since the last time.
    fn round_trips(&mut self) -> anyhow::Result<()> {
        let now = self.sink.observations()?.latency_ns;
        for message in RoundTrips::since(&self.seen, &now).report() {
            log("ping_body", line!(), &message);
        }
        self.seen = now;
        Ok(())
    }

    /// Tells the rest, and the round trips of the whole run.
    fn end(&mut self) -> anyhow::Result<()> {
        let now = self.sink.observations()?.latency_ns;
        if now.count() > self.seen.count() {
            self.round_trips()?;
        }
        self.timer.end(self.sent);
        log("ping_body", line!(), &RoundTrips::since(&Histogram::default(), &now).totals());
        Ok(())
    }
}
