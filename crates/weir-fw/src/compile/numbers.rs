//! Numbers by which states keep what rulesets name: there are few, and one stands for the same
//! thing as long as a ruleset gives it or a state has it.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

/// What numbers stand for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numbers<T> {
    /// By their numbers, which begin at 1. Nobody has those without anything.
    pub held: Vec<Option<T>>,
    /// The numbers that the last ruleset gives.
    pub given: Vec<u16>,
}

/// More than states can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted {
    /// Of the ruleset.
    pub(crate) given_count: usize,
    /// Of earlier rulesets, whose states keep them.
    pub(crate) held_count: usize,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Self { held: Vec::new(), given: Vec::new() }
    }
}

impl<T: Clone + Ord + Hash> Numbers<T> {
    /// Gives what a new ruleset names its numbers: what has one keeps it.
    ///
    /// # Errors
    /// [`Exhausted`] if there are more than `count_max`.
    pub(crate) fn assign(
        &mut self,
        given: &BTreeSet<T>,
        count_max: usize,
    ) -> Result<HashMap<T, u16>, Exhausted> {
        let mut numbers = HashMap::new();
        let place = |held: &[Option<T>], one: Option<&T>| {
            held.iter().position(|other| other.as_ref() == one)
        };
        for one in given {
            let found = place(&self.held, Some(one));
            let at = found.or_else(|| place(&self.held, None)).unwrap_or(self.held.len());
            if at >= count_max {
                let is_other = |held: &&T| !given.contains(held);
                let held_count = self.held.iter().flatten().filter(is_other).count();
                return Err(Exhausted { given_count: given.len(), held_count });
            }
            self.held.resize(self.held.len().max(at + 1), None);
            self.held[at] = Some(one.clone());
            numbers.insert(one.clone(), u16::try_from(at + 1).unwrap_or(u16::MAX));
        }
        self.given = numbers.values().copied().collect();
        self.given.sort_unstable();
        Ok(numbers)
    }

    /// The number of what a ruleset, this one or one before, has named.
    pub(crate) fn number_of(&self, one: &T) -> Option<u16> {
        let at = self.held.iter().position(|held| held.as_ref() == Some(one))?;
        u16::try_from(at + 1).ok()
    }

    /// Whether those of earlier rulesets may be in the way of new ones.
    #[must_use]
    pub(crate) fn is_short(&self, count_max: usize) -> bool {
        self.held.len() == count_max && self.given.len() < count_max
    }

    /// Whether the last ruleset gives a number: as long as it does, that stands for the same.
    #[must_use]
    pub(crate) fn is_given(&self, number: u16) -> bool {
        self.given.binary_search(&number).is_ok()
    }

    /// Whether anything has a number.
    #[must_use]
    pub(crate) fn is_any(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }

    /// Whether any is there that the last ruleset does not give.
    #[must_use]
    pub(crate) fn has_old(&self) -> bool {
        self.held.iter().flatten().count() > self.given.len()
    }

    /// Frees the numbers that neither the last ruleset gives nor, by `is_unused`, a state has.
    pub(crate) fn release(&mut self, mut is_unused: impl FnMut(u16) -> bool) {
        for (number, held) in (1..).zip(&mut self.held) {
            if !self.given.contains(&number) && is_unused(number) {
                *held = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT_MAX: usize = 15;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn numbers_stay_while_states_may_have_them() {
        let mut numbers = Numbers::default();
        let first = numbers.assign(&set(&["a", "b"]), COUNT_MAX).unwrap();
        assert_eq!((first["a"], first["b"], numbers.has_old()), (1, 2, false));
        let second = numbers.assign(&set(&["b", "c"]), COUNT_MAX).unwrap();
        assert_eq!((second["b"], second["c"], numbers.has_old()), (2, 3, true));
        numbers.release(|_| true);
        assert!(!numbers.has_old());
        assert_eq!(numbers.assign(&set(&["c", "d"]), COUNT_MAX).unwrap()["d"], 1);
        let many: BTreeSet<String> = (0..COUNT_MAX).map(|n| format!("n{n:02}")).collect();
        let refused = Err(Exhausted { given_count: 15, held_count: 3 });
        assert_eq!(numbers.clone().assign(&many, COUNT_MAX), refused);
        numbers.given.clear();
        numbers.release(|number| number != 3);
        let refused = Err(Exhausted { given_count: 15, held_count: 1 });
        assert_eq!(numbers.clone().assign(&many, COUNT_MAX), refused);
        numbers.release(|_| true);
        assert_eq!(numbers.assign(&many, COUNT_MAX).unwrap().len(), COUNT_MAX);
        assert!(!numbers.is_short(COUNT_MAX));
    }
}
