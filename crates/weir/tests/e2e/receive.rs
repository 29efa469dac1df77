//! `weir sink` and `weir reflect` in namespaces: exact figures, both ways to end, bad input, and
//! nothing left attached.

use std::fs;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use weir_bpf::attach;
use weir_bpf::generator::{CATCH_UP_NS, GeneratorProgram, Interval, ThreadConfig};
use weir_bpf::reflect::ReflectProgram;
use weir_gen::expect::{Expectation, ExpectedStream};
use weir_net::{CpuList, Netlink, Netns, NetnsGuard, VethEnd};
use weir_oracle::fault::{Fault, FaultProgram};
use weir_wire::mac::MacAddr;
use weir_wire::stream::StreamSpec;
use weir_wire::traffic::Traffic;

use crate::common::{arrived_packets, assert_exit, can_run_lab, stderr, stdout, wait_until};
use crate::turns::{beside, namespace};

const SRC: &str = "198.18.10.1:2000-198.18.10.70";
const DST: &str = "198.19.10.1:2000-198.19.10.70";

/// A namespace with `out` connected to `in`, an idle `park`, and `off`, which is down.
fn wire() -> NetnsGuard {
    let namespace = namespace("receive");
    let made = namespace.run(|| {
        for which in ["all", "default"] {
            // No neighbour discovery: only the packets of the test are to be seen.
            let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
            fs::write(path, "1").expect("the sysctl is written");
        }
        let netlink = Netlink::open()?;
        netlink.create_veth(&VethEnd::new("out"), &VethEnd::new("in"), 1)?;
        netlink.create_veth(&VethEnd::new("park"), &VethEnd::new("off"), 1)?;
        netlink.set_up("in")?;
        netlink.set_up("out")
    });
    made.expect("the namespace can be entered").expect("the interfaces can be made");
    namespace
}

fn ifindex(name: &str) -> u32 {
    Netlink::open().and_then(|netlink| netlink.ifindex(name)).expect("the interface exists")
}

fn attached(namespace: &Netns, name: &str) -> Option<String> {
    let attached = namespace.run(|| attach::attached(ifindex(name)));
    attached.expect("entered").expect("readable").map(|program| program.name)
}

/// `weir` with these arguments inside the namespace.
fn weir_inside(namespace: &Netns, arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name(), env!("CARGO_BIN_EXE_weir")]);
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

fn run_inside(namespace: &Netns, arguments: &[&str]) -> Output {
    weir_inside(namespace, arguments).output().expect("ip runs")
}

/// A command whose program is attached to an interface.
struct Running<'a> {
    namespace: &'a Netns,
    interface: &'a str,
    child: Child,
    /// What had arrived before its start.
    arrived: u64,
}

impl<'a> Running<'a> {
    /// Starts it, and waits until the program is attached.
    fn start(namespace: &'a Netns, interface: &'a str, arguments: &[&str]) -> Self {
        let arrived = arrived_packets(namespace, interface);
        let mut command = weir_inside(namespace, arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("ip runs");
        wait_until("its program is attached", || attached(namespace, interface).is_some());
        Self { namespace, interface, child, arrived }
    }

    /// Ends it with a signal, when so many packets have arrived: a veth that loses its program
    /// drops what is in its ring. `ip netns exec` has become the command itself.
    #[track_caller]
    fn end_after(self, packets: u64, signal: &str) -> Output {
        let all = self.arrived + packets;
        let arrived = || arrived_packets(self.namespace, self.interface);
        wait_until("what was sent has arrived", || arrived() >= all);
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(status.expect("kill(1) runs").success());
        self.child.wait_with_output().expect("it ended")
    }
}

/// Sends stamped packets `first` to before `end` of stream 0 out of `out`.
fn send(namespace: &Netns, first: u64, end: u64) {
    let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    let (src_mac, dst_mac) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));
    let spec = StreamSpec::new(src_mac, dst_mac, range(SRC), range(DST));
    let set = Traffic::one(spec).and_then(|traffic| traffic.set(1)).expect("it can be sent");
    let config = ThreadConfig {
        thread: 0,
        first_nth: first,
        end_nth: Some(end),
        interval: Some(Interval { whole_ns: 5_000, fraction: 0 }),
        catch_up_ns: CATCH_UP_NS,
        timestamps: true,
    };
    let sent = namespace.run(|| {
        let mut program = GeneratorProgram::load(set).expect("it loads");
        program.connect(ifindex("out")).expect("connected");
        program.park(ifindex("park")).expect("parked");
        let cpus = CpuList::new([0]).expect("a CPU");
        weir_net::cpu::pin_current_thread(&cpus).expect("every machine has CPU 0");
        program.configure(0, &config).expect("configured");
        while program.next_nth(0).expect("readable") < end {
            program.run(4_096, 64).expect("it runs");
        }
    });
    sent.expect("the namespace can be entered");
}

