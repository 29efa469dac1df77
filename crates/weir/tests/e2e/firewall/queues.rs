//! Queues: what leaves the box is shaped as the file says, whichever rule has named the queue.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_net::Netns;

use super::nat::{ip, program};
use super::network::{Network, PATIENCE, SERVER, at, echo_server};
use crate::common::{assert_exit, can_run_lab, skipped, stderr, stdout};
use crate::turns::alone;

/// How long bytes are counted, once they come.
pub(super) const WINDOW: Duration = Duration::from_millis(1_500);

/// OpenBSD's words: a link of 20 Mbit/s, of which one kind of traffic gets 4 at most, and two share
/// the rest three to one. Port 7001 is named where it comes in, 7002 and 7003 where they leave.
const OPENBSD: &str = "\
queue main on b1 bandwidth 20M max 20M
queue slow parent main bandwidth 4M max 4M
queue three parent main bandwidth 12M
queue one parent main bandwidth 4M qlimit 100 default
pass
pass in on b0 proto tcp to any port 7001 set queue slow
pass out on b1 proto tcp to any port 7002 set queue (three, one)
";

/// FreeBSD's.
const FREEBSD: &str = "\
altq on b1 cbq bandwidth 20Mb queue { slow, three, one }
queue slow bandwidth 4Mb
queue three bandwidth 60% cbq(borrow)
queue one bandwidth 4Mb qlimit 100 cbq(default borrow)
pass
pass in on b0 proto tcp to any port 7001 queue slow
pass out on b1 proto tcp to any port 7002 queue (three, one)
";

/// Counts what comes to a port.
pub(super) fn sink(netns: &Netns, host: &str, port: u16) -> Arc<AtomicU64> {
    let address = at(host, port);
    let listener = netns.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(size) = stream.read(&mut bytes) {
                    if size == 0 {
                        return;
                    }
                    counted.fetch_add(size as u64, Ordering::Relaxed);
                }
            });
        }
    });
    count
}

/// Sends to a port until the other end is gone, or this one is dropped.
fn pour(from: &Netns, host: &str, port: u16) -> TcpStream {
    let address = at(host, port);
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    let stream = from.run(connect).expect("entered").expect("connected");
    let mut writer = stream.try_clone().expect("a second handle");
    thread::spawn(move || {
        let bytes = vec![7; 1 << 16];
        while writer.write_all(&bytes).is_ok() {}
    });
    stream
}

/// What comes to ports from the client at the same time, Mbit/s each.
pub(super) fn rates(net: &Network, sinks: &[(u16, &AtomicU64)]) -> Vec<f64> {
    let lines: Vec<TcpStream> =
        sinks.iter().map(|(port, _)| pour(&net.client, SERVER, *port)).collect();
    // Until queues are full.
    thread::sleep(Duration::from_millis(500));
    let read =
        || -> Vec<u64> { sinks.iter().map(|(_, count)| count.load(Ordering::Relaxed)).collect() };
    let (before, start) = (read(), Instant::now());
    thread::sleep(WINDOW);
    let (after, seconds) = (read(), start.elapsed().as_secs_f64());
    for line in &lines {
        line.shutdown(std::net::Shutdown::Both).expect("shut down");
    }
    let megabits = |(then, now): (&u64, &u64)| {
        let bytes = u32::try_from(now - then).expect("few bytes");
        f64::from(bytes) * 8.0 / 1e6 / seconds
    };
    before.iter().zip(&after).map(megabits).collect()
}

/// The kinds of queues on an interface of the box, as tc says it.
pub(super) fn kinds(net: &Network, name: &str) -> String {
    let words = ["tc", "qdisc", "show", "dev", name];
    stdout(&program("queues", &net.router, &words).expect("tc is there"))
}

fn shaped(test: &str, tag: &str, dialect: &str, rules: &str) {
    if !can_run_lab(test) {
        return;
    }
    // Two of these at once would share the processors that the rates need.
    let _turn = alone();
    let net = Network::new(tag);
    let sinks = [7001, 7002, 7003].map(|port| sink(&net.server, SERVER, port));
    net.start(rules);
    assert!(kinds(&net, "b1").contains("qdisc htb 7765:"), "{}", kinds(&net, "b1"));

    // Headers are not counted, and the others are idle: so less than the rate, and not much less.
    let slow = rates(&net, &[(7001, &sinks[0])])[0];
    assert!((2.4..4.2).contains(&slow), "{slow} Mbit/s of 4");
    let alone = rates(&net, &[(7003, &sinks[2])])[0];
    assert!((10.0..20.5).contains(&alone), "{alone} Mbit/s of 20");
    let both = rates(&net, &[(7002, &sinks[1]), (7003, &sinks[2])]);
    let (sum, ratio) = (both[0] + both[1], both[0] / both[1]);
    assert!((12.0..20.5).contains(&sum), "{both:?} Mbit/s of 20");
    assert!((1.8..5.0).contains(&ratio), "{both:?}: three to one");

    let shown = net.pfctl("-vsq");
    let of_slow = shown.split("queue slow").nth(1).expect("it is shown");
    assert!(of_slow.contains("[ on b1: pkts: "), "{shown}");
    let count = of_slow.split("pkts:").nth(1).and_then(|rest| rest.split_whitespace().next());
    assert!(count.and_then(|count| count.parse().ok()) > Some(200_u64), "{shown}");
    assert!(net.pfctl("-sq").contains("queue one"), "{shown}");

    // The daemon's death changes nothing, nor does a reload; with the queues the tree goes.
    net.kill_daemon();
    assert!(kinds(&net, "b1").contains("qdisc htb 7765:"));
    net.start(rules);
    net.reload("pass\n");
    assert!(!kinds(&net, "b1").contains("htb"), "{}", kinds(&net, "b1"));
    net.reload_as(dialect, rules);
    net.kill_daemon();
    net.start("pass\n");
    assert!(!kinds(&net, "b1").contains("htb"), "a new daemon has none");
    net.reload_as(dialect, rules);
    assert!(kinds(&net, "b1").contains("htb"));
    assert_exit(&net.run(&["fw", "stop"]), 0);
    assert!(!kinds(&net, "b1").contains("htb"), "{}", kinds(&net, "b1"));
}

