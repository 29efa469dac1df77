//! `-f rx` counts whatever arrives, `-f pong` returns it.

use std::time::{Duration, Instant};

use weir_bpf::attach::Mode;
use weir_bpf::reflect::ReflectProgram;
use weir_bpf::sink::SinkProgram;
use weir_gen::pkt_gen::Plan;
use weir_gen::pkt_gen::print::{self, Counters};

use super::console::{ReportTimer, log};
use super::{POLL, attach, open, outcome, put, ready, session, wait};
use crate::exit::Outcome;
use crate::receive::Session;

/// `-W`.
const SILENCE: Duration = Duration::from_secs(1);

/// Counts every frame, weir's own and others.
pub(super) fn command(plan: &Plan) -> anyhow::Result<Outcome> {
    let session = session(plan)?;
    let sink = SinkProgram::load()?;
    let ifindex = session.link.ifindex;
    // Before the wait: who sends meanwhile finds an interface that takes XDP frames.
    let link = attach(&session, |mode| match mode {
        Mode::Native => sink.attach(ifindex),
        Mode::Generic => sink.attach_generic(ifindex),
    })?;
    open(plan, session.queue_count())?;
    if !wait(plan, &session.cancel) {
        put(&print::totals(plan.function, plan.style, Counters::default(), Duration::ZERO))?;
        return Ok(outcome(&session.cancel));
    }
    let all = || {
        let total = sink.counters()?.total();
        let packets = total.packets + total.foreign_packets;
        Ok(Counters { packets, bytes: total.bytes + total.foreign_bytes, batches: packets })
    };
    let before = all()?;
    ready();
    let read = || all().map(|now| since(now, before));
    let mut arrivals = Arrivals::begin();
    let mut timer = ReportTimer::new(plan);
    let ended = watch(plan, &session, &mut timer, &mut arrivals, read);
    drop(link);
    let all = read()?;
    timer.end(all);
    put(&print::totals(plan.function, plan.style, all, arrivals.duration(plan)))?;
    ended?;
    Ok(outcome(&session.cancel))
}

/// Returns every IP packet with its addresses and ports exchanged.
pub(super) fn pong(plan: &Plan) -> anyhow::Result<Outcome> {
    let session = session(plan)?;
    if let Some(note) = session.returning_note() {
        log("main", line!(), &note);
    }
    let program = ReflectProgram::load()?;
    let link = attach(&session, |mode| program.attach(session.link.ifindex, mode))?;
    open(plan, session.queue_count())?;
    let read = || {
        let total = program.counters()?;
        let packets = total.reflected_packets;
        Ok(Counters { packets, bytes: total.reflected_bytes, batches: packets })
    };
    if !wait(plan, &session.cancel) {
        return Ok(outcome(&session.cancel));
    }
    ready();
    let mut timer = ReportTimer::new(plan);
    let ended = watch(plan, &session, &mut timer, &mut Arrivals::begin(), read);
    drop(link);
    let all = read()?;
    timer.end(all);
    let passed = program.counters()?.passed_packets;
    log(
        "pong_body",
        line!(),
        &format!(
            "returned {} packets {} bytes, left {passed} to the network stack",
            all.packets, all.bytes
        ),
    );
    ended?;
    Ok(outcome(&session.cancel))
}

/// What came after `before`.
fn since(now: Counters, before: Counters) -> Counters {
    Counters {
        packets: now.packets - before.packets,
        bytes: now.bytes - before.bytes,
        batches: now.batches - before.batches,
    }
}

/// When packets came, as exactly as they are looked at.
struct Arrivals {
    packets: u64,
    /// The last look before the first packet.
    first: Instant,
    /// The first look behind the last packet.
    last: Instant,
    /// The last look.
    now: Instant,
}

impl Arrivals {
    fn begin() -> Self {
        let now = Instant::now();
        Self { packets: 0, first: now, last: now, now }
    }

    /// Notes that there were so many packets in all.
    fn look(&mut self, packets: u64) {
        let now = Instant::now();
        if self.packets == 0 && packets == 0 {
            self.first = now;
        }
        if packets > self.packets {
            (self.packets, self.last) = (packets, now);
        }
        self.now = now;
    }

    fn silence(&self) -> Duration {
        self.now - self.last
    }

    /// From the first packet to the end. As in pkt-gen, the second of -W does not count.
    fn duration(&self, plan: &Plan) -> Duration {
        let end = if plan.stops_in_silence { self.last } else { self.now };
        end.saturating_duration_since(self.first)
    }
}

/// Reports until there were enough packets, a second was silent, or a signal comes.
fn watch(
    plan: &Plan,
    session: &Session,
    timer: &mut ReportTimer,
    arrivals: &mut Arrivals,
    read: impl Fn() -> anyhow::Result<Counters>,
) -> anyhow::Result<()> {
    loop {
        let slept = session.cancel.sleep_until(timer.due().min(Instant::now() + POLL));
        let now = read()?;
        arrivals.look(now.packets);
        if timer.is_due() {
            session.check_present()?;
            timer.print(now);
        }
        let enough = plan.packet_count.is_some_and(|count| now.packets >= count);
        if !slept || enough || (plan.stops_in_silence && arrivals.silence() >= SILENCE) {
            return Ok(());
        }
    }
}