/// The last JSON line, which is the total.
fn total(output: &Output) -> Value {
    let text = stdout(output);
    let line = text.lines().last().unwrap_or_else(|| panic!("nothing was printed: {output:?}"));
    let total: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
    assert_eq!(total["kind"], "total", "{text}");
    total
}

#[test]
fn the_sink_reports_faults_exactly_and_ends_by_signal() {
    if !can_run_lab("the_sink_reports_faults_exactly_and_ends_by_signal") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let expectation = Expectation {
        streams: vec![ExpectedStream {
            stream: 0,
            src: SRC.into(),
            dst: DST.into(),
            flow_count: 4_900,
            thread_count: 1,
            first_sequence: 0,
            packets: Some(10_000),
            random: false,
        }],
    };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("stream.json").to_string_lossy().into_owned();
    fs::write(&file, expectation.to_json().expect("writable")).expect("writable");
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let arguments = ["sink", "-i", "in", "--expect", &file, "--json"];
        let sink = Running::start(&namespace, "in", &arguments);
        for (first, end) in [(0, 5_000), (4_000, 4_100), (6_000, 9_990), (5_500, 5_600)] {
            send(&namespace, first, end);
        }
        let packets = 5_000 + 100 + 3_990 + 100;
        let output = sink.end_after(packets, signal);
        assert_exit(&output, code);
        let total = total(&output);
        assert_eq!(total["packets"], packets);
        assert_eq!(total["bytes"], 60 * packets);
        assert_eq!(total["foreign_packets"], 0);
        let stream = &total["streams"][0];
        assert_eq!(stream["lost_packets"], 500 + 400 + 10, "{stream}");
        assert_eq!(stream["duplicated_packets"], 100);
        assert_eq!(stream["reordered_packets"], 100);
        assert_eq!(stream["extent_max_packets"], 3_990 + 99);
        assert_eq!(stream["flows_seen"], 4_900);
        assert_eq!(total["latency_ns"]["count"], total["measured_packets"]);
        assert!(total["measured_packets"].as_u64().is_some_and(|n| (1_024..=packets).contains(&n)));
        assert_eq!(total["queues"][0]["packets"], packets);
        assert_eq!(attached(&namespace, "in"), None, "the program was left attached");
    }
}

#[test]
fn a_duration_ends_the_sink_and_text_says_what_json_says() {
    if !can_run_lab("a_duration_ends_the_sink_and_text_says_what_json_says") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let sink = Running::start(&namespace, "in", &["sink", "-i", "in", "--duration", "4s"]);
    send(&namespace, 0, 100);
    send(&namespace, 50, 60);
    let output = sink.child.wait_with_output().expect("it ends");
    assert_exit(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("110 packets  0 lost  0 reordered  10 duplicated"), "{text}");
    assert!(!text.contains("flows"), "flows are not known: {text}");
    assert!(text.contains("latency µs"), "{text}");
    assert!(text.contains("times are of 110 of 110 packets"), "{text}");
    assert_eq!(attached(&namespace, "in"), None, "the program was left attached");
}

/// The flows that pkt-gen's users count on, announced by the sender and all seen by the sink.
#[test]
fn the_flows_of_pkt_gens_examples_are_all_seen() {
    if !can_run_lab("the_flows_of_pkt_gens_examples_are_all_seen") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("expect.json").to_string_lossy().into_owned();
    let large = ["198.18.10.1:2000-198.18.15.133", "198.19.10.0:2000-198.19.15.133"];
    for ([src, dst], flow_count) in [([SRC, DST], 4_900_u64), (large, 1_997_982)] {
        let range = |text: &str| text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let spec = StreamSpec::new(MacAddr([2; 6]), MacAddr([2; 6]), range(src), range(dst));
        let set = Traffic::one(spec).and_then(|traffic| traffic.set(1)).expect("it can be sent");
        let announced = Expectation::new(&set, None).to_json().expect("writable");
        fs::write(&file, announced).expect("writable");
        // Each flow three times: a stall of this machine may overflow the veth's ring.
        let packets = 3 * flow_count;
        let to = ["--dst-mac", "02:00:00:00:00:01", "--src", src, "--dst", dst];
        let arguments = ["sink", "-i", "in", "--expect", &file, "--json"];
        let sink = Running::start(&namespace, "in", &arguments);
        let count = packets.to_string();
        let sent =
            run_inside(&namespace, &[&["gen", "-i", "out", "--count", &count], &to[..]].concat());
        assert_exit(&sent, 0);
        let output = sink.end_after(packets, "-INT");
        assert_exit(&output, 130);
        let stream = &total(&output)["streams"][0];
        assert_eq!(
            (&stream["flows_seen"], &stream["flow_count"]),
            (&flow_count.into(), &flow_count.into())
        );
    }
}

