//! Campaigns of connections: their ledgers are held against what the DUTs themselves have counted.

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, can_run_lab, json, run, stderr, stdout, surroundings, trials, unless_starved,
};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "connections"
iterations = 1

[trial]
retries = 1
warmup = "200ms"
duration = "1s"
drain = "300ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "nft"
kind = "linux"
files = { nft = "tracking.nft" }

[[dut]]
name = "weir-fw"
kind = "weir-fw"
files = { pf = "pf.conf" }

[[traffic]]
name = "t"
kind = "connect"
src = "198.18.10.1-198.18.10.4"
dst = "198.19.10.1"
rate = "4k"
"#;

/// Only the first packet of a connection is new: `opened` is how many states were made.
const TRACKING: &str = "\
table inet firewall {
    counter opened { }
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established counter accept
        ct state new tcp dport 80 counter name opened accept
        counter drop
    }
}
";

/// The same, but of the connections from four ports the tracker never knows.
const FORGETFUL: &str = "\
table inet raw {
    chain prerouting {
        type filter hook prerouting priority raw; policy accept;
        tcp sport 2000-2003 notrack
        tcp dport 2000-2003 notrack
    }
}
table inet firewall {
    chain forward {
        type filter hook forward priority filter; policy drop;
        ct state established,untracked accept
        ct state new tcp dport 80 accept
    }
}
";

const PF: &str = "\
set limit states 100000
block drop all
pass in on dut0 proto tcp to any port 80 flags S/SA keep state
pass out on dut1 proto tcp to any port 80 flags S/SA keep state
";

fn lab(traffic: &str) -> Lab {
    Lab::new(&format!("{SPEC}{traffic}"), &[("tracking.nft", TRACKING), ("pf.conf", PF)])
}

fn count(trial: &Value, point: &str) -> u64 {
    let points = trial["ledger"]["points"].as_array().expect("points");
    let found = points.iter().find(|p| p["name"] == point);
    found.and_then(|p| p["packets"].as_u64()).unwrap_or_else(|| panic!("no {point}: {trial:#}"))
}

/// A ledger that adds up, whatever a busy machine has lost. An error if it has.
fn adds_up(trial: &Value) -> Result<(), String> {
    let ledger = &trial["ledger"];
    assert_eq!(ledger["residual_packets"], 0, "{ledger:#}");
    assert_eq!(ledger["faults"], Value::Array(Vec::new()), "{ledger:#}");
    let drops = ledger["drops"].as_array().expect("drops");
    let lost: u64 = drops.iter().map(|d| d["packets"].as_u64().expect("a count")).sum();
    let points = ledger["points"].as_array().expect("points");
    let packets = |point: Option<&Value>| point.and_then(|p| p["packets"].as_u64());
    let (first, last) = (packets(points.first()), packets(points.last()));
    assert_eq!(first.expect("a first step"), last.expect("a last step") + lost, "{ledger:#}");
    if lost == 0 { Ok(()) } else { Err(format!("{drops:?}")) }
}

/// An error if something else on the machine has made a trial void.
fn undisturbed(trial: &Value) -> Result<(), String> {
    match trial["verdict"]["kind"].as_str() {
        Some("disturbed") => Err(trial["verdict"]["reason"].to_string()),
        _ => Ok(()),
    }
}

/// What made a state, as the DUT itself counts; plain forwarding has none.
fn states_made(trial: &Value) -> Option<u64> {
    let made = |source: &str, name: &str| {
        let count = trial["counters"][source][name].as_u64();
        Some(count.unwrap_or_else(|| panic!("no {name}: {}", trial["counters"])))
    };
    match trial["dut"]["name"].as_str() {
        Some("weir-fw") => made("weir-fw", "state_inserts"),
        Some("nft") => made("nft", "inet firewall counter opened"),
        _ => None,
    }
}

#[test]
fn a_campaign_of_connections_agrees_with_what_the_duts_count() {
    let test = "a_campaign_of_connections_agrees_with_what_the_duts_count";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(test, || {
        let lab = lab("");
        let output = lab.run(&[]);
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), 3, "{}", stderr(&output));
        for (_, trial) in &trials {
            adds_up(trial)?;
            let opened = count(trial, "syn_sent");
            assert_eq!(opened, count(trial, "closed_client"), "{trial:#}");
            let is_plain = trial["dut"]["name"] == "linux";
            assert_eq!(states_made(trial), (!is_plain).then_some(opened), "{trial:#}");
            assert_eq!(trial["traffic"]["kind"]["connect"]["close"], "fin");
            assert_eq!(trial["counters"]["client"]["closed"], opened);
            undisturbed(trial)?;
        }
        assert_exit(&output, 0);
        let (text, summary) = (stdout(&output), json(&lab.path("out/summary.json")));
        assert!(text.contains("conn/s") && !text.contains("pps"), "{text}");
        assert!(summary["series"].as_array().expect("series").iter().all(|s| s["unit"] == "cps"));
        let page = std::fs::read_to_string(lab.path("out/report.html")).expect("a report");
        assert!(page.contains("Where the connections went"), "{}", page.len());
        the_store_can_be_compared_and_drawn(&lab);
        Ok(())
    });
    assert_eq!(surroundings(), before, "something stayed behind");
}

