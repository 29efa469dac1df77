//! What the backends share that make their frames in user space, one after another: a run of
//! threads, the partition of the packet numbers, and counters that can be read meanwhile.
//!
//! It never touches a device or a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;
use weir_bpf::histogram::Histogram;

use crate::backend::{GeneratorReport, RunOptions, ThreadReport};
use crate::error::GeneratorError;
use crate::workers::{Work, Workers};

/// How far each thread has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Vec<Mutex<ThreadProgress>>>);

/// How far a thread has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadProgress {
    pub(crate) next_sequence: u64,
    pub(crate) counters: GeneratorCounters,
    pub(crate) gaps_ns: Histogram,
}

impl Progress {
    /// All threads at the beginning of a run.
    pub(crate) fn new(thread_count: usize, options: &RunOptions) -> Self {
        let threads = (0..thread_count as u64).map(|thread| {
            let next_sequence = options.first_sequence.saturating_add(thread);
            Mutex::new(ThreadProgress { next_sequence, ..Default::default() })
        });
        Self(Arc::new(threads.collect()))
    }

    /// A thread's own entry.
    pub(crate) fn thread(&self, index: usize) -> MutexGuard<'_, ThreadProgress> {
        // A thread that panicked is reported as such; its counters are still numbers.
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All threads together.
    pub(crate) fn counters(&self) -> GeneratorCounters {
        let mut total = GeneratorCounters::default();
        for index in 0..self.0.len() {
            total.add(&self.thread(index).counters);
        }
        total
    }

    /// The report of a run that has ended.
    fn report(
        &self,
        options: &RunOptions,
        duration: Duration,
        cpus: &[Option<u32>],
    ) -> GeneratorReport {
        let mut gaps_ns = Histogram::default();
        let threads = cpus.iter().enumerate().map(|(index, &cpu)| {
            let thread = self.thread(index);
            gaps_ns.add(&thread.gaps_ns);
            ThreadReport { cpu, next_sequence: thread.next_sequence, counters: thread.counters }
        });
        let threads = threads.collect();
        GeneratorReport::merge(options, duration, threads, gaps_ns)
    }
}

/// The present run of a backend, and the counters of the last one.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    progress: Progress,
    running: Option<(RunOptions, Vec<Option<u32>>, Workers)>,
}

impl Runs {
    /// Refuses a second run beside the first.
    pub(crate) fn check_idle(&self) -> Result<(), GeneratorError> {
        match self.running {
            Some(_) => Err(GeneratorError::State("running already: stop it first")),
            None => Ok(()),
        }
    }

    /// Starts a thread for each entry of `cpus`, pinned to it if it names a CPU.
    pub(crate) fn start(
        &mut self,
        options: RunOptions,
        cpus: Vec<Option<u32>>,
        progress: Progress,
        work: &Work,
    ) -> Result<(), GeneratorError> {
        self.check_idle()?;
        self.progress = progress;
        let workers = Workers::start(&cpus, work)?;
        self.running = Some((options, cpus, workers));
        Ok(())
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, _, workers)| workers.is_running())
    }

    pub(crate) fn counters(&self) -> GeneratorCounters {
        self.progress.counters()
    }

    pub(crate) fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        if let Some((_, _, workers)) = &self.running {
            workers.stop();
        }
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        let Some((options, cpus, workers)) = self.running.take() else {
            return Err(GeneratorError::State("not running: start it first"));
        };
        let duration = workers.wait()?;
        Ok(self.progress.report(&options, duration, &cpus))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Nobody is left to be told how the run went.
            let _ = self.stop();
        }
    }
}
