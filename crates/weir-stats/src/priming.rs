//! How fast each flow is sent once, and what is sent again: as fast as the DUT makes states.
//!
//! Flows are sent in parts of a fifth of a second. What came through says what a part has lost,
//! and the DUT's count of states whether that is missing; only such a part is sent again. The rate
//! rises until something is lost, falls by the share that was, and rises slowly from there on.
//! Where little is lost the machine may have stalled for a moment, which it does at any rate: the
//! rate does not fall, and the part is sent again when all others have been. A DUT that sleeps
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
const PART_S: f64 = 0.2;
const PART_FLOWS_MIN: f64 = 5_000.0;
/// Before a part so much is sent of what comes before it: a CPU that halts needs a millisecond.
const LEAD_S: f64 = 0.002;
/// What the rate is multiplied with after a part that was not lost: until the first loss, from then
/// on, and where most flows are known before they are sent, which is faster.
const RISE: f64 = 1.5;
const RISE_AFTER_LOSS: f64 = 1.1;
const RISE_KNOWN: f64 = 1.2;
/// What it is multiplied with before parts are sent for the second time.
const FASTER_KNOWN: f64 = 4.0;
/// After a loss it is what came through, or what came through whole last, less a little; and no
/// less than a part of what it was. A machine that stalls loses packets at any rate.
const FALL: f64 = 0.93;
const FALL_MOST: f64 = 0.25;
/// The share of a part, at most, whose loss may come from a stall: the same at any rate that fills
/// the DUT's ring during one, so that a slower one would only take longer. Up to the smaller share
/// the rate even rises.
const STALL_LOSS_MAX: f64 = 0.1;
const SMALL_LOSS_MAX: f64 = 0.05;
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

    /// Sends these flows of a stream, each once, and says how many packets came through: at this
    /// rate, or as fast as they arrive if the line sees that. Behind the last flow the first one
    /// follows.
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

    /// From now on most flows are known before they are sent.
    fn know(&mut self) {
        self.rate_pps = (self.rate_pps * FASTER_KNOWN).min(RATE_MAX_PPS);
        self.rise = RISE_KNOWN;
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
                if packets(lost) <= SMALL_LOSS_MAX * packets(sent) {
                    self.rate_pps = (self.rate_pps * self.rise).min(RATE_MAX_PPS);
                }
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    sent_flows: u64,
    known_flows: u64,
}

struct Filling<'a, L> {
    line: &'a mut L,
    flows: &'a Flows<'a>,
    pace: Pace,
    sent_packets: u64,
    packets_max: u64,
    /// Flows that were sent, and how many the DUT knew of them when it was asked last; `None`: it
    /// does not say which are missing.
    known: Option<Known>,
    /// Parts that lost a little and are to be sent again: the stream, and which of its flows.
    stalled: Vec<(usize, Range<u64>)>,
    /// Each flow was sent.
    is_again: bool,
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
        known: flows.is_foretold.then(Known::default),
        stalled: Vec::new(),
        is_again: false,
        is_full: false,
    };
    let mut before = None;
    loop {
        match mem::take(&mut filling.stalled) {
            stalled if !stalled.is_empty() => {
                filling.go_again();
                let before = filling.known;
                for (stream, part) in stalled {
                    filling.part(stream, part)?;
                }
                // What is missing is of other parts, then: packets of one that come late make up
                // for those that the next one loses. All is sent again.
                if filling.known == before {
                    filling.stalled.clear();
                }
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
        filling.go_again();
        (before, filling.known) = (known, None);
    }
}

impl<L: Line> Filling<'_, L> {
    fn stream(&mut self, stream: usize, flow_count: u64) -> Result<(), L::Error> {
        let mut first = 0;
        while first < flow_count && !self.is_full {
            let rest = flow_count - first;
            let count = if self.flows.in_parts { self.pace.part().min(rest) } else { rest };
            if let Some(known) = &mut self.known {
                known.sent_flows += count;
            }
            self.part(stream, first..first + count)?;
            first += count;
        }
        Ok(())
    }

    fn go_again(&mut self) {
        if !mem::replace(&mut self.is_again, true) && self.flows.in_parts {
            self.pace.know();
        }
    }

    /// What is sent for a part: so that the DUT is awake, some flows before it, and before the
    /// first ones the last, if those were sent already.
    fn with_lead(&self, stream: usize, part: &Range<u64>) -> Range<u64> {
        let lead = if self.flows.in_parts { self.pace.lead() } else { 0 };
        let of_stream = self.flows.streams.iter().find(|(index, _)| *index == stream);
        match of_stream {
            Some((_, all)) if self.is_again && part.start == 0 => {
                all - lead.min(*all)..all + part.end
            }
            _ => part.start.saturating_sub(lead)..part.end,
        }
    }

    /// Whether more may be sent.
    const fn has_packets(&self) -> bool {
        self.sent_packets < self.packets_max
    }

    /// Of the flows of a part that may have got lost, how many the DUT may not know: what was lost
    /// behind it is not missing.
    fn missing(&mut self, lost: u64) -> Result<u64, L::Error> {
        let Some(known) = self.known.as_mut().filter(|_| lost > 0) else { return Ok(lost) };
        let Some(known_flows) = self.line.known()? else {
            self.known = None;
            return Ok(lost);
        };
        known.known_flows = known_flows;
        Ok(lost.min(known.sent_flows.saturating_sub(known_flows)))
    }

    /// Sends a part until the DUT knows its flows.
    fn part(&mut self, stream: usize, flows: Range<u64>) -> Result<(), L::Error> {
        let count = flows.end - flows.start;
        let attempts = if self.known.is_some() { ATTEMPTS_MAX } else { ATTEMPTS_MAX_UNTOLD };
        let mut first = None;
        for attempt in 0..attempts {
            if !self.has_packets() {
                return Ok(());
            }
            let sent = self.with_lead(stream, &flows);
            let sent_count = sent.end - sent.start;
            let through = self.line.send(stream, sent, self.pace.rate_pps)?.min(sent_count);
            self.sent_packets += sent_count;
            if !self.flows.in_parts {
                return Ok(());
            }
            let lost = (sent_count - through).min(count);
            let missing = self.missing(lost)?;
            // Few of the flows that were sent again are missing, however many packets get lost.
            self.pace.after(count, if self.is_again { lost } else { missing }, attempt == 0);
            match (self.known, missing) {
                (_, 0) => return Ok(()),
                (Some(_), missing) if is_stall(count, missing) => {
                    self.stalled.push((stream, flows));
                    return Ok(());
                }
                (Some(Known { known_flows: now, .. }), _) => {
                    // One attempt says little: a machine that is busy may have let none through.
                    self.is_full = attempt > 0 && attempt + 1 == attempts && first == Some(now);
                    first = first.or(Some(now));
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
