//! Writes a stream into a capture file instead of sending it: no privilege, no interface, no time.
//!
//! The format is the classic one of libpcap (pcap-savefile(5)) with nanoseconds. A packet's stamp
//! is when the schedule has it due, counted from zero; without a rate, packets are a microsecond
//! apart. The same stream thus gives the same file, and frames are those that the other backends
//! send with as many threads. An existing file is replaced.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_bpf::generator::GeneratorCounters;

use crate::backend::{Backend, GeneratorReport, RunOptions};
use crate::error::GeneratorError;
use crate::pacing::Schedule;
use crate::stream::Stream;
use crate::user_space::{self, Progress};
use crate::workers::{Work, Workers};

/// The name of the backend.
pub const NAME: &str = "pcap";

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
const SNAPSHOT_BYTES: u32 = 65_535;
const LINK_TYPE_ETHERNET: u32 = 1;

/// Packets per second of a file whose rate is `max`.
const UNPACED_PPS: f64 = 1e6;

/// How many packets are counted at once.
const COUNTED_TOGETHER: u64 = 1024;

/// Writes a capture file in each run.
#[derive(Debug)]
pub struct PcapGenerator {
    stream: Stream,
    path: PathBuf,
    thread_count: usize,
    progress: Progress,
    running: Option<(RunOptions, Workers)>,
}

impl PcapGenerator {
    /// Will write to `path` what `thread_count` threads (1 to 256) would send.
    ///
    /// # Errors
    /// [`GeneratorError`] if the stream cannot be sent.
    pub fn new(stream: &Stream, path: &Path, thread_count: u8) -> Result<Self, GeneratorError> {
        user_space::check(stream, NAME)?;
        let thread_count = usize::from(thread_count.max(1));
        let path = path.to_owned();
        Ok(Self {
            stream: *stream,
            path,
            thread_count,
            progress: Progress::default(),
            running: None,
        })
    }
}

impl Backend for PcapGenerator {
    fn start(&mut self, options: RunOptions) -> Result<(), GeneratorError> {
        if self.running.is_some() {
            return Err(GeneratorError::State("running already: stop it first"));
        }
        let end_sequence = options.end_sequence().ok_or(GeneratorError::Endless)?;
        let schedule = options.schedule()?;
        let writer = Writer {
            stream: self.stream,
            thread_count: self.thread_count,
            first_sequence: options.first_sequence,
            end_sequence,
            schedule: schedule.unwrap_or(Schedule { rate_pps: UNPACED_PPS, ramp: Duration::ZERO }),
        };
        let progress = Progress::new(1, &options);
        self.progress = progress.clone();
        let path = self.path.clone();
        let failed = move |source| GeneratorError::File { path: path.clone(), source };
        // Opened here, so that what cannot be written is refused before the start.
        let file = File::create(&self.path).map_err(&failed)?;
        let work: Work = Arc::new(move |_, stop| {
            let mut out = BufWriter::with_capacity(1 << 18, &file);
            writer.write(&mut out, &progress, stop).map_err(&failed)
        });
        self.running = Some((options, Workers::start(&[None], &work)?));
        Ok(())
    }

    fn is_running(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, workers)| workers.is_running())
    }

    fn counters(&self) -> Result<GeneratorCounters, GeneratorError> {
        Ok(self.progress.counters())
    }

    fn stop(&mut self) -> Result<GeneratorReport, GeneratorError> {
        if let Some((_, workers)) = &self.running {
            workers.stop();
        }
        self.wait()
    }

    fn wait(&mut self) -> Result<GeneratorReport, GeneratorError> {
        let Some((options, workers)) = self.running.take() else {
            return Err(GeneratorError::State("not running: start it first"));
        };
        let duration = workers.wait()?;
        Ok(self.progress.report(&options, duration, &[None]))
    }
}

impl Drop for PcapGenerator {
    fn drop(&mut self) {
        if self.running.is_some() {
            // Nobody is left to be told how the run went.
            let _ = self.stop();
        }
    }
}

/// What a run writes.
struct Writer {
    stream: Stream,
    thread_count: usize,
    first_sequence: u64,
    end_sequence: u64,
    schedule: Schedule,
}

impl Writer {
    fn write(
        &self,
        out: &mut impl Write,
        progress: &Progress,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        write_header(out)?;
        let mut sequence = self.first_sequence;
        while sequence < self.end_sequence && !stop.load(Ordering::Relaxed) {
            let end = self.end_sequence.min(sequence.saturating_add(COUNTED_TOGETHER));
            let mut bytes = 0;
            let count = end - sequence;
            while sequence < end {
                let frame = self.stream.frame(sequence, self.thread_count);
                let frame = frame.map_err(io::Error::other)?;
                write_packet(out, self.schedule.due(sequence - self.first_sequence), &frame)?;
                bytes += frame.len() as u64;
                sequence += 1;
            }
            let mut progress = progress.thread(0);
            progress.next_sequence = sequence;
            progress.counters.offered_packets += count;
            progress.counters.offered_bytes += bytes;
        }
        out.flush()
    }
}

fn write_header(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&MAGIC_NANOSECONDS.to_ne_bytes())?;
    for number in VERSION {
        out.write_all(&number.to_ne_bytes())?;
    }
    // Time zone and accuracy of stamps: always zero.
    out.write_all(&[0; 8])?;
    out.write_all(&SNAPSHOT_BYTES.to_ne_bytes())?;
    out.write_all(&LINK_TYPE_ETHERNET.to_ne_bytes())
}

fn write_packet(out: &mut impl Write, stamp: Duration, frame: &[u8]) -> io::Result<()> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let seconds = u32::try_from(stamp.as_secs()).map_err(|_| {
        io::Error::other("the stamps would pass 136 years: fewer packets, or a higher rate")
    })?;
    let size_bytes = u32::try_from(frame.len()).map_err(too_large)?;
    for word in [seconds, stamp.subsec_nanos(), size_bytes, size_bytes] {
        out.write_all(&word.to_ne_bytes())?;
    }
    out.write_all(frame)
}
