//! `weir fw explain`: every kind of packet in words, states between packets, both directions of a
//! capture file, and the shape of its JSON.

use std::fs;

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout};

const FACTS: &str = "interface em0 192.0.2.1/24 2001:db8::1/64\ninterface em1 10.0.0.1/8\n";
const NAT: &str = "scrub in all\nnat on em0 inet from 10.0.0.0/8 to any -> 192.0.2.1\n\
                   block log\npass out on em0\n";

/// A directory with the rules as `pf.conf`, and `facts`.
fn files(rules: &str) -> (tempfile::TempDir, String, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let (rules_path, facts) = (path("pf.conf"), path("facts"));
    fs::write(&rules_path, rules).expect("writable");
    fs::write(&facts, FACTS).expect("writable");
    (dir, rules_path, facts)
}

/// The lines of `--json` for these packets.
fn explained(rules: &str, packets: &[&str], more: &[&str]) -> Vec<Value> {
    let (_dir, path, facts) = files(rules);
    let mut words = vec!["fw", "explain", &path, "--facts", &facts, "--json"];
    words.extend(packets.iter().flat_map(|packet| ["--packet", packet]));
    words.extend(more);
    let output = run(&words);
    assert_exit(&output, 0);
    stdout(&output).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Everything that the help of the command shows is read, and told again in the same words.
#[test]
fn packets_are_told_in_the_words_that_are_read() {
    let help = stdout(&run(&["fw", "explain", "--help"]));
    let shown: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| line.starts_with("in on") || line.starts_with("out on"))
        .collect();
    assert_eq!(shown.len(), 7, "{help}");
    let words = |packets: &[&str]| -> Vec<String> {
        let answers = explained("pass\n", packets, &[]);
        answers.iter().map(|answer| answer["packet"].as_str().expect("words").to_owned()).collect()
    };
    let once = words(&shown);
    assert_eq!(words(&once.iter().map(String::as_str).collect::<Vec<_>>()), once);
    let answer = |flags: &str| {
        let words = format!("in on em0 tcp 1.2.3.4:1 > 192.0.2.1:2 {flags}");
        explained("block proto tcp flags S/SA\n", &[&words], &[]).remove(0)
    };
    assert_eq!(answer("none")["reason"], "malformed");
    assert_eq!(answer(".")["steps"][0]["why"], "TCP flags A are not S/SA");
    assert_eq!(answer("SEW")["steps"][0]["outcome"], "match");
}

#[test]
fn packets_belong_to_the_states_before_them() {
    let packets = [
        "out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 S",
        "in on em0 tcp 1.2.3.4:80 > 192.0.2.1:50001 SA",
        "out on em0 tcp 10.0.0.5:4000 > 1.2.3.4:80 A",
        "in on em0 icmp 9.9.9.9 > 192.0.2.1 timex about tcp 192.0.2.1:50001 > 1.2.3.4:80",
        "in on em0 tcp 1.2.3.4:81 > 192.0.2.1:50001 A",
        "out on em0 icmp 10.0.0.5 > 1.2.3.4 echoreq id 9",
        "in on em0 icmp 1.2.3.4 > 192.0.2.1 echorep id 1",
        "in on em0 icmp 1.2.3.4 > 192.0.2.1 echorep id 9",
    ];
    let reasons = |answers: &[Value]| -> Vec<String> {
        let reason = |answer: &Value| answer["reason"].as_str().expect("a word").to_owned();
        answers.iter().map(reason).collect()
    };
    let answers = explained(NAT, &packets, &["--states"]);
    let expected = ["rule", "state", "state", "state", "rule", "rule", "state", "rule"];
    assert_eq!(reasons(&answers), expected);
    // A state translates what belongs to it, both ways.
    for (at, becomes) in [
        (1, "destination 192.0.2.1:50001 becomes 10.0.0.5:4000 by the state"),
        (2, "source 10.0.0.5:4000 becomes 192.0.2.1:50001 by the state"),
    ] {
        let effects = answers[at]["effects"].to_string();
        assert!(effects.contains(becomes), "{effects}");
    }
    let becomes = answers[5]["effects"].to_string();
    assert!(becomes.contains("ICMP id 9 becomes 1 by nat @0"), "{becomes}");
    // Without states each is judged for itself.
    let alone = explained(NAT, &packets, &[]);
    assert!(reasons(&alone).iter().all(|reason| reason == "rule"), "{alone:?}");
    // A state that is bound to its interface is not seen at another one.
    for (policy, reason) in [("floating", "state"), ("if-bound", "rule")] {
        let rules = format!("set state-policy {policy}\nblock\npass out\n");
        let packets =
            ["out on em0 udp 10.0.0.5:1 > 1.2.3.4:2", "in on em1 udp 1.2.3.4:2 > 10.0.0.5:1"];
        let answers = explained(&rules, &packets, &["--states"]);
        assert_eq!(answers[1]["reason"], reason, "{policy}");
    }
}

