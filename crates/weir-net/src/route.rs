//! Static routes in the main table, networks all of whose addresses are local, and packets that are
//! taken by their mark.
//!
//! It never replaces a route.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{IpVersion, RouteMessageBuilder};

/// The table that says which addresses are this namespace's (`RT_TABLE_LOCAL` of
/// linux/rtnetlink.h).
const TABLE_LOCAL: u32 = 255;
/// The networks of all addresses, one of each family.
const EVERYTHING: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
/// The interface that such routes lead to.
const LOOPBACK: &str = "lo";

use crate::address::Prefix;
use crate::netlink::{Netlink, NetlinkError};

/// A unicast route of the main table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// The destination network.
    pub destination: Prefix,
    /// The gateway; `None` if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The index of the outgoing interface; `None` for a multipath route.
    pub ifindex: Option<u32>,
}

impl Route {
    /// Whether all that no other route is for goes out by this interface.
    #[must_use]
    pub fn is_default_of(&self, ifindex: u32) -> bool {
        self.destination.length() == 0 && self.ifindex == Some(ifindex)
    }
}

impl Netlink {
    /// Adds a static route to `destination` through the interface, by way of `gateway`, or to
    /// addresses on the link itself if there is none. Host bits of the destination are ignored.
    ///
    /// # Errors
    ///
    /// If there is no such interface, the gateway is of the other address family or not
    /// reachable, the route exists, or the kernel refuses.
    pub fn add_route(
        &self,
        destination: Prefix,
        gateway: Option<IpAddr>,
        link: &str,
    ) -> Result<(), NetlinkError> {
        let destination = destination.network();
        let index = self.ifindex(link)?;
        let action = || match gateway {
            Some(gateway) => {
                format!("add route to {destination} via {gateway} on interface `{link}`")
            }
            None => format!("add route to {destination} on interface `{link}`"),
        };
        let message = route_message(destination, gateway, index)
            .map_err(|reason| NetlinkError::BadValue { action: action(), reason })?;
        self.perform(action, self.handle().route().add(message).execute())
    }

    /// Makes every address of a network this namespace's, as `ip route add local NETWORK dev lo`
    /// does: sockets can be bound to them, and what is sent to them is taken. Returns whether it
    /// was not so before. Host bits are ignored.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn add_local_route(&self, network: Prefix) -> Result<bool, NetlinkError> {
        let network = network.network();
        let message = self.local_route(network.address(), network.length(), TABLE_LOCAL)?;
        let action = || format!("make all addresses of {network} local");
        let added = self.perform(action, self.handle().route().add(message).execute());
        unless(nix::Error::EEXIST, added)
    }

    /// Takes back what [`Netlink::add_local_route`] has done. Returns whether it was still there.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn delete_local_route(&self, network: Prefix) -> Result<bool, NetlinkError> {
        let network = network.network();
        let message = self.local_route(network.address(), network.length(), TABLE_LOCAL)?;
        let action = || format!("take back that all addresses of {network} are local");
        let deleted = self.perform(action, self.handle().route().del(message).execute());
        unless(nix::Error::ESRCH, deleted)
    }

    /// Has packets with a mark taken by this namespace, whoever they are for: a policy rule of that
    /// priority leads to a routing table with the mark's number, in which all addresses are local,
    /// as `ip rule add fwmark MARK lookup MARK` and `ip route add local default dev lo table MARK`
    /// do for both families. What is there stays.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn take_marked(&self, mark: u32, priority: u32) -> Result<(), NetlinkError> {
        let action = || format!("have packets with mark {mark:#x} taken");
        for network in EVERYTHING {
            let message = self.local_route(network, 0, mark)?;
            let added = self.perform(action, self.handle().route().add(message).execute());
            unless(nix::Error::EEXIST, added)?;
            let mut request = self.handle().rule().add();
            *request.message_mut() = marked_rule_message(network, mark, priority);
            unless(nix::Error::EEXIST, self.perform(action, request.execute()))?;
        }
        Ok(())
    }

    /// Takes back what [`Netlink::take_marked`] has done, as far as it is there.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn leave_marked(&self, mark: u32, priority: u32) -> Result<(), NetlinkError> {
        let action = || format!("have packets with mark {mark:#x} no longer taken");
        for network in EVERYTHING {
            let message = marked_rule_message(network, mark, priority);
            let deleted = self.perform(action, self.handle().rule().del(message).execute());
            unless(nix::Error::ENOENT, deleted)?;
            let message = self.local_route(network, 0, mark)?;
            let deleted = self.perform(action, self.handle().route().del(message).execute());
            unless(nix::Error::ESRCH, deleted)?;
        }
        Ok(())
    }

    /// A route of a table by which a network's addresses are this namespace's.
    fn local_route(
        &self,
        network: IpAddr,
        length: u8,
        table: u32,
    ) -> Result<RouteMessage, NetlinkError> {
        let index = self.ifindex(LOOPBACK)?;
        Ok(local_route_message(network, length, table, index))
    }

    /// The unicast routes of the main table, those that the kernel made included.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn routes(&self) -> Result<Vec<Route>, NetlinkError> {
        let action = || "list the routes".to_owned();
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let mut messages = self.collect(action, self.handle().route().get(v4).execute())?;
        messages.extend(self.collect(action, self.handle().route().get(v6).execute())?);
        Ok(messages.iter().filter_map(parse_route).collect())
    }
}

