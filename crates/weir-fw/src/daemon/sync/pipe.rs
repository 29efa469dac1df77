//! A connection whose other side may stop to read, or to write, at any time: nobody waits for it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Bytes that are read at a time.
const PIECE_SIZE_BYTES: usize = 1 << 18;

/// A connection, and what waits to be written.
#[derive(Debug)]
pub(super) struct Pipe<'a> {
    stream: &'a UnixStream,
    waiting: Vec<u8>,
    /// What of it is written.
    written: usize,
    piece: Vec<u8>,
}

impl<'a> Pipe<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream, waiting: Vec::new(), written: 0, piece: vec![0; PIECE_SIZE_BYTES] })
    }

    /// What is appended here goes out.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.waiting
    }

    /// Bytes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.len() - self.written
    }

    /// Writes what the other side takes at once; gives how many bytes that were.
    pub(super) fn write(&mut self) -> io::Result<usize> {
        let mut count = 0;
        while self.waiting_bytes() > 0 {
            match self.stream.write(&self.waiting[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(size) => {
                    self.written += size;
                    count += size;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // What is left moves once, not with each piece that goes.
        if self.written >= self.waiting.len() / 2 {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
        Ok(count)
    }

    /// What has come; `None`: nothing more comes.
    pub(super) fn read(&mut self) -> io::Result<Option<&[u8]>> {
        match self.stream.read(&mut self.piece) {
            Ok(0) => Ok(None),
            Ok(size) => Ok(Some(&self.piece[..size])),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(Some(&[])),
                // It went away without a word.
                io::ErrorKind::ConnectionReset => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Waits until something comes, or what waits may be written, but not for longer.
    pub(super) fn wait(&self, timeout: Duration) {
        let mut flags = PollFlags::POLLIN;
        if self.waiting_bytes() > 0 {
            flags |= PollFlags::POLLOUT;
        }
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        // An interrupted wait is over, too.
        let _ = poll(&mut [PollFd::new(self.stream.as_fd(), flags)], timeout);
    }
}
