//! What lives longer than one compiled ruleset: identifiers of rules with the places of their
//! counters, timeout tables, and numbers of tags and gateways. States and counters refer to them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_bpf::firewall::layout::{self, TIMEOUT_COUNT};
use weir_rules::ir::Rule;
use weir_rules::value::Flush;

use super::numbers::Numbers;

/// Rule identifiers that share one block of counters.
pub(crate) const SLAB_RULE_COUNT: u32 = 256;
/// `WEIR_FW_RULE_NONE` is the one after the last identifier.
pub(crate) const ID_COUNT_MAX: u32 = layout::RULE_NONE;
/// Tags that states can keep, those of earlier rulesets that have states included.
pub const TAG_COUNT_MAX: usize = layout::TAG_COUNT_MAX as usize;
const PROFILE_COUNT_MAX: usize = layout::PROFILE_COUNT_MAX as usize;

/// Timeouts of a rule's own in seconds, in the order of `PROFILE_TIMEOUTS`.
pub(crate) type RuleTimeouts = [Option<u32>; TIMEOUT_COUNT];

/// What makes a rule the same rule after a reload.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RuleKey {
    /// Path of its anchor.
    pub anchor: String,
    /// Its printed text.
    pub text: String,
    /// How many identical ones stand before it.
    pub ordinal: u32,
}

/// Identifiers, places of counters and timeout tables in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The rules of the last ruleset.
    pub rules: Vec<(RuleKey, u32)>,
    /// Identifiers of rules that are gone, but may have states.
    pub retired: Vec<u32>,
    /// By identifier, what rules have that holds for their states; those without any are left out.
    #[serde(default)]
    pub of_states: BTreeMap<u32, OfStates>,
    /// Identifiers that nobody has.
    pub free: Vec<u32>,
    /// One above the largest identifier ever given.
    pub id_count: u32,
    /// Places of the counters, [`SLAB_RULE_COUNT`] rules each, from the arena's start.
    pub slabs: Vec<u32>,
    /// Timeout tables: what rules have of their own, the rest is that of `set timeout`. So the
    /// first has nothing.
    pub profiles: Vec<RuleTimeouts>,
    /// Names of tags.
    pub tags: Numbers<String>,
    /// Where `route-to` and `reply-to` send packets.
    pub gateways: Numbers<Gateway>,
    /// Names of queues.
    pub queues: Numbers<String>,
    /// The limiters of the last ruleset, by their numbers.
    #[serde(default)]
    pub limiters: Vec<u32>,
    /// Where limiters have counted, from the arena's start; 0: there never was one.
    #[serde(default)]
    pub limiter_counts_at: u32,
}

/// Where packets go.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Gateway {
    /// The interface that they leave by; `None`: that of the route to the address.
    pub interface: Option<String>,
    /// The next hop; `None`: the packet's destination. Of a socket where it listens; `None`: it is
    /// that of the flow.
    pub address: Option<IpAddr>,
    /// No gateway, but a socket of this machine, and its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u16>,
}

impl std::fmt::Display for Gateway {
    /// As `pfctl -vvss` shows it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.address, &self.interface, self.socket) {
            (Some(address), _, Some(port)) => write!(f, "divert-to {address} port {port}"),
            (None, _, Some(_)) => f.write_str("divert-reply"),
            (Some(address), Some(interface), None) => write!(f, "{address}@{interface}"),
            (Some(address), None, None) => write!(f, "{address}"),
            (None, interface, None) => write!(f, "@{}", interface.as_deref().unwrap_or("")),
        }
    }
}

/// No identifier is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoIds;

/// What `overload` of a rule does with a source that goes over its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    /// Path of the rule's anchor, in which the table is looked for first.
    pub anchor: String,
    /// The table that the source goes into.
    pub table: String,
    /// Which states end.
    #[serde(with = "KeptFlush")]
    pub flush: Flush,
}

/// [`Flush`] as the document has it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Flush")]
enum KeptFlush {
    No,
    Rule,
    Global,
}

impl Overload {
    /// That of a rule of an anchor.
    #[must_use]
    pub fn of(anchor: &str, rule: &Rule) -> Option<Self> {
        let (table, flush) = rule.options.state.as_ref()?.overload.as_ref()?;
        Some(Self { anchor: anchor.to_owned(), table: table.to_string(), flush: *flush })
    }
}

/// What a rule has that holds for its states, also when the rule is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfStates {
    /// As written with `label`, macros put in.
    pub labels: Vec<String>,
    /// Its `overload`.
    pub overload: Option<Overload>,
    /// Its limiters: `enum weir_fw_limited` of image.h.
    #[serde(default)]
    pub limited: u32,
}

