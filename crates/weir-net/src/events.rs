//! What changes in a network namespace, as it happens: the notifications of rtnetlink(7).
//!
//! A notification says that something changed, not that nothing else did: a reader that is too slow
//! is told so ([`Change::Lost`]) and has to look at everything anew. Contents are read of
//! neighbours alone, because the kernel tells every step of a neighbour's life, and few of them
//! matter to somebody who forwards packets.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, setsockopt,
    socket, sockopt,
};

/// Groups of notifications (rtnetlink.h, `RTNLGRP_*`): links, neighbours, addresses, routes, rules,
/// forwarding, next hops.
const GROUPS: &[u32] = &[1, 3, 5, 7, 8, 9, 11, 19, 24, 25, 32];

/// rtnetlink.h, `RTM_*`.
const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DEL_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
const DEL_NEIGHBOUR: u16 = 29;
const NEW_RULE: u16 = 32;
const DEL_RULE: u16 = 33;

/// socket.h: `AF_INET`, which is where the messages about routes and rules begin.
const INET: u8 = 2;
/// rtnetlink.h: `RTA_MULTIPATH`, `RTA_NH_ID`, and the size of `struct rtmsg`.
const ROUTE_MULTIPATH: u16 = 9;
const ROUTE_NEXT_HOP: u16 = 30;
const ROUTE_HEADER_SIZE: usize = 12;
/// Where `struct rtmsg` has the type of service.
const ROUTE_TOS_AT: usize = 3;

/// neighbour.h: `NDA_DST`, `NDA_LLADDR`, and the states in which a neighbour's address is used.
const NEIGHBOUR_ADDRESS: u16 = 1;
const NEIGHBOUR_MAC: u16 = 2;
const NUD_VALID: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x40 | 0x80;

const MESSAGE_HEADER_SIZE: usize = 16;
const NEIGHBOUR_HEADER_SIZE: usize = 12;
const ATTRIBUTE_HEADER_SIZE: usize = 4;

/// The kernel never sends more than this at once.
const RECEIVE_SIZE_BYTES: usize = 64 * 1024;
/// Room for notifications that wait, so that a full routing table does not overrun the reader.
const BACKLOG_SIZE_BYTES: usize = 8 << 20;
/// Neighbours that are remembered; beyond, every notification about one counts.
const NEIGHBOUR_COUNT_MAX: usize = 65_536;

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// An interface came, went or changed.
    Link,
    /// An address of an interface came or went.
    Address,
    /// A neighbour's MAC address came, went or changed.
    Neighbour,
    /// A route, a rule, a next hop or a setting of forwarding.
    Route,
    /// A rule of IPv4, or a route of IPv4 by which the way may depend on more than the destination:
    /// one of several ways, of a next hop object, or of a type of service.
    Ways,
    /// Notifications were lost: anything may have changed.
    Lost,
}

/// A neighbour: interface and address.
type Key = (u32, Vec<u8>);

/// A socket that is told of changes in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Events {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// The MAC addresses that are in use.
    neighbours: HashMap<Key, Vec<u8>>,
}

