//! `weir connect`: connections between its own ends, and to and from those of real stacks, through
//! routers and firewalls that count them too. No test looks at how long anything took.

mod lab;
mod network;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use weir_net::{Netlink, Netns};
use weir_oracle::fault::FaultProgram;
use weir_wire::tcp::Flags;

use crate::common::{
    PATIENCE, arrived_packets, assert_exit, can_run_lab, run, skipped, stderr, unless_starved,
    wait_until,
};
use crate::turns::beside;
use network::{Network, V4, V6, interrupt, must, nothing_is_left, weir};

const MANY: [&str; 4] = ["--count", "2000", "--rate", "10k"];

/// The counters of a ledger, in its order.
const LEDGER: [&str; 8] = [
    "syn_sent",
    "syn_ack_seen",
    "established_client",
    "established_server",
    "request_sent",
    "reply_seen",
    "closed",
    "reset",
];

fn counts(ledger: &Value) -> [u64; 8] {
    LEDGER.map(|name| ledger["ledger"][name].as_u64().unwrap_or(u64::MAX))
}

/// Segments that were lost where a machine that is too busy for the traffic may lose them.
struct Lost {
    count: u64,
    evidence: String,
}

/// An error if any segment was lost on its way. Both ends answer all that comes to them, however
/// busy the machine is: that one of them lost something is a wrong ledger.
fn nothing_missing(ledger: &Value) -> Result<(), Lost> {
    for end in ["client", "server"] {
        for kind in ["bad_number", "bad_flags", "malformed", "unanswered", "refused"] {
            assert_eq!(ledger[end][kind], 0, "{end} {kind}: {ledger:#}");
        }
    }
    let missing = ledger["missing"].as_array().expect("a list");
    for lost in missing {
        let place = lost["place"].as_str().expect("a place");
        assert!(["client to server", "server to client"].contains(&place), "{ledger:#}");
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Lost { count: lost_count(missing), evidence: format!("{missing:?}") })
}

fn lost_count(missing: &[Value]) -> u64 {
    missing.iter().map(|lost| lost["count"].as_i64().expect("a number").unsigned_abs()).sum()
}

/// As [`unless_starved`], for an attempt that opens so many connections. A busy machine does not
/// lose more than a tenth of them each time: that is a wrong ledger.
fn unless_few_are_lost(test: &str, opened: u64, mut attempt: impl FnMut() -> Result<(), Lost>) {
    let mut fewest = u64::MAX;
    unless_starved(test, || {
        let result = attempt();
        fewest = fewest.min(result.as_ref().map_or_else(|lost| lost.count, |()| 0));
        result.map_err(|lost| lost.evidence)
    });
    assert!(fewest <= opened / 10, "{fewest} of {opened} are missing each time");
}

/// Tracks every connection, and drops what belongs to none.
const TRACKING: &str = "\
table inet t {
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established counter accept
        ct state new tcp flags syn counter accept
    }
}
";

/// Options, and the ledger of one connection.
const COURSES: [(&[&str], [u64; 8]); 7] = [
    (&["--close", "fin"], [1, 1, 1, 1, 1, 1, 1, 0]),
    (&["--close", "fin", "--request", "0"], [1, 1, 1, 1, 0, 0, 1, 0]),
    (&["--close", "rst"], [1, 1, 1, 1, 1, 1, 0, 1]),
    (&["--close", "rst", "--request", "0"], [1, 1, 1, 0, 0, 0, 0, 1]),
    (&["--close", "none", "--request", "1400"], [1, 1, 1, 1, 1, 1, 0, 0]),
    (&["--close", "fin", "--hold", "50ms", "--reply", "300"], [1, 1, 1, 1, 1, 1, 1, 0]),
    (&["--close", "rst", "--hold", "50ms", "--request", "0"], [1, 1, 1, 1, 0, 0, 0, 1]),
];

