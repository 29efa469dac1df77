//! `dup-to`: an observer behind another link gets a copy of each packet of the flows that rules
//! name, and of no others, while the flows themselves go on unharmed.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt::RcvBuf,
};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};

use super::nat::{datagrams, ip, seen_of_datagram, who_datagrams};
use super::network::{
    Network, PATIENCE, SERVER, SERVER6, echo_server, namespace, pattern, wait_until,
};
use crate::common::can_run_lab;
use crate::turns::beside;

const CLIENT: [u8; 4] = [10, 1, 0, 2];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// An IPv4 packet that the observer has got.
#[derive(Debug, Clone)]
struct Copy {
    protocol: u8,
    ttl: u8,
    source: ([u8; 4], u16),
    destination: ([u8; 4], u16),
    seq: u32,
    payload: Vec<u8>,
}

impl Copy {
    /// What a frame has, if it is TCP or UDP and not a piece.
    fn read(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(14..).filter(|_| frame.get(12..14) == Some(&[8, 0]))?;
        let size = usize::from(u16::from_be_bytes(*ip.get(2..)?.first_chunk()?));
        let ip = ip.get(..size)?;
        let message = ip.get(usize::from(ip.first()? & 15) * 4..)?;
        let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
        let protocol = *ip.get(9)?;
        let header_bytes = match protocol {
            TCP => usize::from(message.get(12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        Some(Self {
            protocol,
            ttl: *ip.get(8)?,
            source: (*ip.get(12..)?.first_chunk()?, port(0)?),
            destination: (*ip.get(16..)?.first_chunk()?, port(2)?),
            seq: u32::from_be_bytes(*message.get(4..)?.first_chunk()?),
            payload: message.get(header_bytes..)?.to_vec(),
        })
    }
}

/// The network, and who observes it behind `b3`.
struct Site {
    net: Network,
    _observer: NetnsGuard,
    seen: Arc<Mutex<Vec<Copy>>>,
}

/// All that comes to a namespace.
fn observe(netns: &Netns) -> Arc<Mutex<Vec<Copy>>> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let open = || socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll);
    let opened = netns.run(open).expect("entered").expect("made");
    setsockopt(&opened, RcvBuf, &(8 << 20)).expect("set");
    let mut frames = std::fs::File::from(opened);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    thread::spawn(move || {
        let mut bytes = vec![0; 1 << 17];
        while let Ok(size) = frames.read(&mut bytes) {
            let copy = Copy::read(&bytes[..size]);
            list.lock().expect("not poisoned").extend(copy);
        }
    });
    seen
}

impl Site {
    fn new(tag: &str, mtu_bytes: u32) -> Self {
        let net = Network::new(tag);
        let observer = namespace(tag, "w");
        net.router
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let peer = VethEnd::new("w0").in_netns(&observer);
                netlink.create_veth(&VethEnd::new("b3"), &peer, 1).expect("a veth is made");
            })
            .expect("entered");
        for (netns, link, addresses) in [
            (&*net.router, "b3", ["10.4.0.1/24", "fd04::1/64"]),
            (&*observer, "w0", ["10.4.0.9/24", "fd04::9/64"]),
        ] {
            for address in addresses {
                ip(netns, &format!("address add {address} dev {link}"));
            }
            ip(netns, &format!("link set {link} mtu {mtu_bytes}"));
            ip(netns, &format!("link set {link} up"));
        }
        for (netns, link) in [(&net.router, "b0"), (&net.client, "c0")] {
            ip(netns, &format!("link set {link} mtu {mtu_bytes}"));
        }
        // Datagrams that are longer come in pieces.
        ip(&net.client, "route change default via 10.1.0.1 mtu 1500");
        echo_server(&net.server, SERVER, 7001);
        for port in [5353, 5354] {
            who_datagrams(&net.server, SERVER, port);
        }
        who_datagrams(&net.server, SERVER6, 5353);
        who_datagrams(&net.router, "10.1.0.1", 5353);
        let seen = observe(&observer);
        Self { net, _observer: observer, seen }
    }

    /// Loads rules, and waits until the box knows the observer.
    fn load(&self, rules: &str) {
        let dialect = if rules.contains("dup-to (") { "freebsd" } else { "openbsd" };
        self.net.reload_as(dialect, rules);
        let knows = || ip(&self.net.router, "neigh show dev b3").contains("lladdr");
        wait_until("the observer is known", knows);
        self.seen.lock().expect("not poisoned").clear();
    }

    fn counter(&self, name: &str) -> u64 {
        self.net.json("stats")[name].as_u64().expect("a number")
    }

    /// So many datagrams to a port and back, while others that no rule copies go as well.
    fn exchange(&self, host: &str, port: u16) {
        let socket = datagrams(&self.net.client, "10.1.0.2:5000", host, port);
        let other = datagrams(&self.net.client, "10.1.0.2:5001", SERVER, 5354);
        for size in 0..COUNT {
            seen_of_datagram(&socket, 40 + size);
            seen_of_datagram(&other, 40);
        }
    }

    /// How many requests of the client and how many answers to it have come to the observer, when
    /// there are as many as there should be and nothing follows.
    #[track_caller]
    fn assert_copies(&self, port: u16, expected: [usize; 2]) {
        let count = || {
            let seen = self.seen.lock().expect("not poisoned");
            assert!(seen.iter().all(|copy| copy.ttl == 63), "{seen:?}");
            let is_it = |end: &([u8; 4], u16)| end.1 == port;
            let asks = seen.iter().filter(|copy| copy.source.0 == CLIENT);
            let answers = seen.iter().filter(|copy| copy.destination.0 == CLIENT);
            assert_eq!(asks.clone().count() + answers.clone().count(), seen.len(), "{seen:?}");
            let asks = asks.filter(|copy| is_it(&copy.destination)).count();
            let found = [asks, answers.filter(|copy| is_it(&copy.source)).count()];
            assert_eq!(found.iter().sum::<usize>(), seen.len(), "others: {seen:?}");
            found
        };
        let is_all = |found: [usize; 2]| found[0] >= expected[0] && found[1] >= expected[1];
        let end = std::time::Instant::now() + PATIENCE / 4;
        while !is_all(count()) && std::time::Instant::now() < end {
            thread::sleep(std::time::Duration::from_millis(20));
        }
        let stats = self.net.json("stats");
        assert!(is_all(count()), "{:?} of {expected:?}: {stats}", count());
        assert_eq!(count(), expected);
    }

    /// What one end of a connection has said, as the observer has heard it.
    fn stream(&self, is_client: bool) -> Vec<u8> {
        let seen = self.seen.lock().expect("not poisoned");
        let said = seen.iter().filter(|copy| {
            copy.protocol == TCP
                && (copy.source.0 == CLIENT) == is_client
                && !copy.payload.is_empty()
        });
        let Some(first) = said.clone().next().map(|copy| copy.seq) else { return Vec::new() };
        let pieces: BTreeMap<u32, &[u8]> =
            said.map(|copy| (copy.seq.wrapping_sub(first), &*copy.payload)).collect();
        let mut stream = Vec::new();
        for (at, piece) in pieces {
            // What was sent twice is heard twice.
            let have = stream.len().saturating_sub(at as usize);
            stream.extend(piece.get(have..).unwrap_or_default());
        }
        stream
    }
}

