//! Campaigns on three machines behind SSH: generator, DUT and receiver, which reboots before every
//! run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::ssh_hosts::{Next, SshHosts};
use crate::common::{
    Lab, assert_exit, json, lost_nothing, rejected, run, stderr, stdout, trials, unless_starved,
};

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a line on a machine, and returns what it printed.
pub(super) fn on(hosts: &SshHosts, machine: &str, line: &str) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = Command::new("ssh")
            .args(["-F", &hosts.config(), machine, line])
            .stdin(Stdio::null())
            .output()
            .expect("ssh");
        if output.status.success() {
            return String::from_utf8(output.stdout).expect("text").trim().to_owned();
        }
        // It has started, but its server may not listen yet.
        assert!(Instant::now() < deadline, "{output:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Holds the boots of the DUT against the trials: one for each, one for each that was disturbed and
/// repeated, as on a busy machine, and the first start, which was the test's.
#[track_caller]
pub(super) fn assert_a_boot_each(hosts: &SshHosts, out: &Path, trials: usize) {
    let rejected = rejected(out).len();
    let boots = hosts.dut().boots() as usize;
    assert_eq!(boots, 1 + trials + rejected, "with {rejected} that were repeated");
}

/// Without it, machines that start ask for routers and addresses.
pub(super) const QUIET: &str = "net.ipv6.conf.all.disable_ipv6";

/// The machines, whose links carry nothing but the traffic and a few questions for addresses.
pub(super) fn machines(test: &str) -> Option<SshHosts> {
    machines_with_disks_of(test, "64m")
}

/// The same with disks of this size.
pub(super) fn machines_with_disks_of(test: &str, size: &str) -> Option<SshHosts> {
    let hosts = SshHosts::start_with_disks_of(test, size)?;
    for machine in ["gen", "dut", "recv"] {
        on(&hosts, machine, &format!("echo 1 >/proc/sys/{}", QUIET.replace('.', "/")));
        let settings = hosts.host(machine).path("/etc/sysctl.conf");
        fs::write(settings, format!("{QUIET} = 1\n")).expect("writable");
    }
    Some(hosts)
}

/// A specification of these machines: `campaign` and `dut` are more lines of those tables, `rest`
/// the DUTs.
pub(super) fn spec(hosts: &SshHosts, campaign: &str, dut: &str, rest: &str) -> String {
    let config = hosts.config();
    let mac = on(hosts, "dut", "cat /sys/class/net/dut0/address");
    format!(
        r#"
[campaign]
name = "machines"
{campaign}

[trial]
retries = 5
warmup = "200ms"
duration = "1s"
drain = "100ms"
sample = "100ms"

[testbed]
kind = "hosts"
link_rate = "10G"

[[testbed.generator]]
name = "gen"
ssh = "gen"
ssh_config = "{config}"
interface = "gen0"
next_hop_mac = "{mac}"
driver = "weir"
program = "/opt/weir/weir"
options = "--backend packet"

[testbed.receiver]
name = "recv"
ssh = "recv"
ssh_config = "{config}"
interface = "recv0"
driver = "weir"
program = "/opt/weir/weir"

[testbed.dut]
name = "dut"
ssh = "dut"
ssh_config = "{config}"
system = "linux"
receives = ["dut0"]
sends = ["dut1"]
boot_timeout = "60s"
boot_time = "2s"
{dut}

{rest}
"#
    )
}

const DUTS: &str = r#"
[[dut]]
name = "linux"
kind = "linux"

[[dut]]
name = "nft"
kind = "linux"
files = { nft = "rules.nft" }
"#;

pub(super) const TRAFFICS: &str = r#"
[[traffic]]
name = "few"
src = "198.18.0.2:2000-198.18.0.2:2003"
dst = "198.19.0.2:9"
rate = "20kpps"

[[traffic]]
name = "many"
src = "198.18.0.2:2000-198.18.0.2:2099"
dst = "198.19.0.2:9"
rate = "20kpps"
"#;

const RULES: &str = "\
table ip filter {
  chain forward {
    type filter hook forward priority 0; policy accept;
    udp dport 9 counter accept
  }
}
";

/// One series, so many times.
pub(super) fn short(hosts: &SshHosts, iterations: u32, dut: &str) -> String {
    let only = TRAFFICS.split("[[traffic]]").nth(1).expect("a traffic");
    let rest = format!("[[dut]]\nname = \"linux\"\nkind = \"linux\"\n\n[[traffic]]{only}");
    spec(hosts, &format!("iterations = {iterations}"), dut, &rest)
}

