//! `weir fw` and `weir pfctl`: what they print, their exit codes, and what they refuse. No
//! privilege, no packets but those of a file.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout, weir};

/// The files in the style of what people run, with the facts of their machine.
fn survey(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-rules/tests/fixtures/survey");
    path.join(name).to_string_lossy().into_owned()
}

/// A directory with files.
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

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).expect("one JSON object")
}

#[test]
fn all_errors_are_told_in_one_run() {
    let files = Files::new(&[(
        "pf.conf",
        "set skip on lo\nblock al\npass in on $ext_if proto tcp to port 80\npass in qiuck\n",
    )]);
    let path = files.path("pf.conf");
    let output = run(&["fw", "check", &path]);
    assert_exit(&output, 1);
    let message = stderr(&output);
    for line in [2, 3, 4] {
        assert!(message.contains(&format!("{path}:{line}:")), "{message}");
    }
    assert!(message.contains("did you mean `quick`?"), "{message}");
    assert!(stdout(&output).starts_with(&format!("{path}: refused (")), "{}", stdout(&output));

    let output = run(&["fw", "check", "--json", &path]);
    assert_exit(&output, 1);
    assert_eq!(stderr(&output), "");
    let answer = json(&output);
    assert_eq!(answer["error_count"], 3);
    let last = &answer["files"][0]["diagnostics"][2];
    assert_eq!((&last["line"], &last["column"]), (&4.into(), &9.into()));
    assert_eq!(last["suggestion"]["replacement"], "quick");
    assert_eq!(last["end_column"], 14);
}

#[test]
fn exit_codes_tell_good_from_bad_from_unreadable() {
    let files = Files::new(&[
        ("good.conf", "set block-policy return\npass in on lo inet from lo to any\n"),
        ("late.conf", "pass in on nowhere9\n"),
        ("bad.conf", "pas\n"),
    ]);
    let (good, late, bad) =
        (files.path("good.conf"), files.path("late.conf"), files.path("bad.conf"));
    let output = run(&["fw", "check", &good]);
    assert_exit(&output, 0);
    assert_eq!(stderr(&output), "");
    // What may come later is a warning.
    assert_exit(&run(&["fw", "check", &late]), 0);
    assert_exit(&run(&["fw", "check", "--deny", "warnings", &late]), 1);
    assert_exit(&run(&["fw", "check", &good, &bad]), 1);
    let missing = files.path("missing.conf");
    let output = run(&["fw", "check", &missing, &bad]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("cannot read"), "{}", stderr(&output));
    assert!(stdout(&output).contains("bad.conf: refused"), "{}", stdout(&output));
    // The facts say what is there; a wrong file of them is refused.
    let facts = Files::new(&[("facts", "interface nowhere9\n"), ("wrong", "\ninterfaze a\n")]);
    let arguments = ["fw", "check", "--deny", "warnings", "--facts"];
    assert_exit(&run(&[&arguments[..], &[&facts.path("facts"), &late]].concat()), 0);
    let output = run(&[&arguments[..], &[&facts.path("wrong"), &late]].concat());
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("wrong:2: "), "{}", stderr(&output));
}

