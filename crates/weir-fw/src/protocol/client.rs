//! The side that asks.

use std::io::{self, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use super::{Reply, Request, read_line};
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
                text => take(text).map_err(|source| ClientError::Output { source })?,
            }
        }
    }
}
