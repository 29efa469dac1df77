//! Rate search: for every DUT, sweep value, traffic and frame size of a specification, the rate
//! that is still forwarded.
//!
//! What comes next is decided by the state machines of [`weir_stats::search`]; here their trials
//! are run on a testbed, judged, and written down. Every trial is a trial like a campaign's: a
//! testbed built from nothing, a DUT configured anew, probed, primed if it keeps flows, and counted
//! when the packets stand still; so no load meets what an earlier one has left behind, and each
//! trial can be run again alone. Unlike a campaign's, it has no warm-up of its own: all that is
//! offered counts, as RFC 2544 wants it. One warm-up trial goes before each search, for the host.
//!
//! What limited a figure is said with it: the DUT, or, where the DUT can do the figure and perhaps
//! more, the path, the generator, or the specification.

mod collect;
mod expected;
pub mod item;
mod kept;
mod machines;
mod schedule;
mod test;

/// Samples of a trial, at the least.
const SAMPLES_MIN: u32 = 5;

pub use collect::collection;
pub use expected::{Expected, expected};
pub use item::{Item, ItemError, items};
pub use schedule::{Searches, results};