/// Datagrams of an exchange.
const COUNT: usize = 20;

fn copies(test: &str, tag: &str, mtu_bytes: u32) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new(tag, mtu_bytes);
    let net = &site.net;
    net.start("pass\n");

    // Where they come in, and the answers where they leave.
    site.load(
        "pass\n\
         pass in on b0 dup-to (b3 10.4.0.9) inet proto { tcp udp } to any port { 5353 7001 }\n",
    );
    site.exchange(SERVER, 5353);
    site.assert_copies(5353, [COUNT, COUNT]);
    assert_eq!(site.counter("copied_packets"), 2 * COUNT as u64);
    site.seen.lock().expect("not poisoned").clear();
    let bytes = pattern(200_000);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    assert!(line.bulk(&bytes) == bytes, "the connection is unharmed");
    line.finish();
    for is_client in [true, false] {
        wait_until("all of it is heard", || site.stream(is_client).len() >= bytes.len());
        assert!(site.stream(is_client) == bytes, "from the client: {is_client}");
    }

    // What is for the box itself, and its answers.
    net.pfctl("-F states");
    site.load("pass\npass in on b0 dup-to (b3 10.4.0.9) inet proto udp to (b0) port 5353\n");
    site.exchange("10.1.0.1", 5353);
    wait_until("requests and answers", || site.seen.lock().expect("whole").len() >= 2 * COUNT);
    let seen = site.seen.lock().expect("not poisoned").clone();
    assert_eq!(seen.len(), 2 * COUNT, "{seen:?}");
    let asks = seen.iter().filter(|copy| copy.source.0 == CLIENT && copy.ttl == 63).count();
    assert_eq!(asks, COUNT, "{seen:?}");

    other_hooks(&site);
    other_packets(&site);
    nobody_is_there(&site);
}

