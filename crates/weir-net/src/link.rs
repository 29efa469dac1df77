//! Interfaces: veth pairs with many queues (veth(4)), their state, and their counters.
//!
//! It never touches queues after creation, offloads or NAPI (see [`crate::napi`]), and never an
//! interface that was not named.

use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_route::link::{
    InfoData, InfoKind, InfoMacVlan, InfoVeth, InfoVlan, LinkAttribute, LinkFlags,
    LinkInfo as KernelInfo, LinkLayerType, LinkMessage, LinkXdp, MacVlanMode, State, VlanProtocol,
    XdpAttached,
};
use rtnetlink::LinkUnspec;

use crate::netlink::{Netlink, NetlinkError};
use crate::netns::Netns;

pub use crate::netlink::OperState;
pub use stats::LinkStats;

/// The longest interface name, in bytes (`IFNAMSIZ` less the final zero).
pub(crate) const NAME_SIZE_BYTES_MAX: usize = 15;

/// More queues than this the kernel refuses (`TX`/`RX` queues of a veth).
pub(crate) const QUEUE_COUNT_MAX: u32 = 4096;

/// How often an interface's state is looked at while waiting for it.
const OPERATIONAL_POLL: Duration = Duration::from_millis(2);

/// One end of a veth pair that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct VethEnd<'a> {
    name: &'a str,
    mac: Option<[u8; 6]>,
    mtu: Option<u32>,
    netns: Option<&'a Netns>,
}

impl<'a> VethEnd<'a> {
    /// An end of that name, with a random MAC address and an MTU of 1500 bytes, in the namespace
    /// of the [`Netlink`].
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self { name, mac: None, mtu: None, netns: None }
    }

    /// With this MAC address.
    #[must_use]
    pub fn mac(self, mac: [u8; 6]) -> Self {
        Self { mac: Some(mac), ..self }
    }

    /// With this MTU, in bytes: the size of the IP packet, without the Ethernet header.
    #[must_use]
    pub fn mtu(self, size_bytes: u32) -> Self {
        Self { mtu: Some(size_bytes), ..self }
    }

    /// Made directly in that namespace.
    #[must_use]
    pub fn in_netns(self, netns: &'a Netns) -> Self {
        Self { netns: Some(netns), ..self }
    }

    fn message(&self, queue_count: u32) -> LinkMessage {
        let mut message = LinkMessage::default();
        let attributes = &mut message.attributes;
        attributes.push(LinkAttribute::IfName(self.name.to_owned()));
        attributes.push(LinkAttribute::NumTxQueues(queue_count));
        attributes.push(LinkAttribute::NumRxQueues(queue_count));
        if let Some(mac) = self.mac {
            attributes.push(LinkAttribute::Address(mac.to_vec()));
        }
        if let Some(mtu) = self.mtu {
            attributes.push(LinkAttribute::Mtu(mtu));
        }
        if let Some(netns) = self.netns {
            attributes.push(LinkAttribute::NetNsFd(netns.as_fd().as_raw_fd()));
        }
        message
    }
}

/// What the kernel says of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    pub name: String,
    /// The index in its namespace.
    pub ifindex: u32,
    /// The MAC address; `None` if it has none of six bytes.
    pub mac: Option<[u8; 6]>,
    /// The MTU in bytes: the size of the IP packet, without the Ethernet header.
    pub mtu: u32,
    /// Whether it is set up by the administrator.
    pub is_up: bool,
    /// The operational state.
    pub operstate: OperState,
    /// How many transmit queues it was made with.
    pub tx_queue_count: u32,
    /// How many receive queues it was made with.
    pub rx_queue_count: u32,
    /// How often the carrier came or went since it was made: a change during a trial is a flap.
    pub carrier_change_count: u32,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
    /// Whether its frames are Ethernet's (the loopback interface's are not).
    pub is_ethernet: bool,
    /// Whether its packets begin with the IP header: tun, WireGuard, PPP, tunnels to one end.
    pub is_bare: bool,
    /// The VLAN that it is, on the interface that carries its frames; `None` if it is none.
    pub vlan: Option<Vlan>,
    /// Index of the interface by which its frames come, if it is a macvlan of this namespace's.
    pub macvlan_parent: Option<u32>,
    /// Whether an XDP program is attached, in whichever mode.
    pub has_xdp: bool,
    /// The index of the veth peer in *its* namespace, if there is one.
    pub peer_ifindex: Option<u32>,
    /// Whether the peer is in another network namespace than the interface.
    pub peer_is_elsewhere: bool,
    /// The counters.
    pub stats: LinkStats,
}

