//! What states' packets are changed by (`bpf/include/weir/fw/scrubs.h`): the words that no state
//! has any more are taken out, so that there is room for those of other rulesets. Programs enter
//! words, and nothing else does.

use weir_bpf::firewall::Firewall;
use weir_bpf::firewall::layout::{SCRUB_COUNT_MAX, SCRUB_ENDS_SHIFT, SCRUBS_AT};

use crate::states::View;

/// Below so many words nobody is looked for.
const WORD_COUNT_MIN: usize = SCRUB_COUNT_MAX as usize / 2;
/// The first word stays: programs take it for a sign that there are others.
const FIRST: u32 = 2;
const ENDS: u64 = 1 << SCRUB_ENDS_SHIFT;

/// What becomes of a word: one without states goes the second time that it is found so. From the
/// first time on no state gets it; in between those show up that got it just then.
fn next(word: u64, is_used: bool) -> u64 {
    match (is_used, word & ENDS != 0) {
        (true, _) => word & !ENDS,
        (false, true) => 0,
        (false, false) => word | ENDS,
    }
}

/// Takes out what is not used, if there is little room. Once for each ruleset that is loaded.
pub(super) fn release(firewall: &Firewall) {
    let arena = firewall.arena();
    let words: Vec<(u32, u64)> = (FIRST..=SCRUB_COUNT_MAX)
        .map(|number| (number, arena.read64(SCRUBS_AT + number * 8)))
        .filter(|(_, word)| *word != 0)
        .collect();
    if words.len() < WORD_COUNT_MIN {
        return;
    }
    let used = View::new(firewall).scrubs();
    for (number, word) in words {
        arena.write64(SCRUBS_AT + number * 8, next(word, used >> number & 1 == 1));
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
