//! What every backend does, and what a run of any of them is asked for and reports.
//!
//! [`crate::live`], [`crate::packet`] and [`crate::pcap`] send the same frames for the same traffic
//! and the same number of threads, byte for byte: packet number `g` is
//! [`weir_wire::stream::StreamSet::build`] of `g`.
//!
//! Threads partition the packet numbers: of n threads, thread t sends numbers t, t + n, t + 2n, …,
//! so that n threads together send what one would, and the walk over the flows is shared, not
//! repeated. A limit holds for all threads together, and is exact.

use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;
use weir_bpf::histogram::Histogram;
use weir_wire::stream::StreamSet;
use weir_wire::walk::Share;

use crate::error::GeneratorError;
use crate::pacing::Schedule;
use crate::window::Window;
use weir_wire::traffic;
use weir_wire::units::Rate;

/// Frames that a thread without a rate hands to the device at once: those of one batch of live
/// frames, or of one system call. With a rate, a frame is handed over when it is due, mostly alone.
pub const BATCH_FRAMES: u32 = 64;

/// Sends traffic, in one run after another.
pub trait Backend {
    /// Starts a run, and returns when its threads are about to send.
    ///
    /// # Errors
    /// [`GeneratorError`] if a run is going on, the options cannot be honoured, or a thread cannot
    /// be started.
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError>;

    /// As [`start`](Self::start), at full speed, but with no more packets under way than a window
    /// allows.
    ///
    /// # Errors
    /// As [`start`](Self::start); [`GeneratorError::State`] where there are no windows, or if the
    /// options have a rate or the generator several threads.
    fn start_within(&mut self, _: RunOptions, _: &Window) -> Result<(), GeneratorError> {
        Err(GeneratorError::State("one that knows no windows"))
    }

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
    /// Rate, total over all threads.
    pub rate: Rate,
    /// How long the rate rises linearly from zero; zero if it does not.
    pub ramp: Duration,
    /// Exact number of packets, of all threads together, after which the run ends by itself; `None`
    /// sends until stopped.
    pub packet_limit: Option<u64>,
    /// Number of the first packet, all streams counted: 0 to start over,
    /// [`GeneratorReport::next_sequence`] to go on where the last run ended. It also determines
    /// the first flow.
    pub first_sequence: u64,
    /// Whether packets carry the time at which they were made (CLOCK_MONOTONIC). Without, all
    /// backends send the same bytes. A file's packets never do.
    pub timestamps: bool,
}

impl RunOptions {
    /// The first packet number that is not sent any more.
    pub(crate) fn end_sequence(&self) -> Option<u64> {
        self.packet_limit.map(|limit| self.first_sequence.saturating_add(limit))
    }

    /// What the worker at `index` of `thread_count` sends: its share, and which of the share's
    /// packets, counted from 0.
    ///
    /// The thread number in a packet's signature depends on the packet's number alone, so that runs
    /// that go on where others ended have the packets of a single one.
    pub(crate) fn part(&self, index: usize, thread_count: u16) -> Part {
        let (first, threads) = (self.first_sequence + index as u64, u64::from(thread_count.max(1)));
        let thread = first % threads;
        let share = u8::try_from(thread).ok().and_then(|t| Share::new(t, thread_count).ok());
        let share = share.unwrap_or(Share::WHOLE);
        let end_nth = self.end_sequence().map(|end| end.saturating_sub(thread).div_ceil(threads));
        Part { share, first_nth: first / threads, end_nth }
    }

