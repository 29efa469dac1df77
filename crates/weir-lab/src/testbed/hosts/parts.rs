//! The machines of a campaign, each once, however many roles it has.

use std::rc::Rc;

use super::device::Device;
use crate::host::Host;
use crate::model::HostsSpec;

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

    /// The commands that ran on all of them since they were asked last.
    pub(super) fn take_log(&self) -> String {
        self.hosts().into_iter().map(Host::take_log).collect()
    }

    /// Files of all of them to keep.
    pub(super) fn take_artefacts(&self) -> Vec<(String, Vec<u8>)> {
        self.hosts().into_iter().flat_map(Host::take_artefacts).collect()
    }

    /// Every machine but the DUT that the path needs, with its role.
    pub(super) fn helpers(&self) -> Vec<(&'static str, &Rc<dyn Host>)> {
        let generators = self.generators.iter().map(|host| ("generator", host));
        let others = [("receiver", &self.receiver)];
        let reference = self.reference.iter().map(|host| ("reference", host));
        generators.chain(others).chain(reference).collect()
    }
}
