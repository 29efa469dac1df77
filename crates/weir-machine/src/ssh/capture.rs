//! Both outputs of a command that runs to its end.
//!
//! Each is read by a thread of its own, so that neither fills its pipe; what is beyond the limit is
//! read and thrown away, and told. This module never interprets what it reads.

use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

/// How much a command may print: the listing of a ruleset of several 100,000 rules.
pub(super) const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Two outputs that are being read.
#[derive(Debug)]
pub(super) struct Capture {
    stdout: JoinHandle<Captured>,
    stderr: JoinHandle<Captured>,
}

#[derive(Debug, Default)]
struct Captured {
    bytes: Vec<u8>,
    is_cut: bool,
}

/// What was printed.
#[derive(Debug)]
pub(super) struct Printed {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// Whether something is missing.
    pub(super) is_cut: bool,
}

impl Capture {
    /// A capture, and the handles to write to it.
    pub(super) fn open() -> io::Result<(Self, File, File)> {
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let capture = Self { stdout: follow(stdout)?, stderr: follow(stderr)? };
        let file = |end| File::from(OwnedFd::from(end));
        Ok((capture, file(stdout_end), file(stderr_end)))
    }

    /// Whether both outputs are at their end.
    pub(super) fn is_finished(&self) -> bool {
        self.stdout.is_finished() && self.stderr.is_finished()
    }

    /// What was printed; waits for the end of both.
    pub(super) fn take(self) -> Printed {
        let stdout = self.stdout.join().unwrap_or_default();
        let stderr = self.stderr.join().unwrap_or_default();
        Printed {
            is_cut: stdout.is_cut || stderr.is_cut,
            stdout: stdout.bytes,
            stderr: stderr.bytes,
        }
    }
}

fn follow(mut reader: PipeReader) -> io::Result<JoinHandle<Captured>> {
    std::thread::Builder::new().name("output".into()).spawn(move || {
        let mut captured = Captured::default();
        let mut chunk = [0_u8; 16 << 10];
        while let Ok(count @ 1..) = reader.read(&mut chunk) {
            let room = OUTPUT_BYTES_MAX.saturating_sub(captured.bytes.len());
            captured.is_cut |= count > room;
            captured.bytes.extend(&chunk[..count.min(room)]);
        }
        captured
    })
}
