//! `weir bench-lab` as far as it needs no machines: what is wrong is told before one is asked.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use crate::common::{Lab, assert_exit, stderr, stdout, weir};

const CONFIG: &str = r#"
SENDER_ADMIN=gen
RECEIVER_ADMIN=recv
DUT_ADMIN=dut
SENDER_LAB_IF=gen0
RECEIVER_LAB_IF=recv0
DUT_LAB_IF_MAC_SENDER_SIDE=02:00:00:00:02:01
: ${SENDER_LAB_NET:=198.18.0.2:2000}
: ${RECEIVER_LAB_NET:=198.19.0.2:9}
RECEIVER_START_CMD="pkt-gen -f rx -i ${RECEIVER_LAB_IF}"
SENDER_START_CMD="pkt-gen -f tx -i ${SENDER_LAB_IF} -s ${SENDER_LAB_NET} -d ${RECEIVER_LAB_NET}"
"#;

/// Nobody listens there.
const SSH_CONFIG: &str = "Host *\n  HostName 127.0.0.1\n  Port 1\n  User root\n";

/// A folder with a configuration, sets and a configuration of ssh's.
fn lab(config: &str) -> Lab {
    let lab = Lab::new("", &[("bench-lab.config", config), ("ssh_config", SSH_CONFIG)]);
    fs::create_dir_all(lab.path("configs/forwarding/etc")).expect("writable");
    fs::write(lab.path("configs/forwarding/etc/sysctl.conf"), "\n").expect("writable");
    lab
}

/// `weir bench-lab` with more arguments, and nobody to be asked.
fn bench_lab(lab: &Lab, more: &[&str]) -> Output {
    let paths = [lab.arg("bench-lab.config"), lab.arg("out"), lab.arg("ssh_config")];
    let first = ["bench-lab", "-f", &paths[0], "-d", &paths[1], "--ssh-config", &paths[2]];
    let mut command = weir();
    command.args(first).args(more).env_remove("CUSTOM_CMD").output().expect("it starts")
}

/// Refused, with these words, and no folder of results is made.
#[track_caller]
fn assert_refused(lab: &Lab, more: &[&str], words: &[&str]) {
    let output = bench_lab(lab, more);
    assert_exit(&output, 2);
    let said = stderr(&output);
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
    assert!(!lab.path("out").exists(), "a directory was made for a campaign that was refused");
}

#[test]
fn what_is_missing_is_told_with_its_name() {
    let whole = lab(CONFIG);
    let missing = whole.arg("missing");
    assert_refused(&whole, &["-c", &missing], &["missing: No such file"]);
    assert_refused(&whole, &["-p", &missing], &["missing: No such file"]);
    assert_refused(&whole, &["-i", &whole.arg("configs")], &["configs: no image in it"]);
    let without = CONFIG.replace("SENDER_LAB_IF=gen0\n", "");
    assert_refused(&lab(&without), &[], &["bench-lab.config: SENDER_LAB_IF is not set"]);
    fs::remove_file(whole.path("bench-lab.config")).expect("removable");
    assert_refused(&whole, &[], &["bench-lab.config: No such file"]);
    let output = weir().arg("bench-lab").output().expect("it starts");
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("-f <CONFIG>"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let whole = lab(CONFIG);
    assert_refused(&whole, &["-r", "-A"], &["unexpected argument '-A'"]);
    assert_refused(&whole, &["-r", "a b"], &["`a b` is not a mail address"]);
    assert_refused(&whole, &["-n", "0"], &["the least is 1"]);
    assert_refused(&whole, &["-k", "kernels"], &["unexpected argument '-k'"]);
    let short = ["--system", "linux", "--duration", "2s"];
    assert_refused(&whole, &short, &["lab.toml:", "fewer than 5 samples"]);
    let mut command = weir();
    command.args(["bench-lab", "-f", &whole.arg("bench-lab.config"), "-d", &whole.arg("out")]);
    let output = command.env("CUSTOM_CMD", "tcpdump -ni ix0").output().expect("it starts");
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("CUSTOM_CMD is set"), "{}", stderr(&output));
    assert!(!whole.path("out").exists());
}

#[test]
fn a_folder_with_other_things_is_refused_and_left_alone() {
    let whole = lab(CONFIG);
    fs::create_dir(whole.path("out")).expect("writable");
    fs::write(whole.path("out/bench.1.receiver"), "CMD: pkt-gen\n").expect("writable");
    let output = bench_lab(&whole, &["-y"]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("bench.1.receiver") && said.contains("-d"), "{said}");
    assert_eq!(fs::read_dir(whole.path("out")).expect("readable").count(), 1);
}

#[test]
fn machines_that_nobody_reaches_are_told() {
    let whole = lab(CONFIG);
    let words = ["the DUT cannot be asked what it runs", "root@dut", "--system"];
    assert_refused(&whole, &["-y"], &words);
    let output = bench_lab(&whole, &["-y", "--system", "freebsd", "-c", &whole.arg("configs")]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    let failed = said.lines().filter(|line| line.contains("FAILED")).count();
    assert_eq!(failed, 3, "{said}");
    assert!(said.contains("nothing was run") && !whole.path("out").exists(), "{said}");
}

#[test]
fn a_link_of_its_name_is_the_command() {
    let whole = lab(CONFIG);
    for name in ["bench-lab", "bench-lab.sh"] {
        let link = whole.path(name);
        symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("writable");
        let run = |word: &str| {
            let mut command = Command::new(&link);
            command.arg(word).env("NO_COLOR", "1").stdin(Stdio::null());
            command.output().expect("it starts")
        };
        let help = run("-h");
        assert_exit(&help, 0);
        for option in ["-f", "-n", "-c", "-p", "-i", "-d", "-r", "-P", "-S", "-y"] {
            assert!(stdout(&help).contains(&format!(" {option}")), "{option}: {}", stdout(&help));
        }
        assert_exit(&run("--no-such-option"), 2);
    }
}
