//! `route-to`, `reply-to` and `dup-to`: FreeBSD names the interface beside the next hop, and puts
//! them in front of the addresses; OpenBSD has taken the next hop alone since 6.9, asks its routing
//! table for the interface, and has them among the options behind the addresses.
//!
//! A next hop in the network of an interface (or at the other end of its link) leaves by that
//! interface on both systems. So a route is rewritten where the facts of the machine say so, and
//! refused where they do not.

use std::net::IpAddr;

use super::Work;
use crate::ast::{HostKind, PoolHost, Rule, Statement, StatementKind};
use crate::evaluate::interface_to;
use crate::ir::Address;
use crate::resolve::Resolver;
use crate::source::{Span, offset};

/// Whether a statement is a rule with a route.
pub(super) fn is_route(statement: &Statement) -> bool {
    matches!(&statement.kind, StatementKind::Rule(rule) if rule.filter.route.is_some())
}

/// Puts the route of a FreeBSD rule where OpenBSD has it, without interfaces.
pub(super) fn to_openbsd(work: &mut Work<'_>, rule: &Rule, span: Span) {
    let Some(route) = &rule.filter.route else { return };
    if !work.is_here(span) {
        return;
    }
    let whole = route.kind.span.to(route.pool.span);
    for (interface, gateway) in hops(work, span) {
        let Some(gateway) = gateway else {
            let message = "OpenBSD's route-to and its like need the address of a next hop";
            let help = "write `(interface address)`, and convert it then";
            return work.refuse(whole, message, help);
        };
        let name = interface_to(gateway, work.resolver);
        if interface.as_deref() != name || name.is_none() {
            let message = format!(
                "OpenBSD sends to {gateway} by the interface of its route there, and the facts do \
                 not say that this is {}",
                interface.as_deref().unwrap_or("the right one")
            );
            let help = "give the router's interfaces with --facts FILE";
            return work.refuse(whole, message, help);
        }
    }
    let mut text = String::new();
    let mut at = route.kind.span.start;
    for host in &route.pool.hosts {
        let Some((open, inner, close)) = parts(work, host, whole) else {
            let message = "this route comes from a macro";
            return work.refuse(whole, message, "write it in the rule");
        };
        text.push_str(work.text(at, open));
        text.push_str(work.text(inner.start, inner.end));
        at = close;
    }
    text.push_str(work.text(at, whole.end));
    moved(work, whole, span.end, &text);
}

/// Puts the route of an OpenBSD rule where FreeBSD has it, with interfaces.
pub(super) fn to_freebsd(work: &mut Work<'_>, rule: &Rule, span: Span) {
    let Some(route) = &rule.filter.route else { return };
    if !work.is_here(span) {
        return;
    }
    let whole = route.kind.span.to(route.pool.span);
    let Some(place) = behind_interfaces(work, rule, span) else {
        let message = "FreeBSD writes this in front of the addresses, and the beginning of the \
                       rule comes from a macro";
        return work.refuse(whole, message, "write direction and interface in the rule");
    };
    let hops = hops(work, span);
    let mut text = String::new();
    let mut at = route.kind.span.start;
    for host in &route.pool.hosts {
        let span = host.host.as_ref().map_or(whole, |host| host.span);
        if span == route.kind.span {
            return work.refuse(whole, "this route comes from a macro", "write it in the rule");
        }
        // The interface stands there already, as OpenBSD had it before 6.9.
        if let Some((open, _, close)) = parts(work, host, whole) {
            text.push_str(work.text(at, close));
            debug_assert!(at <= open, "hosts come in order");
            at = close;
            continue;
        }
        let words = work.text(span.start, span.end);
        let named = match (&host.interface, words.split_once('@')) {
            (Some(_), Some((address, interface))) => Some(format!("({interface} {address})")),
            (None, _) => interface_of(&hops, host, work.resolver)
                .map(|interface| format!("({interface} {words})")),
            _ => None,
        };
        let Some(named) = named else {
            let message = "FreeBSD wants the interface of each next hop, and the facts do not say \
                           which leads there";
            let help = "write addresses as they are, and give the router's interfaces with \
                        --facts FILE";
            return work.refuse(whole, message, help);
        };
        text.push_str(work.text(at, span.start));
        text.push_str(&named);
        at = span.end;
    }
    text.push_str(work.text(at, whole.end));
    moved(work, whole, place, &text);
}

