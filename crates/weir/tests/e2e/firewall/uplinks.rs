//! A router with two uplinks, of which the kernel's default route knows one: `route-to` sends what
//! it says by the other, and `reply-to` answers by the uplink that somebody came in by. The same
//! host of the world is behind both uplinks, in a namespace each, so that whoever answers there has
//! got the packet.

use std::net::IpAddr;

use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};

use super::nat::{datagrams, ip, program, seen, seen_of_datagram, who_datagrams, who_server};
use super::network::{
    IMPATIENCE, Network, PATIENCE, connect_from, echo_server, namespace, pattern, plain_frames,
    wait_until,
};
use crate::common::{assert_exit, can_run_lab, stdout};
use crate::turns::beside;

/// The host of the world.
pub(super) const WORLD: &str = "203.0.113.9";
const WORLD6: &str = "2001:db8:9::9";
const CLIENT: &str = "10.1.0.2";
/// The box's addresses at either uplink.
const FIRST: &str = "10.2.0.1";
const SECOND: &str = "10.3.0.1";
const SECOND6: &str = "fd03::1";

/// FreeBSD's words, as its handbook and the FAQ of OpenBSD's older pf have them.
const FREEBSD: &str = "\
lan = \"b0\"
ext1 = \"b1\"
ext2 = \"b2\"
gw1 = \"10.2.0.2\"
gw2 = \"10.3.0.2\"
nat on $ext1 inet from $lan:network to any -> ($ext1)
nat on $ext2 inet from $lan:network to any -> ($ext2)
nat on $ext2 inet6 from fd01::/64 to any -> fd03::1
rdr on $ext2 inet proto tcp from any to ($ext2) port 18080 -> 10.1.0.2 port 80
block return
pass proto icmp6
pass in on $lan
pass in on $lan route-to ($ext2 $gw2) inet proto { tcp udp } to any port { 7001 5353 }
pass in on $lan route-to ($ext2 fd03::2) inet6 proto tcp to any port 7001
pass in on $lan route-to { ($ext1 $gw1), ($ext2 $gw2) } round-robin inet proto tcp to any port 7003
pass in on $ext2 reply-to ($ext2 $gw2) inet proto tcp to 10.1.0.2 port 80
pass in on $ext2 reply-to ($ext2 $gw2) inet proto tcp to ($ext2) port 2222
pass out
pass out on $ext1 route-to ($ext2 $gw2) inet from ($ext2) to any
";

/// OpenBSD's: the address alone, whose route says which interface.
const OPENBSD: &str = "\
lan = \"b0\"
ext1 = \"b1\"
ext2 = \"b2\"
gw1 = \"10.2.0.2\"
gw2 = \"10.3.0.2\"
block return
match out on $ext1 inet from $lan:network nat-to ($ext1)
match out on $ext2 inet from $lan:network nat-to ($ext2)
match out on $ext2 inet6 from fd01::/64 nat-to fd03::1
match in on $ext2 inet proto tcp to ($ext2) port 18080 rdr-to 10.1.0.2 port 80
pass proto icmp6
pass in on $lan
pass in on $lan inet proto { tcp udp } to any port { 7001 5353 } route-to $gw2
pass in on $lan inet6 proto tcp to any port 7001 route-to fd03::2
pass in on $lan inet proto tcp to any port 7003 route-to { $gw1 $gw2 } round-robin
pass in on $ext2 inet proto tcp to 10.1.0.2 port 80 reply-to $gw2
pass in on $ext2 inet proto tcp to ($ext2) port 2222 reply-to $gw2
pass out
pass out on $ext1 inet from ($ext2) to any route-to $gw2
";

/// The network, and who is behind the second uplink.
pub(super) struct Site {
    pub(super) net: Network,
    pub(super) second: NetnsGuard,
}

/// Whoever is at the end of an uplink is the host of the world, too, and speaks to the box as that.
fn is_the_world(netns: &Netns, box_address: &str, link: &str) {
    ip(netns, &format!("address add {WORLD}/32 dev lo"));
    ip(netns, &format!("address add {WORLD6}/128 dev lo"));
    ip(netns, &format!("route replace {box_address}/32 dev {link} src {WORLD}"));
}

