//! What every benchmark's result begins with, the machine, and the JSON that all of them write.

use std::fs;

use serde_json::{Value, json};

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

/// One entry of the JSON: docs/bench.md says what its fields mean.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    /// Name of the row.
    pub(crate) name: &'a str,
    /// Median of the samples.
    pub(crate) value: Option<f64>,
    /// Unit of the samples.
    pub(crate) unit: &'a str,
    /// One a round.
    pub(crate) samples: &'a [f64],
    /// CPU time that a packet cost the device under test, ns: the median, and one a round.
    pub(crate) cost_ns: Option<f64>,
    pub(crate) costs_ns: &'a [f64],
    /// What it is compared with.
    pub(crate) against: Option<&'a str>,
    /// How it compares.
    pub(crate) ratio: Option<f64>,
    /// Smallest ratio that is good enough.
    pub(crate) floor: Option<f64>,
}

/// The list that benchmarks write: the machine, then the rows.
pub(crate) fn json<'a>(machine: &Machine, rows: impl Iterator<Item = Entry<'a>>) -> String {
    let Machine { cpu_model, kernel, cpu_count } = machine;
    let fact = |name: &str, value: Value, unit: &str| {
        json!({
            "name": name, "value": value, "unit": unit, "samples": [],
            "cost_ns": null, "costs_ns": [], "against": null, "ratio": null, "floor": null,
        })
    };
    let mut list = vec![
        fact("machine_cpu", json!(cpu_model), "model"),
        fact("machine_kernel", json!(kernel), "release"),
        fact("machine_cpus", json!(cpu_count), "count"),
    ];
    list.extend(rows.map(|row| {
        let Entry { name, value, unit, samples, cost_ns, costs_ns, against, ratio, floor } = row;
        json!({
            "name": name, "value": value, "unit": unit, "samples": samples,
            "cost_ns": cost_ns, "costs_ns": costs_ns, "against": against, "ratio": ratio,
            "floor": floor,
        })
    }));
    format!("{:#}\n", Value::Array(list))
}
