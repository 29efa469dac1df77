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

use crate::lines::Lines;

/// How much of the end is kept.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// How long to wait for the end of an output whose process has ended.
const END_PATIENCE: Duration = Duration::from_millis(200);

/// An output that is being read.
#[derive(Debug)]
pub struct CappedLog {
    kept: Arc<Mutex<Kept>>,
    readers: Vec<thread::JoinHandle<()>>,
}

/// What a process was heard to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// A line of its standard output.
    Output(&'a str),
    /// A line of its standard error.
    Error(&'a str),
    /// Both have ended.
    End,
}

/// What is kept of an output.
#[derive(Debug, Default)]
pub struct Kept {
    bytes: VecDeque<u8>,
    cut_bytes: u64,
}

impl CappedLog {
    /// A log and two handles to write to it. It is read until all copies of them are closed.
    pub fn open() -> io::Result<(Self, File, File)> {
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
        Ok((Self { kept, readers: vec![reader] }, file(writer), file(other)))
    }

    /// A log and handles for standard output and standard error, whose lines come whole, however
    /// the two mix. `follow` is handed each of them and says what is kept.
    pub(crate) fn open_lines(
        follow: impl FnMut(Heard<'_>, &mut Kept) + Send + 'static,
    ) -> io::Result<(Self, File, File)> {
        let kept = Arc::<Mutex<Kept>>::default();
        // And how many of the two are open.
        let follow = Arc::new(Mutex::new((follow, 2_u8)));
        let mut readers = Vec::new();
        let mut open = |is_error: bool| {
            let (mut reader, writer) = io::pipe()?;
            let (kept, follow) = (Arc::clone(&kept), Arc::clone(&follow));
            let read = move || {
                let (mut lines, mut chunk) = (Lines::default(), [0_u8; 16 << 10]);
                loop {
                    let count = reader.read(&mut chunk).unwrap_or(0);
                    let mut follow = follow.lock().unwrap_or_else(PoisonError::into_inner);
                    let (follow, open_count) = &mut *follow;
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let kept: &mut Kept = &mut kept;
                    lines.take(&chunk[..count], |line| match is_error {
                        true => follow(Heard::Error(line), kept),
                        false => follow(Heard::Output(line), kept),
                    });
                    if count > 0 {
                        continue;
                    }
                    *open_count -= 1;
                    if *open_count == 0 {
                        follow(Heard::End, kept);
                    }
                    break;
                }
            };
            readers.push(thread::Builder::new().name("output".into()).spawn(read)?);
            Ok::<_, io::Error>(File::from(OwnedFd::from(writer)))
        };
        let (output, error) = (open(false)?, open(true)?);
        Ok((Self { kept, readers }, output, error))
    }

    /// What was written, or its end.
    pub fn take(self) -> Vec<u8> {
        let deadline = Instant::now() + END_PATIENCE;
        // A process that left others behind keeps its output open; what is there is taken then.
        let is_open = || self.readers.iter().any(|reader| !reader.is_finished());
        while is_open() && Instant::now() < deadline {
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
    /// Keeps a line, without its end.
    pub fn line(&mut self, line: &str) {
        self.push(line.as_bytes());
        self.push(b"\n");
    }

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
    fn lines_of_two_outputs_are_whole_however_they_mix() {
        let heard = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&heard);
        let (log, mut out, mut err) = CappedLog::open_lines(move |said, kept| {
            seen.lock().unwrap().push(format!("{said:?}"));
            if let Heard::Output(line) = said {
                kept.line(line);
            }
        })
        .unwrap();
        let await_lines = |count| {
            while heard.lock().unwrap().len() < count {
                thread::yield_now();
            }
        };
        err.write_all(b"gaps 1 ms").unwrap();
        out.write_all(b"{\"kind\":").unwrap();
        err.write_all(b"\n").unwrap();
        await_lines(1);
        out.write_all(b"1}\nrest").unwrap();
        await_lines(2);
        drop((out, err));
        assert_eq!(log.take(), b"{\"kind\":1}\nrest\n");
        let expected =
            ["Error(\"gaps 1 ms\")", "Output(\"{\\\"kind\\\":1}\")", "Output(\"rest\")", "End"];
        assert_eq!(*heard.lock().unwrap(), expected);
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
