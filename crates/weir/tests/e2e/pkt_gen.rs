//! `weir pkt-gen` in namespaces: its functions against one another, its lines as a script cuts
//! them, both names, signals, bad input, and nothing left attached.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;

use serde_json::Value;
use weir_bpf::attach;
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};

use crate::common::{
    arrived_packets, assert_exit, can_run_lab, run, skipped, stderr, stdout, wait_until,
};
use crate::turns::{beside, namespace};

const FAR_MAC: &str = "02:00:00:00:00:01";
const RANGES: [&str; 4] =
    ["-s", "198.18.10.1:2000-198.18.10.70", "-d", "198.19.10.1:2000-198.19.10.70"];

/// A namespace with `out` connected to `in`, both with two queues, and `off`, which is down.
fn wire(name: &str) -> NetnsGuard {
    let namespace = namespace(&format!("pktgen-{name}"));
    let made = namespace.run(|| {
        for which in ["all", "default"] {
            // No neighbour discovery: rx counts every frame.
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(path, "1").expect("the sysctl is written");
        }
        let netlink = Netlink::open()?;
        let far = VethEnd::new("in").mac([2, 0, 0, 0, 0, 1]);
        netlink.create_veth(&VethEnd::new("out"), &far, 2)?;
        netlink.create_veth(&VethEnd::new("off"), &VethEnd::new("far"), 1)?;
        netlink.set_up("in")?;
        netlink.set_up("out")
    });
    made.expect("the namespace can be entered").expect("the interfaces can be made");
    namespace
}

fn is_attached(namespace: &Netns, name: &str) -> bool {
    let attached = namespace.run(|| {
        let ifindex = Netlink::open().and_then(|netlink| netlink.ifindex(name));
        attach::attached(ifindex.expect("the interface exists")).expect("readable").is_some()
    });
    attached.expect("entered")
}

fn command(namespace: &Netns, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name(), env!("CARGO_BIN_EXE_weir")]);
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Sends out of `out` without waiting, to its end.
fn send(namespace: &Netns, arguments: &[&str]) -> Output {
    let first = ["pkt-gen", "-i", "out", "-f", "tx", "-N", "-w", "0", "-D", FAR_MAC];
    command(namespace, &[&first[..], arguments].concat()).output().expect("ip runs")
}

/// A command in the background.
struct Running<'a> {
    namespace: &'a Netns,
    child: Child,
    log: BufReader<ChildStderr>,
    /// What it has said on standard error so far.
    said: String,
    /// What had arrived at `in` before its start.
    arrived: u64,
}

impl<'a> Running<'a> {
    fn start(namespace: &'a Netns, arguments: &[&str]) -> Self {
        let arrived = arrived_packets(namespace, "in");
        let mut command = command(namespace, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("ip runs");
        let log = BufReader::new(child.stderr.take().expect("piped"));
        Self { namespace, child, log, said: String::new(), arrived }
    }

    /// The same, with a program that is attached to `in`.
    fn attached(namespace: &'a Netns, arguments: &[&str]) -> Self {
        let running = Self::start(namespace, arguments);
        wait_until("its program is attached", || is_attached(namespace, "in"));
        running
    }

    /// Waits until its standard error has these words.
    #[track_caller]
    fn wait_for(&mut self, words: &str) {
        while !self.said.contains(words) {
            let size = self.log.read_line(&mut self.said).expect("readable");
            assert!(size > 0, "it ended: {}", self.said);
        }
    }

    /// Ends it with a signal.
    fn end(mut self, signal: &str) -> Output {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill(1) runs").success());
        self.log.read_to_string(&mut self.said).expect("readable");
        let output = self.child.wait_with_output().expect("it ended");
        Output { stderr: self.said.into_bytes(), ..output }
    }

    /// The same, when so many packets have arrived at `in`.
    #[track_caller]
    fn end_after(self, packets: u64, signal: &str) -> Output {
        let all = self.arrived + packets;
        wait_until("what was sent has arrived", || arrived_packets(self.namespace, "in") >= all);
        self.end(signal)
    }
}

/// A pkt-gen that counts what arrives at `in`.
fn receive<'a>(namespace: &'a Netns, arguments: &[&str]) -> Running<'a> {
    let first = ["pkt-gen", "-i", "in", "-f", "rx", "-N", "-w", "0"];
    let mut receiver = Running::start(namespace, &[&first[..], arguments].concat());
    receiver.wait_for("Ready...");
    receiver
}

