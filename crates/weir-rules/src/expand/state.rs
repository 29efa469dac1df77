//! The options of a state: which go together, and what one implies of another.

use super::{Expanded, Expander, keeps};
use crate::ast::Filter;
use crate::diagnostic::{Code, Diagnostic};
use crate::names;
use crate::source::Span;
use crate::value::{KeepState, RuleOptions, SourceTrack, StateOptions};

/// Where `set state-reserve` and the first `reserve` stand.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    pub(super) set: Option<Span>,
    pub(super) used: Option<Span>,
}

impl Expander<'_> {
    /// Of `set state-reserve` and `reserve`, what makes no sense: settings may stand behind rules,
    /// so this is for the end.
    pub(super) fn check_reserve(&mut self) {
        let settings = &self.ruleset.settings;
        let (reserved, limit) = (settings.state_reserve, settings.limits.first().copied());
        let limit = limit.unwrap_or_default();
        let problem = match (self.reserve.set, self.reserve.used) {
            (Some(span), _) if reserved >= limit => {
                let message = format!(
                    "state-reserve {reserved} leaves nothing of `set limit states {limit}` to \
                     rules without `reserve`"
                );
                Diagnostic::error(Code::Inconsistent, span, message)
            }
            (_, Some(span)) if reserved == 0 => {
                let message = "`reserve` without `set state-reserve`: no state is reserved";
                Diagnostic::warning(Code::Inconsistent, span, message)
                    .help("write `set state-reserve N`")
            }
            (Some(span), None) if reserved > 0 => {
                let message = "no rule has `reserve`: no connection may use the reserved states";
                Diagnostic::warning(Code::Inconsistent, span, message)
                    .help("write `keep state (reserve)` in the rules that they are meant for")
            }
            _ => return,
        };
        self.diagnostics.push(problem);
    }

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
        if state.reserve {
            self.reserve.used.get_or_insert(span);
        }
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
    match state.timeouts.iter_mut().find(|(timeout, _)| *timeout == index) {
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
    if state.timeouts.iter().any(|(timeout, _)| *timeout == start || *timeout == end) {
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

#[cfg(test)]
mod tests {
    use crate::Dialect;
    use crate::facts::Facts;
    use crate::limits::Limits;
    use crate::parse::ParseInput;
    use crate::source::MemorySources;

    fn warnings_of(text: &str) -> Vec<String> {
        let input = ParseInput {
            name: "pf.conf",
            bytes: text.as_bytes(),
            dialect: Some(Dialect::FreeBsd),
            macros: &[],
            provider: &MemorySources::default(),
            limits: Limits::default(),
        };
        let compiled = crate::compile(input, &Facts::default());
        let line = |diagnostic: &crate::diagnostic::Diagnostic| diagnostic.line(&compiled.sources);
        compiled.diagnostics.iter().map(line).collect()
    }

    #[test]
    fn reserved_states_are_meant_for_somebody() {
        let rule = "pass keep state (reserve)\n";
        assert!(warnings_of(&format!("set state-reserve 10\n{rule}")).is_empty());
        // Settings may come later.
        assert!(warnings_of(&format!("{rule}set state-reserve 10\n")).is_empty());
        let only = |text: &str, start: &str, words: &str| {
            let warnings = warnings_of(text);
            assert!(warnings.len() == 1, "{warnings:?}");
            assert!(warnings[0].starts_with(start) && warnings[0].contains(words), "{warnings:?}");
        };
        only(rule, "pf.conf:1:6: warning", "no state is reserved");
        only("set state-reserve 10\npass\n", "pf.conf:1:1: warning", "no rule has `reserve`");
        let all = format!("set limit states 10\nset state-reserve 10\n{rule}");
        only(&all, "pf.conf:2:1: error", "state-reserve 10 leaves nothing");
        only("pass keep state (reserve, reserve)\n", "pf.conf:1:27: error", "twice");
    }
}