/// `weir gen` sends through the fault element to `weir sink`.
#[test]
fn the_sink_reports_what_a_fault_element_did() {
    if !can_run_lab("the_sink_reports_what_a_fault_element_did") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let element = namespace.run(|| {
        let netlink = Netlink::open()?;
        netlink.create_veth(&VethEnd::new("from"), &VethEnd::new("left"), 1)?;
        netlink.set_up("left")?;
        netlink.set_up("from")?;
        let mut element = FaultProgram::load().expect("it loads");
        for (sequence, fault) in [
            (10, Fault::Drop),
            (1_999, Fault::Drop),
            (20, Fault::Duplicate),
            (30, Fault::DelayUntil(31)),
            (40, Fault::DelayUntil(90)),
        ] {
            element.choose(sequence, fault).expect("chosen");
        }
        element.connect(ifindex("out")).expect("connected");
        let link = element.attach(ifindex("left")).expect("attached");
        Ok::<_, weir_net::NetlinkError>((element, link))
    });
    let (element, link) = element.expect("entered").expect("the interfaces can be made");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("stream.json").to_string_lossy().into_owned();
    let announced = format!(
        r#"{{"streams": [{{"stream": 0, "src": "{SRC}", "dst": "{DST}", "flow_count": 4900,
            "thread_count": 1, "packets": 2000}}]}}"#
    );
    fs::write(&file, announced).expect("writable");
    let arguments = ["sink", "-i", "in", "--expect", &file, "--json"];
    let sink = Running::start(&namespace, "in", &arguments);
    let arguments = ["gen", "-i", "from", "--src", SRC, "--dst", DST, "--count", "2000"];
    let to = ["--rate", "20kpps", "--threads", "1", "--dst-mac", "02:00:00:00:00:01"];
    let sent = run_inside(&namespace, &[&arguments[..], &to[..]].concat());
    assert_exit(&sent, 0);
    let output = sink.end_after(1_999, "-INT");
    drop(link);
    assert_exit(&output, 130);
    assert_eq!(element.counters().expect("readable").refused_packets, 0);
    let total = total(&output);
    let stream = &total["streams"][0];
    let figures = ["packets", "lost_packets", "duplicated_packets", "reordered_packets"];
    assert_eq!(figures.map(|key| stream[key].as_u64()), [1_999, 2, 1, 2].map(Some), "{total}");
    assert_eq!(stream["extent_max_packets"], 50);
    assert_eq!(stream["flows_seen"], 1_998);
    assert_eq!(
        (&stream["expected_packets"], &total["foreign_packets"]),
        (&2_000.into(), &0.into())
    );
}

/// What leaves `out` is returned by `in`, and arrives at `out`, where another sink counts it.
#[test]
fn the_reflector_returns_what_it_gets() {
    if !can_run_lab("the_reflector_returns_what_it_gets") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let reflector = Running::start(&namespace, "in", &["reflect", "-i", "in", "--json"]);
    let sink = Running::start(&namespace, "out", &["sink", "-i", "out", "--json"]);
    send(&namespace, 0, 1_000);
    let output = sink.end_after(1_000, "-INT");
    assert_exit(&output, 130);
    let returned = total(&output);
    assert_eq!(returned["packets"], 1_000);
    assert_eq!(returned["streams"][0]["lost_packets"], 0);
    let output = reflector.end_after(1_000, "-TERM");
    assert_exit(&output, 143);
    let total = total(&output);
    assert_eq!(total["reflected_packets"], 1_000);
    assert_eq!(total["reflected_bytes"], 60_000);
    assert_eq!(total["passed_packets"], 0);
    assert_eq!((attached(&namespace, "in"), attached(&namespace, "out")), (None, None));
}

#[test]
fn what_cannot_be_received_is_refused_with_a_next_step() {
    if !can_run_lab("what_cannot_be_received_is_refused_with_a_next_step") {
        return;
    }
    let _turn = beside();
    let namespace = wire();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = run_inside(&namespace, arguments);
        assert_exit(&output, 2);
        let said = stderr(&output);
        for word in words {
            assert!(said.contains(word), "`{word}` is not in: {said}");
        }
        assert_eq!(stdout(&output), "");
    };
    for command in ["sink", "reflect"] {
        refused(&[command, "-i", "nowhere"], &["nowhere", "ip link"]);
        refused(&[command, "-i", "off"], &["`off` is down", "ip link set dev off up"]);
        refused(&[command, "-i", "lo"], &["loopback", "veth"]);
        refused(&[command, "-i", "in", "--duration", "0s"], &["zero"]);
        refused(&[command, "-i", "in", "--duration", "5"], &["no unit"]);
        refused(&[command], &["-i"]);
    }
    let other = ReflectProgram::load().expect("it loads");
    let link = namespace.run(|| other.attach(ifindex("in"), attach::Mode::Native));
    let link = link.expect("entered").expect("attached");
    refused(&["sink", "-i", "in"], &["weir_reflect", "xdp off"]);
    drop(link);
    refused(&["sink", "-i", "in", "--expect", "/nonexistent"], &["/nonexistent", "No such file"]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("bad.json").to_string_lossy().into_owned();
    fs::write(&file, r#"{"streams": [{"stream": 0}]}"#).expect("writable");
    refused(&["sink", "-i", "in", "--expect", &file], &["bad.json", "src"]);
    assert_eq!(attached(&namespace, "in"), None);
}