    /// The schedule of all threads together; `None` is as fast as possible.
    ///
    /// # Errors
    /// [`GeneratorError`] if the rate cannot be sent, or a ramp has no rate to rise to.
    pub fn schedule(&self) -> Result<Option<Schedule>, GeneratorError> {
        match traffic::rate_pps(self.rate)? {
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

/// What one worker of a run sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) share: Share,
    pub(crate) first_nth: u64,
    pub(crate) end_nth: Option<u64>,
}

impl Part {
    /// The packet number, over all threads, of the part's packet number `nth`.
    pub(crate) fn sequence(&self, nth: u64) -> u64 {
        self.share.sequence(nth)
    }
}

/// What one thread of a run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadReport {
    /// The CPU that it was pinned to; `None` if it was not.
    pub cpu: Option<u32>,
    /// The number, over all threads, that its next packet would have had.
    pub next_sequence: u64,
    /// What it offered, and how well it kept its schedule.
    pub counters: GeneratorCounters,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
pub struct GeneratorReport {
    /// The rate that was asked for.
    pub requested: Rate,
    /// Number of the first packet.
    pub first_sequence: u64,
    /// One more than the highest packet number that was sent. A run that ended by its limit sent
    /// all numbers below; one of several threads that was stopped may have left some out, because
    /// its threads do not stop at the same number.
    pub next_sequence: u64,
    /// From the first call into the kernel to the return of the last one.
    pub duration: Duration,
    /// What was offered, and how well the schedule was kept: all threads together.
    pub counters: GeneratorCounters,
    /// Times between two packets of one thread, nanoseconds; empty if the run was not paced.
    pub gaps_ns: Histogram,
    /// The same by thread.
    pub threads: Vec<ThreadReport>,
}

impl GeneratorReport {
    /// Merges the threads of a run.
    pub(crate) fn merge(
        options: &RunOptions,
        duration: Duration,
        threads: Vec<ThreadReport>,
        gaps_ns: Histogram,
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
        Self { requested, first_sequence, next_sequence, duration, counters, gaps_ns, threads }
    }

    /// How many packets of the stream at `stream` of the set were offered.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn packets_of(&self, set: &StreamSet, stream: usize) -> u64 {
        let thread_count = u64::from(set.thread_count());
        // A file is written by one thread in the place of all.
        if self.threads.len() as u64 != thread_count {
            let until = |end| set.packet_count(stream, end);
            return until(self.next_sequence) - until(self.first_sequence);
        }
        let of_thread = |(index, thread): (u64, &ThreadReport)| {
            let until = |number: u64| set.turns_before(stream, number / thread_count);
            until(thread.next_sequence) - until(self.first_sequence + index)
        };
        (0..).zip(&self.threads).map(of_thread).sum()
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
            timestamps: false,
        };
        let merge = |threads: Vec<ThreadReport>| {
            GeneratorReport::merge(&options, Duration::ZERO, threads, Histogram::default())
        };
        // Ten packets on three threads: 100..110.
        let report = merge(vec![thread(112, 4), thread(110, 3), thread(111, 3)]);
        assert_eq!((report.next_sequence, report.counters.offered_packets), (110, 10));
        assert_eq!(merge(vec![thread(100, 0)]).next_sequence, 100);
        assert_eq!(merge(vec![thread(101, 1)]).next_sequence, 101);
        assert_eq!(merge(vec![thread(103, 1), thread(101, 0), thread(102, 0)]).next_sequence, 101);
    }

    #[test]
    fn parts_are_all_packets_once() {
        for (first_sequence, limit) in [(0, 10), (7, 10), (100, 1), (5, 0)] {
            let options = RunOptions {
                rate: Rate::Max,
                ramp: Duration::ZERO,
                packet_limit: Some(limit),
                first_sequence,
                timestamps: false,
            };
            let mut sent: Vec<u64> = (0..3)
                .map(|index| options.part(index, 3))
                .flat_map(|part| {
                    let end = part.end_nth.expect("there is a limit");
                    (part.first_nth..end).map(move |nth| part.sequence(nth))
                })
                .collect();
            sent.sort_unstable();
            assert_eq!(sent, (first_sequence..first_sequence + limit).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_ramp_needs_a_rate() {
        let ramp = Duration::from_secs(1);
        let options = RunOptions {
            rate: Rate::Max,
            ramp,
            packet_limit: None,
            first_sequence: 0,
            timestamps: false,
        };
        assert!(matches!(options.schedule(), Err(GeneratorError::RampWithoutRate)));
        let paced = RunOptions { rate: Rate::Pps(10.0), ..options };
        let schedule = paced.thread_schedule(4).unwrap().unwrap();
        assert_eq!((schedule.rate_pps, schedule.ramp), (2.5, ramp));
    }
}
