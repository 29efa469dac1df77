//! Routes and neighbours that change under a running flow: the daemon hears of it and makes the
//! flow's next hop stale, and the very next packets take the new way; with a state, and where
//! nothing is filtered and the next hop is kept. Datagrams with numbers, one after the other,
//! so that each says by which way it came, and one that is lost is missed.

use std::ffi::OsString;
use std::net::UdpSocket;

use nix::sys::socket::{
    setsockopt,
    sockopt::{BindToDevice, Ipv4Tos},
};
use weir_net::{Netlink, NetlinkError};
use weir_wire::mac::MacAddr;

use crate::common::{can_run_lab, skipped};
use crate::turns::beside;

use super::nat::ip;
use super::network::{Network, PATIENCE, SERVER, plain_frames, wait_until};

const PORT: u16 = 5001;
/// Datagrams that are sent each time.
const COUNT: u32 = 200;
/// The server's other MAC address.
const OTHER_MAC: &str = "02:00:00:00:99:02";

/// The MAC address of an interface.
#[track_caller]
fn mac(netns: &weir_net::Netns, name: &str) -> String {
    let printed = ip(netns, &format!("-o link show dev {name}"));
    let mut words = printed.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).expect("a MAC address").to_owned()
}

/// One flow from the client, and what the server receives of it by each of its interfaces.
struct Flow {
    client: UdpSocket,
    by_s0: UdpSocket,
    by_s1: UdpSocket,
    number: u32,
}

impl Flow {
    fn new(net: &Network) -> Self {
        Self::to(net, PORT)
    }

    /// Towards a port of the server, from the one below it.
    fn to(net: &Network, port: u16) -> Self {
        let client = net.client.run(|| {
            let socket = UdpSocket::bind(("10.1.0.2", port - 1)).expect("bound");
            socket.connect((SERVER, port)).expect("connected");
            socket
        });
        let server = |name: &str| {
            let bind = || {
                // Port 0 first: two sockets share the port, as each has a device of its own.
                let socket = nix::sys::socket::socket(
                    nix::sys::socket::AddressFamily::Inet,
                    nix::sys::socket::SockType::Datagram,
                    nix::sys::socket::SockFlag::empty(),
                    None,
                )
                .expect("a socket");
                setsockopt(&socket, BindToDevice, &OsString::from(name)).expect("set");
                let any = nix::sys::socket::SockaddrIn::new(0, 0, 0, 0, port);
                nix::sys::socket::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), &any)
                    .expect("bound");
                UdpSocket::from(socket)
            };
            let socket = net.server.run(bind).expect("entered");
            socket.set_read_timeout(Some(PATIENCE)).expect("set");
            socket
        };
        let (by_s0, by_s1) = (server("s0"), server("s1"));
        Self { client: client.expect("entered"), by_s0, by_s1, number: 0 }
    }

    /// Sets the TOS of what it sends from here on.
    fn mark(&self, tos: i32) {
        setsockopt(&self.client, Ipv4Tos, &tos).expect("set");
    }

    /// By which identifiers pfctl knows its state.
    #[track_caller]
    fn states(&self, net: &Network) -> Vec<String> {
        let all = net.pfctl("-vvss");
        let lines: Vec<&str> = all.lines().collect();
        let is_of_client = |state: &&[&str]| state[0].contains("10.1.0.2:5000");
        let states = lines.chunk_by(|_, next| next.starts_with(' ')).filter(is_of_client);
        let ids = states.flatten().filter_map(|line| line.split_once(" id: "));
        let ids: Vec<String> = ids.map(|(_, id)| id.to_owned()).collect();
        assert!(!ids.is_empty(), "{all}");
        ids
    }

    /// Sends datagrams; each of them has to come by this interface, and none by the other one.
    #[track_caller]
    fn all_come_by(&mut self, is_s0: bool, when: &str) {
        let (here, there) =
            if is_s0 { (&self.by_s0, &self.by_s1) } else { (&self.by_s1, &self.by_s0) };
        for _ in 0..COUNT {
            self.number += 1;
            self.client.send(&self.number.to_be_bytes()).expect("sent");
            let mut bytes = [0; 4];
            let read = here.recv(&mut bytes);
            assert_eq!(read.ok(), Some(4), "{when}: number {} did not come", self.number);
            assert_eq!(u32::from_be_bytes(bytes), self.number, "{when}");
        }
        there.set_nonblocking(true).expect("set");
        let other = there.recv(&mut [0; 4]);
        there.set_nonblocking(false).expect("set");
        there.set_read_timeout(Some(PATIENCE)).expect("set");
        assert!(other.is_err(), "{when}: nothing comes by the other interface");
    }
}