impl Site {
    /// `is_plain`: the client's frames are ones that XDP can forward; else the kernel has to.
    pub(super) fn new(tag: &str, is_plain: bool) -> Self {
        let net = Network::new(tag);
        let second = namespace(tag, "i");
        net.router
            .run(|| {
                let netlink = Netlink::open().expect("netlink");
                let peer = VethEnd::new("i0").in_netns(&second);
                netlink.create_veth(&VethEnd::new("b2"), &peer, 1).expect("a veth is made");
            })
            .expect("entered");
        for (netns, link, addresses) in [
            (&net.router, "b2", ["10.3.0.1/24", "fd03::1/64"]),
            (&second, "i0", ["10.3.0.2/24", "fd03::2/64"]),
        ] {
            for address in addresses {
                ip(netns, &format!("address add {address} dev {link}"));
            }
            ip(netns, &format!("link set {link} up"));
            ip(netns, "link set lo up");
        }
        plain_frames(&second, "i0");
        for words in ["route add default via 10.3.0.1", "-6 route add default via fd03::1"] {
            ip(&second, words);
        }
        for words in ["route add default via 10.2.0.2", "-6 route add default via fd02::2"] {
            ip(&net.router, words);
        }
        is_the_world(&net.server, FIRST, "s0");
        is_the_world(&second, SECOND, "i0");
        if !is_plain {
            let words = ["ethtool", "-K", "c0", "tx", "on"];
            assert_exit(&program("uplinks", &net.client, &words).expect("ethtool"), 0);
        }
        for netns in [&net.server, &second] {
            for (host, port) in [(WORLD, 7001), (WORLD6, 7001), (WORLD, 7002), (WORLD, 7003)] {
                who_server(netns, host, port);
            }
            who_datagrams(netns, WORLD, 5353);
        }
        who_server(&net.client, CLIENT, 80);
        who_server(&net.router, SECOND, 2222);
        Self { net, second }
    }
}

fn assert_by(site: &Site, port: u16, address: &str) {
    let peer = seen(&site.net.client, if address.contains(':') { WORLD6 } else { WORLD }, port);
    assert_eq!(peer.ip().to_string(), address, "{peer}: {}", site.net.pfctl("-vvss"));
}

/// The box knows nobody at an address of the second uplink any more.
fn forget_neighbours(net: &Network) {
    ip(&net.router, "neigh flush dev b2");
}

fn two_uplinks(test: &str, tag: &str, rules: &str, is_plain: bool) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new(tag, is_plain);
    let Site { net, second } = &site;
    net.start(rules);
    // The first packet of all finds no neighbour.
    forget_neighbours(net);

    assert_by(&site, 7001, SECOND);
    assert_by(&site, 7002, FIRST);
    assert_by(&site, 7001, SECOND6);
    let taken: Vec<IpAddr> = (0..4).map(|_| seen(&net.client, WORLD, 7003).ip()).collect();
    for address in [FIRST, SECOND] {
        let count = taken.iter().filter(|ip| ip.to_string() == address).count();
        assert_eq!(count, 2, "{taken:?}");
    }
    let socket = datagrams(&net.client, "10.1.0.2:5000", WORLD, 5353);
    assert_eq!(seen_of_datagram(&socket, 40).ip().to_string(), SECOND);
    // In pieces, which go where the first one went.
    assert_eq!(seen_of_datagram(&socket, 4000).ip().to_string(), SECOND);

    // Who comes in by the second uplink is answered there: who is forwarded, and the box itself.
    let peer = seen(second, SECOND, 18080);
    assert_eq!(peer.ip().to_string(), WORLD, "the client is told who asks");
    let peer = seen(second, SECOND, 2222);
    assert_eq!(peer.ip().to_string(), WORLD, "so is the box");
    // What the box sends with that uplink's address goes there.
    let socket = datagrams(&net.router, "10.3.0.1:5000", WORLD, 5353);
    let peer = seen_of_datagram(&socket, 40);
    assert_eq!(peer.to_string(), "10.3.0.1:5000");
    assert_eq!(seen_of_datagram(&socket, 40), peer, "and so does the next");

    let states = net.pfctl("-vvss");
    assert!(states.contains("\n   route-to: 10.3.0.2"), "{states}");
    assert!(states.contains("\n   reply-to: 10.3.0.2"), "{states}");
    let stats = net.json("stats");
    assert!(!is_plain || stats["forwarded_packets"].as_u64() > Some(20), "{stats}");
    for reason in ["state-mismatch", "no-route", "map-failed", "too-big"] {
        assert_eq!(net.dropped(reason), 0, "{reason}: {stats}");
    }
}

#[test]
fn two_uplinks_as_freebsd_has_them() {
    two_uplinks("two_uplinks_as_freebsd_has_them", "up-free", FREEBSD, true);
}

#[test]
fn two_uplinks_as_openbsd_has_them() {
    two_uplinks("two_uplinks_as_openbsd_has_them", "up-open", OPENBSD, true);
}

#[test]
fn two_uplinks_by_way_of_the_kernel() {
    two_uplinks("two_uplinks_by_way_of_the_kernel", "up-kern", FREEBSD, false);
}