impl Events {
    /// Begins to listen: what happens from now on will be told.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn open() -> io::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )?;
        // Only root may; others live with the default.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &BACKLOG_SIZE_BYTES);
        let groups = GROUPS.iter().fold(0, |set, group| set | 1 << (group - 1));
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Self { socket, buffer: vec![0; RECEIVE_SIZE_BYTES], neighbours: HashMap::new() })
    }

    /// Waits for changes, at most this long, and takes all that are there. The list has each kind
    /// once, and is empty if the time passed.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Vec<Change>> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, timeout) {
            Ok(0) | Err(Errno::EINTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut changes = Vec::new();
        let mut note = |change| {
            if !changes.contains(&change) {
                changes.push(change);
            }
        };
        loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::empty()) {
                Ok(size) => {
                    for (kind, body) in messages(&self.buffer[..size]) {
                        if let Some(change) = judge(kind, body, &mut self.neighbours) {
                            note(change);
                        }
                    }
                }
                Err(Errno::EAGAIN) => return Ok(changes),
                Err(Errno::EINTR) => {}
                Err(Errno::ENOBUFS) => {
                    self.neighbours.clear();
                    note(Change::Lost);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The messages of a datagram: type and body. What is cut short ends the list.
fn messages(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while let Some((kind, body, next)) = split(bytes) {
        found.push((kind, body));
        bytes = next;
    }
    found
}

fn split(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let size = usize::try_from(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)).ok()?;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(MESSAGE_HEADER_SIZE..size)?;
    Some((kind, body, bytes.get(size.next_multiple_of(4)..).unwrap_or_default()))
}

/// What a message means, if it means anything.
fn judge(kind: u16, body: &[u8], known: &mut HashMap<Key, Vec<u8>>) -> Option<Change> {
    match kind {
        NEW_LINK | DEL_LINK => Some(Change::Link),
        NEW_ADDRESS | DEL_ADDRESS => Some(Change::Address),
        NEW_NEIGHBOUR | DEL_NEIGHBOUR => {
            neighbour_changed(kind == DEL_NEIGHBOUR, body, known).then_some(Change::Neighbour)
        }
        0..NEW_LINK => None,
        NEW_RULE | DEL_RULE if body.first() == Some(&INET) => Some(Change::Ways),
        NEW_ROUTE if forks(body) => Some(Change::Ways),
        _ => Some(Change::Route),
    }
}

/// Whether a route is IPv4's, and the way by it depends on more than the destination, as far as the
/// message says.
fn forks(body: &[u8]) -> bool {
    if body.first() != Some(&INET) {
        return false;
    }
    let mut rest = body.get(ROUTE_HEADER_SIZE..).unwrap_or_default();
    while let Some((kind, _, next)) = attribute(rest) {
        if matches!(kind, ROUTE_MULTIPATH | ROUTE_NEXT_HOP) {
            return true;
        }
        rest = next;
    }
    body.get(ROUTE_TOS_AT).is_some_and(|tos| *tos != 0)
}

/// Whether the MAC address by which a neighbour is reached is another one now, or none.
fn neighbour_changed(is_gone: bool, body: &[u8], known: &mut HashMap<Key, Vec<u8>>) -> bool {
    let word = |at: usize| body.get(at..at + 4).and_then(|part| part.try_into().ok());
    let Some(ifindex) = word(4).map(u32::from_ne_bytes) else { return true };
    let state = body.get(8..10).and_then(|part| part.try_into().ok()).map_or(0, u16::from_ne_bytes);
    let Some(mut rest) = body.get(NEIGHBOUR_HEADER_SIZE..) else { return true };
    let (mut address, mut mac) = (None, None);
    while let Some((kind, value, next)) = attribute(rest) {
        match kind {
            NEIGHBOUR_ADDRESS => address = Some(value),
            NEIGHBOUR_MAC => mac = Some(value),
            _ => {}
        }
        rest = next;
    }
    let Some(address) = address else { return false };
    let key = (ifindex, address.to_vec());
    match mac.filter(|_| !is_gone && state & NUD_VALID != 0) {
        Some(mac) => {
            if known.len() >= NEIGHBOUR_COUNT_MAX {
                known.clear();
            }
            known.insert(key, mac.to_vec()).as_deref() != Some(mac)
        }
        // A neighbour that was never heard of may have been there before we listened.
        None => known.remove(&key).is_some() || is_gone,
    }
}

fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let size = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & 0x3fff;
    let value = bytes.get(ATTRIBUTE_HEADER_SIZE..size)?;
    Some((kind, value, bytes.get(size.next_multiple_of(4)..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::testing::namespace;
    use crate::{Netlink, VethEnd};

    /// Waits until a kind of change was told, or fails.
    fn expect(events: &mut Events, change: Change) {
        for _ in 0..100 {
            if events.wait(Duration::from_millis(50)).unwrap().contains(&change) {
                return;
            }
        }
        panic!("{change:?} was not told");
    }

    #[test]
    fn changes_are_told_by_kind() {
        let namespace = namespace("events");
        namespace
            .run(|| {
                let mut events = Events::open().unwrap();
                let netlink = Netlink::open().unwrap();
                netlink.create_veth(&VethEnd::new("a"), &VethEnd::new("b"), 1).unwrap();
                expect(&mut events, Change::Link);
                netlink.set_up("a").unwrap();
                netlink.set_up("b").unwrap();
                netlink.add_address("a", "198.18.0.1/24".parse().unwrap()).unwrap();
                expect(&mut events, Change::Address);
                let via: IpAddr = "198.18.0.2".parse().unwrap();
                netlink.add_neighbour("a", via, [2, 0, 0, 0, 0, 1]).unwrap();
                expect(&mut events, Change::Neighbour);
                netlink.add_route("198.19.0.0/16".parse().unwrap(), Some(via), "a").unwrap();
                expect(&mut events, Change::Route);
            })
            .unwrap();
    }

    /// A message about a neighbour: state, address, MAC address.
    fn neighbour(state: u16, mac: Option<u8>) -> Vec<u8> {
        let mut body = vec![2, 0, 0, 0, 7, 0, 0, 0];
        body.extend(state.to_ne_bytes());
        body.extend([0, 0]);
        body.extend([8, 0, 1, 0, 198, 18, 0, 2]);
        if let Some(mac) = mac {
            body.extend([10, 0, 2, 0, 2, 0, 0, 0, 0, mac, 0, 0]);
        }
        body
    }

    #[test]
    fn only_another_mac_address_matters() {
        let mut known = HashMap::new();
        let mut is_reported =
            |kind, state, mac| judge(kind, &neighbour(state, mac), &mut known).is_some();
        assert!(!is_reported(NEW_NEIGHBOUR, 0x01, None), "incomplete");
        assert!(is_reported(NEW_NEIGHBOUR, 0x02, Some(1)), "reachable");
        assert!(!is_reported(NEW_NEIGHBOUR, 0x04, Some(1)), "stale: the same address is used");
        assert!(!is_reported(NEW_NEIGHBOUR, 0x10, Some(1)), "probed");
        assert!(is_reported(NEW_NEIGHBOUR, 0x02, Some(2)), "moved");
        assert!(is_reported(NEW_NEIGHBOUR, 0x20, Some(2)), "failed");
        assert!(!is_reported(NEW_NEIGHBOUR, 0x20, None), "still failed");
        assert!(is_reported(DEL_NEIGHBOUR, 0x04, Some(2)), "gone");
    }

    #[test]
    fn routes_that_fork_and_rules_of_ipv4_are_told_apart() {
        let route = |family: u8, tos: u8, attributes: &[u8]| {
            [&[family, 24, 0, tos, 254, 4, 0, 1, 0, 0, 0, 0], attributes].concat()
        };
        let mut known = HashMap::new();
        let mut change = |kind, body: &[u8]| judge(kind, body, &mut known);
        let destination = [8, 0, 1, 0, 10, 0, 0, 0];
        let multipath = [&destination[..], &[8, 0, 9, 0, 0, 0, 0, 0]].concat();
        let object = [&destination[..], &[8, 0, 30, 0, 1, 0, 0, 0]].concat();
        assert_eq!(change(NEW_ROUTE, &route(2, 0, &destination)), Some(Change::Route));
        assert_eq!(change(NEW_ROUTE, &route(2, 4, &destination)), Some(Change::Ways));
        assert_eq!(change(NEW_ROUTE, &route(2, 0, &multipath)), Some(Change::Ways));
        assert_eq!(change(NEW_ROUTE, &route(2, 0, &object)), Some(Change::Ways));
        assert_eq!(change(NEW_ROUTE, &route(10, 0, &multipath)), Some(Change::Route), "IPv6");
        assert_eq!(change(NEW_RULE, &[2, 0, 0, 0]), Some(Change::Ways));
        assert_eq!(change(DEL_RULE, &[10, 0, 0, 0]), Some(Change::Route), "IPv6");
        assert_eq!(change(NEW_ROUTE, &[]), Some(Change::Route), "cut short");
    }

    #[test]
    fn what_is_cut_short_ends_the_list() {
        let mut bytes = 20u32.to_ne_bytes().to_vec();
        bytes.extend([16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
        assert_eq!(messages(&bytes), [(NEW_LINK, &[1, 2, 3, 4][..])]);
        for size in 0..bytes.len() {
            assert_eq!(messages(&bytes[..size]), [], "{size} bytes");
        }
    }
}
