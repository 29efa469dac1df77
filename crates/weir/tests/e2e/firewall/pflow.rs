//! Flows that are exported when their state ends, as a collector beside the server gets them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::network::{Network, PATIENCE, SERVER, SERVER6, at, echo_server, wait_until};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// What is exported is what comes in by `b0`, but for port 7002.
const RULES: &str = "\
set timeout interval 1
block
pass proto icmp6 no state
pass out on b1 proto { tcp udp } keep state
pass out quick on b1 proto udp to port 2055 no state
pass in on b0 proto { tcp udp } keep state (pflow)
pass in on b0 proto { tcp udp } to port 7002 keep state
";

/// Who sent to whom, by which protocol, and the packets and bytes of it.
type Flows = BTreeMap<(SocketAddr, SocketAddr, u8), (u64, u64)>;

/// A socket beside the server to which flows are exported.
struct Collector(UdpSocket);

impl Collector {
    fn new(net: &Network) -> Self {
        let bind = || UdpSocket::bind((SERVER, 2055));
        let socket = net.server.run(bind).expect("entered").expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Self(socket)
    }

    /// The next datagram, which comes from the address that was asked for.
    fn next(&self) -> Vec<u8> {
        let mut bytes = [0; 2048];
        let (size, from) = self.0.recv_from(&mut bytes).expect("something is exported");
        assert_eq!(from.ip(), "10.2.0.1".parse::<IpAddr>().expect("an address"));
        bytes[..size].to_vec()
    }

    /// The flows of so many records.
    fn flows(&self, count: usize) -> Flows {
        let mut flows = Flows::new();
        let mut record_count = 0;
        while record_count < count {
            for (key, counts) in records(&self.next()) {
                assert_eq!(flows.insert(key, counts), None, "{key:?} twice");
                record_count += 1;
            }
        }
        flows
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn address(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(bytes) => Ipv4Addr::from(bytes).into(),
        Err(_) => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("16 bytes")).into(),
    }
}

/// Source, destination, protocol; packets, bytes.
type Exported = ((SocketAddr, SocketAddr, u8), (u64, u64));

/// The records of a packet of NetFlow version 5 or of IPFIX.
fn records(packet: &[u8]) -> Vec<Exported> {
    let now_s = u64::try_from(jiff::Timestamp::now().as_second()).expect("after 1970");
    let port = |bytes: &[u8]| u16::try_from(number(bytes)).expect("16 bits");
    if number(&packet[..2]) == 5 {
        assert_eq!(packet.len(), 24 + 48 * usize::from(packet[3]));
        assert!(number(&packet[8..12]).abs_diff(now_s) < 600, "seconds since 1970");
        let uptime_ms = number(&packet[4..8]);
        let flow = |record: &[u8]| {
            assert!(number(&record[24..28]) <= number(&record[28..32]), "it begins first");
            assert!(number(&record[28..32]) <= uptime_ms, "and is over");
            let source = SocketAddr::new(address(&record[..4]), port(&record[32..34]));
            let destination = SocketAddr::new(address(&record[4..8]), port(&record[34..36]));
            let counts = (number(&record[16..20]), number(&record[20..24]));
            ((source, destination, record[38]), counts)
        };
        return packet[24..].chunks_exact(48).map(flow).collect();
    }
    assert_eq!((number(&packet[..2]), number(&packet[2..4])), (10, packet.len() as u64));
    let size = match number(&packet[16..18]) {
        2 => return Vec::new(),
        256 => 4,
        257 => 16,
        other => panic!("set {other}"),
    };
    let flow = |record: &[u8]| {
        let rest = &record[2 * size..];
        let [start_ms, finish_ms] = [24, 32].map(|at| number(&rest[at..at + 8]));
        assert!(start_ms <= finish_ms && (finish_ms / 1000).abs_diff(now_s) < 600);
        let source = SocketAddr::new(address(&record[..size]), port(&rest[40..42]));
        let destination = SocketAddr::new(address(&record[size..2 * size]), port(&rest[42..44]));
        let counts = (number(&rest[8..16]), number(&rest[16..24]));
        ((source, destination, rest[45]), counts)
    };
    packet[20..].chunks_exact(2 * size + 46).map(flow).collect()
}

/// An end as pfctl prints it.
fn end(text: &str) -> SocketAddr {
    let (host, port) = match text.strip_suffix(']') {
        Some(text) => text.split_once('[').expect("a port"),
        None => text.rsplit_once(':').expect("a port"),
    };
    at(host, port.parse().expect("a number"))
}

