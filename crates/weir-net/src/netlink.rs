//! A synchronous facade over rtnetlink (rtnetlink(7)): one socket, one request at a time.
//!
//! The socket belongs to the network namespace of the thread that opens it, and stays there:
//! open a [`Netlink`] inside [`crate::Netns::run`] to work in that namespace. The operations are
//! in the modules [`crate::link`], [`crate::address`], [`crate::route`] and [`crate::neighbour`].
//!
//! It never runs a thread or a background task: the runtime inside turns only while a method runs.

use std::future::Future;
use std::io;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt, pin_mut};
use rtnetlink::Handle;

use crate::error::describe;

/// Why a netlink operation failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket could not be opened.
    #[error("cannot open a netlink socket: {}", describe(source))]
    Open {
        /// The operating system's answer.
        source: io::Error,
    },
    /// There is no interface of that name.
    #[error("there is no interface `{name}` in this network namespace")]
    NoLink { name: String },
    /// The name cannot be an interface's.
    #[error("`{name}` cannot name an interface: {reason}")]
    BadName {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A value is out of its range; the kernel was not asked.
    #[error("cannot {action}: {reason}")]
    BadValue {
        /// What was to be done, with the object's name.
        action: String,
        /// What is wrong.
        reason: String,
    },
    /// An interface did not become operational in time.
    #[error("interface `{name}` is still {state:?} after {waited:?}; {advice}")]
    NotOperational {
        /// The interface.
        name: String,
        /// The state it is in.
        state: OperState,
        /// How long was waited.
        waited: Duration,
        /// What to look at.
        advice: &'static str,
    },
    /// The kernel refused.
    #[error("cannot {action}: {}", describe(source))]
    Refused {
        /// What was to be done, with the object's name.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The kernel's answer made no sense to this version of weir.
    #[error("cannot {action}: the kernel's answer was not understood: {detail}")]
    Answer {
        /// What was to be done, with the object's name.
        action: String,
        /// What was not understood.
        detail: String,
    },
}

/// An interface's operational state (RFC 2863).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperState {
    /// The driver does not say (a loopback interface that is up).
    Unknown,
    /// Some component is missing.
    NotPresent,
    Down,
    /// Down because of a lower layer: for a veth, its peer is down.
    LowerLayerDown,
    /// In a test mode.
    Testing,
    /// Waiting for an external event.
    Dormant,
    /// Packets can pass.
    Up,
}

/// An open rtnetlink socket of one network namespace.
///
/// Not for use inside an asynchronous runtime: its methods block.
pub struct Netlink {
    runtime: tokio::runtime::Runtime,
    handle: Handle,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netlink").finish_non_exhaustive()
    }
}

impl Netlink {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = |source| NetlinkError::Open { source };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(open)?;
        let handle = runtime.block_on(async {
            let (connection, handle, _messages) = rtnetlink::new_connection()?;
            tokio::spawn(connection);
            Ok(handle)
        });
        Ok(Self { runtime, handle: handle.map_err(open)? })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Waits for one request; `action` is the "cannot ..." of its error.
    pub(crate) fn perform<T>(
        &self,
        action: impl FnOnce() -> String,
        request: impl Future<Output = Result<T, rtnetlink::Error>>,
    ) -> Result<T, NetlinkError> {
        self.runtime.block_on(request).map_err(|error| refused(action(), &error))
    }

    /// Collects the answers of a dump.
    pub(crate) fn collect<T>(
        &self,
        action: impl FnOnce() -> String,
        answers: impl Stream<Item = Result<T, rtnetlink::Error>>,
    ) -> Result<Vec<T>, NetlinkError> {
        self.runtime
            .block_on(async {
                pin_mut!(answers);
                let mut all = Vec::new();
                while let Some(answer) = answers.try_next().await? {
                    all.push(answer);
                }
                Ok(all)
            })
            .map_err(|error| refused(action(), &error))
    }
}

fn refused(action: String, error: &rtnetlink::Error) -> NetlinkError {
    match error {
        rtnetlink::Error::NetlinkError(message) => {
            NetlinkError::Refused { action, source: message.to_io() }
        }
        rtnetlink::Error::RequestFailed => NetlinkError::Refused {
            action,
            source: io::Error::new(io::ErrorKind::BrokenPipe, "the netlink socket is gone"),
        },
        other => NetlinkError::Answer { action, detail: other.to_string() },
    }
}
