//! `weir lab bisect` on real packets: configurations of which the later ones are much slower.
//!
//! Rates are never asserted: a chain of some hundred rules costs a multiple of what forwarding
//! does, and the place where it begins is what is asked for.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::common::{Lab, assert_exit, can_run_lab, run, stderr, stdout, surroundings, trials};
use crate::turns::alone;

/// Rules that match nothing, behind a hook that every packet passes.
fn ruleset(rule_count: usize) -> String {
    let mut text = String::from(
        "table ip filter {\n    chain forward {\n        type filter hook forward priority 0;\n\
         \x20       udp dport 2000-65535 counter\n",
    );
    for rule in 0..rule_count {
        // Neither source nor destination is ever here.
        let _ = writeln!(
            text,
            "        ip saddr 203.0.113.{} udp sport {} drop",
            rule % 256,
            rule % 1000 + 1
        );
    }
    text + "        accept\n    }\n}\n"
}

/// Six DUTs, of which all from `slow` on have the long chain; the files of both chains.
fn lab(slow: usize, third: &str) -> Lab {
    let mut spec = String::from(
        "[campaign]\nname = \"releases\"\niterations = 1\n[trial]\nretries = 5\n\
         warmup = \"100ms\"\nduration = \"500ms\"\n[testbed]\nkind = \"netns\"\n",
    );
    for release in 1..=6 {
        let file = if release >= slow { "slow.nft" } else { "fast.nft" };
        let linux = format!("kind = \"linux\"\nfiles = {{ nft = \"{file}\" }}\n");
        let kind = if release == 3 && !third.is_empty() { third } else { &linux };
        let _ = write!(spec, "[[dut]]\nname = \"r{release}\"\n{kind}");
    }
    for (name, flows) in [("one", "1"), ("many", "16")] {
        let _ = write!(
            spec,
            "[[traffic]]\nname = \"{name}\"\nsrc = \"198.18.10.1:2000\"\n\
             dst = \"198.19.10.1:2000-198.19.10.{flows}\"\n"
        );
    }
    Lab::new(&spec, &[("fast.nft", &ruleset(0)), ("slow.nft", &ruleset(500))])
}

