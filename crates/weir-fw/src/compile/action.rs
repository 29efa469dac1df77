//! What a rule does, as `struct weir_fw_rule`.

use weir_rules::ir::{Action, Rule};
use weir_rules::names;
use weir_rules::value::{BlockReturn, Flush, SourceTrack, StateOptions};

use super::criteria::Names;
use super::known::Known;
use crate::image::{self, RuleKind, decision};

const LOG_FIRST: u8 = 1 << 0;
const LOG_ALL: u8 = 1 << 1;
const LOG_MATCHES: u8 = 1 << 2;

const ANSWERS_RST: u8 = 1 << 0;
const ANSWERS_ICMP: u8 = 1 << 1;

const SOURCE_TRACK: u8 = 1 << 0;
const SOURCE_GLOBAL: u8 = 1 << 1;
const SOURCE_FLUSH_RULE: u8 = 1 << 2;
const SOURCE_FLUSH_GLOBAL: u8 = 1 << 3;

/// Code of ICMP type 3 that `return` sends: port unreachable.
const PORT_UNREACHABLE: u8 = 3;
/// Code of ICMPv6 type 1 that `return` sends: no port.
const PORT_UNREACHABLE6: u8 = 4;

/// pf's timeouts that a profile has, in the order of `enum weir_fw_timeout`.
pub const PROFILE_TIMEOUTS: [&str; 16] = [
    "tcp.first",
    "tcp.opening",
    "tcp.established",
    "tcp.closing",
    "tcp.finwait",
    "tcp.closed",
    "udp.first",
    "udp.single",
    "udp.multiple",
    "icmp.first",
    "icmp.error",
    "other.first",
    "other.single",
    "other.multiple",
    "frag",
    "src.track",
];

/// The timeouts of a profile in seconds, from those of [`names::TIMEOUTS`].
#[must_use]
pub fn profile_seconds(timeouts: &[u32]) -> [u32; 16] {
    PROFILE_TIMEOUTS.map(|name| {
        let index = names::timeout(name).map(usize::from);
        index.and_then(|index| timeouts.get(index)).copied().unwrap_or(0)
    })
}

/// Seconds in ticks of 2^24 ns, rounded up.
#[must_use]
pub fn ticks(seconds: u32) -> u32 {
    let ns = u64::from(seconds) * 1_000_000_000;
    u32::try_from(ns.div_ceil(1 << 24)).unwrap_or(u32::MAX)
}

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
        let mut own = image::Rule {
            quick: rule.quick,
            kind: match rule.action {
                _ if rule.anchor.is_some() => RuleKind::Anchor,
                Action::Block(_) => RuleKind::Block,
                Action::Match => RuleKind::Match,
                _ => RuleKind::Pass,
            },
            tag: options.tag.as_ref().map_or(0, |tag| self.tag(tag)),
            routing_table: options.rtable.map_or(0, |table| table + 1),
            ..image::Rule::default()
        };
        if let Some(log) = rule.log {
            own.log = LOG_FIRST
                | if log.all { LOG_ALL } else { 0 }
                | if log.matches { LOG_MATCHES } else { 0 };
            own.decision |= if log.all { decision::LOG_ALL } else { 0 };
        }
        own.decision |= if options.allow_opts { decision::ALLOW_OPTIONS } else { 0 };
        if let Some(tos) = options.set.tos {
            own.decision |= decision::SET_TOS;
            own.tos = tos;
        }
        if let Some((one, other)) = options.set.prio {
            own.decision |= decision::SET_PRIO;
            own.prio = [one, other];
        }
        if let (Action::Block(policy), None) = (rule.action, &rule.anchor) {
            answers(policy, &mut own);
        }
        if rule.keeps_state() && own.kind == RuleKind::Pass {
            own.decision |= decision::KEEP_STATE;
            let none = StateOptions::default();
            let state = options.state.as_deref().unwrap_or(&none);
            self.state(state, anchor, known, &mut own)?;
        }
        Some(own)
    }

    fn state(
        &mut self,
        state: &StateOptions,
        anchor: &str,
        known: &mut Known,
        own: &mut image::Rule,
    ) -> Option<()> {
        let settings = &self.evaluator.ruleset().settings;
        let is_bound = state.if_bound.unwrap_or(settings.if_bound);
        let mut give = |bit: u32, given: bool| own.decision |= if given { bit } else { 0 };
        give(decision::IF_BOUND, is_bound);
        give(decision::SLOPPY, state.sloppy);
        give(decision::NO_SYNC, state.no_sync);
        give(decision::RESERVED, state.reserve);
        own.state_max = state.max_states.unwrap_or(0);
        let is_own = |index: u8| PROFILE_TIMEOUTS.contains(&names::timeout_name(index));
        if state.timeouts.iter().any(|(index, _)| is_own(*index)) {
            // pf takes a rule's 0 for none of its own.
            own.profile = known.profile(PROFILE_TIMEOUTS.map(|name| {
                let is_it = |own: &&(u8, u32)| names::timeout_name(own.0) == name;
                let found = state.timeouts.iter().rev().find(is_it);
                found.map(|own| own.1).filter(|seconds| *seconds != 0)
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
        own.decision |= decision::SOURCE_TRACK;
        let is_global = state.source_track == Some(SourceTrack::Global);
        own.source_flags = SOURCE_TRACK | if is_global { SOURCE_GLOBAL } else { 0 };
        own.source_states_max = state.max_src_states.unwrap_or(0);
        own.source_nodes_max = state.max_src_nodes.unwrap_or(0);
        own.source_conn_max = state.max_src_conn.unwrap_or(0);
        if let Some(rate) = state.max_src_conn_rate {
            (own.source_rate_count, own.source_rate_s) = (rate.limit, rate.seconds);
        }
        if let Some((table, flush)) = &state.overload {
            let index = self.named_table(anchor, table);
            own.overload = u16::try_from(index + 1).unwrap_or(u16::MAX);
            own.source_flags |= match flush {
                Flush::No => 0,
                Flush::Rule => SOURCE_FLUSH_RULE,
                Flush::Global => SOURCE_FLUSH_GLOBAL,
            };
        }
        Some(())
    }
}

fn answers(policy: BlockReturn, own: &mut image::Rule) {
    own.icmp_code = [PORT_UNREACHABLE, PORT_UNREACHABLE6];
    match policy {
        BlockReturn::Drop => {}
        BlockReturn::Return => own.answers = ANSWERS_RST | ANSWERS_ICMP,
        BlockReturn::Rst { ttl } => {
            own.answers = ANSWERS_RST;
            own.rst_ttl = ttl;
        }
        BlockReturn::Icmp { code, code6 } => {
            own.answers = ANSWERS_ICMP;
            own.icmp_code = [code, code6];
        }
    }
}
