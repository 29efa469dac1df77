//! What a ruleset needs to know about the machine, as a trait: interfaces, groups, services,
//! protocols, host names and users. The command line gives a real one, tests one in memory
//! ([`crate::facts::Facts`]).

use std::net::IpAddr;

use crate::dummynet::{Pipe, PipeQueue};
use crate::value::{Af, Text};

/// An address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceAddress {
    pub address: IpAddr,
    /// Bits of its network.
    pub bits: u8,
    /// Broadcast address, if the link has one.
    pub broadcast: Option<IpAddr>,
    /// The other end, if the link has two.
    pub peer: Option<IpAddr>,
}

impl InterfaceAddress {
    /// The family.
    #[must_use]
    pub fn af(&self) -> Af {
        if self.address.is_ipv4() { Af::Inet } else { Af::Inet6 }
    }

    /// Whether it is of a link alone (`fe80::/10`).
    #[must_use]
    pub(crate) fn is_link_local(&self) -> bool {
        matches!(self.address, IpAddr::V6(v6) if v6.segments()[0] & 0xffc0 == 0xfe80)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InterfaceFacts {
    pub name: String,
    pub groups: Vec<String>,
    /// It loops back: `antispoof` then blocks its network alone.
    pub is_loopback: bool,
    /// Its addresses, in the system's order.
    pub addresses: Vec<InterfaceAddress>,
    /// Its MTU in bytes, for `tbrsize`.
    pub mtu_bytes: Option<u32>,
    /// Its speed in bits per second, for `altq` without `bandwidth`.
    pub speed_bps: Option<u64>,
}

/// What the compiler asks about the machine. A method that knows nothing says `None`.
pub trait Resolver {
    /// All interfaces, in the system's order.
    fn interfaces(&self) -> &[InterfaceFacts];

    /// Whether a group of this name exists, also one without members.
    fn is_group(&self, name: &str) -> bool {
        self.interfaces().iter().any(|interface| interface.groups.iter().any(|group| group == name))
    }

    /// Addresses of a host name; empty if it is unknown.
    fn host(&self, name: &str) -> Vec<IpAddr>;

    /// Of a host name without an address: why it has none, or what to do.
    fn host_advice(&self, _name: &str) -> String {
        "no name server was asked: name its address, give it with --facts, or ask with --resolve"
            .to_owned()
    }

    /// The port of a service, for `tcp` first and then for `udp`.
    fn service_port(&self, name: &str) -> Option<u16>;

    /// The name of a port, of TCP or of any other protocol (pfctl asks for UDP then).
    fn service_name(&self, port: u16, is_tcp: bool) -> Option<Text>;

    /// The number of a protocol.
    fn protocol_number(&self, name: &str) -> Option<u8>;

    /// The name of a protocol.
    fn protocol_name(&self, number: u8) -> Option<Text>;

    /// The number of a user.
    fn user(&self, name: &str) -> Option<u32>;

    /// The number of a group of users.
    fn group(&self, name: &str) -> Option<u32>;

    /// A pipe of dummynet, which `dnpipe` names.
    fn pipe(&self, _number: u16) -> Option<&Pipe> {
        None
    }

    /// A queue of a pipe, which `dnqueue` names.
    fn pipe_queue(&self, _number: u16) -> Option<&PipeQueue> {
        None
    }
}

/// The interfaces that a name in an address stands for: a group's members, `self` for all, one of
/// that name, or those that begin with it if it ends in no digit (`em` is `em0` and `em1`).
pub fn interfaces_named<'a>(
    resolver: &'a dyn Resolver,
    name: &'a str,
) -> impl Iterator<Item = &'a InterfaceFacts> {
    let is_group = resolver.is_group(name);
    resolver.interfaces().iter().filter(move |interface| {
        if is_group {
            return interface.groups.iter().any(|group| group == name);
        }
        name == "self" || is_instance(&interface.name, name)
    })
}

/// Whether `name` is the interface, or its family without a number.
pub(crate) fn is_instance(interface: &str, name: &str) -> bool {
    if interface == name {
        return true;
    }
    let ends_in_digit = name.ends_with(|c: char| c.is_ascii_digit());
    let rest = interface.strip_prefix(name);
    !name.is_empty()
        && !ends_in_digit
        && rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether something of this name is there: an interface, a group, or the family of an interface.
#[must_use]
pub(crate) fn interface_exists(resolver: &dyn Resolver, name: &str) -> bool {
    name == "self"
        || resolver.is_group(name)
        || resolver.interfaces().iter().any(|interface| is_instance(&interface.name, name))
}
