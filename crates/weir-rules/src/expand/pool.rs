//! Pools: their addresses, their type, and the ports of `rdr` with `:*`.

use super::address::Found;
use super::{Expanded, Expander, Reported};
use crate::ast::{self, PoolPortEnd, Translation};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Address, Pool, PoolHost, PoolPorts};
use crate::source::Span;
use crate::value::{Af, Comparison, MapEPortSet, Operator, PoolKind, Text};

/// What a pool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolUse {
    Nat,
    Rdr,
    Binat,
    AfToSource,
    AfToDestination,
    Route,
}

impl PoolUse {
    pub(super) fn of(kind: Translation) -> Self {
        match kind {
            Translation::Nat => Self::Nat,
            Translation::Rdr => Self::Rdr,
            Translation::Binat => Self::Binat,
        }
    }
}

/// A pool before a combination of lists decides its family.
#[derive(Debug, Clone)]
pub(super) struct PoolTemplate {
    pub(super) span: Span,
    pub(super) purpose: PoolUse,
    pub(super) hosts: Vec<(Option<Text>, Option<Found>)>,
    pub(super) kind: Option<PoolKind>,
    pub(super) sticky: bool,
    pub(super) static_port: bool,
    pub(super) ports: Option<(u16, u16)>,
    /// `port a:*`
    pub(super) has_star: bool,
    pub(super) map_e: Option<MapEPortSet>,
    pub(super) endpoint_independent: bool,
}

