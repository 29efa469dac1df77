//! A connection's socket, with or without TLS on it: what is read and written is HTTP either way.
//!
//! It never keeps bytes of its caller; what waits inside TLS is counted as sent.

use std::io::{self, IoSlice, Read as _, Write as _};

use mio::net::TcpStream;

use crate::tls::{Handshake, Session, SessionError};

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    /// Only where it is used: it takes kilobytes.
    tls: Option<Box<Session>>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream, tls: Option<Session>) -> Self {
        Self { stream, tls: tls.map(Box::new) }
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// As [`Session::handshake`]. Without TLS there is none, and this is never asked.
    pub(crate) fn handshake(&mut self) -> io::Result<Option<Handshake>> {
        match &mut self.tls {
            Some(session) => session.handshake(&mut self.stream),
            None => Ok(None),
        }
    }

    /// Why TLS failed, if it did.
    pub(crate) fn tls_failure(&self) -> Option<&SessionError> {
        self.tls.as_ref()?.failure()
    }

    /// Whether TLS waits for room in the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Reads: how many bytes, and whether nothing more has arrived (epoll(7)). The size is 0 at the
    /// end. With `to_end` no event will say that the end is there.
    ///
    /// # Errors
    ///
    /// As those of the socket, and of [`Session::read`].
    pub(crate) fn read(&mut self, buffer: &mut [u8], to_end: bool) -> io::Result<(usize, bool)> {
        match &mut self.tls {
            Some(session) => session.read(&mut self.stream, buffer, to_end),
            None => self.stream.read(buffer).map(|size| (size, size < buffer.len())),
        }
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    ///
    /// As those of the socket, and of [`Session::write`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(session) => session.write(&mut self.stream, &[IoSlice::new(bytes)]),
            None => self.stream.write(bytes),
        }
    }

    /// The same of several pieces.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            Some(session) => session.write(&mut self.stream, slices),
            None => self.stream.write_vectored(slices),
        }
    }

    /// Whether all that was written is the kernel's; tries to make it so.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            Some(session) => session.flush(&mut self.stream),
            None => Ok(true),
        }
    }

    /// Has TLS say that no more will be sent.
    pub(crate) fn end_tls(&mut self) {
        if let Some(session) = &mut self.tls {
            session.end(&mut self.stream);
        }
    }
}
