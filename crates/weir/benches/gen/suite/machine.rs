//! What the figures were taken on.

use std::fs;

/// The machine, as far as it says.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// As `/proc/cpuinfo` names the first CPU.
    pub(crate) cpu_model: String,
    /// Release of the running kernel.
    pub(crate) kernel: String,
    /// Number of CPUs online.
    pub(crate) cpu_count: usize,
}

impl Machine {
    /// Reads `/proc`; what it does not say is `unknown`.
    pub(crate) fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.map(|rest| rest.trim_start_matches([' ', '\t', ':']).to_owned());
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = Some(kernel.trim().to_owned()).filter(|kernel| !kernel.is_empty());
        Self {
            cpu_model: model.unwrap_or_else(|| "unknown".to_owned()),
            kernel: kernel.unwrap_or_else(|| "unknown".to_owned()),
            cpu_count: weir_net::cpu::online().map_or(0, |cpus| cpus.count()),
        }
    }
}
