//! Which gateways the pool of a `route-to`, `reply-to` or `dup-to` gives: the addresses of its
//! networks, in the order in which [`weir_rules::evaluate`] counts their turns. A table stands for
//! what it holds when the image is made, `(interface)` for the addresses that it has then. Typed
//! tables have gateways of their own, and are no matter of this module.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_rules::evaluate::{Evaluator, RuleRef};
use weir_rules::ir::{Action, Address, Pool, PoolHost, Rule, Ruleset};
use weir_rules::value::{PoolKind, RouteKind, Text};

use super::criteria::{mask4, mask6};
use super::known::Gateway;

/// A network of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    /// That of each of its addresses, in order.
    pub(super) gateways: Vec<Gateway>,
    /// How often each of them has a turn before the next network.
    pub(super) weight: u16,
}

/// A pool has more addresses than there may be gateways: so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany(pub(super) u128);

/// The networks of a rule's pool, by family; of an interface alone, the same in both.
pub(super) fn of_pool(
    evaluator: &Evaluator<'_>,
    pool: &Pool,
    anchor: &str,
    count_max: usize,
) -> Result<[Vec<Network>; 2], TooMany> {
    if evaluator.typed_pool(pool, anchor).is_some() {
        return Ok([Vec::new(), Vec::new()]);
    }
    let mut found: [Vec<Found>; 2] = [Vec::new(), Vec::new()];
    for host in &pool.hosts {
        let interface = host.interface.as_ref().map(ToString::to_string);
        let weight = host.weight.unwrap_or(1).max(1);
        for range in ranges(evaluator, host, anchor) {
            let families = match range {
                None => 0..2,
                Some((address, _)) if address.is_ipv4() => 0..1,
                Some(_) => 1..2,
            };
            for family in families {
                found[family].push((interface.clone(), range, weight));
            }
        }
    }
    for networks in &mut found {
        match pool.kind {
            // No turns: the address that stands there.
            None => {
                networks.truncate(1);
                for (_, range, _) in networks {
                    *range = range.map(|(address, _)| (address, width(address)));
                }
            }
            Some(PoolKind::Bitmask) => networks.truncate(1),
            Some(_) => {}
        }
    }
    let count = found.iter().flatten().fold(0_u128, |sum, (_, range, _)| {
        sum.saturating_add(range.map_or(1, |(address, bits)| size(address, bits)))
    });
    if count > count_max as u128 {
        return Err(TooMany(count));
    }
    Ok(found.map(|networks| networks.into_iter().map(network).collect()))
}

/// An interface, the network of gateways behind it, and its weight.
type Found = (Option<String>, Option<(IpAddr, u8)>, u16);

fn network((interface, range, weight): Found) -> Network {
    let of =
        |address: Option<IpAddr>| Gateway { interface: interface.clone(), address, socket: None };
    let gateways = match range {
        None => vec![of(None)],
        Some((base, bits)) => {
            (0..size(base, bits)).map(|index| of(Some(nth(base, bits, index)))).collect()
        }
    };
    Network { gateways, weight }
}

/// The networks of a host of a pool; `None`: it is an interface alone.
fn ranges(evaluator: &Evaluator<'_>, host: &PoolHost, anchor: &str) -> Vec<Option<(IpAddr, u8)>> {
    let networks = match &host.address {
        None => return vec![None],
        Some(Address::Network(address, bits)) => vec![(*address, *bits)],
        Some(Address::Dynamic(dynamic)) => evaluator.pool_networks_of(dynamic),
        Some(Address::Table(name)) => evaluator.networks_of_table(anchor, name),
        // Refused before.
        Some(_) => Vec::new(),
    };
    networks.into_iter().map(Some).collect()
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// How many addresses a network has.
fn size(base: IpAddr, bits: u8) -> u128 {
    let host_bits = width(base) - bits.min(width(base));
    1_u128.checked_shl(host_bits.into()).unwrap_or(u128::MAX)
}

/// An address of a network, by its place.
fn nth(base: IpAddr, bits: u8, index: u128) -> IpAddr {
    match base {
        IpAddr::V4(base) => {
            let index = u32::try_from(index).unwrap_or(0);
            Ipv4Addr::from(u32::from(base) & mask4(bits) | index & !mask4(bits)).into()
        }
        IpAddr::V6(base) => {
            Ipv6Addr::from(u128::from(base) & mask6(bits) | index & !mask6(bits)).into()
        }
    }
}

/// Whether a rule has packets copied: what is blocked is sent nowhere.
pub(super) fn copies(rule: &Rule) -> bool {
    let is_it = rule.route.as_ref().is_some_and(|route| route.kind == RouteKind::DupTo);
    is_it && rule.action == Action::Pass
}

/// The tables of the pool of a rule's route.
pub(super) fn tables_of(rule: &Rule) -> impl Iterator<Item = &Text> {
    let route = rule.route.as_deref().filter(|_| rule.action == Action::Pass);
    let hosts = route.into_iter().flat_map(|route| &route.pool.hosts);
    hosts.filter_map(|host| match &host.address {
        Some(Address::Table(name)) => Some(name),
        _ => None,
    })
}

/// Whether a table of a name gives gateways to a rule of a ruleset.
#[must_use]
pub(crate) fn takes_from(ruleset: &Ruleset, name: &str) -> bool {
    let mut open = vec![&ruleset.main];
    while let Some(rules) = open.pop() {
        if rules.filter.iter().any(|rule| tables_of(rule).any(|table| **table == *name)) {
            return true;
        }
        let anchors = rules.filter.iter().filter_map(|rule| rule.anchor.as_ref());
        open.extend(anchors.filter_map(|anchor| anchor.body.as_deref()));
    }
    false
}

/// The tables that give gateways to rules: anchor (empty for the main ruleset) and name.
pub(crate) fn pool_tables(evaluator: &Evaluator<'_>) -> BTreeSet<(Text, Text)> {
    let named = |found: RuleRef<'_>| {
        let typed = |name: &Text| evaluator.tables.typed(found.anchor, name).is_some();
        let place = |name: &Text| (evaluator.table_anchor(found.anchor, name), name.clone());
        tables_of(found.rule).filter(|name| !typed(name)).map(place).collect::<Vec<_>>()
    };
    evaluator.rule_refs().flat_map(named).collect()
}

