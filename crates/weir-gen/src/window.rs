//! A bound on the packets under way: `bpf/include/weir/room.h`.
//!
//! It is for filling tables, never for measurements.

use std::sync::Arc;

use crate::receiver::Receiver;

/// How many packets may be under way, and where they arrive.
#[derive(Debug, Clone)]
pub struct Window {
    /// The most packets that are under way at once, at least [`BATCH_FRAMES`], and a batch less
    /// than a ring behind the generator has room for.
    ///
    /// [`BATCH_FRAMES`]: crate::backend::BATCH_FRAMES
    pub packets: u32,
    /// Where they arrive.
    pub receivers: Vec<Arc<Receiver>>,
}
