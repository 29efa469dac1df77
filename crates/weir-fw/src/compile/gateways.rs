//! `route-to` and `reply-to`: the gateways of a ruleset, which states keep by numbers, and the pool
//! that a rule takes one of them from, as `struct weir_fw_gateways`. So it is with the sockets of
//! `divert-to` and `divert-reply`.

use std::collections::HashMap;
use std::net::IpAddr;

use weir_bpf::firewall::layout::{self, POOL_GATEWAY_COUNT_MAX, gateway as field, gateway_flags};
use weir_rules::evaluate::{Evaluator, RuleRef, source_hash_seed};
use weir_rules::ir::{Action, Pool, Route, Rule};
use weir_rules::value::{Divert, PoolKind, RouteKind};

use super::known::{Gateway, Known};
use super::numbers::Exhausted;
use super::spread::{self, Network, TooMany, copies};
use super::{Builder, Input, Refused, Slot, refused, typed};
use crate::image::{self, Bytes, Choice, Gateways, Shares, decision};

/// Gateways that states can keep, those of earlier rulesets that have states included.
const GATEWAY_COUNT_MAX: usize = layout::GATEWAY_COUNT_MAX as usize;
/// Different pools of one image.
const POOL_COUNT_MAX: usize = u8::MAX as usize;

/// The socket of a rule with `divert-to` or `divert-reply`.
fn socket(divert: Divert) -> Gateway {
    let (address, port) = match divert {
        Divert::To(address, port) => (address, port),
        // The other one is refused before.
        Divert::Reply | Divert::Packet(_) => (None, 0),
    };
    Gateway { interface: None, address, socket: Some(port) }
}

/// Whether a rule sends packets anywhere: what is blocked goes nowhere.
fn routes(rule: &Rule) -> bool {
    let is_sent = rule.route.is_some() && !copies(rule);
    (is_sent || rule.options.divert.is_some()) && rule.action == Action::Pass
}

/// Whether a rule chooses a gateway for packets that make no state.
pub(super) fn is_stateless(action: &image::Rule) -> bool {
    action.gateways != 0 && action.decision & decision::KEEP_STATE == 0
}

/// What a rule sends packets to, but for the next hops of a typed table, by family.
fn networks(
    evaluator: &Evaluator<'_>,
    rule: &Rule,
    anchor: &str,
) -> Result<[Vec<Network>; 2], Refused> {
    if let Some(divert) = rule.options.divert {
        let socket = socket(divert);
        let of_family = |is_ipv6: bool| {
            let is_it = socket.address.is_none_or(|address| address.is_ipv6() == is_ipv6);
            is_it.then(|| Network { gateways: vec![socket.clone()], weight: 1 })
        };
        return Ok([false, true].map(|is_ipv6| of_family(is_ipv6).into_iter().collect()));
    }
    let Some(route) = rule.route.as_deref() else { return Ok([Vec::new(), Vec::new()]) };
    let found = spread::of_pool(evaluator, &route.pool, anchor, GATEWAY_COUNT_MAX);
    found.map_err(|TooMany(count)| {
        let message = format!(
            "a pool of {count} gateways: states keep at most {GATEWAY_COUNT_MAX} different ones"
        );
        refused(rule.span, message)
    })
}

/// A link-local address without its interface.
fn without_link(gateway: &Gateway) -> Option<IpAddr> {
    match gateway {
        Gateway { interface: None, address: Some(IpAddr::V6(address)), socket: None } => {
            address.is_unicast_link_local().then_some((*address).into())
        }
        _ => None,
    }
}

/// The numbers of the gateways that rules name.
pub(super) fn numbers(
    input: &Input<'_>,
    known: &mut Known,
) -> Result<HashMap<Gateway, u16>, Refused> {
    let mut given = typed::gateways_of(input);
    let mut first = None;
    for RuleRef { rule, anchor, .. } in input.evaluator.rule_refs() {
        if !routes(rule) {
            continue;
        }
        first = first.or(Some(rule.span));
        for gateway in networks(input.evaluator, rule, anchor)?.into_iter().flatten() {
            given.extend(gateway.gateways);
        }
        if let Some(address) = given.iter().find_map(without_link) {
            let message = format!(
                "`{address}` may be on every link: name its interface, as `{address}%em0`, or in \
                 FreeBSD's words `(em0 {address})`"
            );
            return Err(refused(rule.span, message));
        }
    }
    let assigned = known.gateways.assign(&given, GATEWAY_COUNT_MAX);
    assigned.map_err(|Exhausted { given_count, held_count }| {
        let message = format!(
            "states keep at most {GATEWAY_COUNT_MAX} different gateways and sockets, and rules \
             have {given_count}, besides {held_count} of earlier rulesets that states still have"
        );
        refused(first.unwrap_or_default(), message)
    })
}

/// What a number stands for, as `struct weir_fw_gateway`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) line: [u8; field::SIZE_BYTES as usize],
}

/// All that states may have.
pub(super) fn numbered(known: &Known, slots: &[Slot]) -> Vec<Numbered> {
    let held = (1..).zip(&known.gateways.held);
    held.filter_map(|(number, held)| Some(Numbered { number, line: line(held.as_ref()?, slots) }))
        .collect()
}

