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
pub mod cancel;
mod capped_log;
pub mod collection;
pub mod compare;
pub mod console;
pub mod counters;
pub mod derive;
pub mod diagnostic;
pub mod digest;
pub mod dut;
pub mod environment;
pub mod event;
#[cfg(test)]
mod fixture;
pub mod gnuplot;
pub mod host;
pub mod identity;
pub mod image;
pub mod ledger;
mod lines;
pub mod material;
pub mod model;
pub mod plan;
pub mod plot;
pub mod pxe;
pub mod queues;
pub mod record;
pub mod report;
pub mod search;
pub mod spec;
pub mod ssh;
pub mod store;
pub mod summary;
pub mod testbed;
pub mod trial;
pub mod verdict;
