//! Why something that pfctl asks of the running firewall failed. This module never says it.

use weir_fw::protocol::ClientError;

/// Why a step failed.
pub(super) enum Failure {
    /// The firewall refused, or is gone.
    Client(ClientError),
    /// The words of the command line make no sense, or a file could not be used.
    Words(String),
    /// This machine could not be asked.
    Machine(anyhow::Error),
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}
