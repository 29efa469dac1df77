//! Bytes of the manager on their way into a command's standard input.
//!
//! A source that cannot be read to its end, or that is not as long as it was, is an error, whatever
//! the command says; the script around the command (`super::script`) holds what arrives against the
//! size that was announced. A command that does not read all of its input is not at fault. This
//! module never starts or ends a command.

use std::fs::File;
use std::io::{ErrorKind, PipeWriter, Read, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// How much is written at once: what a pipe takes without blocking once it takes anything
/// (pipe(7)).
const PIECE_BYTES: usize = 4096;
/// How long a reader may be waited for until it is seen whether to go on.
const PAUSE_MS: u8 = 50;

/// What a command is fed with.
pub(super) struct Source<'a> {
    name: String,
    content: Box<dyn Read + Send + 'a>,
    pub(super) size_bytes: u64,
}

impl<'a> Source<'a> {
    /// A file of the manager.
    pub(super) fn file(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let cannot = |error: std::io::Error| {
            format!("cannot read {shown} here: {error}; correct the path, or put the file there")
        };
        let about = std::fs::metadata(path).map_err(cannot)?;
        // Whoever opens a pipe waits until somebody writes to it.
        if !about.is_file() {
            return Err(format!(
                "cannot read {shown} here: it is not a regular file, and could not be sent \
                 twice; name a file"
            ));
        }
        let file = File::open(path).map_err(cannot)?;
        Ok(Self::new(&shown.to_string(), Box::new(file), about.len()))
    }

    /// Bytes in memory.
    pub(super) fn bytes(bytes: &'a [u8]) -> Self {
        Self::new("what weir has made", Box::new(bytes), bytes.len() as u64)
    }

    /// Anything, with a name for messages.
    pub(super) fn new(name: &str, content: Box<dyn Read + Send + 'a>, size_bytes: u64) -> Self {
        Self { name: name.to_owned(), content, size_bytes }
    }

    /// Writes all of it, until nobody reads any more, or until `stop`; an error of reading.
    fn copy(&mut self, to: &mut PipeWriter, stop: &AtomicBool) -> Result<(), String> {
        let (mut piece, mut sent_bytes) = ([0; PIECE_BYTES], 0_u64);
        loop {
            let count = match self.content.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(format!(
                        "cannot read {} here after {sent_bytes} of {} bytes: {error}; check its \
                         disk for errors",
                        self.name, self.size_bytes
                    ));
                }
            };
            if !may_write(to, stop) || to.write_all(&piece[..count]).is_err() {
                return Ok(());
            }
            sent_bytes += count as u64;
        }
        if sent_bytes == self.size_bytes {
            return Ok(());
        }
        Err(format!(
            "{} had {} bytes when it was opened and {sent_bytes} when it was read: something \
             writes to it; wait until it is complete",
            self.name, self.size_bytes
        ))
    }
}

/// Waits until somebody reads, or has gone; false if it is to stop.
fn may_write(to: &PipeWriter, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let mut fds = [PollFd::new(to.as_fd(), PollFlags::POLLOUT)];
        match poll(&mut fds, PollTimeout::from(PAUSE_MS)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            // What is wrong shows when it is written to.
            _ => return true,
        }
    }
}

/// Feeds a command while `wait` waits for its end; what is left then is not sent. Returns what
/// `wait` has found, and whether the source could be read.
pub(super) fn feed<T>(
    source: &mut Source<'_>,
    stdin: Option<PipeWriter>,
    wait: impl FnOnce() -> T,
) -> (T, Result<(), String>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = &stop;
        let feeding = scope.spawn(move || match stdin {
            // The end of the input comes when this is over.
            Some(mut stdin) => source.copy(&mut stdin, stop),
            None => Ok(()),
        });
        let waited = wait();
        // Nobody is left to read, or is to.
        stop.store(true, Ordering::Relaxed);
        let fed = feeding.join().unwrap_or_else(|_| Err("the feeding thread died".to_owned()));
        (waited, fed)
    })
}
