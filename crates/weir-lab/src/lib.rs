//! Campaigns on packet-forwarding boxes: specification → plan → run → store → report.
//!
//! A *campaign* is a matrix of images × DUTs × sweep values × traffics × iterations. Each *cell*
//! of it is one run on a freshly built DUT; its raw samples and counters go to the store once and
//! are never rewritten; summaries and reports are derived and can be rebuilt at any time.
//!
//! This crate never prints, never reads the command line, and never links weir's own firewall: a
//! DUT is a foreign box, whoever wrote it.

#![forbid(unsafe_code)]

pub mod archive;
pub mod bench_lab;
pub mod bisect;
pub mod campaign;
pub mod derive;
pub mod diagnostic;
pub mod dut;
pub mod event;
#[cfg(test)]
mod fixture;
pub mod identity;
pub mod material;
pub mod model;
pub mod open;
pub mod plan;
pub mod runner;
pub mod search;
#[cfg(test)]
mod simulated;
pub mod spec;
pub mod store;
pub mod task;
pub mod testbed;
pub mod trial;