/// The numbers of packets and bytes in the line of totals.
#[track_caller]
fn totals(output: &Output, verb: &str) -> (u64, u64) {
    let text = stdout(output);
    let line = text.lines().find(|line| line.starts_with(verb));
    let line = line.unwrap_or_else(|| panic!("no totals:\n{text}\n{}", stderr(output)));
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!((words[2], words[4], words[6]), ("packets", "bytes", "events"), "{line}");
    (words[1].parse().expect("a number"), words[3].parse().expect("a number"))
}

/// What a script of pkt-gen's users does with its output: packets and bits per second.
fn cut(log: &str) -> Vec<(u64, u64)> {
    let script = r#"grep 'main_thread \[[0-9]*\] [1-9].*pps' | while read -r line; do
        echo "$(echo "$line" | cut -d' ' -f4) $(echo "$line" | cut -d' ' -f8)"; done"#;
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut input = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut input, log.as_bytes()).expect("writable");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let pair = |line: &str| {
        let (pps, bps) = line.split_once(' ')?;
        Some((pps.parse().ok()?, bps.parse().ok()?))
    };
    let text = stdout(&output);
    text.lines().map(|line| pair(line).unwrap_or_else(|| panic!("no numbers: {line}"))).collect()
}

/// The packets of all reports together.
fn reported_packets(log: &str) -> u64 {
    let reports = log.lines().filter(|line| line.contains(" main_thread ["));
    let field = |line: &str| line.split(' ').nth(5).map(|f| f.trim_start_matches('(').to_owned());
    reports.filter_map(|line| field(line)?.parse::<u64>().ok()).sum()
}

#[test]
fn what_tx_sends_rx_counts_and_scripts_can_cut_both() {
    if !can_run_lab("what_tx_sends_rx_counts_and_scripts_can_cut_both") {
        return;
    }
    let _turn = beside();
    let namespace = wire("scripts");
    let receiver = receive(&namespace, &["-T", "200"]);
    let arguments = ["-n", "4901", "-R", "4000", "-T", "200", "-U"];
    let sent = send(&namespace, &[&RANGES[..], &arguments].concat());
    assert_exit(&sent, 0);
    let received = receiver.end_after(4_901, "-INT");
    assert_exit(&received, 130);
    assert_eq!(totals(&sent, "Sent"), (4_901, 4_901 * 60));
    assert_eq!(totals(&received, "Received"), (4_901, 4_901 * 60));
    let text = stdout(&sent);
    assert!(text.starts_with("Sending on netmap:out: 2 queues, 1 threads and 1 cpus.\n"), "{text}");
    assert!(text.contains(&format!("{} -> {} (", RANGES[1], RANGES[3])), "{text}");
    assert!(text.contains(&format!(" -> {FAR_MAC})")), "{text}");
    assert!(stderr(&sent).contains("] 4900 flows\n"), "{}", stderr(&sent));
    let text = stdout(&received);
    assert!(text.starts_with("Receiving from netmap:in: 2 queues, 1 threads"), "{text}");
    for output in [&sent, &received] {
        let log = stderr(output);
        let rates = cut(&log);
        assert!(!rates.is_empty(), "{log}");
        for (pps, bps) in rates {
            // Both are rounded; a packet has 480 bits.
            assert!(bps.abs_diff(pps * 480) <= 480, "{pps} pps, {bps} bps");
        }
        let packets = reported_packets(&log);
        assert!((4_901 / 2..=4_901).contains(&packets), "{packets} packets in reports:\n{log}");
    }
    assert!(!is_attached(&namespace, "in"), "the program was left attached");
}