/// Kind and reason of every verdict, the ledger behind the reason.
fn verdicts(out: &Path) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let verdict = |trial: &Value| {
        let reason = text(&trial["verdict"]["reason"]);
        (text(&trial["verdict"]["kind"]), format!("{reason}; {}", trial["ledger"]))
    };
    trials(out).iter().map(|(_, trial)| verdict(trial)).collect()
}

/// A campaign of one cell, whose image is the file `image`.
fn with_image(hosts: &SshHosts) -> Lab {
    let rest = format!(
        "[[image]]\nname = \"v1\"\nfile = \"image\"\ninstall = \"cat >/etc/image\"\n\n\
         [[dut]]\nname = \"linux\"\nkind = \"linux\"\n\n[[traffic]]{}",
        TRAFFICS.split("[[traffic]]").nth(1).expect("a traffic")
    );
    let lab = Lab::new(&spec(hosts, "iterations = 1", "", &rest), &[]);
    fs::write(lab.path("image"), "abc").expect("writable");
    lab
}

#[test]
fn a_campaign_goes_on_with_the_image_that_it_began_with_alone() {
    let Some(hosts) = machines("a_campaign_goes_on_with_the_image_that_it_began_with_alone") else {
        return;
    };
    let lab = with_image(&hosts);
    let out = lab.arg("out");
    let ran = lab.run(&["--yes"]);
    assert_exit(&ran, 0);
    assert!(stderr(&ran).contains("\n1 cell, about "), "{}", stderr(&ran));
    let more = || run(&["lab", "resume", &out, "--yes", "-n", "3"]);
    let boots = hosts.dut().boots();
    // As sha256sum(1) begins of either file.
    let (old, new) = ("ba7816bf8f01cfea", "a52d159f262b2c6d");
    fs::write(lab.path("image"), "abd").expect("writable");
    for refused in [more(), lab.run(&["--yes", "--resume", "-n", "3"])] {
        assert_exit(&refused, 2);
        let said = stderr(&refused);
        for part in ["image v1 is not the one", old, new, "put the old one", "results directory"] {
            assert!(said.contains(part), "{part:?} is not in:\n{said}");
        }
        assert!(said.contains("\n2 of 3 cells are left, about "), "{said}");
    }
    fs::remove_file(lab.path("image")).expect("removable");
    let refused = more();
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("image v1: reading "), "{}", stderr(&refused));
    assert_eq!((hosts.dut().boots(), trials(&lab.path("out")).len()), (boots, 1));
    // Nothing is to run, and nothing is needed.
    assert_exit(&run(&["lab", "resume", &out, "--yes"]), 0);
    fs::write(lab.path("image"), "abc").expect("writable");
    assert_exit(&more(), 0);
    assert_eq!(trials(&lab.path("out")).len(), 3);
    assert_eq!(fs::read_to_string(hosts.dut().path("/etc/image")).expect("installed"), "abc");
}

