//! The process that has workers work: starts them, has them begin together, adds up what they say.

use std::iter::repeat_n;
use std::time::{Duration, Instant};

use weir_http::figures::{Counts, Figures, Times};
use weir_http::pacing::Share;
use weir_wire::random::splitmix64;
use weir_wire::units::whole_ns;

use super::config::{Command, Done, Frame, REPORT_NS, Stand, WorkerConfig};
use super::timeline::Timeline;
use crate::clock::now_ns;
use crate::crew::{Crew, CrewError, Program};

/// Time in which every worker hears when to begin.
const BEGIN_AFTER_NS: u64 = 100_000_000;
/// How often is looked whether the run is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// When a run is ended early, the answers to what was due are waited for so long.
const DRAIN: Duration = Duration::from_secs(1);
/// A worker that was told to stop has said what it measured within this time.
pub(super) const STOP_MAX: Duration = Duration::from_secs(10);

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Crew(#[from] CrewError),
    #[error("{0} of the workers do not answer")]
    Silent(usize),
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// What starts a worker.
    pub program: Program,
    /// What is done at the same time, at least one.
    pub pools: Vec<Pool>,
    /// For how long requests are sent.
    pub duration: Duration,
    /// Between two looks at all workers together, above 0.
    pub interval: Duration,
}

/// Workers that do the same.
#[derive(Debug, Clone)]
pub struct Pool {
    /// What each worker does; share, CPU and how often it says where it stands are filled in.
    pub config: WorkerConfig,
    /// Number of workers, at least 1.
    pub workers: u32,
    /// CPUs of the workers, in their order; none, if they are not pinned.
    pub cpus: Vec<usize>,
}

/// Where all workers together stand.
#[derive(Debug, Clone)]
pub struct Progress {
    /// From the start of the workers to the time of this look.
    pub elapsed: Duration,
    /// Requests are sent.
    pub is_running: bool,
    pub counts: Counts,
    /// Latencies since the last look.
    pub latency: Times,
}

/// What was measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// In the order of the job's.
    pub pools: Vec<PoolMeasured>,
    /// How long it took to open the connections.
    pub opening: Duration,
    /// It was stopped before its end.
    pub is_stopped: bool,
}

/// What the workers of one pool have measured.
#[derive(Debug, Clone)]
pub struct PoolMeasured {
    pub figures: Figures,
    /// What each worker has measured.
    pub workers: Vec<Done>,
    /// For how long requests were sent.
    pub run: Duration,
    /// What became of them meanwhile; empty if it was asked for by [`super::running`], whose caller
    /// reads that itself.
    pub timeline: Timeline,
}

impl PoolMeasured {
    pub(super) fn new(workers: Vec<Done>, timeline: Timeline) -> Self {
        let mut figures = Figures::default();
        workers.iter().for_each(|worker| figures.add(&worker.figures));
        let run_ns = workers.iter().map(|worker| worker.run_ns).max().unwrap_or(0);
        Self { figures, workers, run: Duration::from_nanos(run_ns), timeline }
    }

    /// The most connections that were open at a time in each worker, added up over the workers:
    /// those of all together were at most as many.
    #[must_use]
    pub fn open_max(&self) -> u64 {
        self.workers.iter().map(|worker| worker.open_max).sum()
    }

    /// What was wrong with TLS when it failed first, of one of the workers.
    #[must_use]
    pub fn tls_failure(&self) -> Option<&str> {
        self.workers.iter().find_map(|worker| worker.tls_failure.as_deref())
    }

    /// Good answers until the end of the run.
    #[must_use]
    pub fn answered_in_time(&self) -> u64 {
        self.workers.iter().map(|worker| worker.answered_in_time).sum()
    }

    /// Bytes received until the end of the run.
    #[must_use]
    pub fn received_in_time_bytes(&self) -> u64 {
        self.workers.iter().map(|worker| worker.received_in_time_bytes).sum()
    }

    /// Median of the service time of answers until the end of the run, nanoseconds; 0 without any.
    #[must_use]
    pub fn service_in_time_ns(&self) -> u64 {
        let mut all = Times::default();
        self.workers.iter().for_each(|worker| all.add(&worker.service_in_time));
        all.quantile_ns(0.5).unwrap_or(0)
    }

    /// The share of the run in which each worker ran or waited for a CPU.
    pub fn busy_ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.workers
            .iter()
            .map(|worker| (worker.ran_ns + worker.waited_ns) as f64 / worker.run_ns.max(1) as f64)
    }

    /// The share of the run for which each worker slept past the moment at which it was to wake.
    pub fn still_ratios(&self) -> impl Iterator<Item = f64> + '_ {
        self.workers.iter().map(|worker| worker.still_ns as f64 / worker.run_ns.max(1) as f64)
    }
}