#[cfg(test)]
mod tests {
    use weir_rules::Dialect;
    use weir_rules::facts::Facts;

    use super::*;

    const FACTS: &str = "interface em1 192.0.2.9/24 2001:db8:1::9/64\n\
                         interface ppp0 198.51.100.1/32 peer 198.51.100.2\n";

    /// By family, the addresses of each network, its interfaces, and its weight.
    fn spread(dialect: Dialect, text: &str) -> Result<[Vec<(String, u16)>; 2], TooMany> {
        let facts = Facts::parse(FACTS).unwrap();
        let ruleset = crate::testing::ruleset(text, dialect, &facts);
        let evaluator = Evaluator::new(&ruleset, &[], &facts).unwrap();
        let rule = evaluator.rules().find_map(|rule| rule.route.as_deref()).unwrap();
        let words = |network: &Network| {
            let gateways: Vec<String> = network.gateways.iter().map(ToString::to_string).collect();
            (gateways.join(" "), network.weight)
        };
        let found = of_pool(&evaluator, &rule.pool, "", 15)?;
        Ok(found.map(|networks| networks.iter().map(words).collect()))
    }

    #[test]
    fn a_pool_is_each_of_its_addresses() {
        let (free, open) = (Dialect::FreeBsd, Dialect::OpenBsd);
        let none = Vec::<(&str, u16)>::new;
        for (dialect, words, four, six) in [
            (
                free,
                "route-to { (em1 192.0.2.5/31), (em1 192.0.2.1) } round-robin",
                vec![("192.0.2.4@em1 192.0.2.5@em1", 1), ("192.0.2.1@em1", 1)],
                none(),
            ),
            (free, "route-to (em1 192.0.2.5/30)", vec![("192.0.2.4@em1", 1)], none()),
            (free, "route-to em1", vec![("@em1", 1)], vec![("@em1", 1)]),
            (
                open,
                "route-to <t>",
                vec![("192.0.2.7", 1), ("192.0.2.2 192.0.2.3", 1)],
                vec![("2001:db8::1", 1)],
            ),
            (
                open,
                "route-to { 192.0.2.1 weight 7 192.0.2.2 }",
                vec![("192.0.2.1", 7), ("192.0.2.2", 1)],
                none(),
            ),
            (open, "route-to (ppp0:peer)", vec![("198.51.100.2", 1)], none()),
        ] {
            let table = "table <t> { 192.0.2.2/31 !192.0.2.3 192.0.2.7 2001:db8::1 }\n";
            let text = match dialect {
                Dialect::FreeBsd => format!("{table}pass in {words}\n"),
                Dialect::OpenBsd => format!("{table}pass in inet6 from ::1\npass in {words}\n"),
            };
            let found = spread(dialect, &text).unwrap();
            let found = found.each_ref().map(|networks| {
                networks.iter().map(|(text, weight)| (&**text, *weight)).collect::<Vec<_>>()
            });
            assert_eq!(found, [four, six], "{words}");
        }
        for (words, count) in [
            ("(em1 10.0.0.0/28) round-robin", 16),
            ("(em1 10.0.0.0/8) source-hash", 1 << 24),
            ("(em1 ::/0) random", u128::MAX),
        ] {
            let found = spread(free, &format!("pass in route-to {words}\n"));
            assert_eq!(found, Err(TooMany(count)), "{words}");
        }
    }
}