impl OfStates {
    /// That of a rule of an anchor.
    pub(super) fn new(anchor: &str, rule: &Rule, limited: u32) -> Self {
        Self {
            labels: rule.options.labels.iter().map(ToString::to_string).collect(),
            overload: Overload::of(anchor, rule),
            limited,
        }
    }
}

impl Known {
    /// Gives the rules of a new ruleset their identifiers, in their order: those of the last one
    /// that are still there keep theirs. The others' are retired.
    ///
    /// # Errors
    /// [`NoIds`] if [`ID_COUNT_MAX`] are in use.
    pub(crate) fn assign(&mut self, rules: Vec<(RuleKey, OfStates)>) -> Result<Vec<u32>, NoIds> {
        let old: HashMap<&RuleKey, u32> = self.rules.iter().map(|(key, id)| (key, *id)).collect();
        let found: Vec<Option<u32>> = rules.iter().map(|(key, _)| old.get(key).copied()).collect();
        let kept: HashSet<u32> = found.iter().flatten().copied().collect();
        self.retired.extend(self.rules.iter().map(|(_, id)| *id).filter(|id| !kept.contains(id)));
        let mut ids = Vec::with_capacity(rules.len());
        self.rules.clear();
        for ((key, of_states), id) in rules.into_iter().zip(found) {
            let id = match id {
                Some(id) => id,
                None => self.new_id()?,
            };
            if of_states != OfStates::default() {
                self.of_states.insert(id, of_states);
            }
            self.rules.push((key, id));
            ids.push(id);
        }
        Ok(ids)
    }

    fn new_id(&mut self) -> Result<u32, NoIds> {
        if let Some(id) = self.free.pop() {
            return Ok(id);
        }
        if self.id_count >= ID_COUNT_MAX {
            return Err(NoIds);
        }
        self.id_count += 1;
        Ok(self.id_count - 1)
    }

    /// Frees the retired identifiers of which `is_unused` says that no state has them.
    pub fn release(&mut self, mut is_unused: impl FnMut(u32) -> bool) {
        let (unused, kept) = self.retired.drain(..).partition(|id| is_unused(*id));
        self.retired = kept;
        let unused: Vec<u32> = unused;
        for id in &unused {
            self.of_states.remove(id);
        }
        self.free.extend(unused);
    }

    /// Identifiers of the rules with a label that are gone.
    pub(crate) fn retired_with_label(&self, label: &str) -> impl Iterator<Item = u32> {
        self.retired.iter().copied().filter(move |id| {
            let of_states = self.of_states.get(id);
            of_states.is_some_and(|found| found.labels.iter().any(|found| found == label))
        })
    }

    /// Whether some rule has limiters, or one that is gone, of which there may be states.
    #[must_use]
    pub(crate) fn has_limiters(&self) -> bool {
        self.of_states.values().any(|found| found.limited != 0)
    }

    /// `overload` of a rule, also of one that is gone: its states still count their sources.
    #[must_use]
    pub fn overload(&self, rule: u32) -> Option<Overload> {
        self.of_states.get(&rule)?.overload.clone()
    }

    /// All timeout tables in seconds, of which the first is that of `set timeout`.
    #[must_use]
    pub fn timeouts(&self, setting: &[u32; TIMEOUT_COUNT]) -> Vec<[u32; TIMEOUT_COUNT]> {
        let whole = |timeouts: &RuleTimeouts| {
            let mut seconds = *setting;
            for (slot, timeout) in seconds.iter_mut().zip(timeouts) {
                *slot = timeout.unwrap_or(*slot);
            }
            seconds
        };
        std::iter::once(*setting).chain(self.profiles.iter().skip(1).map(whole)).collect()
    }

    /// How many blocks of counters the identifiers need.
    #[must_use]
    pub(crate) fn slab_count(&self) -> usize {
        self.id_count.div_ceil(SLAB_RULE_COUNT) as usize
    }

    /// The place of a rule's counters, one line for each CPU.
    #[must_use]
    pub fn counters_at(&self, id: u32, cpu_count: u32) -> Option<u32> {
        let slab = self.slabs.get((id / SLAB_RULE_COUNT) as usize)?;
        Some(slab + id % SLAB_RULE_COUNT * cpu_count * 64)
    }

