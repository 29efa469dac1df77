//! The machines of a campaign, each once, however many roles it has.

use std::rc::Rc;
use std::time::Duration;

use weir_machine::host::Host;

use super::device::Device;
use crate::model::HostsSpec;
use crate::testbed::Traces;

/// The machines, by role.
pub(super) struct Parts {
    pub(super) spec: HostsSpec,
    /// In the order of the specification.
    pub(super) generators: Vec<Rc<dyn Host>>,
    pub(super) receiver: Rc<dyn Host>,
    pub(super) device: Box<dyn Device>,
    pub(super) reference: Option<Rc<dyn Host>>,
    /// This machine.
    pub(super) manager: Rc<dyn Host>,
    /// How long the total of a program that has ended may be under way.
    pub(super) total_patience: Duration,
}

impl Parts {
    /// Every machine once.
    pub(super) fn hosts(&self) -> Vec<&dyn Host> {
        let shared = self.generators.iter().chain([&self.receiver]).chain(&self.reference);
        let mut once: Vec<&Rc<dyn Host>> = Vec::new();
        for host in shared.chain([&self.manager]) {
            if !once.iter().any(|other| Rc::ptr_eq(other, host)) {
                once.push(host);
            }
        }
        let mut hosts = vec![self.device.host()];
        hosts.extend(once.into_iter().map(|host| host.as_ref()));
        hosts
    }

    /// What all of them have left to be read since they were asked last.
    pub(super) fn take_traces(&self) -> Traces {
        let mut traces = Traces::default();
        self.hosts().into_iter().for_each(|host| traces.append(Traces::take_from(host)));
        traces
    }

    /// Every machine but the DUT that the path needs, with its role.
    pub(super) fn helpers(&self) -> Vec<(&'static str, &Rc<dyn Host>)> {
        let generators = self.generators.iter().map(|host| ("generator", host));
        let others = [("receiver", &self.receiver)];
        let reference = self.reference.iter().map(|host| ("reference", host));
        generators.chain(others).chain(reference).collect()
    }
}
