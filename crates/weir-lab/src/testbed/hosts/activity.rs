//! What the machines of the path did during a run: the DUT, the generators, the receiver.
//!
//! Each is asked before its generators start and after they have ended. A machine that slowed down
//! for heat meanwhile voids the figure, whichever it is; nothing else is judged here.

use std::rc::Rc;

use weir_machine::host::Host;
use weir_machine::ssh::system::activity::Activity;
use weir_results::machine_use::MachineUse;
use weir_results::record::Check;

use super::parts::Parts;
use crate::testbed::Machines;

/// The machines during a run.
#[derive(Default)]
pub(super) struct Activities {
    dut: Option<Activity>,
    /// The others, by their names.
    helpers: Vec<(Rc<dyn Host>, Activity)>,
}

impl Activities {
    /// A run begins.
    pub(super) fn begin(parts: &Parts) -> Self {
        let mut once: Vec<&Rc<dyn Host>> = Vec::new();
        for host in parts.generators.iter().chain([&parts.receiver]) {
            if !once.iter().any(|other| Rc::ptr_eq(other, host)) {
                once.push(host);
            }
        }
        let begun = |host: &&Rc<dyn Host>| {
            let activity = Activity::begin(host.as_ref(), host.system().ok()?, true)?;
            Some((Rc::clone(host), activity))
        };
        Self {
            dut: Activity::begin(parts.device.host(), parts.spec.dut.system, true),
            helpers: once.iter().filter_map(begun).collect(),
        }
    }

    /// It has ended.
    pub(super) fn end(&mut self, parts: &Parts) {
        if let Some(dut) = &mut self.dut {
            dut.end(parts.device.host());
        }
        for (host, activity) in &mut self.helpers {
            activity.end(host.as_ref());
        }
    }

    /// What they did.
    pub(super) fn machines(&self) -> Machines {
        let helpers = self.helpers.iter();
        let named = |(host, activity): &(Rc<dyn Host>, Activity)| {
            (host.name().to_owned(), activity.machine())
        };
        Machines {
            dut: self.dut.as_ref().map(Activity::machine),
            others: helpers.map(named).collect(),
            dut_time: self.dut.as_ref().and_then(Activity::dut_time),
        }
    }

    /// Whether one of them slowed down; nothing where none shows anything. One that shows nothing
    /// excuses no other.
    pub(super) fn check(&self, dut: &str) -> Option<Check> {
        let Machines { dut: dut_use, others, .. } = self.machines();
        let dut = dut_use.map(|used| (dut.to_owned(), used));
        let machines: Vec<(String, MachineUse)> = dut.into_iter().chain(others).collect();
        (!machines.is_empty()).then(|| throttling(&machines))
    }
}

/// The check of these machines, by name.
fn throttling(machines: &[(String, MachineUse)]) -> Check {
    let details = machines.iter().map(|(name, used)| {
        let slowed = &used.slowed_for_heat;
        match (used.counts_throttling, slowed.is_empty()) {
            (false, _) => format!("{name} does not count it"),
            (true, true) => format!("no CPU of {name} slowed down"),
            (true, false) => {
                format!("{name} slowed down: {}; check its fans and airflow", slowed.join(", "))
            }
        }
    });
    Check {
        name: "cpu-throttling".to_owned(),
        passed: machines.iter().all(|(_, used)| used.slowed_for_heat.is_empty()),
        detail: details.collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_machine_slows_down_fails_the_check_and_is_named() {
        let machine = |name: &str, counts_throttling, slowed: &[&str]| {
            let slowed_for_heat = slowed.iter().map(|&name| name.to_owned()).collect();
            let used = MachineUse { counts_throttling, slowed_for_heat, ..MachineUse::default() };
            (name.to_owned(), used)
        };
        let cool = [machine("dut", true, &[]), machine("gen", false, &[])];
        let check = throttling(&cool);
        assert!(check.passed);
        assert_eq!(check.detail, "no CPU of dut slowed down; gen does not count it");
        let check = throttling(&[cool[0].clone(), machine("recv", true, &["cpu0/core"])]);
        assert!(!check.passed && check.detail.contains("recv slowed down: cpu0/core"), "{check:?}");
    }
}