/// What besides the destination the way of an IPv4 packet depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// A policy rule that does not hold for all packets.
    Rule,
    /// A route with several ways, or with a next hop object, which may have several.
    Multipath,
    /// A route for a type of service.
    Tos,
}

impl std::fmt::Display for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rule => "a policy rule chooses routes by more than the destination",
            Self::Multipath => "a route has several ways or a next hop object",
            Self::Tos => "a route is for a type of service",
        })
    }
}

impl Netlink {
    /// What besides the destination the way of an IPv4 packet depends on; `None`: nothing. All
    /// rules and all routes are looked at.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn fork(&self) -> Result<Option<Fork>, NetlinkError> {
        let action = || "list the policy rules".to_owned();
        let rules = self.collect(action, self.handle().rule().get(IpVersion::V4).execute())?;
        if rules.iter().any(is_selective) {
            return Ok(Some(Fork::Rule));
        }
        let action = || "list the routes".to_owned();
        let all = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let routes = self.handle().route().get(all).execute();
        let forks = self.collect(action, routes.map_ok(|route| fork_of(&route)))?;
        Ok(forks.into_iter().flatten().next())
    }
}

/// Whether a rule holds for some packets alone.
fn is_selective(rule: &RuleMessage) -> bool {
    let header = &rule.header;
    let is_any = |attribute: &RuleAttribute| {
        use RuleAttribute::{Priority, Protocol, SuppressIfGroup, SuppressPrefixLen, Table};
        matches!(
            attribute,
            Priority(_) | Protocol(_) | SuppressIfGroup(_) | SuppressPrefixLen(_) | Table(_)
        )
    };
    header.src_len != 0
        || header.dst_len != 0
        || header.tos != 0
        || !rule.attributes.iter().all(is_any)
}

fn fork_of(route: &RouteMessage) -> Option<Fork> {
    if route.header.address_family != AddressFamily::Inet {
        return None;
    }
    if route.header.tos != 0 {
        return Some(Fork::Tos);
    }
    let forks = |attribute: &RouteAttribute| {
        matches!(attribute, RouteAttribute::MultiPath(_) | RouteAttribute::NhId(_))
    };
    route.attributes.iter().any(forks).then_some(Fork::Multipath)
}

/// The route of `routes` by which an address is reached: the one with the longest prefix, among
/// equals the first. Metrics and policy rules are not looked at.
#[must_use]
pub fn longest_match(routes: &[Route], address: IpAddr) -> Option<Route> {
    let matching = routes.iter().filter(|route| {
        let prefix = route.destination;
        Prefix::new(address, prefix.length()).is_ok_and(|whole| {
            whole.address().is_ipv4() == prefix.address().is_ipv4() && whole.network() == prefix
        })
    });
    matching.rev().max_by_key(|route| route.destination.length()).copied()
}

