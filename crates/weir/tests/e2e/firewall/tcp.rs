//! TCP of real kernels through the box: windows and their scaling, loss, order, both ways to open,
//! and connections that are closed on one side only. No packet of theirs may be a
//! `state-mismatch`, and every byte arrives.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};
use weir_net::Netns;

use super::badline::BadLine;
use super::network::{
    Line, Network, PATIENCE, SERVER, SERVER6, connect_from, echo_server, wait_until,
};
use crate::common::{assert_exit, can_run_lab, skipped};
use crate::turns::beside;

/// Everything that is TCP, with states on both sides, and nothing without one.
const RULES: &str = "\
set state-policy if-bound
block
pass proto icmp6 no state
pass proto tcp keep state
";

fn bytes(count: u32) -> Vec<u8> {
    (0..count).map(|number| number.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

/// Nothing of what was passed has failed a check of its state.
#[track_caller]
fn assert_all_fitted(net: &Network) {
    assert_eq!(net.dropped("state-mismatch"), 0, "{}", net.pfctl("-vvss"));
}

#[test]
fn bulk_transfers_stay_in_their_windows() {
    let test = "bulk_transfers_stay_in_their_windows";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("bulk");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    net.start(RULES);
    let all = bytes(8_000_000);
    thread::scope(|scope| {
        for host in [SERVER, SERVER6, SERVER, SERVER6] {
            let mut line = net.connect(host, 7001, PATIENCE).expect("passed");
            let all = &all;
            scope.spawn(move || assert!(line.bulk(all) == *all, "what comes back was sent"));
        }
    });
    let states = net.pfctl("-vss");
    assert!(states.contains("wscale "), "windows were scaled: {states}");
    assert_all_fitted(&net);
}

#[test]
fn loss_and_reordering_are_no_mismatch() {
    let test = "loss_and_reordering_are_no_mismatch";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("bad");
    let Some(bad) = BadLine::new(&net, "bad") else {
        skipped(test, "the kernel has no VXLAN");
        return;
    };
    echo_server(&net.server, SERVER, 7001);
    net.start(RULES);
    let all = bytes(1_500_000);
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut line = connect_from(&bad.far, SERVER, 7001, PATIENCE).expect("passed");
            let all = &all;
            scope.spawn(move || assert!(line.bulk(all) == *all, "what comes back was sent"));
        }
    });
    bad.assert_was_bad();
    // An end that has closed a connection answers what it sees of it late with a RST at the place
    // that this acknowledges, which the other end may have left behind long ago.
    let late = resets(&bad.far) + resets(&net.server);
    let mismatched = net.dropped("state-mismatch");
    assert!(mismatched <= late, "{late} resets, {mismatched}: {}", net.pfctl("-vvss"));
}

/// How many RSTs a namespace has sent (RFC 1213, tcpOutRsts).
fn resets(netns: &Netns) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
    let text = netns.run(read).expect("entered").expect("readable");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, counts) = (lines.next().expect("names"), lines.next().expect("counts"));
    let mut columns = names.split(' ').zip(counts.split(' '));
    let (_, count) = columns.find(|(name, _)| *name == "OutRsts").expect("counted");
    count.parse().expect("a number")
}

/// `nft` in a namespace.
fn nft(netns: &Netns, line: &str) {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), "nft", line]);
    assert_exit(&command.output().expect("ip runs"), 0);
}

/// A socket of a namespace at an address.
fn socket_at(netns: &Netns, address: SocketAddrV4) -> OwnedFd {
    let make = || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let made = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
        bind(made.as_raw_fd(), &SockaddrIn::from(address)).expect("bound");
        made
    };
    netns.run(make).expect("entered")
}