/// How long a worker may be silent while connections are opened.
const SILENCE_MAX: Duration = STOP_MAX;

/// Runs a job to its end, or until `is_stopped` says so: no more requests are due then, and those
/// that were have a moment to be answered. `tell` is told at each interval where it is.
///
/// # Errors
///
/// If a worker cannot be started, or ends before it has said what it measured.
pub fn run(
    job: &Job,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(&Progress),
) -> Result<Measured, RunError> {
    let begin_ns = now_ns();
    let interval_ns = whole_ns(job.interval).max(1);
    let configs = (0..).zip(&job.pools).flat_map(configs);
    // Workers report several times between two looks, and at every look.
    let report_ns = interval_ns.div_ceil(interval_ns.div_ceil(REPORT_NS));
    let configs: Vec<WorkerConfig> =
        configs.map(|config| WorkerConfig { report_ns, ..config }).collect();
    let crew = Crew::start(&job.program, &configs)?;
    let size = crew.size();
    let mut manager = Manager {
        crew,
        tell,
        begin_ns,
        interval_ns,
        next_look_ns: begin_ns + interval_ns,
        run_ns: None,
        stands: vec![(0, Counts::default()); size],
        recent: Times::default(),
        opened: 0,
        done: vec![None; size],
        pools: (0..)
            .zip(&job.pools)
            .flat_map(|(number, pool)| repeat_n(number, pool.workers as usize))
            .collect(),
        timelines: vec![Timeline::default(); job.pools.len()],
    };
    while manager.opened < size {
        if is_stopped() {
            return manager.stop(Duration::from_nanos(now_ns() - begin_ns));
        }
        // All that they have said was heard, however late this process is itself.
        if !manager.hear()? && manager.lost() > 0 {
            return Err(RunError::Silent(manager.lost()));
        }
    }
    let opening = Duration::from_nanos(now_ns() - begin_ns);
    let at_ns = now_ns() + BEGIN_AFTER_NS;
    let end_ns = at_ns + whole_ns(job.duration);
    manager.crew.send_all(&Command::Begin { at_ns, end_ns })?;
    manager.run_ns = Some((at_ns, end_ns));
    manager.next_look_ns = at_ns + interval_ns;
    let timeout_ns = configs.iter().map(|config| config.timeout_ns).max().unwrap_or(0);
    let timeout = Duration::from_nanos(timeout_ns);
    let deadline = Instant::now() + job.duration + timeout + STOP_MAX;
    while manager.silent() > 0 {
        if is_stopped() {
            return manager.stop(opening);
        }
        if Instant::now() >= deadline {
            return Err(RunError::Silent(manager.silent()));
        }
        manager.hear()?;
    }
    Ok(manager.measured(opening, false))
}

/// What each worker of a pool does. Pools with the same seed draw different numbers.
pub(super) fn configs((number, pool): (u64, &Pool)) -> Vec<WorkerConfig> {
    let shares = (0..pool.workers).map(|index| Share { index, of: pool.workers });
    let cpu = |index: u32| {
        let count = pool.cpus.len();
        (count > 0).then(|| pool.cpus[index as usize % count])
    };
    let seed = splitmix64(pool.config.seed, number);
    let config =
        |share: Share| WorkerConfig { share, cpu: cpu(share.index), seed, ..pool.config.clone() };
    shares.map(config).collect()
}

struct Manager<'a> {
    crew: Crew<Frame>,
    tell: &'a mut dyn FnMut(&Progress),
    begin_ns: u64,
    interval_ns: u64,
    next_look_ns: u64,
    /// From when to when requests are sent, once that is known.
    run_ns: Option<(u64, u64)>,
    /// The latest of each worker: when it was, and what it had counted.
    stands: Vec<(u64, Counts)>,
    recent: Times,
    opened: usize,
    done: Vec<Option<Done>>,
    /// The pool of each worker.
    pools: Vec<usize>,
    /// That of each pool.
    timelines: Vec<Timeline>,
}