pub(super) fn line(of: &Gateway, slots: &[Slot]) -> [u8; field::SIZE_BYTES as usize] {
    let mut line = Bytes::<{ field::SIZE_BYTES as usize }>::new();
    let mut flags = if of.address.is_some() { gateway_flags::ADDRESS } else { 0 };
    match of.address {
        Some(IpAddr::V4(address)) => line.put(field::ADDR, &address.octets()),
        Some(IpAddr::V6(address)) => line.put(field::ADDR, &address.octets()),
        None => {}
    }
    if let Some(name) = &of.interface {
        match slots.iter().find(|slot| slot.interface == *name) {
            Some(slot) => line.put(field::INTERFACE, &[slot.number]),
            None => flags |= gateway_flags::ABSENT,
        }
    }
    if let Some(port) = of.socket {
        flags |= gateway_flags::SOCKET;
        line.put(field::PORT, &port.to_be_bytes());
    }
    line.put(field::FLAGS, &[flags]);
    line.0
}

fn choice(pool: &Pool) -> Choice {
    match pool.kind {
        Some(PoolKind::SourceHash(_)) => Choice::SourceHash,
        Some(PoolKind::RoundRobin | PoolKind::Random) if pool.sticky => Choice::SourceHash,
        Some(PoolKind::Random) => Choice::Random,
        Some(PoolKind::RoundRobin) => Choice::RoundRobin,
        Some(PoolKind::Bitmask) => Choice::Bitmask,
        // `least-states` is refused before.
        None | Some(PoolKind::LeastStates) => Choice::First,
    }
}

fn pool_of(route: &Route) -> Gateways {
    let key = match &route.pool.kind {
        Some(PoolKind::SourceHash(key)) => key.as_ref(),
        _ => None,
    };
    Gateways {
        is_reply: route.kind == RouteKind::ReplyTo,
        choice: choice(&route.pool),
        seed: source_hash_seed(key),
        ..Gateways::default()
    }
}

impl Builder<'_> {
    /// The number of a rule's pool, from 1 on; 0: it has none.
    pub(super) fn gateways(&mut self, rule: &Rule, anchor: &str) -> Result<u8, Refused> {
        if !routes(rule) {
            return Ok(0);
        }
        let table = self.names.typed_pool(rule, anchor).map_or(0, |index| index + 1);
        let mut pool = match rule.route.as_deref() {
            Some(route) => pool_of(route),
            None => Gateways {
                is_reply: rule.options.divert == Some(Divert::Reply),
                is_socket: true,
                ..Gateways::default()
            },
        };
        pool.table = table;
        for name in spread::tables_of(rule).filter(|_| table == 0) {
            self.names.named_table(anchor, name);
        }
        let found = networks(self.names.evaluator, rule, anchor)?;
        for (family, networks) in pool.families.iter_mut().zip(found) {
            for network in networks {
                let number = |gateway: &Gateway| {
                    let number = self.gateway_numbers.get(gateway).copied().unwrap_or(0);
                    u8::try_from(number).unwrap_or(0)
                };
                family.add(network.gateways.iter().map(number), network.weight);
            }
        }
        // Whose turn it is each rule counts for itself.
        let has_turns = pool.choice == Choice::RoundRobin && table == 0;
        let found = self.gateways.iter().position(|other| *other == pool && !has_turns);
        let at = found.unwrap_or(self.gateways.len());
        if at == self.gateways.len() {
            self.gateways.push(pool);
        }
        let is_long = |family: &Shares| family.numbers.len() > POOL_GATEWAY_COUNT_MAX as usize;
        if at >= POOL_COUNT_MAX || self.gateways[at].families.iter().any(is_long) {
            let message = format!(
                "the data path takes at most {POOL_COUNT_MAX} different pools of gateways, of at \
                 most {POOL_GATEWAY_COUNT_MAX} gateways each"
            );
            return Err(refused(rule.span, message));
        }
        Ok(u8::try_from(at + 1).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_an_address_or_an_interface_or_both() {
        let slots = [Slot { number: 7, interface: "wan0".to_owned() }];
        let of = |interface: Option<&str>, address: Option<&str>| {
            let address = address.map(|text| text.parse().unwrap());
            let interface = interface.map(ToOwned::to_owned);
            let gateway = Gateway { interface, address, socket: None };
            let line = line(&gateway, &slots);
            let at = |at: u32| line[at as usize];
            (line[0..4].to_vec(), at(field::INTERFACE), at(field::FLAGS), gateway.to_string())
        };
        let (address, absent) = (gateway_flags::ADDRESS, gateway_flags::ABSENT);
        let both = of(Some("wan0"), Some("192.0.2.1"));
        assert_eq!(both, (vec![192, 0, 2, 1], 7, address, "192.0.2.1@wan0".to_owned()));
        let alone = of(None, Some("2001:db8::1"));
        assert_eq!(alone, (vec![0x20, 1, 0xd, 0xb8], 0, address, "2001:db8::1".to_owned()));
        assert_eq!(of(Some("wan0"), None), (vec![0; 4], 7, 0, "@wan0".to_owned()));
        assert_eq!(of(Some("ppp0"), None), (vec![0; 4], 0, absent, "@ppp0".to_owned()));
    }
}
