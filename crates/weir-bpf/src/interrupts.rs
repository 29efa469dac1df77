//! How long the CPUs of this machine are in interrupt handlers and in softirqs.
//!
//! Times are counted from the moment of attaching, by programs at four tracepoints of the kernel
//! (`include/trace/events/irq.h`), for all CPUs and network namespaces. What belongs to whom is not
//! decided here.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use libbpf_rs::MapHandle;

use crate::map::{self, MapError, WORD_BYTES};
use crate::object::{self, LoadError, Loaded};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/interrupts.bpf.o"));
const OBJECT_NAME: &str = "interrupts";

/// The softirqs by their vectors, named as in `/proc/softirqs`.
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Words of a CPU in the map: the times of softirqs, and four that only the programs use.
const CPU_WORDS: usize = SOFTIRQS.len() + 4;

const PROGRAMS: [&str; 4] =
    ["weir_softirq_entry", "weir_softirq_exit", "weir_handler_entry", "weir_handler_exit"];

/// The programs, attached until this is dropped.
#[derive(Debug)]
pub struct Interrupts {
    cpus: MapHandle,
    lines: MapHandle,
    line_count: u32,
    _links: Vec<OwnedFd>,
}

/// What a CPU did since the programs were attached. What it never did is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CpuInterrupts {
    /// Nanoseconds in softirqs, by name, without the interrupt handlers in between.
    pub softirqs_ns: BTreeMap<&'static str, u64>,
    /// Nanoseconds in interrupt handlers, by line; `None`: of lines that are not told apart.
    pub lines_ns: BTreeMap<Option<u32>, u64>,
}

impl Interrupts {
    /// Attaches the programs, which tell the first `line_count` interrupt lines apart.
    ///
    /// # Errors
    /// [`LoadError`] without privileges, or on a kernel without type information (BTF).
    pub fn attach(line_count: u32) -> Result<Self, LoadError> {
        let loaded = Loaded::load_prepared(OBJECT_NAME, OBJECT, |opened| {
            object::resize(opened, "weir_lines", line_count.saturating_add(1))
        })?;
        let cpus = loaded.map("weir_interrupts", CPU_WORDS * WORD_BYTES)?;
        let lines = loaded.map("weir_lines", WORD_BYTES)?;
        let links = PROGRAMS.into_iter().map(|program| loaded.attach(program));
        let links = links.collect::<Result<_, _>>()?;
        Ok(Self { cpus, lines, line_count, _links: links })
    }

    /// What each possible CPU did so far.
    ///
    /// # Errors
    /// [`MapError`] if the kernel refuses to show it.
    pub fn read(&self) -> Result<Vec<CpuInterrupts>, MapError> {
        let all = map::read_per_cpu(&self.cpus)?;
        let softirqs = |words: &Vec<u64>| {
            let named = SOFTIRQS.into_iter().zip(words.iter().copied());
            named.filter(|(_, spent_ns)| *spent_ns > 0).collect()
        };
        let mut cpus: Vec<CpuInterrupts> = all
            .iter()
            .map(|words| CpuInterrupts { softirqs_ns: softirqs(words), ..CpuInterrupts::default() })
            .collect();
        for place in 0..=self.line_count {
            let of_line = map::read_per_cpu_at(&self.lines, place)?;
            for (cpu, words) in cpus.iter_mut().zip(of_line) {
                let spent_ns = words.first().copied().filter(|spent_ns| *spent_ns > 0);
                cpu.lines_ns.extend(spent_ns.map(|spent_ns| (place.checked_sub(1), spent_ns)));
            }
        }
        Ok(cpus)
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn packets_on_loopback_are_softirqs_that_receive() {
        let before = |interrupts: &Interrupts| {
            let cpus = interrupts.read().unwrap();
            cpus.iter().filter_map(|cpu| cpu.softirqs_ns.get("NET_RX")).sum::<u64>()
        };
        let interrupts = Interrupts::attach(64).unwrap();
        let first_ns = before(&interrupts);
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..1_000 {
            sender.send_to(b"packet", receiver.local_addr().unwrap()).unwrap();
        }
        // Less than this no CPU takes for the stack's part of a packet.
        let spent_ns = before(&interrupts) - first_ns;
        assert!(spent_ns > 1_000 * 10, "{spent_ns} ns");
    }
}
