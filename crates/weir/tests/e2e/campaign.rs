//! Campaigns on real packets, end to end, in small.
//!
//! Absolute rates are never asserted. That a stateful ruleset costs something is: it is the
//! reason why the demo campaign exists, and both DUTs run interleaved in the same minute.

use std::fs;
use std::path::PathBuf;

use crate::common::{
    Lab, STATEFUL, assert_exit, assert_measured, can_run_lab, json, packets, stdout, surroundings,
    trials, unless_starved,
};
use crate::turns::alone;
use serde_json::Value;

fn f64_at(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}"))
}

const COMPARE: &str = r#"
[campaign]
name = "small"
iterations = 3
seed = 7

[trial]
retries = 5
warmup = "200ms"
duration = "1s"
drain = "200ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "nft"
kind = "linux"
files = { nft = "stateful.nft" }

[[traffic]]
name = "flows-4900"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
"#;

#[test]
fn a_stateful_ruleset_is_slower_and_every_packet_is_accounted_for() {
    if !can_run_lab("a_stateful_ruleset_is_slower_and_every_packet_is_accounted_for") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    // Rules that no packet matches, so that the difference is larger than a busy machine's noise.
    let rules = "        udp dport 1 counter drop\n".repeat(100);
    let rules = STATEFUL.replace("        ct state new", &format!("{rules}        ct state new"));
    unless_starved("a_stateful_ruleset_is_slower_and_every_packet_is_accounted_for", || {
        let lab = Lab::new(COMPARE, &[("stateful.nft", &rules)]);
        let output = lab.run(&[]);
        assert_exit(&output, 0);
        assert_eq!(surroundings(), before, "something stayed behind");
        assert!(stdout(&output).contains("report.html"));
        let trials = trials(&lab.path("out"));
        both_were_measured(&lab, &trials);
        the_ruleset_is_slower(&lab, &trials)
    });
}

fn both_were_measured(lab: &Lab, trials: &[(PathBuf, Value)]) {
    assert_eq!(trials.len(), 6);
    for (path, trial) in trials {
        every_packet_is_accounted_for(&path.display().to_string(), trial);
    }
    let nft = trials.iter().find(|(_, t)| t["dut"]["name"] == "nft").expect("an nft trial");
    the_ruleset_took_effect(&nft.1);
    for derived in ["summary.md", "gnuplot.data", "report.html", "env.json", "campaign.toml"] {
        assert!(lab.path("out").join(derived).is_file(), "{derived}");
    }
    let gnuplot = fs::read_to_string(lab.path("out/gnuplot.data")).expect("gnuplot.data");
    assert!(gnuplot.starts_with("#index median minimum maximum\n"), "{gnuplot}");
    assert_eq!(gnuplot.lines().count(), 3);
    report_can_be_rebuilt(lab);
}

/// A comparison takes two steady trials of each DUT, which a busy machine may not give.
fn the_ruleset_is_slower(lab: &Lab, trials: &[(PathBuf, Value)]) -> Result<(), String> {
    let summary = json(&lab.path("out/summary.json"));
    assert!(median(&summary, "nft") < median(&summary, "linux"));
    for dut in ["linux", "nft"] {
        let steady = |t: &Value| t["dut"]["name"] == dut && t["verdict"]["kind"] == "dut-bound";
        let count = trials.iter().filter(|(_, t)| steady(t)).count();
        if count < 2 {
            return Err(format!("{count} of 3 trials of {dut} were steady"));
        }
    }
    let difference = &summary["comparisons"][0]["analysis"];
    let percent = difference["difference_percent"].as_f64();
    assert!(percent.ok_or_else(|| format!("no comparison: {difference}"))? < 0.0, "{difference}");
    Ok(())
}

