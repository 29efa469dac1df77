//! How fast each flow is sent once, and what is sent again: as fast as the DUT makes states.
//!
//! Flows are sent in parts of a twentieth of a second. What came through says what a part has lost,
//! and the DUT's count of states whether that is missing; only such a part is sent again. The rate
//! rises until something is lost, falls by the share that was, and rises slowly from there on.
//! Where little is lost the machine may have stalled for a moment, which it does at any rate: the
//! rate falls very little, and the part is sent again when all others have been. A DUT that sleeps
//! loses the first packets while it wakes up: those are of flows that it knows, the last ones of
//! the part before. No clock is read here, and nothing else is known of who sends.

use std::mem;
use std::ops::Range;
use std::time::Duration;

/// The rate of the first part, and the highest: no DUT in software makes states faster.
const RATE_FIRST_PPS: f64 = 400e3;
const RATE_MAX_PPS: f64 = 4e6;
/// The lowest rate: a machine that is emulated forwards so much.
const RATE_MIN_PPS: f64 = 5e3;
/// All flows are sent within this time, because a DUT forgets them: Linux's connection tracker does
/// so after 30 seconds without an answer.
const TIME_MAX_S: f64 = 20.0;
/// A part takes so long, and has at least so many flows.
const PART_S: f64 = 0.05;
const PART_FLOWS_MIN: f64 = 5_000.0;
/// Before a part so much is sent of what comes before it: a CPU that halts needs a millisecond.
const LEAD_S: f64 = 0.002;
/// What the rate is multiplied with after a part that was not lost: until the first loss, and from
/// then on.
const RISE: f64 = 1.5;
const RISE_AFTER_LOSS: f64 = 1.02;
/// After a loss it is what came through, or what came through whole last, less a little; and no
/// less than a part of what it was. A machine that stalls loses packets at any rate.
const FALL: f64 = 0.93;
const FALL_MOST: f64 = 0.25;
/// The share of a part, at most, whose loss may come from a stall, and what the rate is multiplied
/// with then: the rate may be a little too high, too.
const STALL_LOSS_MAX: f64 = 0.1;
const FALL_AFTER_STALL: f64 = 0.99;
/// And before such parts are sent for the third time: the same flows may be lost each time, those
/// before the DUT wakes up.
const FALL_AGAIN: f64 = 0.6;
/// Nor are those sent more slowly than within this time.
const TIME_AGAIN_MAX_S: f64 = 2.0;
/// How often a part is sent: where the DUT tells its states, and where only its packets tell.
const ATTEMPTS_MAX: u32 = 6;
const ATTEMPTS_MAX_UNTOLD: u32 = 2;
/// So many packets are sent for each flow at the most, on average.
const PACKETS_PER_FLOW_MAX: u64 = 8;

/// States that a DUT of today makes in a second, and what is sent again besides.
const STATES_PER_S: f64 = 300e3;
const LAST: Duration = Duration::from_millis(100);

#[expect(clippy::cast_precision_loss, reason = "flow counts stay far below 2^53")]
fn packets(count: u64) -> f64 {
    count as f64
}

/// About how long it takes to send so many flows to a DUT of today.
#[must_use]
pub fn prime_time(flow_count: u64) -> Duration {
    LAST + Duration::from_secs_f64(packets(flow_count) / STATES_PER_S)
}

/// Who sends flows through the DUT, and asks it.
pub trait Line {
    /// Why it cannot.
    type Error;

    /// Sends these flows of a stream, each once, and says how many packets came through.
    ///
    /// # Errors
    /// When it cannot.
    fn send(&mut self, stream: usize, flows: Range<u64>, rate_pps: f64)
    -> Result<u64, Self::Error>;

    /// How many flows the DUT knows; `None` where it does not tell.
    ///
    /// # Errors
    /// When it cannot be asked.
    fn known(&mut self) -> Result<Option<u64>, Self::Error>;
}

