//! `route-to` and `reply-to`: the gateways of a ruleset, which states keep by numbers, and the pool
//! that a rule takes one of them from, as `struct weir_fw_gateways`. So it is with the sockets of
//! `divert-to` and `divert-reply`.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use weir_bpf::firewall::layout::{self, POOL_GATEWAY_COUNT_MAX, gateway as field, gateway_flags};
use weir_rules::evaluate::source_hash_seed;
use weir_rules::ir::{Action, Address, Pool, PoolHost, Route, Rule};
use weir_rules::value::{Divert, PoolKind, RouteKind};

use super::known::{Gateway, Known};
use super::numbers::Exhausted;
use super::{Builder, Input, Refused, Slot, refused, typed};
use crate::image::{Bytes, Choice, Gateways};

/// Gateways that states can keep, those of earlier rulesets that have states included.
const GATEWAY_COUNT_MAX: usize = layout::GATEWAY_COUNT_MAX as usize;
/// Different pools of one image.
const POOL_COUNT_MAX: usize = u8::MAX as usize;

fn gateway(host: &PoolHost) -> Gateway {
    let address = match host.address {
        Some(Address::Network(address, _)) => Some(address),
        // Refused before.
        _ => None,
    };
    Gateway { interface: host.interface.as_ref().map(ToString::to_string), address, socket: None }
}

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
    (rule.route.is_some() || rule.options.divert.is_some()) && rule.action == Action::Pass
}

fn gateways(rule: &Rule) -> impl Iterator<Item = Gateway> {
    let hosts = rule.route.iter().flat_map(|route| &route.pool.hosts);
    // Next hops of a typed table are given by that.
    let hosts = hosts.filter(|host| !matches!(host.address, Some(Address::Table(_))));
    hosts.map(gateway).chain(rule.options.divert.map(socket))
}

/// A link-local address without its interface.
fn without_link(rule: &Rule) -> Option<IpAddr> {
    gateways(rule).find_map(|gateway| match gateway {
        Gateway { interface: None, address: Some(IpAddr::V6(address)), socket: None } => {
            address.is_unicast_link_local().then_some(address.into())
        }
        _ => None,
    })
}

/// The numbers of the gateways that rules name.
pub(super) fn numbers(
    input: &Input<'_>,
    known: &mut Known,
) -> Result<HashMap<Gateway, u16>, Refused> {
    let rules = || input.evaluator.rules().filter(|rule| routes(rule));
    let mut given: BTreeSet<Gateway> = rules().flat_map(gateways).collect();
    given.append(&mut typed::gateways_of(input));
    if let Some((address, rule)) = rules().find_map(|rule| Some((without_link(rule)?, rule))) {
        let message = format!(
            "`{address}` may be on every link: name its interface, as `{address}%em0`, or in \
             FreeBSD's words `(em0 {address})`"
        );
        return Err(refused(rule.span, message));
    }
    let assigned = known.gateways.assign(&given, GATEWAY_COUNT_MAX);
    assigned.map_err(|Exhausted { given_count, held_count }| {
        let span = rules().next().map(|rule| rule.span);
        let message = format!(
            "states keep at most {GATEWAY_COUNT_MAX} different gateways and sockets, and rules \
             have {given_count}, besides {held_count} of earlier rulesets that states still have"
        );
        refused(span.unwrap_or_default(), message)
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

fn line(of: &Gateway, slots: &[Slot]) -> [u8; field::SIZE_BYTES as usize] {
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
        None | Some(PoolKind::Bitmask | PoolKind::LeastStates) => Choice::First,
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
        for gateway in gateways(rule) {
            let number = self.gateway_numbers.get(&gateway).copied().unwrap_or(0);
            let number = u8::try_from(number).unwrap_or(0);
            let of_family =
                |is_ipv6: bool| gateway.address.is_none_or(|it| it.is_ipv6() == is_ipv6);
            for (family, numbers) in pool.numbers.iter_mut().enumerate() {
                if of_family(family == 1) {
                    numbers.push(number);
                }
            }
        }
        // Whose turn it is each rule counts for itself.
        let has_turns = pool.choice == Choice::RoundRobin && table == 0;
        let found = self.gateways.iter().position(|other| *other == pool && !has_turns);
        let at = found.unwrap_or(self.gateways.len());
        if at == self.gateways.len() {
            self.gateways.push(pool);
        }
        let is_long = |numbers: &Vec<u8>| numbers.len() > POOL_GATEWAY_COUNT_MAX as usize;
        if at >= POOL_COUNT_MAX || self.gateways[at].numbers.iter().any(is_long) {
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