/// A VLAN interface's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vlan {
    /// Index of the interface below.
    pub parent_ifindex: u32,
    /// VLAN identifier, 0 to 4095.
    pub id: u16,
}

impl Netlink {
    /// Makes a veth pair with that many transmit and receive queues at both ends, all in use.
    /// Both ends are down.
    ///
    /// # Errors
    ///
    /// If a name is bad or taken, if the count is 0 or above [`QUEUE_COUNT_MAX`], or if the kernel
    /// refuses.
    pub fn create_veth(
        &self,
        end: &VethEnd<'_>,
        peer: &VethEnd<'_>,
        queue_count: u32,
    ) -> Result<(), NetlinkError> {
        check_name(end.name)?;
        check_name(peer.name)?;
        let action = || format!("create veth `{}` with peer `{}`", end.name, peer.name);
        if queue_count == 0 || queue_count > QUEUE_COUNT_MAX {
            let reason = format!("{queue_count} queues; 1 to {QUEUE_COUNT_MAX} are possible");
            return Err(NetlinkError::BadValue { action: action(), reason });
        }
        let peer_data = InfoData::Veth(InfoVeth::Peer(peer.message(queue_count)));
        let mut message = end.message(queue_count);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            KernelInfo::Kind(InfoKind::Veth),
            KernelInfo::Data(peer_data),
        ]));
        self.perform(action, self.handle().link().add(message).execute())
    }

    /// Makes a VLAN interface on another one, by an 802.1Q tag or, for a `service` VLAN, an 802.1ad
    /// one. It is down.
    ///
    /// # Errors
    ///
    /// If the name is bad or taken, there is no such parent, or the kernel refuses.
    pub fn create_vlan(
        &self,
        name: &str,
        parent: &str,
        id: u16,
        service: bool,
    ) -> Result<(), NetlinkError> {
        check_name(name)?;
        let protocol = if service { VlanProtocol::Ieee8021Ad } else { VlanProtocol::Ieee8021Q };
        let mut message = LinkMessage::default();
        message.attributes.extend([
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Link(self.ifindex(parent)?),
            LinkAttribute::LinkInfo(vec![
                KernelInfo::Kind(InfoKind::Vlan),
                KernelInfo::Data(InfoData::Vlan(vec![
                    InfoVlan::Id(id),
                    InfoVlan::Protocol(protocol),
                ])),
            ]),
        ]);
        let action = || format!("create VLAN {id} `{name}` on `{parent}`");
        self.perform(action, self.handle().link().add(message).execute())
    }

    /// Makes a macvlan interface on another one: it gets that one's frames for this MAC address. It
    /// is down.
    ///
    /// # Errors
    ///
    /// If the name is bad or taken, there is no such parent, or the kernel refuses.
    pub fn create_macvlan(
        &self,
        name: &str,
        parent: &str,
        mac: [u8; 6],
    ) -> Result<(), NetlinkError> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.extend([
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Link(self.ifindex(parent)?),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::LinkInfo(vec![
                KernelInfo::Kind(InfoKind::MacVlan),
                KernelInfo::Data(InfoData::MacVlan(vec![InfoMacVlan::Mode(MacVlanMode::Private)])),
            ]),
        ]);
        let action = || format!("create macvlan `{name}` on `{parent}`");
        self.perform(action, self.handle().link().add(message).execute())
    }

    /// Makes a bridge without ports. It is down, and has no spanning tree.
    ///
    /// # Errors
    ///
    /// If the name is bad or taken, or the kernel refuses, as one without bridges does.
    pub fn create_bridge(&self, name: &str) -> Result<(), NetlinkError> {
        check_name(name)?;
        let mut message = LinkMessage::default();
        message.attributes.extend([
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![KernelInfo::Kind(InfoKind::Bridge)]),
        ]);
        let action = || format!("create bridge `{name}`");
        self.perform(action, self.handle().link().add(message).execute())
    }

    /// Makes an interface a port of a bridge.
    ///
    /// # Errors
    ///
    /// If there is none of either name, or the kernel refuses.
    pub fn add_port(&self, bridge: &str, name: &str) -> Result<(), NetlinkError> {
        let index = self.ifindex(bridge)?;
        self.change(name, "make", &format!("a port of `{bridge}`"), |message| {
            message.attributes.push(LinkAttribute::Controller(index));
        })
    }

    /// What the kernel says of an interface.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn link(&self, name: &str) -> Result<LinkInfo, NetlinkError> {
        check_name(name)?;
        let action = || format!("look up interface `{name}`");
        let request = self.handle().link().get().match_name(name);
        match self.collect(action, request.execute()) {
            Ok(messages) => match messages.first() {
                Some(message) => parse_link(message)
                    .map_err(|detail| NetlinkError::Answer { action: action(), detail }),
                None => Err(NetlinkError::NoLink { name: name.to_owned() }),
            },
            Err(NetlinkError::Refused { source, .. })
                if source.raw_os_error() == Some(nix::Error::ENODEV as i32) =>
            {
                Err(NetlinkError::NoLink { name: name.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// All interfaces of the namespace, by index.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn links(&self) -> Result<Vec<LinkInfo>, NetlinkError> {
        let action = || "list the interfaces".to_owned();
        let messages = self.collect(action, self.handle().link().get().execute())?;
        let parsed: Result<Vec<_>, _> = messages.iter().map(parse_link).collect();
        let mut links =
            parsed.map_err(|detail| NetlinkError::Answer { action: action(), detail })?;
        links.sort_by_key(|link| link.ifindex);
        Ok(links)
    }

    /// The index of an interface.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn ifindex(&self, name: &str) -> Result<u32, NetlinkError> {
        Ok(self.link(name)?.ifindex)
    }

    /// The 64-bit counters of an interface.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn stats64(&self, name: &str) -> Result<LinkStats, NetlinkError> {
        Ok(self.link(name)?.stats)
    }

    /// Sets an interface up.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the kernel refuses.
    pub fn set_up(&self, name: &str) -> Result<(), NetlinkError> {
        self.change(name, "set", "up", |message| {
            message.header.flags |= LinkFlags::Up;
            message.header.change_mask |= LinkFlags::Up;
        })
    }

    /// Waits until packets can pass an interface that was set up ([`OperState::Up`]): the kernel
    /// reports a carrier with a delay of up to a second.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it is not operational within the time-out (its peer may
    /// be down).
    pub fn wait_operational(&self, name: &str, timeout: Duration) -> Result<(), NetlinkError> {
        let deadline = Instant::now() + timeout;
        loop {
            let link = self.link(name)?;
            if link.is_up && link.operstate == OperState::Up {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(NetlinkError::NotOperational {
                    name: name.to_owned(),
                    state: link.operstate,
                    waited: timeout,
                    advice: if link.is_up { "is its peer up?" } else { "set it up first" },
                });
            }
            thread::sleep(OPERATIONAL_POLL);
        }
    }

    /// Sets the MAC address.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the kernel refuses (a multicast address, for example).
    pub fn set_mac(&self, name: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
        self.change(name, "set the MAC address of", "", |message| {
            message.attributes.push(LinkAttribute::Address(mac.to_vec()));
        })
    }

    /// Sets the MTU, in bytes of IP packet.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the kernel refuses.
    pub fn set_mtu(&self, name: &str, size_bytes: u32) -> Result<(), NetlinkError> {
        self.change(name, "set the MTU of", &format!("to {size_bytes}"), |message| {
            message.attributes.push(LinkAttribute::Mtu(size_bytes));
        })
    }

    /// Moves an interface to another namespace. It loses its addresses and is down there.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or the kernel refuses (the name is taken there).
    pub fn move_to_netns(&self, name: &str, netns: &Netns) -> Result<(), NetlinkError> {
        let place = format!("to network namespace `{}`", netns.name());
        self.change(name, "move", &place, |message| {
            message.attributes.push(LinkAttribute::NetNsFd(netns.as_fd().as_raw_fd()));
        })
    }

    fn change(
        &self,
        name: &str,
        verb: &str,
        what: &str,
        fill: impl FnOnce(&mut LinkMessage),
    ) -> Result<(), NetlinkError> {
        let index = self.ifindex(name)?;
        let mut message = LinkUnspec::new_with_index(index).build();
        fill(&mut message);
        self.perform(
            || format!("{verb} interface `{name}` {what}").trim_end().to_owned(),
            self.handle().link().change(message).execute(),
        )
    }
}