#[test]
fn queues_as_openbsd_has_them() {
    shaped("queues_as_openbsd_has_them", "q-open", "openbsd", OPENBSD);
}

#[test]
fn queues_as_freebsd_has_them() {
    shaped("queues_as_freebsd_has_them", "q-free", "freebsd", FREEBSD);
}

/// What cannot be is refused before anything changes.
#[test]
fn queues_of_somebody_else_stay() {
    let test = "queues_of_somebody_else_stay";
    if !can_run_lab(test) {
        return;
    }
    let _turn = crate::turns::beside();
    let net = Network::new("q-else");
    let words = ["tc", "qdisc", "add", "dev", "b1", "root", "handle", "9:", "htb"];
    assert_exit(&program(test, &net.router, &words).expect("tc is there"), 0);
    let path = net.file("pf.conf", OPENBSD);
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("tc qdisc del dev b1 root"), "{}", stderr(&output));
    assert_exit(&net.run(&["fw", "status"]), 1);
    assert!(kinds(&net, "b1").contains("qdisc htb 9:"));
    let words = ["tc", "qdisc", "del", "dev", "b1", "root"];
    assert_exit(&program(test, &net.router, &words).expect("tc is there"), 0);
    net.start("pass\n");
    for (wrong, said) in [
        ("queue a on b1 bandwidth 1M\npass\n", "has 0 default queues"),
        ("queue a on b1 bandwidth 1M default\npass set queue b\n", "queue `b` is not defined"),
        (
            "queue a on b1 bandwidth 1M\nqueue b parent c bandwidth 1K default\n",
            "queue `b`: its parent `c` is not defined above it",
        ),
    ] {
        let path = net.file("wrong.conf", wrong);
        let output = net.run(&["pfctl", "--dialect=openbsd", "-f", &path]);
        assert_exit(&output, 1);
        assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
    }
    assert!(!kinds(&net, "b1").contains("htb"));
}

/// The priorities of frames on the wire, by how many a rule of nftables has counted there.
fn counted(net: &Network, prio: u8) -> u64 {
    let words = ["nft", "list", "chain", "netdev", "seen", "in"];
    let listed = stdout(&program("queues", &net.server, &words).expect("nft is there"));
    let rule = format!("vlan pcp {prio} counter packets ");
    let of_it = listed.split(&rule).nth(1).and_then(|rest| rest.split(' ').next());
    of_it.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{listed}"))
}

/// `set prio` is in the tags of frames: the first for what carries something, the second for what
/// does not; of the rules where packets leave, or else of those where they come in.
#[test]
fn priorities_are_in_the_tags_of_frames() {
    let test = "priorities_are_in_the_tags_of_frames";
    if !can_run_lab(test) {
        return;
    }
    let _turn = crate::turns::beside();
    let net = Network::new("q-prio");
    let map = (1..8).map(|prio| format!("{prio}:{prio}")).collect::<Vec<_>>().join(" ");
    let vlan = format!("link add link b1 name b1.5 type vlan id 5 egress-qos-map {map}");
    for (netns, lines) in [
        (&net.router, [vlan.as_str(), "address add 10.5.0.1/24 dev b1.5", "link set b1.5 up"]),
        (
            &net.server,
            [
                "link add link s0 name s0.5 type vlan id 5",
                "address add 10.5.0.2/24 dev s0.5",
                "link set s0.5 up",
            ],
        ),
    ] {
        let words: Vec<&str> = ["ip"].into_iter().chain(lines[0].split(' ')).collect();
        if !program(test, netns, &words).is_some_and(|output| output.status.success()) {
            return skipped(test, "this kernel has no VLANs");
        }
        for line in &lines[1..] {
            ip(netns, line);
        }
    }
    let rules = "table netdev seen { chain in { type filter hook ingress device s0 priority 0; \
                 vlan pcp 3 counter; vlan pcp 5 counter; vlan pcp 6 counter; } }";
    let words = ["nft", rules];
    assert_exit(&program(test, &net.server, &words).expect("nft is there"), 0);
    for port in [7001, 7002] {
        echo_server(&net.server, "10.5.0.2", port);
    }
    net.start(
        "pass\npass in on b0 proto tcp to any port 7001 set prio 3\n\
         pass out on b1.5 proto tcp to any port 7002 set prio (5, 6)\n",
    );
    let mut line = net.connect("10.5.0.2", 7001, PATIENCE).expect("passed");
    line.echo("with the priority of the way in");
    assert!(counted(&net, 3) >= 3, "SYN, ACK, data");
    assert_eq!((counted(&net, 5), counted(&net, 6)), (0, 0));
    let mut line = net.connect("10.5.0.2", 7002, PATIENCE).expect("passed");
    line.echo("with those of the way out");
    assert!(counted(&net, 5) >= 2 && counted(&net, 6) >= 1, "SYN and data, ACK");
}
