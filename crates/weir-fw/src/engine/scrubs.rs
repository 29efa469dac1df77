//! What states' packets are changed by (`bpf/include/weir/fw/scrubs.h`): the words that no state
//! has any more are taken out, so that there is room for those of other rulesets. Programs enter
//! words, and nothing else does.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{
    SCRUB_COUNT_MAX, SCRUB_ENDS_SHIFT, SCRUB_FAST_QUEUE_SHIFT, SCRUB_QUEUE_SHIFT, SCRUBS_AT,
};

use crate::states::View;

/// Below so many words nobody is looked for.
const WORD_COUNT_MIN: usize = SCRUB_COUNT_MAX as usize / 2;
/// The first word stays: programs take it for a sign that there are others.
const FIRST: u32 = 2;
const ENDS: u64 = 1 << SCRUB_ENDS_SHIFT;
/// Between two looks at all states, while nothing ends.
const INTERVAL_S: u32 = 30;

/// What becomes of a word: one without states goes the second time that it is found so, unless a
/// program has taken it again; in between those states show up that got it just before.
fn next(word: u64, is_used: bool) -> u64 {
    match (is_used, word & ENDS != 0) {
        (true, _) => word & !ENDS,
        (false, true) => 0,
        (false, false) => word | ENDS,
    }
}

/// The numbers of the queues that words have, which states may keep.
pub(super) fn queues(firewall: &Firewall) -> BTreeSet<u16> {
    let words = (1..=SCRUB_COUNT_MAX).map(|number| firewall.arena().read64(SCRUBS_AT + number * 8));
    let of_word =
        |word: u64| [SCRUB_QUEUE_SHIFT, SCRUB_FAST_QUEUE_SHIFT].map(|at| word >> at & 0xff);
    words.flat_map(of_word).filter_map(|number| u16::try_from(number).ok()).collect()
}

/// When the words are looked at again.
#[derive(Debug, Default)]
pub(super) struct Release {
    wait_s: u32,
    /// Whether all is taken out that is not used, however much room there is.
    is_thorough: bool,
}

impl Release {
    /// Other rules run from now on, which may need other words.
    pub(super) fn hurry(&mut self) {
        *self = Self { wait_s: 0, is_thorough: true };
    }

    /// Takes out what is not used, if there is little room. To be called once a second, which is
    /// longer than any program needs from a word to the state that keeps it.
    pub(super) fn look(&mut self, firewall: &Firewall) {
        if self.wait_s > 0 {
            self.wait_s -= 1;
            return;
        }
        let arena = firewall.arena();
        let words: Vec<(u32, u64)> = (FIRST..=SCRUB_COUNT_MAX)
            .map(|number| (number, arena.read64(SCRUBS_AT + number * 8)))
            .filter(|(_, word)| *word != 0)
            .collect();
        if words.is_empty() || (words.len() < WORD_COUNT_MIN && !self.is_thorough) {
            return;
        }
        let used = View::new(firewall).scrubs();
        self.wait_s = INTERVAL_S;
        for (number, word) in words {
            let to = next(word, used >> number & 1 == 1);
            if to & ENDS != 0 {
                self.wait_s = 0;
            }
            // Where a program has taken it meanwhile it stays what it is by now.
            let at = arena.word64(SCRUBS_AT + number * 8);
            if at.compare_exchange(word, to, Ordering::AcqRel, Ordering::Acquire).is_err() {
                self.wait_s = 0;
            }
        }
        self.is_thorough &= self.wait_s == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_without_states_goes_the_second_time() {
        assert_eq!(next(5, true), 5);
        let ending = next(5, false);
        assert_eq!((ending, next(ending, true), next(ending, false)), (ENDS | 5, 5, 0));
    }
}
