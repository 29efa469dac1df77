//! `set` statements.

use std::fmt::Write as _;

use super::{bare, quoted, rule};
use crate::names;
use crate::value::{BlockReturn, Setting, Syncookies};

pub(super) fn print(out: &mut String, setting: &Setting) {
    let policy = |block_return: &BlockReturn| {
        if *block_return == BlockReturn::Drop { "drop" } else { "return" }
    };
    let yes = |is_set: bool| if is_set { "yes" } else { "no" };
    out.push_str("set ");
    let _ = match setting {
        Setting::Timeout(index, value) => {
            writeln!(out, "timeout {} {value}", names::timeout_name(*index))
        }
        Setting::Limit(index, value) => {
            let name = names::LIMITS.get(usize::from(*index)).map_or("?", |(name, _)| name);
            writeln!(out, "limit {name} {value}")
        }
        Setting::Optimization(name) => writeln!(out, "optimization {name}"),
        Setting::RulesetOptimization(name) => writeln!(out, "ruleset-optimization {name}"),
        Setting::BlockPolicy(block_policy) => {
            writeln!(out, "block-policy {}", policy(block_policy))
        }
        Setting::FailPolicy(fail_policy) => writeln!(out, "fail-policy {}", policy(fail_policy)),
        Setting::Skip(names) if names.is_empty() => writeln!(out, "skip on none"),
        Setting::Skip(names) => {
            let names: Vec<String> = names.iter().map(|name| bare(name)).collect();
            writeln!(out, "skip on {{ {} }}", names.join(" "))
        }
        Setting::StatePolicyIfBound(state_policy_if_bound) => {
            writeln!(
                out,
                "state-policy {}",
                if *state_policy_if_bound { "if-bound" } else { "floating" }
            )
        }
        Setting::StateDefaults(state_defaults) => {
            writeln!(out, "state-defaults {}", rule::state_options(state_defaults).join(", "))
        }
        Setting::LogInterface(None) => writeln!(out, "loginterface none"),
        Setting::LogInterface(Some(name)) if &**name == "all" => writeln!(out, "loginterface all"),
        Setting::LogInterface(Some(name)) => writeln!(out, "loginterface {}", bare(name)),
        Setting::Fingerprints(path) => writeln!(out, "fingerprints {}", quoted(path)),
        Setting::HostId(id) => writeln!(out, "hostid 0x{id:08x}"),
        Setting::Debug(level) => writeln!(out, "debug {level}"),
        Setting::Reassemble { enabled, no_df } => {
            writeln!(out, "reassemble {}{}", yes(*enabled), if *no_df { " no-df" } else { "" })
        }
        Setting::Syncookies(Syncookies::Never) => writeln!(out, "syncookies never"),
        Setting::Syncookies(Syncookies::Always) => writeln!(out, "syncookies always"),
        Setting::Syncookies(Syncookies::Adaptive { start, end }) => {
            writeln!(out, "syncookies adaptive (start {start}%, end {end}%)")
        }
        Setting::RequireOrder(require_order) => {
            writeln!(out, "require-order {}", yes(*require_order))
        }
        Setting::KeepCounters => writeln!(out, "keepcounters"),
        Setting::HashSize(size) => writeln!(out, "hashsize {size}"),
        Setting::StateReserve(count) => writeln!(out, "state-reserve {count}"),
        Setting::WeirStages(stages) => writeln!(out, "weir-stages {}", stages.as_str()),
    };
}
