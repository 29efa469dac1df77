//! `weir rates`: its text, its JSON, and what it refuses. No privilege, no packets.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout};

fn text(arguments: &[&str]) -> String {
    let output = run(&[&["rates"], arguments].concat());
    assert_exit(&output, 0);
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).expect("one JSON object")
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {value}"))
}

/// The words of the first line that begins with `head`.
#[track_caller]
fn words(text: &str, head: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(head));
    let line = line.unwrap_or_else(|| panic!("no line `{head}` in:\n{text}"));
    line[head.len()..].split_whitespace().map(str::to_owned).collect()
}

/// The item of a list whose `key` is `value`.
#[track_caller]
fn item<'a>(list: &'a Value, key: &str, value: &Value) -> &'a Value {
    let found = list.as_array().expect("a list").iter().find(|item| item[key] == *value);
    found.unwrap_or_else(|| panic!("nothing with `{key}` {value} in {list}"))
}

#[test]
fn line_rates_of_usual_links() {
    let text = text(&[]);
    assert_eq!(
        words(&text, "link"),
        ["60/64", "124/128", "252/256", "508/512", "1020/1024", "1276/1280", "1514/1518", "imix"]
    );
    assert_eq!(words(&text, "1 Gbit/s")[0], "1.488");
    assert_eq!(words(&text, "10 Gbit/s")[0], "14.88");
    assert_eq!(words(&text, "400 Gbit/s")[0], "595.2");
    let (_, both) = text.split_once("full duplex").expect("a table of both directions");
    assert_eq!(words(both, "10 Gbit/s")[0], "29.76");
    let (_, imix) = text.split_once("IP + 14 bytes").expect("a table of IMIX");
    assert_eq!(words(imix, "1 Gbit/s"), ["0.3528", "Mpps", "0.7056", "Mpps"]);
    assert_eq!(words(imix, "10 Gbit/s"), ["3.528", "Mpps", "7.056", "Mpps"]);
}

#[test]
fn line_rates_as_json() {
    let answer = json(&[]);
    let rates = answer["line_rates"].as_array().expect("a list");
    assert_eq!(rates.len(), 10 * 8);
    let (first, last) = (&rates[0], &rates[79]);
    assert_eq!(first["link_bps"], 1_000_000_000_u64);
    assert_eq!((number(first, "mean_size_bytes"), number(first, "packet_ns")), (60.0, 672.0));
    assert_eq!(number(first, "mean_size_with_fcs_bytes"), 64.0);
    assert_eq!(number(first, "half_duplex_pps").floor(), 1_488_095.0);
    assert_eq!((&last["sizes"], &last["link_bps"]), (&"imix".into(), &400_000_000_000_u64.into()));
    let need = item(&answer["imix_needs"], "link_bps", &1_000_000_000_u64.into());
    assert_eq!((number(need, "half_duplex_pps") / 1e3).round(), 353.0);
    assert_eq!((number(need, "full_duplex_pps") / 1e3).round(), 706.0);
}