/// A connection keeps its gateway over a reload that chooses none, and over a daemon's death; and
/// learns that the way there takes shorter packets.
#[test]
fn a_connection_keeps_its_gateway() {
    let test = "a_connection_keeps_its_gateway";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new("up-keep", true);
    let Site { net, second } = &site;
    echo_server(second, WORLD, 7004);
    echo_server(second, WORLD6, 7004);
    let to_second = "pass in on b0 route-to (b2 10.3.0.2) inet proto tcp to any port 7004\n\
                     pass in on b0 route-to (b2 fd03::2) inet6 proto tcp to any port 7004\n";
    net.start(&format!("pass\n{to_second}"));
    let mut line = net.connect(WORLD, 7004, PATIENCE).expect("passed");
    line.echo("by the second uplink");
    let mut line6 = net.connect(WORLD6, 7004, PATIENCE).expect("passed");
    line6.echo("by the second uplink");
    let chooses = || net.json("status")["stages"]["one_because"].to_string().contains("gateways");
    wait_until("the status says why there is one stage", chooses);
    net.reload("pass\n");
    line.echo("still");
    assert!(connect_from(&net.client, WORLD, 7004, IMPATIENCE).is_none(), "new ones go elsewhere");
    // The number stays taken.
    net.reload("pass\npass in on b0 route-to (b1 10.2.0.2) inet proto tcp to any port 7009\n");
    line.echo("still");
    net.kill_daemon();
    line.echo("nobody at home");
    net.start("pass\n");
    line.echo("still");
    let states = net.pfctl("-vvss");
    assert!(states.contains("\n   route-to: 10.3.0.2@b2\n"), "{states}");

    // The client, whose link takes more, does not know of it.
    ip(&net.router, "link set b2 mtu 1400");
    ip(second, "link set i0 mtu 1400");
    let bytes = pattern(300_000);
    assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    let too_big = net.dropped("too-big");
    assert!(too_big > 0, "the client was told");
    assert!(line6.bulk(&bytes) == bytes, "what comes back is what was sent");
    assert!(net.dropped("too-big") > too_big, "the client was told of IPv6, too");

    // Once the connection is over, so is the gateway: two loads later nothing is known of it.
    line.finish();
    line6.finish();
    for network in ["0.0.0.0/0", "::/0"] {
        net.pfctl(&format!("-k {network}"));
    }
    net.reload("pass\n");
    wait_until("nothing chooses gateways", || !chooses());
}

/// A gateway's interface that is not there: nothing goes astray.
#[test]
fn without_its_interface_a_gateway_is_no_route() {
    let test = "without_its_interface_a_gateway_is_no_route";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let site = Site::new("up-gone", true);
    let Site { net, .. } = &site;
    let rules = "pass in on b0 route-to (b9 10.9.0.2) inet proto tcp to any port 7001\npass out\n\
                 pass in on b0 inet proto tcp to any port 7002\npass inet proto icmp\n";
    net.start(rules);
    assert!(connect_from(&net.client, WORLD, 7001, IMPATIENCE).is_none(), "nobody is there");
    assert!(net.dropped("no-route") > 0);
    seen(&net.client, WORLD, 7002);
    // It comes.
    let rename = |from: &str, to: &str| {
        ip(&net.router, &format!("link set {from} down"));
        ip(&net.router, &format!("link set {from} name {to}"));
        ip(&net.router, &format!("link set {to} up"));
        let name = format!("\"{to}\"");
        wait_until("it is known", || net.json("status").to_string().contains(&name));
    };
    ip(&net.router, "address add 10.9.0.1/24 dev b2");
    ip(&site.second, "address add 10.9.0.2/24 dev i0");
    ip(&site.second, "route replace 10.1.0.0/24 via 10.9.0.1");
    rename("b2", "b9");
    assert_eq!(seen(&net.client, WORLD, 7001).ip().to_string(), CLIENT);
    // It goes, and comes back.
    rename("b9", "b8");
    assert!(connect_from(&net.client, WORLD, 7001, IMPATIENCE).is_none(), "it is gone again");
    rename("b8", "b9");
    let who = seen(&net.client, WORLD, 7001);
    assert_eq!(who.ip().to_string(), CLIENT);
    if let Some(output) = program(test, &net.client, &["ping", "-c", "1", "-W", "20", WORLD]) {
        assert_exit(&output, 0);
        assert!(stdout(&output).contains(" 0% packet loss"), "{}", stdout(&output));
    }
}

/// Who is behind the second uplink is reached when nobody answers behind the first.
#[test]
fn a_dead_first_uplink_does_not_stop_the_second() {
    if !can_run_lab("a_dead_first_uplink_does_not_stop_the_second") {
        return;
    }
    let _turn = beside();
    let site = Site::new("up-dead", true);
    let Site { net, .. } = &site;
    ip(&net.server, "link set s0 arp off");
    for link in ["b1", "b2"] {
        ip(&net.router, &format!("neigh flush dev {link}"));
    }
    net.start(FREEBSD);
    assert_by(&site, 7001, SECOND);
    assert!(connect_from(&net.client, WORLD, 7002, IMPATIENCE).is_none(), "nobody is there");
}
