//! What stands in the place of generator and receiver where a traffic is not of packets: a client
//! on the generator's machine and a server on the receiver's, which talk with each other through
//! the DUT.

use std::time::Instant;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use weir_results::accounting::Accounting;
use weir_results::counters::Counters;
use weir_results::record::{Check, Delays};

use super::program::Program;
use crate::testbed::{Burst, Observed, Reading, TestbedError};

pub(super) use crate::testbed::requests::{CLIENT, SERVER};

/// Both ends: the server runs from the start to the teardown, a client for each run.
pub(super) trait Pair {
    /// Begins a run.
    ///
    /// # Errors
    /// When the client does not begin.
    fn begin(&mut self, burst: &Burst) -> Result<(), TestbedError>;

    /// Whether the client has done what it was asked for. One that cannot be asked is told when it
    /// is stopped.
    fn finished(&mut self) -> bool;

    /// Ends a run.
    ///
    /// # Errors
    /// When the client has failed, or does not end.
    fn end_client(&mut self) -> Result<(), TestbedError>;

    /// Takes what the client of a run that is over has counted.
    ///
    /// # Errors
    /// When it has not summed up.
    fn account(&mut self) -> Result<(), TestbedError>;

    /// How much was begun, and how much has come to its good end.
    fn reading(&self) -> Reading;

    /// The same of every line that came between two moments.
    fn recorded(&self, from: Instant, to: Instant) -> Option<Vec<Reading>>;

    /// Every count of both ends, of runs that are over.
    ///
    /// # Errors
    /// When an end has said nothing that this version knows.
    fn counters(&self) -> Result<Counters, TestbedError>;

    /// How the counters account for what goes between the ends.
    fn accounting(&self) -> Accounting;

    /// Checks of the last run.
    fn checks(&self) -> Vec<Check>;

    /// How long what was begun in the last run took to its good end.
    ///
    /// # Errors
    /// When that is not measured.
    fn observed(&self) -> Result<Observed, TestbedError>;

    /// What to look at when nothing came through.
    fn advice(&self) -> String;

    /// Ends both.
    ///
    /// # Errors
    /// When one does not end.
    fn teardown(self: Box<Self>) -> Result<(), TestbedError>;
}

/// Times, as programs say them, nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Quantiles {
    count: u64,
    min: u64,
    p50: u64,
    p90: u64,
    pub(super) p99: u64,
    p99_9: u64,
    max: u64,
}

impl Quantiles {
    /// The same, as results have them.
    pub(super) fn delays(self) -> Delays {
        Delays {
            sample_count: self.count,
            min_ns: self.min,
            p50_ns: self.p50,
            p90_ns: self.p90,
            p99_ns: self.p99,
            p999_ns: self.p99_9,
            max_ns: self.max,
        }
    }
}

/// The last figures of a program.
pub(super) fn parsed<T: DeserializeOwned>(program: &Program) -> Result<T, TestbedError> {
    let line = program.feed.last_line();
    serde_json::from_str(&line).map_err(|error| {
        TestbedError::voids_trial(format!(
            "{}: `{line}` is not what this version of weir says ({error}): install the same \
             version there",
            program.who()
        ))
    })
}
