//! The options of a state: which go together, and what one implies of another.

use super::{Expanded, Expander, keeps};
use crate::ast::Filter;
use crate::diagnostic::Code;
use crate::names;
use crate::value::{KeepState, RuleOptions, SourceTrack, StateOptions};

impl Expander<'_> {
    pub(super) fn state_options(
        &mut self,
        options: &mut RuleOptions,
        filter: &Filter,
    ) -> Expanded<()> {
        if !keeps(options.keep_state) {
            options.state = None;
            return Ok(());
        }
        let mut state = options.state.take().map(|state| *state).unwrap_or_default();
        let span = filter.option_span("state").unwrap_or_default();
        if let Some(problem) = contradiction(&state, options.keep_state) {
            return self.fail(Code::Inconsistent, span, &problem);
        }
        complete(&mut state);
        let is_bound = state.if_bound.unwrap_or(self.ruleset.settings.if_bound);
        state.if_bound = (is_bound || self.has_if_bound).then_some(is_bound);
        // Beside `set state-defaults`, no options is something to say: OpenBSD's printed form
        // would otherwise leave `keep state` out, and be read back with the defaults.
        let is_said = state != StateOptions::default() || self.has_state_defaults;
        options.state = is_said.then(|| Box::new(state));
        Ok(())
    }
}

/// Fills in how sources are tracked, and how long.
fn complete(state: &mut StateOptions) {
    let per_rule = state.max_src_nodes.is_some()
        || state.max_src_conn.is_some()
        || state.max_src_conn_rate.is_some();
    let is_tracked = per_rule || state.max_src_states.is_some();
    state.source_track = match state.source_track {
        Some(SourceTrack::Default) | None if per_rule => Some(SourceTrack::Rule),
        None if !is_tracked => None,
        Some(SourceTrack::Default) | None => Some(SourceTrack::Global),
        other => other,
    };
    adapt(state);
    let Some(seconds) = state.max_src_conn_rate.map(|rate| rate.seconds) else {
        return;
    };
    let Some(index) = names::timeout("src.track") else {
        return;
    };
    match state.timeouts.iter_mut().find(|(own, _)| *own == index) {
        Some((_, value)) => *value = (*value).max(seconds),
        None => state.timeouts.push((index, seconds)),
    }
    state.timeouts.sort_unstable();
}

/// A rule with a limit of its own shortens its timeouts from 60 % of it on, to nothing at 120 %,
/// unless it says otherwise (pf.conf(5), `max`).
fn adapt(state: &mut StateOptions) {
    let (Some(start), Some(end)) =
        (names::timeout("adaptive.start"), names::timeout("adaptive.end"))
    else {
        return;
    };
    let Some(tenth) = state.max_states.map(|max| max / 10).filter(|tenth| *tenth > 0) else {
        return;
    };
    if state.timeouts.iter().any(|(own, _)| *own == start || *own == end) {
        return;
    }
    let times = |count: u32| tenth.saturating_mul(count);
    state.timeouts.extend([(start, times(6)), (end, times(12))]);
    state.timeouts.sort_unstable();
}

fn contradiction(state: &StateOptions, keep: Option<KeepState>) -> Option<String> {
    let global = state.source_track == Some(SourceTrack::Global);
    let counts_connections = state.max_src_conn.is_some() || state.max_src_conn_rate.is_some();
    let text = if global && state.max_src_nodes.is_some() {
        "`max-src-nodes` is incompatible with `source-track global`"
    } else if global && state.max_src_conn.is_some() {
        "`max-src-conn` is incompatible with `source-track global`"
    } else if global && state.max_src_conn_rate.is_some() {
        "`max-src-conn-rate` is incompatible with `source-track global`"
    } else if state.overload.is_some() && !counts_connections {
        "`overload` requires `max-src-conn` or `max-src-conn-rate`"
    } else if state.sloppy && matches!(keep, Some(KeepState::Modulate | KeepState::Synproxy)) {
        "`sloppy` cannot be used with `synproxy state` or `modulate state`"
    } else {
        return None;
    };
    Some(text.to_owned())
}
