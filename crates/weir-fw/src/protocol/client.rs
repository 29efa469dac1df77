//! The side that asks.

use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use super::{Reply, Request, SyncDirection, read_line};
use crate::socket::{self, SocketError};

/// The longest line of an answer.
const REPLY_SIZE_BYTES_MAX: u64 = 256 << 20;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon runs in this network namespace.
    #[error("no weir fw runs in this network namespace; `weir fw run -f FILE` starts it")]
    NotRunning,
    /// The control socket cannot be reached.
    #[error("cannot ask weir fw: {0}")]
    Socket(SocketError),
    /// The control socket is in a directory that only root may enter.
    #[error("only root may ask weir fw: run the command with sudo")]
    Denied,
    /// The daemon did not answer.
    #[error("weir fw does not answer: {source}")]
    Broken {
        /// What the system said.
        source: io::Error,
    },
    /// Whoever takes the answer cannot take it.
    #[error("the answer cannot be written: {source}")]
    Output {
        /// What the system said.
        source: io::Error,
    },
    /// It was asked, and refused.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
    },
}

/// An answer that came to its end.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// The exit code for pfctl.
    pub exit_code: u8,
    /// The value, of questions that have one.
    pub value: Option<serde_json::Value>,
}

/// A connection to the daemon of this network namespace.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If no daemon runs here, or its socket cannot be reached.
    pub fn connect() -> Result<Self, ClientError> {
        let stream = socket::connect().map_err(|error| match error {
            SocketError::System { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                ClientError::Denied
            }
            error => ClientError::Socket(error),
        })?;
        let stream = stream.ok_or(ClientError::NotRunning)?;
        Ok(Self { stream: BufReader::with_capacity(1 << 18, stream) })
    }

    /// Asks, and hands over texts as they come.
    ///
    /// # Errors
    ///
    /// If the daemon refuses, ends, or `take` fails.
    pub fn ask(
        &mut self,
        request: &Request,
        mut take: impl FnMut(Reply) -> io::Result<()>,
    ) -> Result<Answered, ClientError> {
        let broken = |source| ClientError::Broken { source };
        let mut line = serde_json::to_vec(request).map_err(|error| broken(error.into()))?;
        line.push(b'\n');
        // Who is not let in is told why, and not listened to.
        let written = self.stream.get_mut().write_all(&line);
        let mut answered = Answered::default();
        loop {
            let line = match (read_line(&mut self.stream, REPLY_SIZE_BYTES_MAX), &written) {
                (Ok(Some(line)), _) => line,
                (_, Err(error)) => return Err(broken(error.kind().into())),
                (Ok(None), Ok(())) => return Err(broken(io::ErrorKind::UnexpectedEof.into())),
                (Err(error), Ok(())) => return Err(broken(error)),
            };
            match serde_json::from_slice(&line).map_err(|error| broken(error.into()))? {
                Reply::Done(exit_code) => {
                    answered.exit_code = exit_code;
                    return Ok(answered);
                }
                Reply::Failed(message) => return Err(ClientError::Refused { message }),
                Reply::Value(value) => answered.value = Some(value),
                Reply::Follows(size) => {
                    let text = read_text(&mut self.stream, size).map_err(broken)?;
                    take(Reply::Text(text)).map_err(|source| ClientError::Output { source })?;
                }
                text => take(text).map_err(|source| ClientError::Output { source })?,
            }
        }
    }

    /// Makes the connection one by which states go, or come: from the first byte on a stream of
    /// [`crate::sync::stream`] in both directions.
    ///
    /// # Errors
    ///
    /// As [`Self::ask`]: also if one lives in that direction.
    pub fn sync(self, direction: SyncDirection) -> Result<UnixStream, ClientError> {
        let broken = |source| ClientError::Broken { source };
        let mut stream = self.stream.into_inner();
        let request = Request::Sync { direction };
        let mut line = serde_json::to_vec(&request).map_err(|it| broken(it.into()))?;
        line.push(b'\n');
        let written = stream.write_all(&line);
        // Not a byte more than the reply: what is behind it is the stream's.
        let reply = read_reply(&mut stream).map_err(|error| match &written {
            Err(error) => broken(error.kind().into()),
            Ok(()) => broken(error),
        })?;
        match serde_json::from_slice(&reply).map_err(|error| broken(error.into()))? {
            Reply::Done(_) => Ok(stream),
            Reply::Failed(message) => Err(ClientError::Refused { message }),
            _ => Err(broken(io::ErrorKind::InvalidData.into())),
        }
    }
}

/// Reads a line of a few words, and nothing of what follows.
fn read_reply(source: &mut impl io::Read) -> io::Result<Vec<u8>> {
    /// A sentence.
    const SIZE_BYTES_MAX: usize = 1 << 16;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < SIZE_BYTES_MAX {
        source.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return Ok(line);
        }
        line.push(byte[0]);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"))
}

/// Reads so many bytes of text.
fn read_text(source: &mut impl io::Read, size: u32) -> io::Result<String> {
    let mut bytes = vec![0; size as usize];
    source.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_reply_nothing_is_read() {
        let mut source = &b"{}\nweirsync"[..];
        assert_eq!(read_reply(&mut source).unwrap(), b"{}");
        assert_eq!(source, b"weirsync");
        assert!(read_reply(&mut &b"cut"[..]).is_err());
        assert!(read_reply(&mut io::repeat(b'x')).is_err());
    }

    #[test]
    fn a_text_has_the_bytes_that_were_announced() {
        let mut source = &b"two lines\nof text{}"[..];
        assert_eq!(read_text(&mut source, 17).unwrap(), "two lines\nof text");
        assert_eq!(source, b"{}");
        assert_eq!(read_text(&mut source, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let error = read_text(&mut &b"\xff"[..], 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
