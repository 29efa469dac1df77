//! The checker and the optimiser of pf.conf at the command line.

use std::fs;

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout};

/// A file that is right, with a rule that no packet reaches, a macro without a use, a table that
/// may be filled later, and an interface that is not there.
const SUSPICIOUS: &str = "\
none = \"10.0.0.0/8\"
table <later> persist
block
pass in quick proto tcp to port 22
pass in on nowhere9
pass in quick proto tcp from 10.0.0.1 to port 22
";

/// Six addresses, one of them twice, and two rules that come in quick.
const PLAIN: &str = "\
block
pass in inet proto udp from { 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.1 }
match in inet proto tcp tag A
pass in quick inet proto tcp from 10.1.0.1 to any
pass in quick inet proto tcp from 10.2.0.1 to any
";

/// What `pfctl -vsr` tells of them.
const COUNTERS: &str = "\
pass in quick inet proto tcp from 10.1.0.1 to any flags S/SA keep state
  [ Evaluations: 9         Packets: 3         Bytes: 180         States: 0     ]
pass in quick inet proto tcp from 10.2.0.1 to any flags S/SA keep state
  [ Evaluations: 9         Packets: 700       Bytes: 42000       States: 0     ]
";

struct Files(tempfile::TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("writable");
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }
}

#[test]
fn what_is_right_and_pointless_is_told_in_the_order_of_the_file() {
    let files = Files::new(&[
        ("pf.conf", SUSPICIOUS),
        ("note.conf", "table <later> persist\nblock\n"),
        ("facts", "interface em0\n"),
    ]);
    let (path, facts) = (files.path("pf.conf"), files.path("facts"));
    let check = ["fw", "check", "--facts", &facts];
    let output = run(&[&check[..], &[&path]].concat());
    assert_exit(&output, 0);
    let messages = stderr(&output);
    let lines = messages.lines().filter_map(|line| line.strip_prefix(&format!("{path}:")));
    let places: Vec<&str> = lines.filter_map(|line| line.split(':').next()).collect();
    assert_eq!(places, ["1", "2", "5", "6"], "{messages}");
    assert!(messages.contains(&format!("\n  {path}:4: this `quick` decides")), "{messages}");
    assert!(stdout(&output).ends_with("0 errors, 3 warnings)\n"), "{}", stdout(&output));

    let output = run(&[&check[..], &["--json", &path]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(answer["warning_count"], 3);
    let list = answer["files"][0]["diagnostics"].as_array().expect("a list");
    let codes: Vec<_> = list.iter().map(|finding| finding["code"].as_str().unwrap_or("")).collect();
    assert_eq!((codes[0], codes[1], codes[3]), ("unused-macro", "unused-table", "unreachable"));
    assert_eq!(list[3]["related"][0]["line"], 4);

    // Warnings are denied, notes are not.
    assert_exit(&run(&[&check[..], &["--deny", "warnings", &path]].concat()), 1);
    let noted = run(&[&check[..], &["--deny", "warnings", &files.path("note.conf")]].concat());
    assert_exit(&noted, 0);
    assert!(stderr(&noted).contains(":1:8: note: "), "{}", stderr(&noted));
}

#[test]
fn rules_are_optimised_as_asked() {
    let files = Files::new(&[("pf.conf", PLAIN), ("counters", COUNTERS)]);
    let (path, counters) = (files.path("pf.conf"), files.path("counters"));
    let none = stdout(&run(&["pfctl", "-o", "none", "-nvf", &path]));
    assert_eq!(none.lines().count(), 11, "{none}");
    assert_eq!(stdout(&run(&["fw", "print", &path])), none);

    let basic = stdout(&run(&["fw", "print", "-o", "basic", &path]));
    let expected = "\
table <__automatic_0> const { 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 }
block drop all
pass in inet proto udp from <__automatic_0> to any keep state
match in inet proto tcp all tag A
pass in quick inet proto tcp from 10.1.0.1 to any flags S/SA keep state
pass in quick inet proto tcp from 10.2.0.1 to any flags S/SA keep state
";
    assert_eq!(basic, expected);
    // It is pfctl's default.
    let output = run(&["pfctl", "-nvf", &path]);
    assert_eq!((stdout(&output), stderr(&output)), (basic.clone(), String::new()));
    assert_eq!(stdout(&run(&["pfctl", "-ob", "-nvf", &path])), basic);

    let profiled = run(&["fw", "print", "-o", "profile", "--profile", &counters, &path]);
    assert_exit(&profiled, 0);
    let rules = stdout(&profiled);
    let of = |text: &str| rules.find(text).expect("the rule is there");
    assert!(of("10.2.0.1") < of("10.1.0.1"), "{rules}");
    let option = format!("--profile={counters}");
    assert_eq!(stdout(&run(&["pfctl", "-o", "profile", &option, "-nvf", &path])), rules);

    let json = run(&["fw", "print", "-o", "basic", "--json", &path]);
    let answer: Value = serde_json::from_str(&stdout(&json)).expect("JSON");
    assert_eq!(answer["text"], basic.as_str());
    let joined = &answer["rules"][1];
    assert_eq!((&joined["number"], &joined["line"]), (&1.into(), &2.into()), "{joined}");
}

#[test]
fn the_file_says_how_far_unless_the_command_line_does() {
    let none = format!("set ruleset-optimization none\n{PLAIN}");
    let profile = format!("set ruleset-optimization profile\n{PLAIN}");
    let files = Files::new(&[("none", &none), ("profile", &profile), ("counters", COUNTERS)]);
    let (none, profile) = (files.path("none"), files.path("profile"));
    assert!(!stdout(&run(&["pfctl", "-nvf", &none])).contains("__automatic_0"));
    assert!(stdout(&run(&["pfctl", "-obasic", "-nvf", &none])).contains("__automatic_0"));
    // Without counters, it says what it does instead.
    let output = run(&["pfctl", "-nvf", &profile]);
    assert_exit(&output, 0);
    assert!(stderr(&output).contains("as with -o basic"), "{}", stderr(&output));
    assert_eq!(stderr(&run(&["pfctl", "-qnvf", &profile])), "");
    let option = format!("--profile={}", files.path("counters"));
    let output = run(&["pfctl", &option, "-nvf", &profile]);
    assert_eq!(stderr(&output), "");
    let rules = stdout(&output);
    assert!(rules.find("10.2.0.1") < rules.find("10.1.0.1"), "{rules}");
}

#[test]
fn what_the_optimiser_lacks_is_said() {
    let files = Files::new(&[
        ("pf.conf", PLAIN),
        ("counters", COUNTERS),
        ("wrong", "pass\n[ Packets: many ]\n"),
        ("empty", "pass\n"),
    ]);
    let path = files.path("pf.conf");
    let (wrong, empty) = (files.path("wrong"), files.path("empty"));
    let counters = format!("--profile={}", files.path("counters"));
    for (arguments, code, words) in [
        (&["fw", "print", "-o", "profile", &path][..], 2, "--profile FILE"),
        (&["fw", "print", "-o", "basic", &counters, &path], 2, "only for -o profile"),
        (&["fw", "print", "-o", "profile", "--profile", &wrong, &path], 2, "wrong:2: `Packets:`"),
        (
            &["fw", "print", "-o", "profile", "--profile", &empty, &path],
            2,
            "no packet counts of rules",
        ),
        (&["fw", "print", "-oprofile", "--profile", "/nonexistent", &path], 2, "cannot read /non"),
        (&["pfctl", "-o", "profile", "-nf", &path], 2, "--profile=FILE"),
        (&["pfctl", "-o", "none", &counters, "-nf", &path], 1, "only for -o profile"),
        (&["pfctl", "--profile=", "-nf", &path], 1, "write it as --profile=FILE"),
        (&["pfctl", "-nvRf", &path], 1, "pfctl: Must enable table loading for optimizations"),
    ] {
        let output = run(arguments);
        assert_exit(&output, code);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
    assert_exit(&run(&["pfctl", "-o", "none", "-nvRf", &path]), 0);
    assert_exit(&run(&["pfctl", "-nvNf", &path]), 0);
}

#[test]
fn skip_steps_stand_below_the_rules() {
    let files = Files::new(&[("pf.conf", "block\npass in\nanchor x in {\n  pass in\n}\n")]);
    let path = files.path("pf.conf");
    let printed = stdout(&run(&["pfctl", "-o", "none", "-nvvgf", &path]));
    let expected = "\
@0 block drop all
  [ Skip steps: i=end f=end p=end sa=end sp=end da=end dp=end ]
@1 pass in all flags S/SA keep state
  [ Skip steps: i=end d=end f=end p=end sa=end sp=end da=end dp=end ]
@2 anchor \"x\" in all {
  [ Skip steps: i=end d=end f=end p=end sa=end sp=end da=end dp=end ]
  @0 pass in all flags S/SA keep state
  [ Skip steps: i=end d=end f=end p=end sa=end sp=end da=end dp=end ]
}
";
    assert_eq!(printed, expected);
    let plain = stdout(&run(&["pfctl", "-o", "none", "-nvvf", &path]));
    let kept: String = expected
        .lines()
        .filter(|line| !line.contains("Skip"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert_eq!(plain, kept);
}
