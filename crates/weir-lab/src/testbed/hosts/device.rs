//! The DUT as this testbed needs it: a host that also counts, boots and takes an image.

use std::path::Path;
use std::time::Duration;

use weir_machine::host::{Host, HostError, Output};
use weir_results::counters::{Counters, DropRule, Selection};

/// The DUT's machine. Starting it afresh is the host's own ([`Host::fresh`]).
pub(super) trait Device {
    /// The machine as DUT drivers see it.
    fn host(&self) -> &dyn Host;

    /// Its interfaces on the path, by name.
    fn interfaces(&self) -> Result<Vec<String>, HostError>;

    /// Every counter of its traffic interfaces: source is the interface.
    fn counters(&self) -> Result<Counters, HostError>;

    /// Where packets are counted that came in; none where nothing counts them.
    fn received(&self) -> Option<Selection>;

    /// Where packets are counted that left.
    fn forwarded(&self) -> Option<Selection>;

    /// Losses that its interfaces name.
    fn drops(&self) -> Vec<DropRule>;

    /// Waits until it is online.
    fn online(&self) -> Result<(), HostError>;

    /// What it is: system, versions, queues, interrupts.
    fn environment(&self) -> serde_json::Value;

    /// Runs a line with a file of this machine as its standard input.
    fn feed(&self, line: &str, file: &Path, timeout: Duration) -> Result<Output, HostError>;
}
