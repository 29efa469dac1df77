//! The daemon while it is busy, while it goes and comes, and against those who may not ask it.

use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weir_bpf::firewall::layout::control;
use weir_bpf::firewall::{Attachment, Firewall};
use weir_net::{Netlink, Netns};

use super::network::{IMPATIENCE, Killed, Network, PATIENCE, SERVER, echo_server, wait_until};
use super::{ip, occupied};
use crate::common::{assert_exit, can_run_lab, stderr};
use crate::turns::beside;

/// Longer than any answer of a daemon that has nothing else to do.
const ANSWER: Duration = Duration::from_millis(200);
const MILLION: u32 = 1_000_000;

/// A file with a million addresses from `first` on, in networks that nobody has here.
fn addresses(net: &Network, name: &str, (first, count): (u32, u32)) -> String {
    let mut text = String::new();
    for number in first..first + count {
        let _ = writeln!(text, "{}", std::net::Ipv4Addr::from(number));
    }
    net.file(name, &text)
}

/// Runs in the background.
fn spawn(net: &Network, words: &str) -> Killed {
    let arguments: Vec<&str> = words.split(' ').collect();
    let mut command = net.weir(&arguments);
    Killed(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("ip runs"))
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("asked").is_some()
}

/// A process has one place for the firewall's memory, and these tests are threads of one.
static MEMORY: Mutex<()> = Mutex::new(());

/// Until it is dropped, after the firewall that was adopted, nobody else adopts one.
fn memory() -> MutexGuard<'static, ()> {
    // A test that failed has given its memory back.
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The data path of the box, as whoever looks at it without its daemon sees it.
fn adopt(net: &Network) -> Firewall {
    let look = || {
        let links = Netlink::open().expect("netlink").links().expect("listed");
        let ifindexes: Vec<u32> = links.iter().map(|link| link.ifindex).collect();
        Firewall::adopt(&ifindexes).expect("it is looked at").expect("it is there")
    };
    net.router.run(look).expect("entered")
}

fn generation(firewall: &Firewall) -> u32 {
    firewall.arena().read32(control::GENERATION)
}

/// The generation of next hops when the daemon has read all that the kernel has told, and it stays
/// the same from one look to the next.
#[track_caller]
fn settled_generation(net: &Network, firewall: &Firewall) -> u32 {
    let mut last = None;
    wait_until("the daemon has followed", || {
        let before = last.replace(generation(firewall));
        net.is_all_heard() && before == last
    });
    last.expect("it was looked at")
}

/// What changes the next hops of flows, and is undone in the next round.
const CHANGES: [(&str, [&str; 2]); 4] = [
    ("route", ["route add 10.2.0.2/32 via 10.3.0.2 dev b2", "route del 10.2.0.2/32"]),
    (
        "neighbour",
        ["neigh replace 10.2.0.77 lladdr 02:00:00:00:00:77 dev b1", "neigh del 10.2.0.77 dev b1"],
    ),
    ("link", ["link set b2 mtu 1400", "link set b2 mtu 1500"]),
    ("address", ["address add 10.9.9.1/24 dev b1", "address del 10.9.9.1/24 dev b1"]),
];

