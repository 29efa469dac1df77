//! `set` and `altq`: what they come to.

use super::{Expanded, Expander};
use crate::ast::{Altq, Bandwidth};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{AltqOn, Prelude};
use crate::source::Span;
use crate::value::Setting;

/// Timeouts of `set optimization`, in the order of `names::TIMEOUTS` from `tcp.first` to
/// `tcp.tsdiff` (pf.conf(5), "set optimization").
const HIGH_LATENCY: [u32; 7] = [180, 35, 86400, 905, 50, 95, 60];
const AGGRESSIVE: [u32; 7] = [30, 5, 18000, 60, 30, 30, 10];
const CONSERVATIVE: [u32; 7] = [3600, 900, 432_000, 3600, 600, 180, 60];

impl Expander<'_> {
    pub(super) fn setting(&mut self, setting: &Setting, span: Span) -> Expanded<()> {
        let settings = &mut self.ruleset.settings;
        match setting {
            Setting::Timeout(index, value) => {
                if let Some(slot) = settings.timeouts.get_mut(usize::from(*index)) {
                    *slot = *value;
                }
            }
            Setting::Limit(index, value) => {
                if let Some(slot) = settings.limits.get_mut(usize::from(*index)) {
                    *slot = *value;
                }
            }
            Setting::Optimization(name) => {
                let timeouts = match &**name {
                    "high-latency" | "satellite" => HIGH_LATENCY,
                    "aggressive" => AGGRESSIVE,
                    "conservative" => CONSERVATIVE,
                    _ => {
                        let mut defaults = [0; 7];
                        for (slot, (_, value)) in defaults.iter_mut().zip(crate::names::TIMEOUTS) {
                            *slot = *value;
                        }
                        defaults
                    }
                };
                settings.timeouts[..7].copy_from_slice(&timeouts);
                settings.optimization = name.clone();
            }
            Setting::RulesetOptimization(name) => {
                settings.ruleset_optimization = Some(name.clone());
            }
            Setting::BlockPolicy(policy) => settings.block_policy = *policy,
            Setting::FailPolicy(policy) => settings.fail_policy = *policy,
            Setting::Skip(names) if names.is_empty() => settings.skip.clear(),
            Setting::Skip(names) => settings.skip.extend(names.iter().cloned()),
            Setting::StatePolicyIfBound(if_bound) => settings.if_bound = *if_bound,
            Setting::LogInterface(name) => settings.log_interface.clone_from(name),
            Setting::HostId(id) => settings.host_id = Some(*id),
            Setting::Debug(level) => settings.debug = Some(level.clone()),
            Setting::Reassemble { enabled, no_df } => {
                settings.reassemble = *enabled;
                settings.reassemble_no_df = *enabled && *no_df;
            }
            Setting::HashSize(size) => settings.hash_size = Some(*size),
            Setting::WeirStages(stages) => settings.stages = *stages,
            Setting::Syncookies(syncookies) => settings.syncookies = *syncookies,
            Setting::StateReserve(count) => {
                settings.state_reserve = *count;
                self.reserve.set = Some(span);
            }
            Setting::StateDefaults(options) => {
                if self.state_defaults.is_some() {
                    return self.fail(Code::Duplicate, span, "`set state-defaults` is given twice");
                }
                self.state_defaults = Some((**options).clone());
            }
            Setting::Fingerprints(_) | Setting::KeepCounters | Setting::RequireOrder(_) => {}
        }
        if let Setting::Skip(names) = setting {
            for name in names.clone() {
                self.interface_known(&name, span);
            }
        }
        self.ruleset.prelude.push(Prelude::Set(setting.clone(), span));
        Ok(())
    }

    /// One discipline for each interface, with the token bucket that pfctl computes.
    pub(super) fn altq(&mut self, altq: &Altq, span: Span) -> Expanded<()> {
        let Some(scheduler) = &altq.scheduler else {
            let problem = Diagnostic::error(Code::Syntax, span, "`altq` has no discipline");
            self.diagnostics.push(problem.help("add cbq, priq, hfsc, fairq or codel"));
            return Err(super::Reported);
        };
        let name = scheduler.name;
        for interface in &altq.interfaces {
            let interface_name = interface.name.value.clone();
            let facts = self
                .resolver
                .interfaces()
                .iter()
                .find(|interface| interface.name == *interface_name);
            let speed = facts.and_then(|facts| facts.speed_bps).map(Bandwidth::Absolute);
            let mtu = facts.and_then(|facts| facts.mtu_bytes).unwrap_or(1500);
            let bandwidth = match (altq.bandwidth, speed) {
                (Some(Bandwidth::Percent(percent)), Some(Bandwidth::Absolute(speed))) => {
                    Some(Bandwidth::Absolute(speed / 100 * u64::from(percent)))
                }
                (Some(bandwidth), _) => Some(bandwidth),
                (None, speed) => speed,
            };
            let computed = match bandwidth {
                Some(Bandwidth::Absolute(rate)) => Some(token_bucket_bytes(rate, mtu)),
                _ => None,
            };
            if altq.queues.is_empty() && name != "codel" {
                return self.fail(Code::Syntax, span, "`altq` has no queues");
            }
            self.ruleset.prelude.push(Prelude::Altq(Box::new(AltqOn {
                altq: altq.clone(),
                interface: interface_name,
                bandwidth,
                token_bucket_size_bytes: altq.token_bucket_size_bytes.or(computed),
            })));
        }
        Ok(())
    }
}

/// Packets of the token bucket by the rate (altq(9)'s steps), as bytes.
fn token_bucket_bytes(rate_bps: u64, mtu_bytes: u32) -> u32 {
    let packets = match rate_bps {
        0..=1_000_000 => 1,
        1_000_001..=10_000_000 => 4,
        10_000_001..=200_000_000 => 8,
        200_000_001..=2_500_000_000 => 24,
        _ => 128,
    };
    mtu_bytes.max(1).saturating_mul(packets).min(0xffff_0000)
}
