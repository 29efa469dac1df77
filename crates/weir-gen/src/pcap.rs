//! Writes traffic into a capture file instead of sending it: no privilege, no interface, no time.
//!
//! The format is the classic one of libpcap (pcap-savefile(5)) with nanoseconds. A packet's stamp
//! is when the schedule has it due, counted from zero; without a rate, packets are a microsecond
//! apart. The same traffic thus gives the same file, and frames are those that the other backends
//! send with as many threads. A replay keeps the stamps that were recorded, unless it has a rate.
//! An existing file is replaced.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;
use weir_wire::pcap;

use crate::backend::{Backend, GeneratorReport, RunOptions};
use crate::error::GeneratorError;
use crate::frames::Frames;
use crate::pacing::Schedule;
use crate::replay::{Replay, ReplayTiming};
use crate::user_space::{Progress, Runs};
use crate::workers::Work;
use weir_wire::traffic::Traffic;

/// Packets per second of a file whose rate is `max`.
const UNPACED_PPS: f64 = 1e6;

/// How many packets are written, and counted, at once.
const WRITTEN_TOGETHER: u64 = 1024;

/// Writes a capture file in each run.
#[derive(Debug)]
pub struct PcapGenerator {
    frames: Arc<Frames>,
    path: PathBuf,
    runs: Runs,
}

impl PcapGenerator {
    /// Will write to `path` what `thread_count` threads (1 to 256) would send.
    ///
    /// # Errors
    /// [`GeneratorError`] if the traffic cannot be sent.
    pub fn new(
        traffic: &Traffic,
        path: &Path,
        thread_count: usize,
    ) -> Result<Self, GeneratorError> {
        Ok(Self::with(Frames::Streams(traffic.set(thread_count)?), path))
    }

    /// Will write the frames of another file to `path`.
    #[must_use]
    pub fn replay(replay: Arc<Replay>, timing: ReplayTiming, path: &Path) -> Self {
        Self::with(Frames::Replay(replay, timing), path)
    }

    fn with(frames: Frames, path: &Path) -> Self {
        Self { frames: Arc::new(frames), path: path.to_owned(), runs: Runs::default() }
    }
}

impl Backend for PcapGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        self.runs.check_idle()?;
        let end_sequence = options.end_sequence().ok_or(GeneratorError::Endless)?;
        self.frames.timetable(&options)?;
        let schedule = options.schedule()?;
        let recording = Recording {
            frames: Arc::clone(&self.frames),
            first_sequence: options.first_sequence,
            end_sequence,
            schedule: schedule.unwrap_or(Schedule { rate_pps: UNPACED_PPS, ramp: Duration::ZERO }),
        };
        let progress = Progress::new(1, &options);
        let shared = progress.clone();
        let path = self.path.clone();
        let failed = move |source| GeneratorError::File { path: path.clone(), source };
        // Opened here, so that what cannot be written is refused before the start.
        let file = File::create(&self.path).map_err(&failed)?;
        let work: Work =
            Arc::new(move |_, stop| recording.write(&mut &file, &shared, stop).map_err(&failed));
        self.runs.start(options, vec![None], progress, &work)
    }

    fn is_running(&self) -> bool {
        self.runs.is_running()
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.runs.counters())
    }

    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        self.runs.stop()
    }

    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        self.runs.wait()
    }
}

/// What a run writes.
struct Recording {
    frames: Arc<Frames>,
    first_sequence: u64,
    end_sequence: u64,
    schedule: Schedule,
}

impl Recording {
    fn write(
        &self,
        file: &mut impl Write,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        let (writer, mut out, mut frame) = (pcap::Writer::default(), Vec::new(), Vec::new());
        writer.header(&mut out);
        file.write_all(&out)?;
        let mut sequence = self.first_sequence;
        while sequence < self.end_sequence && !stop.load(Ordering::Relaxed) {
            let end = self.end_sequence.min(sequence.saturating_add(WRITTEN_TOGETHER));
            let (count, mut bytes) = (end - sequence, 0);
            out.clear();
            while sequence < end {
                let next = self.frames.of_all(sequence);
                frame.resize(next.size_bytes(), 0);
                next.write(0, &mut frame);
                let time_ns = self.frames.time_ns(&self.schedule, self.first_sequence, sequence);
                writer.record(&mut out, time_ns, &frame).map_err(io::Error::other)?;
                bytes += frame.len() as u64;
                sequence += 1;
            }
            file.write_all(&out)?;
            let mut progress = progress.thread(0);
            progress.next_sequence = sequence;
            progress.counters.offered_packets += count;
            progress.counters.offered_bytes += bytes;
        }
        file.flush()
    }
}
