//! The MAC address to which packets for a destination go: what the kernel knows of routes and
//! neighbours, and a neighbour that it does not know is asked for.
//!
//! It is the kernel that asks, by ARP or neighbour discovery. Policy rules and routing tables other
//! than the main one are never looked at.

use std::net::IpAddr;
use std::time::{Duration, Instant};

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
    /// There is a route, but nobody answered for the neighbour.
    #[error(
        "{hop}, the next hop to {destination} on interface `{interface}`, did not answer {} \
         within {} s: see that it is there (`ip neigh show dev {interface}`), or give its MAC \
         address with --dst-mac",
        question(hop),
        ANSWER_PATIENCE.as_secs()
    )]
    NoNeighbour {
        /// The first destination of the stream.
        destination: IpAddr,
        /// The gateway, or the destination itself.
        hop: IpAddr,
        interface: String,
    },
}

/// The kernel asks three times, a second apart.
const ANSWER_PATIENCE: Duration = Duration::from_secs(4);
/// How often the kernel is asked whether it knows the neighbour by now.
const ANSWER_POLL: Duration = Duration::from_millis(10);

/// How one asks for an address of its family.
fn question(hop: &IpAddr) -> &'static str {
    if hop.is_ipv4() { "ARP requests" } else { "neighbour solicitations" }
}

/// The MAC address of the next hop to `destination` through an interface of the calling thread's
/// network namespace. If the kernel does not know it, this waits until it has been asked for.
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
    if let Some(mac) = netlink.neighbour_mac(interface, hop)? {
        return Ok(MacAddr(mac));
    }
    netlink.ask_neighbour(interface, hop)?;
    let deadline = Instant::now() + ANSWER_PATIENCE;
    loop {
        if let Some(mac) = netlink.neighbour_mac(interface, hop)? {
            return Ok(MacAddr(mac));
        }
        if Instant::now() >= deadline {
            let interface = interface.to_owned();
            return Err(NextHopError::NoNeighbour { destination, hop, interface });
        }
        std::thread::sleep(ANSWER_POLL);
    }
}
