//! Looking up hosts, ports, protocols and users.

use std::net::IpAddr;

use super::{Expanded, Expander, Reported};
use crate::ast::{Host, HostKind, IdComparison, Name, PortComparison};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Address, Dynamic};
use crate::names;
use crate::resolve;
use crate::source::Span;
use crate::value::{Af, Comparison, Modifiers, Operator, Spanned, Text, masked, with_modifiers};

/// An address after lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) not: bool,
    pub(super) address: Address,
    pub(super) af: Option<Af>,
    /// The interface that a link-local address is of.
    pub(super) scope: Option<Text>,
    pub(super) weight: Option<u16>,
}

impl Found {
    pub(super) fn any() -> Self {
        Self { not: false, address: Address::Any, af: None, scope: None, weight: None }
    }
}

impl Expander<'_> {
    /// All addresses of a list; any if the list is empty.
    pub(super) fn hosts(&mut self, hosts: &[Host]) -> Expanded<Vec<Found>> {
        if hosts.is_empty() {
            return Ok(vec![Found::any()]);
        }
        let mut found = Vec::new();
        let mut failed = false;
        for host in hosts {
            if host.weight.is_some() {
                let message = "`weight` is for the addresses of a pool";
                return self.fail(Code::BadAddress, host.span, message);
            }
            failed |= self.host(host, &mut found).is_err();
        }
        if failed { Err(Reported) } else { Ok(found) }
    }

    /// `antispoof` for an interface that has no address.
    pub(super) fn unspoofed(&mut self, name: &Text, span: Span) {
        if !self.unknown.insert(format!("antispoof {name}").into()) {
            return;
        }
        let message = format!("`{name}` has no address, and `antispoof` adds no rule for it");
        let help = format!("`antispoof for ({name})` follows the addresses that it gets later");
        let problem = Diagnostic::warning(Code::UnresolvedHost, span, message).help(help);
        let is_interface = resolve::interface_exists(self.resolver, name);
        self.push_nearest(problem, name, is_interface);
    }

    pub(super) fn host(&mut self, host: &Host, found: &mut Vec<Found>) -> Expanded<()> {
        let mut push = |address: Address, scope: Option<Text>| {
            let af = address.af();
            found.push(Found { not: host.not, address, af, scope, weight: host.weight });
        };
        match &host.kind {
            HostKind::Any => push(Address::Any, None),
            HostKind::NoRoute => push(Address::NoRoute, None),
            HostKind::UrpfFailed => push(Address::UrpfFailed, None),
            HostKind::Address(address, scope) => {
                let bits = host.bits.unwrap_or(width(*address));
                push(network(*address, bits), scope.clone());
            }
            HostKind::Range(first, last) => push(Address::Range(*first, *last), None),
            HostKind::Table(name) => push(Address::Table(name.clone()), None),
            HostKind::RouteLabel(label) => push(Address::RouteLabel(label.clone()), None),
            HostKind::Dynamic(name, modifiers) => {
                let bits = host.bits.unwrap_or(128);
                let dynamic = Dynamic { name: name.clone(), modifiers: *modifiers, bits };
                push(Address::Dynamic(dynamic), None);
                self.interface_known(name, host.span);
            }
            HostKind::Name(name, modifiers) => return self.named(host, name, *modifiers, found),
        }
        Ok(())
    }

    /// A name: an interface's addresses, or a host's.
    fn named(
        &mut self,
        host: &Host,
        name: &Text,
        modifiers: Modifiers,
        found: &mut Vec<Found>,
    ) -> Expanded<()> {
        let before = found.len();
        let is_host = Modifiers { no_alias: false, ..modifiers } == Modifiers::default();
        let mut push = |address: IpAddr, bits: u8, scope: Option<Text>| {
            let address = network(address, bits);
            let af = address.af();
            found.push(Found { not: host.not, address, af, scope, weight: host.weight });
        };
        // Nobody is asked for a host of an interface's name, also if that has no address yet.
        let is_interface = resolve::interface_exists(self.resolver, name);
        if is_interface {
            if (modifiers.network || modifiers.broadcast) && host.bits.is_some() {
                let message = "a network or broadcast address cannot have a prefix length as well";
                return self.fail(Code::BadAddress, host.span, message);
            }
            for (address, bits, scope) in interface_addresses(self.resolver, name, modifiers) {
                let bits = match host.bits {
                    Some(bits) => bits.min(width(address)),
                    None if modifiers.network => bits,
                    None => width(address),
                };
                push(address, bits, scope);
            }
        } else if is_host {
            for address in host_addresses(self.resolver, name, modifiers) {
                let bits = host.bits.unwrap_or(128).min(width(address));
                push(address, bits, None);
            }
        }
        if found.len() == before {
            let written = with_modifiers(name, modifiers);
            let advice = match (is_interface, is_host) {
                (true, _) => Some(format!("the interface `{name}` has no such address")),
                (false, true) => Some(self.resolver.host_advice(name)),
                (false, false) => None,
            };
            self.unresolved(&written, is_interface, advice, host.span);
            let written = match host.bits {
                Some(bits) => format!("{written}/{bits}").into(),
                None => written,
            };
            let address = Address::Unresolved(written);
            let weight = host.weight;
            found.push(Found { not: host.not, address, af: None, scope: None, weight });
        }
        Ok(())
    }

    fn unresolved(&mut self, name: &Text, is_interface: bool, advice: Option<String>, span: Span) {
        if !self.unknown.insert(format!("host {name}").into()) {
            return;
        }
        let message = format!("no address is known for `{name}`");
        let mut problem =
            Diagnostic::warning(Code::UnresolvedHost, span, message).label("nothing matches it");
        if let Some(advice) = advice {
            problem = problem.help(advice);
        }
        self.push_nearest(problem, name, is_interface);
    }

    /// Reports what has no address, with the interface that may be meant: one that is there is.
    fn push_nearest(&mut self, problem: Diagnostic, name: &str, is_interface: bool) {
        let names = self.resolver.interfaces().iter().map(|interface| interface.name.as_str());
        self.diagnostics.push(problem.nearest(name, names.filter(|_| !is_interface)));
    }

    pub(super) fn ports(
        &mut self,
        ports: &[PortComparison],
    ) -> Expanded<Vec<Option<Comparison<u16>>>> {
        if ports.is_empty() {
            return Ok(vec![None]);
        }
        let mut found = Vec::new();
        for port in ports {
            let first = self.port(&port.first, port.span)?;
            let second = self.port(&port.second, port.span)?;
            if port.operator == Operator::Range && first > second {
                let message = format!("invalid port range: {first} is above {second}");
                return self.fail(Code::BadPort, port.span, &message);
            }
            found.push(Some(Comparison { operator: port.operator, first, second }));
        }
        Ok(found)
    }

    pub(super) fn port(&mut self, name: &Name, span: Span) -> Expanded<u16> {
        match name {
            Name::Number(number) => u16::try_from(*number).map_err(|_| {
                let message = format!("{number} is not a port: ports are 0 to 65535");
                self.diagnostics.push(Diagnostic::error(Code::BadPort, span, message));
                Reported
            }),
            Name::Name(name) => self.resolver.service_port(name).ok_or_else(|| {
                let message = format!("unknown port `{name}`");
                let known = names::SERVICES.iter().map(|(name, ..)| *name);
                let problem = Diagnostic::error(Code::BadPort, span, message);
                self.diagnostics.push(problem.nearest(name, known));
                Reported
            }),
        }
    }

    /// The numbers of protocols; `None` for any.
    pub(super) fn protocols(&mut self, list: &[Spanned<Name>]) -> Expanded<Vec<Option<u8>>> {
        let mut found = Vec::new();
        for protocol in list {
            let number = match &protocol.value {
                Name::Number(number) => u8::try_from(*number).ok(),
                Name::Name(name) => self.resolver.protocol_number(name),
            };
            let Some(number) = number else {
                let written = match &protocol.value {
                    Name::Number(number) => number.to_string(),
                    Name::Name(name) => name.to_string(),
                };
                let message = format!("unknown protocol `{written}`");
                let known = names::PROTOCOLS.iter().map(|(name, _)| *name);
                let problem = Diagnostic::error(Code::UnknownProtocol, protocol.span, message);
                self.diagnostics.push(problem.nearest(&written, known));
                return Err(Reported);
            };
            if number == 0 {
                let message = "protocol 0 cannot be used: it means any protocol, for which `proto` \
                     is left out";
                return self.fail(Code::UnknownProtocol, protocol.span, message);
            }
            found.push(Some(number));
        }
        Ok(if found.is_empty() { vec![None] } else { found })
    }

    pub(super) fn identities(
        &mut self,
        list: &[IdComparison],
        is_group: bool,
    ) -> Expanded<Vec<Option<Comparison<u32>>>> {
        let mut found = Vec::new();
        for host in list {
            let first = self.identity(&host.first, is_group, host.span)?;
            let second = self.identity(&host.second, is_group, host.span)?;
            let has_unknown = first == u32::MAX || second == u32::MAX;
            if has_unknown && !matches!(host.operator, Operator::Equal | Operator::NotEqual) {
                let message = "`unknown` takes no operator but `=` and `!=`";
                return self.fail(Code::BadValue, host.span, message);
            }
            found.push(Some(Comparison { operator: host.operator, first, second }));
        }
        Ok(if found.is_empty() { vec![None] } else { found })
    }

    fn identity(&mut self, name: &Name, is_group: bool, span: Span) -> Expanded<u32> {
        let (what, number) = match name {
            Name::Number(number) => {
                let id = u32::try_from(*number).ok().filter(|id| *id != u32::MAX);
                (number.to_string(), id)
            }
            Name::Name(name) if &**name == "unknown" => (String::new(), Some(u32::MAX)),
            Name::Name(name) if is_group => (name.to_string(), self.resolver.group(name)),
            Name::Name(name) => (name.to_string(), self.resolver.user(name)),
        };
        number.ok_or_else(|| {
            let kind = if is_group { "group" } else { "user" };
            let message = format!("unknown {kind} `{what}`");
            let problem = Diagnostic::error(Code::UnknownUser, span, message);
            self.diagnostics.push(problem.help("give its number"));
            Reported
        })
    }
}

