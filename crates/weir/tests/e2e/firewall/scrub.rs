//! Packets that rules change on their way: the segment size of a connection, through a path whose
//! MTU nobody tells, and the IP headers of datagrams.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;

use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, getsockopt, setsockopt, socket,
    sockopt::{Ipv4Tos, TcpMaxSeg},
};
use weir_net::Netns;

use super::nat::ip;
use super::network::{
    Line, Network, PATIENCE, SERVER, SERVER6, connect_from, echo_server, pattern,
};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

const PORT: u16 = 7001;
/// What fits through the path, without its headers.
const SEGMENT_BYTES_MAX: u32 = 900;

/// Tells everybody who connects how large the segments are that it may send, and answers with what
/// comes.
fn segment_server(netns: &Netns) {
    let address = SocketAddr::new(SERVER.parse().expect("an address"), PORT);
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let size = getsockopt(&stream, TcpMaxSeg).expect("known");
                let mut writer = stream.try_clone().expect("a second handle");
                writeln!(writer, "{size}").expect("sent");
                // The client ends it.
                drop(std::io::copy(&mut stream, &mut writer));
            });
        }
    });
}

/// A connection to the server, and how large the segments are that either end may send.
#[track_caller]
fn connection(from: &Netns) -> (Line, [u32; 2]) {
    let address = SocketAddr::new(SERVER.parse().expect("an address"), PORT);
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let stream = from.run(connect).expect("entered").expect("connected");
    let here = getsockopt(&stream, TcpMaxSeg).expect("known");
    let mut line = Line::new(stream);
    let there = line.hear().parse().expect("a number");
    (line, [here, there])
}

/// A path on which what is longer than 1,000 bytes is lost, and nobody says so: the server's driver
/// drops it, and the server itself has told that it takes more.
fn through_a_narrow_path(test: &str, tag: &str, rules: &str) {
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new(tag);
    ip(&net.server, "link set s0 mtu 1000");
    ip(&net.server, "route replace default via 10.2.0.1 dev s0 advmss 1460");
    segment_server(&net.server);
    net.start("pass\n");
    let (_, [here, _]) = connection(&net.client);
    assert!(here > 1000, "the client would send segments that are lost: {here}");

    net.reload(rules);
    for from in [&net.client, &net.router] {
        let (mut line, sizes) = connection(from);
        assert!(sizes.iter().all(|size| *size <= SEGMENT_BYTES_MAX), "{}: {sizes:?}", from.name());
        let bytes = pattern(300_000);
        assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
    }
    assert_eq!(net.dropped("state-mismatch"), 0);
}

#[test]
fn max_mss_leads_through_a_narrow_path_in_freebsds_words() {
    let test = "max_mss_leads_through_a_narrow_path_in_freebsds_words";
    through_a_narrow_path(test, "mssf", "scrub on b1 all max-mss 900 fragment reassemble\npass\n");
}

#[test]
fn max_mss_leads_through_a_narrow_path_in_openbsds_words() {
    let test = "max_mss_leads_through_a_narrow_path_in_openbsds_words";
    through_a_narrow_path(test, "msso", "match on b1 scrub (max-mss 900)\npass\n");
}

/// The IP headers of datagrams, as the server gets them: identification, flags, TTL, TOS.
#[test]
fn headers_are_changed_as_the_rules_say() {
    let test = "headers_are_changed_as_the_rules_say";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("hdr");
    let flags = SockFlag::SOCK_CLOEXEC;
    let raw = || socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Udp);
    let server = UdpSocket::from(net.server.run(raw).expect("entered").expect("made"));
    server.set_read_timeout(Some(PATIENCE)).expect("set");
    let client = || UdpSocket::bind("10.1.0.2:5000").expect("bound");
    let client = net.client.run(client).expect("entered");
    client.set_ttl(9).expect("set");
    setsockopt(&client, Ipv4Tos, &4).expect("set");
    let heard = |what: &str| {
        client.send_to(what.as_bytes(), (SERVER, 5353)).expect("sent");
        let mut bytes = [0; 1500];
        loop {
            let size = server.recv(&mut bytes).expect("it comes");
            // The raw socket hears of every datagram.
            if bytes[..size].ends_with(what.as_bytes()) {
                return <[u8; 20]>::try_from(&bytes[..20]).expect("a header");
            }
        }
    };

    net.start("pass\n");
    let plain = heard("plain");
    assert_eq!((plain[1], plain[6] & 0x40, plain[8]), (4, 0x40, 8), "{plain:?}");
    for rules in [
        "scrub in on b0 all no-df random-id min-ttl 64 set-tos 0x10\npass\n",
        "match in on b0 scrub (no-df random-id min-ttl 64) set tos 0x10\npass\n",
    ] {
        net.pfctl("-F states");
        net.reload(rules);
        let mut idents: Vec<u16> = Vec::new();
        for number in 0..16 {
            let header = heard(&format!("datagram {number}"));
            assert_eq!((header[1], header[6] & 0x40, header[8]), (0x10, 0, 63), "{header:?}");
            idents.push(u16::from_be_bytes([header[4], header[5]]));
        }
        let is_counted = idents.windows(2).all(|two| two[1].wrapping_sub(two[0]) < 16);
        assert!(!is_counted, "{idents:?}");
    }
    let shown = net.pfctl("-sr");
    assert_eq!(
        shown.lines().next(),
        Some("match in on b0 all set ( tos 0x10 ) scrub (no-df random-id min-ttl 64)"),
        "{shown}"
    );
}

/// Hosts drop segments whose timestamps run backwards, and count with what comes back: a connection
/// that is changed one way alone would stand still.
#[test]
fn connections_with_other_timestamps_go_on() {
    if !can_run_lab("connections_with_other_timestamps_go_on") {
        return;
    }
    let _turn = beside();
    let net = Network::new("stamps");
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7002);
    }
    let talk = || {
        for (from, host) in [(&net.client, SERVER), (&net.client, SERVER6), (&net.router, SERVER)] {
            let mut line = connect_from(from, host, 7002, PATIENCE).expect("passed");
            line.bounce(2_000_000, host);
        }
    };
    let path = net.file("pf.conf", "match scrub (reassemble tcp)\npass\n");
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("changes timestamps, and no more"), "{}", stderr(&output));
    talk();
    net.reload_as("openbsd", "match out on b1 scrub (reassemble tcp)\npass\n");
    talk();
    // A connection keeps what is added to its timestamps.
    let mut line = connect_from(&net.client, SERVER, 7002, PATIENCE).expect("passed");
    line.echo("by that rule");
    net.reload_as("openbsd", "pass\n");
    net.kill_daemon();
    net.start("pass\n");
    line.bounce(2_000_000, "without the rule, and with another daemon");
    assert_eq!(net.dropped("state-mismatch"), 0);
}
