//! The MAC address to which packets for a destination go: what the kernel knows of routes and
//! neighbours.
//!
//! It never asks the network (no ARP request is sent), and never looks at policy rules or at
//! routing tables other than the main one.

use std::net::IpAddr;

use weir_net::route::longest_match;
use weir_net::{Netlink, NetlinkError};
use weir_wire::mac::MacAddr;

/// Why the MAC address is not known.
#[derive(Debug, thiserror::Error)]
pub enum NextHopError {
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There is no route.
    #[error(
        "no route to {destination} leads through interface `{interface}`, so the destination MAC \
         address cannot be found: give it with --dst-mac, or add a route"
    )]
    NoRoute {
        /// The first destination of the stream.
        destination: IpAddr,
        interface: String,
    },
    /// There is a route, but the neighbour is not known.
    #[error(
        "the MAC address of {hop}, the next hop to {destination} on interface `{interface}`, is \
         not known: `ping -c 1 {hop}` makes the kernel ask for it, or give it with --dst-mac"
    )]
    NoNeighbour {
        /// The first destination of the stream.
        destination: IpAddr,
        /// The gateway, or the destination itself.
        hop: IpAddr,
        interface: String,
    },
}

/// The MAC address of the next hop to `destination` through an interface of the calling thread's
/// network namespace.
///
/// # Errors
/// [`NextHopError`] says what is not known, and what to do.
pub fn mac(interface: &str, destination: IpAddr) -> Result<MacAddr, NextHopError> {
    let netlink = Netlink::open()?;
    let ifindex = netlink.ifindex(interface)?;
    let mut routes = netlink.routes()?;
    routes.retain(|route| route.ifindex == Some(ifindex));
    let route = longest_match(&routes, destination)
        .ok_or_else(|| NextHopError::NoRoute { destination, interface: interface.to_owned() })?;
    let hop = route.gateway.unwrap_or(destination);
    let mac = netlink.neighbour_mac(interface, hop)?;
    mac.map(MacAddr).ok_or_else(|| NextHopError::NoNeighbour {
        destination,
        hop,
        interface: interface.to_owned(),
    })
}