fn every_packet_is_accounted_for(path: &str, trial: &Value) {
    let verdict = trial["verdict"]["kind"].as_str().expect("a verdict");
    // A shared machine may make a second of samples jump; it must never make them invalid.
    assert!(matches!(verdict, "dut-bound" | "unstable"), "{path}: {verdict}");
    assert!(f64_at(trial, "/ledger/residual_ratio") <= 0.001, "{path}");
    assert!(trial["ledger"]["faults"].as_array().expect("faults").is_empty(), "{path}");
    let way = ["offered", "accepted", "dut_received", "dut_forwarded", "delivered"];
    let counts: Vec<u64> = way.iter().map(|p| packets(trial, p)).collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{path}: {counts:?}");
    assert!(counts[4] > 0, "{path}");
    assert_eq!(trial["result"]["sample_count"], 10, "{path}");
}

fn the_ruleset_took_effect(trial: &Value) {
    let checks = trial["checks"].as_array().expect("checks");
    for name in ["probe-before", "flows", "nft stateful.nft", "probe-after"] {
        let check = checks.iter().find(|c| c["name"] == name);
        assert_eq!(check.map(|c| &c["passed"]), Some(&Value::Bool(true)), "{name}");
    }
    let known = |c: &Value| c["detail"].as_str().is_some_and(|d| d.contains("4900 of 4900 flows"));
    assert!(checks.iter().any(known), "{checks:?}");
}

fn median(summary: &Value, dut: &str) -> f64 {
    let series = summary["series"].as_array().expect("series");
    f64_at(series.iter().find(|s| s["dut"] == dut).expect("a series"), "/rate_pps/median")
}

/// `weir lab report` gives the same files from the raw results alone.
fn report_can_be_rebuilt(lab: &Lab) {
    let out = lab.path("out");
    let before = fs::read(out.join("report.html")).expect("a report");
    for derived in ["summary.json", "summary.md", "gnuplot.data", "report.html"] {
        fs::remove_file(out.join(derived)).expect("removable");
    }
    assert_exit(&crate::common::run(&["lab", "report", &lab.arg("out")]), 0);
    assert_eq!(fs::read(out.join("report.html")).expect("a report"), before);
}

const FIXED: &str = r#"
[campaign]
name = "fixed"
iterations = 3

[trial]
retries = 5
warmup = "100ms"
duration = "1s"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "at-10k"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
rate = "10kpps"
"#;

#[test]
fn at_a_fixed_rate_everything_offered_is_delivered() {
    const NAME: &str = "at_a_fixed_rate_everything_offered_is_delivered";
    if !can_run_lab(NAME) {
        return;
    }
    let _turn = alone();
    unless_starved(NAME, || {
        let lab = Lab::new(FIXED, &[]);
        let output = lab.run(&["-v"]);
        assert_measured(&output, &lab.path("out"));
        let said = crate::common::stderr(&output);
        assert!(said.contains("\nestimated ") && said.contains(" s, took "), "{said}");
        let took = &json(&lab.path("out/durations.json"))[0];
        assert_eq!(took["cell_count"], 3);
        let ns = |name: &str| f64_at(took, name) > 3e9;
        assert!(ns("/estimated_ns") && ns("/taken_ns"), "three times a second: {took}");
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), 3);
        let mut losses = Vec::new();
        for (_, trial) in &trials {
            // 1.1 seconds of 10 kpps, on a machine that may be busy with other things.
            assert!((5_000..=12_000).contains(&packets(trial, "offered")));
            assert_ne!(trial["verdict"]["kind"], "invalid", "{}", trial["verdict"]);
            let cost = &trial["cost"];
            assert_eq!(cost["packets"], packets(trial, "dut_received"), "{cost}");
            assert!(cost["cost_ns"].as_f64().is_some_and(|cost_ns| cost_ns > 1.0), "{cost}");
            let sink = cost["apparatus_ratio"].as_f64();
            // Programs that have ended hide it.
            let is_hidden = sink.is_none() && trial["verdict"]["kind"] == "disturbed";
            let is_part = sink.is_some_and(|sink| (0.0..=1.0).contains(&sink));
            assert!(is_hidden || is_part, "{trial}");
            match lost(trial) {
                Some(loss) => losses.push(loss),
                None => {
                    assert_eq!(trial["verdict"]["kind"], "generator-bound", "{}", trial["verdict"]);
                }
            }
        }
        // A neighbour on this machine may take the DUT's CPU for longer than its ring lasts (25 ms
        // at this rate), but hardly in most of the trials.
        if losses.len() < 2 { Ok(()) } else { Err(losses.join(", ")) }
    });
}