/// What is to be sent.
pub struct Flows<'a> {
    /// Streams by their index, and how many flows they have.
    pub streams: &'a [(usize, u64)],
    /// Whether the line can send a part of a stream, and tells what came through.
    pub in_parts: bool,
    /// Whether the DUT makes one state of each flow, as far as is known.
    pub is_foretold: bool,
    /// Whether the DUT knows all, if it knows so many.
    pub is_all: &'a dyn Fn(u64) -> bool,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// What the DUT knows now; `None` where it does not tell.
    pub known: Option<u64>,
    pub sent_packets: u64,
}

/// The rate, by what became of the packets before.
#[derive(Debug, Clone, Copy)]
struct Pace {
    rate_pps: f64,
    least_pps: f64,
    /// The rate of the last part that came through whole at once.
    proven_pps: f64,
    rise: f64,
}

impl Pace {
    fn of(flow_count: u64) -> Self {
        let least_pps = RATE_MIN_PPS.max(packets(flow_count) / TIME_MAX_S);
        Self { rate_pps: RATE_FIRST_PPS.max(least_pps), least_pps, proven_pps: 0.0, rise: RISE }
    }

    /// Flows of the next part.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    fn part(&self) -> u64 {
        (self.rate_pps * PART_S).max(PART_FLOWS_MIN) as u64
    }

    /// Flows that are sent before a part, at most.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is bounded")]
    fn lead(&self) -> u64 {
        (self.rate_pps * LEAD_S) as u64
    }

    /// Before so many flows, of parts that have stalled twice, are sent again.
    fn slow_down(&mut self, flow_count: u64) {
        let least_pps = self.least_pps.min(packets(flow_count) / TIME_AGAIN_MAX_S);
        self.least_pps = RATE_MIN_PPS.max(least_pps);
        self.rate_pps = (self.rate_pps * FALL_AGAIN).max(self.least_pps);
    }

    /// After a part, which may have been sent before: states that are there cost little, and say
    /// nothing of how fast they are made.
    fn after(&mut self, sent: u64, lost: u64, is_first: bool) {
        match (lost, is_first) {
            (0, true) => {
                self.proven_pps = self.rate_pps;
                self.rate_pps = (self.rate_pps * self.rise).min(RATE_MAX_PPS);
            }
            (0, false) => {}
            // The first loss of all may well be the DUT's limit.
            (lost, _) if is_stall(sent, lost) && self.rise < RISE => {
                self.rate_pps = (self.rate_pps * FALL_AFTER_STALL).max(self.least_pps);
            }
            (lost, _) => {
                let through = 1.0 - packets(lost) / packets(sent.max(1));
                let came = (self.rate_pps * through.max(FALL_MOST)).max(self.proven_pps);
                self.proven_pps *= FALL;
                self.rise = RISE_AFTER_LOSS;
                self.rate_pps = (came.min(self.rate_pps) * FALL).max(self.least_pps);
            }
        }
    }
}

/// Whether what a part has lost says little of the rate.
fn is_stall(sent: u64, lost: u64) -> bool {
    lost > 0 && packets(lost) <= STALL_LOSS_MAX * packets(sent)
}

struct Filling<'a, L> {
    line: &'a mut L,
    flows: &'a Flows<'a>,
    pace: Pace,
    sent_packets: u64,
    packets_max: u64,
    /// What the DUT knew when it was asked last, and the flows of the parts since then that came
    /// through whole; `None`: it does not say which are missing.
    known: Option<(u64, u64)>,
    /// Parts that lost a little and are to be sent again: the stream, which of its flows, and how
    /// many of them are missing.
    stalled: Vec<(usize, Range<u64>, u64)>,
    /// It takes no more.
    is_full: bool,
}