#[test]
fn a_campaign_of_2_by_2_by_2_ends_in_a_report_with_valid_verdicts() {
    let name = "a_campaign_of_2_by_2_by_2_ends_in_a_report_with_valid_verdicts";
    let Some(hosts) = machines(name) else { return };
    let spec = spec(&hosts, "iterations = 2", "", &format!("{DUTS}{TRAFFICS}"));
    let lab = Lab::new(&spec, &[("rules.nft", RULES)]);
    let ran = lab.run(&["--yes"]);
    let (said, out) = (stderr(&ran), lab.path("out"));
    let verdicts = verdicts(&out);
    assert!(verdicts.iter().all(|(kind, _)| lost_nothing(kind)), "{verdicts:#?}");
    assert_exit(&ran, 0);
    for row in ["generator  gen", "receiver   recv", "dut        dut", "8 cells"] {
        assert!(said.contains(row), "{row}: {said}");
    }
    assert_eq!(verdicts.len(), 8);
    assert_a_boot_each(&hosts, &out, 8);
    for (path, trial) in trials(&out) {
        let points = trial["ledger"]["points"].as_array().expect("points");
        let names: Vec<&str> =
            points.iter().map(|point| point["name"].as_str().expect("a name")).collect();
        let all = ["offered", "accepted", "dut_received", "dut_forwarded", "delivered"];
        assert_eq!(names, all, "{}", path.display());
        let offered = points[0]["packets"].as_u64().expect("a number");
        // However little of its CPU a busy machine gives it.
        assert!(offered > 1_000, "{}: {offered}", path.display());
        // What each machine did meanwhile.
        let has_cpus = |used: &Value| used["cpus"].as_object().is_some_and(|cpus| !cpus.is_empty());
        let (dut, others) = (&trial["machine"], &trial["machines"]);
        assert!(has_cpus(dut) && has_cpus(&others["gen"]) && has_cpus(&others["recv"]), "{trial}");
        assert!(dut["sensor_reading_count"].as_u64() >= Some(2), "{dut}");
        let checks = trial["checks"].as_array().expect("checks");
        for name in ["cpu-throttling", "receiver-clock"] {
            assert!(checks.iter().any(|check| check["name"] == name), "{name}: {checks:?}");
        }
    }
    let report = fs::read_to_string(out.join("report.html")).expect("a report");
    assert!(report.contains("nft.many") && report.contains("generator-bound"));
    let log = fs::read_to_string(out.join("host.log")).expect("a log");
    for part in ["weir gen", "weir sink", "reboot", "\tgen\t", "\trecv\t", "\tdut\t"] {
        assert!(log.contains(part), "{part} is not in the log of commands");
    }
    // With nothing to do, nothing is done.
    assert_exit(&run(&["lab", "resume", &lab.arg("out"), "--yes"]), 0);
    assert_a_boot_each(&hosts, &out, 8);
}