impl Manager<'_> {
    /// Hears one worker, or nothing for a moment: whether it heard any.
    fn hear(&mut self) -> Result<bool, RunError> {
        let heard = self.crew.receive(LOOK)?;
        let has_heard = heard.is_some();
        match heard {
            Some((_, Frame::Opened { .. })) => self.opened += 1,
            Some((worker, Frame::Stand(stand))) => self.take(worker, &stand),
            Some((worker, Frame::Done(done))) => {
                // What it says first is what it measured.
                self.stands[worker].1 = self.done[worker].get_or_insert(*done).figures.counts;
            }
            None => {}
        }
        let now = now_ns();
        if self.has_all(now) {
            let at_ns = self.next_look_ns;
            self.next_look_ns += self.interval_ns * (1 + (now - at_ns) / self.interval_ns);
            let mut counts = Counts::default();
            self.stands.iter().for_each(|(_, worker)| counts.add(worker));
            (self.tell)(&Progress {
                elapsed: Duration::from_nanos(at_ns - self.begin_ns),
                is_running: self.run_ns.is_some(),
                counts,
                latency: std::mem::take(&mut self.recent),
            });
        }
        Ok(has_heard)
    }

    /// Whether it is time for a look, and every worker has said where it stood then. One that has
    /// ended says nothing any more, and one that is late by a whole interval is not waited for.
    fn has_all(&self, now_ns: u64) -> bool {
        let due_ns = self.next_look_ns;
        let mut each = self.stands.iter().zip(&self.done);
        now_ns >= due_ns
            && (self.run_ns.is_none()
                || now_ns >= due_ns + self.interval_ns
                || each.all(|((at_ns, _), done)| done.is_some() || *at_ns >= due_ns))
    }

    /// Takes where a worker stands. What it did before the run began and after its end is part of
    /// no step.
    fn take(&mut self, worker: usize, stand: &Stand) {
        self.recent.add(&stand.latency);
        let (before_ns, before) = std::mem::replace(&mut self.stands[worker], stand.of());
        let Some((begin_ns, end_ns)) = self.run_ns else { return };
        let (from_ns, to_ns) = (before_ns.max(begin_ns), stand.at_ns.min(end_ns));
        if from_ns < to_ns {
            let times = (from_ns - begin_ns, to_ns - begin_ns);
            let timeline = &mut self.timelines[self.pools[worker]];
            timeline.add(times, (&before, &stand.counts), &stand.latency);
        }
    }

    /// Has all workers end, and say what they have measured so far.
    fn stop(mut self, opening: Duration) -> Result<Measured, RunError> {
        if let Some((_, end_ns)) = &mut self.run_ns {
            *end_ns = now_ns().min(*end_ns);
        }
        for (command, patience) in [(Command::End, DRAIN), (Command::Stop, STOP_MAX)] {
            self.crew.send_all(&command)?;
            let deadline = Instant::now() + patience;
            while self.silent() > 0 && Instant::now() < deadline {
                self.hear()?;
            }
            if self.silent() == 0 {
                return Ok(self.measured(opening, true));
            }
        }
        Err(RunError::Silent(self.silent()))
    }

    /// Workers that have not said what they measured.
    fn silent(&self) -> usize {
        self.done.iter().filter(|done| done.is_none()).count()
    }

    /// Workers that do not say any more where they stand.
    fn lost(&self) -> usize {
        let is_lost = |at_ns: u64| now_ns().saturating_sub(at_ns) > whole_ns(SILENCE_MAX);
        self.stands.iter().filter(|(at_ns, _)| is_lost((*at_ns).max(self.begin_ns))).count()
    }

    fn measured(self, opening: Duration, is_stopped: bool) -> Measured {
        let mut pools: Vec<Vec<Done>> = vec![Vec::new(); self.timelines.len()];
        for (pool, done) in self.pools.iter().zip(self.done.into_iter().flatten()) {
            pools[*pool].push(done);
        }
        let pools = pools.into_iter().zip(self.timelines);
        let pools = pools.map(|(workers, timeline)| PoolMeasured::new(workers, timeline));
        Measured { pools: pools.collect(), opening, is_stopped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config::example;

    #[test]
    fn workers_have_their_shares_and_cpus() {
        let config = WorkerConfig { connections: 10, ..example() };
        let pool = Pool { config, workers: 3, cpus: vec![1, 0] };
        let seeds = |number| -> Vec<u64> {
            configs((number, &pool)).iter().map(|config| config.seed).collect()
        };
        assert_eq!(seeds(0), seeds(0));
        assert!(seeds(0).iter().zip(seeds(1)).all(|(one, other)| *one != other));
        let configs = configs((0, &pool));
        let cpus: Vec<Option<usize>> = configs.iter().map(|config| config.cpu).collect();
        assert_eq!(cpus, [Some(1), Some(0), Some(1)]);
        let count = |config: &WorkerConfig| config.share.of_count(config.connections);
        assert_eq!(configs.iter().map(count).collect::<Vec<_>>(), [4, 3, 3]);
        // What one says, another understands.
        let text = serde_json::to_string(&configs[2]).unwrap();
        assert_eq!(serde_json::from_str::<WorkerConfig>(&text).unwrap(), configs[2]);
    }
}