/// Sends each flow, and again what got lost, until the DUT knows them all or takes no more.
///
/// # Errors
/// As the line.
pub fn fill<L: Line>(line: &mut L, flows: &Flows<'_>) -> Result<Filled, L::Error> {
    let flow_count: u64 = flows.streams.iter().map(|(_, count)| count).sum();
    let mut filling = Filling {
        line,
        flows,
        pace: Pace::of(flow_count),
        sent_packets: 0,
        packets_max: flow_count.saturating_mul(PACKETS_PER_FLOW_MAX),
        known: flows.is_foretold.then_some((0, 0)),
        stalled: Vec::new(),
        is_full: false,
    };
    let (mut before, mut is_again, mut vain_count) = (None, false, 0);
    loop {
        match mem::take(&mut filling.stalled) {
            stalled if !stalled.is_empty() => {
                if is_again {
                    let counts = stalled.iter().map(|(_, part, _)| part.end - part.start);
                    filling.pace.slow_down(counts.sum());
                }
                is_again = true;
                let before = filling.known;
                for (stream, part, missing) in stalled {
                    filling.part(stream, part, missing)?;
                }
                // What takes none of what is missing, however slowly it comes, is full.
                vain_count = if filling.known == before { vain_count + 1 } else { 0 };
                filling.is_full |= vain_count == ATTEMPTS_MAX;
            }
            _ => {
                for &(stream, count) in flows.streams {
                    filling.stream(stream, count)?;
                }
            }
        }
        if !filling.stalled.is_empty() && !filling.is_full && filling.has_packets() {
            continue;
        }
        let known = filling.line.known()?;
        let sent_packets = filling.sent_packets;
        let is_done = match known {
            None => true,
            Some(known) => {
                // What does not grow although everything was sent again is as large as it gets.
                (flows.is_all)(known) || filling.is_full || before == Some(known)
            }
        };
        if is_done || flow_count == 0 || sent_packets + flow_count > filling.packets_max {
            return Ok(Filled { known, sent_packets });
        }
        if !flows.in_parts {
            let lost = flow_count.saturating_sub(known.unwrap_or(0));
            filling.pace.after(flow_count, lost, false);
        }
        // From now on most flows are known before they are sent.
        (before, filling.known) = (known, None);
    }
}

impl<L: Line> Filling<'_, L> {
    fn stream(&mut self, stream: usize, flow_count: u64) -> Result<(), L::Error> {
        let mut first = 0;
        while first < flow_count && !self.is_full {
            let rest = flow_count - first;
            let count = if self.flows.in_parts { self.pace.part().min(rest) } else { rest };
            self.part(stream, first..first + count, count)?;
            first += count;
        }
        Ok(())
    }

    /// Whether more may be sent.
    const fn has_packets(&self) -> bool {
        self.sent_packets < self.packets_max
    }

    /// Sends a part, `new` of whose flows the DUT does not know as far as is known, until it does.
    fn part(&mut self, stream: usize, flows: Range<u64>, new: u64) -> Result<(), L::Error> {
        let count = flows.end - flows.start;
        let due = self.known.map(|(known, since)| known + since + new);
        let attempts = if due.is_some() { ATTEMPTS_MAX } else { ATTEMPTS_MAX_UNTOLD };
        let mut first = None;
        for attempt in 0..attempts {
            if !self.has_packets() {
                return Ok(());
            }
            let lead = if self.flows.in_parts { self.pace.lead() } else { 0 };
            let sent = flows.start.saturating_sub(lead)..flows.end;
            let sent_count = sent.end - sent.start;
            let through = self.line.send(stream, sent, self.pace.rate_pps)?.min(sent_count);
            self.sent_packets += sent_count;
            if !self.flows.in_parts {
                return Ok(());
            }
            let mut missing = (sent_count - through).min(count);
            if missing > 0
                && let Some(due) = due
                && self.known.is_some()
            {
                // What was lost behind the DUT is not missing.
                self.known = self.line.known()?.map(|now| (now, 0));
                missing = self.known.map_or(missing, |(now, _)| due.saturating_sub(now).min(new));
            }
            self.pace.after(count, missing, attempt == 0);
            match (&mut self.known, missing) {
                (Some((known, since)), 0) => {
                    *since = due.map_or(0, |due| due.saturating_sub(*known));
                    return Ok(());
                }
                (None, 0) => return Ok(()),
                (Some(_), missing) if is_stall(count, missing) => {
                    self.stalled.push((stream, flows, missing));
                    return Ok(());
                }
                (Some((now, _)), _) => {
                    // One attempt says little: a machine that is busy may have let none through.
                    self.is_full = attempt > 0 && attempt + 1 == attempts && first == Some(*now);
                    first = first.or(Some(*now));
                }
                // Where nothing gets through, sending it again is no use.
                (None, _) if through == 0 => return Ok(()),
                (None, _) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
