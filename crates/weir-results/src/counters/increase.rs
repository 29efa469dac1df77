//! By how much counters rose between two readings, and which of them were reset.

use std::collections::BTreeMap;

/// How counters changed between two readings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    /// By how much each counter rose; a counter that is new counted from 0.
    pub(super) increases: BTreeMap<String, u64>,
    /// Counters that fell or vanished: what counted them was replaced in between, and the
    /// difference means nothing.
    pub(super) resets: Vec<CounterReset>,
}

/// A counter that went backwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CounterReset {
    /// The counter.
    pub(super) name: String,
    /// The first reading.
    pub(super) before: u64,
    /// The second reading; `None` if the counter is gone.
    pub(super) after: Option<u64>,
}

/// How far counters count before they start at 0 again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// 64 bits: they never get there.
    Bits64,
    /// 32 bits, or sums of counters of 32 bits, such as those of connection tracking.
    SumsOf32Bits,
}

/// The increase of every counter from `before` to `after`.
///
/// When a counter of 32 bits falls by more than half of its range, it has passed its end, which
/// is accounted for; by less, it was reset.
#[must_use]
pub(super) fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    width: Width,
) -> Difference {
    let mut difference = Difference::default();
    for (name, &first) in before {
        let second = after.get(name).copied();
        match second.and_then(|second| increase(first, second, width)) {
            Some(value) => {
                difference.increases.insert(name.clone(), value);
            }
            None => difference.resets.push(CounterReset {
                name: name.clone(),
                before: first,
                after: second,
            }),
        }
    }
    for (name, &value) in after {
        if !before.contains_key(name) {
            difference.increases.insert(name.clone(), value);
        }
    }
    difference
}

fn increase(before: u64, after: u64, width: Width) -> Option<u64> {
    const RANGE: u64 = 1 << 32;
    if let Some(rise) = after.checked_sub(before) {
        return Some(rise);
    }
    let fall = before - after;
    // A sum of several CPUs falls by one range for each that passed its end.
    (width == Width::SumsOf32Bits && (fall - 1) % RANGE >= RANGE / 2)
        .then(|| fall.next_multiple_of(RANGE) - fall)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn differences_find_increases_new_counters_and_resets() {
        let before = map(&[("Ip.A", 5), ("Ip.B", 9), ("Ip.C", 1)]);
        let after = map(&[("Ip.A", 8), ("Ip.B", 2), ("Ip.D", 4)]);
        let result = difference(&before, &after, Width::Bits64);
        assert_eq!(result.increases, map(&[("Ip.A", 3), ("Ip.D", 4)]));
        assert_eq!(
            result.resets,
            [
                CounterReset { name: "Ip.B".to_owned(), before: 9, after: Some(2) },
                CounterReset { name: "Ip.C".to_owned(), before: 1, after: None },
            ]
        );
    }

    #[test]
    fn counters_of_32_bits_may_pass_their_end() {
        const RANGE: u64 = 1 << 32;
        let cases = [
            (Width::SumsOf32Bits, RANGE - 10, 5, Some(15)),
            (Width::SumsOf32Bits, 1000, 5, None),
            // Two CPUs' counters, of which one or both passed their end.
            (Width::SumsOf32Bits, 2 * RANGE - 10, RANGE - 4, Some(6)),
            (Width::SumsOf32Bits, 2 * RANGE - 10, 3, Some(13)),
            (Width::Bits64, RANGE - 10, 5, None),
        ];
        for (width, before, after, expected) in cases {
            let result = difference(&map(&[("a", before)]), &map(&[("a", after)]), width);
            assert_eq!(result.increases.get("a").copied(), expected, "{width:?} {before} {after}");
            assert_eq!(result.resets.len(), usize::from(expected.is_none()));
        }
    }
}