#[test]
fn every_course_of_a_connection_goes_through_a_router() {
    let test = "every_course_of_a_connection_goes_through_a_router";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    for flows in [V4, V6] {
        for (options, expected) in COURSES {
            unless_few_are_lost(test, 2000, || {
                let serving = network.serve(&["--reply", "300"]);
                let result = network.connect(&flows, &[&MANY[..], options].concat());
                serving.end();
                let ledger = network.ledger();
                nothing_missing(&ledger)?;
                assert_eq!(counts(&ledger), expected.map(|has| has * 2000), "{options:?}");
                assert_eq!(result["handshake_ns"]["count"], 2000, "{result:#}");
                if options.contains(&"--hold") {
                    let most = result["concurrent_max"].as_u64().expect("a number");
                    assert!((1..=2000).contains(&most), "{most} held");
                    assert_eq!(result["concurrent"], 500, "{result:#}");
                    assert_eq!(result["left_held"], 0, "{result:#}");
                }
                Ok(())
            });
        }
    }
    assert!(nothing_is_left(&network));
}

/// Connections that stay open, through connection tracking: it has as many as the ledger.
#[test]
fn the_ledger_agrees_with_connection_tracking() {
    let test = "the_ledger_agrees_with_connection_tracking";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let rules = network.dir.path().join("rules.nft");
    std::fs::write(&rules, TRACKING).expect("writable");
    must(&network.router, &format!("nft -f {}", rules.display()));
    let tracked = || {
        let count = must(&network.router, "sysctl -n net.netfilter.nf_conntrack_count");
        count.trim().parse::<u64>().expect("a number")
    };
    let mut attempt = 0;
    unless_few_are_lost(test, 2000, || {
        // A source of its own for each attempt: what the last one opened is still tracked.
        attempt += 1;
        let source = format!("198.18.0.{attempt}");
        let flows = ["--src", &source, "--dst", "198.19.0.1:80"];
        let before = tracked();
        let serving = network.serve(&[]);
        network.connect(&flows, &[&MANY[..], &["--close", "none"]].concat());
        serving.end();
        let ledger = network.ledger();
        nothing_missing(&ledger)?;
        assert_eq!(ledger["server"]["syn"], 2000, "{ledger:#}");
        assert_eq!(tracked() - before, 2000, "{ledger:#}");
        Ok(())
    });
}

