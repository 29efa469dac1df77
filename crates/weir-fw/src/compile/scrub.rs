//! What rules change in packets but their ends, as words (`weir_fw_scrub` of layout.h), and
//! FreeBSD's list of `scrub` rules, which stands behind all others of an image.
//!
//! Of that list the first rule that takes a packet counts. It is asked twice: for the IP header,
//! where ports do not matter, and for what a SYN has changed of its TCP, where they do
//! (`pf_normalize_ip` and `pf_normalize_tcp` of pf_norm.c). Most lists ask for no more than the
//! interface; then the quick way of known flows finds the answer in a table.

use std::collections::BTreeSet;

use weir_bpf::firewall::layout::{
    INTERFACE_COUNT_MAX, SCRUB_ASKS_SHIFT, SCRUB_COUNT_MAX, SCRUB_FAST_PRIO_SHIFT, SCRUB_MSS_SHIFT,
    SCRUB_NO_DF_SHIFT, SCRUB_PRIO_SHIFT, SCRUB_RANDOM_ID_SHIFT, SCRUB_REASSEMBLE_SHIFT,
    SCRUB_SETS_TOS_SHIFT, SCRUB_TOS_SHIFT, SCRUB_TTL_SHIFT,
};
use weir_rules::evaluate::{Evaluator, List, RuleRef};
use weir_rules::ir::{Action, Peer, Rule};

use super::{Builder, Compiled, Refused, refused};
use crate::image::{self, Criteria, PlaceKind, hooks, image_flags};

/// What is of TCP in a word: a segment size, and `reassemble tcp`.
const OF_TCP: u64 = 0xffff << SCRUB_MSS_SHIFT | 1 << SCRUB_REASSEMBLE_SHIFT;

/// What a rule changes; 0: nothing.
pub(super) fn word(rule: &Rule) -> u64 {
    let scrub = rule.options.scrub.unwrap_or_default();
    let (tos, prio) = (rule.options.set.tos, rule.options.set.prio);
    // 8 says that there is one.
    let [prio, fast_prio] = prio.map_or([0, 0], |(one, other)| [8 | one, 8 | other]);
    if rule.action == Action::NoScrub {
        return 0;
    }
    u64::from(scrub.max_mss) << SCRUB_MSS_SHIFT
        | u64::from(scrub.min_ttl) << SCRUB_TTL_SHIFT
        | u64::from(tos.unwrap_or(0)) << SCRUB_TOS_SHIFT
        | u64::from(tos.is_some()) << SCRUB_SETS_TOS_SHIFT
        | u64::from(scrub.no_df) << SCRUB_NO_DF_SHIFT
        | u64::from(scrub.random_id) << SCRUB_RANDOM_ID_SHIFT
        | u64::from(scrub.reassemble_tcp) << SCRUB_REASSEMBLE_SHIFT
        | u64::from(prio) << SCRUB_PRIO_SHIFT
        | u64::from(fast_prio) << SCRUB_FAST_PRIO_SHIFT
}

/// FreeBSD's list, as it stands in an image.
pub(super) struct ScrubList {
    /// Its first row.
    start: usize,
    /// Whether some rule of it changes anything.
    changes: bool,
}

impl Builder<'_> {
    /// What a rule changes, and the queues that it names.
    pub(super) fn word(&self, rule: &Rule) -> u64 {
        word(rule) | self.queue_word(rule) | self.pipe_word(rule)
    }

    /// Refuses more different words than states can keep. What several rules change together may
    /// still be one too many: its states keep nothing.
    pub(super) fn check_words(&self, evaluator: &Evaluator<'_>) -> Result<(), Refused> {
        let mut words = BTreeSet::new();
        let is_kept = |rule: &Rule| match rule.action {
            Action::Match => true,
            Action::Pass => rule.keeps_state(),
            _ => false,
        };
        for rule in evaluator.rules().filter(|rule| is_kept(rule)) {
            let word = self.word(rule);
            if word != 0 {
                words.insert(word);
            }
            if words.len() > SCRUB_COUNT_MAX as usize {
                let message = format!(
                    "more than {SCRUB_COUNT_MAX} different sets of `scrub (...)`, `set` and \
                     queues: states cannot tell them apart"
                );
                return Err(refused(rule.span, message));
            }
        }
        Ok(())
    }

    /// Adds the list, if anything changes by it: all of its rules without ports and what is of TCP,
    /// and all of them with their ports, and with nothing but that.
    pub(super) fn scrub_list(&mut self) -> ScrubList {
        let evaluator = self.names.evaluator;
        // Those of anchors are refused.
        let is_listed = |found: &RuleRef<'_>| found.list == List::Scrub && found.anchor.is_empty();
        let listed = evaluator.rule_refs().filter(is_listed);
        let rules: Vec<&Rule> = listed.map(|found| found.rule).collect();
        let start = self.criteria.len();
        let changes = rules.iter().any(|rule| word(rule) != 0);
        if !changes {
            return ScrubList { start, changes };
        }
        for rule in &rules {
            let portless = |peer: &Peer| Peer { port: None, ..peer.clone() };
            let (from, to) = (portless(&rule.from), portless(&rule.to));
            let header = Rule { from, to, ..(*rule).clone() };
            self.scrub_row(&header, word(rule) & !OF_TCP);
        }
        for rule in &rules {
            self.scrub_row(rule, word(rule) & OF_TCP);
        }
        ScrubList { start, changes }
    }

    fn scrub_row(&mut self, rule: &Rule, word: u64) {
        let criteria = self.names.criteria(rule, "");
        self.criteria.push(criteria);
        self.actions.push(image::Rule::default());
        self.translations.push(None);
        self.scrubs.push(word);
    }
}

