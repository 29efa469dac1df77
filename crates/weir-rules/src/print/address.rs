//! Addresses, ports and pools.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};

use weir_wire::protocol::TCP;

use super::{Printer, bare, quoted};
use crate::ir::{Address, Pool, PoolPorts, Rule};
use crate::value::{Af, Comparison, Operator, PoolKind, with_modifiers};

/// What a pool is printed as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolForm {
    Nat,
    Rdr,
    Route,
}

/// An address as inet_ntop(3) writes it.
#[must_use]
pub fn ip(address: IpAddr) -> String {
    if let IpAddr::V6(v6) = address {
        let segments = v6.segments();
        // The form of RFC 4291, 2.2.3, for addresses that hold an IPv4 one.
        if segments[..6] == [0; 6] && segments[6] != 0 {
            let [.., a, b, c, d] = v6.octets();
            return format!("::{}", Ipv4Addr::new(a, b, c, d));
        }
    }
    address.to_string()
}

pub(super) fn network(out: &mut String, address: IpAddr, bits: u8) {
    out.push_str(&ip(address));
    if bits < if address.is_ipv4() { 32 } else { 128 } {
        let _ = write!(out, "/{bits}");
    }
}

/// An address of a rule of this family.
#[must_use]
pub fn address(address: &Address, af: Option<Af>) -> String {
    let mut out = String::new();
    match address {
        Address::Any => out.push_str("any"),
        Address::Network(address, bits) => network(&mut out, *address, *bits),
        Address::Range(first, last) => {
            let _ = write!(out, "{} - {}", ip(*first), ip(*last));
        }
        Address::Table(name) => {
            let _ = write!(out, "<{}>", bare(name));
        }
        Address::Dynamic(dynamic) => {
            let name = with_modifiers(&dynamic.name, dynamic.modifiers);
            let _ = write!(out, "({})", bare(&name));
            if dynamic.bits < af.unwrap_or(Af::Inet6).bits() {
                let _ = write!(out, "/{}", dynamic.bits);
            }
        }
        Address::NoRoute => out.push_str("no-route"),
        Address::UrpfFailed => out.push_str("urpf-failed"),
        Address::RouteLabel(label) => {
            let _ = write!(out, "route {}", quoted(label));
        }
        Address::Unresolved(name) => {
            let is_bits = |text: &str| text.parse::<u8>().is_ok();
            match name.rsplit_once('/').filter(|(_, bits)| is_bits(bits)) {
                Some((name, bits)) => {
                    let _ = write!(out, "{}/{bits}", bare(name));
                }
                None => out.push_str(&bare(name)),
            }
        }
    }
    out
}

/// ` OP a b`, with the values as given.
pub(super) fn comparison(out: &mut String, operator: Operator, first: &str, second: &str) {
    let _ = match operator {
        Operator::Inside => write!(out, " {first} >< {second}"),
        Operator::Outside => write!(out, " {first} <> {second}"),
        Operator::Equal => write!(out, " = {first}"),
        Operator::NotEqual => write!(out, " != {first}"),
        Operator::Less => write!(out, " < {first}"),
        Operator::LessEqual => write!(out, " <= {first}"),
        Operator::Greater => write!(out, " > {first}"),
        Operator::GreaterEqual => write!(out, " >= {first}"),
        Operator::Range => write!(out, " {first}:{second}"),
    };
}

fn port(out: &mut String, printer: &Printer<'_>, port: Comparison<u16>, protocol: Option<u8>) {
    out.push_str(" port");
    let by_name = matches!(port.operator, Operator::Equal | Operator::NotEqual)
        && !printer.options.numeric_ports;
    let name = by_name
        .then(|| printer.resolver.service_name(port.first, protocol == Some(TCP)))
        .flatten()
        .filter(|name| printer.resolver.service_port(name) == Some(port.first));
    let first = name.map_or_else(|| port.first.to_string(), |name| name.to_string());
    comparison(out, port.operator, &first, &port.second.to_string());
}

/// ` all`, or ` from … to …`.
pub(super) fn from_to(out: &mut String, printer: &Printer<'_>, rule: &Rule) {
    if rule.from.is_any() && rule.to.is_any() && rule.os.is_none() {
        out.push_str(" all");
        return;
    }
    for (word, peer) in [(" from ", &rule.from), (" to ", &rule.to)] {
        out.push_str(word);
        if peer.not {
            out.push_str("! ");
        }
        out.push_str(&address(&peer.address, rule.af));
        if let Some(comparison) = peer.port {
            port(out, printer, comparison, rule.protocol);
        }
        if let Some(os) = rule.os.as_ref().filter(|_| word == " from ") {
            let _ = write!(out, " os {}", quoted(os));
        }
    }
}

pub(super) fn pool(
    out: &mut String,
    printer: &Printer<'_>,
    pool: &Pool,
    af: Option<Af>,
    form: PoolForm,
) {
    let Pool { hosts, kind, sticky, ports, map_e, endpoint_independent } = pool;
    let many = hosts.len() > 1;
    out.push_str(if many { "{ " } else { "" });
    for (index, host) in hosts.iter().enumerate() {
        out.push_str(if index > 0 { ", " } else { "" });
        let text = host.address.as_ref().map(|target| address(target, af));
        match (&host.interface, text) {
            (Some(interface), Some(text)) => {
                let is_open = printer.dialect == crate::Dialect::OpenBsd;
                let is_plain = matches!(host.address, Some(Address::Network(address, bits))
                    if bits == if address.is_ipv4() { 32 } else { 128 });
                let _ = if is_open && is_plain && bare(interface) == **interface {
                    write!(out, "{text}@{interface}")
                } else {
                    write!(out, "({} {text})", bare(interface))
                };
            }
            (Some(interface), None) => out.push_str(&bare(interface)),
            (None, Some(text)) => out.push_str(&text),
            (None, None) => {}
        }
        if let Some(weight) = host.weight {
            let _ = write!(out, " weight {weight}");
        }
    }
    out.push_str(if many { " }" } else { "" });
    match (ports, form) {
        (PoolPorts::Range(first, last), PoolForm::Nat | PoolForm::Rdr) => {
            let _ = write!(out, " port {first}");
            if last != first {
                let _ = write!(out, ":{last}");
            }
        }
        (PoolPorts::Range(..) | PoolPorts::Default | PoolPorts::Static, _) => {}
    }
    match kind {
        None => {}
        Some(PoolKind::Bitmask) => out.push_str(" bitmask"),
        Some(PoolKind::Random) => out.push_str(" random"),
        Some(PoolKind::RoundRobin) => out.push_str(" round-robin"),
        Some(PoolKind::LeastStates) => out.push_str(" least-states"),
        Some(PoolKind::SourceHash(None)) => out.push_str(" source-hash"),
        Some(PoolKind::SourceHash(Some(key))) => {
            let is_hex = key.strip_prefix("0x").is_some_and(|hex| {
                !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
            });
            let key = if is_hex { key.to_string() } else { quoted(key) };
            let _ = write!(out, " source-hash {key}");
        }
    }
    out.push_str(if *sticky { " sticky-address" } else { "" });
    out.push_str(if *ports == PoolPorts::Static { " static-port" } else { "" });
    if let Some(map_e) = map_e {
        let _ = write!(out, " map-e-portset {}/{}/{}", map_e.offset, map_e.length, map_e.id);
    }
    out.push_str(if *endpoint_independent { " endpoint-independent" } else { "" });
}
