//! Both ends, segment by segment, through test runs: what one sends is what the other gets, with
//! nothing between them, and hand-made segments of other stacks.

use std::net::Ipv4Addr;

use libbpf_rs::MapCore as _;

use weir_wire::frame::Protocol;
use weir_wire::mac::MacAddr;
use weir_wire::stream::{StreamFrames, StreamSpec};
use weir_wire::tcp::Flags;
use weir_wire::{ipv4, ipv6, tcp};

use super::*;
use crate::generator::Interval;

const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
const LOOPBACK_IFINDEX: u32 = 1;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

const V4: (&str, &str) = ("198.18.0.1:1024-198.18.0.9:1027", "198.19.0.1:80-198.19.0.4:81");
const V6: (&str, &str) =
    ("[2001:2::1]:1024-[2001:2::9]:1027", "3@[2001:2:0:1::1]:80-[2001:2:0:3::1]:81");

fn range(text: &str) -> AddrRange {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn set((src, dst): (&str, &str)) -> StreamSet {
    let macs = (MacAddr(CLIENT_MAC), MacAddr(SERVER_MAC));
    let spec = StreamSpec::new(macs.0, macs.1, range(src), range(dst));
    let protocol = Protocol::Tcp { flags: Flags::SYN };
    let spec = StreamSpec { protocol, sizes: weir_wire::sizes::Sizes::Fixed(100), ..spec };
    StreamSet::new(vec![(StreamFrames::new(spec).expect("valid"), 1)]).expect("one stream")
}

fn config(ranges: (&str, &str), close: Close, request_bytes: u16) -> ClientConfig {
    ClientConfig {
        set: set(ranges),
        close,
        hold: Duration::ZERO,
        request_bytes,
        reply_bytes: 100,
        retries: 0,
        retry_after: RETRY_AFTER,
    }
}

#[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
fn client(config: &ClientConfig) -> Option<ConnectClient> {
    match ConnectClient::load(config) {
        Ok(client) => {
            let loopback = LOOPBACK_IFINDEX.to_ne_bytes();
            map::write(&client.end.output, 0, &loopback).expect("loopback is a device");
            Some(client)
        }
        Err(ConnectLoadError::Load(error)) if error.is_permission() => {
            eprintln!("skipped: loading BPF programs needs root");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn server(listen: Option<&str>, reply_bytes: u16) -> ConnectServer {
    let config = ServerConfig { listen: listen.map(range), reply_bytes };
    let server = ConnectServer::load(&config).unwrap_or_else(|error| panic!("{error}"));
    map::write(&server.end.output, 0, &LOOPBACK_IFINDEX.to_ne_bytes()).expect("a device");
    server
}

/// Runs a program once on a frame.
fn run(program: &OwnedFd, frame: &[u8]) -> (u32, Vec<u8>) {
    let mut output = vec![0xa5; 2048];
    let result = sys::test_run_once(program.as_fd(), frame, &mut output);
    let (verdict, size) = result.expect("the program runs");
    output.truncate(size);
    (verdict, output)
}

/// What a program answers; `None` if it drops the frame.
fn answer(program: &OwnedFd, frame: &[u8]) -> Option<Vec<u8>> {
    match run(program, frame) {
        (XDP_REDIRECT, answer) => Some(answer),
        (XDP_DROP, _) => None,
        (verdict, _) => panic!("verdict {verdict} for {frame:02x?}"),
    }
}

/// The next frame of the sending program, of any CPU: each stands where the last one left off.
/// `None` if nothing is due, or what was due needs nothing.
fn sent(client: &ConnectClient) -> Option<Vec<u8>> {
    let page = [0xff; TEMPLATE.len()];
    let nth = |index| map::read(&client.threads, index).expect("readable")[words::thread::NTH];
    let threads = client.threads.max_entries();
    let before: Vec<u64> = (0..threads).map(nth).collect();
    let frame = answer(&client.sender, &page);
    let moved = (0..threads).find(|&index| nth(index) != before[index as usize]);
    let Some(moved) = moved else {
        assert!(frame.is_none(), "a thread has moved on with what it sent");
        return None;
    };
    // All that belong to the same CPU; the first one's time is known to those that follow it.
    let first = moved % client.cpu_count;
    for index in (first..threads).step_by(client.cpu_count as usize) {
        let words = map::read(&client.threads, index).expect("readable");
        let base = index - first;
        for cpu in 0..client.cpu_count {
            write_words(&client.threads, base + cpu, &words).expect("writable");
        }
    }
    frame
}

fn configure(client: &ConnectClient, first_nth: u64, interval: Option<Interval>) {
    let config = ThreadConfig {
        thread: 0,
        first_nth,
        end_nth: None,
        interval,
        catch_up_ns: 0,
        timestamps: true,
    };
    for cpu in 0..client.cpu_count {
        client.configure(cpu, &config).expect("configured");
    }
}

/// A segment as a test looks at it, whose checksums are right.
#[derive(Debug, Clone)]
struct Seen {
    src: IpAddr,
    dst: IpAddr,
    ports: (u16, u16),
    number: u32,
    ack: u32,
    flags: String,
    options: Vec<u8>,
    payload: Vec<u8>,
}

fn seen(frame: &[u8]) -> Seen {
    let of = |src: IpAddr, dst: IpAddr, tcp: &tcp::Packet<&[u8]>, bytes: &[u8]| Seen {
        src,
        dst,
        ports: (tcp.src_port(), tcp.dst_port()),
        number: tcp.sequence(),
        ack: tcp.acknowledgement(),
        flags: tcp.flags().to_string(),
        options: bytes[20..usize::from(tcp.header_bytes())].to_vec(),
        payload: tcp.payload().to_vec(),
    };
    assert!(frame.len() >= 60, "{} bytes", frame.len());
    if frame[12..14] == [0x86, 0xdd] {
        let ip = ipv6::Packet::new_checked(&frame[14..]).expect("IPv6");
        let tcp = tcp::Packet::new_checked(ip.payload()).expect("TCP");
        assert_eq!(tcp.checksum(), tcp.computed_checksum(ip.src(), ip.dst()), "{frame:02x?}");
        assert_eq!((ip.hop_limit(), frame.len()), (64, 54 + ip.payload().len()));
        of(ip.src().into(), ip.dst().into(), &tcp, ip.payload())
    } else {
        let ip = ipv4::Packet::new_checked(&frame[14..]).expect("IPv4");
        assert!(ip.checksum_is_valid() && ip.dont_fragment());
        let tcp = tcp::Packet::new_checked(ip.payload()).expect("TCP");
        assert_eq!(tcp.checksum(), tcp.computed_checksum(ip.src(), ip.dst()), "{frame:02x?}");
        assert_eq!(frame.len(), (34 + ip.payload().len()).max(60));
        assert!(frame[34 + ip.payload().len()..].iter().all(|&byte| byte == 0), "padding");
        of(ip.src().into(), ip.dst().into(), &tcp, ip.payload())
    }
}

/// Lets both ends talk, beginning with a frame of the client, until one of them does not answer;
/// returns what was said: `>` by the client, `<` by the server, flags and payload.
fn talk(client: &ConnectClient, server: &ConnectServer, first: Vec<u8>) -> Vec<String> {
    let mut said = Vec::new();
    let (mut frame, mut by_client) = (first, true);
    let mut last: Option<Seen> = None;
    loop {
        let now = seen(&frame);
        let (from, to) =
            if by_client { (CLIENT_MAC, SERVER_MAC) } else { (SERVER_MAC, CLIENT_MAC) };
        assert_eq!((&frame[..6], &frame[6..12]), (&to[..], &from[..]), "{said:?}");
        let arrow = if by_client { '>' } else { '<' };
        said.push(format!("{arrow}{} {}", now.flags, now.payload.len()));
        if let Some(last) = &last {
            let has = |letter: char| u32::from(last.flags.contains(letter));
            let length = u32::try_from(last.payload.len()).expect("small") + has('S') + has('F');
            assert_eq!(now.ack, last.number.wrapping_add(length), "{said:?}");
            assert_eq!((now.src, now.dst), (last.dst, last.src));
            assert_eq!(now.ports, (last.ports.1, last.ports.0));
        }
        assert!(said.len() < 20, "{said:?}");
        let end = if by_client { &server.end } else { &client.end };
        last = Some(now);
        match answer(&end.program, &frame) {
            Some(next) => frame = next,
            None => return said,
        }
        by_client = !by_client;
    }
}

/// What is said, by end and bytes of the request.
const COURSES: [(Close, u16, &[&str]); 6] = [
    (Close::Fin, 50, &[">S 0", "<S. 0", ">P. 50", "<FP. 100", ">F. 0", "<. 0"]),
    (Close::Fin, 0, &[">S 0", "<S. 0", ">F. 0", "<F. 0", ">. 0"]),
    (Close::Rst, 50, &[">S 0", "<S. 0", ">P. 50", "<P. 100", ">R. 0"]),
    (Close::Rst, 0, &[">S 0", "<S. 0", ">R. 0"]),
    (Close::None, 50, &[">S 0", "<S. 0", ">P. 50", "<P. 100", ">. 0"]),
    (Close::None, 0, &[">S 0", "<S. 0", ">. 0"]),
];

#[test]
fn a_connection_is_opened_used_and_closed() {
    for ranges in [V4, V6] {
        for (close, request_bytes, expected) in COURSES {
            let Some(client) = client(&config(ranges, close, request_bytes)) else { return };
            let server = server(None, 100);
            configure(&client, 0, None);
            let mut flows = std::collections::BTreeSet::new();
            for _ in 0..20 {
                let syn = sent(&client).expect("a SYN");
                let first = seen(&syn);
                assert_eq!((&first.options[..2], first.options.len()), (&[2, 4][..], 20));
                flows.insert((first.src, first.dst, first.ports));
                assert_eq!(talk(&client, &server, syn), expected, "{close:?} {request_bytes}");
            }
            assert_eq!(flows.len(), 20, "every connection has a flow of its own");
            // Every thread stands where any of them has sent to: one is looked at.
            let counters = ConnectCounters { syns: 20, ..client.end.counters().expect("readable") };
            let has = |flag: bool| if flag { 20 } else { 0 };
            let (is_used, is_reset) = (request_bytes > 0, close == Close::Rst);
            assert_eq!(
                counters,
                ConnectCounters {
                    syns: 20,
                    syn_acks: 20,
                    established: 20,
                    requests: has(is_used),
                    replies: has(is_used),
                    fins: has(close == Close::Fin),
                    closed: has(close == Close::Fin),
                    resets: has(is_reset),
                    ..Default::default()
                }
            );
            // A RST in the place of the acknowledgement establishes nothing.
            let established = has(is_used || !is_reset);
            let served = server.counters().expect("readable");
            assert_eq!(served, ConnectCounters { established, ..counters });
            let [handshakes, replies] = client.latency_ns().expect("readable");
            assert_eq!((handshakes.count(), replies.count()), (20, has(is_used)));
        }
    }
}

const OPENED: &[&str] = &[">S 0", "<S. 0", ">. 0"];
const USED: &[&str] = &[">S 0", "<S. 0", ">P. 50", "<P. 100", ">. 0"];
const CLOSED: &[&str] = &[">F. 0", "<F. 0", ">. 0"];

#[test]
fn connections_that_were_held_are_ended_in_the_order_of_their_flows() {
    for ranges in [V4, V6] {
        for (close, request_bytes, opened, ended) in [
            (Close::Fin, 50, USED, CLOSED),
            (Close::Fin, 0, OPENED, CLOSED),
            (Close::Rst, 50, USED, &[">R 0"][..]),
            (Close::Rst, 0, OPENED, &[">R 0"][..]),
        ] {
            let hold = Duration::from_millis(1);
            let config = ClientConfig { hold, ..config(ranges, close, request_bytes) };
            let Some(client) = client(&config) else { return };
            let server = server(None, 100);
            // Every call finds both due.
            configure(&client, 0, Some(Interval { whole_ns: 1, fraction: 0 }));
            let first = sent(&client).expect("a SYN");
            assert_eq!(talk(&client, &server, first.clone()), opened);
            std::thread::sleep(2 * hold);
            // One more, and no further: what is opened first is ended first.
            let second = sent(&client).expect("a SYN");
            assert_eq!(talk(&client, &server, second.clone()), opened);
            stop_opening(&client);
            for syn in [&first, &second] {
                let end = wait_for(&client);
                let (opened, closing) = (seen(syn), seen(&end));
                assert_eq!((opened.src, opened.ports), (closing.src, closing.ports));
                assert_eq!(closing.number, opened.number + 1 + u32::from(request_bytes));
                assert_eq!(talk(&client, &server, end), ended, "{close:?} {request_bytes}");
            }
            assert!(sent(&client).is_none(), "no more than were opened");
            let (ours, theirs) =
                (client.end.counters().expect("readable"), server.counters().expect("readable"));
            let (closed, resets) = if close == Close::Fin { (2, 0) } else { (0, 2) };
            assert_eq!((ours.closed, theirs.closed, theirs.resets), (closed, closed, resets));
            assert_eq!((ours.established, theirs.established), (2, 2));
            assert_eq!(ours.bad_number + ours.peer_closes + theirs.bad_number, 0);
        }
    }
}

fn stop_opening(client: &ConnectClient) {
    for cpu in 0..client.cpu_count {
        client.stop_opening(cpu).expect("writable");
    }
}

/// What the sender has next; it may have to wait for its time.
fn wait_for(client: &ConnectClient) -> Vec<u8> {
    for _ in 0..10_000 {
        if let Some(frame) = sent(client) {
            return frame;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    panic!("nothing was sent for a second");
}

/// A hand-made segment of the first flow, to the server or to the client.
struct Made<'a> {
    to_server: bool,
    number: u32,
    ack: u32,
    flags: &'a str,
    options: &'a [u8],
    payload: &'a [u8],
}

impl Made<'_> {
    fn frame(&self) -> Vec<u8> {
        let (client, server) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 19, 0, 1));
        let (src, dst) = if self.to_server { (client, server) } else { (server, client) };
        let ports: (u16, u16) = if self.to_server { (1024, 80) } else { (80, 1024) };
        let tcp_bytes = 20 + self.options.len();
        let bytes = 20 + tcp_bytes + self.payload.len();
        let flags: Flags = self.flags.parse().expect("flags");
        let mut frame = [&SERVER_MAC[..], &CLIENT_MAC, &[8, 0, 0x45, 0]].concat();
        frame.extend(u16::try_from(bytes).expect("small").to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(src.octets());
        frame.extend(dst.octets());
        frame.extend(ports.0.to_be_bytes());
        frame.extend(ports.1.to_be_bytes());
        frame.extend(self.number.to_be_bytes());
        frame.extend(self.ack.to_be_bytes());
        frame.push(u8::try_from(tcp_bytes / 4 * 16).expect("small"));
        frame.push(flags.0);
        frame.extend([0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(self.options);
        frame.extend(self.payload);
        frame
    }
}

/// Options of a SYN and of what comes behind it, of stacks that are not Linux: timestamps in other
/// places, and none.
const STACKS: [(&[u8], &[u8]); 4] = [
    // FreeBSD, macOS: MSS, NOP, window scale, ..., timestamps behind them.
    (
        &[2, 4, 5, 0xb4, 1, 3, 3, 6, 4, 2, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0],
        &[1, 1, 8, 10, 0, 0, 0, 8, 0, 0, 0, 0],
    ),
    // Timestamps last, behind SACK blocks.
    (
        &[1, 1, 1, 1, 2, 4, 5, 0xb4, 1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 0],
        &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0],
    ),
    // Windows without timestamps.
    (&[2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2], &[]),
    // Nothing at all.
    (&[], &[]),
];

#[test]
fn clients_of_other_stacks_are_served() {
    let Some(_) = client(&config(V4, Close::Fin, 0)) else { return };
    let server = server(Some("198.19.0.1:80"), 100);
    for (number, (syn, later)) in (1..).zip(STACKS) {
        let has_times = syn.windows(2).any(|bytes| bytes == [8, 10]);
        let made = |number, ack, flags, options, payload| {
            Made { to_server: true, number, ack, flags, options, payload }.frame()
        };
        let say = |frame: Vec<u8>| answer(&server.end.program, &frame).map(|frame| seen(&frame));
        let syn_ack = say(made(999, 0, "S", syn, &[])).expect("a SYN-ACK");
        assert_eq!((syn_ack.ack, syn_ack.flags.as_str()), (1000, "S."));
        assert_eq!(syn_ack.options.len(), if has_times { 16 } else { 4 });
        if has_times {
            assert_eq!(syn_ack.options[12..], [0, 0, 0, 7], "the client's time is echoed");
        }
        let first = syn_ack.number.wrapping_add(1);
        assert!(say(made(1000, first, ".", later, &[])).is_none());
        // A part of a request is acknowledged, its end is answered.
        let part = say(made(1000, first, ".", later, b"GET /")).expect("acknowledged");
        assert_eq!((part.ack, part.flags.as_str(), part.payload.len()), (1005, ".", 0));
        let reply = say(made(1005, first, "P.", later, b" HTTP/1.0\r\n\r\n")).expect("a reply");
        assert_eq!((reply.ack, reply.flags.as_str()), (1018, "FP."));
        assert_eq!(reply.options.len(), if has_times { 12 } else { 0 });
        assert!(
            reply.payload.starts_with(b"HTTP/1.0 200 OK\r\n\r\n") && reply.payload.len() == 100
        );
        let end = first.wrapping_add(101);
        assert!(say(made(1018, end, ".", later, &[])).is_none());
        let last = say(made(1018, end, "F.", later, &[])).expect("an acknowledgement");
        assert_eq!((last.ack, last.flags.as_str()), (1019, "."));
        let counters = server.counters().expect("readable");
        assert_eq!(
            counters,
            ConnectCounters {
                syns: number,
                syn_acks: number,
                established: number,
                requests: number,
                replies: number,
                fins: number,
                closed: number,
                strangers: number,
                ..Default::default()
            }
        );
    }
}

#[test]
fn what_is_no_step_of_a_connection_is_counted_by_kind() {
    let Some(client) = client(&config(V4, Close::Fin, 50)) else { return };
    let server = server(Some("198.19.0.1:80"), 100);
    let made = |to_server, number, ack, flags| {
        Made { to_server, number, ack, flags, options: &[], payload: &[] }.frame()
    };
    // The server: no such acknowledgement, no such flags, a header that is cut.
    for (ack, flags) in [(77, "."), (77, "F."), (0, "none"), (0, "P"), (77, "S.")] {
        assert_eq!(run(&server.end.program, &made(true, 1, ack, flags)).0, XDP_DROP);
    }
    let mut cut = made(true, 1, 0, "S");
    cut[46] = 0x60;
    assert_eq!(run(&server.end.program, &cut).0, XDP_DROP);
    let counters = server.counters().expect("readable");
    let kinds = (counters.bad_number, counters.bad_flags, counters.malformed);
    assert_eq!(kinds, (2, 3, 1));
    // Elsewhere, not TCP, in fragments, to a group: the stack's.
    let base = made(true, 1, 0, "S");
    for (at, value) in
        [(33, 2), (37, 81), (23, 17), (20, 0x20), (21, 1), (0, 1), (12, 9), (14, 0x46)]
    {
        let mut other = base.clone();
        other[at] = value;
        assert_eq!(run(&server.end.program, &other), (XDP_PASS, other), "byte {at}");
    }
    assert_eq!(server.counters().expect("readable").passed_packets, 8);
    // The client: where nobody listens, where a connection is cut, numbers of another connection.
    let syn = configure_and_send(&client);
    let first = syn.number.wrapping_add(1);
    for (number, ack, flags) in [
        (0, first, "R."),
        (9, first, "R."),
        (9, 0, "R"),
        (9, first.wrapping_add(1), "S."),
        (9, first.wrapping_add(777), "."),
        (9, 0, "S"),
    ] {
        assert_eq!(run(&client.end.program, &made(false, number, ack, flags)).0, XDP_DROP);
    }
    let counters = client.end.counters().expect("readable");
    assert_eq!(
        counters,
        ConnectCounters {
            refused: 1,
            peer_resets: 2,
            bad_number: 2,
            bad_flags: 1,
            ..Default::default()
        }
    );
}

fn configure_and_send(client: &ConnectClient) -> Seen {
    configure(client, 0, None);
    seen(&sent(client).expect("a SYN"))
}

#[test]
fn a_server_of_another_stack_may_take_several_segments() {
    let Some(client) = client(&config(V4, Close::Fin, 50)) else { return };
    let syn = configure_and_send(&client);
    let made = |number, ack: u32, flags, payload: &[u8]| {
        let options = &[1, 1, 8, 10, 0, 0, 0, 8, 0, 0, 0, 0][..];
        Made { to_server: false, number, ack, flags, options, payload }.frame()
    };
    let say = |frame: Vec<u8>| answer(&client.end.program, &frame).map(|frame| seen(&frame));
    let first = syn.number.wrapping_add(1);
    let request = say(made(5000, first, "S.", &[])).expect("a request");
    assert!(request.payload.starts_with(b"GET /?w") && request.payload.ends_with(b"\r\n\r\n"));
    assert_eq!((request.ack, request.payload.len()), (5001, 50));
    let behind = first.wrapping_add(50);
    assert!(say(made(5001, behind, ".", &[])).is_none(), "only acknowledged");
    for (number, flags) in [(5001, "."), (5011, "P.")] {
        let ack = say(made(number, behind, flags, &[b'x'; 10])).expect("acknowledged");
        assert_eq!((ack.ack, ack.flags.as_str()), (number + 10, "."));
    }
    let end = say(made(5021, behind, "F.", &[])).expect("its FIN is answered");
    assert_eq!((end.number, end.ack, end.flags.as_str()), (behind, 5022, "F."));
    assert!(say(made(5022, behind.wrapping_add(1), ".", &[])).is_none());
    let counters = client.end.counters().expect("readable");
    assert_eq!(
        counters,
        ConnectCounters {
            syn_acks: 1,
            established: 1,
            requests: 1,
            replies: 1,
            fins: 1,
            closed: 1,
            strangers: 1,
            ..Default::default()
        }
    );
}

#[test]
fn a_syn_is_sent_again_until_it_is_answered_and_counted_once() {
    for ranges in [V4, V6] {
        let retry_after = Duration::from_millis(1);
        let config = ClientConfig { retries: 2, retry_after, ..config(ranges, Close::Fin, 50) };
        let Some(client) = client(&config) else { return };
        let server = server(None, 100);
        configure(&client, 0, Some(Interval { whole_ns: 1, fraction: 0 }));
        let [answered, refused, lost] = [0, 1, 2].map(|_| sent(&client).expect("a SYN"));
        stop_opening(&client);
        // The first is answered, and its SYN-ACK comes twice.
        let syn_ack = answer(&server.end.program, &answered).expect("a SYN-ACK");
        assert_eq!(talk(&client, &server, answered).len(), 6);
        let again = seen(&answer(&client.end.program, &syn_ack).expect("answered again"));
        assert_eq!((again.flags.as_str(), again.payload.len()), ("P.", 50));
        // The second is refused: nobody listens there.
        let mut rst = refused;
        refuse(&mut rst);
        assert!(answer(&client.end.program, &rst).is_none());
        // The third is sent twice more, and the other two are not.
        for _ in 0..2 {
            let (first, second) = (seen(&lost), seen(&wait_for(&client)));
            assert_eq!((first.src, first.ports), (second.src, second.ports));
            assert_eq!((first.number, first.flags), (second.number, second.flags));
        }
        for _ in 0..100 {
            assert!(sent(&client).is_none(), "no more than twice");
        }
        let counters = client.end.counters().expect("readable");
        let once = (counters.syn_acks, counters.established, counters.requests, counters.closed);
        assert_eq!(once, (1, 1, 1, 1));
        assert_eq!((counters.repeated, counters.refused, counters.retries), (1, 1, 2));
    }
}

/// Makes the RST that answers a SYN of it; its checksums are not looked at.
fn refuse(frame: &mut [u8]) {
    let (address, address_bytes) = if frame[12] == 0x86 { (22, 16) } else { (26, 4) };
    let tcp = address + 2 * address_bytes;
    for at in 0..address_bytes {
        frame.swap(address + at, address + address_bytes + at);
    }
    for at in 0..2 {
        frame.swap(tcp + at, tcp + 2 + at);
    }
    let number: [u8; 4] = frame[tcp + 4..tcp + 8].try_into().expect("four bytes");
    let ack = u32::from_be_bytes(number).wrapping_add(1);
    frame[tcp + 4..tcp + 8].fill(0);
    frame[tcp + 8..tcp + 12].copy_from_slice(&ack.to_be_bytes());
    frame[tcp + 13] = 0x14;
}

#[test]
fn sizes_that_do_not_fit_are_refused_before_anything_is_loaded() {
    let too_large = PAYLOAD_BYTES_MAX + 1;
    let error = ConnectClient::load(&config(V4, Close::Fin, too_large)).expect_err("too large");
    assert!(error.to_string().contains("a request of 1401 bytes"), "{error}");
    for reply_bytes in [0, 1, too_large] {
        let error = ConnectServer::load(&ServerConfig { listen: None, reply_bytes });
        let error = error.expect_err("no such reply").to_string();
        assert!(error.contains("from 2 to 1400 bytes"), "{error}");
    }
}

#[test]
fn payloads_are_http_where_there_is_room() {
    assert_eq!(request(18), b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(request(20), b"GET /?w HTTP/1.0\r\n\r\n");
    assert_eq!((request(3), request(0)), (b"www".to_vec(), Vec::new()));
    assert_eq!(reply(21), b"HTTP/1.0 200 OK\r\n\r\nww");
    assert_eq!(reply(2), b"ww");
}
