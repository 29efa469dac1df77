//! What `weir fw` and `weir pfctl` do with input that is not as it should be: no file, a directory,
//! bytes that are no text, other ends of lines, nothing, too much.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::common::{assert_exit, run, stderr, stdout, weir};

const PACKET: &str = "in on em0 tcp 1.2.3.4:1 > 192.0.2.1:22";

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        fs::write(&path, bytes).expect("writable");
        path
    }
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = weir()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).expect("it reads");
    drop(pipe);
    child.wait_with_output().expect("it ends")
}

/// The commands that take one file, with what else they need.
fn commands(file: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["fw", "check", file],
        vec!["fw", "print", file],
        vec!["fw", "convert", "--to", "openbsd", file],
        vec!["fw", "explain", file, "--packet", PACKET],
    ]
}

#[test]
fn what_cannot_be_read_is_named_with_the_cause() {
    let files = Files::new();
    fs::create_dir(files.path("directory")).expect("a directory");
    for (name, cause) in [("directory", "Is a directory"), ("missing", "No such file or directory")]
    {
        let path = files.path(name);
        for command in commands(&path) {
            let output = run(&command);
            assert_exit(&output, 2);
            assert!(stderr(&output).contains(&format!("{path}: {cause}")), "{}", stderr(&output));
            assert_eq!(stdout(&output), "", "{command:?}");
        }
        let output = run(&["pfctl", "-nvf", &path]);
        assert_exit(&output, 1);
        assert_eq!(stderr(&output), format!("pfctl: {path}: {cause}\n"));
        // Beside other files, and of those that other options name.
        let good = files.write("good.conf", "pass\n");
        for option in ["--facts", "--profile"] {
            let level = if option == "--profile" { &["-o", "profile"][..] } else { &[] };
            let output = run(&[&["fw", "print", option, &path, &good], level].concat());
            assert_exit(&output, 2);
            let message = stderr(&output);
            assert!(message.contains(&path) && message.contains(cause), "{message}");
        }
        let output = run(&["fw", "check", "--json", &path, &good]);
        assert_exit(&output, 2);
        let answer: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
        assert_eq!(answer["unreadable"][0]["file"], *path);
        assert_eq!(answer["files"][0]["file"], *good);
    }
}

#[test]
fn every_command_reads_standard_input() {
    for command in commands("-") {
        let output = with_input(&command, "pass in on em0\n");
        assert_exit(&output, 0);
        let output = with_input(&command, "pass in\nblok\n");
        assert_exit(&output, if command[1] == "check" { 1 } else { 2 });
        assert!(stderr(&output).contains("stdin:2:1: error: "), "{}", stderr(&output));
    }
    let output = with_input(&["pfctl", "-onone", "-nvf", "-"], "pass in\n");
    assert_exit(&output, 0);
    assert_eq!(stdout(&output), "pass in all flags S/SA keep state\n");
}

#[test]
fn odd_texts_are_read_as_what_they_are() {
    let files = Files::new();
    let print = |bytes: &[u8]| {
        let output = run(&["fw", "print", &files.write("odd.conf", bytes)]);
        assert_exit(&output, 0);
        stdout(&output)
    };
    assert_eq!(print(b""), "");
    assert_eq!(print(b"\n\n# nothing\n"), "");
    let rules =
        "pass in proto tcp from any to any port = ssh flags S/SA keep state\nblock drop out all\n";
    let text = "pass in \\\n  proto tcp to port 22 # Z\u{fc}rich\nblock out";
    assert_eq!(print(text.as_bytes()), rules);
    assert_eq!(print(text.replace('\n', "\r\n").as_bytes()), rules);
    // Bytes that are no UTF-8, in a comment.
    assert_eq!(print(&[text.as_bytes(), b" # caf\xe9\n"].concat()), rules);
    let output = run(&["fw", "check", &files.write("odd.conf", b"pass \xff\xfe\x00 in\n")]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("odd.conf:1:6: error: "), "{}", stderr(&output));
}

#[test]
fn too_much_is_refused_with_the_numbers() {
    let files = Files::new();
    let list = |first: u8| {
        let hosts =
            (0..1001_u16).map(|number| format!("10.{first}.{}.{}", number >> 8, number & 255));
        format!("{{ {} }}", hosts.collect::<Vec<_>>().join(" "))
    };
    let path = files.write("lists.conf", format!("pass\npass from {} to {}\n", list(1), list(2)));
    let output = run(&["fw", "check", &path]);
    assert_exit(&output, 1);
    let spelled = "limit of 1000000: 1001 sources × 1001 destinations = 1002001 rules, after 1";
    assert!(stderr(&output).contains("lists.conf:2:1: error: "), "{}", stderr(&output));
    assert!(stderr(&output).contains(spelled), "{}", stderr(&output));

    let path = files.write("a.conf", "include \"b.conf\"\n");
    files.write("b.conf", "include \"a.conf\"\n");
    let output = run(&["fw", "check", &path]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("includes itself"), "{}", stderr(&output));
    assert!(stderr(&output).contains("b.conf"), "{}", stderr(&output));
}

#[test]
fn a_large_table_is_read_and_asked() {
    let files = Files::new();
    let entries: String = (0..1_000_000_u32)
        .map(|number| format!("10.{}.{}.{}\n", number >> 16, number >> 8 & 255, number & 255))
        .collect();
    files.write("big.table", entries);
    let rules = "set limit table-entries 2000000\ntable <big> file \"big.table\"\n\
                 pass\nblock in from <big>\n";
    let path = files.write("pf.conf", rules);
    let inside = PACKET.replace("1.2.3.4", "10.15.66.63");
    let outside = PACKET.replace("1.2.3.4", "10.15.66.64");
    let words = ["fw", "explain", &path, "--brief", "--packet", &inside, "--packet", &outside];
    let output = run(&words);
    assert_exit(&output, 0);
    let text = stdout(&output);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(": block by @1") && lines[1].contains(": pass by @0"), "{text}");
}

/// With `CLICOLOR_FORCE`, errors are in colour also where no terminal is; `NO_COLOR` comes first.
#[test]
fn output_has_no_colours_where_none_are_wanted() {
    for variables in [&[("NO_COLOR", "1")][..], &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]] {
        let mut command = weir();
        command.args(["fw", "check", "/nonexistent/pf.conf"]).env_remove("NO_COLOR");
        let output = command.envs(variables.iter().copied()).output().expect("the binary starts");
        assert_exit(&output, 2);
        assert!(!output.stderr.contains(&0x1b), "{variables:?}: {}", stderr(&output));
    }
}