fn generation(net: &Network) -> u64 {
    net.json("status")["next_hop_generation"].as_u64().expect("a number")
}

/// The generation that counts what the kernel has told so far: the daemon has read all of it, and
/// the generation stays the same from one look to the next.
#[track_caller]
fn settled_generation(net: &Network) -> u64 {
    let mut last = None;
    wait_until("the daemon has followed", || {
        let before = last.replace(generation(net));
        net.is_all_heard() && before == last
    });
    last.expect("it was looked at")
}

/// Does something, and waits until the daemon has made next hops stale by it.
#[track_caller]
fn followed(net: &Network, what: impl FnOnce()) {
    let before = settled_generation(net);
    what();
    wait_until("the daemon has heard of it", || net.is_all_heard() && generation(net) != before);
}

/// The box with two ways to the server, where nothing changes by itself.
fn two_ways(tag: &str, ruleset: &str) -> Network {
    let net = Network::new(tag);
    net.add_second_way();
    plain_frames(&net.server, "s1");
    for (peer, name, device, address) in [
        (&net.client, "c0", "b0", "10.1.0.2"),
        (&net.server, "s0", "b1", SERVER),
        (&net.server, "s1", "b2", "10.3.0.2"),
    ] {
        let mac = mac(peer, name);
        let words = format!("neigh replace {address} lladdr {mac} dev {device} nud permanent");
        ip(&net.router, &words);
    }
    net.start(ruleset);
    net
}

/// How often the kernel was asked for a route.
fn fib_lookups(net: &Network) -> u64 {
    net.json("stats")["fib_lookups_count"].as_u64().expect("a number")
}

/// A route that changes to and fro under a flow, three times.
fn take_the_new_route(net: &Network, flow: &mut Flow) {
    flow.all_come_by(true, "before");
    let to = |way: &str| {
        followed(net, || drop(ip(&net.router, &format!("route replace {SERVER}/32 {way}"))));
    };
    for round in 0..3 {
        to("via 10.3.0.2 dev b2");
        flow.all_come_by(false, &format!("round {round}, the other way"));
        to("dev b1");
        flow.all_come_by(true, &format!("round {round}, back"));
    }
}

/// A neighbour that changes its address under a flow, three times.
fn go_to_the_new_neighbour(net: &Network, flow: &mut Flow) {
    flow.all_come_by(true, "before");
    let first = mac(&net.server, "s0");
    for address in [OTHER_MAC, &first, OTHER_MAC] {
        // What still goes to the old address from here on is lost.
        ip(&net.server, &format!("link set s0 address {address}"));
        followed(net, || {
            let words = format!("neigh replace {SERVER} lladdr {address} dev b1 nud permanent");
            ip(&net.router, &words);
        });
        flow.all_come_by(true, address);
    }
}

#[test]
fn the_very_next_packets_take_the_new_route() {
    if !can_run_lab("the_very_next_packets_take_the_new_route") {
        return;
    }
    let _turn = beside();
    let net = two_ways("newroute", "pass\n");
    let mut flow = Flow::new(&net);
    flow.all_come_by(true, "the first ones");
    let states = flow.states(&net);
    take_the_new_route(&net, &mut flow);
    assert_eq!(flow.states(&net), states, "the same state all the time");
}

