//! What is said of the states that two firewalls send each other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Interfaces of the other firewall, and their names here, where these are others.
pub type Names = BTreeMap<String, String>;

/// Which way states go by a connection, seen from the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncDirection {
    Out {
        /// States are sent before anybody has answered: the answer may come to the other firewall.
        defers: bool,
    },
    In {
        /// The interfaces of the other firewall that have other names here.
        interfaces: Names,
        /// Answers that come before their states wait for them.
        defers: bool,
    },
}

/// How both directions are.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SyncStatus {
    /// States that go to another firewall.
    pub out: SyncOutStatus,
    /// States that come from one.
    pub incoming: SyncInStatus,
}

/// States that go to another firewall. Counts are those of this session, or the last one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SyncOutStatus {
    /// Whether a session lives.
    pub is_live: bool,
    /// Of this daemon; the counters of all of them are in `weir fw stats`.
    pub session_count: u64,
    pub session_id: u64,
    /// Age of the oldest change that is not acknowledged, milliseconds; 0: there is none.
    pub lag_ms: u64,
    /// The last mark, and the last one that was acknowledged.
    pub sequence: u64,
    pub acknowledged_sequence: u64,
    /// States and ends of states, also more than once.
    pub sent_count: u64,
    pub acknowledged_count: u64,
    pub unacknowledged_count: u64,
    /// Of those that were sent: ends.
    pub deletes_count: u64,
    pub sent_bytes: u64,
    /// Over the last second or so.
    pub changes_per_second: u64,
    pub bytes_per_second: u64,
    /// How far the bulk is; `None`: none is under way.
    pub bulk_percent: Option<u8>,
    /// Bulks that were sent to the end.
    pub bulk_count: u64,
    /// States that have changed and wait: they are unanswered, and young or many.
    pub waiting_count: u64,
    /// Records of the other side that are of a kind that is not known here.
    pub skipped_count: u64,
    /// States that stay here, by the reason.
    pub left_out: BTreeMap<String, u64>,
    pub last_error: Option<String>,
}

/// States that come from another firewall. Counts are those of this session, or the last one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SyncInStatus {
    /// Whether a session lives.
    pub is_live: bool,
    /// Of this daemon.
    pub session_count: u64,
    pub session_id: u64,
    /// The last mark that was acknowledged.
    pub sequence: u64,
    /// Milliseconds between a mark's time and its acknowledgement, by both clocks.
    pub lag_ms: u64,
    /// Whether a bulk is under way.
    pub is_bulk: bool,
    /// Whether answers that come before their states wait for them.
    pub is_deferring: bool,
    /// How many states it has, as the other firewall says; 0: none is under way.
    pub bulk_state_count: u64,
    /// Bulks that came to the end.
    pub bulk_count: u64,
    /// States that were made.
    pub inserted_count: u64,
    /// States that it had sent before.
    pub updated_count: u64,
    pub deleted_count: u64,
    /// States that this firewall has made itself, and that stay as they are.
    pub present_count: u64,
    /// Ends of states that are not here.
    pub absent_count: u64,
    /// Of those that were made: their rules are not here, and they are the default rule's.
    pub default_rule_count: u64,
    /// Records of a kind that is not known here.
    pub skipped_count: u64,
    /// States that were not made, by the reason.
    pub left_out: BTreeMap<String, u64>,
    pub last_error: Option<String>,
}