impl Expander<'_> {
    pub(super) fn pool(&mut self, pool: &ast::Pool, purpose: PoolUse) -> Expanded<PoolTemplate> {
        self.check_pool_words(pool, purpose)?;
        let mut hosts = Vec::new();
        for entry in &pool.hosts {
            let interface = entry.interface.as_ref().map(|name| name.value.clone());
            if let Some(name) = &entry.interface {
                self.interface_known(&name.value, name.span);
            }
            let Some(host) = &entry.host else {
                hosts.push((interface, None));
                continue;
            };
            let mut found = Vec::new();
            self.host(host, &mut found)?;
            for found in found {
                let wrong = found.not
                    || matches!(found.address, Address::NoRoute | Address::UrpfFailed)
                    || matches!(found.address, Address::RouteLabel(_) | Address::Range(..))
                    || found.address == Address::Any;
                if wrong {
                    let message = "this is not an address for a pool";
                    return self.fail(Code::BadPool, host.span, message);
                }
                // The scope of a gateway's address is the interface that it is reached by.
                let scope = found.scope.clone().filter(|_| purpose == PoolUse::Route);
                hosts.push((interface.clone().or(scope), Some(found)));
            }
        }
        let (mut ports, mut has_star) = (None, false);
        if let Some(port) = &pool.ports {
            let first = self.port(&port.first, port.span)?;
            let last = match &port.last {
                PoolPortEnd::None => first,
                PoolPortEnd::Star => {
                    has_star = true;
                    first
                }
                PoolPortEnd::Port(name) => self.port(name, port.span)?,
            };
            if last < first {
                let message = format!("invalid port range: {first} is above {last}");
                return self.fail(Code::BadPort, port.span, &message);
            }
            ports = Some((first, last));
        }
        Ok(PoolTemplate {
            span: pool.span,
            purpose,
            hosts,
            kind: pool.kind.as_ref().map(|kind| kind.value.clone()),
            sticky: pool.sticky,
            static_port: pool.static_port.is_some(),
            ports,
            has_star,
            map_e: pool.map_e.as_ref().map(|map_e| map_e.value),
            endpoint_independent: pool.endpoint_independent,
        })
    }

    fn check_pool_words(&mut self, pool: &ast::Pool, purpose: PoolUse) -> Expanded<()> {
        let is_nat = matches!(purpose, PoolUse::Nat | PoolUse::AfToSource);
        if let Some(span) = pool.static_port {
            if !is_nat {
                let message = "the `static-port` option is only valid with nat rules";
                return self.fail(Code::BadPool, span, message);
            }
            if pool.ports.is_some() {
                let message = "the `static-port` option can't be used when specifying a port range";
                return self.fail(Code::BadPool, span, message);
            }
        }
        if let Some(map_e) = &pool.map_e {
            let problem = if !is_nat {
                "the `map-e-portset` option is only valid with nat rules"
            } else if pool.static_port.is_some() {
                "the `map-e-portset` option can't be used with `static-port`"
            } else if pool.ports.is_some() {
                "the `map-e-portset` option can't be used when specifying a port range"
            } else {
                return Ok(());
            };
            return self.fail(Code::BadPool, map_e.span, problem);
        }
        if let Some(ports) = pool.ports.as_ref().filter(|_| purpose == PoolUse::Binat) {
            return self.fail(Code::BadPool, ports.span, "`binat` takes no ports");
        }
        Ok(())
    }

    /// The pool for one family. Addresses of the other one are left out.
    pub(super) fn pool_of(
        &mut self,
        pool: &PoolTemplate,
        af: Option<Af>,
        redirected: Option<Comparison<u16>>,
    ) -> Expanded<(Pool, Option<Af>)> {
        let host_af = pool.hosts.iter().find_map(|(_, host)| host.as_ref()?.af);
        let af = af.or(host_af);
        let fits = |found: &Found| found.af.is_none() || found.af == af;
        let hosts: Vec<PoolHost> = pool
            .hosts
            .iter()
            .filter(|(_, host)| host.as_ref().is_none_or(fits))
            .map(|(interface, host)| PoolHost {
                interface: interface.clone(),
                address: host.as_ref().map(|host| clipped(&host.address, af)),
                weight: host.as_ref().and_then(|host| host.weight),
            })
            .collect();
        if hosts.is_empty() {
            let what = if pool.purpose == PoolUse::Route { "routing" } else { "translation" };
            let message = format!("no {what} address with matching address family found");
            return self.fail(Code::BadPool, pool.span, &message);
        }
        let kind = self.pool_kind(pool, &hosts)?;
        let ports = match (pool.static_port, pool.ports) {
            (true, _) => PoolPorts::Static,
            (_, None) => PoolPorts::Default,
            (_, Some(ports)) if ports == PoolPorts::NAT && pool.purpose == PoolUse::Nat => {
                PoolPorts::Default
            }
            (_, Some((first, last))) => {
                PoolPorts::Range(first, self.star(pool, first, last, redirected)?)
            }
        };
        let (map_e, endpoint_independent) = (pool.map_e, pool.endpoint_independent);
        let sticky = pool.sticky;
        Ok((Pool { hosts, kind, sticky, ports, map_e, endpoint_independent }, af))
    }

    /// `port a:*` is as long as the range that is redirected.
    fn star(
        &mut self,
        pool: &PoolTemplate,
        first: u16,
        last: u16,
        redirected: Option<Comparison<u16>>,
    ) -> Expanded<u16> {
        let range = redirected.filter(|ports| ports.operator == Operator::Range);
        let Some(range) = range.filter(|_| pool.has_star) else {
            return Ok(last);
        };
        first.checked_add(range.second - range.first).ok_or_else(|| {
            let message = format!("there are too few ports from {first} up: 65535 is the last");
            self.diagnostics.push(Diagnostic::error(Code::BadPort, pool.span, message));
            Reported
        })
    }

    /// The type: given, or round-robin where there may be several addresses.
    fn pool_kind(&mut self, pool: &PoolTemplate, hosts: &[PoolHost]) -> Expanded<Option<PoolKind>> {
        let is_table = |host: &PoolHost| matches!(host.address, Some(Address::Table(_)));
        let is_many = |host: &PoolHost| match &host.address {
            Some(Address::Dynamic(dynamic)) => dynamic.may_be_several(),
            _ => false,
        };
        let counts_dynamic = matches!(pool.purpose, PoolUse::Nat | PoolUse::Rdr);
        let several = hosts.len() > 1
            || hosts.iter().any(is_table)
            || (counts_dynamic && hosts.iter().any(is_many));
        let Some(kind) = &pool.kind else {
            return Ok(several.then_some(PoolKind::RoundRobin));
        };
        let in_turn = matches!(kind, PoolKind::RoundRobin);
        let takes_tables = in_turn || *kind == PoolKind::LeastStates || {
            self.dialect == crate::Dialect::OpenBsd
                && matches!(kind, PoolKind::Random | PoolKind::SourceHash(_))
        };
        if hosts.iter().any(is_table) && !takes_tables {
            return self.fail(
                Code::BadPool,
                pool.span,
                "tables are not supported by this pool type",
            );
        }
        if hosts.len() > 1 && !in_turn && *kind != PoolKind::LeastStates {
            let message = "only round-robin is valid for multiple addresses";
            return self.fail(Code::BadPool, pool.span, message);
        }
        Ok(Some(kind.clone()))
    }
}

/// Bits of a dynamic address that its family does not have do not count.
fn clipped(address: &Address, af: Option<Af>) -> Address {
    match address {
        Address::Dynamic(dynamic) if af == Some(Af::Inet) && dynamic.bits > 32 => {
            let mut dynamic = dynamic.clone();
            dynamic.bits = 128;
            Address::Dynamic(dynamic)
        }
        other => other.clone(),
    }
}