#[test]
fn the_ledger_agrees_with_the_states_of_weir_fw() {
    let test = "the_ledger_agrees_with_the_states_of_weir_fw";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let rules = network.dir.path().join("pf.conf");
    // No states of what the neighbours say to each other.
    let text = "pass all no state\npass proto tcp keep state\n";
    std::fs::write(&rules, text).expect("writable");
    let path = rules.to_string_lossy().into_owned();
    let output = weir(&network.router, &["fw", "run", "-f", &path]).output().expect("ip runs");
    assert_exit(&output, 0);
    let inserts = || {
        let weir = env!("CARGO_BIN_EXE_weir");
        let text = must(&network.router, &format!("{weir} pfctl -si"));
        let line = text.lines().find(|line| line.trim_start().starts_with("inserts"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse::<u64>().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    for flows in [V4, V6] {
        unless_few_are_lost(test, 2000, || {
            let before = inserts();
            let serving = network.serve(&[]);
            network.connect(&flows, &MANY);
            serving.end();
            let ledger = network.ledger();
            nothing_missing(&ledger)?;
            assert_eq!(inserts() - before, 2000, "{ledger:#}");
            assert_eq!(counts(&ledger), [2000, 2000, 2000, 2000, 2000, 2000, 2000, 0]);
            Ok(())
        });
    }
    assert_exit(&weir(&network.router, &["fw", "stop"]).output().expect("ip runs"), 0);
}

/// Answers each connection with one page and closes it, as a server of HTTP/1.0 does; ends after so
/// many.
fn listener(netns: &Netns, address: &str, count: usize) -> thread::JoinHandle<usize> {
    let address: SocketAddr = address.parse().expect("an address");
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        let mut requests = 0;
        for stream in listener.incoming().take(count) {
            let mut stream = stream.expect("accepted");
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            let mut request = [0; 64];
            stream.read_exact(&mut request).expect("a request of 64 bytes");
            assert!(request.starts_with(b"GET /") && request.ends_with(b"\r\n\r\n"));
            requests += 1;
            // Two writes, so that the reply has more than one segment.
            stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").expect("written");
            stream.write_all(&[b'x'; 3000]).expect("written");
        }
        requests
    })
}

#[test]
fn a_real_listener_serves_the_client() {
    let test = "a_real_listener_serves_the_client";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    for (to, flows) in [
        ("10.2.0.2:80", ["--src", "198.18.0.1-198.18.0.99", "--dst", "10.2.0.2"]),
        ("[fd02::2]:80", ["--src", "[2001:2::1]-[2001:2::63]", "--dst", "[fd02::2]:80"]),
    ] {
        let server = listener(&network.server, to, 60);
        let result = network.connect(&flows, &["--count", "60", "--rate", "200"]);
        assert_eq!(server.join().expect("it served"), 60);
        assert_eq!(result["missing"], Value::Array(Vec::new()), "{result:#}");
        let ledger = &result["ledger"];
        for name in ["syn_sent", "syn_ack_seen", "request_sent", "reply_seen", "closed"] {
            assert_eq!(ledger[name], 60, "{name}: {result:#}");
        }
        assert_eq!((&ledger["established_server"], &ledger["reset"]), (&Value::Null, &0.into()));
        assert_eq!(result["counts"]["stranger"], 60);
        assert_eq!(result["reply_ns"]["count"], 60, "a real stack echoes the time");
    }
    // Nobody listens there: that is no loss, and nothing is held.
    let flows = ["--src", "198.18.0.1-198.18.0.99", "--dst", "10.2.0.2:81"];
    let held = ["--hold", "100ms", "--close", "rst"];
    for options in [&[][..], &held] {
        let options = [&["--count", "20", "--rate", "200"], options].concat();
        let result = network.connect(&flows, &options);
        assert_eq!(result["unexpected"]["refused"], 20, "{result:#}");
        assert_eq!(result["missing"], Value::Array(Vec::new()), "{result:#}");
        assert_eq!((&result["through"], &result["opened_cps"].is_f64()), (&0.into(), &true));
        let held = result["concurrent_max"].as_u64();
        assert_eq!(held, options.contains(&"--hold").then_some(0), "{result:#}");
    }
}

#[test]
fn answers_are_waited_for_as_long_as_the_drain() {
    let test = "answers_are_waited_for_as_long_as_the_drain";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let address: SocketAddr = "10.2.0.2:80".parse().expect("an address");
    let bind = || TcpListener::bind(address);
    let listener = network.server.run(bind).expect("entered").expect("bound");
    let server = thread::spawn(move || {
        let mut streams = Vec::new();
        for stream in listener.incoming().take(40) {
            let mut stream = stream.expect("accepted");
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            stream.read_exact(&mut [0; 64]).expect("a request of 64 bytes");
            streams.push(stream);
            // All of the first run are answered long after the last was sent; nobody is, later.
            if streams.len() == 20 {
                thread::sleep(Duration::from_millis(900));
                streams.drain(..).for_each(|mut stream| {
                    stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n").expect("written");
                });
            }
        }
        streams
    });
    let flows = ["--src", "198.18.0.1-198.18.0.99", "--dst", "10.2.0.2"];
    let options = ["--count", "20", "--rate", "1k", "--drain", "60s"];
    let result = network.connect(&flows, &options);
    assert_eq!(result["missing"], Value::Array(Vec::new()), "{result:#}");
    assert_eq!(result["through"], 20, "{result:#}");
    let options = ["--count", "20", "--rate", "1k", "--drain", "300ms", "--skip", "20"];
    let result = network.connect(&flows, &options);
    assert_eq!(result["missing"][0]["count"], 20, "{result:#}");
    assert_eq!(result["through"], 0, "{result:#}");
    drop(server.join().expect("it served"));
}

#[test]
fn real_connections_are_held_and_reset() {
    let test = "real_connections_are_held_and_reset";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let address: SocketAddr = "10.2.0.2:80".parse().expect("an address");
    let bind = || TcpListener::bind(address);
    let listener = network.server.run(bind).expect("entered").expect("bound");
    let server = thread::spawn(move || {
        // All are held at once: none is reset before the last one is accepted.
        let streams: Vec<TcpStream> =
            listener.incoming().take(40).map(|stream| stream.expect("accepted")).collect();
        let ends = streams.into_iter().map(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            stream.read(&mut [0; 1]).map_err(|error| error.kind())
        });
        ends.collect::<Vec<_>>()
    });
    let flows = ["--src", "198.18.0.1-198.18.0.99", "--dst", "10.2.0.2"];
    let options = "--count 40 --rate 1k --hold 2s --close rst --request 0";
    let options: Vec<&str> = options.split(' ').collect();
    let result = network.connect(&flows, &options);
    let reset = Err(std::io::ErrorKind::ConnectionReset);
    assert_eq!(server.join().expect("it served"), [reset; 40]);
    assert_eq!((&result["ledger"]["reset"], &result["left_held"]), (&40.into(), &0.into()));
}