/// Next hops of the expanded rules of a statement, each with its interface.
fn hops(work: &Work<'_>, span: Span) -> Vec<(Option<String>, Option<IpAddr>)> {
    let routes = work.expanded(span).iter().filter_map(|rule| rule.route.as_ref());
    let hosts = routes.flat_map(|route| &route.pool.hosts);
    let mut hops: Vec<_> = hosts
        .map(|host| {
            let address = host.address.as_ref().and_then(single);
            (host.interface.as_deref().map(str::to_owned), address)
        })
        .collect();
    hops.dedup();
    hops
}

/// The address, if it is one alone.
fn single(address: &Address) -> Option<IpAddr> {
    match address {
        Address::Network(network, 32) if network.is_ipv4() => Some(*network),
        Address::Network(network, 128) => Some(*network),
        _ => None,
    }
}

/// The interface of a host that is written as an address or as a macro of one.
fn interface_of<'a>(
    hops: &[(Option<String>, Option<IpAddr>)],
    host: &PoolHost,
    resolver: &'a dyn Resolver,
) -> Option<&'a str> {
    let HostKind::Address(address, None) = &host.host.as_ref()?.kind else {
        return None;
    };
    let is_hop = hops.iter().any(|(_, hop)| hop.as_ref() == Some(address));
    interface_to(*address, resolver).filter(|_| is_hop)
}

/// Of `(if address)`: where it begins, the address, and where it ends.
fn parts(work: &Work<'_>, host: &PoolHost, whole: Span) -> Option<(u32, Span, u32)> {
    let (interface, address) = (host.interface.as_ref()?.span, host.host.as_ref()?.span);
    if interface == address || interface.start < whole.start || address.end > whole.end {
        return None;
    }
    let before = work.text(whole.start, interface.start).trim_end();
    let open = before.strip_suffix('(')?.len();
    let after = work.text(address.end, whole.end);
    let close = after.len() - after.trim_start().strip_prefix(')')?.len();
    Some((whole.start + offset(open), address, address.end + offset(close)))
}

/// The place behind `on` and its interfaces, or behind direction, `log` and `quick` without them.
fn behind_interfaces(work: &Work<'_>, rule: &Rule, span: Span) -> Option<u32> {
    if let Some(last) = rule.filter.interfaces.last() {
        let end = last.name.span.end;
        let rest = work.text(end, span.end);
        let skipped = rest.len() - rest.trim_start().len();
        let is_list = rest.trim_start().starts_with('}');
        return Some(if is_list { end + offset(skipped + 1) } else { end });
    }
    let start = rule.action.span.end;
    let rest = work.text(start, span.end);
    let mut at = 0;
    let mut has_direction = false;
    loop {
        let word = rest.get(at..)?.trim_start();
        let size = word.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(word.len());
        match word.get(..size)? {
            "in" | "out" => has_direction = true,
            "log" | "quick" => {}
            _ => return has_direction.then_some(start + offset(at)),
        }
        at = rest.len() - word.len() + size;
    }
}

/// Takes the words out of their place, with the blanks before them, and puts `text` at another.
fn moved(work: &mut Work<'_>, whole: Span, place: u32, text: &str) {
    let before = work.text(0, whole.start);
    let start = offset(before.trim_end_matches([' ', '\t']).len());
    let from = Span { start, ..whole };
    if (from.start..=from.end).contains(&place) {
        return work.edit(from, format!(" {text}"));
    }
    work.edit(from, "");
    work.edit(Span { start: place, end: place, ..whole }, format!(" {text}"));
}
