//! The pipes of a running program, served by one thread.
//!
//! They never block on one of them while another one waits, and never keep more than the limit.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Invocation, Output};

/// The three pipes of a running program, served without a thread and without ever blocking on one
/// of them.
pub(super) struct Pipes {
    stdin: Option<ChildStdin>,
    input: Vec<u8>,
    input_done: usize,
    stdout: Capture<ChildStdout>,
    stderr: Capture<ChildStderr>,
}

impl Pipes {
    pub(super) fn new(child: &mut Child, invocation: &Invocation) -> io::Result<Self> {
        let stdin = child.stdin.take();
        if let Some(pipe) = &stdin {
            set_nonblocking(pipe.as_fd())?;
        }
        let limit = invocation.output_size_bytes_max;
        Ok(Self {
            stdin,
            input: invocation.stdin.clone(),
            input_done: 0,
            stdout: Capture::new(child.stdout.take(), limit)?,
            stderr: Capture::new(child.stderr.take(), limit)?,
        })
    }

    /// Waits for one of the pipes, at most that long, and moves what can be moved.
    pub(super) fn transfer(&mut self, timeout_ms: u8) -> io::Result<()> {
        {
            let mut watched = Vec::with_capacity(3);
            if let Some(pipe) = &self.stdin {
                watched.push(PollFd::new(pipe.as_fd(), PollFlags::POLLOUT));
            }
            if let Some(pipe) = &self.stdout.pipe {
                watched.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
            }
            if let Some(pipe) = &self.stderr.pipe {
                watched.push(PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut watched, PollTimeout::from(timeout_ms)) {
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.feed()?;
        self.stdout.drain()?;
        self.stderr.drain()
    }

    fn feed(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.stdin else {
            return Ok(());
        };
        while self.input_done < self.input.len() {
            match pipe.write(&self.input[self.input_done..]) {
                Ok(size) => self.input_done += size,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A program need not read all of its input.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                Err(error) => return Err(error),
            }
        }
        self.stdin = None;
        Ok(())
    }

    pub(super) fn into_output(self, invocation: &Invocation, status: ExitStatus) -> Output {
        Output {
            command: invocation.shown.clone(),
            status,
            is_truncated: self.stdout.is_truncated || self.stderr.is_truncated,
            stdout: self.stdout.kept,
            stderr: self.stderr.kept,
        }
    }
}

struct Capture<P> {
    pipe: Option<P>,
    kept: Vec<u8>,
    limit: usize,
    is_truncated: bool,
}

impl<P: Read + AsFd> Capture<P> {
    /// One visit reads at most this much, so that a program that writes without end cannot keep
    /// the caller from seeing the time-out.
    const VISIT_SIZE_BYTES: usize = 1 << 20;

    fn new(pipe: Option<P>, limit: usize) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            set_nonblocking(pipe.as_fd())?;
        }
        Ok(Self { pipe, kept: Vec::new(), limit, is_truncated: false })
    }

    fn drain(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        let mut buffer = [0; 16 * 1024];
        let mut visit = 0;
        while visit < Self::VISIT_SIZE_BYTES {
            match pipe.read(&mut buffer) {
                Ok(0) => {
                    self.pipe = None;
                    return Ok(());
                }
                Ok(size) => {
                    visit += size;
                    let room = self.limit - self.kept.len();
                    self.kept.extend(&buffer[..size.min(room)]);
                    self.is_truncated |= size > room;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn set_nonblocking(pipe: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
    fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}
