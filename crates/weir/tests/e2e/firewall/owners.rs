//! `user` and `group`: connections and datagrams that programs of the box call, and those that they
//! are called with. What is forwarded has no owner.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;

use nix::unistd::{Gid, Uid, setfsgid, setfsuid};
use weir_net::Netns;
use weir_oracle::tunnel::Offload;

use super::network::{IMPATIENCE, Network, PATIENCE, ROUTER, ROUTER6, SERVER, SERVER6, at};
use super::tcx::{NEAR, Site};
use crate::common::can_run_lab;
use crate::turns::beside;

/// What the box may call, and what of the box may be called, and what is for others.
const RULES: &str = "\
block drop
pass proto icmp6 no state
pass out on b1 proto { tcp udp } to port 7001 user 2001
pass out on b1 proto tcp to port 7002 group 3001
pass out on b1 proto tcp to port 7003 user != 2001
pass in proto { tcp udp } to any port 7101:7103 user 2000 >< 2003
pass in proto tcp to any port 7104 group 3001
pass in on b0 proto tcp to any port 7004 user unknown
pass out on b1 proto tcp to any port 7004 user unknown
pass proto tcp to any port 7005 user != root
";

/// A user and a group.
type Owner = (u32, u32);

const ROOT: Owner = (0, 0);

/// Makes sockets in a namespace, for somebody.
fn owned<T: Send>(netns: &Netns, owner: Owner, make: impl FnOnce() -> T + Send) -> T {
    // The thread that it runs in ends with it.
    let by_owner = || {
        setfsgid(Gid::from_raw(owner.1));
        setfsuid(Uid::from_raw(owner.0));
        make()
    };
    netns.run(by_owner).expect("entered")
}

/// Takes all connections, until the test ends.
fn server(netns: &Netns, owner: Owner, host: &str, port: u16) {
    let bind = || TcpListener::bind(at(host, port)).expect("bound");
    let listener = owned(netns, owner, bind);
    thread::spawn(move || listener.incoming().for_each(drop));
}

/// Sends each datagram back, until the test ends.
fn datagram_server(netns: &Netns, owner: Owner, host: &str, port: u16) {
    let socket = owned(netns, owner, || UdpSocket::bind(at(host, port)).expect("bound"));
    thread::spawn(move || {
        let mut bytes = [0; 100];
        while let Ok((size, peer)) = socket.recv_from(&mut bytes) {
            drop(socket.send_to(&bytes[..size], peer));
        }
    });
}

/// Whether a connection comes about.
fn connects(netns: &Netns, owner: Owner, host: &str, port: u16, is_expected: bool) -> bool {
    let timeout = if is_expected { PATIENCE } else { IMPATIENCE };
    let connect = || TcpStream::connect_timeout(&at(host, port), timeout).is_ok();
    owned(netns, owner, connect)
}

/// Whether a datagram is answered.
fn is_answered(netns: &Netns, owner: Owner, host: &str, port: u16, is_expected: bool) -> bool {
    let ask = || {
        let all = if at(host, port).is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(all).expect("bound");
        let timeout = if is_expected { PATIENCE } else { IMPATIENCE };
        socket.set_read_timeout(Some(timeout)).expect("set");
        // A rule that drops what the box sends is an error for who sends it.
        drop(socket.send_to(b"who", at(host, port)));
        socket.recv_from(&mut [0; 100]).is_ok()
    };
    owned(netns, owner, ask)
}

#[test]
fn what_programs_of_the_box_call_has_their_owner() {
    if !can_run_lab("what_programs_of_the_box_call_has_their_owner") {
        return;
    }
    let _turn = beside();
    let net = Network::new("callers");
    for host in [SERVER, SERVER6] {
        for port in 7001..=7005 {
            server(&net.server, ROOT, host, port);
        }
        datagram_server(&net.server, ROOT, host, 7001);
    }
    net.start(RULES);
    for host in [SERVER, SERVER6] {
        for (owner, port, is_passed) in [
            ((2001, 0), 7001, true),
            ((2002, 0), 7001, false),
            (ROOT, 7001, false),
            ((2002, 3001), 7002, true),
            ((2001, 3002), 7002, false),
            ((2001, 0), 7003, false),
            (ROOT, 7003, true),
            (ROOT, 7004, false),
            (ROOT, 7005, false),
            ((2001, 0), 7005, true),
        ] {
            let found = connects(&net.router, owner, host, port, is_passed);
            assert_eq!(found, is_passed, "{owner:?} to {host} port {port}");
        }
        for (owner, is_passed) in [((2001, 0), true), ((2002, 0), false)] {
            let found = is_answered(&net.router, owner, host, 7001, is_passed);
            assert_eq!(found, is_passed, "a datagram of {owner:?} to {host}");
        }
        // What is forwarded has no owner, whoever sends it, and whatever listens on the box.
        server(&net.router, (2001, 0), if host == SERVER { ROUTER } else { ROUTER6 }, 7001);
        for (port, is_passed) in [(7001, false), (7003, false), (7004, true), (7005, true)] {
            let found = connects(&net.client, (2001, 0), host, port, is_passed);
            assert_eq!(found, is_passed, "forwarded to {host} port {port}");
        }
    }
    assert!(net.pfctl("-sr").contains("user 2000 >< 2003"), "{}", net.pfctl("-sr"));
}

/// What programs of the box are called with, by an interface that is filtered in one way.
fn programs_that_are_called(net: &Network, from: &Netns, hosts: &[&str]) {
    for host in hosts {
        let servers = [(7101, (2001, 0)), (7102, (2003, 0)), (7104, (0, 3001)), (7105, ROOT)];
        for (port, owner) in servers {
            server(&net.router, owner, host, port);
        }
        datagram_server(&net.router, (2002, 0), host, 7101);
        datagram_server(&net.router, ROOT, host, 7102);
    }
    net.start(RULES);
    for host in hosts {
        // Nobody listens at port 7103: nobody is called there, so no rule for users passes it.
        let calls = [(7101, true), (7102, false), (7103, false), (7104, true), (7105, false)];
        for (port, is_passed) in calls {
            // Who calls from elsewhere does not matter.
            let found = connects(from, (2001, 3001), host, port, is_passed);
            assert_eq!(found, is_passed, "{host} port {port}");
        }
        for (port, is_passed) in [(7101, true), (7102, false)] {
            let found = is_answered(from, (2001, 3001), host, port, is_passed);
            assert_eq!(found, is_passed, "datagrams to {host} port {port}");
        }
    }
}

#[test]
fn what_programs_of_the_box_are_called_with_has_their_owner() {
    if !can_run_lab("what_programs_of_the_box_are_called_with_has_their_owner") {
        return;
    }
    let _turn = beside();
    let net = Network::new("called");
    programs_that_are_called(&net, &net.client, &[ROUTER, ROUTER6]);
}

#[test]
fn owners_are_known_of_what_a_tunnel_brings() {
    if !can_run_lab("owners_are_known_of_what_a_tunnel_brings") {
        return;
    }
    let _turn = beside();
    let site = Site::new("owners", Offload::None);
    programs_that_are_called(&site.net, &site.far, &[NEAR]);
}
