//! weir's own router and firewall, on the side that is not the packet path: it compiles rulesets
//! of `weir-rules` into what the XDP programs of `weir-bpf` read, loads and replaces them, and
//! shows and ends states.
//!
//! What this crate never does: it never looks at a packet, never parses pf.conf itself, and never
//! prints.

#![forbid(unsafe_code)]

// The fuzz target among the tests names the crate as cargo-fuzz does.
#[cfg(test)]
extern crate self as weir_fw;

pub mod compile;
pub mod daemon;
pub mod engine;
pub mod heap;
pub mod image;
pub mod install;
mod limits;
mod log;
pub mod metrics;
mod monitor;
mod notify;
mod overload;
mod peer;
pub mod pflow;
mod pipes;
pub mod prefix;
pub mod protocol;
mod refuse;
mod sessions;
mod shared;
pub mod show;
pub mod socket;
pub mod states;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod timeouts;

pub use refuse::diagnostics as refusals;
