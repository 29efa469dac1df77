//! What stands in the place of generator and sink where a traffic is not of packets: two ends that
//! talk with each other through the DUT.

use weir_net::Netns;
use weir_results::accounting::Accounting;
use weir_results::counters::Counters;
use weir_results::record::Check;

use super::layout::Port;
use crate::testbed::{Burst, Observed, Reading, TestbedError, Topology};

pub(super) use crate::testbed::requests::{CLIENT, SERVER};

/// A place where one of the ends is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) netns: &'a Netns,
    pub(super) port: &'a Port,
}

/// Both ends.
pub(super) trait Pair {
    /// Begins.
    ///
    /// # Errors
    /// When the client cannot.
    fn start(&mut self, burst: &Burst) -> Result<(), TestbedError>;

    /// Whether it has done what the burst's limit allows, and does nothing any more.
    fn finished(&self) -> bool;

    /// Begins nothing new. What has begun is carried on.
    ///
    /// # Errors
    /// When the client failed while it ran.
    fn stop(&mut self) -> Result<(), TestbedError>;

    /// How much was begun, and how much has come to its good end.
    ///
    /// # Errors
    /// When it cannot be read.
    fn reading(&self) -> Result<Reading, TestbedError>;

    /// Every count of both ends.
    ///
    /// # Errors
    /// As [`Pair::reading`].
    fn counters(&self) -> Result<Counters, TestbedError>;

    /// How the counters account for what goes between two ports.
    fn accounting(&self, topology: Topology, ports: (&Port, &Port)) -> Accounting;

    /// Checks of the client, of its last run.
    fn checks(&self) -> Vec<Check> {
        Vec::new()
    }

    /// Whether they are sockets of the kernel's, whose timers and queues are worked on in softirqs
    /// of the CPUs that the ends are on.
    fn has_sockets(&self) -> bool {
        false
    }

    /// How long what was begun in the last run took to its good end.
    ///
    /// # Errors
    /// When that is not measured.
    fn observed(&self) -> Result<Observed, TestbedError>;
}
