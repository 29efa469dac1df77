//! Keys of typed tables.

use std::fmt;
use std::net::IpAddr;

use weir_wire::protocol;

use crate::limits::INTERFACE_NAME_SIZE_MAX;
use crate::value::{Text, masked};

/// What of a packet is in a flow: bits of [`Components::NAMES`], in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Components(u8);

impl Components {
    /// The words for them, in the order of a key's parts, as ipfw's.
    const NAMES: [&'static str; 5] = ["src-ip", "proto", "src-port", "dst-ip", "dst-port"];
    /// The source's address.
    pub const SRC_IP: Self = Self(1);
    /// The protocol.
    pub const PROTO: Self = Self(1 << 1);
    /// The source's port.
    pub const SRC_PORT: Self = Self(1 << 2);
    /// The destination's address.
    pub const DST_IP: Self = Self(1 << 3);
    /// The destination's port.
    pub const DST_PORT: Self = Self(1 << 4);
    /// All five.
    pub const ALL: Self = Self(31);

    /// Whether one of these is in it.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// As a number, bit by bit.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let all = Self::NAMES.iter().enumerate();
        all.filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| *name)
    }
}

impl fmt::Display for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(","))
    }
}

/// The type of a table's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// Addresses and networks.
    Addr,
    /// Names of interfaces.
    Iface,
    /// 32-bit numbers: ports, users, marks.
    Number,
    /// Packets of a flow.
    Flow(Components),
}

impl KeyType {
    /// By its words: `addr`, `iface`, `number`, `flow`, `flow:src-ip,proto`.
    ///
    /// # Errors
    ///
    /// If it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(parts) = text.strip_prefix("flow:") else {
            return match text {
                "addr" => Ok(Self::Addr),
                "iface" => Ok(Self::Iface),
                "number" => Ok(Self::Number),
                "flow" => Ok(Self::Flow(Components::ALL)),
                _ => Err(format!("`{text}` is not a key type: use addr, iface, number or flow")),
            };
        };
        let mut found = 0;
        for part in parts.split(',') {
            let at = Components::NAMES.iter().position(|name| *name == part);
            let at = at.ok_or_else(|| {
                let names = Components::NAMES.join(", ");
                format!("`{part}` is not part of a flow: use {names}")
            })?;
            found |= 1 << at;
        }
        Ok(Self::Flow(Components(found)))
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addr => f.write_str("addr"),
            Self::Iface => f.write_str("iface"),
            Self::Number => f.write_str("number"),
            Self::Flow(Components::ALL) => f.write_str("flow"),
            Self::Flow(components) => write!(f, "flow:{components}"),
        }
    }
}

/// A flow; what its table's type has not is 0, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// What the keys of its table have.
    pub components: Components,
    /// Where packets come from; `None` if its table's keys have no such address.
    pub source: Option<IpAddr>,
    /// Where they go; the same.
    pub destination: Option<IpAddr>,
    /// As in the IP header; 0 if its table's keys have none.
    pub protocol: u8,
    /// 0 if its table's keys have no such port.
    pub source_port: u16,
    /// The same of the other end.
    pub destination_port: u16,
}

impl Flow {
    /// The part of a packet's flow that a table with these components has as a key.
    #[must_use]
    pub fn new(components: Components, ends: [(IpAddr, u16); 2], protocol: u8) -> Self {
        let [(source, source_port), (destination, destination_port)] = ends;
        let has = |component| components.has(component);
        let port = |port: u16, component| if has(component) { port } else { 0 };
        Self {
            components,
            source: Some(source).filter(|_| has(Components::SRC_IP)),
            destination: Some(destination).filter(|_| has(Components::DST_IP)),
            protocol: if has(Components::PROTO) { protocol } else { 0 },
            source_port: port(source_port, Components::SRC_PORT),
            destination_port: port(destination_port, Components::DST_PORT),
        }
    }

    /// A flow with nothing in it, of the components of a table.
    #[must_use]
    pub const fn blank(components: Components) -> Self {
        Self {
            components,
            source: None,
            destination: None,
            protocol: 0,
            source_port: 0,
            destination_port: 0,
        }
    }