/// What `pfctl -ss -v` says of states that came in for this port.
fn states(net: &Network, port: u16) -> Flows {
    let text = net.pfctl("-ss -v");
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut flows = Flows::new();
    for (index, line) in lines.iter().enumerate() {
        let ["all", protocol, to, "<-", from, ..] = line[..] else { continue };
        let (to, from) = (end(to), end(from));
        if to.port() != port {
            continue;
        }
        // Below it, for TCP behind a line of its windows.
        let is_count = |word: &&&str| word.trim_end_matches(',') == "pkts";
        let counts = lines[index + 1..].iter().find(|line| line.iter().any(|it| is_count(&it)));
        let counts = counts.expect("a line of counts");
        let at = |word: &str| {
            let index = counts.iter().position(|found| found.trim_end_matches(',') == word);
            let pair = counts[index.expect("a count") - 1];
            let (one, two) = pair.split_once(':').expect("both ways");
            [one, two].map(|count| count.parse::<u64>().expect("a number"))
        };
        let (packets, bytes) = (at("pkts"), at("bytes"));
        let protocol = if protocol == "tcp" { 6 } else { 17 };
        flows.insert((from, to, protocol), (packets[0], bytes[0]));
        flows.insert((to, from, protocol), (packets[1], bytes[1]));
    }
    flows
}

/// A server that gives datagrams back, with more in them.
fn answer(net: &Network, host: &str, port: u16) {
    let bind = || UdpSocket::bind(at(host, port));
    let socket = net.server.run(bind).expect("entered").expect("bound");
    thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((size, from)) = socket.recv_from(&mut bytes) {
            if socket.send_to(&bytes[..size * 2], from).is_err() {
                break;
            }
        }
    });
}

/// Sends some datagrams, each of which is answered.
fn ask(net: &Network, host: &str, port: u16, count: usize) -> UdpSocket {
    let any = if host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = net.client.run(|| UdpSocket::bind(any)).expect("entered").expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut bytes = [0; 512];
    for index in 0..count {
        socket.send_to(&vec![1; 10 + index], at(host, port)).expect("sent");
        socket.recv(&mut bytes).expect("answered");
    }
    socket
}

fn start(net: &Network, rules: &str, collector: &str) {
    let path = net.file("pf.conf", rules);
    assert_exit(&net.run(&["fw", "run", "-f", &path, "--pflow", collector]), 0);
}

#[test]
fn ipfix_has_what_the_states_had() {
    let test = "ipfix_has_what_the_states_had";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("ipfix");
    let collector = Collector::new(&net);
    for host in [SERVER, SERVER6] {
        echo_server(&net.server, host, 7001);
        answer(&net, host, 7001);
        answer(&net, host, 7002);
    }
    start(&net, RULES, "flowdst=10.2.0.2:2055,flowsrc=10.2.0.1,pflowproto=10");
    assert!(net.pfctl("-sr").contains("keep state (pflow)"));
    let templates = collector.next();
    assert_eq!((templates.len(), &templates[16..18]), (124, &[0, 2][..]), "templates come first");

    let mut lines = Vec::new();
    for host in [SERVER, SERVER6] {
        ask(&net, host, 7001, 5);
        ask(&net, host, 7002, 3);
        let mut line = net.connect(host, 7001, PATIENCE).expect("passed");
        let bytes = vec![7; 300_000];
        assert!(line.bulk(&bytes) == bytes, "what comes back is what was sent");
        lines.push(line);
    }
    let mut seen = states(&net, 7001);
    // Late acknowledgements.
    wait_until("nothing more comes", || {
        thread::sleep(Duration::from_millis(300));
        let before = std::mem::replace(&mut seen, states(&net, 7001));
        before == seen
    });
    assert_eq!(seen.len(), 8, "two protocols, two families, two ways: {seen:?}");
    assert_eq!(states(&net, 7002).len(), 4);
    net.pfctl("-F states");
    assert_eq!(collector.flows(8), seen);
    let client = at("10.1.0.2", 0).ip();
    assert!(seen.keys().any(|(from, _, protocol)| from.ip() == client && *protocol == 6));

    wait_until("it is counted", || net.json("stats")["pflow"]["records_count"] == 8);
    let flows = net.json("stats")["pflow"].clone();
    assert_eq!((&flows["send_errors_count"], &flows["lost_states_count"]), (&0.into(), &0.into()));
    let info = net.pfctl("-vsi");
    let line = info.lines().find(|line| line.trim_start().starts_with("records ")).expect("a line");
    assert_eq!(line.split_whitespace().nth(1), Some("8"), "{info}");
}