#[test]
fn one_link_and_one_size() {
    let one = text(&["--link", "10G", "--size", "508"]);
    let expected = ["508/512", "2.350", "Mpps", "4.699", "Mpps", "425.6", "ns"];
    assert_eq!(words(&one, "10 Gbit/s")[..7], expected);
    assert_eq!(one.lines().filter(|line| line.contains("Gbit/s")).count(), 1, "{one}");
    assert_eq!(text(&["--link", "2.5Gbps"]).matches("\n2.5 Gbit/s").count(), 8 + 1);
    assert_eq!(text(&["--size", "60-1514"]).matches("60-1514 (mean 787.0/791.0)").count(), 10);
    // Two frames of 64 bytes and one of 1,518, with FCS.
    let genome = json(&["--size", "imix-genome:aag", "--link", "1G"]);
    assert_eq!(number(&genome["line_rates"][0], "mean_size_with_fcs_bytes"), 1646.0 / 3.0);
    assert_eq!(genome["line_rates"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_packet_rate_in_bits() {
    let answer = json(&["--pps", "1.5Mpps"]);
    assert_eq!(number(&answer, "rate_pps"), 1.5e6);
    let small = item(&answer["equivalents"], "sizes", &"60".into());
    let layers = |size: &Value| {
        ["ip_bps", "ethernet_bps", "line_bps"].map(|key| (number(size, key) / 1e6).round())
    };
    assert_eq!(layers(small), [552.0, 720.0, 1008.0]);
    let imix = item(&answer["equivalents"], "sizes", &"imix".into());
    assert_eq!(layers(imix), [4084.0, 4252.0, 4582.0]);
    assert_eq!(answer["imix_full_duplex_link_bps"], 1_000_000_000_u64);
    assert_eq!(answer["imix_half_duplex_link_bps"], 2_500_000_000_u64);
    let link = item(&answer["links"], "link_bps", &2_500_000_000_u64.into());
    assert_eq!(link["imix_half_duplex_enough"], true);
    assert_eq!(link["imix_full_duplex_enough"], false);
    assert_eq!(json(&["--pps", "1k"])["imix_full_duplex_link_bps"], Value::Null);
    // IMIX stands once in the list, also if it is what was asked for.
    let imix = json(&["--pps", "1M", "--size", "imix"]);
    assert_eq!(imix["equivalents"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_a_packet_rate_is_enough_for() {
    let last = |arguments: &[&str]| text(arguments).lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        last(&["--pps", "1.5M"]),
        "Enough for a full-duplex link of 1 Gbit/s with IMIX, and for one direction of 2.5 Gbit/s."
    );
    assert_eq!(last(&["--pps", "7.1M"]), "Enough for a full-duplex link of 10 Gbit/s with IMIX.");
    let little = "Not enough for a full-duplex link of 1 Gbit/s with IMIX, but for ";
    assert_eq!(last(&["--pps", "353k"]), format!("{little}50.03 % of one, and for one direction."));
    assert_eq!(last(&["--pps", "70556"]), format!("{little}10.00 % of one."));
    assert_eq!(
        last(&["--pps", "3.6M", "--link", "10G"]),
        "Not enough for a full-duplex link of 10 Gbit/s with IMIX, but for 51.02 % of one, and for \
         one direction."
    );
    let share = text(&["--pps", "1.5M", "--link", "10G"]);
    assert_eq!(words(&share, "10 Gbit/s")[6..], ["14.88", "Mpps", "10.08", "%"]);
}

#[test]
fn bad_input_is_refused() {
    for (arguments, said) in [
        (["--pps", "fast"], "`fast` is not a packet rate: write packets per second, such as 353k"),
        (["--pps", "0"], "above zero"),
        (["--pps", "500Mbps"], "not a number of packets per second"),
        (["--pps", "80%"], "not a number of packets per second"),
        (["--link", "0"], "above zero"),
        (["--link", "10GbE"], "bits per second, such as 10G"),
        (["--link", "80%"], "bits per second, such as 10G"),
        (["--size", "big"], "`big` is not a frame size"),
        (["--size", "1514-60"], "backwards"),
        (["--size", "59"], "59 bytes is too short for Ethernet: the smallest has 60"),
        (["--size", "60,46"], "46 bytes is too short"),
        (["--size", "imix-genome:k"], "not a letter of an IMIX genome"),
    ] {
        let output = run(&["rates", arguments[0], arguments[1]]);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(said), "{arguments:?}:\n{}", stderr(&output));
        assert!(stderr(&output).contains(arguments[0]), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let quick = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/quick/lab.toml");
    let plan = ["lab", "plan", quick.to_str().expect("a path")];
    for arguments in [
        &["rates"][..],
        &["completions", "bash"],
        &["doctor", "--json"],
        &["help"],
        &["ministat", "--help"],
        &["pfctl", "--help"],
        &plan,
    ] {
        let mut command = crate::common::weir();
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(stderr(&output), "", "{arguments:?}");
        // As SIGPIPE would have it; clap ends its help with 0.
        assert!(matches!(output.status.code(), Some(141 | 0)), "{arguments:?}: {}", output.status);
    }
}