    fn parse(components: Components, text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is not a flow of {components}");
        let mut flow = Self::blank(components);
        let mut parts = text.split(',');
        for name in components.names() {
            let part = parts.next().ok_or_else(bad)?;
            let address = || part.parse::<IpAddr>().map(Some).map_err(|_| bad());
            let port = || part.parse::<u16>().map_err(|_| bad());
            match name {
                "src-ip" => flow.source = address()?,
                "dst-ip" => flow.destination = address()?,
                "src-port" => flow.source_port = port()?,
                "dst-port" => flow.destination_port = port()?,
                _ => flow.protocol = protocol_number(part)?,
            }
        }
        let is_mixed = flow
            .source
            .zip(flow.destination)
            .is_some_and(|(source, destination)| source.is_ipv4() != destination.is_ipv4());
        if is_mixed {
            return Err(format!("`{text}`: a flow has addresses of one family"));
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(flow) }
    }
}

/// Protocols that keys name by a word, as ipfw's users do; all others by number.
const PROTOCOLS: [(&str, u8); 7] = [
    ("icmp", protocol::ICMP),
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("gre", protocol::GRE),
    ("esp", 50),
    ("ipv6-icmp", protocol::ICMP6),
    ("sctp", protocol::SCTP),
];

fn protocol_number(text: &str) -> Result<u8, String> {
    let named = PROTOCOLS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number);
    named
        .or_else(|| text.parse().ok())
        .ok_or_else(|| format!("`{text}` is not a protocol: a number, or a name such as tcp"))
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.components.names().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            let address =
                |address: Option<IpAddr>| address.map_or(String::new(), |it| it.to_string());
            match name {
                "src-ip" => f.write_str(&address(self.source))?,
                "dst-ip" => f.write_str(&address(self.destination))?,
                "src-port" => write!(f, "{}", self.source_port)?,
                "dst-port" => write!(f, "{}", self.destination_port)?,
                _ => match PROTOCOLS.iter().find(|(_, number)| *number == self.protocol) {
                    Some((name, _)) => f.write_str(name)?,
                    None => write!(f, "{}", self.protocol)?,
                },
            }
        }
        Ok(())
    }
}

/// A key of a typed table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// A network without bits of hosts, and the bits of its prefix.
    Net(IpAddr, u8),
    /// Whatever its table counts by: a port, a user, a mark.
    Number(u32),
    /// An interface's name.
    Iface(Text),
    /// Some parts of what packets of one flow have in common.
    Flow(Flow),
}

impl Key {
    /// A network; bits of hosts are cleared.
    #[must_use]
    pub fn net(address: IpAddr, bits: u8) -> Self {
        Self::Net(masked(address, bits), bits)
    }

    /// Reads a key of a type.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn parse(of: KeyType, text: &str) -> Result<Self, String> {
        match of {
            KeyType::Addr => network(text),
            KeyType::Number => {
                let number = text.parse().map(Self::Number);
                number.map_err(|_| format!("`{text}` is not a number from 0 to {}", u32::MAX))
            }
            KeyType::Iface => {
                let is_name = !text.is_empty()
                    && text.len() <= INTERFACE_NAME_SIZE_MAX
                    && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
                let name = || Self::Iface(text.into());
                is_name.then(name).ok_or_else(|| {
                    format!(
                        "`{text}` is not an interface's name: at most {INTERFACE_NAME_SIZE_MAX} \
                         letters"
                    )
                })
            }
            KeyType::Flow(components) => Flow::parse(components, text).map(Self::Flow),
        }
    }

    /// Whether only packets of IPv6 have it, or, `Some(false)`, of IPv4.
    #[must_use]
    pub fn is_ipv6(&self) -> Option<bool> {
        match self {
            Self::Net(address, _) => Some(address.is_ipv6()),
            Self::Flow(flow) => flow.source.or(flow.destination).map(|address| address.is_ipv6()),
            Self::Number(_) | Self::Iface(_) => None,
        }
    }
}

fn network(text: &str) -> Result<Key, String> {
    let bad = || format!("`{text}` is not an address or network");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    // What has a colon is not tried as IPv4 first.
    let is_ipv6 = address.contains(':');
    let address = if is_ipv6 { address.parse().map(IpAddr::V6) } else { address.parse() };
    let address = address.map_err(|_| bad())?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(bits_max), |bits| bits.parse().map_err(|_| bad()))?;
    if bits > bits_max { Err(bad()) } else { Ok(Key::net(address, bits)) }
}

impl fmt::Display for Key {
    /// As [`Key::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Net(address, bits) => write!(f, "{address}/{bits}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Iface(name) => f.write_str(name),
            Self::Flow(flow) => flow.fmt(f),
        }
    }
}