/// What a trial lost, by the counters that say where; fails if there are packets that no counter
/// explains.
fn lost(trial: &Value) -> Option<String> {
    assert_eq!(trial["ledger"]["residual_packets"], 0, "{}", trial["ledger"]);
    let (offered, delivered) = (packets(trial, "offered"), packets(trial, "delivered"));
    (delivered < offered).then(|| {
        format!("{} of {offered} packets: {}", offered - delivered, trial["ledger"]["drops"])
    })
}

const COMMAND: &str = r#"
[campaign]
name = "command"
iterations = 1

[trial]
retries = 5
warmup = "100ms"
duration = "1s"

[testbed]
kind = "netns"
queues = 2

[[sweep]]
name = "size"
values = [60, 512]

[[dut]]
name = "script"
kind = "command"
files = { script = "router.sh" }
start = "sh ./router.sh"
ready = "test -e ready"
ready_timeout = "5s"

[[traffic]]
name = "fixed"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
size = "${size}"
rate = "5kpps"
"#;

#[test]
fn any_program_can_be_the_dut_and_a_sweep_is_an_axis() {
    const NAME: &str = "any_program_can_be_the_dut_and_a_sweep_is_an_axis";
    if !can_run_lab(NAME) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let script = "echo 1 > /proc/sys/net/ipv4/ip_forward\ntouch ready\nexec sleep 3600\n";
    unless_starved(NAME, || {
        let lab = Lab::new(COMMAND, &[("router.sh", script)]);
        assert_measured(&lab.run(&[]), &lab.path("out"));
        assert_eq!(surroundings(), before);
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), 2);
        let gnuplot = fs::read_to_string(lab.path("out/gnuplot.data")).expect("gnuplot.data");
        let axis: Vec<&str> =
            gnuplot.lines().skip(1).filter_map(|l| l.split_whitespace().next()).collect();
        assert_eq!(axis, ["60", "512"]);
        the_figures_have_the_names_of_another_lab(&lab, &trials);
        let losses: Vec<String> = trials.iter().filter_map(|(_, trial)| lost(trial)).collect();
        if losses.is_empty() { Ok(()) } else { Err(losses.join(", ")) }
    });
}

/// One iteration gives a median, and no row of statistics.
fn the_figures_have_the_names_of_another_lab(lab: &Lab, trials: &[(PathBuf, Value)]) {
    let (store, out) = (lab.arg("out"), lab.arg("published"));
    let exported = crate::common::run(&["lab", "export", "--netbenches", &store, "--out", &out]);
    assert_exit(&exported, 1);
    let printed = stdout(&exported);
    assert!(printed.contains("it has 1 figures, and statistics need 3"), "{printed}");
    for (_, trial) in trials {
        let name = format!("published/{}.pps", trial["series"].as_str().expect("a name"));
        let text = fs::read_to_string(lab.path(&name)).expect(&name);
        let rate_pps = f64_at(trial, "/result/rate_pps");
        let written: f64 = text.trim_end().parse().expect("a number");
        assert!((written / rate_pps - 1.0).abs() < 1e-7, "{written} of {rate_pps}");
    }
    let rows = fs::read_to_string(lab.path("published/gnuplot.data")).expect("written");
    assert_eq!(rows, "#index median minimum maximum\n");
}

