//! Campaigns written as a bench-lab.config, run unchanged on three machines behind SSH.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::hosts::{assert_a_boot_each, machines, on};
use super::ssh_hosts::{SshHosts, skipped};
use crate::common::{assert_exit, lost_nothing, run, stderr, stdout, trials, weir};

/// The addresses that the configuration has for the DUT's interfaces.
const DUT_MACS: [(&str, &str); 2] = [("dut0", "02:00:00:00:02:01"), ("dut1", "02:00:00:00:02:02")];

/// The example.
fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/bench-lab");
    root.join(name).canonicalize().expect("an example").to_string_lossy().into_owned()
}

/// The machines as the configuration describes them, with a pkt-gen on two of them.
fn lab(test: &str) -> Option<SshHosts> {
    let hosts = machines(test)?;
    for (interface, mac) in DUT_MACS {
        on(&hosts, "dut", &format!("ip link set {interface} address {mac}"));
    }
    on(&hosts, "dut", "ethtool -K dut0 gro on");
    for machine in ["gen", "recv"] {
        let link = hosts.host(machine).path("/usr/local/bin/pkt-gen");
        symlink("/opt/weir/weir", link).expect("writable");
    }
    Some(hosts)
}

/// The command line of the example, in short trials.
fn words(hosts: &SshHosts, results: &Path) -> Vec<String> {
    let (config, results) = (example("bench-lab.config"), results.to_string_lossy().into_owned());
    let (configs, ssh) = (example("configs"), hosts.config());
    let words = ["-f", &config, "-c", &configs, "-d", &results, "--ssh-config", &ssh];
    let times = ["-n", "2", "-y", "--warmup", "1s", "--duration", "5s"];
    words.into_iter().chain(times).map(str::to_owned).collect()
}

/// Runs `weir bench-lab`.
fn bench_lab(dir: &Path, words: &[String]) -> Output {
    run_with_mail(dir, weir().arg("bench-lab").args(words))
}

/// Runs a command with a `mail` that keeps what it is given in `DIR/mail`.
fn run_with_mail(dir: &Path, command: &mut Command) -> Output {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).expect("writable");
    let script = format!("#!/bin/sh\n{{ echo \"$@\"; cat; }} >>{}/mail\n", dir.display());
    let mail = bin.join("mail");
    fs::write(&mail, script).expect("writable");
    fs::set_permissions(&mail, fs::Permissions::from_mode(0o755)).expect("own file");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.env("PATH", path).output().expect("it starts")
}