/// Whether something was done: not if the kernel says that there was nothing to do.
fn unless(nothing_to_do: nix::Error, done: Result<(), NetlinkError>) -> Result<bool, NetlinkError> {
    match done {
        Ok(()) => Ok(true),
        Err(NetlinkError::Refused { source, .. })
            if source.raw_os_error() == Some(nothing_to_do as i32) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn local_route_message(network: IpAddr, length: u8, table: u32, index: u32) -> RouteMessage {
    let mut message = match network {
        IpAddr::V4(address) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, length)
            .output_interface(index)
            .table_id(table)
            .build(),
        IpAddr::V6(address) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, length)
            .output_interface(index)
            .table_id(table)
            .build(),
    };
    message.header.kind = RouteType::Local;
    if network.is_ipv4() {
        message.header.scope = RouteScope::Host;
    }
    message
}

fn marked_rule_message(network: IpAddr, mark: u32, priority: u32) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = match network {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Priority(priority),
        RuleAttribute::FwMark(mark),
        RuleAttribute::FwMask(u32::MAX),
        RuleAttribute::Table(mark),
    ];
    message
}

fn route_message(
    destination: Prefix,
    gateway: Option<IpAddr>,
    index: u32,
) -> Result<RouteMessage, String> {
    let mut message = match (destination.address(), gateway) {
        (IpAddr::V4(address), None | Some(IpAddr::V4(_))) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, destination.length())
            .output_interface(index)
            .build(),
        (IpAddr::V6(address), None | Some(IpAddr::V6(_))) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, destination.length())
            .output_interface(index)
            .build(),
        (_, Some(gateway)) => {
            return Err(format!("gateway {gateway} is of the other address family"));
        }
    };
    message.header.protocol = RouteProtocol::Static;
    match gateway {
        Some(IpAddr::V4(gateway)) => {
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(gateway)));
        }
        Some(IpAddr::V6(gateway)) => {
            message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet6(gateway)));
        }
        // IPv4 refuses a route of universe scope that has no gateway.
        None if destination.address().is_ipv4() => message.header.scope = RouteScope::Link,
        None => {}
    }
    Ok(message)
}

fn parse_route(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.table != RouteHeader::RT_TABLE_MAIN || header.kind != RouteType::Unicast {
        return None;
    }
    let mut address: IpAddr = match header.address_family {
        AddressFamily::Inet => Ipv4Addr::UNSPECIFIED.into(),
        AddressFamily::Inet6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (mut gateway, mut ifindex) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(destination) => address = ip_address(destination)?,
            RouteAttribute::Gateway(address) => gateway = ip_address(address),
            RouteAttribute::Oif(index) => ifindex = Some(*index),
            _ => {}
        }
    }
    let destination = Prefix::new(address, header.destination_prefix_length).ok()?;
    Some(Route { destination, gateway, ifindex })
}

fn ip_address(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let route = |destination: &str, ifindex| Route {
            destination: destination.parse().unwrap(),
            gateway: None,
            ifindex: Some(ifindex),
        };
        let routes = [
            route("::/0", 9),
            route("0.0.0.0/0", 1),
            route("198.18.0.0/15", 2),
            route("198.19.0.0/16", 3),
            route("198.19.0.0/16", 4),
        ];
        let by = |address: &str| {
            longest_match(&routes, address.parse().unwrap()).and_then(|route| route.ifindex)
        };
        assert_eq!(by("198.19.10.1"), Some(3));
        assert_eq!(by("198.18.10.1"), Some(2));
        assert_eq!(by("10.0.0.1"), Some(1));
        assert_eq!(by("2001:2::1"), Some(9));
        assert_eq!(longest_match(&[], "10.0.0.1".parse().unwrap()), None);
    }
}
