//! How long this machine's CPUs spent on interrupts and softirqs that are not a measurement's.
//!
//! A measurement in namespaces of this machine has no device with an interrupt line: whatever
//! handler ran was somebody else's (a disk, a network card). Of softirqs, those of disks and
//! drivers are somebody else's, and so are received packets where the measurement receives none in
//! softirqs. Timers, the scheduler, RCU and hrtimers run wherever something works, and free what
//! the measurement leaves: they are its own. Where the kernel lets nobody trace, nothing is told.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use weir_bpf::interrupts::{CpuInterrupts, Interrupts};

use super::MACHINE;
use super::files::Files;
use super::tasks::Parts;

/// The interrupt lines of the machine by their numbers, as far as weir tells them apart.
const LINES_DIR: &str = "sys/kernel/irq";
const LINE_MAX: u32 = 4_095;

/// Softirqs that no packet of a measurement needs.
const FOREIGN_SOFTIRQS: [&str; 4] = ["HI", "BLOCK", "IRQ_POLL", "TASKLET"];
/// Where packets are received without a thread of their own.
const RECEIVING: &str = "NET_RX";

/// Counts from its beginning on.
#[derive(Debug)]
pub struct InterruptWatch {
    programs: Interrupts,
    since: Instant,
}

/// What was spent on interrupts in some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interrupted {
    pub(super) elapsed_ns: u64,
    /// By CPU.
    pub(super) cpus: Vec<CpuInterrupts>,
    /// Whose the lines are, as their drivers say.
    pub(super) line_names: BTreeMap<u32, String>,
}

impl InterruptWatch {
    /// Begins. `None` where the kernel lets nobody trace: then nothing is told of interrupts.
    #[must_use]
    pub fn start() -> Option<Self> {
        let files = Files::from(Path::new(MACHINE));
        let lines = files.names(LINES_DIR);
        let last = lines.iter().filter_map(|line| line.parse().ok()).max().unwrap_or(0);
        let programs = Interrupts::attach(LINE_MAX.min(last) + 1).ok()?;
        Some(Self { programs, since: Instant::now() })
    }

    /// Ends, and returns what was counted; `None` if the kernel does not show it.
    #[must_use]
    pub fn stop(self) -> Option<Interrupted> {
        let cpus = self.programs.read().ok()?;
        let elapsed_ns = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let files = Files::from(Path::new(MACHINE));
        let lines = cpus.iter().flat_map(|cpu| cpu.lines_ns.keys().copied().flatten());
        let name = |line: u32| Some((line, files.text(&format!("{LINES_DIR}/{line}/actions"))?));
        let line_names = lines.filter_map(name).collect();
        Some(Interrupted { elapsed_ns, cpus, line_names })
    }
}

impl Interrupted {
    /// What is not the measurement's on a CPU: each by its name, with its part of the time. `None`
    /// of a CPU that is not known.
    pub(super) fn foreign(&self, cpu: usize, parts: &Parts) -> Option<Vec<(String, f64)>> {
        let times = self.cpus.get(cpu)?;
        let is_foreign = |name: &str| {
            FOREIGN_SOFTIRQS.contains(&name)
                || name == RECEIVING && !parts.receives_on.contains(&cpu)
        };
        let softirqs = times.softirqs_ns.iter().filter(|(name, _)| is_foreign(name));
        let softirqs = softirqs.map(|(name, spent_ns)| (format!("softirq {name}"), *spent_ns));
        let lines =
            times.lines_ns.iter().map(|(line, spent_ns)| (self.line_name(*line), *spent_ns));
        #[expect(clippy::cast_precision_loss, reason = "times of a run are far below 2^53 ns")]
        let ratio = |spent_ns: u64| spent_ns as f64 / self.elapsed_ns.max(1) as f64;
        Some(softirqs.chain(lines).map(|(name, spent_ns)| (name, ratio(spent_ns))).collect())
    }

    fn line_name(&self, line: Option<u32>) -> String {
        match line {
            None => "interrupts of other lines".to_owned(),
            Some(line) => match self.line_names.get(&line).filter(|name| !name.is_empty()) {
                Some(name) => format!("interrupt {line} ({name})"),
                None => format!("interrupt {line}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_measurements_is_told_by_name() {
        let cpu = CpuInterrupts {
            softirqs_ns: [("NET_RX", 300), ("TIMER", 90), ("RCU", 200), ("BLOCK", 40)].into(),
            lines_ns: [(Some(36), 60), (Some(7), 10), (None, 5)].into(),
        };
        let interrupted = Interrupted {
            elapsed_ns: 1_000,
            cpus: vec![CpuInterrupts::default(), cpu],
            line_names: [(36, "virtio1-req.0".to_owned())].into(),
        };
        let foreign = |cpu, receives_on: &[usize]| {
            let parts = Parts { receives_on: receives_on.to_vec(), ..Parts::default() };
            interrupted.foreign(cpu, &parts)
        };
        let beside = [
            ("interrupts of other lines".to_owned(), 0.005),
            ("interrupt 7".to_owned(), 0.01),
            ("interrupt 36 (virtio1-req.0)".to_owned(), 0.06),
        ];
        let block = ("softirq BLOCK".to_owned(), 0.04);
        let received = ("softirq NET_RX".to_owned(), 0.3);
        let all: Vec<_> = [block.clone()].into_iter().chain(beside.clone()).collect();
        assert_eq!(foreign(1, &[1]), Some(all));
        // A measurement that receives nothing there.
        let all: Vec<_> = [block, received].into_iter().chain(beside).collect();
        assert_eq!(foreign(1, &[0]), Some(all));
        assert_eq!((foreign(0, &[]), foreign(2, &[])), (Some(Vec::new()), None));
    }
}
