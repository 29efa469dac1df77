//! The side that asks.

use std::io::{self, BufReader, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use super::{Reply, Request, SOCKET_NAME, read_line};

/// The longest line of an answer.
const REPLY_SIZE_BYTES_MAX: u64 = 256 << 20;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon runs in this network namespace.
    #[error("no weir fw runs in this network namespace; `weir fw run -f FILE` starts it")]
    NotRunning,
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
    /// If no daemon runs here, or it does not listen to us.
    pub fn connect() -> Result<Self, ClientError> {
        let broken = |source| ClientError::Broken { source };
        let address = SocketAddr::from_abstract_name(SOCKET_NAME).map_err(broken)?;
        match UnixStream::connect_addr(&address) {
            Ok(stream) => Ok(Self { stream: BufReader::with_capacity(1 << 18, stream) }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(ClientError::NotRunning)
            }
            Err(source) => Err(broken(source)),
        }
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
        self.stream.get_mut().write_all(&line).map_err(broken)?;
        let mut answered = Answered::default();
        loop {
            let line = read_line(&mut self.stream, REPLY_SIZE_BYTES_MAX).map_err(broken)?;
            let line = line.ok_or_else(|| broken(io::ErrorKind::UnexpectedEof.into()))?;
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
