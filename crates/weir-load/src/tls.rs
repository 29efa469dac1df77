//! TLS on one connection, of either end: handshake, reading and writing over a socket that does not
//! block.
//!
//! It never looks at what it carries, and never decides whom to trust: `client::tls` and
//! `server::tls` do.

use std::io::{self, IoSlice, Read, Write};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::{AlertDescription, CertificateError, Connection, HandshakeKind};

/// The only protocol that the client offers (RFC 7301).
pub(crate) const PROTOCOL: &[u8] = b"http/1.1";

/// How keys are agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// With the server's certificate.
    Full,
    /// With what an earlier one has left: a ticket or a session.
    Resumed,
}

/// Why TLS on a connection failed; inside of an [`io::Error`], which is something else otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("{}", words(.0))]
    Tls(#[from] rustls::Error),
    #[error("the other end closed the connection within the handshake")]
    Ended,
}

impl SessionError {
    /// The error of TLS in one of input and output, if it is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

/// The cryptography that both ends use.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What an error means and what can be done about it.
fn words(error: &rustls::Error) -> String {
    let what = match error {
        rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        | rustls::Error::NoApplicationProtocol => {
            "the other end does not take HTTP/1.1 over TLS (ALPN), and weir http speaks no HTTP/2"
        }
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "the server's certificate is signed by nobody who is trusted here: name its authority \
             with --ca FILE, or trust anybody with --insecure"
        }
        rustls::Error::InvalidCertificate(CertificateError::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "the server's certificate is that of an authority (CA:TRUE), which no server may show: \
             make one without, or trust anybody with --insecure"
        }
        rustls::Error::InvalidCertificate(
            reason @ (CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }),
        ) => {
            return format!(
                "{reason}: write a name that the certificate has into the URL, or take any \
                 certificate with --insecure"
            );
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server asks for a certificate of the client, and weir http has none"
        }
        rustls::Error::InvalidMessage(_) => "the other end answered with what is not TLS",
        other => return other.to_string(),
    };
    what.to_owned()
}

/// TLS on one connection.
pub(crate) struct Session {
    connection: Connection,
    /// The other end has said that it sends no more.
    is_ended: bool,
    failure: Option<SessionError>,
}

/// Counts what is read from a socket.
struct Gauge<'a, S> {
    stream: &'a mut S,
    /// There was room for more than came.
    is_drained: bool,
}

impl<S: Read> Read for Gauge<'_, S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let size = self.stream.read(room)?;
        self.is_drained = size < room.len();
        Ok(size)
    }
}

impl Session {
    pub(crate) fn new(connection: impl Into<Connection>) -> Self {
        Self { connection: connection.into(), is_ended: false, failure: None }
    }

    /// Goes on with the handshake as far as the socket lets it; how it was done, once it is.
    ///
    /// # Errors
    ///
    /// If the other end is not what it should be, or the socket fails.
    pub(crate) fn handshake<S: Read + Write>(
        &mut self,
        stream: &mut S,
    ) -> io::Result<Option<Handshake>> {
        while self.flush(stream)? {
            if !self.connection.is_handshaking() {
                return Ok(Some(match self.connection.handshake_kind() {
                    Some(HandshakeKind::Resumed) => Handshake::Resumed,
                    _ => Handshake::Full,
                }));
            }
            match self.fill(stream) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
                Ok((0, _)) => return Err(self.fail(SessionError::Ended)),
                Ok(_) => {}
            }
        }
        Ok(None)
    }

    /// Why it failed, if it did.
    pub(crate) fn failure(&self) -> Option<&SessionError> {
        self.failure.as_ref()
    }

    /// Whether something waits for room in the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Reads what the other end has sent: its size, and whether nothing more has arrived. The size
    /// is 0 where the other end has said that it is done. With `to_end` the socket is read to its
    /// end, because no event will follow.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` if the connection ended without that, `WouldBlock` if there is nothing.
    pub(crate) fn read<S: Read + Write>(
        &mut self,
        stream: &mut S,
        buffer: &mut [u8],
        to_end: bool,
    ) -> io::Result<(usize, bool)> {
        let mut is_drained = false;
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    let size = result?;
                    return Ok((size, is_drained && size < buffer.len() && !self.is_ended));
                }
            }
            if is_drained && !to_end {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            (_, is_drained) = self.fill(stream)?;
        }
    }

    /// Takes what fits of these bytes, and sends what the socket takes of them; how many it took.
    /// [`flush`](Self::flush) says whether they are on their way.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if earlier bytes still wait.
    pub(crate) fn write<S: Write>(
        &mut self,
        stream: &mut S,
        slices: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        if !self.flush(stream)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let size = self.connection.writer().write_vectored(slices)?;
        self.flush(stream)?;
        Ok(size)
    }

    /// Sends what waits; whether that was all.
    ///
    /// # Errors
    ///
    /// If the socket fails.
    pub(crate) fn flush<S: Write>(&mut self, stream: &mut S) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Says that no more will be sent (RFC 8446 section 6.1), if there is room for that.
    pub(crate) fn end<S: Write>(&mut self, stream: &mut S) {
        self.connection.send_close_notify();
        // The connection ends anyway.
        drop(self.flush(stream));
    }

    /// Reads from the socket once, and deals with what is complete: how many bytes came, and
    /// whether there was room for more.
    fn fill<S: Read + Write>(&mut self, stream: &mut S) -> io::Result<(usize, bool)> {
        let mut gauge = Gauge { stream, is_drained: false };
        let size = loop {
            match self.connection.read_tls(&mut gauge) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        let is_drained = gauge.is_drained;
        match self.connection.process_new_packets() {
            Ok(state) => self.is_ended |= state.peer_has_closed(),
            Err(error) => {
                // It says why to the other end, if there is room.
                drop(self.flush(stream));
                return Err(self.fail(SessionError::Tls(error)));
            }
        }
        Ok((size, is_drained))
    }

    /// Keeps why it failed.
    fn fail(&mut self, error: SessionError) -> io::Error {
        self.failure = Some(error.clone());
        io::Error::other(error)
    }
}
