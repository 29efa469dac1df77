//! What stands in the place of generator and receiver where a traffic is not of packets: a client
//! on the generator's machine and a server on the receiver's, which talk with each other through
//! the DUT.

use std::time::Instant;

use weir_results::accounting::Accounting;
use weir_results::counters::Counters;
use weir_results::record::Check;

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