#[test]
fn a_real_client_is_served() {
    let test = "a_real_client_is_served";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let serving = network.serve(&["--listen", "198.19.0.1:80-198.19.0.9:81", "--reply", "200"]);
    for number in 1..=9 {
        let address = SocketAddr::new([198, 19, 0, number].into(), 80 + u16::from(number % 2));
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let mut stream = network.client.run(connect).expect("entered").expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("written");
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).expect("the server closes");
        assert!(reply.starts_with(b"HTTP/1.0 200 OK\r\n\r\n") && reply.len() == 200);
    }
    // Addresses that are not served are the stack's, which has none of them.
    let address: SocketAddr = "198.19.0.10:80".parse().expect("an address");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300));
    assert!(network.client.run(connect).expect("entered").is_err());
    let mut served = 9;
    if is_installed("curl") {
        let page = must(&network.client, "curl -sS --max-time 60 http://198.19.0.7:81/");
        assert_eq!(page.len(), 200 - b"HTTP/1.0 200 OK\r\n\r\n".len());
        served += 1;
    } else {
        skipped(test, "curl is not installed: only std's sockets were served");
    }
    let total = serving.end();
    let counts = &total["counts"];
    for name in ["syn", "syn_ack", "established", "request", "reply", "fin", "closed", "stranger"] {
        assert_eq!(counts[name], served, "{name}: {total:#}");
    }
    assert_eq!(total["unexpected"], Value::Object(serde_json::Map::new()), "{total:#}");
}

/// Whether a program is installed.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Attaches the fault element between the two sides of a namespace, one for each direction.
fn faults(netns: &Netns) -> [FaultProgram; 2] {
    let load = |to: &str| {
        let program = FaultProgram::load().expect("it loads");
        let index = || Netlink::open().and_then(|netlink| netlink.ifindex(to)).expect("there");
        netns.run(|| program.connect(index()).expect("connected")).expect("entered");
        program
    };
    [load("b1"), load("b0")]
}

