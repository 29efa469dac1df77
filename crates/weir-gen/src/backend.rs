//! What every backend does, and what a run of any of them is asked for and reports.
//!
//! [`crate::live`], [`crate::packet`] and [`crate::pcap`] send the same frames for the same stream
//! and the same number of threads, byte for byte: packet number `s` of a run is
//! [`crate::stream::Stream::frame`] of `s`.
//!
//! Threads partition the sequence numbers: of n threads, thread t sends numbers t, t + n, t + 2n, …
//! of the run, so that n threads together send what one would, and the walk over the flows is
//! shared, not repeated. A limit holds for all threads together, and is exact.

use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;

use crate::error::GeneratorError;
use crate::pacing::Schedule;
use crate::stream;
use crate::units::Rate;

/// Sends a stream, in one run after another.
pub trait Backend {
    /// Starts a run, and returns when its threads are about to send.
    ///
    /// # Errors
    /// [`GeneratorError`] if a run is going on, the options cannot be honoured, or a thread cannot
    /// be started.
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError>;

    /// True while packets are being sent: after [`start`](Self::start), until the limit is reached,
    /// sending fails, or [`stop`](Self::stop) returns.
    fn is_running(&self) -> bool;

    /// Counters of the present run, or of the last one. They may be read while it sends.
    ///
    /// # Errors
    /// [`GeneratorError`] if they cannot be read.
    fn counters(&self) -> Result<GeneratorCounters, GeneratorError>;

    /// Ends the run, waits for its threads, and says what was done.
    ///
    /// # Errors
    /// [`GeneratorError`] if no run was started, or if sending failed.
    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError>;

    /// Waits until a run with a packet limit ends by itself, and says what was done.
    ///
    /// # Errors
    /// [`GeneratorError`] if no run was started, or if sending failed.
    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError>;
}

/// One run: how fast, how much, from where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptions {
    /// Rate, total over all threads; it replaces the stream's.
    pub rate: Rate,
    /// How long the rate rises linearly from zero; zero if it does not.
    pub ramp: Duration,
    /// Exact number of packets, of all threads together, after which the run ends by itself; `None`
    /// sends until stopped.
    pub packet_limit: Option<u64>,
    /// Sequence number of the first packet: 0 to start over,
    /// [`GeneratorReport::next_sequence`] to go on where the last run ended. It also determines
    /// the first flow.
    pub first_sequence: u64,
}

impl RunOptions {
    /// The first sequence number that is not sent any more.
    pub(crate) fn end_sequence(&self) -> Option<u64> {
        self.packet_limit.map(|limit| self.first_sequence.saturating_add(limit))
    }

    /// The schedule of all threads together; `None` is as fast as possible.
    ///
    /// # Errors
    /// [`GeneratorError`] if the rate cannot be sent, or a ramp has no rate to rise to.
    pub fn schedule(&self) -> Result<Option<Schedule>, GeneratorError> {
        match stream::rate_pps(self.rate)? {
            Some(rate_pps) => Ok(Some(Schedule { rate_pps, ramp: self.ramp })),
            None if self.ramp.is_zero() => Ok(None),
            None => Err(GeneratorError::RampWithoutRate),
        }
    }

    /// The schedule of one of `thread_count` threads.
    pub(crate) fn thread_schedule(
        &self,
        thread_count: u32,
    ) -> Result<Option<Schedule>, GeneratorError> {
        let schedule = self.schedule()?;
        Ok(schedule
            .map(|whole| Schedule { rate_pps: whole.rate_pps / f64::from(thread_count), ..whole }))
    }
}

/// What one thread of a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadReport {
    /// The CPU that it was pinned to; `None` if it was not.
    pub cpu: Option<u32>,
    /// Sequence number that its next packet would have had.
    pub next_sequence: u64,
    /// What it offered, and how well it kept its schedule.
    pub counters: GeneratorCounters,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorReport {
    /// The rate that was asked for.
    pub requested: Rate,
    /// Sequence number of the first packet.
    pub first_sequence: u64,
    /// One more than the highest sequence number that was sent. A run that ended by its limit sent
    /// all numbers below; one of several threads that was stopped may have left some out, because
    /// its threads do not stop at the same number.
    pub next_sequence: u64,
    /// From the first call into the kernel to the return of the last one.
    pub duration: Duration,
    /// What was offered, and how well the schedule was kept: all threads together.
    pub counters: GeneratorCounters,
    /// The same by thread.
    pub threads: Vec<ThreadReport>,
}

impl GeneratorReport {
    /// Merges the threads of a run.
    pub(crate) fn merge(
        options: &RunOptions,
        duration: Duration,
        threads: Vec<ThreadReport>,
    ) -> Self {
        let mut counters = GeneratorCounters::default();
        let mut next_sequence = options.first_sequence;
        let step = threads.len() as u64;
        for thread in &threads {
            counters.add(&thread.counters);
            if thread.counters.offered_packets > 0 {
                next_sequence = next_sequence.max(thread.next_sequence.saturating_sub(step) + 1);
            }
        }
        let (requested, first_sequence) = (options.rate, options.first_sequence);
        Self { requested, first_sequence, next_sequence, duration, counters, threads }
    }

    /// Packets per second that were offered, over the whole run; zero if it took no time.
    #[must_use]
    pub fn offered_pps(&self) -> f64 {
        let seconds = self.duration.as_secs_f64();
        if seconds > 0.0 { self.counters.offered_packets as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(next_sequence: u64, offered_packets: u64) -> ThreadReport {
        let counters = GeneratorCounters { offered_packets, ..Default::default() };
        ThreadReport { cpu: None, next_sequence, counters }
    }

    #[test]
    fn the_next_sequence_is_behind_the_highest() {
        let options = RunOptions {
            rate: Rate::Max,
            ramp: Duration::ZERO,
            packet_limit: Some(10),
            first_sequence: 100,
        };
        let merge =
            |threads: Vec<ThreadReport>| GeneratorReport::merge(&options, Duration::ZERO, threads);
        // Ten packets on three threads: 100..110.
        let report = merge(vec![thread(112, 4), thread(110, 3), thread(111, 3)]);
        assert_eq!((report.next_sequence, report.counters.offered_packets), (110, 10));
        assert_eq!(merge(vec![thread(100, 0)]).next_sequence, 100);
        assert_eq!(merge(vec![thread(101, 1)]).next_sequence, 101);
        assert_eq!(merge(vec![thread(103, 1), thread(101, 0), thread(102, 0)]).next_sequence, 101);
    }

    #[test]
    fn a_ramp_needs_a_rate() {
        let ramp = Duration::from_secs(1);
        let options = RunOptions { rate: Rate::Max, ramp, packet_limit: None, first_sequence: 0 };
        assert!(matches!(options.schedule(), Err(GeneratorError::RampWithoutRate)));
        let paced = RunOptions { rate: Rate::Pps(10.0), ..options };
        let schedule = paced.thread_schedule(4).unwrap().unwrap();
        assert_eq!((schedule.rate_pps, schedule.ramp), (2.5, ramp));
    }
}