/// The addresses of a host; with `:0` the first of each family.
fn host_addresses(
    resolver: &dyn resolve::Resolver,
    name: &str,
    modifiers: Modifiers,
) -> Vec<IpAddr> {
    let mut addresses = resolver.host(name);
    if modifiers.no_alias {
        let (mut has_v4, mut has_v6) = (false, false);
        addresses.retain(|address| {
            let seen = if address.is_ipv4() { &mut has_v4 } else { &mut has_v6 };
            !std::mem::replace(seen, true)
        });
    }
    addresses
}

/// The addresses of an interface or group: address, bits of its network, scope.
#[must_use]
pub fn interface_addresses(
    resolver: &dyn resolve::Resolver,
    name: &str,
    modifiers: Modifiers,
) -> Vec<(IpAddr, u8, Option<Text>)> {
    let mut found = Vec::new();
    for interface in resolve::interfaces_named(resolver, name) {
        let (mut has_v4, mut has_v6) = (false, false);
        for entry in &interface.addresses {
            let is_v4 = entry.address.is_ipv4();
            let seen = if is_v4 { &mut has_v4 } else { &mut has_v6 };
            if modifiers.network && entry.is_link_local() {
                continue;
            }
            if modifiers.no_alias && (*seen || entry.is_link_local()) {
                continue;
            }
            let address = if modifiers.broadcast {
                entry.broadcast.filter(|_| is_v4)
            } else if modifiers.peer {
                entry.peer
            } else {
                Some(entry.address)
            };
            let Some(address) = address else { continue };
            *seen = true;
            let scope = entry.is_link_local().then(|| Text::from(interface.name.as_str()));
            found.push((address, entry.bits, scope));
        }
    }
    found
}

/// Bits of an address.
pub(crate) fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The network of an address. The whole of IPv4 or IPv6 is `any`, as pf has no other mark for it.
fn network(address: IpAddr, bits: u8) -> Address {
    let masked = masked(address, bits);
    Address::Network(masked, bits)
}
