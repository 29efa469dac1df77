//! Broadcasts and multicasts: what a router does not let out of its network, and what it sends
//! itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use weir_net::{Netlink, Netns};

use crate::common::can_run_lab;
use crate::turns::beside;

use super::super::nat::ip;
use super::super::network::{Network, PATIENCE, SERVER, SERVER6};

const GROUP: &str = "224.0.0.1";
const GROUP6: &str = "ff0e::1";

/// The port of each family.
const fn port(is_ipv4: bool) -> u16 {
    if is_ipv4 { 5000 } else { 5006 }
}

/// Sends a word from a namespace.
fn send(from: &Netns, host: &str, word: &str) {
    let host: IpAddr = host.parse().expect("an address");
    let address = SocketAddr::new(host, port(host.is_ipv4()));
    let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = from.run(|| UdpSocket::bind(local)).expect("entered").expect("bound");
    if address.is_ipv4() {
        socket.set_broadcast(true).expect("set");
    }
    socket.send_to(word.as_bytes(), address).expect("sent");
}

/// A socket of the server's that hears what is said to everybody.
fn listener(net: &Network, local: &str) -> UdpSocket {
    let bind = || {
        let socket = UdpSocket::bind((local, port(!local.contains(':')))).expect("bound");
        if local.contains(':') {
            let index = Netlink::open().expect("netlink").ifindex("s0").expect("it is there");
            let group: Ipv6Addr = GROUP6.parse().expect("an address");
            socket.join_multicast_v6(&group, index).expect("joined");
        } else {
            let group: Ipv4Addr = GROUP.parse().expect("an address");
            socket.join_multicast_v4(&group, &Ipv4Addr::new(10, 2, 0, 2)).expect("joined");
        }
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        socket
    };
    net.server.run(bind).expect("entered")
}

fn heard(socket: &UdpSocket) -> String {
    let mut bytes = [0; 99];
    let size = socket.recv(&mut bytes).expect("it comes");
    String::from_utf8_lossy(&bytes[..size]).into_owned()
}

/// Everything that is to stay behind is blocked of what came in, wherever it is sent to.
const RULES: &str = "\
block all
pass out keep state
pass in on b0 inet proto icmp all keep state
pass in on b0 inet6 proto icmp6 all keep state
pass inet6 proto icmp6 icmp6-type { neighbrsol, neighbradv, routersol, routeradv } keep state
block out quick on b1 inet from any to (b1:broadcast) received-on any
block out quick on b1 inet from any to 255.255.255.255 received-on any
block out quick on b1 inet from any to 224.0.0.0/4 received-on any
block out quick on b1 inet6 from any to ff00::/8 received-on any
pass in on b0 route-to (b1 10.2.0.2) inet proto udp from any to any keep state
pass in on b0 route-to (b1 fd02::2) inet6 proto udp from any to any keep state
";

/// What one network says to all its hosts stays there, whatever gateway a rule has; what the box
/// says to all of another one is heard.
#[test]
fn what_is_for_all_hosts_of_a_network_stays_there() {
    let test = "what_is_for_all_hosts_of_a_network_stays_there";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("sc-groups");
    for (netns, name, number) in [(&net.router, "b1", 1), (&net.server, "s0", 2)] {
        ip(netns, &format!("address del 10.2.0.{number}/24 dev {name}"));
        ip(netns, &format!("address add 10.2.0.{number}/24 brd 10.2.0.255 dev {name}"));
    }
    ip(&net.server, "route replace default via 10.2.0.1 dev s0");
    for (netns, name) in [(&net.client, "c0"), (&net.router, "b1")] {
        ip(netns, &format!("route add 255.255.255.255/32 dev {name}"));
        ip(netns, &format!("route add multicast 224.0.0.0/4 dev {name}"));
        ip(netns, &format!("-6 route add multicast ff0e::/16 dev {name} table local metric 1"));
    }
    let (socket, socket6) = (listener(&net, "0.0.0.0"), listener(&net, "::"));
    net.start(RULES);
    for host in ["10.2.0.255", "255.255.255.255", GROUP] {
        send(&net.client, host, "leaked");
        // Behind it, on the same way.
        send(&net.client, SERVER, "for one");
        assert_eq!(heard(&socket), "for one", "{host}");
        send(&net.router, host, "for all");
        assert_eq!(heard(&socket), "for all", "{host}");
    }
    send(&net.client, GROUP6, "leaked");
    send(&net.client, SERVER6, "for one");
    assert_eq!(heard(&socket6), "for one");
    send(&net.router, GROUP6, "for all");
    assert_eq!(heard(&socket6), "for all");
}
