//! Pipes and queues of dummynet: each direction of a connection has its rate, whoever shares it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::network::{Network, PATIENCE, SERVER, at};
use super::queues::{WINDOW, kinds, rates, sink};
use crate::common::{assert_exit, can_run_lab, run, stderr};
use crate::turns::alone;

const FACTS: &str = "\
pipe 1 config bw 10Mbit/s
pipe 2 config bw 4Mbit/s queue 60KBytes
pipe 3 config bw 1250KByte/s
queue 1 config pipe 3 weight 30 queue 50
queue 2 config pipe 3 weight 10 queue 100
";

/// What the client sends to 7001 and 7002 shares a pipe, to 7003 and 7004 another one by weights.
/// 7005 is for what comes back, and 7006 has no pipe.
const RULES: &str = "\
pass
pass in on b0 proto tcp to any port { 7001, 7005 } dnpipe (1, 2)
pass in on b0 proto tcp to any port 7002 dnpipe 1
pass in on b0 proto tcp to any port 7003 dnqueue 1
pass out on b1 proto tcp to any port 7004 dnqueue 2
";

/// Starts the firewall with facts.
fn start(net: &Network, facts: &str, rules: &str) {
    let (facts, path) = (net.file("facts", facts), net.file("pf.conf", rules));
    assert_exit(&net.run(&["fw", "run", "--facts", &facts, "-f", &path]), 0);
}

/// Sends to whoever connects, until that one is gone.
fn fountain(net: &Network, port: u16) {
    let address = at(SERVER, port);
    let listener = net.server.run(|| TcpListener::bind(address)).expect("entered").expect("bound");
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let bytes = vec![7; 1 << 16];
            while stream.write_all(&bytes).is_ok() {}
        }
    });
}

/// What comes back from a fountain, Mbit/s.
fn rate_back(net: &Network, port: u16) -> f64 {
    let connect = || TcpStream::connect_timeout(&at(SERVER, port), PATIENCE);
    let mut stream = net.client.run(connect).expect("entered").expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut bytes = vec![0; 1 << 16];
    let mut read_for = |time: Duration| {
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < time {
            count += stream.read(&mut bytes).expect("it comes");
        }
        (u32::try_from(count).expect("few bytes"), start.elapsed().as_secs_f64())
    };
    // Until queues are full.
    read_for(Duration::from_millis(500));
    let (count, seconds) = read_for(WINDOW);
    f64::from(count) * 8.0 / 1e6 / seconds
}

