//! This firewall, as far as a connection of states needs it: its control socket.

use std::os::unix::net::UnixStream;

use anyhow::{Context as _, ensure};
use weir_fw::protocol::{Client, Request, SyncDirection, SyncStatus};

/// Where states come from, or go to.
pub(super) trait Firewall: Sync {
    /// Whether there is a session to be had, as far as can be said without having it.
    fn check(&self) -> anyhow::Result<()>;
    /// The session.
    fn join(&self) -> anyhow::Result<UnixStream>;
}

/// The daemon of this network namespace.
pub(super) struct Daemon(pub(super) SyncDirection);

impl Firewall for Daemon {
    fn check(&self) -> anyhow::Result<()> {
        let status = status()?;
        let is_taken = match self.0 {
            SyncDirection::Out { .. } => status.out.is_live,
            SyncDirection::In { .. } => status.incoming.is_live,
        };
        ensure!(!is_taken, "another weir fw sync has this firewall's session, and there is one");
        Ok(())
    }

    fn join(&self) -> anyhow::Result<UnixStream> {
        Ok(Client::connect()?.sync(self.0.clone())?)
    }
}

/// How both directions are.
pub(super) fn status() -> anyhow::Result<SyncStatus> {
    let answered = Client::connect()?.ask(&Request::SyncStatus, |_| Ok(()))?;
    let value = answered.value.context("the firewall gives no status")?;
    serde_json::from_value(value).context("the firewall's answer cannot be read")
}
