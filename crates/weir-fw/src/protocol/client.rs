//! The side that asks.

use std::io::{self, BufReader, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::{Reply, Request, SOCKET_NAME, read_line};

/// The longest line of an answer.
const REPLY_SIZE_BYTES_MAX: u64 = 256 << 20;

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon runs in this network namespace.
    #[error("no weir fw runs in this network namespace; `weir fw run -f FILE` starts it")]
    NotRunning,
    /// Somebody else has the name of the control socket.
    #[error(
        "the control socket of this network namespace belongs to user {uid} (process {pid}), and \
         not to a weir fw that root or you run: nothing was sent to it; end that process, and then \
         start `weir fw run -f FILE`"
    )]
    Foreign {
        /// The user.
        uid: u32,
        /// The process that listened.
        pid: i32,
    },
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
    /// If no daemon runs here, it does not listen to us, or it is none of root's or our own: an
    /// abstract name belongs to whoever takes it first.
    pub fn connect() -> Result<Self, ClientError> {
        Self::connect_to(SOCKET_NAME)
    }

    fn connect_to(name: &str) -> Result<Self, ClientError> {
        let broken = |source| ClientError::Broken { source };
        let address = SocketAddr::from_abstract_name(name).map_err(broken)?;
        let stream = match UnixStream::connect_addr(&address) {
            Ok(stream) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(ClientError::NotRunning);
            }
            Err(source) => return Err(broken(source)),
        };
        let peer = getsockopt(&stream, PeerCredentials).map_err(|error| broken(error.into()))?;
        if !is_trusted(peer.uid(), nix::unistd::geteuid().as_raw()) {
            return Err(ClientError::Foreign { uid: peer.uid(), pid: peer.pid() });
        }
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

/// Whose answers are believed: root's and our own.
const fn is_trusted(uid: u32, our_uid: u32) -> bool {
    uid == 0 || uid == our_uid
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_root_and_oneself_are_believed() {
        assert!(is_trusted(0, 1000) && is_trusted(1000, 1000) && is_trusted(0, 0));
        assert!(!is_trusted(1000, 0) && !is_trusted(1000, 1001));
    }

    #[test]
    fn who_listens_is_asked_for_and_nobody_is_told_so() {
        let name = format!("weir-fw-client-test-{}", std::process::id());
        assert!(matches!(Client::connect_to(&name), Err(ClientError::NotRunning)));
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        assert!(Client::connect_to(&name).is_ok(), "the test itself");
    }
}