#[test]
fn pipes_shape_each_direction_and_are_shared() {
    let test = "pipes_shape_each_direction_and_are_shared";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let net = Network::new("pipes");
    let sinks = [7001, 7002, 7003, 7004, 7006].map(|port| sink(&net.server, SERVER, port));
    fountain(&net, 7005);
    start(&net, FACTS, RULES);
    for name in ["b0", "b1"] {
        assert!(kinds(&net, name).contains("qdisc htb 7765:"), "{}", kinds(&net, name));
    }
    let status = net.printed(&["fw", "status"]);
    assert!(status.contains("what leaves waits in queues"), "{status}");

    // Headers are not counted: so less than the rate, and not much less.
    let there = rates(&net, &[(7001, &sinks[0])])[0];
    assert!((5.5..10.5).contains(&there), "{there} Mbit/s of 10");
    let back = rate_back(&net, 7005);
    assert!((2.0..4.2).contains(&back), "{back} Mbit/s of 4");
    let both = rates(&net, &[(7001, &sinks[0]), (7002, &sinks[1])]);
    assert!((5.5..10.5).contains(&(both[0] + both[1])), "{both:?} Mbit/s of 10 together");
    let both = rates(&net, &[(7003, &sinks[2]), (7004, &sinks[3])]);
    let (sum, ratio) = (both[0] + both[1], both[0] / both[1]);
    assert!((5.5..10.5).contains(&sum), "{both:?} Mbit/s of 10");
    assert!((1.8..5.0).contains(&ratio), "{both:?}: three to one");
    let free = rates(&net, &[(7006, &sinks[4])])[0];
    assert!(free > 12.0, "{free} Mbit/s, of which nothing is limited");

    let shown = net.pfctl("-sq");
    for line in [
        "pipe 1 config bw 10Mbit/s queue 50\n",
        "pipe 2 config bw 4Mbit/s queue 60KBytes\n",
        "pipe 3 config bw 10Mbit/s queue 50\n",
        "queue 1 config pipe 3 weight 30 queue 50\n",
        "queue 2 config pipe 3 weight 10 queue 100\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let counted = |pipe: &str, interface: &str| passed(&net, pipe, interface);
    assert!(counted("pipe 1", "b1") > 200 && counted("pipe 2", "b0") > 200);
    assert_eq!((counted("pipe 1", "b0"), counted("queue 1", "b0")), (0, 0), "nothing goes back");

    // Facts of a load go before those of the start; with the rules the trees go.
    let facts = net.file("facts", "pipe 1 config bw 2Mbit/s\n");
    let path = net.file("next.conf", "pass\npass in on b0 proto tcp to port 7001 dnpipe 1\n");
    net.pfctl(&format!("--facts={facts} -f {path}"));
    assert_eq!(net.pfctl("-sq").lines().next(), Some("pipe 1 config bw 2Mbit/s queue 50"));
    let slow = rates(&net, &[(7001, &sinks[0])])[0];
    assert!((1.0..2.2).contains(&slow), "{slow} Mbit/s of 2");
    net.reload("pass\n");
    assert!(!kinds(&net, "b0").contains("htb") && !kinds(&net, "b1").contains("htb"));
    net.reload(RULES);
    assert!(kinds(&net, "b0").contains("htb"));
    assert_exit(&net.run(&["fw", "stop"]), 0);
    assert!(!kinds(&net, "b0").contains("htb") && !kinds(&net, "b1").contains("htb"));
}

/// Packets that a pipe or queue has sent by an interface.
pub(super) fn passed(net: &Network, pipe: &str, interface: &str) -> u64 {
    let shown = net.pfctl("-vsq");
    let start = format!("{pipe} config ");
    let mut lines = shown.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
    let place = format!("[ on {interface}: pkts:");
    let of_it = lines.by_ref().take_while(|line| line.starts_with("  [ "));
    let count = of_it.filter_map(|line| line.trim().strip_prefix(&place)).next();
    let count = count.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    count.unwrap_or_else(|| panic!("{pipe} on {interface}: {shown}"))
}

/// What is not configured, or not done, is said with its place, by `check` and by `run` alike.
#[test]
fn what_pipes_have_not_is_refused_with_its_place() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("writable");
        path.to_string_lossy().into_owned()
    };
    let interface = "interface b0 10.1.0.1/24\n";
    let facts = file("facts", interface);
    let rules = file("pf.conf", "pass\npass in dnpipe 1\npass out dnqueue (2, 3)\n");
    let output = run(&["fw", "check", "--facts", &facts, &rules]);
    assert_exit(&output, 1);
    let said = stderr(&output);
    for part in [
        "pf.conf:2:1: error: pipe 1 is not configured",
        "add a line like `pipe 1 config bw 10Mbit/s` to the file of --facts",
        "pf.conf:3:1: error: queue 2 is not configured",
        "pf.conf:3:1: error: queue 3 is not configured",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    for (line, part) in [
        ("pipe 1 config delay 1500", "facts:2: `delay` is not done: packets wait for their turn"),
        ("pipe 1 config mask src-ip 0xffffffff", "facts:2: `mask` is not done: a pipe or queue"),
    ] {
        let facts = file("facts", &format!("{interface}{line}\n"));
        let output = run(&["fw", "check", "--facts", &facts, &rules]);
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    }
    let facts = format!(
        "{interface}pipe 1 config bw 1Mbit/s\nqueue 2 config pipe 1\nqueue 3 config pipe 1\n"
    );
    assert_exit(&run(&["fw", "check", "--facts", &file("facts", &facts), &rules]), 0);
}
