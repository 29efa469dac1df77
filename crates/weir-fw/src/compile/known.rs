//! What lives longer than one compiled ruleset: identifiers of rules with the places of their
//! counters, and timeout tables. States and counters refer to both.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

/// Rule identifiers that share one block of counters.
pub const SLAB_RULE_COUNT: u32 = 256;
/// `WEIR_FW_RULE_NONE` is the one after the last identifier.
const ID_COUNT_MAX: u32 = 0x00ff_ffff;
const PROFILE_COUNT_MAX: usize = 256;

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
    /// Identifiers that nobody has.
    pub free: Vec<u32>,
    /// One above the largest identifier ever given.
    pub id_count: u32,
    /// Places of the counters, [`SLAB_RULE_COUNT`] rules each, from the arena's start.
    pub slabs: Vec<u32>,
    /// Timeout tables in ticks; the first is that of `set timeout`.
    pub profiles: Vec<[u32; 16]>,
}

/// No identifier is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoIds;

impl Known {
    /// Gives the rules of a new ruleset their identifiers, in their order: those of the last one
    /// that are still there keep theirs. The others' are retired.
    ///
    /// # Errors
    /// [`NoIds`] if 2^24 - 1 are in use.
    pub fn assign(&mut self, keys: Vec<RuleKey>) -> Result<Vec<u32>, NoIds> {
        let old: HashMap<&RuleKey, u32> = self.rules.iter().map(|(key, id)| (key, *id)).collect();
        let found: Vec<Option<u32>> = keys.iter().map(|key| old.get(key).copied()).collect();
        let kept: HashSet<u32> = found.iter().flatten().copied().collect();
        let gone = self.rules.iter().map(|(_, id)| *id).filter(|id| !kept.contains(id));
        self.retired.extend(gone);
        let mut ids = Vec::with_capacity(keys.len());
        for id in found {
            ids.push(match id {
                Some(id) => id,
                None => self.new_id()?,
            });
        }
        self.rules = keys.into_iter().zip(ids.iter().copied()).collect();
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
        self.free.extend(unused);
    }

    /// How many blocks of counters the identifiers need.
    #[must_use]
    pub fn slab_count(&self) -> usize {
        self.id_count.div_ceil(SLAB_RULE_COUNT) as usize
    }

    /// The place of a rule's counters, one line for each CPU.
    #[must_use]
    pub fn counters_at(&self, id: u32, cpu_count: u32) -> Option<u32> {
        let slab = self.slabs.get((id / SLAB_RULE_COUNT) as usize)?;
        Some(slab + id % SLAB_RULE_COUNT * cpu_count * 64)
    }

    /// The number of a timeout table of a rule's own. `None` if all are taken.
    pub(super) fn profile(&mut self, ticks: [u32; 16]) -> Option<u8> {
        if self.profiles.is_empty() {
            self.profiles.push([0; 16]);
        }
        let found = self.profiles.iter().skip(1).position(|own| *own == ticks);
        let at = match found {
            Some(at) => at + 1,
            None if self.profiles.len() < PROFILE_COUNT_MAX => {
                self.profiles.push(ticks);
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

    #[test]
    fn rules_keep_their_identifiers() {
        let mut known = Known::default();
        assert_eq!(known.assign(vec![key("a", 0), key("b", 0), key("a", 1)]), Ok(vec![0, 1, 2]));
        assert_eq!(known.assign(vec![key("a", 1), key("c", 0), key("a", 0)]), Ok(vec![2, 3, 0]));
        assert_eq!(known.retired, [1]);
        known.release(|_| false);
        assert_eq!(known.assign(vec![key("b", 0)]), Ok(vec![4]));
        known.release(|id| id == 1);
        assert_eq!((known.free.clone(), known.retired.len()), (vec![1], 3));
        assert_eq!(known.assign(vec![key("b", 0), key("d", 0)]), Ok(vec![4, 1]));
        known.slabs = vec![4096];
        assert_eq!(known.counters_at(4, 2), Some(4096 + 4 * 128));
        assert_eq!((known.counters_at(256, 2), known.slab_count()), (None, 1));
    }

    #[test]
    fn equal_timeouts_share_a_table() {
        let mut known = Known::default();
        let tables: Vec<_> = (1..=255).map(|n| known.profile([n; 16])).collect();
        assert_eq!(tables[0], Some(1));
        assert_eq!((known.profile([3; 16]), known.profile([999; 16])), (Some(3), None));
    }
}