/// Next hops become stale although the engine is busy with something that takes seconds.
#[test]
fn changes_are_seen_while_the_engine_is_busy() {
    let test = "changes_are_seen_while_the_engine_is_busy";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("busy");
    echo_server(&net.server, SERVER, 7001);
    net.add_second_way();
    let list = addresses(&net, "list", (0x4000_0000, 5 * MILLION / 2));
    let rules = format!(
        "set limit table-entries 3000000\ntable <big> persist file \"{list}\"\npass\n\
         block in quick from <big>\n"
    );
    let path = net.file("big.conf", &rules);
    net.start("set limit table-entries 3000000\npass\n");
    let _memory = memory();
    let firewall = adopt(&net);
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("one way");
    let sent = |name: &str| {
        let transmitted =
            || Netlink::open().expect("netlink").stats64(name).expect("counted").tx_packets;
        net.router.run(transmitted).expect("entered")
    };
    // A load may be over too soon on a fast machine: every kind of change is tried until it has met
    // a busy engine, another one first in each round.
    let (mut tried, mut has_met) = ([0_usize; CHANGES.len()], [false; CHANGES.len()]);
    for round in 0..24 {
        let mut load = spawn(&net, &format!("pfctl -f {path}"));
        let mut question = unanswered(&net, &mut load.0);
        for offset in 0..CHANGES.len() {
            let index = (round + offset) % CHANGES.len();
            if has_ended(&mut question.0) {
                break;
            }
            let (what, words) = CHANGES[index];
            let which = tried[index] % 2;
            tried[index] += 1;
            let before = settled_generation(&net, &firewall);
            let on_b2 = sent("b2");
            ip(&net, words[which]);
            wait_until(what, || net.is_all_heard() && generation(&firewall) != before);
            if what == "route" {
                line.echo("the next packets");
                let is_there = sent("b2") > on_b2;
                assert!(is_there == (which == 0), "the very next packets take the new way");
            }
            has_met[index] |= !has_ended(&mut question.0);
        }
        wait_until("the load is over", || has_ended(&mut load.0));
        wait_until("and the question answered", || has_ended(&mut question.0));
        if has_met == [true; CHANGES.len()] {
            return;
        }
    }
    panic!("the engine was free again before a change: {tried:?}, {has_met:?}");
}

/// A question to the daemon that waits for its engine, which a load keeps busy; one that was
/// answered, if the load is over before.
fn unanswered(net: &Network, load: &mut Child) -> Killed {
    loop {
        let mut question = spawn(net, "fw status");
        let asked_at = Instant::now();
        while !has_ended(&mut question.0) && asked_at.elapsed() < ANSWER {
            thread::sleep(Duration::from_millis(10));
        }
        if !has_ended(&mut question.0) || has_ended(load) {
            return question;
        }
    }
}

/// A million entries: loaded, asked for, and replaced while packets run.
#[test]
fn a_table_of_a_million_entries_is_replaced_while_packets_run() {
    let test = "a_table_of_a_million_entries_is_replaced_while_packets_run";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("million");
    echo_server(&net.server, SERVER, 7001);
    let [first, second] = [("first", 0x4000_0000), ("second", 0x5000_0000)]
        .map(|(name, from)| addresses(&net, name, (from, MILLION)));
    net.start(&format!(
        "set limit table-entries 3000000\ntable <big> persist file \"{first}\"\n\
         block\npass proto icmp6\npass proto tcp from !<big> to !<big>\n"
    ));
    let holds = |address: u32| {
        let address = std::net::Ipv4Addr::from(address).to_string();
        net.run(&["pfctl", "-t", "big", "-T", "test", &address]).status.code() == Some(0)
    };
    let last = MILLION - 1;
    assert!(holds(0x4000_0000) && holds(0x4000_0000 + last) && !holds(0x4000_0000 + MILLION));
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    let before = ["match", "state-mismatch"].map(|reason| net.dropped(reason));
    let mut replace = spawn(&net, &format!("pfctl -t big -T replace -f {second}"));
    let mut echo_count = 0;
    while !has_ended(&mut replace.0) {
        line.echo("meanwhile");
        // New ones are asked for, in the old table or in the new one.
        net.connect(SERVER, 7001, PATIENCE).expect("passed by either").echo("new");
        echo_count += 1;
    }
    assert!(echo_count > 0, "packets ran");
    assert_eq!(replace.0.wait().expect("it ended").code(), Some(0));
    assert!(holds(0x5000_0000) && holds(0x5000_0000 + last) && !holds(0x4000_0000));
    assert_eq!(["match", "state-mismatch"].map(|reason| net.dropped(reason)), before);
    // And it is asked: the client is in none of them until it is.
    assert_eq!(net.pfctl("-t big -T add 10.1.0.2"), "1/1 addresses added.\n");
    assert!(net.connect(SERVER, 7001, IMPATIENCE).is_none(), "it is in the table");
    line.echo("what has a state goes on");
}

