//! `weir rss`: predictions from the command line, for which nothing is sent; and interfaces.

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout};

mod wire;

fn json(words: &[&str]) -> Value {
    let output = run(&[&["rss"], words, &["--json"]].concat());
    assert_exit(&output, 0);
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

#[test]
fn the_first_documented_hash() {
    let flow = ["rss", "hash", "--src", "66.9.149.187:2794", "--dst", "161.142.100.80:1766"];
    let output = run(&flow);
    assert_exit(&output, 0);
    assert_eq!(stdout(&output), "66.9.149.187:2794 161.142.100.80:1766 51ccc178\n");
    let output = run(&[&flow[..], &["--fields", "2-tuple"]].concat());
    assert!(stdout(&output).ends_with(" 323e8fc2\n"), "{}", stdout(&output));
}

#[test]
fn what_is_picked_is_predicted_to_land_there() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let name = file.path().to_string_lossy().into_owned();
    let picked = json(&[
        "pick",
        "--table",
        "equal:4/16",
        "--buckets",
        "all",
        "--flows",
        "2",
        "--client",
        "10.0.0.1:1024-10.0.0.1:9000",
        "--server",
        "10.0.1.1:7",
        "--answer-queue",
        "3",
        "--stream",
        &name,
    ]);
    let flows = picked["flows"].as_array().expect("flows");
    assert_eq!(flows.len(), 32);
    for flow in flows {
        let client = flow["client"].as_str().expect("an address");
        let there =
            json(&["predict", "--table", "equal:4/16", "--src", client, "--dst", "10.0.1.1:7"]);
        let bucket = usize::try_from(flow["bucket"].as_u64().expect("a number")).expect("small");
        assert_eq!(there["buckets"][bucket], 1, "{flow}");
        let back = json(&["hash", "--table", "equal:4/16", "--src", "10.0.1.1:7", "--dst", client]);
        assert_eq!(back["queue"], 3, "{flow}");
    }
    let streams = std::fs::read_to_string(&name).expect("the streams");
    assert_eq!(streams.matches("[[stream]]").count(), 32);
}

#[test]
fn a_bucket_out_of_reach_is_the_answer_no() {
    let output = run(&[
        "rss",
        "pick",
        "--table",
        "equal:2",
        "--fields",
        "2-tuple",
        "--buckets",
        "all",
        "--client",
        "10.0.0.1:1024-10.0.0.1:2000",
        "--server",
        "10.0.1.1:7",
    ]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("127 buckets could not be reached"), "{}", stderr(&output));
}

#[test]
fn a_drawn_key_is_not_weak_and_a_weak_one_is_named() {
    let drawn = json(&["key", "--buckets", "512", "--seed", "7"]);
    let key = drawn["key"].as_str().expect("a key");
    assert_exit(&run(&["rss", "key", key, "--buckets", "512"]), 0);
    let output = run(&["rss", "key", &"00".repeat(40)]);
    assert_exit(&output, 1);
    assert!(
        stdout(&output)
            .contains("weak for source ports of IPv4: 256 in a row reach 1 of 128 buckets")
    );
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let flow = ["--src", "10.0.0.1", "--dst", "10.0.1.1"];
    for (words, why) in [
        (&["predict"][..], "give --table"),
        (&["predict", "-i", "lo"], "has no receive side scaling"),
        (&["predict", "-i", "lo", "--table", "equal:2"], "cannot be used with"),
        (&["predict", "--table", "weights:0,0"], "no queue has a share"),
        (&["hash", "--key", "6d5a"], "a key has 40 to 52 bytes, not 2"),
        (&["hash", "--fields", "5-tuple"], "the 2-tuple (addresses) or the 4-tuple"),
        (&["hash", "--proto", "tcp"], "required"),
    ] {
        let output = run(&[&["rss"], words, &flow].concat());
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    }
}
