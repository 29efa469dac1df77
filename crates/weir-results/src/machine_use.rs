//! What a machine did while it was measured: its CPUs, temperatures and fans.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a machine did during the generator's run. What it does not show is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineUse {
    /// The testbed's CPUs by number; all of a machine behind SSH.
    pub cpus: BTreeMap<usize, CpuUse>,
    /// Those of them that the DUT runs on; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dut_cpus: Vec<usize>,
    /// Temperatures by sensor, degrees Celsius.
    pub temperatures_celsius: BTreeMap<String, Span>,
    /// Fan speeds by sensor, revolutions per minute.
    pub fans_rpm: BTreeMap<String, Span>,
    /// What slowed CPUs down for heat, by the counter or cooling device that says so.
    pub slowed_for_heat: Vec<String>,
    /// Whether the machine would tell if it was slowed down.
    pub counts_throttling: bool,
    /// How often frequencies, temperatures and fans were read.
    pub sensor_reading_count: usize,
    /// What else ran on these CPUs, the longest first: threads that are neither the lab's nor the
    /// DUT's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign: Vec<ForeignTask>,
    /// The interrupts and softirqs among it, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_interrupts: Vec<ForeignInterrupt>,
    /// How long tasks of the whole machine waited; absent where it is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure: Option<Pressure>,
    /// How far the DUT's CPU was from the generator's; absent where they are one, or nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<Distance>,
}

/// Cores that share a cache are at most so far from each other, in nanoseconds.
pub const NEAR_NS: f64 = 70.0;

/// How long a cache line takes from one CPU to another, one way, before and after the generator's
/// run. On a machine of its own that never changes; a host moves the CPUs of virtual machines.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distance {
    /// Nanoseconds.
    pub ns: Span,
    /// The shortest that the lab has seen between them, nanoseconds, where it waited for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_ns: Option<f64>,
}

impl MachineUse {
    /// In which part of the time the busiest CPU of the DUT worked; `None` if none is known.
    #[must_use]
    pub fn dut_busy_ratio(&self) -> Option<f64> {
        let is_dut = |cpu: &usize| self.dut_cpus.is_empty() || self.dut_cpus.contains(cpu);
        let of_dut = self.cpus.iter().filter(|(cpu, _)| is_dut(cpu));
        of_dut.map(|(_, used)| used.busy_ratio).max_by(f64::total_cmp)
    }
}

/// A thread that is neither the lab's nor the DUT's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignTask {
    /// Its name, as the kernel has it.
    pub name: String,
    pub process: i32,
    /// The CPU that it ran on last.
    pub cpu: usize,
    /// Its part of the time of one CPU, 0 to 1.
    pub ratio: f64,
}

/// Interrupts of a line, or softirqs of a kind, that no packet of the trial needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignInterrupt {
    /// In words: `softirq BLOCK`, `interrupt 36 (virtio1-req.0)`.
    pub name: String,
    pub cpu: usize,
    /// Its part of the time of that CPU, 0 to 1.
    pub ratio: f64,
}

/// CPU time that a DUT had during the generator's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutTime {
    /// The run time of its threads; on a machine of its own, all that CPUs were not idle.
    pub run_ns: u64,
    /// The part of it in which the sink took packets on the DUT's CPUs, by the ticks of softirqs;
    /// absent where the sink is elsewhere, or that cannot be told.
    pub sink_ns: Option<u64>,
    /// The length of the generator's run by the ticks of a CPU.
    pub elapsed_ns: u64,
}

/// Pressure stall information: the parts of the time, 0 to 1, in which at least one task waited
/// for a CPU or for memory (`some` in `Documentation/accounting/psi.rst` in the kernel tree).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pressure {
    pub cpu_ratio: f64,
    pub memory_ratio: f64,
}

/// What a CPU did. Ratios are parts of its time, 0 to 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuUse {
    /// Not idle.
    pub busy_ratio: f64,
    /// In user mode.
    pub user_ratio: f64,
    /// In kernel mode; threaded NAPI and a generator are here.
    pub system_ratio: f64,
    /// In interrupt handlers.
    pub irq_ratio: f64,
    /// In softirqs; NAPI without threads is here.
    pub softirq_ratio: f64,
    /// Taken by the hypervisor.
    pub stolen_ratio: f64,
    /// Neither the lab's nor the DUT's; absent where that cannot be told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_ratio: Option<f64>,
    /// The part of that in interrupt handlers and softirqs; absent where they are not traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_ratio: Option<f64>,
    /// Softirqs by name, those that ran.
    pub softirq_counts: BTreeMap<String, u64>,
    /// Frequency, kHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_khz: Option<Span>,
}

/// Smallest and largest of several readings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}