/// Checks what the kernel checks (`dev_valid_name`), to say what is wrong with a name.
pub(crate) fn check_name(name: &str) -> Result<(), NetlinkError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_SIZE_BYTES_MAX {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it is a directory"
    } else if name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0') {
        "it contains a slash, a colon or a space"
    } else {
        return Ok(());
    };
    Err(NetlinkError::BadName { name: name.to_owned(), reason })
}

fn parse_link(message: &LinkMessage) -> Result<LinkInfo, String> {
    let mut link = LinkInfo {
        name: String::new(),
        ifindex: message.header.index,
        mac: None,
        mtu: 0,
        is_up: message.header.flags.contains(LinkFlags::Up),
        operstate: OperState::Unknown,
        tx_queue_count: 0,
        rx_queue_count: 0,
        carrier_change_count: 0,
        is_loopback: message.header.flags.contains(LinkFlags::Loopback),
        is_ethernet: message.header.link_layer_type == LinkLayerType::Ether,
        is_bare: is_bare(message),
        vlan: None,
        macvlan_parent: None,
        has_xdp: false,
        peer_ifindex: None,
        peer_is_elsewhere: false,
        stats: LinkStats::default(),
    };
    let mut has_stats = false;
    let (mut vlan_id, mut is_macvlan) = (None, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::Address(mac) => link.mac = mac.as_slice().try_into().ok(),
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::OperState(state) => link.operstate = parse_state(*state),
            LinkAttribute::NumTxQueues(count) => link.tx_queue_count = *count,
            LinkAttribute::NumRxQueues(count) => link.rx_queue_count = *count,
            LinkAttribute::CarrierChanges(count) => link.carrier_change_count = *count,
            LinkAttribute::Xdp(parts) => link.has_xdp = parts.iter().any(is_attached),
            LinkAttribute::LinkInfo(parts) => {
                vlan_id = parts.iter().find_map(vlan_id_of);
                is_macvlan = parts.contains(&KernelInfo::Kind(InfoKind::MacVlan));
            }
            LinkAttribute::LinkNetNsId(_) => link.peer_is_elsewhere = true,
            LinkAttribute::Link(index) => link.peer_ifindex = Some(*index),
            LinkAttribute::Stats64(stats) => {
                link.stats = LinkStats::from(stats);
                has_stats = true;
            }
            _ => {}
        }
    }
    link.vlan =
        vlan_id.zip(link.peer_ifindex).map(|(id, parent_ifindex)| Vlan { parent_ifindex, id });
    link.macvlan_parent = link.peer_ifindex.filter(|_| is_macvlan && !link.peer_is_elsewhere);
    if link.name.is_empty() {
        return Err(format!("interface {} has no name", link.ifindex));
    }
    if !has_stats {
        return Err(format!("interface `{}` came without 64-bit counters", link.name));
    }
    Ok(link)
}