const REQUESTS: &str = r#"
[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "paced"
kind = "http"
src = "198.18.0.2"
dst = "198.19.0.2:80"
connections = 4
rate = "500"

[[traffic]]
name = "many"
kind = "http"
src = "198.18.64.1-198.18.64.254"
dst = "198.19.0.2:81"
connections = 8
keepalive = 1
close = "rst"
reply = "16Ki"
"#;

#[test]
fn requests_between_machines_are_accounted_for_and_timed() {
    let name = "requests_between_machines_are_accounted_for_and_timed";
    let Some(hosts) = machines(name) else { return };
    for (machine, network, by) in [
        ("gen", "198.19.0.0/24", "198.18.0.1"),
        ("recv", "198.18.0.0/16", "198.19.0.1"),
        ("dut", "198.18.64.0/24", "198.18.0.2"),
    ] {
        let route = format!("ip route add {network} via {by}");
        on(&hosts, machine, &route);
        // The DUT starts anew for every run.
        let script = hosts.host(machine).path("/etc/rc.local");
        fs::write(&script, format!("#!/bin/sh\n{route}\n")).expect("writable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its own file");
    }
    let text = spec(&hosts, "iterations = 1", "", REQUESTS)
        .replace("options = \"--backend packet\"\n", "")
        .replace("drain = ", "latency = \"500ms\"\ndrain = ");
    unless_starved(name, || requests_add_up(&Lab::new(&text, &[])));
    // Nothing of the client's addresses is left.
    let routes = on(&hosts, "gen", "ip route show table local");
    assert!(!routes.contains("198.18.64.0/24"), "{routes}");
    // What cannot be is refused by name.
    for (from, to, part) in [
        ("198.18.0.2\"", "198.18.0.2-198.18.0.4\"", "all hosts of a network"),
        ("driver = \"weir\"", "driver = \"pkt-gen\"", "requests are made and answered by"),
    ] {
        let lab = Lab::new(&text.replacen(from, to, 1), &[]);
        let refused = lab.run(&["--yes"]);
        assert_exit(&refused, 2);
        assert!(stderr(&refused).contains(part), "{part}: {}", stderr(&refused));
    }
}

/// Two trials whose ledgers are whole, with latency. An error if the client was late.
fn requests_add_up(lab: &Lab) -> Result<(), String> {
    let ran = lab.run(&["--yes"]);
    let out = lab.path("out");
    let found = trials(&out);
    assert_eq!(found.len(), 2, "{}", stderr(&ran));
    for (path, trial) in &found {
        let checks = trial["checks"].as_array().expect("checks");
        let check = |name: &str| checks.iter().find(|check| check["name"] == name);
        // A trial that was not measured has no such check, and fails below.
        if check("client").is_some_and(|check| check["passed"] == false) {
            return Err(format!("{checks:?}"));
        }
        assert!(check("server").is_some_and(|check| check["passed"] == true), "{trial:#}");
        // Half of what a closed loop has reached may be too much for it beside other tests.
        let is_paced = path.to_string_lossy().contains("paced");
        if is_paced && trial["latency"].is_null() {
            return Err(format!("the client was late while it timed requests: {checks:?}"));
        }
        let points = trial["ledger"]["points"].as_array().expect("points");
        let names: Vec<&str> =
            points.iter().map(|point| point["name"].as_str().expect("a name")).collect();
        assert_eq!(names, ["requests_due", "answered"], "{}: {trial:#}", path.display());
        assert!(points[1]["packets"].as_u64() > Some(100), "{trial:#}");
        assert_eq!(trial["ledger"]["residual_packets"], 0, "{trial:#}");
        assert!(!is_paced || trial["latency"]["sample_count"].as_u64() > Some(10), "{trial:#}");
    }
    let verdicts = verdicts(&out);
    assert!(verdicts.iter().all(|(kind, _)| kind != "invalid"), "{verdicts:#?}");
    let said = stdout(&ran);
    assert!(said.contains("req/s"), "{said}");
    let log = fs::read_to_string(out.join("host.log")).expect("a log");
    for part in ["http serve", "/b/16384", "--source 198.18.64.0/24"] {
        assert!(log.contains(part), "{part} is not in the log of commands");
    }
    Ok(())
}

const CONNECTIONS: &str = r#"
[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "closed"
kind = "connect"
src = "198.18.64.1-198.18.64.4"
dst = "198.19.64.1:80"
rate = "2k"

[[traffic]]
name = "reset"
kind = "connect"
src = "198.18.64.5-198.18.64.8"
dst = "198.19.64.2:80"
rate = "2k"
close = "rst"
"#;

#[test]
fn connections_between_machines_are_accounted_for_step_by_step() {
    let name = "connections_between_machines_are_accounted_for_step_by_step";
    let Some(hosts) = machines(name) else { return };
    for (machine, lines) in [
        ("gen", "ip route add 198.19.64.0/24 via 198.18.0.1"),
        ("recv", "ip route add 198.18.64.0/24 via 198.19.0.1"),
        (
            "dut",
            "ip route add 198.18.64.0/24 via 198.18.0.2; ip route add 198.19.64.0/24 via \
             198.19.0.2; ethtool -K dut0 gro on; ethtool -K dut1 gro on",
        ),
    ] {
        on(&hosts, machine, lines);
        let script = hosts.host(machine).path("/etc/rc.local");
        fs::write(&script, format!("#!/bin/sh\n{lines}\n")).expect("writable");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its own file");
    }
    let text = spec(&hosts, "iterations = 1", "", CONNECTIONS)
        .replace("options = \"--backend packet\"\n", "");
    let lab = Lab::new(&text, &[]);
    let ran = lab.run(&["--yes"]);
    let out = lab.path("out");
    let found = trials(&out);
    assert_eq!(found.len(), 2, "{}", stderr(&ran));
    for (path, trial) in &found {
        let points = trial["ledger"]["points"].as_array().expect("points");
        let name = |point: &Value| point["name"].as_str().expect("a name").to_owned();
        let names = [&points[0], points.last().expect("a step")].map(name);
        let is_closed = path.to_string_lossy().contains("closed");
        let last = if is_closed { "closed_client" } else { "reset_seen" };
        assert_eq!(names, ["syn_sent", last], "{}: {trial:#}", path.display());
        // Each step has as many as the one before, less what is named.
        assert_eq!(trial["ledger"]["residual_packets"], 0, "{trial:#}");
        assert!(points[0]["packets"].as_u64() > Some(500), "{trial:#}");
        assert!(trial["result"]["rate_pps"].as_f64() > Some(100.0), "{trial:#}");
    }
    let verdicts = verdicts(&out);
    assert!(verdicts.iter().all(|(kind, _)| kind != "invalid"), "{verdicts:#?}");
    assert!(stdout(&ran).contains("conn/s"), "{}", stdout(&ran));
    // What cannot be is refused by name.
    let other = text.replacen("driver = \"weir\"", "driver = \"pkt-gen\"", 1);
    let refused = Lab::new(&other, &[]).run(&["--yes"]);
    assert_exit(&refused, 2);
    let said = stderr(&refused);
    assert!(said.contains("connections are opened and answered by"), "{said}");
}

/// What a machine does at its start, for no longer than a test takes.
const HOG: &str = "#!/bin/sh
ln -sf /bin/sh /root/hog
timeout 60 /root/hog -c 'while :; do :; done' </dev/null >/dev/null 2>&1 &
";

#[test]
fn what_else_runs_on_a_machine_disturbs_unless_it_belongs_to_the_dut() {
    let name = "what_else_runs_on_a_machine_disturbs_unless_it_belongs_to_the_dut";
    let Some(hosts) = machines(name) else { return };
    let script = hosts.dut().path("/etc/rc.local");
    fs::write(&script, HOG).expect("writable");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its own file");
    let spec = |dut: &str| short(&hosts, 1, dut).replace("retries = 5", "retries = 0");
    let first = Lab::new(&spec(""), &[]);
    drop(first.run(&["--yes"]));
    let (kind, reason) = verdicts(&first.path("out")).remove(0);
    assert_eq!(kind, "disturbed", "{reason}");
    assert!(reason.contains("went to something else: hog (process "), "{reason}");
    let trial = trials(&first.path("out")).remove(0).1;
    // What the lab itself runs on each machine is not foreign.
    let named = |used: &Value| used["foreign"].to_string();
    assert!(named(&trial["machine"]).contains("hog"), "{trial}");
    for machine in ["gen", "recv"] {
        assert!(!named(&trial["machines"][machine]).contains("weir"), "{trial}");
        let cpus = trial["machines"][machine]["cpus"].as_object().expect("CPUs");
        assert!(cpus.values().all(|used| used["foreign_ratio"].is_number()), "{machine}: {trial}");
    }
    let second = Lab::new(&spec("processes = [\"hog\"]"), &[]);
    drop(second.run(&["--yes"]));
    let (_, reason) = verdicts(&second.path("out")).remove(0);
    assert!(!reason.contains("went to something else"), "{reason}");
}

#[test]
fn without_a_terminal_nothing_begins_unasked() {
    let name = "without_a_terminal_nothing_begins_unasked";
    let Some(hosts) = machines(name) else { return };
    let lab = Lab::new(&short(&hosts, 1, ""), &[]);
    let ran = lab.run(&[]);
    assert_exit(&ran, 2);
    assert!(stderr(&ran).contains("--yes"), "{}", stderr(&ran));
    assert!(!lab.path("out").exists() && hosts.dut().boots() == 1);
}

#[test]
fn what_is_not_reachable_is_in_the_table_and_nothing_runs() {
    let name = "what_is_not_reachable_is_in_the_table_and_nothing_runs";
    let Some(hosts) = machines(name) else { return };
    let spec = short(&hosts, 1, "").replace("interface = \"recv0\"", "interface = \"recv7\"");
    hosts.host("gen").refuse_keys();
    hosts.forget_host_key("dut");
    let ran = Lab::new(&spec, &[]).run(&["--yes"]);
    assert_exit(&ran, 2);
    let said = stderr(&ran);
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert_eq!(failed.len(), 3, "{said}");
    assert!(failed[0].contains("gen") && failed[0].contains("ssh-copy-id gen"), "{said}");
    assert!(failed[1].contains("recv7"), "{said}");
    assert!(failed[2].contains("dut") && failed[2].contains("ssh-keygen -R"), "{said}");
    assert!(said.contains("3 of "), "{said}");
    assert_eq!(hosts.dut().boots(), 1);
}

#[test]
fn a_dut_that_does_not_return_is_power_cycled_once_and_its_cell_counts() {
    let name = "a_dut_that_does_not_return_is_power_cycled_once_and_its_cell_counts";
    let Some(hosts) = machines(name) else { return };
    let power = hosts.power_command("dut");
    let dut = format!("power = \"command\"\npower_command = \"{power}\"");
    let spec = short(&hosts, 1, &dut).replace("boot_timeout = \"60s\"", "boot_timeout = \"10s\"");
    let lab = Lab::new(&spec, &[]);
    hosts.dut().then(Next::WaitForPower);
    let ran = lab.run(&["--yes"]);
    let verdicts = verdicts(&lab.path("out"));
    assert_eq!(verdicts.len(), 1, "{}", stderr(&ran));
    assert!(lost_nothing(&verdicts[0].0), "{verdicts:?}");
    assert_exit(&ran, 0);
    let log = fs::read_to_string(lab.path("out").join("host.log")).expect("a log");
    assert_eq!(log.lines().filter(|line| line.contains(&power)).count(), 1, "{log}");
}

#[test]
fn a_dut_that_is_gone_marks_its_cells_and_the_campaign_ends_with_a_report() {
    let name = "a_dut_that_is_gone_marks_its_cells_and_the_campaign_ends_with_a_report";
    let Some(hosts) = machines(name) else { return };
    let spec = short(&hosts, 2, "").replace("boot_timeout = \"60s\"", "boot_timeout = \"4s\"");
    let lab = Lab::new(&spec, &[]);
    hosts.dut().then(Next::StayOff);
    let ran = lab.run(&["--yes"]);
    assert_exit(&ran, 1);
    let verdicts = verdicts(&lab.path("out"));
    assert_eq!(verdicts.len(), 2);
    for (kind, reason) in &verdicts {
        assert_eq!(kind, "invalid", "{reason}");
        assert!(reason.contains("DUT gone") && reason.contains("dut"), "{reason}");
    }
    assert!(lab.path("out").join("report.html").is_file(), "{}", stdout(&ran));
}

/// Few packets, so that the machines can send and forward them whatever else this one does.
const SEARCH: &str = r#"
[search]
preset = "rfc2544"
loss = "2%"
trial = "1s"
width = "50%"
warmup = "0s"
min_load = 1000
max_load = 4000
trials_max = 4
"#;

#[test]
fn a_search_on_machines_reboots_for_each_trial_and_ends_in_a_report() {
    let name = "a_search_on_machines_reboots_for_each_trial_and_ends_in_a_report";
    let Some(hosts) = machines(name) else { return };
    let spec = short(&hosts, 1, "").replace("rate = \"20kpps\"\n", "") + SEARCH;
    let lab = Lab::new(&spec, &[]);
    let clockless = spec.replace("[search]", "[search]\ntests = [\"throughput\", \"latency\"]");
    fs::write(lab.path("latency.toml"), clockless).expect("writable");
    let out = lab.arg("out");
    let search = |spec: &str, more: &[&str]| {
        let spec = lab.arg(spec);
        run(&[&["lab", "search", &spec, "--out", &out, "--json"], more].concat())
    };
    let refused = search("latency.toml", &["--yes"]);
    assert_exit(&refused, 2);
    assert!(stderr(&refused).contains("share no clock"), "{}", stderr(&refused));
    let unasked = search("lab.toml", &[]);
    assert_exit(&unasked, 2);
    assert!(stderr(&unasked).contains("--yes"), "{}", stderr(&unasked));
    assert!(!lab.path("out").exists() && hosts.dut().boots() == 1);

    let ran = search("lab.toml", &["--yes"]);
    assert!(ran.status.code().is_some_and(|code| code < 2), "{}", stderr(&ran));
    assert!(stderr(&ran).contains("series: 1, with as many trials"), "{}", stderr(&ran));
    let summary: Value = serde_json::from_str(&stdout(&ran)).expect("a JSON object");
    let item = &summary["items"][0];
    // As many frames as a link of 10 Gb/s carries, and no more than are asked for.
    let line_pps = item["calibrated_pps"].as_f64().expect("a line rate");
    assert!((line_pps - 14_880_952.4).abs() < 1.0, "{item}");
    assert_eq!((&item["max_load_pps"], &item["generator_pps"]), (&4000.0.into(), &Value::Null));
    let path = item["path"].as_array().expect("a path");
    assert_eq!(path[0]["load_pps"], 4000.0, "{item}");
    assert_a_boot_each(&hosts, &lab.path("out"), path.len());
    let first = json(&lab.path("out/items/linux.few/throughput/0001/trial.json"));
    assert_eq!(first["ledger"]["points"].as_array().map(Vec::len), Some(5), "{first}");
    let report = fs::read_to_string(lab.path("out/report.html")).expect("a report");
    assert!(report.contains("items/linux.few/throughput/0001/"), "{report}");
    // Nothing is left to do.
    let boots = hosts.dut().boots();
    let resumed = run(&["lab", "resume", &out, "--yes"]);
    assert_eq!((resumed.status.code(), hosts.dut().boots()), (ran.status.code(), boots));
}