/// The receiver is another program: it has been told the flows, and sees them all, and no other.
#[test]
fn a_pair_of_ranges_has_its_flows_and_threads_share_them_exactly() {
    if !can_run_lab("a_pair_of_ranges_has_its_flows_and_threads_share_them_exactly") {
        return;
    }
    let _turn = beside();
    let namespace = wire("flows");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("stream.json").to_string_lossy().into_owned();
    let several = thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    if !several {
        skipped("pkt-gen with two threads", "there is one CPU");
    }
    for threads in if several { 1..=2_u64 } else { 1..=1 } {
        let packets = 4_900 + threads;
        let expectation = format!(
            r#"{{"streams": [{{"stream": 0, "src": "{}", "dst": "{}", "flow_count": 4900,
                "thread_count": {threads}, "packets": {packets}}}]}}"#,
            RANGES[1], RANGES[3]
        );
        fs::write(&file, expectation).expect("writable");
        let sink =
            Running::attached(&namespace, &["sink", "-i", "in", "--expect", &file, "--json"]);
        let (count, threads) = (packets.to_string(), threads.to_string());
        // 4,901 are odd, and 4,902 leave a remainder with three, which -b has no say in.
        let arguments = ["-n", &count, "-p", &threads, "-R", "10000", "-b", "3"];
        let sent = send(&namespace, &[&RANGES[..], &arguments].concat());
        assert_exit(&sent, 0);
        assert_eq!(totals(&sent, "Sent").0, packets);
        let output = sink.end_after(packets, "-INT");
        let text = stdout(&output);
        let total: Value = serde_json::from_str(text.lines().last().expect("a line")).expect(&text);
        let stream = &total["streams"][0];
        assert_eq!((&total["packets"], &stream["flows_seen"]), (&packets.into(), &4_900.into()));
        assert_eq!(stream["lost_packets"], 0, "{stream}");
    }
    if several {
        let sent = send(&namespace, &["-n", "1001", "-p", "2", "-R", "5000"]);
        assert_exit(&sent, 2);
        assert!(stderr(&sent).contains("ethtool -K in gro on"), "{}", stderr(&sent));
        let receiver = receive(&namespace, &[]);
        let sent = send(&namespace, &["-n", "1001", "-p", "2", "-R", "5000"]);
        assert_exit(&sent, 0);
        let received = receiver.end_after(1_001, "-TERM");
        assert_eq!(totals(&received, "Received").0, 1_001);
        assert_eq!(totals(&sent, "Sent").0, 1_001);
        assert!(stderr(&sent).contains("loses the remainder"), "{}", stderr(&sent));
    }
}

#[test]
fn ipv6_and_sizes_arrive_as_sent() {
    if !can_run_lab("ipv6_and_sizes_arrive_as_sent") {
        return;
    }
    let _turn = beside();
    let namespace = wire("sizes");
    let exchange = |arguments: &[&str]| {
        let receiver = receive(&namespace, &[]);
        let sent = send(&namespace, arguments);
        assert_exit(&sent, 0);
        let counted = totals(&sent, "Sent");
        let received = receiver.end_after(counted.0, "-TERM");
        assert_exit(&received, 143);
        assert_eq!(totals(&received, "Received"), counted);
        (counted, stderr(&sent))
    };
    let ipv6 = ["-6", "-s", "[2001:2::1]:2000-[2001:2::64]", "-d", "[2001:2:1::1]:53"];
    let ((packets, bytes), log) =
        exchange(&[&ipv6[..], &["-n", "500", "-R", "5000", "-l", "100"]].concat());
    assert_eq!((packets, bytes), (500, 500 * 100));
    assert!(log.contains("] 100 flows\n"), "{log}");
    let ((packets, bytes), log) = exchange(&["-n", "500", "-R", "5000", "-l", "1514", "-l", "60"]);
    assert_eq!(packets, 500);
    // The mean of 500 sizes is hardly ever within 60 of either end.
    assert!((120 * 500..1454 * 500).contains(&bytes), "{bytes} bytes");
    assert!(log.contains("-l twice: every packet has its own size"), "{log}");
}

