//! Receive side scaling: which queue, and so which CPU, a network card hands a packet to.
//!
//! A card hashes the fields of a packet that name its flow ([`fields`]) with a secret key ([`key`])
//! by the Toeplitz function ([`toeplitz`]). The hash modulo the size of the indirection table
//! ([`table`]) is the packet's *bucket*, and the bucket's entry is the number of a receive queue.
//! [`inner`] finds the innermost flow of tunnels and fragments, which no card does.
//! [`steering`] joins these, [`settings`] those of all kinds of flow; [`pick`] finds flows that
//! reach given buckets, which [`spread`] makes streams of, and [`balance`] moves buckets from busy
//! queues to idle ones.
//!
//! Everything here is computed from what a card says of itself. Whether it does what it says is not
//! known here: only packets that are sent and looked for can tell.
//!
//! Source: "Verifying the RSS Hash Calculation" and "RSS Hashing Types" in Microsoft's
//! documentation of network drivers; ethtool(8), options `-x`, `-X` and `-n rx-flow-hash`;
//! include/uapi/linux/ethtool.h for the symmetric inputs.

pub mod balance;
pub mod fields;
pub mod inner;
pub mod key;
pub mod pick;
pub mod settings;
pub mod spread;
pub mod steering;
pub mod table;
pub mod toeplitz;

pub use fields::{Fields, Symmetry};
pub use key::Key;
pub use settings::{FlowKind, Settings};
pub use steering::Steering;
pub use table::Table;
pub use toeplitz::Toeplitz;