#[test]
fn chosen_segments_are_lost_and_the_ledger_names_them() {
    let test = "chosen_segments_are_lost_and_the_ledger_names_them";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    // Flags of a segment by the side that sends it, and the steps between which it is missed.
    let cases = [
        (Side::Client, "S", "syn_sent", "syn_seen", "client to server"),
        (Side::Server, "S.", "syn_ack_sent", "syn_ack_seen", "server to client"),
        (Side::Client, "P.", "request_sent", "established_server", "client to server"),
        (Side::Server, "FP.", "reply_sent", "reply_seen", "server to client"),
        (Side::Client, "F.", "fin_sent", "fin_seen", "client to server"),
        (Side::Server, ".", "closed_server", "closed_client", "server to client"),
    ];
    let network = Network::new();
    let mac = |netns: &Netns, name: &str| {
        let link = netns.run(|| Netlink::open().and_then(|netlink| netlink.link(name)));
        weir_wire::mac::MacAddr(link.expect("entered").expect("there").mac.expect("a veth's"))
    };
    // Nothing is routed: frames are for the other end itself.
    let to = mac(&network.server, "s0").to_string();
    for (side, flags, after, before, place) in cases {
        unless_few_are_lost(test, 100, || {
            let [mut out, mut back] = faults(&network.router);
            let flags: Flags = flags.parse().expect("flags");
            for port in [2003, 2007, 2050] {
                match side {
                    Side::Client => out.drop_segments(flags, port, 80),
                    Side::Server => back.drop_segments(flags, 80, port),
                }
                .expect("chosen");
            }
            let index = |name: &str| {
                Netlink::open().and_then(|netlink| netlink.ifindex(name)).expect("there")
            };
            let links = network.router.run(|| {
                [out.attach(index("b0")), back.attach(index("b1"))]
                    .map(|link| link.expect("attached"))
            });
            let _links = links.expect("entered");
            let serving = network.serve(&[]);
            let flows = ["--src", "198.18.0.1:2000-198.18.0.1:2099", "--dst", "198.19.0.1:80"];
            let result =
                network.connect(&flows, &["--count", "100", "--rate", "2k", "--dst-mac", &to]);
            serving.end();
            let ledger = network.ledger();
            let missing = ledger["missing"].as_array().expect("a list");
            let chosen = missing.iter().find(|lost| {
                (&lost["after"], &lost["before"], &lost["place"])
                    == (&after.into(), &before.into(), &place.into())
            });
            let count = chosen.and_then(|lost| lost["count"].as_i64()).unwrap_or(0);
            assert!(count >= 3, "{flags}: {ledger:#}");
            if (missing.len(), count) != (1, 3) {
                let count = lost_count(missing) - 3;
                return Err(Lost { count, evidence: format!("{flags}: {missing:?}") });
            }
            // The client alone knows the steps, and not the way.
            let alone = result["missing"].as_array().expect("a list");
            assert_eq!(alone.len(), 1, "{result:#}");
            assert_eq!(
                (&alone[0]["count"], &alone[0]["place"]),
                (&3.into(), &"beyond the client".into())
            );
            Ok(())
        });
    }
}

#[derive(Debug, Clone, Copy)]
enum Side {
    Client,
    Server,
}

