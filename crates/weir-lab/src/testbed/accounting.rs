//! How a testbed accounts for packets: which of its counters are counting points, which are losses.
//!
//! Plain values, which [`crate::trial`] turns into a ledger. Nothing here reads a counter.

use weir_results::counters::{DropRule, Place, PointRule};

/// How the counters of a testbed account for a packet's way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Accounting {
    /// Counting points in the order of a packet's way.
    pub points: Vec<PointRule>,
    /// Named losses that the testbed's counters show.
    pub drops: Vec<DropRule>,
    /// Gaps between two counting points that are a loss of the place between them, although no
    /// counter names it.
    pub gaps: Vec<Gap>,
    /// How many more frames a counting point may have than the one before it, as a share of what
    /// was offered: what else its links carry.
    pub stray_ratio_max: f64,
    /// Whether the DUT's network stack carries more than the traffic: the connection that it is
    /// managed over. What it delivers to itself is no loss of the traffic then.
    pub shares_stack: bool,
    /// How they account for each direction of a traffic with several generators. Where there are
    /// any, the counting points, losses and gaps above are empty: they are the sums of these.
    pub directions: Vec<DirectionRules>,
    /// Counts of somebody who stands beside a counting point and has no part in the traffic.
    pub opinions: Vec<PointRule>,
}

/// How the counters of a testbed account for one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionRules {
    /// From which port of the DUT to which.
    pub name: String,
    /// Counting points in the order of a packet's way.
    pub points: Vec<PointRule>,
    /// Named losses that the testbed's counters show.
    pub drops: Vec<DropRule>,
    /// Whether what leaves the DUT this way came in by several ports, so that only the counting
    /// points from there on are about the same packets.
    pub is_merged: bool,
}

/// A loss that is known by the counting points around it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The counting point before it.
    pub after: &'static str,
    /// Name in the ledger.
    pub name: &'static str,
    /// Whose loss it is.
    pub place: Place,
}

impl Gap {
    /// A gap with its name.
    pub fn new(after: &'static str, name: &'static str, place: Place) -> Self {
        Self { after, name, place }
    }
}
