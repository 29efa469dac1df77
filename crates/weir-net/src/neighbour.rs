//! Neighbours (ARP and ND entries), IPv4 and IPv6: permanent ones are made and listed, and one of
//! any kind can be looked up.
//!
//! It never removes what the kernel learned by itself, and never asks the network for a neighbour
//! but where it is told to.

use std::net::IpAddr;

use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};

use crate::netlink::{Netlink, NetlinkError};

/// A permanent neighbour of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// The IP address.
    pub address: IpAddr,
    /// The MAC address.
    pub mac: [u8; 6],
}

impl Netlink {
    /// Says for good which MAC address an IP address on the interface has; replaces what was
    /// known before.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn add_neighbour(
        &self,
        link: &str,
        address: IpAddr,
        mac: [u8; 6],
    ) -> Result<(), NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self
            .handle()
            .neighbours()
            .add(index, address)
            .link_layer_address(&mac)
            .state(NeighbourState::Permanent)
            .replace();
        self.perform(|| format!("add neighbour {address} to interface `{link}`"), request.execute())
    }

    /// Makes the kernel ask the network who has an address, by ARP or neighbour discovery, as if
    /// there were a packet for it (`NTF_USE`, neighbour.h). It does not wait for the answer.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn ask_neighbour(&self, link: &str, address: IpAddr) -> Result<(), NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self
            .handle()
            .neighbours()
            .add(index, address)
            .state(NeighbourState::None)
            .flags(NeighbourFlags::Use)
            .replace();
        self.perform(|| format!("ask for {address} on interface `{link}`"), request.execute())
    }

    /// The permanent neighbours of an interface, sorted.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn neighbours(&self, link: &str) -> Result<Vec<Neighbour>, NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self.handle().neighbours().get();
        let messages =
            self.collect(|| format!("list neighbours of `{link}`"), request.execute())?;
        let mut neighbours: Vec<Neighbour> = messages
            .iter()
            .filter(|message| message.header.ifindex == index)
            .filter_map(parse_neighbour)
            .collect();
        neighbours.sort_unstable();
        Ok(neighbours)
    }

    /// The MAC address that an address on the interface is known to have, learned or permanent.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn neighbour_mac(
        &self,
        link: &str,
        address: IpAddr,
    ) -> Result<Option<[u8; 6]>, NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self.handle().neighbours().get();
        let messages =
            self.collect(|| format!("list neighbours of `{link}`"), request.execute())?;
        let found = messages
            .iter()
            .filter(|message| message.header.ifindex == index)
            .filter(|message| is_known(message.header.state))
            .filter_map(addresses)
            .find(|neighbour| neighbour.address == address);
        Ok(found.map(|neighbour| neighbour.mac))
    }
}

fn parse_neighbour(message: &NeighbourMessage) -> Option<Neighbour> {
    if message.header.state != NeighbourState::Permanent {
        return None;
    }
    addresses(message)
}

/// Whether the kernel would send to a neighbour in this state (`NUD_VALID`).
fn is_known(state: NeighbourState) -> bool {
    matches!(
        state,
        NeighbourState::Permanent
            | NeighbourState::Noarp
            | NeighbourState::Reachable
            | NeighbourState::Probe
            | NeighbourState::Stale
            | NeighbourState::Delay
    )
}

fn addresses(message: &NeighbourMessage) -> Option<Neighbour> {
    let (mut address, mut mac) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(v4)) => {
                address = Some(IpAddr::V4(*v4));
            }
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(v6)) => {
                address = Some(IpAddr::V6(*v6));
            }
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some(Neighbour { address: address?, mac: mac? })
}
