//! `weir rss probe` from another machine, and `weir echo client` on several: behind real sshds.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_bpf::ethtool;
use weir_bpf::rss::{Link, Receiver, Wire};
use weir_machine::access::RemoteSpec;
use weir_machine::cancel::Cancel;
use weir_machine::host::{Host as _, Process};
use weir_machine::ssh::{Secrets, SshHost, connect};
use weir_net::{Netlink, Netns, NetnsGuard, VethEnd};
use weir_wire::rss::{Fields, Key, Settings, Symmetry};

use super::ssh_hosts::SshHosts;
use crate::common::{assert_exit, stderr, stdout, wait_until};
use crate::turns::namespace;

/// weir, where the machines have it.
const PROGRAM: &str = "/opt/weir/weir";
/// The DUT, in the network that all machines share.
const SERVER: &str = "192.0.2.3:7007";

fn weir(hosts: &SshHosts, netns: Option<&str>, words: &[&str]) -> Output {
    let mut command = match netns {
        Some(netns) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", netns, env!("CARGO_BIN_EXE_weir")]);
            command
        }
        None => Command::new(env!("CARGO_BIN_EXE_weir")),
    };
    command.args(words).args(["--ssh-config", &hosts.config(), "--program", PROGRAM]);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("weir runs")
}

fn json(output: &Output, code: i32) -> Value {
    assert_exit(output, code);
    serde_json::from_str(&stdout(output)).expect("JSON")
}

/// A namespace with `in`, whose cable ends at `out` of the machine `gen`, with four queues.
fn cable(hosts: &SshHosts) -> (NetnsGuard, (Wire, Link)) {
    let settings = Settings {
        key: Key::random(5, 40, 64).expect("a length that keys have").0,
        table: "equal:4/64".parse().expect("a table"),
        symmetry: Symmetry::None,
        fields: [Fields::FourTuple; 4],
    };
    let here = namespace("peers");
    let peer = Netns::open(&format!("{}-gen", hosts.namespace())).expect("the machine's");
    let ifindex = here.run(|| {
        let netlink = Netlink::open().expect("netlink");
        let ends = (VethEnd::new("in"), VethEnd::new("out").in_netns(&peer));
        netlink.create_veth(&ends.0, &ends.1, 4).expect("a pair");
        netlink.set_up("in").expect("it goes up");
        ethtool::set_gro("in", true).expect("GRO goes on");
        netlink.ifindex("in").expect("it is there")
    });
    let ifindex = ifindex.expect("it can be entered");
    let receiver = Receiver { netns: here.inode(), ifindex };
    let wire = Wire::load(&settings, receiver).expect("it loads");
    let link = peer.run(|| {
        let netlink = Netlink::open().expect("netlink");
        netlink.set_up("out").expect("it goes up");
        ethtool::set_tso("out", false).expect("TSO goes off");
        wire.attach(netlink.ifindex("out").expect("it is there")).expect("it attaches")
    });
    (here, (wire, link.expect("it can be entered")))
}

#[test]
fn an_interface_is_probed_from_another_machine() {
    let Some(hosts) = SshHosts::start("an_interface_is_probed_from_another_machine") else {
        return;
    };
    let (here, _wire) = cable(&hosts);
    for (src, dst, proto) in [
        ("10.0.0.1:1024-10.0.0.9:1073", "10.0.1.1:7", "udp"),
        ("[2001:db8::1]:1024-[2001:db8::9]:1073", "[2001:db8:1::1]:7", "tcp"),
    ] {
        let words = ["rss", "probe", "in", "--from", "gen:out", "--src", src, "--dst", dst];
        let more = ["--proto", proto, "--flows", "400", "--json"];
        let found = json(&weir(&hosts, Some(here.name()), &[&words[..], &more].concat()), 0);
        let counts = ["flow_count", "lost_flow_count", "misplaced_flow_count"];
        let counts = counts.map(|name| found[name].as_u64());
        assert_eq!(counts, [Some(400), Some(0), Some(0)], "{found}");
        assert_eq!(found["key_source"], "card");
    }
    for (from, why) in [("gen:absent0", "absent0"), ("nobody:out", "nobody")] {
        let words =
            ["rss", "probe", "in", "--from", from, "--src", "10.0.0.1", "--dst", "10.0.1.1"];
        let output = weir(&hosts, Some(here.name()), &words);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{from}: {}", stderr(&output));
    }
    let mut command = Command::new("ip");
    command.args(["netns", "exec", here.name(), env!("CARGO_BIN_EXE_weir"), "rss", "probe", "in"]);
    command.args(["--from", "gen:out", "--src", "10.0.0.1", "--dst", "10.0.1.1"]);
    command.args(["--ssh-config", &hosts.config(), "--program", "/opt/weir/absent"]);
    let output = command.output().expect("weir runs");
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("--program"), "{}", stderr(&output));
}