/// IPv6, and datagrams in pieces, each of which is copied.
fn other_packets(site: &Site) {
    let net = &site.net;
    net.pfctl("-F states");
    site.load(
        "pass\npass in on b0 dup-to (b3 10.4.0.9) inet proto udp to any port 5353\n\
         pass in on b0 dup-to (b3 fd04::9) inet6 proto udp to any port 5353\n",
    );
    let knows = || ip(&net.router, "-6 neigh show fd04::9 dev b3").contains("lladdr");
    wait_until("the observer is known by IPv6", knows);
    let copies_of = |local: &str, host: &str, size: usize| {
        let socket = datagrams(&net.client, local, host, 5353);
        let before = site.counter("copied_packets");
        seen_of_datagram(&socket, size);
        site.counter("copied_packets") - before
    };
    assert_eq!(copies_of("[fd01::2]:5002", SERVER6, 40), 2);
    assert_eq!(copies_of("10.1.0.2:5003", SERVER, 4000), 6, "three each");
    assert_eq!(site.counter("copy_lost_packets"), 0);
}

/// Where packets leave, without a state, and by rules that the copies would match.
fn other_hooks(site: &Site) {
    let net = &site.net;
    // OpenBSD's words, where they leave, and the answers where they come in.
    net.pfctl("-F states");
    site.load("pass\npass out on b1 inet proto udp to any port 5353 dup-to 10.4.0.9\n");
    site.exchange(SERVER, 5353);
    site.assert_copies(5353, [COUNT, COUNT]);

    // Without a state: what the rule passes alone.
    net.pfctl("-F states");
    site.load(
        "pass no state\n\
         pass in on b0 dup-to (b3 10.4.0.9) inet proto udp to port 5353 no state\n",
    );
    site.exchange(SERVER, 5353);
    site.assert_copies(5353, [COUNT, 0]);

    // The copies themselves are no matter of rules.
    net.pfctl("-F states");
    site.load(
        "pass\nblock out on b3 inet proto udp\n\
         pass out quick on { b1 b3 } dup-to (b3 10.4.0.9) inet proto udp to any port 5353\n",
    );
    site.exchange(SERVER, 5353);
    site.assert_copies(5353, [COUNT, COUNT]);
}

/// The flow does not mind.
fn nobody_is_there(site: &Site) {
    let net = &site.net;
    assert_eq!(site.counter("copy_lost_packets"), 0);
    ip(&net.router, "link set b3 down");
    site.exchange(SERVER, 5353);
    assert!(site.counter("copy_lost_packets") >= COUNT as u64);

    // Once the rule is gone, so are the copies.
    ip(&net.router, "link set b3 up");
    let before = site.counter("copied_packets");
    net.reload("pass\n");
    site.exchange(SERVER, 5353);
    assert_eq!(site.counter("copied_packets"), before);
}

#[test]
fn an_observer_gets_a_copy_of_each_packet() {
    copies("an_observer_gets_a_copy_of_each_packet", "cp-xdp", 1500);
}

/// The frames are too long for XDP there.
#[test]
fn an_observer_gets_copies_from_a_tcx_program() {
    copies("an_observer_gets_copies_from_a_tcx_program", "cp-tcx", 9000);
}