#[test]
fn the_very_next_packets_go_to_the_new_neighbour() {
    if !can_run_lab("the_very_next_packets_go_to_the_new_neighbour") {
        return;
    }
    let _turn = beside();
    let net = two_ways("newmac", "pass\n");
    let mut flow = Flow::new(&net);
    flow.all_come_by(true, "the first ones");
    let states = flow.states(&net);
    go_to_the_new_neighbour(&net, &mut flow);
    assert_eq!(flow.states(&net), states, "the same state all the time");
}

#[test]
fn without_rules_kept_routes_follow_the_kernels() {
    if !can_run_lab("without_rules_kept_routes_follow_the_kernels") {
        return;
    }
    let _turn = beside();
    let net = two_ways("keptroute", "");
    let mut flow = Flow::new(&net);
    flow.all_come_by(true, "the first ones");
    // Neighbours and addresses of the namespaces may still change meanwhile.
    wait_until("packets of a flow go by the route that is kept", || {
        let before = (generation(&net), fib_lookups(&net));
        flow.all_come_by(true, "those after");
        (generation(&net), fib_lookups(&net)) == before
    });
    take_the_new_route(&net, &mut flow);
    go_to_the_new_neighbour(&net, &mut flow);
}

#[test]
fn without_rules_flows_that_the_kernel_routes_apart_stay_apart() {
    if !can_run_lab("without_rules_flows_that_the_kernel_routes_apart_stay_apart") {
        return;
    }
    let _turn = beside();
    let net = two_ways("apart", "");
    ip(&net.router, &format!("route add {SERVER}/32 via 10.3.0.2 dev b2 table 77"));
    // The kernel's own rules, which look at more than the destination.
    for rule in ["dport 5001 ipproto tcp", "tos 0x10", "from 10.1.0.77", "dport 5002 ipproto udp"] {
        ip(&net.router, &format!("rule add {rule} lookup 77"));
    }
    settled_generation(&net);
    let (mut one, mut other) = (Flow::new(&net), Flow::to(&net, PORT + 1));
    for round in 0..3 {
        one.all_come_by(true, &format!("round {round}, the main way"));
        other.all_come_by(false, &format!("round {round}, the other port's"));
        one.mark(0x10);
        one.all_come_by(false, &format!("round {round}, with a TOS that has another way"));
        one.mark(0);
    }
}

/// The MAC address of a virtual router (RFC 9568), as keepalived's `use_vmac` gives a macvlan.
const VIRTUAL_MAC: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 7]);

#[test]
fn frames_for_a_virtual_router_are_forwarded_as_long_as_it_is_up() {
    let test = "frames_for_a_virtual_router_are_forwarded_as_long_as_it_is_up";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("virtual");
    let make = || Netlink::open().expect("netlink").create_macvlan("vrrp.7", "b0", VIRTUAL_MAC.0);
    match net.router.run(make).expect("entered") {
        Ok(()) => {}
        Err(NetlinkError::Refused { source, .. }) if source.raw_os_error() == Some(95) => {
            skipped(test, "this kernel has no macvlan devices (CONFIG_MACVLAN)");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    net.start("pass\n");
    ip(&net.client, &format!("neigh replace 10.1.0.1 dev c0 lladdr {VIRTUAL_MAC}"));
    let socket = net.client.run(|| UdpSocket::bind("10.1.0.2:0")).expect("entered");
    let socket = socket.expect("bound");
    let forwarded = || net.json("stats")["forwarded_packets"].as_u64().expect("a number");
    let sent = || {
        let before = forwarded();
        for _ in 0..COUNT {
            assert_eq!(socket.send_to(b"x", (SERVER, PORT)).expect("sent"), 1);
        }
        forwarded() - before
    };
    ip(&net.router, "link set vrrp.7 up");
    wait_until("frames for it are forwarded", || sent() >= COUNT.into());
    ip(&net.router, "link set vrrp.7 down");
    wait_until("they are not any more", || sent() == 0);
}
