//! What goes wrong in a night: each fault voids its cell or ends the campaign with a message that
//! names the machine, the step and what to do; the store stays valid, and the campaign is resumed.
//!
//! Keys that do not fit are with the table of what is reachable, in `hosts`; faults of a connection
//! alone are in `machines`. A clock that jumps and a manager that sleeps cannot be had for one
//! process: `weir-lab` tests them on formulas.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{QUIET, TRAFFICS, machines, machines_with_disks_of, on, short, spec};
use super::ssh_hosts::{Next, SshHosts};
use crate::common::{Lab, assert_exit, json, lost_nothing, run, stderr, tree, trials, weir};

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// A campaign that runs beside the test, its words being kept.
struct Running {
    child: Child,
}

impl Running {
    fn start(lab: &Lab, arguments: &[&str]) -> Self {
        let mut command = weir();
        command.args(arguments).arg("--yes").stdout(Stdio::null());
        let log = fs::File::create(lab.path("said")).expect("writable");
        Self { child: command.stderr(log).spawn().expect("it starts") }
    }

    /// Waits for its end, and returns its exit code and what it said.
    fn end(mut self, lab: &Lab) -> (Option<i32>, String) {
        let code = self.child.wait().expect("it ends").code();
        let mut said = String::new();
        let mut log = fs::File::open(lab.path("said")).expect("it was made");
        log.read_to_string(&mut said).expect("text");
        (code, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// What the DUT's first interface has received, if it is there just now.
fn received(hosts: &SshHosts) -> Option<u64> {
    let output = Command::new("ip")
        .args(["netns", "exec", &format!("{}-dut", hosts.namespace())])
        .args(["cat", "/sys/class/net/dut0/statistics/rx_packets"])
        .stdin(Stdio::null())
        .output()
        .expect("ip");
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Waits until the DUT has started so often and traffic flows through it, more than that of probes.
#[track_caller]
fn await_traffic(hosts: &SshHosts, boots: u32, running: &mut Running) {
    hosts.dut().wait_for_boot(boots);
    let deadline = Instant::now() + PATIENCE;
    let mut first = None;
    loop {
        if let Some(now) = received(hosts)
            && now > *first.get_or_insert(now) + 5_000
        {
            return;
        }
        let ended = running.child.try_wait().expect("a child");
        assert!(ended.is_none() && Instant::now() < deadline, "no traffic: {ended:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A store that its readers take.
#[track_caller]
fn assert_store_is_valid(lab: &Lab, cells: usize, is_complete: bool) {
    let out = lab.path("out");
    let found = trials(&out);
    assert_eq!(found.len(), cells);
    let has_invalid = found.iter().any(|(_, trial)| trial["verdict"]["kind"] == "invalid");
    let report = run(&["lab", "report", &lab.arg("out")]);
    if cells == 0 {
        assert_exit(&report, 2);
        assert!(stderr(&report).contains("holds no finished trial"), "{}", stderr(&report));
    } else {
        assert_exit(&report, has_invalid.into());
    }
    assert_eq!(json(&out.join("summary.json"))["complete"], is_complete);
}

/// The verdict of the newest cell.
fn newest(out: &Path) -> (String, String) {
    let mut all = trials(out);
    all.sort_by_key(|(_, trial)| trial["times"]["finished_utc"].as_str().map(str::to_owned));
    let verdict = &all.last().expect("a cell").1["verdict"];
    let text = |name: &str| verdict[name].as_str().expect("a text").to_owned();
    (text("kind"), text("reason"))
}

#[test]
fn what_breaks_in_the_middle_voids_its_cell_and_the_campaign_goes_on() {
    let name = "what_breaks_in_the_middle_voids_its_cell_and_the_campaign_goes_on";
    let Some(hosts) = machines(name) else { return };
    // Long enough to be hit while the traffic runs.
    let power = hosts.power_command("dut");
    let dut = format!("power = \"command\"\npower_command = \"{power}\"");
    let spec = short(&hosts, 4, &dut).replace("duration = \"1s\"", "duration = \"6s\"");
    let spec = spec.replace("boot_timeout = \"60s\"", "boot_timeout = \"10s\"");
    let lab = Lab::new(&spec, &[]);
    let (file, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let mut running = Running::start(&lab, &["lab", "run", &file, "--out", &out]);

    // The DUT goes off. The next cell switches its power.
    await_traffic(&hosts, 2, &mut running);
    hosts.dut().then(Next::WaitForPower);
    hosts.dut().crash();
    // The generator's program is killed.
    await_traffic(&hosts, 3, &mut running);
    hosts.dut().then(Next::Start);
    let voided = newest(&lab.path("out"));
    assert_eq!(voided.0, "invalid");
    for part in ["DUT gone: dut: ", "does not answer", "console"] {
        assert!(voided.1.contains(part), "{part:?} is not in: {}", voided.1);
    }
    let kill = "for p in /proc/[0-9]*; do case $(cat $p/comm 2>/dev/null) in \
                weir) kill -KILL ${p#/proc/};; esac; done; :";
    on(&hosts, "gen", kill);
    // The generator itself is gone, and stays so.
    await_traffic(&hosts, 4, &mut running);
    let voided = newest(&lab.path("out"));
    assert_eq!(voided.0, "invalid");
    for part in ["generator gen: `", "weir gen", "ended too early", "artefacts"] {
        assert!(voided.1.contains(part), "{part:?} is not in: {}", voided.1);
    }
    hosts.host("gen").then(Next::StayOff);
    hosts.host("gen").crash();
    let (code, said) = running.end(&lab);
    assert_eq!(code, Some(2), "{said}");
    for part in ["generator gen does not answer", "weir lab resume"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    let voided = newest(&lab.path("out"));
    assert_eq!(voided.0, "invalid");
    assert!(voided.1.contains("generator gen: cannot "), "{}", voided.1);
    assert_store_is_valid(&lab, 3, false);

    // It is back: the last cell is run, and the others stay as they are.
    hosts.host("gen").then(Next::Start);
    hosts.host("gen").wait_for_boot(2);
    hosts.wait_for_sshd("gen");
    let resumed = run(&["lab", "resume", &out, "--yes"]);
    // Cells that are invalid make it 1.
    assert_exit(&resumed, 1);
    assert_store_is_valid(&lab, 4, true);
    let last = newest(&lab.path("out"));
    assert!(lost_nothing(&last.0), "{last:?}");
}

#[test]
fn a_receiver_that_is_down_or_goes_down_is_reported_and_the_campaign_goes_on_when_it_is_back() {
    let name =
        "a_receiver_that_is_down_or_goes_down_is_reported_and_the_campaign_goes_on_when_it_is_back";
    let Some(hosts) = machines(name) else { return };
    let spec = short(&hosts, 3, "").replace("duration = \"1s\"", "duration = \"6s\"");
    let lab = Lab::new(&spec, &[]);
    let (file, out) = (lab.arg("lab.toml"), lab.arg("out"));
    let recv = hosts.host("recv");
    let goes_down = || {
        recv.then(Next::StayOff);
        recv.crash();
    };
    let comes_back = |boots: u32| {
        recv.then(Next::Start);
        recv.wait_for_boot(boots);
        hosts.wait_for_sshd("recv");
    };

    // Down at the start: a row of the table, and nothing is run.
    goes_down();
    let ran = lab.run(&["--yes"]);
    assert_exit(&ran, 2);
    let said = stderr(&ran);
    let failed: Vec<&str> = said.lines().filter(|line| line.contains("FAILED")).collect();
    assert_eq!(failed.len(), 1, "{said}");
    assert!(failed[0].contains("recv") && failed[0].contains("ssh"), "{said}");
    assert!(!lab.path("out/campaign.toml").exists() && hosts.dut().boots() == 1);
    comes_back(2);

    // Its program ends: that cell is void.
    let mut running = Running::start(&lab, &["lab", "run", &file, "--out", &out]);
    await_traffic(&hosts, 2, &mut running);
    let kill = "for p in /proc/[0-9]*; do case $(cat $p/comm 2>/dev/null) in \
                weir) kill -KILL ${p#/proc/};; esac; done; :";
    on(&hosts, "recv", kill);
    await_traffic(&hosts, 3, &mut running);
    let voided = newest(&lab.path("out"));
    assert_eq!(voided.0, "invalid");
    for part in ["receiver", "recv", "weir sink", "ended"] {
        assert!(voided.1.contains(part), "{part:?} is not in: {}", voided.1);
    }

    // The machine goes down: nothing can be measured without it.
    goes_down();
    let (code, said) = running.end(&lab);
    assert_eq!(code, Some(2), "{said}");
    for part in ["receiver recv does not answer", "weir lab resume"] {
        assert!(said.contains(part), "{part:?} is not in: {said}");
    }
    assert_eq!(newest(&lab.path("out")).0, "invalid");
    assert_store_is_valid(&lab, 2, false);
    comes_back(3);
    let resumed = run(&["lab", "resume", &out, "--yes"]);
    // Cells that are invalid make it 1.
    assert_exit(&resumed, 1);
    assert_store_is_valid(&lab, 3, true);
    let last = newest(&lab.path("out"));
    assert!(lost_nothing(&last.0), "{last:?}");
}

#[test]
fn an_upload_that_fails_ends_the_campaign_which_is_resumed_when_that_is_mended() {
    let name = "an_upload_that_fails_ends_the_campaign_which_is_resumed_when_that_is_mended";
    let Some(hosts) = machines_with_disks_of(name, "16m") else { return };
    let only = TRAFFICS.split("[[traffic]]").nth(1).expect("a traffic");
    let rest = format!(
        "[[dut]]\nname = \"tree\"\nkind = \"generic\"\ntree = \"tree\"\n\n[[traffic]]{only}"
    );
    let spec = spec(&hosts, "iterations = 1", "upload = \"tar\"", &rest);
    let spec = spec.replace("system = \"linux\"", "system = \"generic\"");
    let lab = Lab::new(&spec, &[]);
    fs::create_dir_all(lab.path("tree/etc")).expect("a directory");
    let settings = format!("net.ipv4.ip_forward = 1\n{QUIET} = 1\n");
    fs::write(lab.path("tree/etc/sysctl.conf"), settings).expect("writable");
    fs::write(lab.path("tree/etc/large"), vec![b'x'; 4 << 20]).expect("writable");
    // A key that is not text, and that several configurations share by a link.
    const KEY: &[u8] = b"correct horse battery\xff\x00\n";
    fs::write(lab.path("key"), KEY).expect("writable");
    fs::set_permissions(lab.path("key"), fs::Permissions::from_mode(0o600)).expect("its owner's");
    symlink("../../key", lab.path("tree/etc/key")).expect("a link");
    let says = |output: &std::process::Output, parts: &[&str]| {
        assert_exit(output, 2);
        for part in parts {
            assert!(stderr(output).contains(part), "{part:?} is not in: {}", stderr(output));
        }
        assert_store_is_valid(&lab, 0, false);
    };

    // A tar that takes a part of what comes and is content with it.
    let tar = hosts.dut().path("/usr/local/bin/tar");
    let script = "#!/bin/sh\nhead -c 70000 | /usr/bin/tar \"$@\" 2>/dev/null\ncat >/dev/null\n:\n";
    fs::write(&tar, script).expect("writable");
    on(&hosts, "dut", "chmod 755 /usr/local/bin/tar");
    let ran = lab.run(&["--yes"]);
    says(&ran, &["dut", "did not arrive as it was sent", "cut off", "df", "resume"]);
    fs::remove_file(&tar).expect("removable");

    let filler = hosts.dut().path("/etc/filler");
    fs::write(&filler, vec![b'x'; 14 << 20]).expect("there is room");
    let resume = || run(&["lab", "resume", &lab.arg("out"), "--yes"]);
    says(&resume(), &["dut", "uploading the 3 files", "disk is full", "make room", "resume"]);

    fs::remove_file(&filler).expect("removable");
    assert_exit(&resume(), 0);
    assert_store_is_valid(&lab, 1, true);
    let verdict = newest(&lab.path("out"));
    assert!(lost_nothing(&verdict.0), "{verdict:?}");

    let there = hosts.dut().path("/etc/key");
    assert_eq!(fs::read(&there).expect("it was laid"), KEY);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(&there), 0o600);
    // The store has it where its owner alone can look, because `resume` needs it, and nowhere else.
    let is_key = |bytes: &[u8]| bytes.windows(13).any(|part| part == b"correct horse");
    let holds: Vec<_> = tree(&lab.path("out")).into_iter().filter(|file| is_key(&file.1)).collect();
    assert_eq!(holds.len(), 1, "{:?}", holds.iter().map(|file| &file.0).collect::<Vec<_>>());
    assert!(holds[0].0.starts_with(lab.path("out/files")), "{}", holds[0].0.display());
    assert_eq!(mode(&lab.path("out/files")), 0o700);
}

#[test]
fn a_receiver_that_shows_zero_is_reported_with_the_last_point_that_packets_reached() {
    let name = "a_receiver_that_shows_zero_is_reported_with_the_last_point_that_packets_reached";
    let Some(hosts) = machines(name) else { return };
    let blind = "driver = \"command\"\npackets = 'rx=([0-9]+)'\n\
                 start = \"while :; do echo rx=0; sleep 0.1; done\"\n\n[testbed.dut]";
    let spec = short(&hosts, 1, "reboot = \"none\"");
    let (before, after) = spec.split_once("[testbed.receiver]").expect("a receiver");
    let after = after.replacen(
        "driver = \"weir\"\nprogram = \"/opt/weir/weir\"\n\n[testbed.dut]",
        blind,
        1,
    );
    let lab = Lab::new(&format!("{before}[testbed.receiver]{after}"), &[]);
    let ran = lab.run(&["--yes"]);
    assert_exit(&ran, 1);
    let (kind, reason) = newest(&lab.path("out"));
    assert_eq!(kind, "invalid");
    for part in ["`dut_forwarded`", "receiver recv shows zero packets", "recv0", "cable"] {
        assert!(reason.contains(part), "{part:?} is not in: {reason}");
    }
    assert_store_is_valid(&lab, 1, true);
}

#[test]
fn a_secret_is_the_managers_and_in_no_file_of_the_store_and_in_no_message() {
    let name = "a_secret_is_the_managers_and_in_no_file_of_the_store_and_in_no_message";
    let Some(hosts) = machines(name) else { return };
    const SECRET: &str = "WEIR_TEST_PDU_PASSWORD";
    const VALUE: &str = "correct horse battery";
    // What switches the power has the secret, and says it. DUT and receiver have not: they say all
    // of their environment, and of their parents'.
    let reboot = format!("echo by ${SECRET}; {}", hosts.power_command("dut"));
    let all = r#"cat /proc/self/environ /proc/$PPID/environ | tr "\0" "\n" >/etc/said"#;
    let online = format!("{all}; test -z \"${SECRET}\"");
    let dut = format!("reboot = \"command\"\nreboot_command = '{reboot}'\nonline = '{online}'");
    let spec = short(&hosts, 1, &dut);
    let listed = format!("kind = \"hosts\"\nsecrets = [\"{SECRET}\"]");
    let spec = spec.replacen("kind = \"hosts\"", &listed, 1);
    let receiver = format!(
        "interface = \"recv0\"\nstart = '{all}; exec /opt/weir/weir sink -i ${{interface}} --json \
         --interval ${{sample_ms}}ms'"
    );
    let spec = spec.replacen("interface = \"recv0\"", &receiver, 1);
    let spec = spec.replacen(
        "driver = \"weir\"\nprogram = \"/opt/weir/weir\"\n\n[testbed.dut]",
        "driver = \"weir\"\n\n[testbed.dut]",
        1,
    );
    let run_in = |lab: &Lab| {
        let (file, out) = (lab.arg("lab.toml"), lab.arg("out"));
        let mut command = weir();
        command.args(["lab", "run", &file, "--out", &out, "--yes"]).env(SECRET, VALUE);
        let output = command.output().expect("the binary starts");
        let text = [output.stdout.clone(), output.stderr.clone()].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains(VALUE), "a message has the secret");
        let mut masked_count = text.matches(&format!("***{SECRET}***")).count();
        for (path, content) in tree(&lab.path("out")) {
            let text = String::from_utf8_lossy(&content);
            assert!(!text.contains(VALUE), "{} has the secret", path.display());
            masked_count += text.matches(&format!("***{SECRET}***")).count();
        }
        (output, masked_count)
    };
    let (ran, masked_count) = run_in(&Lab::new(&spec, &[]));
    assert_exit(&ran, 0);
    assert!(masked_count >= 1, "the power switch has said it: {masked_count}");
    for machine in ["dut", "recv"] {
        let said = fs::read_to_string(hosts.host(machine).path("/etc/said")).expect("it ran");
        assert!(said.contains("PATH=") && !said.contains(SECRET), "{machine}: {said}");
        assert!(!said.contains(VALUE), "{machine} has the secret");
    }
    // What fails tells why without it.
    let failing = spec.replacen("; touch", " is refused >&2; exit 3; touch", 1);
    assert_ne!(failing, spec);
    let (ran, masked_count) = run_in(&Lab::new(&failing, &[]));
    assert_exit(&ran, 2);
    assert!(stderr(&ran).contains("is refused") && masked_count >= 1, "{}", stderr(&ran));
    // Without its value nothing begins.
    let ran = Lab::new(&spec, &[]).run(&["--yes"]);
    assert_exit(&ran, 2);
    assert!(stderr(&ran).contains(SECRET) && stderr(&ran).contains("export"), "{}", stderr(&ran));
}
