//! Workers that send until they are asked to end, and are read meanwhile: for a lab, whose trial
//! decides when it measures. It judges nothing.

use std::time::{Duration, Instant};

use weir_http::figures::Counts;

use super::config::{Command, Done, Frame};
use super::manager::{Pool, PoolMeasured, RunError, STOP_MAX, configs};
use super::timeline::Timeline;
use crate::clock::now_ns;
use crate::crew::{Crew, Program};

/// How long a run may be that nobody ends: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;
/// How long one message is waited for.
const LOOK: Duration = Duration::from_millis(20);

/// Workers at work.
#[derive(Debug)]
pub struct Running {
    crew: Crew<Frame>,
    /// The latest of each worker: when it was, and what it had counted.
    stands: Vec<(u64, Counts)>,
    done: Vec<Option<Done>>,
    timeout: Duration,
}

impl Running {
    /// Starts the workers of a pool, in the network namespace of the calling thread, waits until
    /// their connections are open, and has them send requests: until [`Running::end`], or for so
    /// long. If `is_stopped` says so before that, they send none.
    ///
    /// # Errors
    ///
    /// If a worker cannot be started, or has ended. Connections that cannot be opened are counted.
    pub fn start(
        program: &Program,
        pool: &Pool,
        duration: Option<Duration>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, RunError> {
        let configs = configs((0, pool));
        let crew = Crew::start(program, &configs)?;
        let size = crew.size();
        let mut running = Self {
            crew,
            stands: vec![(now_ns(), Counts::default()); size],
            done: vec![None; size],
            timeout: Duration::from_nanos(pool.config.timeout_ns),
        };
        let opening = pool.config.connections as f64 / pool.config.connect_rate_cps;
        let opening = Duration::try_from_secs_f64(opening).unwrap_or(Duration::MAX);
        let deadline = Instant::now().checked_add(opening + running.timeout + STOP_MAX);
        let mut opened = 0;
        while opened < size {
            if is_stopped() {
                return Ok(running);
            }
            match running.crew.receive(LOOK)? {
                Some((_, Frame::Opened { .. })) => opened += 1,
                Some((worker, frame)) => running.take(worker, frame),
                None if deadline.is_some_and(|deadline| Instant::now() >= deadline) => {
                    return Err(RunError::Silent(size - opened));
                }
                None => {}
            }
        }
        let at_ns = now_ns();
        let end_ns = at_ns + duration.map_or(LONGEST_NS, weir_wire::units::whole_ns);
        running.crew.send_all(&Command::Begin { at_ns, end_ns })?;
        Ok(running)
    }

    /// What all workers have counted, and when the last of them said so, nanoseconds of the
    /// monotonic clock.
    ///
    /// # Errors
    ///
    /// If a worker has ended before its time.
    pub fn counts(&mut self) -> Result<(u64, Counts), RunError> {
        while let Some((worker, frame)) = self.crew.receive(Duration::ZERO)? {
            self.take(worker, frame);
        }
        let mut all = Counts::default();
        self.stands.iter().for_each(|(_, counts)| all.add(counts));
        let at_ns = self.stands.iter().map(|(at_ns, _)| *at_ns).max().unwrap_or(0);
        Ok((at_ns, all))
    }

    /// Whether all workers have said what they measured: their time is over, and the last answer
    /// has come.
    ///
    /// # Errors
    ///
    /// As [`Running::counts`].
    pub fn is_over(&mut self) -> Result<bool, RunError> {
        self.counts()?;
        Ok(self.silent() == 0)
    }

    /// Sends no more, waits for the answers that are still to come, and ends the workers.
    ///
    /// # Errors
    ///
    /// As [`Running::counts`], and if they do not say what they measured.
    pub fn end(mut self) -> Result<PoolMeasured, RunError> {
        self.crew.send_all(&Command::End)?;
        let deadline = Instant::now() + self.timeout + STOP_MAX;
        while self.silent() > 0 {
            match self.crew.receive(LOOK)? {
                Some((worker, frame)) => self.take(worker, frame),
                None if Instant::now() >= deadline => return Err(RunError::Silent(self.silent())),
                None => {}
            }
        }
        Ok(PoolMeasured::new(self.done.into_iter().flatten().collect(), Timeline::default()))
    }

    fn take(&mut self, worker: usize, frame: Frame) {
        match frame {
            Frame::Opened { .. } => {}
            Frame::Stand(stand) => self.stands[worker] = stand.of(),
            Frame::Done(done) => {
                // What it says first is what it measured.
                let done = self.done[worker].get_or_insert(*done);
                self.stands[worker] = (now_ns(), done.figures.counts);
            }
        }
    }

    /// Workers that have not said what they measured.
    fn silent(&self) -> usize {
        self.done.iter().filter(|done| done.is_none()).count()
    }
}