fn the_store_can_be_compared_and_drawn(lab: &Lab) {
    let (out, svg) = (lab.arg("out"), lab.arg("plot.svg"));
    let compared = run(&["lab", "compare", &out, &out]);
    assert!(stdout(&compared).contains("conn/s"), "{}", stderr(&compared));
    assert_exit(&run(&["lab", "plot", &out, "--strip", "--out", &svg]), 0);
    let drawn = std::fs::read_to_string(lab.path("plot.svg")).expect("a plot");
    assert!(drawn.contains("conn/s"), "{drawn}");
    let spec = lab.arg("lab.toml");
    let planned = run(&["lab", "plan", &spec]);
    assert!(stdout(&planned).contains("4k") && !stdout(&planned).contains("pps"));
    let refused = run(&["lab", "bisect", &spec, "--good", "linux", "--bad", "nft", "--yes"]);
    assert!(stderr(&refused).contains("traffic of connections"), "{}", stderr(&refused));
    let refused = run(&["lab", "search", &spec, "--ndr"]);
    assert!(stderr(&refused).contains("set `max_load` in [search]"), "{}", stderr(&refused));
}

#[test]
fn connections_that_stay_open_are_those_that_the_dut_knows() {
    let test = "connections_that_stay_open_are_those_that_the_dut_knows";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let lab = lab("close = \"none\"\ncount = 3000\n");
        let output = lab.run(&[]);
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), 3, "{}", stderr(&output));
        for (_, trial) in &trials {
            adds_up(trial)?;
            assert_eq!(trial["result"]["rate_pps"], 3000.0, "{trial:#}");
            assert_eq!(trial["result"]["requested_pps"], 3000.0, "{trial:#}");
            let checks = trial["checks"].as_array().expect("checks");
            let held = checks.iter().find(|check| check["name"] == "held");
            assert_eq!(held.is_some(), trial["dut"]["name"] != "linux", "{checks:#?}");
            assert!(held.is_none_or(|check| check["passed"] == true), "{checks:#?}");
            undisturbed(trial)?;
        }
        assert_exit(&output, 0);
        let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = "nft holds 3.000 kconn and linux lets through 3.000 kconn";
        assert!(text.contains(sentence), "{text}");
        Ok(())
    });
}

#[test]
fn connections_that_the_dut_has_forgotten_void_the_figure() {
    let test = "connections_that_the_dut_has_forgotten_void_the_figure";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    // The probes' ports are the first of all, and those of the connections follow.
    let spec = format!("{SPEC}close = \"none\"\ncount = 3000\n");
    unless_starved(test, || {
        let lab = Lab::new(&spec, &[("tracking.nft", FORGETFUL), ("pf.conf", PF)]);
        let output = lab.run(&["--only", "nft.*"]);
        let trials = trials(&lab.path("out"));
        let [(_, trial)] = &trials[..] else { panic!("one trial: {}", stderr(&output)) };
        adds_up(trial)?;
        let checks = trial["checks"].as_array().expect("checks");
        let held = checks.iter().find(|check| check["name"] == "held").expect("the check");
        assert_eq!(held["passed"], false, "{held:#}");
        assert_eq!(
            held["detail"],
            "3,000 connections came through, and the DUT knows 2,996 more than before"
        );
        assert_eq!(trial["verdict"]["kind"], "invalid", "{}", trial["verdict"]["reason"]);
        Ok(())
    });
}

/// Without a request and reset at once; and what such figures are not compared with.
#[test]
fn connections_that_are_reset_are_counted_to_the_reset() {
    let test = "connections_that_are_reset_are_counted_to_the_reset";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let timed = SPEC.replace("drain = ", "latency = \"300ms\"\ndrain = ");
        let timed = format!("{timed}close = \"rst\"\nrequest = 0\n");
        let reset = Lab::new(&timed, &[("tracking.nft", TRACKING), ("pf.conf", PF)]);
        let output = reset.run(&[]);
        let all = trials(&reset.path("out"));
        assert_eq!(all.len(), 3, "{}", stderr(&output));
        for (_, trial) in &all {
            adds_up(trial)?;
            let opened = count(trial, "syn_sent");
            assert_eq!(opened, count(trial, "reset_seen"), "{trial:#}");
            assert_eq!(trial["counters"]["client"]["request"], 0);
            assert_eq!(trial["traffic"]["kind"]["connect"]["close"], "rst");
            let latency = &trial["latency"];
            let [offered, timed] = ["offered_packets", "sample_count"]
                .map(|name| latency[name].as_u64().unwrap_or_else(|| panic!("{trial:#}")));
            assert!(offered > 100 && timed <= offered, "{latency:#}");
            assert!(latency["p50_ns"].as_u64() > Some(0), "{latency:#}");
            undisturbed(trial)?;
        }
        assert_exit(&output, 0);
        other_units_are_not_compared(&reset);
        Ok(())
    });
}

