//! What of `route-to` and its like is refused.

use std::net::IpAddr;

use weir_rules::ir::{Action, Address, Pool, PoolHost, Rule};
use weir_rules::value::{PoolKind, RouteKind};

use super::{Refusal, refusal_of_unresolved};

/// The first thing of a rule's route that the data path has not.
pub(super) fn refusal_of(rule: &Rule) -> Option<Refusal> {
    let route = rule.route.as_deref()?;
    if route.kind == RouteKind::DupTo {
        return Some(Refusal::DupTo);
    }
    let mut addresses = route.pool.hosts.iter().filter_map(|host| host.address.as_ref());
    let unresolved = addresses.find_map(refusal_of_unresolved);
    if unresolved.is_some() {
        return unresolved;
    }
    if !is_plain(&route.pool) {
        return Some(Refusal::RoutePool);
    }
    (rule.action == Action::Pass && !rule.keeps_state()).then_some(Refusal::RouteStateless)
}

/// Whether a pool is one that the data path takes: of addresses, or an interface alone.
fn is_plain(pool: &Pool) -> bool {
    let is_host = |host: &PoolHost| match host.address {
        Some(Address::Network(IpAddr::V4(_), bits)) => bits == 32,
        Some(Address::Network(IpAddr::V6(_), bits)) => bits == 128,
        _ => false,
    };
    let has_weight = pool.hosts.iter().any(|host| host.weight.is_some());
    let is_alone = pool.hosts.len() == 1 && pool.hosts[0].address.is_none();
    let is_choice = !matches!(pool.kind, Some(PoolKind::LeastStates));
    is_choice && !has_weight && (is_alone || pool.hosts.iter().all(is_host))
}
