//! The count, against what libtest prints.

use super::*;

const OUTPUT: &str = "
running 3 tests
test a::works ... ok
test a::needs_more ... ok
test a::slow ... ignored

successes:

---- a::needs_more stdout ----
opening the moon
skipped: this machine has no moon
skipped: nor a second one

---- a::works stdout ----
test result? no

successes:
    a::needs_more
    a::works

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

running 2 tests
test b::breaks ... FAILED
test b::works ... ok

successes:

successes:
    b::works

failures:

---- b::breaks stdout ----
skipped: not really
thread 'b::breaks' panicked at src/lib.rs:3:4:

failures:
    b::breaks

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

fn follow(output: &str) -> (Tally, Vec<&str>) {
    let mut follower = Follower::default();
    let shown = output.lines().filter(|line| follower.line(line)).collect();
    (follower.tally, shown)
}

#[test]
fn verdicts_are_summed_and_skips_named() {
    let (tally, _) = follow(OUTPUT);
    let skips = vec!["a::needs_more: this machine has no moon".to_owned()];
    let ignores = vec!["a::slow: ignored".to_owned()];
    assert_eq!(tally, Tally { passed: 3, failed: 1, ignored: 1, skips, ignores });
    assert_eq!(tally.last_line(), "2 passed, 1 failed, 2 skipped");
}

#[test]
fn an_ignored_test_is_named_with_its_reason() {
    let line = "test under_the_limit ... ignored, it is run by the test above";
    let (tally, shown) = follow(line);
    assert_eq!(tally.ignores, ["under_the_limit: it is run by the test above"]);
    assert_eq!(shown, [line]);
}

#[test]
fn passing_tests_are_quiet_and_failing_ones_are_not() {
    let (_, shown) = follow(OUTPUT);
    assert!(!shown.contains(&"opening the moon"), "{shown:?}");
    assert!(shown.contains(&"---- b::breaks stdout ----"), "{shown:?}");
    assert!(shown.contains(&"test a::works ... ok"), "{shown:?}");
    assert_eq!(shown.iter().filter(|line| line.starts_with("test result: ")).count(), 2);
}

#[test]
fn nothing_skipped_is_not_mentioned() {
    let (tally, _) = follow("test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured\n");
    assert_eq!(tally.last_line(), "7 passed, 0 failed");
    assert_eq!(Tally::default().last_line(), "0 passed, 0 failed");
}

#[test]
fn a_run_ends_with_what_was_skipped_and_the_count() {
    let said = |tally: Tally, lint: &[&str]| {
        let mut out = Vec::new();
        let lint: Vec<String> = lint.iter().map(|&name| name.to_owned()).collect();
        let passed = tally.conclude(&mut out, &lint).unwrap();
        (passed, String::from_utf8(out).unwrap())
    };
    let skip = "skipped: a::needs_more: this machine has no moon\nskipped: a::slow: ignored\n";
    let (passed, text) = said(follow(OUTPUT).0, &[]);
    assert!(!passed);
    assert_eq!(text, format!("{skip}2 passed, 1 failed, 2 skipped\n"));
    let (passed, text) = said(Tally { passed: 2, ..Tally::default() }, &["fmt"]);
    assert!(!passed && text.contains("lint failed: fmt"), "{text}");
    assert!(text.ends_with("\n2 passed, 1 failed\n"), "{text}");
    assert_eq!(said(Tally::one_failed(), &[]), (false, "0 passed, 1 failed\n".to_owned()));
    let good = Tally { passed: 40, skips: vec!["c: no KVM".to_owned()], ..Tally::default() };
    let text = "skipped: c: no KVM\n39 passed, 0 failed, 1 skipped\n".to_owned();
    assert_eq!(said(good, &[]), (true, text));
}

#[test]
fn a_script_is_one_test_and_binaries_add_up() {
    let script = |name: &str, ended_well: bool, line: &str| {
        Tally::of_script(name, ended_well, &[line.to_owned()])
    };
    let mut tally = follow(OUTPUT).0;
    tally.add(script("a.sh", true, "all is well"));
    tally.add(script("b.sh", true, "skipped: no network"));
    tally.add(script("c.sh", false, "skipped: not really"));
    assert_eq!(tally.skips, ["a::needs_more: this machine has no moon", "b.sh: no network"]);
    assert_eq!(tally.last_line(), "3 passed, 2 failed, 3 skipped");
    assert_eq!(tally.count(), 8);
}