/// RFC 9293, 3.5: both ends send a SYN before they have seen the other's.
#[test]
fn both_ends_may_open_at_once() {
    let test = "both_ends_may_open_at_once";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("open");
    net.start(RULES);
    let one = SocketAddrV4::new(Ipv4Addr::new(10, 1, 0, 2), 7101);
    let other = SocketAddrV4::new(Ipv4Addr::new(10, 2, 0, 2), 7102);
    // Neither end hears of the other until both have sent.
    for netns in [&net.client, &net.server] {
        nft(netns, "add table ip t");
        nft(netns, "add chain ip t c { type filter hook input priority 0; }");
        nft(netns, "add rule ip t c tcp flags & (syn | ack) == syn drop");
    }
    let [first, second] =
        [(&net.client, one, other), (&net.server, other, one)].map(|(netns, local, peer)| {
            let socket = socket_at(netns, local);
            thread::spawn(move || {
                connect(socket.as_raw_fd(), &SockaddrIn::from(peer)).expect("connected");
                TcpStream::from(socket)
            })
        });
    wait_until("the box has seen a SYN from both", || {
        net.pfctl("-ss").contains("SYN_SENT:SYN_SENT")
    });
    for netns in [&net.client, &net.server] {
        nft(netns, "delete table ip t");
    }
    let [mut first, mut second] =
        [first, second].map(|thread| Line::new(thread.join().expect("connected")));
    first.say("from the one");
    second.say("from the other");
    assert_eq!(second.hear(), "from the one");
    assert_eq!(first.hear(), "from the other");
    assert!(net.pfctl("-ss").contains("ESTABLISHED:ESTABLISHED"), "{}", net.pfctl("-ss"));
    let all = bytes(1_000_000);
    thread::scope(|scope| {
        scope.spawn(|| second.answer(all.len()));
        assert!(first.bulk(&all) == all, "what comes back was sent");
    });
    assert_all_fitted(&net);
}

/// The client has said all it had to say, and listens on; what it has finished is not over.
#[test]
fn a_half_closed_connection_lives_on() {
    let test = "a_half_closed_connection_lives_on";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("half");
    // Of the four timeouts behind `established`, only `closing` is longer than the pauses.
    let timeouts = "set timeout { tcp.closing 30, tcp.finwait 1, tcp.closed 1, tcp.opening 1 }\n\
                    set timeout interval 1\n";
    net.start(&format!("{timeouts}{RULES}"));
    let listener = net.server.run(|| TcpListener::bind((SERVER, 7005)));
    let listener = listener.expect("entered").expect("bound");
    let (tell, messages) = mpsc::channel::<&str>();
    let server = thread::spawn(move || {
        let mut line = Line::new(listener.accept().expect("a client").0);
        assert_eq!((line.hear().as_str(), line.hear().as_str()), ("all I have to say", ""));
        messages.iter().for_each(|word| line.say(word));
    });
    let mut line = net.connect(SERVER, 7005, PATIENCE).expect("passed");
    line.say("all I have to say");
    line.finish();
    wait_until("one side is closed", || {
        let states = net.pfctl("-ss");
        ["ESTABLISHED:FIN_WAIT_2", "FIN_WAIT_2:ESTABLISHED"]
            .iter()
            .any(|pair| states.contains(pair))
    });
    for word in ["one", "two", "three"] {
        // Longer than the timeouts that must not be the ones in force.
        thread::sleep(Duration::from_millis(2_500));
        tell.send(word).expect("it listens");
        assert_eq!(line.hear(), word);
    }
    drop(tell);
    assert_eq!(line.hear(), "", "the end");
    server.join().expect("it ended well");
    assert_all_fitted(&net);
    wait_until("what is closed goes", || !net.pfctl("-ss").contains(":7005"));
}

/// A client that has lost its connection without a word, and begins it anew from the same port.
#[test]
fn a_client_that_lost_its_connection_comes_back() {
    let test = "a_client_that_lost_its_connection_comes_back";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("lost");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    net.start(RULES);
    // perl is in every Debian. TCP_REPAIR (19) has a socket go without FIN or RST.
    let program = "use Socket qw(:all); sub begin { \
        socket(my $s, $f, SOCK_STREAM, 0) or die; setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1); \
        bind($s, $f == AF_INET ? pack_sockaddr_in(7007, INADDR_ANY) \
            : pack_sockaddr_in6(7007, IN6ADDR_ANY)) or die $!; \
        connect($s, $f == AF_INET ? pack_sockaddr_in(7001, inet_aton($h)) \
            : pack_sockaddr_in6(7001, inet_pton(AF_INET6, $h))) or die $!; \
        syswrite($s, \"hello\\n\"); sysread($s, my $line, 6) == 6 or die; $s } \
        $h = shift; $f = $h =~ /:/ ? AF_INET6 : AF_INET; alarm 60; \
        my $s = begin(); setsockopt($s, 6, 19, 1) or die $!; close $s; begin(); print 'again'";
    for (count, host) in [(1, SERVER), (2, SERVER6)] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", net.client.name(), "perl", "-e", program, host]);
        let output = command.output().expect("ip runs");
        assert_exit(&output, 0);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "again");
        assert!(net.dropped("state-mismatch") >= count, "the SYN was not passed");
    }
}
