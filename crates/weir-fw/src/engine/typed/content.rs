//! What a typed table holds while it is changed as a whole.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde_json::json;
use weir_rules::typed::{Key, Numbered, Value};

use crate::engine::Refused;
use crate::prefix::typed::{FLOW6_COUNT_MAX, VALUE_COUNT_MAX};

/// Entries by their keys, each of which is there once, and what they have by number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Content {
    pub(super) entries: Vec<(Key, u32)>,
    pub(super) values: Vec<Value>,
}

/// What a change came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) added: usize,
    /// Those that were there, with other values or the same.
    pub(super) updated: usize,
    pub(super) deleted: usize,
}

impl Counts {
    pub(super) fn to_json(self) -> serde_json::Value {
        let Self { added, updated, deleted } = self;
        if deleted > 0 {
            return json!({ "deleted": deleted });
        }
        json!({ "added": added, "updated": updated })
    }
}

impl Content {
    /// Adds entries; those that are there get other values. Of two for one key the last holds.
    pub(super) fn add(&mut self, added: Numbered<'_>) -> Counts {
        let mut numbers: HashMap<Value, u32> = HashMap::new();
        for (number, value) in (0..).zip(&self.values) {
            numbers.insert(value.clone(), number);
        }
        let here = added.values.into_iter().map(|value| match numbers.get(&value) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                self.values.push(value.clone());
                numbers.insert(value, number);
                number
            }
        });
        let here: Vec<u32> = here.collect();
        let mut fresh = added.entries;
        for (_, number) in &mut fresh {
            *number = here[*number as usize];
        }
        // What comes later stands behind, and takes the place of what is before it.
        let before = self.entries.len();
        fresh.sort_by(order);
        keep_last_of_each(&mut fresh);
        let fresh_count = fresh.len();
        self.entries.append(&mut fresh);
        // Two runs that are sorted: merged.
        self.entries.sort_by(order);
        keep_last_of_each(&mut self.entries);
        let added = self.entries.len() - before;
        Counts { added, updated: fresh_count - added, deleted: 0 }
    }

    /// Takes entries out.
    pub(super) fn remove(&mut self, keys: &[Key]) -> Counts {
        let before = self.entries.len();
        let keys: HashSet<&Key> = keys.iter().collect();
        self.entries.retain(|(key, _)| !keys.contains(key));
        Counts { deleted: before - self.entries.len(), ..Counts::default() }
    }

    /// Forgets values that no entry has any more.
    pub(super) fn compact(&mut self) {
        let mut numbers: Vec<Option<u32>> = vec![None; self.values.len()];
        for (_, number) in &self.entries {
            numbers[*number as usize] = Some(0);
        }
        if numbers.iter().all(Option::is_some) {
            return;
        }
        let mut next = 0..;
        for number in numbers.iter_mut().flatten() {
            *number = next.next().unwrap_or(0);
        }
        let mut is_used = numbers.iter().map(Option::is_some);
        self.values.retain(|_| is_used.next() == Some(true));
        for (_, number) in &mut self.entries {
            *number = numbers[*number as usize].unwrap_or(0);
        }
    }

    /// Whether a set has room for its numbers.
    pub(super) fn check(&self) -> Result<(), Refused> {
        if self.values.len() > VALUE_COUNT_MAX {
            let count = self.values.len();
            return Err(Refused(format!(
                "the entries of a table have at most {VALUE_COUNT_MAX} different values, and \
                 these have {count}"
            )));
        }
        let is_flow6 = |key: &Key| matches!(key, Key::Flow(_)) && key.is_ipv6() == Some(true);
        let flow_count = self.entries.iter().filter(|(key, _)| is_flow6(key)).count();
        if flow_count > FLOW6_COUNT_MAX {
            return Err(Refused(format!(
                "a table has at most {FLOW6_COUNT_MAX} flows of IPv6, and these are {flow_count}"
            )));
        }
        Ok(())
    }
}

/// Leaves the last one of sorted entries with one key.
fn keep_last_of_each(entries: &mut Vec<(Key, u32)>) {
    entries.dedup_by(|later, kept| {
        let is_same = later.0 == kept.0;
        if is_same {
            kept.1 = later.1;
        }
        is_same
    });
}

/// The order of keys; of IPv6 addresses, of which there may be a million, by whole numbers.
fn order((one, _): &(Key, u32), (two, _): &(Key, u32)) -> Ordering {
    match (one, two) {
        (Key::Net(IpAddr::V6(one), one_bits), Key::Net(IpAddr::V6(two), two_bits)) => {
            (one.to_bits(), one_bits).cmp(&(two.to_bits(), two_bits))
        }
        _ => one.cmp(two),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_rules::typed::{KeyType, Kinds, Shape};

    #[test]
    fn the_last_of_two_entries_holds_and_values_are_shared() {
        let shape = Shape { key: KeyType::Addr, values: Kinds::parse("mark").unwrap() };
        let list = |text: &'static str| {
            let mut list = Numbered::default();
            text.lines().for_each(|line| list.read(&shape, line).unwrap());
            list
        };
        let mut content = Content::default();
        let counts = content.add(list("10.0.0.1 mark 1\n10.0.0.2 mark 2\n10.0.0.1 mark 3\n"));
        assert_eq!(counts, Counts { added: 2, updated: 0, deleted: 0 });
        content.compact();
        assert_eq!(content.values.len(), 2, "1 is nobody's mark");
        let counts = content.add(list("10.0.0.2 mark 3\n10.0.0.3 mark 3\n"));
        assert_eq!(counts, Counts { added: 1, updated: 1, deleted: 0 });
        content.compact();
        let marks: Vec<_> = content
            .entries
            .iter()
            .map(|(key, number)| format!("{key}{}", content.values[*number as usize]))
            .collect();
        assert_eq!(marks, ["10.0.0.1/32 mark 3", "10.0.0.2/32 mark 3", "10.0.0.3/32 mark 3"]);
        assert_eq!(content.values.len(), 1);
        let gone = [content.entries[1].0.clone(), content.entries[0].0.clone()];
        assert_eq!(content.remove(&gone).deleted, 2);
        assert_eq!(content.entries.len(), 1);
    }
}
