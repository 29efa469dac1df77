//! What the backends share that make their frames in user space, one after another: the partition
//! of the sequence numbers, and counters that can be read while threads send.
//!
//! It never touches a device or a file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;
use weir_wire::frame;

use crate::backend::{GeneratorReport, RunOptions, ThreadReport};
use crate::error::GeneratorError;
use crate::stream::Stream;

/// How far each thread has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Vec<Mutex<ThreadProgress>>>);

/// How far a thread has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadProgress {
    pub(crate) next_sequence: u64,
    pub(crate) counters: GeneratorCounters,
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
    pub(crate) fn report(
        &self,
        options: &RunOptions,
        duration: Duration,
        cpus: &[Option<u32>],
    ) -> GeneratorReport {
        let threads = cpus.iter().enumerate().map(|(index, &cpu)| {
            let ThreadProgress { next_sequence, counters } = *self.thread(index);
            ThreadReport { cpu, next_sequence, counters }
        });
        GeneratorReport::merge(options, duration, threads.collect())
    }
}

/// Checks that frames of the stream can be made in user space.
pub(crate) fn check(stream: &Stream, backend: &'static str) -> Result<(), GeneratorError> {
    stream.check()?;
    let (size_bytes, size_bytes_max) = (stream.size_bytes, frame::SIZE_BYTES_MAX);
    if size_bytes > size_bytes_max {
        return Err(GeneratorError::Size { backend, size_bytes, size_bytes_max });
    }
    Ok(())
}
