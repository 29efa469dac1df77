//! The output of a process: read as it comes, kept up to a limit.
//!
//! A program that writes a line a packet must fill neither memory nor disk, nor stop because nobody
//! reads: everything is read, and the end of it is kept. Who wants to see it as it comes is handed
//! it. Nothing is interpreted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How much of the end is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How long to wait for the end of an output whose process has ended.
const END_PATIENCE: Duration = Duration::from_millis(200);

/// An output that is being read.
#[derive(Debug)]
pub(crate) struct CappedLog {
    kept: Arc<Mutex<Kept>>,
    reader: thread::JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    cut_bytes: u64,
}

impl CappedLog {
    /// A log and two handles to write to it. It is read until all copies of them are closed.
    pub(crate) fn open() -> io::Result<(Self, File, File)> {
        Self::open_watched(|_| {})
    }

    /// As [`CappedLog::open`]; `watch` is handed what was written, piece by piece, and once
    /// nothing at the end.
    pub(crate) fn open_watched(
        mut watch: impl FnMut(&[u8]) + Send + 'static,
    ) -> io::Result<(Self, File, File)> {
        let (mut reader, writer) = io::pipe()?;
        let other = writer.try_clone()?;
        let kept = Arc::<Mutex<Kept>>::default();
        let shared = Arc::clone(&kept);
        let reader = thread::Builder::new().name("output".into()).spawn(move || {
            let mut chunk = [0_u8; 16 << 10];
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                watch(&chunk[..count]);
                shared.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
            }
            watch(&[]);
        })?;
        let file = |writer| File::from(OwnedFd::from(writer));
        Ok((Self { kept, reader }, file(writer), file(other)))
    }

    /// What was written, or its end.
    pub(crate) fn take(self) -> Vec<u8> {
        let deadline = Instant::now() + END_PATIENCE;
        // A process that left others behind keeps its output open; what is there is taken then.
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = Vec::from(std::mem::take(&mut kept.bytes));
        if kept.cut_bytes == 0 {
            return bytes;
        }
        let mut text = format!("[{} earlier bytes are cut here]\n", kept.cut_bytes).into_bytes();
        text.extend(bytes);
        text
    }
}

impl Kept {
    fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend(chunk);
        let over = self.bytes.len().saturating_sub(KEPT_BYTES_MAX);
        self.bytes.drain(..over);
        self.cut_bytes += over as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_short_output_is_kept_whole() {
        let (log, mut out, mut err) = CappedLog::open().unwrap();
        out.write_all(b"one\n").unwrap();
        err.write_all(b"two\n").unwrap();
        drop((out, err));
        assert_eq!(log.take(), b"one\ntwo\n");
    }

    #[test]
    fn of_a_long_output_the_end_is_kept() {
        let (log, mut out, err) = CappedLog::open().unwrap();
        out.write_all(&vec![b'a'; KEPT_BYTES_MAX]).unwrap();
        out.write_all(b"the end").unwrap();
        drop((out, err));
        let kept = log.take();
        assert!(kept.starts_with(b"[7 earlier bytes are cut here]\naaa"));
        assert!(kept.ends_with(b"aathe end"));
    }
}