#[test]
fn a_capture_file_goes_both_ways() {
    let (dir, path, facts) = files("block\npass out on em0\n");
    let trace = dir.path().join("trace.pcap").to_string_lossy().into_owned();
    let router_mac = "02:00:00:00:00:01";
    let output = run(&[
        "gen",
        "--backend",
        &format!("pcap:{trace}"),
        "--src-mac",
        router_mac,
        "--dst-mac",
        "02:00:00:00:00:02",
        "--src",
        "10.0.0.1:2000",
        "--dst",
        "198.19.10.1:2000",
        "--count",
        "2",
    ]);
    assert_exit(&output, 0);
    // The answer to it: ends and addresses swapped, which leaves the checksums right.
    let mut bytes = fs::read(&trace).expect("a capture file");
    let records: Vec<u8> = bytes[24..].to_vec();
    let size = 16 + u32::from_le_bytes(records[8..12].try_into().expect("4 bytes")) as usize;
    let mut answer = records[..size].to_vec();
    let frame = &mut answer[16..];
    let (to, from) = frame.split_at_mut(6);
    to.swap_with_slice(&mut from[..6]);
    let (source, destination) = frame[26..34].split_at_mut(4);
    source.swap_with_slice(destination);
    bytes.extend(answer);
    fs::write(&trace, bytes).expect("writable");
    let explain = |more: &[&str]| {
        let words =
            [&["fw", "explain", &path, "--facts", &facts, "--pcap", &trace, "--on", "em0"], more];
        let output = run(&words.concat());
        assert_exit(&output, 0);
        stdout(&output)
    };
    let text = explain(&["--states", "--brief", "--mac", router_mac]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("out on em0 udp 10.0.0.1:2000 > 198.19.10.1:2000: pass by @1"));
    assert!(lines[1].contains(": pass: the packet belongs to a state, made by @1"), "{text}");
    assert!(lines[2].contains("in on em0 udp 198.19.10.1:2000 > 10.0.0.1:2000: pass: the packet"));
    let text = explain(&["--states", "--brief"]);
    assert_eq!(text.matches(": block by @0").count(), 3, "{text}");
    let output = run(&[
        "fw", "explain", &path, "--pcap", &trace, "--on", "em0", "--out", "--mac", router_mac,
    ]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
}

#[test]
fn scrub_rules_say_what_they_are_asked_about() {
    let words = "in on em0 tcp 1.2.3.4:1 > 192.0.2.1:2";
    let answer = &explained(NAT, &[words], &[])[0];
    let steps = answer["steps"].as_array().expect("a list");
    let passes: Vec<&Value> =
        steps.iter().filter(|step| step["list"] == "scrub").map(|step| &step["pass"]).collect();
    assert_eq!(passes, ["IP", "TCP"], "{answer}");
    assert!(steps.iter().all(|step| step["list"] == "scrub" || step.get("pass").is_none()));
    let (_dir, path, facts) = files(NAT);
    let output = run(&["fw", "explain", &path, "--facts", &facts, "--packet", words]);
    let text = stdout(&output);
    assert!(
        text.contains("\nscrub rules, for IP:\n") && text.contains("\nscrub rules, for TCP:\n")
    );
}