fn other_units_are_not_compared(reset: &Lab) {
    let open = lab("close = \"none\"\ncount = 300\n");
    let packets = SPEC.replace("kind = \"connect\"\n", "").replace("\"4k\"", "\"4kpps\"");
    let packets = Lab::new(&packets, &[("tracking.nft", TRACKING), ("pf.conf", PF)]);
    for (other, unit) in [(open, "conn"), (packets, "pps")] {
        let output = other.run(&["--only", "linux.*"]);
        assert_eq!(trials(&other.path("out")).len(), 1, "{}", stderr(&output));
        let compared = run(&["lab", "compare", &reset.arg("out"), &other.arg("out")]);
        let sentence = format!("linux.t: counts conn/s, but linux.t of out (2) counts {unit}");
        assert!(stderr(&compared).contains(&sentence), "{}", stderr(&compared));
    }
}

/// Up to a load that any machine carries, so that the search ends there.
#[test]
fn the_highest_rate_of_connections_is_searched() {
    const SEARCH: &str = "\
[search]
loss = [\"0%\"]
trial = \"500ms\"
duration_sum = \"1s\"
first_trial = \"500ms\"
width = \"20%\"
max_load = 2000
tests = [\"throughput\", \"latency\"]
latency_trial = \"300ms\"
latency_repeats = 1
";
    let test = "the_highest_rate_of_connections_is_searched";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    unless_starved(test, || {
        let spec = SPEC.replace("rate = \"4k\"\n", "") + SEARCH;
        let lab = Lab::new(&spec, &[("tracking.nft", TRACKING), ("pf.conf", PF)]);
        let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
        let output = run(&["lab", "search", &spec, "--out", &out, "--only", "nft.*"]);
        let summary = json(&lab.path("out/summary.json"));
        let item = &summary["items"][0];
        assert_eq!(item["unit"], "cps", "{}", stderr(&output));
        let goal = &item["goals"][0];
        let Some(rate) = goal["lower_pps"].as_f64() else { return Err(goal.to_string()) };
        assert!(rate <= 2000.0 && stdout(&output).contains("conn/s"), "{}", stdout(&output));
        let points = item["latency"]["points"].as_array().expect("points");
        let shares = points.iter().flat_map(|point| point["load_ratio"].as_f64());
        let shares: Vec<f64> = shares.collect();
        assert_eq!(shares, [0.1, 0.5, 0.9], "{item:#}");
        let page = std::fs::read_to_string(lab.path("out/report.html")).expect("a report");
        assert!(page.contains("conn/s"), "{}", page.len());
        Ok(())
    });
}

/// A firewall that has room for a part of them only: the ledger names its reason.
#[test]
fn what_a_firewall_has_no_room_for_is_lost_by_its_reason() {
    let test = "what_a_firewall_has_no_room_for_is_lost_by_its_reason";
    if !can_run_lab(test) {
        return;
    }
    let _turn = alone();
    let spec = format!("{SPEC}close = \"none\"\ncount = 3000\n");
    let full = PF.replace("100000", "1000");
    unless_starved(test, || {
        let lab = Lab::new(&spec, &[("tracking.nft", TRACKING), ("pf.conf", &full)]);
        let output = lab.run(&["--only", "weir-fw.*"]);
        let trials = trials(&lab.path("out"));
        let [(_, trial)] = &trials[..] else { panic!("one trial: {}", stderr(&output)) };
        is_full(trial);
        undisturbed(trial)?;
        assert_eq!(trial["verdict"]["kind"], "dut-bound", "{}", trial["verdict"]["reason"]);
        Ok(())
    });
}

fn is_full(trial: &Value) {
    assert!(adds_up(trial).is_err(), "something is lost: {trial:#}");
    let drops = trial["ledger"]["drops"].as_array().expect("drops");
    let full = drops.iter().find(|d| d["name"] == "weir-fw drop in state-limit");
    let full = full.unwrap_or_else(|| panic!("{drops:#?}"));
    assert_eq!((&full["place"], &full["after"]), (&"dut".into(), &"syn_sent".into()));
    assert!(trial["result"]["rate_pps"].as_f64().expect("a figure") <= 1000.0, "{trial:#}");
}
