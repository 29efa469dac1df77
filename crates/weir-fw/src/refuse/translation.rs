//! What of translation is refused, and what of it the kernel has to be asked for besides.

use std::net::IpAddr;

use weir_rules::diagnostic::{Code, Diagnostic};
use weir_rules::ir::{Address, Pool, PoolHost, PoolPorts, Rule, Rules, Ruleset};
use weir_rules::value::{Af, Direction, KeepState, PoolKind};

use super::unresolved::refusal_of_unresolved;
use super::{Found, Refusal};

/// What of a rule that translates is refused: of FreeBSD's lists, or of a filter rule.
pub(super) fn refusals_of(rule: &Rule) -> Vec<Refusal> {
    let pools = || [rule.nat.as_ref(), rule.rdr.as_ref()].into_iter().flatten();
    let hosts = || pools().flat_map(|pool| &pool.hosts).filter_map(|host| host.address.as_ref());
    let has = |refusal| hosts().any(|address| refusal_of_unresolved(address) == Some(refusal));
    let found = [
        (Refusal::AfTo, rule.af_to.is_some() && has_more(rule)),
        (Refusal::AfToPool, rule.af_to.is_some() && has_wrong_pools(rule)),
        (Refusal::AfToNothing, rule.af_to == Some(Af::Inet6) && rule.rdr.is_none()),
        (Refusal::UnresolvedHost, has(Refusal::UnresolvedHost)),
        (Refusal::UnresolvedInterface, has(Refusal::UnresolvedInterface)),
    ];
    found.into_iter().filter(|(_, is_there)| *is_there).map(|(refusal, _)| refusal).collect()
}

/// Whether a rule with `af-to` has what its packets cannot have besides.
fn has_more(rule: &Rule) -> bool {
    let options = &rule.options;
    rule.route.is_some()
        || options.divert.is_some()
        || options.queue.is_some()
        || options.dummynet.is_some()
        || options.set.prio.is_some()
        || options.keep_state == Some(KeepState::Synproxy)
}

/// Whether the pools of `af-to` are none of those that the data path has: any of sources but those
/// that count states, or with `bitmask`, and one destination.
fn has_wrong_pools(rule: &Rule) -> bool {
    let is_other = |pool: &Pool| {
        matches!(pool.kind, Some(PoolKind::Bitmask | PoolKind::LeastStates))
            || pool.endpoint_independent
    };
    let is_one = |pool: &Pool| {
        let is_network = |host: &PoolHost| matches!(host.address, Some(Address::Network(..)));
        pool.hosts.len() == 1
            && pool.hosts.iter().all(is_network)
            && pool.kind.is_none()
            && pool.ports == PoolPorts::Default
    };
    rule.nat.as_deref().is_some_and(is_other) || rule.rdr.as_deref().is_some_and(|to| !is_one(to))
}

/// Whether a filter rule translates an end that is not translated there, without `af-to`, which is
/// for rules with `in`.
pub(super) fn is_turned_round(rule: &Rule) -> bool {
    let is_out = rule.direction == Some(Direction::Out);
    let is_in = rule.direction == Some(Direction::In);
    rule.af_to.is_none() && ((rule.nat.is_some() && !is_out) || (rule.rdr.is_some() && !is_in))
}

/// Whether packets are redirected to a loopback address.
pub(super) fn is_to_loopback(rule: &Rule) -> bool {
    let mut hosts = rule.rdr.iter().flat_map(|pool| &pool.hosts);
    hosts.any(|host| match &host.address {
        Some(Address::Network(IpAddr::V4(address), _)) => address.is_loopback(),
        Some(Address::Network(IpAddr::V6(address), _)) => address.is_loopback(),
        _ => false,
    })
}

/// Warns of `scrub` rules that stand in an anchor: in braces below a rule, or in its own file. pf
/// takes them, and asks those of the main ruleset alone (`pf_normalize_ip` of pf_norm.c).
pub(super) fn in_anchor(found: &mut Found, rules: &Rules) {
    for rule in rules.scrub.iter().filter(|rule| rule.anchor.is_none()) {
        found.warn(rule.span, "scrub within an anchor", SCRUB_ANCHOR);
    }
}

/// Why.
const SCRUB_ANCHOR: &str = "pf asks the `scrub` rules of the main ruleset alone";

/// Finds the `scrub` rules, the typed tables and the limiters of a file that is loaded into an
/// anchor.
#[must_use]
pub(crate) fn of_anchor(ruleset: &Ruleset) -> Vec<Diagnostic> {
    let mut found = Found::default();
    in_anchor(&mut found, &ruleset.main);
    let typed = ruleset.tables.iter().filter(|table| table.typed.is_some());
    found.list.extend(typed.map(|table| {
        let message = "a typed table stands in the main ruleset, and rules of anchors see it";
        Diagnostic::error(Code::CannotRun, table.span, message)
    }));
    found.list.extend(ruleset.limiters().map(|limiter| {
        let message = "a limiter stands in the main ruleset; rules of anchors name it by its `id`";
        Diagnostic::error(Code::CannotRun, limiter.name.span, message)
    }));
    found.list
}

/// A warning: what is redirected to a loopback address is dropped by the kernel unless it is told
/// otherwise, and always over IPv6.
pub(super) fn loopback_warning(rule: &Rule) -> Diagnostic {
    let message = "the kernel drops what is redirected to a loopback address";
    Diagnostic::warning(Code::CannotRun, rule.span, message)
        .label("it comes from another interface than `lo`")
        .help(
            "of IPv4: sysctl net.ipv4.conf.INTERFACE.route_localnet=1; better: redirect it to an \
             address of the interface that it comes in on",
        )
}
