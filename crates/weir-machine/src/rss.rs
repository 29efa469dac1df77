//! Receive side scaling of an interface of this host: what it says, where its queues are worked on,
//! what is wrong with that, and changes that can be taken back.
//!
//! [`card`], weir-rss's, is the seam to whatever spreads packets: a driver behind ethtool's ioctls,
//! or the [wire](weir_bpf::rss::Wire) that a veth receives from. [`change`] sets all of what was
//! asked or nothing, after [`record`] has put the former settings on disk. [`places`] reads where
//! queues are worked on; [`findings`] judges, and touches nothing.
//!
//! Nothing here sends a packet, so nothing here knows whether a card does what it says.

pub mod change;
pub mod findings;
pub mod places;
pub mod record;

pub use weir_rss::card::{self, Card, CardError, State, open};