#[test]
fn an_interrupt_ends_it_with_totals_and_leaves_nothing() {
    let test = "an_interrupt_ends_it_with_totals_and_leaves_nothing";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let courses: [&[&str]; 2] = [&["--close", "fin"], &["--hold", "1h", "--close", "rst"]];
    for options in courses {
        let serving = network.serve(&[]);
        let before = arrived_packets(&network.router, "b0");
        let run = ["connect", "-i", "c0", "--json", "--progress", "--rate", "1k"];
        let mut command = weir(&network.client, &[&run[..], &V4, options].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip runs");
        let arrived = || arrived_packets(&network.router, "b0");
        wait_until("connections are opened", || arrived() > before + 50);
        interrupt(&child, Signal::SIGINT);
        let output = child.wait_with_output().expect("it ended");
        assert_exit(&output, 130);
        let text = crate::common::stdout(&output);
        let result: Value =
            serde_json::from_str(text.lines().last().expect("a result")).expect("JSON");
        assert_eq!((&result["ended_by"], &result["kind"]), (&"signal".into(), &"result".into()));
        assert!(result["ledger"]["syn_sent"].as_u64().is_some_and(|count| count > 0));
        if options.contains(&"--hold") {
            assert_eq!(result["left_held"], result["ledger"]["syn_sent"], "{result:#}");
        }
        serving.end();
        assert!(nothing_is_left(&network));
    }
}

/// Who answers for every address cuts its host off from the rest of the world.
#[test]
fn a_server_at_the_default_route_is_warned_of_unless_it_has_addresses() {
    let test = "a_server_at_the_default_route_is_warned_of_unless_it_has_addresses";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let warned = |options: &[&str]| {
        let words = [&["connect", "serve", "-i", "s0", "--duration", "10ms"][..], options].concat();
        let output = weir(&network.server, &words).output().expect("ip runs");
        assert_exit(&output, 0);
        stderr(&output).contains("the default route of this host leads to `s0`")
    };
    assert!(warned(&[]));
    assert!(!warned(&["--listen", "198.19.0.1:80"]));
    must(&network.server, "ip route del default");
    must(&network.server, "ip -6 route del default");
    assert!(!warned(&[]));
}

#[test]
fn what_cannot_be_done_is_refused_before_a_packet_goes_out() {
    let test = "what_cannot_be_done_is_refused_before_a_packet_goes_out";
    let refused = |words: &[&str], needle: &str| {
        let output = run(&[&["connect"][..], words].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(needle), "{words:?}:\n{}", stderr(&output));
    };
    refused(&[], "--src");
    refused(&["-i", "lo", "--src", "10.0.0.1"], "--dst");
    let with = |more: &[&'static str]| [&["-i", "lo"][..], &V4, more].concat();
    refused(&with(&["--close", "maybe"]), "maybe");
    refused(&with(&["--rate", "5kpps"]), "connections per second");
    refused(&with(&["--request", "1401"]), "from 0 to 1400");
    refused(&with(&["--reply", "1"]), "from 2 to 1400");
    refused(&with(&["--count", "0"]), "above zero");
    refused(&["-i", "lo", "--src", "10.0.0.1:0", "--dst", "10.0.0.2"], "port");
    refused(&["ledger", "/nonexistent/client", "/nonexistent/server"], "/nonexistent/client");
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let network = Network::new();
    let refused = |words: &[&str], needle: &str| {
        let words = [&["connect", "-i", "c0"][..], words].concat();
        let output = weir(&network.client, &words).output().expect("ip runs");
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(needle), "{words:?}:\n{}", stderr(&output));
    };
    let with = |more: &[&'static str]| [&V4[..], more].concat();
    refused(&with(&["--hold", "1s", "--rate", "10k", "--close", "none"]), "--close none");
    refused(&with(&["--hold", "1s"]), "--rate");
    refused(&with(&["--hold", "1h", "--rate", "1M"]), "too few");
    let few = ["--src", "198.18.0.1:2000-198.18.0.1:2099", "--dst", "198.19.0.1:80"];
    refused(&[&few[..], &["--retry", "2", "--rate", "100"]].concat(), "too few");
    refused(&["--src", "198.18.0.1", "--dst", "224.0.0.1"], "224.0.0.1 is a multicast");
    refused(&["--src", "127.0.0.1", "--dst", "198.19.0.1"], "127.0.0.1");
    refused(&["--src", "198.18.0.1", "--dst", "[2001:2::1]:80"], "famil");
    must(&network.client, "ip route del default");
    refused(&V4, "no route to 198.19.0.1");
    // A far end that would lose everything in silence.
    must(&network.router, "ethtool -K b0 gro off");
    let to = ["--dst-mac", "02:00:00:00:00:01"];
    refused(&[&V4[..], &to[..]].concat(), "lost silently");
    // A reply that the server's interface cannot send.
    must(&network.server, "ip link set s0 mtu 1300");
    let serve = ["connect", "serve", "-i", "s0", "--reply"];
    let output = weir(&network.server, &[&serve[..], &["1229"]].concat()).output();
    let output = output.expect("ip runs");
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("at most 1314 bytes"), "{}", stderr(&output));
    must(&network.client, "ip link set c0 down");
    refused(&[&V4[..], &to[..]].concat(), "is down");
    assert!(nothing_is_left(&network));
}
