//! What a campaign was measured on, in short: the entries of `env.json` that explain a figure.
//!
//! An entry that the file lacks, or that the machine did not show, is left out; the whole file
//! stands in the report as well. Nothing is read from the machine that writes the report.

use serde_json::Value;

use crate::number;

/// Where an entry stands in `env.json`, and what to call it.
const ENTRIES: [(&str, &str); 12] = [
    ("System", "/host/os"),
    ("Kernel", "/host/kernel_release"),
    ("Machine", "/host/product"),
    ("CPU", "/cpu/model"),
    ("CPUs", "/cpu/count"),
    ("SMT", "/cpu/smt"),
    ("Governor", "/cpu/frequency/0/governor"),
    ("Turbo", "/cpu/turbo"),
    ("BPF JIT", "/sysctls/net.core.bpf_jit_enable"),
    ("nft", "/tools/nft"),
    ("weir", "/weir"),
    ("Specification", "/specification_revision"),
];

/// The entries that explain a figure, with their names.
pub(super) fn short(environment: &Value) -> Vec<(&'static str, String)> {
    let mut entries: Vec<(&'static str, String)> = ENTRIES
        .iter()
        .filter_map(|(name, pointer)| Some((*name, scalar(environment.pointer(pointer)?)?)))
        .collect();
    if environment.pointer("/cpu/virtual_machine") == Some(&Value::Bool(true)) {
        entries.push(("Virtual machine", "yes: its host may disturb the figures".to_owned()));
    }
    if let Some(bytes) = environment.pointer("/host/memory_bytes").and_then(Value::as_u64) {
        entries.push(("Memory", format!("{} MiB", number::count(bytes >> 20))));
    }
    if let Some(mitigations) = mitigations(environment) {
        entries.push(("CPU mitigations", mitigations));
    }
    if let Some(settings) = changed_settings(environment) {
        entries.push(("Kernel settings changed", settings));
    }
    entries
}

/// What the kernel says of the CPU's vulnerabilities, by state.
fn mitigations(environment: &Value) -> Option<String> {
    let states = environment.get("mitigations")?.as_object()?;
    let named = |prefix: &str| {
        let is = |value: &Value| value.as_str().is_some_and(|s| s.starts_with(prefix));
        let names: Vec<&str> =
            states.iter().filter(|(_, v)| is(v)).map(|(name, _)| name.as_str()).collect();
        names.join(", ")
    };
    let parts = [("on", named("Mitigation")), ("vulnerable", named("Vulnerable"))];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(state, names)| format!("{state}: {names}"))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The host's kernel settings that are not at the kernel's own default.
fn changed_settings(environment: &Value) -> Option<String> {
    let settings = environment.get("sysctls_not_default")?.as_object()?;
    let parts: Vec<String> = settings
        .iter()
        .filter_map(|(name, setting)| {
            let value = scalar(setting.get("value")?)?;
            let default = scalar(setting.get("default")?)?;
            Some(format!("{name} = {value} (default {default})"))
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The text of a scalar; `None` for "not known".
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Object(_) | Value::Array(_) => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_kernel_settings_stand_with_their_defaults() {
        let entry = |value: &str, default: &str| json!({"value": value, "default": default});
        let environment = json!({"sysctls_not_default": {
            "net.core.default_qdisc": entry("fq_codel", "pfifo_fast"),
            "net.core.netdev_budget": entry("600", "300"),
        }});
        let text = "net.core.default_qdisc = fq_codel (default pfifo_fast), \
                    net.core.netdev_budget = 600 (default 300)";
        assert_eq!(short(&environment), [("Kernel settings changed", text.to_owned())]);
        assert_eq!(short(&json!({"sysctls_not_default": {}})), []);
        assert_eq!(short(&json!({})), []);
    }
}