#[test]
fn macros_includes_and_standard_input() {
    let files = Files::new(&[
        (
            "pf.conf",
            "ext = \"lo\"\ninclude \"more.conf\"\ntable <t> file \"t.txt\"\npass on $ext\n",
        ),
        ("more.conf", "block in from <t>\n"),
        ("t.txt", "192.0.2.1\n!192.0.2.2 # no\n"),
    ]);
    let output = run(&["fw", "print", &files.path("pf.conf")]);
    assert_exit(&output, 0);
    assert!(stdout(&output).contains("block drop in from <t> to any\n"), "{}", stdout(&output));
    assert!(stdout(&output).contains("pass on lo all flags S/SA keep state\n"));
    let output = run(&["fw", "print", "-D", "ext=dummy7", &files.path("pf.conf")]);
    assert!(stdout(&output).contains("pass on dummy7 all"), "{}", stdout(&output));

    let mut child = weir()
        .args(["fw", "check", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(b"pass\nblokc\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_exit(&output, 1);
    assert!(stderr(&output).starts_with("stdin:2:1: error: "), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("stdin: refused ("), "{}", stdout(&output));
}

#[test]
fn rules_are_printed_as_by_pfctl() {
    let (path, facts) = (survey("01-home-router.freebsd.conf"), survey("machine.facts"));
    let expected = fs::read_to_string(survey("01-home-router.freebsd.ok")).expect("readable");
    let printed = run(&["fw", "print", "--facts", &facts, &path]);
    assert_exit(&printed, 0);
    assert_eq!(stdout(&printed), expected);

    let facts = format!("--facts={facts}");
    let pfctl = run(&["pfctl", "-o", "none", &facts, "-nvf", &path]);
    assert_exit(&pfctl, 0);
    assert_eq!(stdout(&pfctl), expected);
    assert_eq!(stderr(&pfctl), "");
    assert_eq!(stdout(&run(&["pfctl", "-o", "none", &facts, "-nf", &path])), "");

    // It is FreeBSD's, whatever the words look like.
    let files = Files::new(&[("pf.conf", "match in all scrub (no-df)\npass quick\n")]);
    let path_of_both = files.path("pf.conf");
    let output = run(&["pfctl", "-onone", "-nvf", &path_of_both]);
    assert!(stdout(&output).ends_with("pass quick all flags S/SA keep state\n"));
    let output = run(&["pfctl", "-onone", "--dialect=openbsd", "-nvf", &path_of_both]);
    assert!(stdout(&output).ends_with("pass quick all flags S/SA\n"), "{}", stdout(&output));

    let translation = stdout(&run(&["pfctl", "-onone", &facts, "-nvNf", &path]));
    assert!(translation.contains("nat on em0") && !translation.contains("pass"), "{translation}");
    let numbered = stdout(&run(&["pfctl", "-onone", "-P", &facts, "-nvvf", &path]));
    assert!(numbered.contains("@8 pass out on em0 proto tcp from any to any port = 22 "));
}

#[test]
fn rules_name_the_lines_they_come_from() {
    let (path, facts) = (survey("09-jails.freebsd.conf"), survey("machine.facts"));
    let output = run(&["fw", "print", "--expanded", "--facts", &facts, &path]);
    assert_exit(&output, 0);
    let text = stdout(&output);
    let line = "jails: @1 pass in inet proto tcp from 10.0.0.2 to 10.0.0.3 port = postgresql \
                flags S/SA keep state  # ";
    assert!(text.contains(&format!("{line}{path}:19\n")), "{text}");
    let output = run(&["fw", "print", "--json", "--facts", &facts, &path]);
    let answer = json(&output);
    let rules = answer["rules"].as_array().expect("a list");
    assert_eq!(rules[0]["list"], "scrub");
    assert!(rules.iter().any(|rule| rule["anchor"] == "jails/www" && rule["line"] == 22));
}

#[test]
fn pfctl_has_its_own_form_and_exit_codes() {
    let files = Files::new(&[("pf.conf", "pass\npas in\n")]);
    let path = files.path("pf.conf");
    let output = run(&["pfctl", "-nf", &path]);
    assert_exit(&output, 1);
    let message = stderr(&output);
    let mut lines = message.lines();
    assert!(lines.next().unwrap_or("").starts_with(&format!("{path}:2: ")), "{message}");
    assert_eq!(lines.next(), Some("pfctl: Syntax error in config file: pf rules not loaded"));
    for (arguments, code, words) in [
        (&["-ne", "-f", "x"][..], 2, "-e is for a running firewall, which -n does not talk to"),
        (&["-sr", "-n", "-f", &path], 2, "-s is for a running firewall"),
        (&["-z"], 2, "-z clears counters of rules"),
        (&["-w"], 1, "illegal option -- w"),
        (&["-nf", "/nonexistent"], 1, "/nonexistent: No such file or directory"),
    ] {
        let output = run(&[&["pfctl"], arguments].concat());
        assert_exit(&output, code);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
}

#[test]
fn a_symbolic_link_named_pfctl_is_pfctl() {
    let files = Files::new(&[("pf.conf", "pass\n")]);
    let link = PathBuf::from(files.path("pfctl"));
    symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("a link");
    let output = Command::new(&link)
        .args(["-o", "none", "-nvf", &files.path("pf.conf")])
        .output()
        .expect("the binary starts");
    assert_exit(&output, 0);
    assert_eq!(stdout(&output), "pass all flags S/SA keep state\n");
    let output = Command::new(&link).arg("--help").output().expect("the binary starts");
    assert!(stdout(&output).contains("Examples:"));
}

#[test]
fn rulesets_are_converted_or_refused() {
    let facts = survey("machine.facts");
    let path = survey("01-home-router.freebsd.conf");
    let output = run(&["fw", "convert", "--to", "openbsd", "--facts", &facts, &path]);
    assert_exit(&output, 0);
    let text = stdout(&output);
    let line = "match out on $ext_if inet from $localnet to any nat-to ($ext_if)\n";
    assert!(text.contains(line) && text.contains("# A home router"), "{text}");
    // What was written is read again, and goes back.
    let files = Files::new(&[("pf.conf", &text)]);
    let back = ["fw", "convert", "--to", "freebsd", "--dialect", "openbsd", "--facts", &facts];
    let output = run(&[&back[..], &[&files.path("pf.conf"), "--json"]].concat());
    assert_exit(&output, 0);
    let answer = json(&output);
    let nat = "nat on $ext_if inet from $localnet to any -> ($ext_if)";
    assert!(answer["text"].as_str().unwrap_or("").contains(nat), "{answer}");
    assert!(answer["changes"].as_array().is_some_and(|changes| !changes.is_empty()), "{answer}");

    let path = survey("18-vlans.freebsd.conf");
    let output = run(&["fw", "convert", "--to", "openbsd", "--facts", &facts, &path]);
    assert_exit(&output, 2);
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains(":10:1: error: "), "{}", stderr(&output));
}

#[test]
fn packets_are_explained() {
    let (path, facts) = (survey("09-jails.freebsd.conf"), survey("machine.facts"));
    let words = "in on lo1 tcp 10.0.0.2:40000 > 10.0.0.3:5432 S";
    let explain = ["fw", "explain", &path, "--facts", &facts];
    let output = run(&[&explain[..], &["--packet", words]].concat());
    assert_exit(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("verdict: pass by @1 of anchor `jails`"), "{text}");
    assert!(text.contains("no: the packet is on lo1, the rule is for vtnet0"), "{text}");

    let output = run(&[&explain[..], &["--packet", words, "--json"]].concat());
    let answer = json(&output);
    assert_eq!(answer["decision"], "pass");
    let steps = answer["steps"].as_array().expect("a list");
    let winner = steps.iter().find(|step| step["wins"] == true).expect("one decides");
    assert_eq!((&winner["anchor"], &winner["line"]), (&"jails".into(), &19.into()));
    assert!(steps.iter().any(|step| step["criterion"] == "on" && step["why"].is_string()));

    let output =
        run(&[&explain[..], &["--packet", "in on lo1 tcp 10.0.0.2:x > 10.0.0.3:1"]].concat());
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("^^^"), "{}", stderr(&output));
    assert_exit(&run(&explain), 2);
}

#[test]
fn a_loaded_anchor_and_a_capture_file_are_read() {
    let files = Files::new(&[
        ("pf.conf", "block\nanchor \"own\" in\nload anchor \"own\" from \"own.conf\"\n"),
        ("own.conf", "table <good> { 198.18.10.1 }\npass in proto udp from <good> to any\n"),
        ("facts", "interface em0\n"),
    ]);
    let (trace, facts) = (files.path("trace.pcap"), files.path("facts"));
    let backend = format!("pcap:{trace}");
    let output = run(&[
        "gen",
        "--backend",
        &backend,
        "--dst-mac",
        "02:00:00:00:00:01",
        "--src",
        "198.18.10.1:2000-198.18.10.2:2000",
        "--dst",
        "198.19.10.1:2000",
        "--count",
        "4",
    ]);
    assert_exit(&output, 0);
    let explain = ["fw", "explain", &files.path("pf.conf"), "--facts", &facts];
    let output = run(&[&explain[..], &["--pcap", &trace, "--on", "em0", "--json"]].concat());
    assert_exit(&output, 0);
    let text = stdout(&output);
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 4);
    let passed: Vec<_> = lines.iter().filter(|line| line["decision"] == "pass").collect();
    assert_eq!(passed.len(), 2, "{text}");
    let steps = passed[0]["steps"].as_array().expect("a list");
    let winner = steps.iter().find(|step| step["wins"] == true).expect("one decides");
    assert_eq!(winner["anchor"], "own");
    assert_eq!(winner["rule"], "pass in proto udp from <good> to any keep state");
    let output =
        run(&[&explain[..], &["--pcap", &trace, "--on", "em0", "--brief", "--out"]].concat());
    assert_eq!(stdout(&output).matches(": block by @0 (").count(), 4, "{}", stdout(&output));
}

/// Constructs that no version runs yet, an error, and what is fine.
const HALF_RUNS: &str = "\
ext = \"lo\"
queue q bandwidth 1Mb cbq(default rio)
nat on $ext from 10.0.0.0/8 to any rtable 2 -> 192.0.2.1
block al
pass in on $ext proto tcp to port 22 rtable 1
pass out from route \"uplink\"
";

#[test]
fn check_says_what_run_says() {
    let files = Files::new(&[("pf.conf", HALF_RUNS), ("weir.conf", "set hashsize 1024\npass\n")]);
    let path = files.path("pf.conf");
    let checked = run(&["fw", "check", &path]);
    assert_exit(&checked, 1);
    let message = stderr(&checked);
    for place in ["3:1", "4:7", "5:1", "6:1"] {
        let line = format!("{path}:{place}: error: ");
        assert!(message.contains(&line), "{line}: {message}");
    }
    assert!(message.contains(&format!("{path}:2:")) && !message.contains("warning"), "{message}");
    assert!(message.contains("\n  in: nat on $ext from 10.0.0.0/8"), "{message}");
    let ran = run(&["fw", "run", "--foreground", "-f", &path]);
    assert_exit(&ran, 2);
    assert_eq!(stderr(&ran), message, "the same list, places and words");

    // For the system whose file it is, only the error is one.
    let checked = run(&["fw", "check", "--for", "freebsd", &path]);
    assert_exit(&checked, 1);
    assert_eq!(stderr(&checked).matches(": error: ").count(), 1, "{}", stderr(&checked));
    assert!(!stderr(&checked).contains("weir"), "{}", stderr(&checked));
    let checked = run(&["fw", "check", "--for", "openbsd", "--dialect", "freebsd", &path]);
    assert_exit(&checked, 2);
    // And no pf has weir's words.
    let path = files.path("weir.conf");
    assert_exit(&run(&["fw", "check", &path]), 0);
    let checked = run(&["fw", "check", "--for", "openbsd", &path]);
    assert_exit(&checked, 1);
    assert!(stderr(&checked).contains(":1:1: error: `set hashsize` is weir's own"));
}

/// Sizes that cannot be, more tags than states can keep, and an anchor's file with what is refused.
fn too_large() -> String {
    let tags: String = (0..16).map(|number| format!("pass in tag t{number}\n")).collect();
    format!("set limit frags 2000000\n{tags}")
}

#[test]
fn check_says_what_only_the_whole_shows() {
    let files = Files::new(&[
        ("pf.conf", &too_large()),
        ("main.conf", "anchor ftp\nload anchor ftp from \"ftp.conf\"\n"),
        ("ftp.conf", "pass\npass in on em0 dnpipe 1\n"),
    ]);
    for (name, lines) in [("pf.conf", ["1:1", "2:1"].as_slice()), ("main.conf", &[])] {
        let path = files.path(name);
        let checked = run(&["fw", "check", &path]);
        assert_exit(&checked, 1);
        let message = stderr(&checked);
        for place in lines {
            assert!(message.contains(&format!("{path}:{place}: error: ")), "{place}: {message}");
        }
        assert_eq!(message.contains("ftp.conf:2:1: error: "), lines.is_empty(), "{message}");
        let ran = run(&["fw", "run", "--foreground", "-f", &path]);
        assert_exit(&ran, 2);
        for line in message.lines().filter(|line| line.contains(": error: ")) {
            assert!(stderr(&ran).contains(line), "{line}: {}", stderr(&ran));
        }
    }
}

/// As pfctl, which reads those files also with `-n`.
#[test]
fn a_file_of_an_anchor_that_is_not_there_is_named() {
    let text = "block\nanchor foo\nload anchor foo from \"/nonexistent/x\"\n";
    let files = Files::new(&[
        ("pf.conf", text),
        (
            "wrong.conf",
            "anchor foo\nload anchor foo from \
         \"rules.conf\"\n",
        ),
        ("rules.conf", "pass\npas\n"),
        (
            "list.conf",
            "table <t> { lo9 10/8 }\n\
         block in from <t>\n",
        ),
    ]);
    let path = files.path("pf.conf");
    let line =
        format!("{path}:3:1: error: cannot read `/nonexistent/x`: No such file or directory");
    for (words, code) in
        [(["fw", "check"].as_slice(), 1), (&["fw", "run", "--foreground", "-f"], 2)]
    {
        let refused = run(&[words, &[&path]].concat());
        assert_exit(&refused, code);
        let message = stderr(&refused);
        assert_eq!(message.matches("/nonexistent/x").count(), 1, "{message}");
        assert!(message.contains(&line), "{message}");
    }
    let tried = run(&["pfctl", "-nf", &path]);
    assert_exit(&tried, 1);
    let line =
        format!("{path}:3: /nonexistent/x: No such file or directory\npfctl: load anchors\n");
    assert_eq!(stderr(&tried), line);
    let tried = run(&["pfctl", "-nf", &files.path("wrong.conf")]);
    assert_exit(&tried, 1);
    assert!(stderr(&tried).contains("rules.conf:2: "), "{}", stderr(&tried));
    // A name in a table's list is as one in a rule.
    let checked = run(&["fw", "check", &files.path("list.conf")]);
    assert_exit(&checked, 0);
    let message = stderr(&checked);
    assert!(message.contains(":1:13: warning: no address is known for `lo9`"), "{message}");
    assert!(!message.contains("cannot be read"), "{message}");
}

#[test]
fn host_names_are_asked_for_where_that_is_right() {
    // A label of 64 letters is no name: no server is asked for it.
    let nobody = format!("{}.example", "a".repeat(64));
    let files = Files::new(&[
        ("facts", "interface em0 192.0.2.1/24\n"),
        ("local.conf", "pass in from localhost\n"),
        ("nobody.conf", &format!("pass in from {nobody}\npass in from em7:network\n")),
    ]);
    let [facts, local] = ["facts", "local.conf"].map(|name| files.path(name));
    let found = run(&["fw", "print", "--facts", &facts, "--resolve", &local]);
    assert_exit(&found, 0);
    assert!(stdout(&found).contains("from 127.0.0.1 to any"), "{}", stdout(&found));
    let unasked = run(&["fw", "check", "--facts", &facts, &local]);
    assert_exit(&unasked, 0);
    let message = stderr(&unasked);
    assert!(message.contains(":1:14: warning: no address is known for `localhost`"), "{message}");
    assert!(message.contains("no name server was asked"), "{message}");
    assert_exit(&run(&["fw", "check", "--facts", &facts, "--resolve", &local]), 0);

    let path = files.path("nobody.conf");
    let unasked = run(&["fw", "check", &path]);
    assert_exit(&unasked, 1);
    let message = stderr(&unasked);
    assert!(!message.contains(&format!("{path}:1:1: error: ")), "{message}");
    let line = format!("{path}:2:1: error: no address is known for `em7:network`");
    assert!(message.contains(&line), "{message}");
    let checked = run(&["fw", "check", "--resolve", &path]);
    assert_exit(&checked, 1);
    let message = stderr(&checked);
    assert!(message.contains(&format!("{path}:1:1: error: no address is known")), "{message}");
    assert!(message.contains("the system's resolver was asked: "), "{message}");
    let ran = run(&["fw", "run", "--foreground", "-f", &path]);
    assert_exit(&ran, 2);
    assert_eq!(stderr(&ran), message, "the same list, places and words");
}

#[test]
fn numbers_that_are_no_whole_address_are_not_made_one() {
    let files = Files::new(&[
        ("facts", "interface em0 192.0.2.1/24\n"),
        ("loose", "10.0.0.1\n192.168.1\n010.0.0.1\n12345\n"),
        ("hex.conf", "pass in from 0x7f.1\n"),
    ]);
    let loose = files.path("loose");
    let text = format!("table <t> persist file \"{loose}\"\nblock in from <t>\n");
    let more = Files::new(&[("pf.conf", &text)]);
    let facts = files.path("facts");
    let lists = [
        (more.path("pf.conf"), ["192.168.1", "010.0.0.1", "12345"].as_slice()),
        (files.path("hex.conf"), &["0x7f.1"]),
    ];
    for (path, words) in lists {
        let checked = run(&["fw", "check", "--facts", &facts, "--resolve", &path]);
        assert_exit(&checked, 1);
        let message = stderr(&checked);
        for word in words {
            let why = format!("`{word}` is neither a whole address nor a name");
            assert!(message.contains(&why), "{word}: {message}");
        }
    }
}

#[test]
fn entries_of_tables_are_counted_over_the_files_of_anchors() {
    let main = |limit: u32| {
        format!(
            "table <a> {{ 10.0.0.1 10.0.0.2 }}\nset limit table-entries {limit}\n\
             block in from <a>\nanchor ftp\nload anchor ftp from \"ftp.conf\"\n"
        )
    };
    let files = Files::new(&[
        ("pf.conf", &main(3)),
        ("enough.conf", &main(4)),
        ("ftp.conf", "table <b> { 10.0.0.3 10.0.0.4 }\nblock in from <b>\n"),
    ]);
    assert_exit(&run(&["fw", "check", &files.path("enough.conf")]), 0);
    let path = files.path("pf.conf");
    let checked = run(&["fw", "check", &path]);
    assert_exit(&checked, 1);
    let message = stderr(&checked);
    let line = format!("{path}:2:1: error: 4 entries of tables are more than `set limit table-");
    assert!(message.contains(&line), "{message}");
    let ran = run(&["fw", "run", "--foreground", "-f", &path]);
    assert_exit(&ran, 2);
    assert!(stderr(&ran).contains(&line), "{}", stderr(&ran));
}

/// A text with the parameters of a DUT, and the first value of each sweep, in place of their names.
fn filled(text: &str, lab: &toml::Table, dut: &toml::Value) -> String {
    let sweeps = lab.get("sweep").and_then(toml::Value::as_array).into_iter().flatten();
    let sweeps = sweeps.map(|sweep| {
        let value = sweep["values"][0].to_string();
        // A count is filled in as digits.
        let count = weir_wire::units::parse_count(value.trim_matches('"'));
        (sweep["name"].to_string(), count.map_or(value, |count| count.to_string()))
    });
    let parameters = dut.get("parameters").and_then(toml::Value::as_table).into_iter().flatten();
    let parameters = parameters.map(|(name, value)| (name.clone(), value.to_string()));
    sweeps.chain(parameters).fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{}}}", name.trim_matches('"')), value.trim_matches('"'))
    })
}

#[test]
fn the_rulesets_of_the_labs_are_right() {
    let labs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let folders = fs::read_dir(&labs).expect("a directory").map(|entry| entry.expect("one").path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
    let files = files.map(|entry| entry.expect("one").path());
    let dir = tempfile::tempdir().expect("a directory");
    let mut checked = Vec::new();
    for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")) {
        let lab: toml::Table =
            fs::read_to_string(&file).expect("readable").parse().expect("it is TOML");
        let duts = lab.get("dut").and_then(toml::Value::as_array).into_iter().flatten();
        for dut in duts.filter(|dut| dut["kind"].as_str() == Some("weir-fw")) {
            let rules = file.with_file_name(dut["files"]["pf"].as_str().expect("a name"));
            let rules = fs::read_to_string(rules).expect("readable");
            let conf = dir.path().join("pf.conf");
            fs::write(&conf, filled(&rules, &lab, dut)).expect("writable");
            let output = run(&["fw", "check", conf.to_str().expect("a path")]);
            assert_eq!(output.status.code(), Some(0), "{}: {}", file.display(), stderr(&output));
            checked.push(file.clone());
        }
    }
    assert!(checked.len() >= 7, "{checked:?}");
}
