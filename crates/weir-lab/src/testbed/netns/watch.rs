//! What the machine did to a trial: time taken by the hypervisor or by other programs, and
//! slowing down for heat.
//!
//! Stolen time is told, not judged: it is in the spread of the samples already. A CPU that slowed
//! down for heat voids the figure.

use std::collections::BTreeMap;

use weir_net::CpuList;

use crate::environment::{CpuTimes, cpu_times, stolen_share, throttle_counts, user_share};
use crate::record::Check;

/// One reading of the machine.
#[derive(Debug, Clone, Default)]
struct Reading {
    times: BTreeMap<usize, CpuTimes>,
    throttled: BTreeMap<String, u64>,
}

impl Reading {
    fn take() -> Self {
        Self { times: cpu_times(), throttled: throttle_counts() }
    }
}

/// The machine before and after the generator's run.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    before: Reading,
    after: Reading,
}

impl Watch {
    /// The run begins.
    pub(super) fn start(&mut self) {
        self.before = Reading::take();
    }

    /// The run has ended.
    pub(super) fn stop(&mut self) {
        self.after = Reading::take();
    }

    /// What is to be said of it. `cpus` are those of the testbed; on those of the generator and
    /// the kernel's forwarding, time in user mode is other programs'.
    pub(super) fn checks(&self, cpus: &[(&str, &CpuList)]) -> Vec<Check> {
        let percent = |share: Option<f64>| match share {
            Some(share) => format!("{:.1} %", share * 100.0),
            None => "unknown".to_owned(),
        };
        let told: Vec<String> = cpus
            .iter()
            .map(|(name, list)| {
                let list: Vec<usize> = list.iter().collect();
                let (before, after) = (&self.before.times, &self.after.times);
                format!(
                    "{name}: {} stolen by the hypervisor, {} in user mode",
                    percent(stolen_share(before, after, &list)),
                    percent(user_share(before, after, &list))
                )
            })
            .collect();
        let throttled: Vec<&str> = self
            .after
            .throttled
            .iter()
            .filter(|(name, count)| self.before.throttled.get(*name) != Some(count))
            .map(|(name, _)| name.as_str())
            .collect();
        let heat = match (self.after.throttled.is_empty(), throttled.is_empty()) {
            (true, _) => "this machine does not count it".to_owned(),
            (false, true) => "no CPU slowed down".to_owned(),
            (false, false) => format!("slowed down: {}", throttled.join(", ")),
        };
        let check = |name: &str, passed, detail| Check { name: name.to_owned(), passed, detail };
        vec![
            check("cpu-time", true, told.join("; ")),
            check("cpu-throttling", throttled.is_empty(), heat),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_slowed_down_fails_the_check() {
        let reading = |count| Reading {
            times: BTreeMap::new(),
            throttled: BTreeMap::from([("cpu0/core".to_owned(), count)]),
        };
        let cpus = CpuList::new([0]).unwrap();
        let cool = Watch { before: reading(4), after: reading(4) };
        assert!(cool.checks(&[("DUT", &cpus)]).iter().all(|c| c.passed));
        let hot = Watch { before: reading(4), after: reading(5) };
        let checks = hot.checks(&[("DUT", &cpus)]);
        assert_eq!(
            (checks[1].passed, checks[1].detail.as_str()),
            (false, "slowed down: cpu0/core")
        );
        assert_eq!(checks[0].detail, "DUT: unknown stolen by the hypervisor, unknown in user mode");
    }
}