#[test]
fn ping_times_what_pong_returns() {
    if !can_run_lab("ping_times_what_pong_returns") {
        return;
    }
    let _turn = beside();
    let namespace = wire("ping");
    let pong = Running::attached(&namespace, &["pkt-gen", "-i", "in", "-f", "pong", "-w", "0"]);
    let ping = |arguments: &[&str]| {
        let first = ["pkt-gen", "-i", "out", "-f", "ping", "-w", "0", "-D", FAR_MAC];
        command(&namespace, &[&first[..], arguments].concat()).output().expect("ip runs")
    };
    for (arguments, packets) in [(["-n", "5", "-R", "50"], 5), (["-n", "7", "-b", "3"], 7)] {
        let output = ping(&arguments);
        assert_exit(&output, 0);
        assert!(stdout(&output).starts_with("Working on netmap:out: "), "{}", stdout(&output));
        let log = stderr(&output);
        let line = log.lines().find_map(|line| line.split_once(&format!("RTT over {packets} ")));
        let (_, line) = line.unwrap_or_else(|| panic!("not all came back:\n{log}"));
        let words: Vec<&str> = line.split(' ').collect();
        let (min_ns, mean_ns): (u64, u64) = match words[..] {
            ["packets:", "min", min, "av", mean, "ns"] => {
                (min.parse().expect("a number"), mean.parse().expect("a number"))
            }
            _ => panic!("{line}"),
        };
        assert!(0 < min_ns && min_ns <= mean_ns, "{line}");
        assert!(log.contains(" ping_body ["), "{log}");
    }
    let output = pong.end("-TERM");
    assert_exit(&output, 143);
    assert!(stderr(&output).contains("returned 12 packets 720 bytes"), "{}", stderr(&output));
    assert!(!is_attached(&namespace, "in") && !is_attached(&namespace, "out"));
}

/// Behind a driver without XDP, packets go through sockets and are received by generic XDP.
#[test]
fn a_device_without_xdp_is_used_more_slowly() {
    if !can_run_lab("a_device_without_xdp_is_used_more_slowly") {
        return;
    }
    let _turn = beside();
    let namespace = wire("plain");
    for arguments in ["link add link out name plain type macvlan", "link set plain up"] {
        let line = format!("-n {} {arguments}", namespace.name());
        let status = Command::new("ip").args(line.split(' ')).status().expect("ip runs");
        assert!(status.success(), "ip {line}");
    }
    let pkt_gen = |line: &str| {
        let arguments: Vec<&str> =
            ["pkt-gen", "-i", "plain"].into_iter().chain(line.split(' ')).collect();
        let output = command(&namespace, &arguments).output().expect("ip runs");
        assert_exit(&output, 0);
        output
    };
    let sent = pkt_gen("-f tx -w 0 -n 1000");
    assert_eq!(totals(&sent, "Sent"), (1_000, 60_000));
    assert!(stderr(&sent).contains("packet sockets are used"), "{}", stderr(&sent));
    let received = pkt_gen("-f rx -w 0 -W");
    assert!(stderr(&received).contains("generic XDP is used"), "{}", stderr(&received));
    assert!(!is_attached(&namespace, "plain"), "the program was left attached");
}

/// SIGTERM prints totals too, and rx ends by silence.
#[test]
fn a_signal_or_silence_ends_with_totals() {
    if !can_run_lab("a_signal_or_silence_ends_with_totals") {
        return;
    }
    let _turn = beside();
    let namespace = wire("ends");
    let receiver = receive(&namespace, &["-n", "100000"]);
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let arguments =
            ["pkt-gen", "-i", "out", "-f", "tx", "-w", "0", "-R", "1000", "-T", "100", "-N"];
        let mut sender = Running::start(&namespace, &arguments);
        sender.wait_for(" main_thread [");
        let output = sender.end(signal);
        assert_exit(&output, code);
        let (packets, bytes) = totals(&output, "Sent");
        assert!(packets > 0 && bytes == packets * 60, "{packets} packets, {bytes} bytes");
        assert!(stdout(&output).contains("\nSpeed: "), "{}", stdout(&output));
    }
    assert_exit(&receiver.end("-TERM"), 143);
    let silent = command(&namespace, &["pkt-gen", "-i", "in", "-w", "0", "-W"]).output();
    let silent = silent.expect("ip runs");
    assert_exit(&silent, 0);
    assert!(stdout(&silent).ends_with("Received nothing.\n"), "{}", stdout(&silent));
    // Ended while it waits for the interface, too.
    let mut waiting = Running::start(&namespace, &["pkt-gen", "-i", "in", "-w", "600"]);
    waiting.wait_for("Wait 600 secs");
    let output = waiting.end("-TERM");
    assert_exit(&output, 143);
    assert!(!is_attached(&namespace, "in"), "the program was left attached");
}