    /// The number of a timeout table of a rule's own. `None` if all are taken.
    pub(super) fn profile(&mut self, seconds: RuleTimeouts) -> Option<u8> {
        if self.profiles.is_empty() {
            self.profiles.push([None; TIMEOUT_COUNT]);
        }
        let found = self.profiles.iter().position(|profile| *profile == seconds);
        let at = match found {
            Some(at) => at,
            None if self.profiles.len() < PROFILE_COUNT_MAX => {
                self.profiles.push(seconds);
                self.profiles.len() - 1
            }
            None => return None,
        };
        u8::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, ordinal: u32) -> RuleKey {
        RuleKey { anchor: String::new(), text: text.into(), ordinal }
    }

    /// Rules of which states need nothing.
    fn plain<const N: usize>(rules: [(&str, u32); N]) -> Vec<(RuleKey, OfStates)> {
        rules.map(|(text, ordinal)| (key(text, ordinal), OfStates::default())).to_vec()
    }

    #[test]
    fn rules_keep_their_identifiers() {
        let mut known = Known::default();
        assert_eq!(known.assign(plain([("a", 0), ("b", 0), ("a", 1)])), Ok(vec![0, 1, 2]));
        assert_eq!(known.assign(plain([("a", 1), ("c", 0), ("a", 0)])), Ok(vec![2, 3, 0]));
        assert_eq!(known.retired, [1]);
        known.release(|_| false);
        assert_eq!(known.assign(plain([("b", 0)])), Ok(vec![4]));
        known.release(|id| id == 1);
        assert_eq!((known.free.clone(), known.retired.len()), (vec![1], 3));
        assert_eq!(known.assign(plain([("b", 0), ("d", 0)])), Ok(vec![4, 1]));
        known.slabs = vec![4096];
        assert_eq!(known.counters_at(4, 2), Some(4096 + 4 * 128));
        assert_eq!((known.counters_at(256, 2), known.slab_count()), (None, 1));
    }

    #[test]
    fn rules_that_are_gone_keep_what_their_states_need() {
        let overload =
            |flush| Some(Overload { anchor: "ftp".to_owned(), table: "rude".to_owned(), flush });
        let of_states = [
            (["one"].as_slice(), None),
            (&["two"], overload(Flush::Global)),
            (&[], overload(Flush::No)),
            (&[], overload(Flush::Rule)),
            // Words of one thing within the text of another.
            (&["overload <x> flush"], None),
        ];
        let rules = (0..).zip(of_states).map(|(ordinal, (labels, overload))| {
            let labels = labels.iter().map(ToString::to_string).collect();
            (
                key("pass overload <y> label \"three\"", ordinal),
                OfStates { labels, overload, limited: 0 },
            )
        });
        let mut known = Known::default();
        known.assign(rules.collect()).unwrap();
        assert_eq!(known.retired_with_label("one").next(), None, "it is there");
        known.assign(Vec::new()).unwrap();
        // A restarted daemon has them from the document.
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(serde_json::from_str::<Known>(&text).unwrap(), known);
        let labelled = |known: &Known, label| known.retired_with_label(label).collect::<Vec<_>>();
        assert_eq!((labelled(&known, "one"), labelled(&known, "two")), (vec![0], vec![1]));
        let flush = |known: &Known, id| known.overload(id).map(|found| found.flush);
        let all: Vec<_> = (0..5).map(|id| flush(&known, id)).collect();
        assert_eq!(all, [None, Some(Flush::Global), Some(Flush::No), Some(Flush::Rule), None]);
        assert_eq!(known.overload(3), overload(Flush::Rule));
        assert!(labelled(&known, "three").is_empty());
        known.release(|id| id != 1);
        assert_eq!((flush(&known, 1), flush(&known, 2)), (Some(Flush::Global), None));
        assert!(labelled(&known, "one").is_empty());
    }

    #[test]
    fn equal_timeouts_share_a_table() {
        let mut known = Known::default();
        let timeouts_of = |seconds| {
            let mut timeouts = [None; TIMEOUT_COUNT];
            timeouts[3] = Some(seconds);
            timeouts
        };
        let tables: Vec<_> = (1..=255).map(|n| known.profile(timeouts_of(n))).collect();
        assert_eq!(tables[0], Some(1));
        assert_eq!(
            (known.profile(timeouts_of(3)), known.profile(timeouts_of(999))),
            (Some(3), None)
        );
        assert_eq!(known.profile([None; TIMEOUT_COUNT]), Some(0));
        let all = known.timeouts(&[77; TIMEOUT_COUNT]);
        assert_eq!(
            (all.len(), all[0], all[255][2], all[255][3]),
            (256, [77; TIMEOUT_COUNT], 77, 255)
        );
    }
}
