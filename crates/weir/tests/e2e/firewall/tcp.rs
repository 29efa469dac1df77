//! TCP of real kernels through the box: windows and their scaling, loss, order, both ways to open,
//! connections that are closed on one side only, and sequence numbers that are changed on the way.
//! No packet of theirs may be a `state-mismatch`, and every byte arrives.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
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

/// The same, with other sequence numbers than the ends have chosen.
fn modulated() -> String {
    RULES.replace("keep state", "modulate state")
}

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
    lose("loss_and_reordering_are_no_mismatch", "bad", RULES);
}

#[test]
fn loss_and_reordering_are_no_mismatch_where_numbers_are_changed() {
    let test = "loss_and_reordering_are_no_mismatch_where_numbers_are_changed";
    lose(test, "badmod", &modulated());
}

fn lose(test: &str, name: &str, rules: &str) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new(name);
    let Some(bad) = BadLine::new(&net, name) else {
        skipped(test, "the kernel has no VXLAN");
        return;
    };
    echo_server(&net.server, SERVER, 7001);
    net.start(rules);
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
    come_back("a_client_that_lost_its_connection_comes_back", "lost", RULES);
}

#[test]
fn a_client_comes_back_where_numbers_are_changed() {
    come_back("a_client_comes_back_where_numbers_are_changed", "lostmod", &modulated());
}

fn come_back(test: &str, name: &str, rules: &str) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new(name);
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
    }
    net.start(rules);
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

/// What perl does with a connection `$s` when it is up: it says which numbers it sends and receives
/// next, by TCP_REPAIR (19), TCP_REPAIR_QUEUE (20) and TCP_QUEUE_SEQ (21).
const TELL: &str = "sub numbers { my $s = shift; setsockopt($s, 6, 19, 1) or die $!; \
    for (2, 1) { setsockopt($s, 6, 20, $_) or die $!; \
        print unpack('L', getsockopt($s, 6, 21)), ' ' } \
    setsockopt($s, 6, 19, 0) or die $! }";

/// One end of a connection in a namespace, which says its numbers.
fn perl(netns: &Netns, program: &str, host: &str) -> Command {
    let text = format!(
        "use Socket qw(:all); $| = 1; alarm 60; $h = shift; $f = $h =~ /:/ ? AF_INET6 : AF_INET; \
         $at = $f == AF_INET ? pack_sockaddr_in(7011, inet_aton($h)) \
             : pack_sockaddr_in6(7011, inet_pton(AF_INET6, $h)); \
         socket(my $s, $f, SOCK_STREAM, 0) or die; {TELL} {program}"
    );
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns.name(), "perl", "-e", &text, host]);
    command
}

/// The numbers that both ends of a connection say: sent and received by who opens it, then by the
/// other. Each has sent one byte.
fn numbers(net: &Network, from: &Netns, host: &str) -> [u32; 4] {
    let serve = "setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1); bind($s, $at) or die $!; \
        listen($s, 1); print \"ready\\n\"; accept(my $c, $s) or die $!; \
        sysread($c, my $byte, 1) == 1 or die; syswrite($c, 'b'); \
        sysread($c, $byte, 1) == 1 or die; numbers($c); syswrite($c, 'd'); sysread($c, $byte, 1)";
    let ask = "connect($s, $at) or die $!; syswrite($s, 'a'); \
        sysread($s, my $byte, 1) == 1 or die; syswrite($s, 'c'); \
        sysread($s, $byte, 1) == 1 or die; numbers($s)";
    let mut server = perl(&net.server, serve, host);
    let mut server = server.stdout(Stdio::piped()).spawn().expect("ip runs");
    let mut said = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n");
    let output = perl(from, ask, host).output().expect("ip runs");
    assert_exit(&output, 0);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("readable");
    assert!(server.wait().expect("it ends").success());
    let all = format!("{}{rest}", String::from_utf8_lossy(&output.stdout));
    let all: Vec<u32> = all.split_whitespace().map(|one| one.parse().expect(&all)).collect();
    let [sent, received, server_sent, server_received] = all[..] else { panic!("{all:?}") };
    // The server has said its numbers before its last byte.
    [sent, received.wrapping_sub(1), server_sent, server_received]
}

/// Neither end sees the numbers that the other one has chosen: through the box, of what the box
/// itself sends, and where the rule of one side alone asks for that.
#[test]
fn neither_end_sees_the_numbers_of_the_other() {
    let test = "neither_end_sees_the_numbers_of_the_other";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("mod");
    net.start(&modulated());
    let out_alone =
        "pass proto icmp6 no state\npass in proto tcp\npass out proto tcp modulate state\n";
    let kept = "pass proto icmp6 no state\npass proto tcp keep state\n";
    for (rules, is_changed) in [(&*modulated(), true), (out_alone, true), (kept, false)] {
        net.reload(rules);
        for from in [&net.client, &net.router] {
            for host in [SERVER, SERVER6] {
                let [sent, received, server_sent, server_received] = numbers(&net, from, host);
                let text = format!("{rules}{} {host}", from.name());
                assert_eq!(sent != server_received, is_changed, "{text}");
                assert_eq!(server_sent != received, is_changed, "{text}");
            }
        }
    }
    assert_all_fitted(&net);
}