impl Compiled {
    /// Says in the image what the rules change.
    pub(super) fn change_by(&mut self, list: &ScrubList) {
        let end = self.criteria.len();
        self.header.scrub_end = u32::try_from(end).unwrap_or(u32::MAX);
        if self.scrubs.iter().all(|word| *word == 0) {
            self.scrubs.clear();
            return;
        }
        self.header.flags |= image_flags::SCRUBS;
        if !list.changes {
            return;
        }
        self.header.flags |= image_flags::SCRUB_LIST;
        let rows = list.start..list.start + (end - list.start) / 2;
        let words = &self.scrubs[rows.clone()];
        if words.iter().any(|word| *word != 0) {
            self.header.flags |= image_flags::SCRUB_ALL;
        }
        let header: Vec<(Criteria, u64)> =
            self.criteria[rows].iter().copied().zip(words.iter().copied()).collect();
        for hook in [hooks::IN, hooks::OUT] {
            for slot in 0..INTERFACE_COUNT_MAX {
                self.scrubs.push(by_interface(&header, hook | hooks::INET, slot));
            }
        }
    }
}

/// Whether criteria ask for nothing but the hook, the family and the interface.
fn holds_for_all(criteria: &Criteria) -> bool {
    let is_any = |kind: PlaceKind| kind == PlaceKind::Any;
    criteria.protocol == 0
        && criteria.flags == 0
        && is_any(criteria.from_kind)
        && is_any(criteria.to_kind)
}

/// What is changed in all packets of a hook at an interface.
fn by_interface(list: &[(Criteria, u64)], hooks: u8, slot: u32) -> u64 {
    let is_there = |criteria: &Criteria| {
        criteria.hooks & hooks == hooks && criteria.interfaces >> slot & 1 == 1
    };
    let mut found = list.iter().filter(|(criteria, _)| is_there(criteria)).peekable();
    let Some(first) = found.peek().map(|(_, word)| *word) else { return 0 };
    let asks = 1 << SCRUB_ASKS_SHIFT;
    for (criteria, word) in found {
        if *word != first {
            return asks;
        }
        if holds_for_all(criteria) {
            return first;
        }
    }
    // What no rule takes is left as it is.
    if first == 0 { 0 } else { asks }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_the_interface_alone_is_known_without_rules() {
        let all = hooks::IN | hooks::INET;
        let on_3 = Criteria { interfaces: 1 << 3, ..Criteria::default() };
        let out = Criteria { hooks: hooks::OUT | hooks::INET, ..Criteria::default() };
        let tcp = Criteria { protocol: 6, ..Criteria::default() };
        let any = Criteria::default();
        let asks = 1 << SCRUB_ASKS_SHIFT;
        for (list, slot, expected) in [
            (vec![], 1, 0),
            (vec![(on_3, 7)], 1, 0),
            (vec![(on_3, 7), (any, 9)], 3, 7),
            (vec![(on_3, 7), (any, 9)], 2, 9),
            (vec![(out, 7), (any, 9)], 2, 9),
            (vec![(tcp, 7)], 2, asks),
            (vec![(tcp, 7), (any, 9)], 2, asks),
            (vec![(tcp, 9), (any, 9)], 2, 9),
            (vec![(tcp, 0), (any, 9)], 2, asks),
            (vec![(tcp, 0), (out, 9)], 2, 0),
        ] {
            assert_eq!(by_interface(&list, all, slot), expected, "{list:?} at {slot}");
        }
    }
}