/// The names of the files that bench-lab-ministat.sh would have written.
fn netbenches(results: &Path) -> Vec<String> {
    let entries = fs::read_dir(results.join("netbenches")).expect("a directory").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Every finished cell: its name, its verdict, and what that rests on.
fn cells(results: &Path) -> Vec<String> {
    let describe = |trial: &Value| {
        let (verdict, ledger) = (&trial["verdict"], &trial["ledger"]);
        let (series, kind) = (trial["series"].as_str(), verdict["kind"].as_str());
        let (series, kind) = (series.expect("a name"), kind.expect("a kind"));
        format!("{series}/{} {kind} {} {ledger}", trial["iteration"], verdict["reason"])
    };
    trials(results).iter().map(|(_, trial)| describe(trial)).collect()
}

#[test]
fn a_bench_lab_config_runs_unchanged_and_ends_with_its_files_and_a_report() {
    let name = "a_bench_lab_config_runs_unchanged_and_ends_with_its_files_and_a_report";
    let Some(hosts) = lab(name) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let results = dir.path().join("results");
    let mut words = words(&hosts, &results);
    words.extend(["-p", &example("pktgen"), "-r", "ops@example.org"].map(str::to_owned));
    let ran = bench_lab(dir.path(), &words);
    let said = stderr(&ran);
    let cells = cells(&results);
    assert_eq!(cells.len(), 8, "{said}\n{cells:#?}");
    let whole = |cell: &String| cell.split_whitespace().any(lost_nothing);
    assert!(cells.iter().all(whole), "{cells:#?}");
    // Both sides of the DUT were found by their addresses.
    for point in ["dut_received", "dut_forwarded"] {
        assert!(cells.iter().all(|cell| cell.contains(point)), "{point}: {cells:#?}");
    }
    assert_exit(&ran, 0);
    for row in ["generator  sender", "receiver   receiver", "dut        dut", "8 cells"] {
        assert!(said.contains(row), "{row}: {said}");
    }
    assert_a_boot_each(&hosts, &results, 8);
    assert_eq!(
        netbenches(&results),
        [
            "forwarding.100flows.pps",
            "forwarding.4flows.pps",
            "gnuplot.data",
            "nft.100flows.pps",
            "nft.4flows.pps"
        ]
    );
    let medians = fs::read_to_string(results.join("netbenches/nft.4flows.pps")).expect("medians");
    let medians: Vec<f64> = medians.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(medians.len() == 2 && medians.iter().all(|pps| *pps > 1_000.0), "{medians:?}");
    let specification = fs::read_to_string(results.join("lab.toml")).expect("a specification");
    assert!(specification.contains("system = \"linux\""), "{specification}");
    let report = fs::read_to_string(results.join("report.html")).expect("a report");
    assert!(report.contains("nft.4flows") && report.contains("generator-bound"));
    let mail = fs::read_to_string(dir.path().join("mail")).expect("a mail");
    let head = format!("-s Benchs {} done ops@example.org\n", results.display());
    assert!(mail.starts_with(&head) && mail.contains("nft.4flows"), "{mail}");

    // Another call, under the script's own name, has nothing left to do.
    let link = dir.path().join("bench-lab.sh");
    symlink(env!("CARGO_BIN_EXE_weir"), &link).expect("writable");
    let again = run_with_mail(dir.path(), Command::new(&link).args(&words).stdin(Stdio::null()));
    assert_exit(&again, 0);
    assert!(stderr(&again).contains("finished runs are not repeated"), "{}", stderr(&again));
    assert!(stdout(&again).contains("nft.4flows"), "{}", stdout(&again));
    assert_a_boot_each(&hosts, &results, 8);
    assert_eq!(trials(&results).len(), 8);
    assert_exit(&run(&["lab", "report", &results.to_string_lossy()]), 0);

    refuses_what_it_would_take_back(dir.path(), &words);
    assert_a_boot_each(&hosts, &results, 8);
    assert_eq!(trials(&results).len(), 8);
}

/// Fewer iterations than there are, and sets of another campaign.
fn refuses_what_it_would_take_back(dir: &Path, words: &[String]) {
    let fewer: Vec<String> = words.iter().map(|w| if w == "2" { "1" } else { w }.into()).collect();
    let refused = bench_lab(dir, &fewer);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("never discarded"), "{}", stderr(&refused));
    let without: Vec<String> = words.iter().take(words.len() - 4).cloned().collect();
    let refused = bench_lab(dir, &without);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("figures of other sets"), "{}", stderr(&refused));
}

/// netmap's pkt-gen, as far as signals go: it answers SIGINT with its total, and dies of SIGTERM.
/// SIGINT comes to the group, and so to the child itself.
const DIES_OF_SIGTERM: &str = "#!/bin/bash
/opt/weir/weir pkt-gen \"$@\" &
child=$!
trap 'kill -KILL $child; exit 143' TERM
trap : INT
while kill -0 $child 2>/dev/null; do wait $child; done
";

#[test]
fn senders_that_one_line_would_kill_are_asked_for_their_totals_before() {
    let name = "senders_that_one_line_would_kill_are_asked_for_their_totals_before";
    let Some(hosts) = lab(name) else { return };
    let sender = hosts.host("gen").path("/usr/local/bin/pkt-gen");
    fs::remove_file(&sender).expect("a link");
    fs::write(&sender, DIES_OF_SIGTERM).expect("writable");
    fs::set_permissions(&sender, fs::Permissions::from_mode(0o755)).expect("own file");
    let settings = fs::read(example("configs/forwarding/etc/sysctl.conf")).expect("readable");
    fs::write(hosts.dut().path("/etc/sysctl.conf"), settings).expect("writable");
    // It does die of it.
    let dies = "pkt-gen -f tx -i gen0 -w 0 -n 0 -R 10 -s 198.18.0.2 -d 198.19.0.2 \
                >/tmp/said 2>&1 & \
                timeout 60 sh -c 'until grep -qs Ready /tmp/said; do sleep 0.1; done' \
                || echo mute; \
                pkill pkt-gen && wait; grep -c ^Sent /tmp/said; :";
    assert_eq!(on(&hosts, "gen", dies), "0");

    let dir = tempfile::tempdir().expect("a directory");
    let (config, results) = (dir.path().join("bench-lab.config"), dir.path().join("results"));
    let text = fs::read_to_string(example("bench-lab.config")).expect("readable");
    let two = "SENDER_START_CMD_2=\"${SENDER_START_CMD}\"\nSENDER_STOP_CMD=\"pkill pkt-gen\"\n";
    fs::write(&config, format!("{text}{two}")).expect("writable");
    let (config, out) = (config.to_string_lossy(), results.to_string_lossy());
    let ssh = hosts.config();
    let line = ["-f", &config, "-d", &out, "--ssh-config", &ssh, "-n1", "-y", "--warmup", "1s"];
    let words: Vec<String> =
        line.iter().chain(&["--duration", "5s"]).map(|w| (*w).into()).collect();
    let ran = bench_lab(dir.path(), &words);
    let cells = cells(&results);
    assert_eq!(cells.len(), 1, "{}", stderr(&ran));
    assert!(cells[0].split_whitespace().any(lost_nothing), "{cells:#?}");
    assert_exit(&ran, 0);
    let artefacts = trials(&results)[0].0.with_file_name("artefacts");
    for log in ["generator-sender-2.log", "generator-sender+2-2.log"] {
        let said = fs::read_to_string(artefacts.join(log)).expect("what it printed");
        assert!(said.contains("\nSent "), "{log}: {said}");
    }
}