fn bisect(lab: &Lab, more: &[&str]) -> std::process::Output {
    let (spec, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let mut arguments = vec!["lab", "bisect", &spec, "--out", &out];
    arguments.extend(more);
    run(&arguments)
}

/// A page says what the search came to, then every candidate, then the cells.
fn assert_answers_first(page: &Path) -> String {
    let html = std::fs::read_to_string(page).expect("a page");
    let place = |part: &str| html.find(part).unwrap_or_else(|| panic!("no {part} in {html}"));
    let answer = place("r4 is the first bad one, with a probability of ");
    assert!(answer < place("id=\"candidates\""), "{html}");
    assert!(place("id=\"candidates\"") < place("id=\"throughput\""), "{html}");
    html
}

#[test]
fn the_first_slow_release_is_found_and_the_search_goes_on_where_it_stopped() {
    if !can_run_lab("the_first_slow_release_is_found_and_the_search_goes_on_where_it_stopped") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = lab(4, "");
    let asked = ["--good", "r1", "--bad", "r6", "--metric", "many"];
    // Six runs are what the ends alone need: what is there is kept.
    let limited = bisect(&lab, &[&asked[..], &["--max-runs", "6"]].concat());
    assert_exit(&limited, 1);
    assert!(stdout(&limited).contains("Undecided after 6 runs"), "{}", stdout(&limited));
    let found = bisect(&lab, &[&asked[..], &["--resume", "--json"]].concat());
    assert_exit(&found, 0);
    assert_eq!(surroundings(), before, "something stayed behind");
    let report: Value = serde_json::from_str(&stdout(&found)).expect("JSON");
    assert_eq!(report["answer"], "found", "{report}");
    assert_eq!(report["first_bad"], "r4", "{report}");
    assert_eq!(report["last_good"], "r3");
    assert_eq!(report["dimension"], "dut");
    assert!(report["probability"].as_f64().is_some_and(|p| p >= 0.95));
    assert!(report["change"]["change_high_ratio"].as_f64().is_some_and(|r| r < 0.0));
    let candidates = report["candidates"].as_array().expect("candidates");
    let sum: f64 = candidates.iter().filter_map(|c| c["first_bad_probability"].as_f64()).sum();
    let none = report["no_change_probability"].as_f64().expect("a probability");
    assert!((sum + none - 1.0).abs() < 1e-9);
    assert!(candidates.iter().all(|c| c["series"].as_str().is_some_and(|s| s.ends_with(".many"))));
    // The runs are cells of a store like any other.
    let trials = trials(&lab.path("out"));
    assert_eq!(Some(trials.len() as u64), report["runs"].as_u64());
    // Its answer stands before any figure, as the run left it and when it is rebuilt.
    let page = lab.path("out/report.html");
    let written = assert_answers_first(&page);
    std::fs::remove_file(&page).expect("the page can be removed");
    assert_exit(&run(&["lab", "report", &lab.arg("out")]), 0);
    assert_eq!(assert_answers_first(&page), written);
    // With the answer there, nothing more runs.
    let again = bisect(&lab, &[&asked[..], &["--resume"]].concat());
    assert_exit(&again, 0);
    assert!(stdout(&again).contains("r4 is the first bad one"), "{}", stdout(&again));
    assert_eq!(crate::common::trials(&lab.path("out")).len(), trials.len());
    // Neither another search nor a campaign goes on in it; the same one does, from the store alone.
    let other = bisect(&lab, &["--good", "r2", "--bad", "r6", "--metric", "many", "--resume"]);
    assert_exit(&other, 2);
    let message = stderr(&other);
    assert!(message.contains("another bisection: --good r1 --bad r6"), "{message}");
    let campaign = lab.run(&["--resume"]);
    assert_exit(&campaign, 2);
    let message = stderr(&campaign);
    assert!(message.contains("holds a bisection, not a campaign"), "{message}");
    for verb in ["report", "resume"] {
        let output = run(&["lab", verb, &lab.arg("out")]);
        assert_exit(&output, 0);
        assert_eq!(stdout(&output), stdout(&again), "{verb}");
    }
}

#[test]
fn a_release_that_does_not_start_is_passed_over() {
    if !can_run_lab("a_release_that_does_not_start_is_passed_over") {
        return;
    }
    let _turn = alone();
    let lab = lab(4, "kind = \"command\"\nstart = \"exit 3\"\n");
    let output = bisect(&lab, &["--good", "r6", "--bad", "r1", "--metric", "one"]);
    assert_exit(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("one of those from r3 to r2"), "{text}");
    assert!(text.contains("skipped: 3 invalid runs"), "{text}");
    assert!(text.contains("It is an improvement"), "{text}");
}

#[test]
fn what_cannot_be_searched_is_refused_before_anything_runs() {
    if !can_run_lab("what_cannot_be_searched_is_refused_before_anything_runs") {
        return;
    }
    let lab = lab(4, "");
    for (arguments, said) in [
        (&["--good", "r1", "--bad", "r9"][..], "--bad `r9` is neither a DUT nor"),
        (&["--good", "r1", "--bad", "r6"][..], "choose one with --metric: one, many"),
        (&["--good", "r1", "--bad", "r6", "--metric", "few"][..], "leaves no series of `r1`"),
        (&["--good", "r1", "--bad", "r6", "--confidence", "40%"][..], "above 50%"),
        (&["--good", "r1", "--bad", "r6", "--max-runs", "5"][..], "--max-runs"),
    ] {
        let output = bisect(&lab, arguments);
        assert_exit(&output, 2);
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
        assert!(!lab.path("out").exists());
    }
}