/// What ran is not left without a daemon because of an interface that came meanwhile.
#[test]
fn a_daemon_comes_back_although_an_interface_cannot_be_filtered() {
    let test = "a_daemon_comes_back_although_an_interface_cannot_be_filtered";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("back");
    echo_server(&net.server, SERVER, 7001);
    net.start("pass\n");
    let mut line = net.connect(SERVER, 7001, PATIENCE).expect("passed");
    line.echo("before");
    net.kill_daemon();
    let _theirs = occupied(&net, "tap9");
    let path = net.file("pf.conf", "pass\n");
    let output = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("interface tap9"), "{}", stderr(&output));
    assert_eq!(net.json("status")["adopted"], true);
    line.echo("after");
    // It is said in `status`, and asked for again it is refused.
    let mode = |name: &str| {
        let status = net.json("status");
        let list = status["interfaces"].as_array().expect("a list").clone();
        let interface =
            list.into_iter().find(|interface| interface["name"] == name).expect("it is there");
        (interface["mode"].clone(), interface["problem"].is_string())
    };
    assert_eq!((mode("tap9"), mode("b0")), (("none".into(), true), ("native".into(), false)));
    assert_exit(&net.run(&["pfctl", "-f", &path]), 1);
}

/// A ruleset of another machine names users and services that this one has not.
#[test]
fn names_of_another_machine_are_told() {
    if !can_run_lab("names_of_another_machine_are_told") {
        return;
    }
    let _turn = beside();
    let net = Network::new("facts");
    let rules = "block return\n\
                 pass out on b1 proto tcp to port weird user _weird keep state\n\
                 pass in on b0 proto tcp to port weird keep state\n\
                 pass out on b1 proto tcp to port weird keep state\npass proto icmp6\n";
    let path = net.file("pf.conf", rules);
    let refused = net.run(&["fw", "run", "-f", &path]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("unknown port `weird`"), "{}", stderr(&refused));
    for (text, part) in [
        ("interface em0 192.0.2.1/40\n", "names:1: `192.0.2.1/40` has too long a prefix"),
        ("user _weird\n", "names:1: `user` is not a fact"),
    ] {
        let refused = net.run(&["fw", "run", "-f", &path, "--facts", &net.file("names", text)]);
        assert_exit(&refused, 2);
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
    // One file serves `fw check`, which needs its interfaces, and this.
    let names = "# OpenBSD\ninterface em0 192.0.2.1/24\nuser _weird 4711\nservice weird 7001/tcp\n";
    let names = net.file("names", names);
    let started = net.run(&["fw", "run", "-f", &path, "--facts", &names]);
    assert_exit(&started, 0);
    let note = "names: note: its lines `interface` and `group` are left out here";
    assert!(stderr(&started).contains(note), "{}", stderr(&started));
    echo_server(&net.server, SERVER, 7001);
    net.connect(SERVER, 7001, PATIENCE).expect("passed").echo("by its name");
    // What is loaded later may have them, too.
    assert_exit(&net.run(&["pfctl", "-f", &path]), 1);
    assert_exit(&net.run(&["pfctl", &format!("--facts={names}"), "-f", &path]), 0);
}

/// An interface that was attached for a ruleset which is refused is off again, and said to be.
#[test]
fn a_refused_reload_leaves_no_false_status() {
    let test = "a_refused_reload_leaves_no_false_status";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("false");
    net.start("pass in on b0\n");
    let interfaces = || net.json("status")["interfaces"].clone();
    let _theirs = occupied(&net, "tap9");
    wait_until("it is seen", || interfaces().as_array().is_some_and(|list| list.len() == 3));
    let before = interfaces();
    assert_eq!((&before[0]["mode"], &before[1]["mode"]), (&"native".into(), &"none".into()));
    let path = net.file("next.conf", "pass\n");
    let output = net.run(&["pfctl", "-f", &path]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("tap9"), "{}", stderr(&output));
    assert_eq!(interfaces(), before);
    let has_xdp = || Netlink::open().expect("netlink").link("b1").expect("there").has_xdp;
    assert!(!net.router.run(has_xdp).expect("entered"), "and so it is");
}

/// `weir fw stop` takes all programs off, those on the way out too.
#[test]
fn stop_takes_both_programs_off() {
    let test = "stop_takes_both_programs_off";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("both");
    let _memory = memory();
    for has_daemon in [true, false] {
        net.start("pass\n");
        let firewall = adopt(&net);
        let at = || {
            let netlink = Netlink::open().expect("netlink");
            ["b0", "b1"].map(|name| {
                firewall.attachment(netlink.ifindex(name).expect("there")).expect("asked")
            })
        };
        let at = || net.router.run(at).expect("entered");
        assert!(
            at().iter().all(|programs| programs.ingress.is_some() && programs.egress),
            "{:?}",
            at()
        );
        if !has_daemon {
            net.kill_daemon();
        }
        assert_exit(&net.run(&["fw", "stop"]), 0);
        assert_eq!(at(), [Attachment::default(); 2]);
    }
}

/// Rotation: the file is moved away, SIGHUP says so, and the daemon goes on in a new one.
#[test]
fn a_log_is_rotated() {
    let test = "a_log_is_rotated";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("rotate");
    let rules = net.file("pf.conf", "pass\nblock drop in log on b0 proto tcp to any port 7002\n");
    let [log, old] = ["pflog", "pflog.1"].map(|name| net.dir.path().join(name));
    let size_bytes = |path: &std::path::Path| fs::metadata(path).map_or(0, |file| file.len());
    assert_exit(&net.run(&["fw", "run", "-f", &rules, "--log", &log.to_string_lossy()]), 0);
    let is_logged = || {
        assert!(net.connect(SERVER, 7002, IMPATIENCE).is_none(), "blocked");
        wait_until("a packet is logged", || size_bytes(&log) > 24);
    };
    is_logged();
    let pid = net.json("status")["pid"].clone();
    fs::rename(&log, &old).expect("moved");
    let process = i32::try_from(pid.as_i64().expect("a number")).expect("a process");
    kill(Pid::from_raw(process), Signal::SIGHUP).expect("told");
    wait_until("a new file is there", || size_bytes(&log) == 24);
    let before = size_bytes(&old);
    is_logged();
    assert_eq!(size_bytes(&old), before, "nothing more goes into the old one");
    assert_eq!(net.json("status")["pid"], pid, "the daemon goes on");
}

/// `weir fw status` where no daemon answers: what it says, and the interfaces of its JSON.
fn status_without_daemon(net: &Network) -> (String, serde_json::Value) {
    let output = net.run(&["fw", "status", "--json"]);
    assert_exit(&output, 1);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["running"], false);
    (stderr(&output), value["filtered_without_daemon"].clone())
}