#[test]
fn a_ruleset_that_blocks_everything_is_invalid_not_zero() {
    if !can_run_lab("a_ruleset_that_blocks_everything_is_invalid_not_zero") {
        return;
    }
    let _turn = alone();
    let block = "table inet f { chain c { type filter hook forward priority 0; counter drop; }; }";
    // It is probed for five seconds.
    let spec = FIXED
        .replace("iterations = 3", "iterations = 1")
        .replace("name = \"linux\"", "name = \"block\"")
        .replace("kind = \"linux\"", "kind = \"linux\"\nfiles = { nft = \"block.nft\" }");
    let lab = Lab::new(&spec, &[("block.nft", block)]);
    let output = lab.run(&[]);
    assert_exit(&output, 1);
    let trials = trials(&lab.path("out"));
    assert_eq!(trials[0].1["verdict"]["kind"], "invalid");
    let said = crate::common::stderr(&output);
    assert!(said.contains("no probe packet got through"), "{said}");
    assert!(said.contains("nft inet f c handle"), "the rule that blocks is not named: {said}");
}

/// One in ten packets, dropped by a rule that counts it.
const LOSSY: &str = "\
table inet f {
    chain c {
        type filter hook forward priority 0; policy accept;
        numgen inc mod 10 == 0 counter drop
        counter accept
    }
}
";

#[test]
fn what_a_ruleset_drops_is_its_loss_and_no_residual() {
    if !can_run_lab("what_a_ruleset_drops_is_its_loss_and_no_residual") {
        return;
    }
    let _turn = alone();
    let spec = FIXED
        .replace("iterations = 3", "iterations = 1")
        .replace("rate = \"50kpps\"", "rate = \"5kpps\"")
        .replace("kind = \"linux\"", "kind = \"linux\"\nfiles = { nft = \"lossy.nft\" }");
    let lab = Lab::new(&spec, &[("lossy.nft", LOSSY)]);
    assert_measured(&lab.run(&[]), &lab.path("out"));
    let trial = &trials(&lab.path("out"))[0].1;
    assert_eq!(trial["ledger"]["residual_packets"], 0, "{}", trial["ledger"]);
    assert_eq!(trial["verdict"]["kind"], "dut-bound", "{}", trial["verdict"]);
    let drops = trial["ledger"]["drops"].as_array().expect("drops");
    let rule = drops.iter().find(|d| d["name"].as_str().is_some_and(|n| n.starts_with("nft ")));
    let dropped = rule.and_then(|d| d["packets"].as_u64()).expect("the rule's drops");
    let lost = packets(trial, "dut_received") - packets(trial, "dut_forwarded");
    assert_eq!(dropped, lost);
    // The rule counts every tenth packet that it sees, probes included.
    assert!(dropped.abs_diff(packets(trial, "dut_received") / 10) <= 2, "{dropped}");
}

#[test]
fn a_program_that_dies_under_way_is_invalid_and_the_store_stays_readable() {
    if !can_run_lab("a_program_that_dies_under_way_is_invalid_and_the_store_stays_readable") {
        return;
    }
    let _turn = alone();
    // It stops forwarding early in the measurement, so that most of the samples are zero.
    let script = "echo 1 > /proc/sys/net/ipv4/ip_forward\ntouch ready\n\
                  has_sent() { awk '$1 == \"dut1:\" && $11 > 1000 { yes = 1 } END { exit !yes }' \
                  /proc/net/dev; }\nuntil has_sent; do sleep 0.02; done\n\
                  echo 0 > /proc/sys/net/ipv4/ip_forward\nexit 3\n";
    let spec = COMMAND.replace("values = [60, 512]", "values = [60]");
    let lab = Lab::new(&spec, &[("router.sh", script)]);
    assert_exit(&lab.run(&[]), 1);
    let trials = trials(&lab.path("out"));
    assert_eq!(trials[0].1["verdict"]["kind"], "invalid");
    assert_exit(&crate::common::run(&["lab", "report", &lab.arg("out")]), 1);
}

/// Legitimate traffic beside a SYN flood over IPv6, whose sources are drawn at random.
const STREAMS: &str = r#"
[campaign]
name = "streams"
iterations = 1

[trial]
retries = 5
warmup = "100ms"
duration = "1s"
latency = "300ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "nft"
kind = "linux"
files = { nft = "both.nft" }

