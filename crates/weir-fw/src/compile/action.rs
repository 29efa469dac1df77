//! What a rule does, as `struct weir_fw_rule`.

use weir_bpf::firewall::layout::{answers, log_flags, source_flags};
use weir_rules::ir::{Action, Rule};
use weir_rules::names;
use weir_rules::value::{BlockReturn, Flush, KeepState, SourceTrack, StateOptions, Syncookies};

use super::criteria::Names;
use super::known::Known;
use super::spread::copies;
use crate::image::{self, RuleKind, decision};
use crate::timeouts::PROFILE_TIMEOUTS;

/// Code of ICMP type 3 that `return` sends: port unreachable.
const PORT_UNREACHABLE: u8 = 3;
/// Code of ICMPv6 type 1 that `return` sends: no port.
const PORT_UNREACHABLE6: u8 = 4;

impl Names<'_> {
    /// What the rule does; its identifier and counters are for the caller. `None` if there are
    /// more sets of timeouts than profiles.
    pub(super) fn action(
        &mut self,
        rule: &Rule,
        anchor: &str,
        known: &mut Known,
    ) -> Option<image::Rule> {
        let options = &rule.options;
        let mut action = image::Rule {
            quick: rule.quick,
            kind: match rule.action {
                _ if rule.anchor.is_some() => RuleKind::Anchor,
                Action::Block(_) => RuleKind::Block,
                Action::Match => RuleKind::Match,
                _ => RuleKind::Pass,
            },
            tag: self.tag_of(rule, anchor),
            routing_table: options.rtable.map_or(0, |table| table + 1),
            ..image::Rule::default()
        };
        if let Some(log) = rule.log {
            action.log = log_flags::FIRST
                | if log.all { log_flags::ALL } else { 0 }
                | if log.matches { log_flags::MATCHES } else { 0 };
            action.decision |= if log.all { decision::LOG_ALL } else { 0 };
        }
        action.decision |= if options.allow_opts { decision::ALLOW_OPTIONS } else { 0 };
        action.decision |= if options.once { decision::ONCE } else { 0 };
        action.decision |= if copies(rule) { decision::COPIED } else { 0 };
        action.decision |= if options.max_pkt_rate.is_some() { decision::RATED } else { 0 };
        action.decision |= if options.limiters.is_empty() { 0 } else { decision::LIMITED };
        if let (Action::Block(policy), None) = (rule.action, &rule.anchor) {
            answers(policy, &mut action);
        }
        if action.kind == RuleKind::Pass {
            answers(self.evaluator.ruleset().settings.fail_policy, &mut action);
        }
        if rule.keeps_state() && action.kind == RuleKind::Pass {
            action.decision |= decision::KEEP_STATE;
            let none = StateOptions::default();
            let state = options.state.as_deref().unwrap_or(&none);
            action.decision |= match options.keep_state {
                Some(KeepState::Modulate) => decision::MODULATE,
                Some(KeepState::Synproxy) => decision::SYNPROXY,
                _ => match self.evaluator.ruleset().settings.syncookies {
                    Syncookies::Never => 0,
                    Syncookies::Always => decision::SYNPROXY,
                    Syncookies::Adaptive { .. } => decision::ADAPTIVE,
                },
            };
            self.state(state, anchor, known, &mut action)?;
        }
        Some(action)
    }

    fn state(
        &mut self,
        state: &StateOptions,
        anchor: &str,
        known: &mut Known,
        action: &mut image::Rule,
    ) -> Option<()> {
        let settings = &self.evaluator.ruleset().settings;
        let is_bound = state.if_bound.unwrap_or(settings.if_bound);
        let mut give = |bit: u32, given: bool| action.decision |= if given { bit } else { 0 };
        give(decision::IF_BOUND, is_bound);
        give(decision::SLOPPY, state.sloppy);
        give(decision::NO_SYNC, state.no_sync);
        give(decision::PFLOW, state.pflow);
        give(decision::RESERVED, state.reserve);
        action.state_max = state.max_states.unwrap_or(0);
        let is_in_profile = |index: u8| PROFILE_TIMEOUTS.contains(&names::timeout_name(index));
        if state.timeouts.iter().any(|(index, _)| is_in_profile(*index)) {
            // pf takes a rule's 0 for none of its own.
            action.profile = known.profile(PROFILE_TIMEOUTS.map(|name| {
                let is_it = |timeout: &&(u8, u32)| names::timeout_name(timeout.0) == name;
                let found = state.timeouts.iter().rev().find(is_it);
                found.map(|timeout| timeout.1).filter(|seconds| *seconds != 0)
            }))?;
        }
        let tracks = state.source_track.is_some()
            || state.max_src_nodes.is_some()
            || state.max_src_states.is_some()
            || state.max_src_conn.is_some()
            || state.max_src_conn_rate.is_some();
        if !tracks {
            return Some(());
        }
        action.decision |= decision::SOURCE_TRACK;
        let is_global = state.source_track == Some(SourceTrack::Global);
        action.source_flags =
            source_flags::TRACK | if is_global { source_flags::GLOBAL } else { 0 };
        action.source_states_max = state.max_src_states.unwrap_or(0);
        action.source_nodes_max = state.max_src_nodes.unwrap_or(0);
        action.source_conn_max = state.max_src_conn.unwrap_or(0);
        if let Some(rate) = state.max_src_conn_rate {
            (action.source_rate_count, action.source_rate_s) = (rate.limit, rate.seconds);
        }
        if let Some((table, flush)) = &state.overload {
            let index = self.named_table(anchor, table);
            action.overload = u16::try_from(index + 1).unwrap_or(u16::MAX);
            action.source_flags |= match flush {
                Flush::No => 0,
                Flush::Rule => source_flags::FLUSH_RULE,
                Flush::Global => source_flags::FLUSH_GLOBAL,
            };
        }
        Some(())
    }
}

fn answers(policy: BlockReturn, action: &mut image::Rule) {
    action.icmp_code = [PORT_UNREACHABLE, PORT_UNREACHABLE6];
    match policy {
        BlockReturn::Drop => {}
        BlockReturn::Return => action.answers = answers::RST | answers::ICMP,
        BlockReturn::Rst { ttl } => {
            action.answers = answers::RST;
            action.rst_ttl = ttl;
        }
        BlockReturn::Icmp { code, code6 } => {
            action.answers = answers::ICMP;
            action.icmp_code = [code, code6];
        }
    }
}