fn dut(hosts: &SshHosts) -> SshHost {
    let remote = RemoteSpec {
        name: "dut".to_owned(),
        ssh: Some("dut".to_owned()),
        config: Some(hosts.config()),
        processes: Vec::new(),
    };
    connect(&remote, &Secrets::default(), &Cancel::default()).expect("it answers")
}

/// A server on the DUT that has begun to answer.
fn serve(hosts: &SshHosts, dut: &SshHost) -> Box<dyn Process> {
    let line = format!(
        "exec {PROGRAM} echo serve --listen {SERVER} -i m-dut --table equal:1/4 --announce --json"
    );
    let mut server = dut.spawn(&line, "served.log").expect("it starts");
    let manager = Netns::open(hosts.namespace()).expect("the manager's");
    wait_until("the server answers", || {
        let ended = server.ended().expect("it can be asked");
        assert!(ended.is_none(), "{ended:?}: {:?}", dut.take_artefacts());
        let mut command = Command::new("ip");
        command.args(["netns", "exec", manager.name(), env!("CARGO_BIN_EXE_weir"), "echo", "ask"]);
        command.arg(SERVER).output().expect("weir runs").status.success()
    });
    server
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is no count in {value}"))
}

#[test]
fn clients_of_two_machines_are_counted_apart_and_together() {
    let name = "clients_of_two_machines_are_counted_apart_and_together";
    let Some(hosts) = SshHosts::start(name) else { return };
    let dut = dut(&hosts);
    let mut server = serve(&hosts, &dut);
    let words = ["echo", "client", SERVER, "--on", "gen", "--on", "recv", "--buckets", "all"];
    let more = ["--rate", "2kpps", "--count", "1001"];
    let output = weir(&hosts, None, &[&words[..], &more, &["--json"]].concat());
    assert_exit(&output, 0);
    // There may have been time for an interval.
    let text = stdout(&output);
    let last = text.lines().last().expect("a line");
    let found: Value = serde_json::from_str(last).expect("JSON");
    let clients = found["clients"].as_array().expect("clients");
    let sent: Vec<u64> = clients.iter().map(|client| number(client, "sent_packets")).collect();
    assert_eq!(sent, [501, 500], "{found}");
    let names: Vec<&Value> = clients.iter().map(|client| &client["machine"]).collect();
    assert_eq!(names, ["gen", "recv"]);
    for key in ["sent_packets", "received_packets", "refused_packets", "dropped_packets"] {
        let sum: u64 = clients.iter().map(|client| number(client, key)).sum();
        assert_eq!(number(&found, key), sum, "{key}: {found}");
    }
    for client in clients {
        assert_eq!(client["server"], Value::Null, "it is not of this client alone");
        assert!(number(&client["latency"], "median_ns") > 0, "{client}");
    }
    // Whatever a busy machine loses, each count is at most the one before it.
    let server_counts = &found["server"];
    let ways = [
        number(&found, "sent_packets"),
        number(server_counts, "arrived_packets"),
        number(server_counts, "read_packets"),
        number(server_counts, "sent_packets"),
        number(&found, "received_packets"),
    ];
    assert!(ways[0] == 1001 && ways.is_sorted_by(|before, after| before >= after), "{ways:?}");
    assert!(ways[4] > 0, "{ways:?}");
    let buckets = found["buckets"].as_array().expect("buckets");
    assert_eq!(buckets.len(), 4, "{found}");
    assert!(buckets.iter().all(|bucket| bucket["flow_count"] == 2), "{found}");
    let sum: u64 = buckets.iter().map(|bucket| number(bucket, "arrived_packets")).sum();
    assert_eq!(sum, ways[1], "{found}");

    let text = stdout(&weir(&hosts, None, &[&words[..], &["--count", "20"]].concat()));
    assert!(text.contains("came back") && text.contains("recv"), "{text}");
    server.stop(Duration::from_secs(5)).expect("it ends");
    for (words, why) in [
        (&["echo", "client", SERVER, "--on", "nobody"][..], "nobody"),
        (&["echo", "client", SERVER], "name one (--on)"),
        (&["echo", "client", SERVER, "--on", "gen", "--buckets", "all"], "does not announce"),
    ] {
        let output = weir(&hosts, None, words);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
}