/// By its own name, the binary is pkt-gen.
#[test]
fn a_symlink_is_the_command() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let link = dir.path().join("pkt-gen");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link can be made");
    let by_name = |argument: &str| {
        let output = Command::new(&link).arg(argument).env("NO_COLOR", "1").output();
        output.expect("it starts")
    };
    for argument in ["-h", "--help"] {
        let (linked, named) = (by_name(argument), run(&["pkt-gen", argument]));
        assert_exit(&linked, 0);
        assert_eq!((stdout(&linked), linked.status), (stdout(&named), named.status));
        assert!(stdout(&linked).contains("Example:") && stderr(&linked).is_empty());
    }
    let output = by_name("doctor");
    assert_exit(&output, 2);
    assert!(
        stderr(&output).contains("`doctor` does not belong to an option"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn bad_options_are_refused() {
    let refused = |line: &str, needle: &str| {
        let arguments: Vec<&str> = ["pkt-gen"].into_iter().chain(line.split(' ')).collect();
        let output = run(&arguments);
        assert_exit(&output, 2);
        let text = stderr(&output);
        assert!(text.starts_with("error: ") && text.lines().count() == 1, "{line}:\n{text}");
        assert!(text.contains(needle), "{line}:\n{text}");
        assert_eq!(stdout(&output), "");
    };
    refused("-f tx", "-i INTERFACE");
    refused("-i x -f txseq", "weir sink");
    refused("-i x --rate 5", "`--rate` is not an option");
    refused("-i x -q", "-q is not an option");
    refused("-i x -n", "-n needs an argument");
    refused("-i x -P file.pcap", "weir gen --pcap FILE");
    refused("-i x -f tx -d 198.19.0.1:0", "-d 198.19.0.1:0");
    refused("-i x -f tx -d 198.19.0.1:65536", "65535");
    refused("-i x -f tx -s 198.19.0.1 -d ::1", "different address families");
    refused("-i x -f tx -s 198.18.255.255-2001:db8::1", "-s 198.18.255.255-2001:db8::1");
    refused("-i x -f tx -l 60 -l 61", "the first is the largest");
    refused("-i x -f tx -a 100000", "-a");
    refused("-i x -f ping -p 2", "one thread");
}

#[test]
fn bad_paths_are_refused_and_nothing_is_left() {
    if !can_run_lab("bad_paths_are_refused_and_nothing_is_left") {
        return;
    }
    let _turn = beside();
    let namespace = wire("bad");
    let refused = |line: &str, needle: &str| {
        let arguments: Vec<&str> =
            ["pkt-gen", "-w", "0"].into_iter().chain(line.split(' ')).collect();
        let output = command(&namespace, &arguments).output().expect("ip runs");
        assert_exit(&output, 2);
        let text = stderr(&output);
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(errors.len() == 1 && errors[0].contains(needle), "{line}:\n{text}");
        assert!(!errors[0].contains("`--backend"), "pkt-gen has no such option: {text}");
        assert!(!is_attached(&namespace, "in") && !is_attached(&namespace, "out"), "{line}");
    };
    for function in ["tx", "rx", "ping", "pong"] {
        refused(&format!("-i nowhere -f {function}"), "nowhere");
        refused(&format!("-i lo -f {function}"), "loopback");
        refused(&format!("-i off -f {function}"), "`off` is down");
    }
    // The far end takes no XDP frames: everything would be lost.
    refused("-i out -f tx -n 1", "ethtool -K in gro on");
    refused("-i out -f ping -n 1", "ethtool -K in gro on");
    refused("-i out -f tx -l 1515", "MTU of 1500");
    if thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        refused("-i out -f tx -p 2 -a 0 -c 1", "its own CPU");
    }
    refused("-i out -f tx -p 200", "200");
    let receiver = receive(&namespace, &[]);
    let second = command(&namespace, &["pkt-gen", "-i", "in", "-w", "0"]).output();
    let second = second.expect("ip runs");
    assert_exit(&second, 2);
    assert!(stderr(&second).contains("is attached to `in` already"), "{}", stderr(&second));
    assert_exit(&receiver.end("-TERM"), 143);
}
