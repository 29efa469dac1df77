//! What of `route-to`, `divert-to` and their like is refused.

use std::collections::HashSet;

use weir_rules::ir::{Action, Address, Pool, PoolHost, Rule};
use weir_rules::value::{Direction, Divert, PoolKind, RouteKind, Text};

use super::Refusal;
use super::unresolved::refusal_of_unresolved;

/// The first thing of a rule's route that the data path has not.
pub(super) fn refusal_of(rule: &Rule, typed: &HashSet<Text>) -> Option<Refusal> {
    let route = rule.route.as_deref()?;
    let mut addresses = route.pool.hosts.iter().filter_map(|host| host.address.as_ref());
    let unresolved = addresses.find_map(refusal_of_unresolved);
    if unresolved.is_some() {
        return unresolved;
    }
    if !is_plain(&route.pool, typed) {
        return Some(Refusal::Gateway);
    }
    let is_stateless = rule.action == Action::Pass && !rule.keeps_state();
    (is_stateless && route.kind == RouteKind::ReplyTo).then_some(Refusal::Gateway)
}

/// What of `divert-to` and its like the data path has not.
pub(super) fn refusal_of_divert(rule: &Rule) -> Option<Refusal> {
    let is_other_way = match rule.options.divert? {
        Divert::Packet(_) | Divert::To(None, _) => return Some(Refusal::Divert),
        Divert::To(Some(_), _) => rule.direction == Some(Direction::Out),
        Divert::Reply => rule.direction == Some(Direction::In),
    };
    let is_stateless = rule.action == Action::Pass && !rule.keeps_state();
    let is_else =
        is_other_way || is_stateless || rule.action == Action::Match || rule.route.is_some();
    is_else.then_some(Refusal::DivertElse)
}

/// Whether a pool is one that the data path takes: of addresses, or an interface or a typed table
/// alone.
fn is_plain(pool: &Pool, typed: &HashSet<Text>) -> bool {
    // Of a typed table the compiler says more.
    if let [PoolHost { address: Some(Address::Table(name)), interface: None, weight: None }] =
        &pool.hosts[..]
        && typed.contains(name)
    {
        return true;
    }
    let is_addresses = |host: &PoolHost| match &host.address {
        Some(Address::Table(name)) => !typed.contains(name),
        Some(_) => true,
        None => false,
    };
    let is_alone = pool.hosts.len() == 1 && pool.hosts[0].address.is_none();
    let is_choice = !matches!(pool.kind, Some(PoolKind::LeastStates));
    is_choice && (is_alone || pool.hosts.iter().all(is_addresses))
}