#[test]
fn programs_of_a_dead_daemon_are_no_secret() {
    let test = "programs_of_a_dead_daemon_are_no_secret";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("secret");
    let (message, filtered) = status_without_daemon(&net);
    assert!(message.contains("no weir fw runs"), "{message}");
    assert_eq!(filtered, serde_json::json!([]));
    net.start("pass\n");
    net.kill_daemon();
    let (message, filtered) = status_without_daemon(&net);
    assert!(message.contains("its programs filter on b0, b1"), "{message}");
    assert!(message.contains("weir fw stop"), "{message}");
    assert_eq!(filtered, serde_json::json!(["b0", "b1"]));
    assert_exit(&net.run(&["fw", "stop"]), 0);
    assert_eq!(status_without_daemon(&net).1, serde_json::json!([]));
}

#[test]
fn an_interface_that_moves_away_leaves_its_program() {
    let test = "an_interface_that_moves_away_leaves_its_program";
    if !can_run_lab(test) {
        return;
    }
    let _turn = beside();
    let net = Network::new("move");
    net.add_second_way();
    net.start("pass\n");
    let shift = |name: &str, to: &Netns| {
        let words = ["link", "set", name, "netns", to.name()];
        let mut ip = std::process::Command::new("ip");
        ip.args(["-n", net.router.name()]).args(words);
        assert_exit(&ip.output().expect("ip runs"), 0);
    };
    let is_filtered = |name: &str, at: &Netns| {
        let look = || Netlink::open().and_then(|netlink| netlink.links());
        let links = at.run(look).expect("entered").expect("listed");
        links.iter().find(|link| link.name == name).expect("it is there").has_xdp
    };
    shift("b1", &net.server);
    wait_until("the daemon has taken it off", || !is_filtered("b1", &net.server));
    net.kill_daemon();
    shift("b0", &net.client);
    assert!(is_filtered("b0", &net.client), "nobody has seen it go");
    assert_exit(&net.run(&["fw", "stop"]), 0);
    assert!(!is_filtered("b0", &net.client) && !is_filtered("b2", &net.router));
}
