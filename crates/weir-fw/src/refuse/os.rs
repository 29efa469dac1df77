//! What of `os` is refused: fingerprints that are not there, and what packets have lost by then.

use weir_rules::ir::{Rule, Rules, Ruleset};
use weir_rules::source::Span;
use weir_rules::value::{KeepState, Syncookies};

use super::{Found, Refusal};

/// Finds it in the whole of a ruleset.
pub(super) fn diagnose(found: &mut Found, ruleset: &Ruleset) {
    let mut seen =
        Seen { has_proxies: ruleset.settings.syncookies != Syncookies::Never, ..Seen::default() };
    seen.rules(&ruleset.main);
    for span in &seen.asking {
        if ruleset.fingerprints.is_none() {
            found.refuse(Refusal::Os, *span);
        }
        if seen.has_proxies {
            found.refuse(Refusal::OsProxy, *span);
        }
    }
    for span in &seen.scrubbing {
        found.refuse(Refusal::ScrubOs, *span);
    }
}

/// What the rules have.
#[derive(Default)]
struct Seen {
    /// Some SYN may be answered by a cookie.
    has_proxies: bool,
    /// Rules with `os`.
    asking: Vec<Span>,
    /// Of them, `scrub` rules.
    scrubbing: Vec<Span>,
}

impl Seen {
    fn rules(&mut self, rules: &Rules) {
        let asks = |rule: &&Rule| rule.os.is_some();
        self.scrubbing.extend(rules.scrub.iter().filter(asks).map(|rule| rule.span));
        let lists = [&rules.nat, &rules.rdr, &rules.binat, &rules.filter, &rules.scrub];
        for rule in lists.into_iter().flatten() {
            if asks(&rule) {
                self.asking.push(rule.span);
            }
            self.has_proxies |= rule.options.keep_state == Some(KeepState::Synproxy);
            if let Some(body) = rule.anchor.as_ref().and_then(|anchor| anchor.body.as_ref()) {
                self.rules(body);
            }
        }
    }
}
