//! What a campaign, a search or a bisection brought, and every way to show it.
//!
//! Records, ledgers and verdicts of trials; summaries and comparisons of series; reports and plots.
//! Bytes and values in, bytes out. *Never* opens a file, asks a clock, or runs anything: pure.

#![forbid(unsafe_code)]

pub mod accounting;
pub mod bisect;
pub mod collection;
pub mod compare;
pub mod content;
pub mod counters;
pub mod document;
pub mod dut;
pub mod environment;
pub mod gnuplot;
pub mod label;
pub mod ledger;
pub mod machine_use;
pub mod matrix;
pub mod number;
mod palette;
pub mod plot;
pub mod proof;
pub mod record;
pub mod report;
pub mod samples;
pub mod search;
pub mod summary;
pub mod toggle;
pub mod traffic;
pub mod unit;
pub mod verdict;
pub mod yardstick;
