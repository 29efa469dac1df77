//! How fast each flow is sent once, and what is sent again: as fast as the DUT makes states.
//!
//! Flows are sent in parts of a twentieth of a second. What came through says what a part has lost,
//! and the DUT's count of states whether that is missing; only such a part is sent again. The rate
//! rises until something is lost, falls by the share that was, and rises slowly from there on.
//! Where little is lost the machine may have stalled for a moment, which it does at any rate: the
//! rate falls very little, and the part is sent again when all others have been. No clock is read
//! here, and nothing else is known of who sends.

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

    /// Before parts that have stalled twice are sent again.
    fn slow_down(&mut self) {
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
            (lost, _) if is_stall(sent, lost) => {
                self.rise = RISE_AFTER_LOSS;
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
    /// Parts that lost a little and are to be sent again: the stream, and which of its flows.
    stalled: Vec<(usize, Range<u64>)>,
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
    let (mut before, mut is_again) = (None, false);
    loop {
        match mem::take(&mut filling.stalled) {
            stalled if !stalled.is_empty() => {
                if is_again {
                    filling.pace.slow_down();
                }
                is_again = true;
                for (stream, part) in stalled {
                    filling.part(stream, part)?;
                    // Some of it had been there before: that it does not grow means nothing.
                    filling.ask()?;
                    filling.is_full = false;
                }
            }
            _ => {
                for &(stream, count) in flows.streams {
                    filling.stream(stream, count)?;
                }
            }
        }
        if !filling.stalled.is_empty() && filling.has_packets() {
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
            self.part(stream, first..first + count)?;
            first += count;
        }
        Ok(())
    }

    /// Asks what the DUT knows, where that tells which parts are missing.
    fn ask(&mut self) -> Result<(), L::Error> {
        if self.known.is_some() {
            self.known = self.line.known()?.map(|now| (now, 0));
        }
        Ok(())
    }

    /// Whether more may be sent.
    const fn has_packets(&self) -> bool {
        self.sent_packets < self.packets_max
    }

    fn part(&mut self, stream: usize, flows: Range<u64>) -> Result<(), L::Error> {
        let count = flows.end - flows.start;
        let attempts = if self.known.is_some() { ATTEMPTS_MAX } else { ATTEMPTS_MAX_UNTOLD };
        let (mut first, mut last) = (None, None);
        for attempt in 0..attempts {
            if self.sent_packets + count > self.packets_max {
                return Ok(());
            }
            let through = self.line.send(stream, flows.clone(), self.pace.rate_pps)?.min(count);
            self.sent_packets += count;
            if !self.flows.in_parts {
                return Ok(());
            }
            self.pace.after(count, count - through, attempt == 0);
            if through == count {
                if let Some((_, since)) = &mut self.known {
                    *since += count;
                }
                return Ok(());
            }
            if self.known.is_some() && is_stall(count, count - through) {
                self.stalled.push((stream, flows));
                return self.ask();
            }
            if let Some((known, since)) = self.known {
                let Some(now) = self.line.known()? else {
                    self.known = None;
                    continue;
                };
                if now >= known + since + count {
                    self.known = Some((now, 0));
                    return Ok(());
                }
                first = first.or(Some(now));
                last = Some(now);
            }
            // Where nothing gets through, sending it again is no use.
            if through == 0 && self.known.is_none() {
                return Ok(());
            }
        }
        if let (Some(_), Some(now)) = (self.known, last) {
            self.known = Some((now, 0));
            // One attempt says little: a machine that is busy may have let none of it through.
            self.is_full = first == Some(now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
