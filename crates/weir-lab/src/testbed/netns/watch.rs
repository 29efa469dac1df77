//! What the machine did to a trial: its load, time taken by the hypervisor or by other programs,
//! and slowing down for heat.
//!
//! A CPU that slowed down for heat voids the figure; what else ran is for the verdict to judge.

use std::cell::OnceCell;

use weir_machine::environment::interrupts::InterruptWatch;
use weir_machine::environment::machine::{Counted, SensorWatch, Sensors, dut_time, machine_use};
use weir_machine::environment::tasks::Parts;
use weir_net::CpuList;
use weir_results::machine_use::{Distance, DutTime, MachineUse, Span};
use weir_results::number;
use weir_results::record::Check;

/// The name of the CPUs that the DUT runs on.
pub(in crate::testbed) const DUT: &str = "DUT";

/// The machine before, during and after the generator's measured run.
#[derive(Debug, Default)]
pub(in crate::testbed) struct Watch {
    before: Counted,
    after: Counted,
    sensors: Vec<Sensors>,
    /// What belongs to the trial.
    parts: Option<Parts>,
    watching: Option<SensorWatch>,
    interrupts: Option<InterruptWatch>,
    /// From the generator's CPU to the DUT's, before and after, ns.
    distances_ns: Vec<f64>,
    nearest_ns: Option<f64>,
    is_running: bool,
    /// What all of it comes to, worked out once.
    used: OnceCell<MachineUse>,
}

impl Watch {
    /// The run begins. Interrupts are traced where they will be judged: their tracing is not free.
    pub(in crate::testbed) fn start(&mut self, judges_interrupts: bool) {
        self.is_running = true;
        self.used = OnceCell::new();
        self.distances_ns.clear();
        self.watching = SensorWatch::start();
        self.interrupts = judges_interrupts.then(InterruptWatch::start).flatten();
        self.before = Counted::take();
    }

    /// How far the DUT's CPU is from the generator's before or after the run, and the shortest way
    /// of a run that waits for it, ns.
    pub(in crate::testbed) fn distance(&mut self, now_ns: Option<f64>, nearest_ns: Option<f64>) {
        self.distances_ns.extend(now_ns);
        self.nearest_ns = nearest_ns;
        self.used = OnceCell::new();
    }

    /// Whether a run has begun that has not ended.
    pub(in crate::testbed) fn is_running(&self) -> bool {
        self.is_running
    }

    /// The run has ended; `parts` belong to the trial. Without them, what else ran is not known.
    pub(in crate::testbed) fn stop(&mut self, parts: Option<Parts>) {
        self.is_running = false;
        self.parts = parts;
        let counted = Counted::take();
        let interrupted = self.interrupts.take().and_then(InterruptWatch::stop);
        self.after = Counted { interrupted, ..counted };
        self.sensors = self.watching.take().map(SensorWatch::stop).unwrap_or_default();
    }

    /// What the machine did on the CPUs of the testbed, which are the same each time.
    pub(in crate::testbed) fn machine(&self, cpus: &[(&str, &CpuList)]) -> &MachineUse {
        self.used.get_or_init(|| {
            let mut list: Vec<usize> = cpus.iter().flat_map(|(_, cpus)| cpus.iter()).collect();
            list.sort_unstable();
            list.dedup();
            let parts = (&list[..], self.parts.as_ref());
            let used = machine_use(&self.before, &self.after, &self.sensors, parts);
            let of_dut = cpus.iter().filter(|(name, _)| *name == DUT);
            let dut_cpus = of_dut.flat_map(|(_, cpus)| cpus.iter()).collect();
            MachineUse { dut_cpus, distance: self.distance_between(), ..used }
        })
    }

    fn distance_between(&self) -> Option<Distance> {
        let all = || self.distances_ns.iter().copied();
        let (min, max) = (all().min_by(f64::total_cmp)?, all().max_by(f64::total_cmp)?);
        Some(Distance { ns: Span { min, max }, nearest_ns: self.nearest_ns })
    }

    /// CPU time of the DUT, which is these threads on these CPUs; `has_sink`: the sink's packets
    /// are taken there, too. `None` without a run.
    pub(in crate::testbed) fn dut_time(
        &self,
        dut: &Parts,
        cpus: &CpuList,
        has_sink: bool,
    ) -> Option<DutTime> {
        let cpus: Vec<usize> = cpus.iter().collect();
        dut_time(&self.before, &self.after, dut, (&cpus, has_sink))
    }

    /// What is to be said of it. `cpus` are those of the testbed.
    pub(in crate::testbed) fn checks(&self, cpus: &[(&str, &CpuList)]) -> Vec<Check> {
        let used = self.machine(cpus);
        let times = cpus.iter().flat_map(|(name, list)| list.iter().map(move |cpu| (*name, cpu)));
        let times: Vec<String> = times
            .map(|(name, cpu)| match used.cpus.get(&cpu) {
                None => format!("{name}: no time of CPU {cpu} is known"),
                Some(used) => format!(
                    "{name}: CPU {cpu} was busy for {}, with {} stolen by the hypervisor and {} \
                     for something else{}",
                    number::share(used.busy_ratio),
                    number::share(used.stolen_ratio),
                    used.foreign_ratio.map_or_else(|| "an unknown share".to_owned(), number::share),
                    match used.interrupted_ratio {
                        Some(ratio) => format!(" ({} in interrupts)", number::share(ratio)),
                        None if self.parts.is_none() => String::new(),
                        None => ", without interrupts, which cannot be traced".to_owned(),
                    },
                ),
            })
            .collect();
        let slowed = &used.slowed_for_heat;
        let heat = match (used.counts_throttling, slowed.is_empty()) {
            (false, _) => "this machine does not count it".to_owned(),
            (true, true) => "no CPU slowed down".to_owned(),
            (true, false) => format!("slowed down: {}", slowed.join(", ")),
        };
        let check = |name: &str, passed, detail| Check { name: name.to_owned(), passed, detail };
        vec![
            check("cpu-time", true, times.join("; ")),
            check("cpu-throttling", slowed.is_empty(), heat),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_cpu_that_slowed_down_fails_the_check() {
        let reading = |count| Counted {
            throttled: BTreeMap::from([("cpu0/core".to_owned(), count)]),
            ..Counted::default()
        };
        let cpus = CpuList::new([0]).unwrap();
        let watch = |after| Watch { before: reading(4), after: reading(after), ..Watch::default() };
        assert!(watch(4).checks(&[("DUT", &cpus)]).iter().all(|c| c.passed));
        let checks = watch(5).checks(&[("DUT", &cpus)]);
        assert_eq!(
            (checks[1].passed, checks[1].detail.as_str()),
            (false, "slowed down: cpu0/core")
        );
        assert_eq!(checks[0].detail, "DUT: no time of CPU 0 is known");
        // A cooling device that was in use for a moment only.
        let passing = |state| Sensors {
            cooling: BTreeMap::from([("cooling_device0/Processor".to_owned(), state)]),
            ..Sensors::default()
        };
        let mut warm = watch(4);
        warm.sensors = vec![passing(0), passing(1), passing(0)];
        let checks = warm.checks(&[("DUT", &cpus)]);
        assert_eq!(
            (checks[1].passed, checks[1].detail.as_str()),
            (false, "slowed down: cooling_device0/Processor")
        );
    }
}