[[traffic]]
name = "mixed"
rate = "10kpps"

[[traffic.streams]]
name = "legitimate"
src = "[2001:2:0:10::1]:2000-[2001:2:0:10::46]"
dst = "[2001:2:0:8010::1]:2000-[2001:2:0:8010::7]"
size = "80,590"
weight = 9

[[traffic.streams]]
name = "attack"
src = "[2001:2:0:666::1]:1024-[2001:2:0:666::ff]:65535"
dst = "[2001:2:0:8010::1]:443"
proto = "tcp"
random = true
"#;

/// A rule for each of the streams, so that both can be seen in the counters.
const BOTH: &str = "\
table inet filter {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state new ip6 daddr 2001:2:0:8010::/64 udp dport 2000 counter accept
        ct state new ip6 saddr 2001:2:0:666::/64 tcp flags syn counter accept
        counter drop
    }
}
";

#[test]
fn streams_over_ipv6_arrive_and_their_latency_is_measured() {
    if !can_run_lab("streams_over_ipv6_arrive_and_their_latency_is_measured") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(STREAMS, &[("both.nft", BOTH)]);
    assert_measured(&lab.run(&[]), &lab.path("out"));
    assert_eq!(surroundings(), before, "something stayed behind");
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 2);
    for (path, trial) in &trials {
        let path = path.display();
        assert_eq!(trial["ledger"]["residual_packets"], 0, "{path}: {}", trial["ledger"]);
        assert!(packets(trial, "delivered") > 5_000, "{path}");
        let latency = &trial["latency"];
        assert_eq!(latency["rate_pps"], 10_000.0, "{path}");
        let order = ["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"];
        let order: Vec<u64> = order.iter().map(|key| latency[key].as_u64().unwrap()).collect();
        assert!(order[0] > 0 && order.is_sorted(), "{path}: {order:?}");
        let counts = ["sample_count", "delivered_packets", "offered_packets"];
        let counts: Vec<u64> = counts.iter().map(|key| latency[key].as_u64().unwrap()).collect();
        assert!(counts[0] > 0 && counts.is_sorted(), "{path}: {counts:?}");
        assert_eq!(trial["traffic"]["streams"][1]["random"], "true", "{path}");
    }
    let nft = trials.iter().find(|(_, t)| t["dut"]["name"] == "nft").expect("an nft trial");
    both_streams_met_the_ruleset(&nft.1);
    let summary = json(&lab.path("out/summary.json"));
    let series = &summary["series"][0];
    assert!(series["loss_ratio"]["median"].is_f64() && series["latency"]["p50_ns"].is_u64());
    assert_eq!((&series["size_bytes_min"], &series["size_bytes_max"]), (&80.into(), &590.into()));
    let page = fs::read_to_string(lab.path("out/report.html")).expect("a report");
    assert!(page.contains("id=\"latency\"") && page.contains("80–590"));
    report_can_be_rebuilt(&lab);
}

fn both_streams_met_the_ruleset(trial: &Value) {
    let checks = trial["checks"].as_array().expect("checks");
    let flows = checks.iter().find(|c| c["name"] == "flows").expect("a check of the flows");
    assert_eq!(flows["passed"], true, "{flows}");
    // 70 × 7 flows that were sent beforehand, and one packet of the attack in ten of the probe.
    assert!(
        flows["detail"].as_str().is_some_and(|d| d.contains(": 490 that were sent")),
        "{flows}"
    );
    let nft = trial["counters"]["nft"].as_object().expect("counters of the ruleset");
    let counts: Vec<u64> = nft.values().filter_map(Value::as_u64).collect();
    // In exact ratios, whatever is sent: nine of ten are legitimate.
    assert_eq!(counts.len(), 3, "{nft:?}");
    let (legitimate, attack) = (counts[0], counts[1]);
    assert!(legitimate.abs_diff(attack * 9) <= legitimate / 20, "{nft:?}");
    assert_eq!(counts[2], 0, "{nft:?}");
}
