//! The threads of a run: started together, pinned, stopped together. One that is done sleeps until
//! it is collected, so that its run time can still be read (`/proc/PID/task/TID/schedstat`).
//!
//! It never knows what they do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::error::GeneratorError;

/// What a thread does until it is done or `stop` is set; it is given its place.
pub(crate) type Work = Arc<dyn Fn(usize, &AtomicBool) -> Result<(), GeneratorError> + Send + Sync>;

/// Threads that are at work, or are done and were not collected yet.
#[derive(Debug)]
pub(crate) struct Workers {
    stop: Arc<AtomicBool>,
    /// How many are at work.
    working: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<Result<Duration, GeneratorError>>>,
    /// As long as these are there, threads that are done sleep.
    collecting: Vec<mpsc::Sender<()>>,
}

impl Workers {
    /// Starts a thread for each entry, pinned to its CPU if it names one, and returns when all of
    /// them are where they belong. If one cannot be, none is left running.
    pub(crate) fn start(cpus: &[Option<u32>], work: &Work) -> Result<Self, GeneratorError> {
        let mut workers = Self {
            stop: Arc::default(),
            working: Arc::default(),
            threads: Vec::with_capacity(cpus.len()),
            collecting: Vec::with_capacity(cpus.len()),
        };
        let (ready_sender, ready) = mpsc::channel();
        for (index, &cpu) in cpus.iter().enumerate() {
            match workers.spawn(index, cpu, work, ready_sender.clone()) {
                Ok(thread) => workers.threads.push(thread),
                Err(source) => {
                    let cpu = cpu.unwrap_or_default();
                    workers.finish()?;
                    return Err(GeneratorError::Thread { cpu, source });
                }
            }
        }
        drop(ready_sender);
        for _ in cpus {
            if ready.recv().is_err() {
                // A thread ended before it was ready: it says why.
                workers.finish()?;
                return Err(GeneratorError::Panicked);
            }
        }
        Ok(workers)
    }

    fn spawn(
        &mut self,
        index: usize,
        cpu: Option<u32>,
        work: &Work,
        ready: mpsc::Sender<()>,
    ) -> io::Result<JoinHandle<Result<Duration, GeneratorError>>> {
        let (stop, work) = (Arc::clone(&self.stop), Arc::clone(work));
        let working = Arc::clone(&self.working);
        let (collect, collected) = mpsc::channel();
        self.collecting.push(collect);
        std::thread::Builder::new().name(format!("weir-gen/{index}")).spawn(move || {
            cpu.map_or(Ok(()), pin)?;
            working.fetch_add(1, Ordering::Relaxed);
            let mut guard = AtWork { stop: &stop, working: &working, has_failed: true };
            // The receiver waits for this; if it is gone, so is the generator.
            let _ = ready.send(());
            drop(ready);
            let begin = Instant::now();
            let result = work(index, &stop).map(|()| begin.elapsed());
            guard.has_failed = result.is_err();
            drop(guard);
            // Nobody ever sends: this ends when the sender is dropped.
            let _ = collected.recv();
            result
        })
    }

    /// Whether any thread is at work.
    pub(crate) fn is_running(&self) -> bool {
        self.working.load(Ordering::Acquire) > 0
    }

    /// Asks the threads to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the threads; returns how long the slowest took, or what failed first.
    pub(crate) fn wait(self) -> Result<Duration, GeneratorError> {
        drop(self.collecting);
        let mut duration = Ok(Duration::ZERO);
        for thread in self.threads {
            let result = thread.join().unwrap_or(Err(GeneratorError::Panicked));
            duration = match (duration, result) {
                (Ok(longest), Ok(this)) => Ok(longest.max(this)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        duration
    }

    fn finish(self) -> Result<Duration, GeneratorError> {
        self.stop();
        self.wait()
    }
}

/// A thread at work. It stops the other threads when it fails or panics: they would go on for ever,
/// with a part of the packets missing.
struct AtWork<'a> {
    stop: &'a AtomicBool,
    working: &'a AtomicUsize,
    has_failed: bool,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if self.has_failed {
            self.stop.store(true, Ordering::Relaxed);
        }
        // Whoever sees it sees what the thread has counted.
        self.working.fetch_sub(1, Ordering::Release);
    }
}

/// Binds the calling thread to one CPU.
fn pin(cpu: u32) -> Result<(), GeneratorError> {
    let failed = |source: nix::Error| GeneratorError::Thread { cpu, source: source.into() };
    let mut set = CpuSet::new();
    set.set(cpu as usize).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

/// Checks a list of CPUs: 1 to 256 (the signature's thread number has 8 bits), all different.
pub(crate) fn check_cpus(cpus: &[u32]) -> Result<(), GeneratorError> {
    let twice = cpus.iter().enumerate().any(|(index, cpu)| cpus[..index].contains(cpu));
    if cpus.is_empty() || cpus.len() > 256 || twice {
        let names: Vec<String> = cpus.iter().map(u32::to_string).collect();
        return Err(GeneratorError::Cpus { count: cpus.len(), cpus: names.join(",") });
    }
    Ok(())
}