/// Whether packets of an interface begin with the IP header (`dev_is_mac_header_xmit` of the
/// kernel says of which there is a link header to send).
fn is_bare(message: &LinkMessage) -> bool {
    use LinkLayerType::{Ip6gre, Ipgre, None, Ppp, Rawip, Sit, Tunnel, Tunnel6};
    match message.header.link_layer_type {
        Ppp | Rawip | Tunnel | Tunnel6 | Sit | None => true,
        // Without a remote end packets that leave have the outer header already.
        Ipgre | Ip6gre => message.attributes.iter().any(|attribute| {
            matches!(attribute, LinkAttribute::Broadcast(end) if end.iter().any(|byte| *byte != 0))
        }),
        _ => false,
    }
}

/// The identifier of a VLAN interface.
fn vlan_id_of(part: &KernelInfo) -> Option<u16> {
    let KernelInfo::Data(InfoData::Vlan(parts)) = part else { return None };
    parts.iter().find_map(|part| match part {
        InfoVlan::Id(id) => Some(*id),
        _ => None,
    })
}

/// Whether this part of `IFLA_XDP` says that a program is attached.
fn is_attached(part: &LinkXdp) -> bool {
    matches!(part, LinkXdp::Attached(state) if *state != XdpAttached::None)
}

fn parse_state(state: State) -> OperState {
    match state {
        State::NotPresent => OperState::NotPresent,
        State::Down => OperState::Down,
        State::LowerLayerDown => OperState::LowerLayerDown,
        State::Testing => OperState::Testing,
        State::Dormant => OperState::Dormant,
        State::Up => OperState::Up,
        _ => OperState::Unknown,
    }
}

mod stats;

#[cfg(test)]
mod tests;
