//! IPv4 and IPv6 addresses of interfaces.
//!
//! IPv6 addresses are added without duplicate address detection (`IFA_F_NODAD`, RFC 4862 §5.4):
//! on links that the lab made itself nobody else can have them, and a tentative address would not
//! answer for the first second.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};

use crate::netlink::{Netlink, NetlinkError};

/// An address with a prefix length, such as `198.18.0.1/24` or `2001:2::/48`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text or a pair is no [`Prefix`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The text is not `ADDRESS/LENGTH`.
    #[error("`{text}` is not ADDRESS/LENGTH, such as 198.18.0.1/24 or 2001:2::1/64")]
    Syntax { text: String },
    /// The length is beyond the address's size.
    #[error("the prefix length of {address}/{length} is too large: at most {length_max}")]
    Length {
        address: IpAddr,
        /// The length as given, in bits.
        length: u8,
        /// The largest length, in bits.
        length_max: u8,
    },
}

impl Prefix {
    /// An address with a prefix length in bits.
    ///
    /// # Errors
    ///
    /// If the length is above 32 (IPv4) or 128 (IPv6).
    pub fn new(address: IpAddr, length: u8) -> Result<Self, PrefixError> {
        let length_max = if address.is_ipv4() { 32 } else { 128 };
        if length > length_max {
            return Err(PrefixError::Length { address, length, length_max });
        }
        Ok(Self { address, length })
    }

    #[must_use]
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// The prefix length in bits.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The network: the same prefix with all host bits zero, as a route's destination must be.
    #[must_use]
    pub fn network(&self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { address, length: self.length }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let syntax = || PrefixError::Syntax { text: text.to_owned() };
        let (address, length) = text.split_once('/').ok_or_else(syntax)?;
        if !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(syntax());
        }
        let address = address.parse().map_err(|_| syntax())?;
        Self::new(address, length.parse().map_err(|_| syntax())?)
    }
}

/// An address of an interface, with what its link adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkAddress {
    /// The interface's own address. On a point-to-point link the length is of the other end's
    /// network.
    pub prefix: Prefix,
    /// The broadcast address (IPv4).
    pub broadcast: Option<IpAddr>,
    /// The address of the other end of a point-to-point link.
    pub peer: Option<IpAddr>,
}

impl Netlink {
    /// Adds an address to an interface; the kernel adds the route to its network when the
    /// interface is up.
    ///
    /// # Errors
    ///
    /// If there is no such interface, it has the address already, or the kernel refuses.
    pub fn add_address(&self, link: &str, address: Prefix) -> Result<(), NetlinkError> {
        let index = self.ifindex(link)?;
        let mut request = self.handle().address().add(index, address.address, address.length);
        if address.address.is_ipv6() {
            let message = request.message_mut();
            message.header.flags |= AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        self.perform(|| format!("add address {address} to interface `{link}`"), request.execute())
    }

    /// The addresses of an interface, IPv4 first, in the kernel's order, link-local ones included.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn addresses(&self, link: &str) -> Result<Vec<Prefix>, NetlinkError> {
        let addresses = self.link_addresses(link)?;
        Ok(addresses.into_iter().map(|address| address.prefix).collect())
    }

    /// The same with broadcast addresses and the other ends of point-to-point links.
    ///
    /// # Errors
    ///
    /// If there is no such interface, or the kernel refuses.
    pub fn link_addresses(&self, link: &str) -> Result<Vec<LinkAddress>, NetlinkError> {
        let index = self.ifindex(link)?;
        let request = self.handle().address().get().set_link_index_filter(index);
        let messages = self.collect(|| format!("list addresses of `{link}`"), request.execute())?;
        let mut addresses: Vec<LinkAddress> = messages.iter().filter_map(parse_address).collect();
        addresses.sort_by_key(|address| address.prefix.address.is_ipv6());
        Ok(addresses)
    }
}

/// `IFA_LOCAL` is the interface's own address, and `IFA_ADDRESS` then the other end's if it
/// differs; IPv6 without another end has `IFA_ADDRESS` only.
fn parse_address(message: &AddressMessage) -> Option<LinkAddress> {
    let (mut local, mut address, mut broadcast) = (None, None, None);
    for attribute in &message.attributes {
        match attribute {
            AddressAttribute::Local(found) => local = Some(*found),
            AddressAttribute::Address(found) => address = Some(*found),
            AddressAttribute::Broadcast(found) => broadcast = Some(IpAddr::V4(*found)),
            _ => {}
        }
    }
    let local = local.or(address)?;
    let prefix = Prefix::new(local, message.header.prefix_len).ok()?;
    Some(LinkAddress { prefix, broadcast, peer: address.filter(|other| *other != local) })
}

#[cfg(test)]
mod tests;
