//! What one look at the machine brings, before the list says how bad it is.

use super::Status;

/// What a check saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: Status,
    pub(super) seen: String,
}

impl Finding {
    /// As it should be.
    pub(super) fn ok(seen: impl Into<String>) -> Self {
        Self { status: Status::Ok, seen: seen.into() }
    }

    /// Worth knowing.
    pub(super) fn info(seen: impl Into<String>) -> Self {
        Self { status: Status::Info, seen: seen.into() }
    }

    /// Something is missing or in the way; how bad that is, the list knows.
    pub(super) fn lacking(seen: impl Into<String>) -> Self {
        Self { status: Status::Fail, seen: seen.into() }
    }
}