#[test]
fn version_5_has_what_expired_and_was_killed() {
    let test = "version_5_has_what_expired_and_was_killed";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("netflow5");
    let collector = Collector::new(&net);
    answer(&net, SERVER, 7001);
    answer(&net, SERVER6, 7001);
    let times = "set timeout { udp.first 600, udp.single 600, udp.multiple 600 }\n";
    let rules = format!(
        "{times}{RULES}\
         pass in quick on b0 proto udp to 10.1.0.1 port 7004 \
         rdr-to {SERVER} port 7001 keep state (pflow)\n\
         pass out quick on b1 proto udp from 10.1.0.2 port 5000 nat-to 10.2.0.1 \
         keep state (pflow)\n"
    );
    start(&net, &rules, "flowdst=10.2.0.2:2055,flowsrc=10.2.0.1");
    // IPv6 has no place there, and what the other rules keep is not asked for.
    ask(&net, SERVER6, 7001, 2);
    ask(&net, SERVER, 7001, 4);
    let seen: Flows = states(&net, 7001).into_iter().filter(|(key, _)| key.0.is_ipv4()).collect();
    assert_eq!(seen.len(), 2);
    net.pfctl("-k 0.0.0.0/0");
    assert_eq!(collector.flows(2), seen);

    // Where the destination is another inside, the flow has that which the client knows.
    let socket = ask(&net, "10.1.0.1", 7004, 2);
    let from = at("10.1.0.2", socket.local_addr().expect("an address").port());
    net.pfctl("-k 0.0.0.0/0");
    let to = at("10.1.0.1", 7004);
    let expected = [((from, to, 17), (2, 77)), ((to, from, 17), (2, 98))];
    assert_eq!(collector.flows(2), Flows::from(expected));

    // And where the source is another outside, that which is inside. It is one state, whose rules
    // both ask for it, and exported once.
    let bind = || UdpSocket::bind("10.1.0.2:5000");
    let socket = net.client.run(bind).expect("entered").expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    socket.send_to(&[1; 10], at(SERVER, 7001)).expect("sent");
    let (size, _) = socket.recv_from(&mut [0; 64]).expect("answered");
    assert_eq!(size, 20);
    net.reload(&rules.replace(" 600", " 1"));
    let (from, to) = (at("10.1.0.2", 5000), at(SERVER, 7001));
    let expected = [((from, to, 17), (1, 38)), ((to, from, 17), (1, 48))];
    assert_eq!(collector.flows(2), Flows::from(expected));
    wait_until("no more are there", || net.json("stats")["states"]["current_count"] == 0);
    assert_eq!(net.json("stats")["pflow"]["records_count"], 6);
}

/// A collector is no part of the ruleset: without one the rules are as good.
#[test]
fn flows_of_many_states_are_exported_or_counted() {
    let test = "flows_of_many_states_are_exported_or_counted";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("flowflood");
    let _collector = Collector::new(&net);
    let path = net.file("none.conf", RULES);
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("use --pflow flowdst=ADDRESS:PORT"), "{}", stderr(&output));
    net.printed(&["fw", "stop"]);

    // All of a network is the server's.
    let ip = |netns: &weir_net::Netns, words: &str| {
        let mut command = std::process::Command::new("ip");
        command.args(["-n", netns.name()]).args(words.split(' '));
        assert_exit(&command.output().expect("ip runs"), 0);
    };
    ip(&net.server, "route add local 10.9.0.0/16 dev lo");
    ip(&net.router, "route add 10.9.0.0/16 via 10.2.0.2");
    let _sink = net.server.run(|| UdpSocket::bind("0.0.0.0:7001")).expect("entered");
    let rules = format!(
        "set limit states 200000\n\
         set timeout {{ udp.first 600, adaptive.start 0, adaptive.end 0 }}\n{RULES}"
    );
    start(&net, &rules, "flowdst=10.2.0.2:2055,flowsrc=10.2.0.1");
    let sockets = [(); 2].map(|()| {
        let bind = || UdpSocket::bind("10.1.0.2:0");
        net.client.run(bind).expect("entered").expect("bound")
    });
    let count = || net.json("stats")["states"]["current_count"].as_u64().expect("a number");
    wait_until("there are many states", || {
        for number in 0..50_000_u32 {
            let to = Ipv4Addr::from_bits(Ipv4Addr::new(10, 9, 1, 0).to_bits() + number);
            for socket in &sockets {
                socket.send_to(b"flow", (to, 7001)).expect("sent");
            }
        }
        count() >= 100_000
    });
    let before = net.json("stats")["states"]["removals_count"].as_u64().expect("a number");
    net.pfctl("-F states");
    let mut ended = 0;
    wait_until("all are exported or lost", || {
        let stats = net.json("stats");
        let number = |value: &serde_json::Value| value.as_u64().expect("a number");
        ended = number(&stats["states"]["removals_count"]) - before;
        let flows = &stats["pflow"];
        assert_eq!(flows["send_errors_count"], 0, "{flows}");
        number(&flows["records_count"]) + number(&flows["lost_states_count"]) == ended
    });
    assert!(ended >= 100_000, "{ended}");
    assert!(net.json("stats")["pflow"]["records_count"].as_u64() > Some(0));
}

#[test]
fn a_state_of_a_file_is_exported_as_well() {
    let test = "a_state_of_a_file_is_exported_as_well";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("flowfile");
    let collector = Collector::new(&net);
    answer(&net, SERVER, 7001);
    answer(&net, SERVER, 7002);
    start(&net, RULES, "flowdst=10.2.0.2:2055,flowsrc=10.2.0.1");
    ask(&net, SERVER, 7001, 4);
    ask(&net, SERVER, 7002, 2);
    let seen = states(&net, 7001);
    let path = net.file("states", "");
    net.pfctl(&format!("--store-states={path}"));
    for _ in 0..2 {
        net.pfctl("-F states");
        assert_eq!(collector.flows(2), seen);
        net.pfctl(&format!("-L {path}"));
        assert_eq!((states(&net, 7001), states(&net, 7002).len()), (seen.clone(), 2));
    }
}