#[test]
fn without_sets_files_have_the_bare_name_and_a_profile_is_in_the_report() {
    let name = "without_sets_files_have_the_bare_name_and_a_profile_is_in_the_report";
    let Some(hosts) = lab(name) else { return };
    let sample = "perf record -a -g -o /tmp/try -- true >/dev/null 2>&1 && echo yes || echo no";
    if on(&hosts, "dut", sample) != "yes" {
        skipped(name, "perf is not here, or may not sample");
        return;
    }
    let settings = fs::read(example("configs/forwarding/etc/sysctl.conf")).expect("readable");
    fs::write(hosts.dut().path("/etc/sysctl.conf"), settings).expect("writable");
    let dir = tempfile::tempdir().expect("a directory");
    let results = dir.path().join("results");
    let (config, ssh) = (example("bench-lab.config"), hosts.config());
    let out = results.to_string_lossy().into_owned();
    let line = ["-f", &config, "-d", &out, "--ssh-config", &ssh, "-n1", "-Py", "--warmup", "1s"];
    let words: Vec<String> =
        line.iter().chain(&["--duration", "5s"]).map(|w| (*w).into()).collect();
    let ran = bench_lab(dir.path(), &words);
    assert_exit(&ran, 0);
    // A run, and one more with a profile.
    assert_eq!(trials(&results).len(), 1);
    assert_a_boot_each(&hosts, &results, 2);
    assert_eq!(netbenches(&results), ["bench.pps", "gnuplot.data"]);
    let report = fs::read_to_string(results.join("report.html")).expect("a report");
    for part in ["flamegraph.svg", "profile.folded"] {
        let path = format!("profiles/dut.pkt-gen/artefacts/{part}");
        assert!(results.join(&path).is_file(), "{path}");
        assert!(report.contains(&format!("href=\"{path}\"")), "{path} is not linked");
    }
    assert!(report.contains("<svg class=\"flames\""), "the report draws no graph");
    assert!(!dir.path().join("mail").exists(), "nobody asked for a mail");
}

#[test]
fn a_dut_that_refuses_is_reported_before_anything_runs() {
    let name = "a_dut_that_refuses_is_reported_before_anything_runs";
    let Some(hosts) = lab(name) else { return };
    hosts.dut().refuse_keys();
    let dir = tempfile::tempdir().expect("a directory");
    let results: PathBuf = dir.path().join("results");
    let mut words = words(&hosts, &results);
    let ran = bench_lab(dir.path(), &words);
    assert_exit(&ran, 2);
    let said = stderr(&ran);
    for part in ["the DUT cannot be asked", "dut", "refuses the login", "--system"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // The table names it among the others.
    words.extend(["--system", "linux"].map(str::to_owned));
    let ran = bench_lab(dir.path(), &words);
    assert_exit(&ran, 2);
    let said = stderr(&ran);
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert!(!failed.is_empty() && failed.iter().all(|row| row.starts_with("dut ")), "{said}");
    assert!(said.contains("sender") && said.contains("nothing was run"), "{said}");
    assert!(!results.exists() && hosts.dut().boots() == 1);
}
