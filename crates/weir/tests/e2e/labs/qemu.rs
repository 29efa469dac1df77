//! The testbed kind `qemu`: an image is built, booted, benchmarked over several boots, and nothing
//! of it stays behind.
//!
//! The machine is emulated, on a host that does other things as well: absolute rates are never
//! asserted, nor how long a boot takes. The image is built once for a definition of it, and kept
//! in the target directory.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::Value;
use weir_net::{Netlink, Netns};

use super::left;
use super::slots::EMULATOR;
use crate::common::{
    Lab, STATEFUL, assert_exit, can_run_lab, json, packets, run, skipped, stderr, stdout,
    surroundings, trials, wait_until, weir,
};
use crate::turns::beside;

/// Programs that these tests need, and their Debian packages.
const PROGRAMS: [(&str, &str); 4] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("mmdebstrap", "mmdebstrap"),
    ("ssh", "openssh-client"),
];

/// What an image is made of: another definition is another image.
const DEFINITION: [&str; 4] = [
    include_str!("../../../../weir-machine/src/image.rs"),
    include_str!("../../../../weir-machine/src/image/build.rs"),
    include_str!("../../../../weir-machine/src/image/content.rs"),
    include_str!("../../../../weir-machine/src/image/debian.rs"),
];

/// What an image is asked to have besides.
const PACKAGE: &str = "linux-perf";

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(120);

static IMAGE: Mutex<()> = Mutex::new(());

/// Whether this test can run; notes that it was skipped if not.
fn can_run(test: &str) -> bool {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(name, _)| {
            let found = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
            !found.iter().any(|folder| Path::new(folder).join(name).is_file())
        })
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        skipped(test, &format!("not installed: {}", missing.join(" ")));
        return false;
    }
    if !Path::new("/dev/net/tun").exists() {
        skipped(test, "there is no /dev/net/tun");
        return false;
    }
    left::sweep_once();
    can_run_lab(test)
}

/// The image, built if it is not there yet.
fn image() -> PathBuf {
    let _one = IMAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    (DEFINITION, PACKAGE).hash(&mut hasher);
    let name = format!("debian-{:016x}.qcow2", hasher.finish());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
    let path = folder.join(name);
    if path.is_file() {
        return path;
    }
    // It takes CPUs from what is measured. Nobody who waits here has a turn.
    let _turn = beside();
    // Those of earlier definitions.
    drop(fs::remove_dir_all(&folder));
    let out = path.to_string_lossy().into_owned();
    let output = run(&["lab", "image", "debian", "--out", &out, "--package", PACKAGE, "--json"]);
    assert_exit(&output, 0);
    let built: Value = serde_json::from_str(&stdout(&output)).expect("a JSON object");
    for file in ["image", "about", "kernel", "initrd", "key"] {
        let file = built[file].as_str().unwrap_or_else(|| panic!("no {file} in {built}"));
        assert!(Path::new(file).is_file(), "{file} is not there");
    }
    assert!(stderr(&output).contains("installing"), "no progress: {}", stderr(&output));
    let left = fs::read_dir(&folder).expect("a directory").flatten();
    let left: Vec<_> =
        left.filter(|e| e.file_name().to_string_lossy().contains("building")).collect();
    assert!(left.is_empty(), "{left:?} stayed behind");
    path
}

fn spec(image: &Path, more: &str, iterations: u32, duts: &str) -> String {
    format!(
        r#"
[campaign]
name = "machine"
iterations = {iterations}
seed = 3

[trial]
retries = 5
warmup = "300ms"
duration = "1s"
drain = "300ms"

[testbed]
kind = "qemu"
image = "{}"
{more}
{duts}
[[traffic]]
name = "slow"
src = "198.18.10.1:2000-198.18.10.4"
dst = "198.19.10.1:2000-198.19.10.4"
rate = "5kpps"
"#,
        image.display()
    )
}

const LINUX: &str = "\n[[dut]]\nname = \"linux\"\nkind = \"linux\"\n";
const NFT: &str =
    "\n[[dut]]\nname = \"nft\"\nkind = \"linux\"\nfiles = { nft = \"stateful.nft\" }\n";

fn artefact(trial: &Path, name: &str) -> String {
    let path = trial.with_file_name("artefacts").join(name);
    let bytes = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_campaign_on_a_machine_boots_it_for_every_iteration_and_ends_in_a_report() {
    if !can_run("a_campaign_on_a_machine_boots_it_for_every_iteration_and_ends_in_a_report") {
        return;
    }
    let image = image();
    let _slot = EMULATOR.take();
    let before = surroundings();
    let bytes = fs::metadata(&image).expect("an image").modified().expect("a time");
    let spec = spec(&image, "profile = true", 2, NFT);
    let lab = Lab::new(&spec, &[("stateful.nft", STATEFUL)]);
    let output = lab.run(&[]);
    assert_exit(&output, 0);
    assert_eq!(surroundings(), before, "something stayed behind");
    let after = fs::metadata(&image).expect("an image").modified().expect("a time");
    assert_eq!(bytes, after, "the image was written to");

    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 2);
    let mut boots = BTreeSet::new();
    for (path, trial) in &trials {
        let name = path.display();
        assert_ne!(trial["verdict"]["kind"], "invalid", "{name}: {}", trial["verdict"]);
        assert!(packets(trial, "delivered") > 0, "{name}: nothing was delivered");
        assert!(packets(trial, "dut_forwarded") >= packets(trial, "delivered"), "{name}");
        assert!(artefact(path, "console.log").contains("login:"), "{name}: no console");
        assert!(artefact(path, "qemu.log").contains("-netdev tap"), "{name}: no command line");
        let seen = trial["machines"].as_object().expect("the machine as it sees itself");
        let has_cpus = |used: &Value| used["cpus"].as_object().is_some_and(|cpus| !cpus.is_empty());
        assert!(has_cpus(&trial["machine"]) && seen.len() == 1, "{name}: {seen:?}");
        assert!(seen.values().all(has_cpus), "{name}: {seen:?}");
        // What else ran in it is known, and what the lab runs there is not foreign.
        for used in seen.values() {
            let cpus = used["cpus"].as_object().expect("CPUs").values();
            assert!(cpus.into_iter().all(|cpu| cpu["foreign_ratio"].is_number()), "{name}: {used}");
            assert!(!used["foreign"].to_string().contains("sshd"), "{name}: {used}");
        }
        let cost = &trial["cost"];
        assert!(cost["cost_ns"].as_f64().is_some_and(|cost_ns| cost_ns > 1.0), "{name}: {cost}");
        let machine = artefact(path, "machine.txt");
        let boot = machine.lines().find_map(|line| line.strip_prefix("boot_id "));
        boots.insert(boot.unwrap_or_else(|| panic!("no boot_id in {machine}")).to_owned());
    }
    assert_eq!(boots.len(), 2, "iterations shared a boot: {boots:?}");
    let profile = lab.path("out/profiles/nft.slow/artefacts");
    let folded = fs::read_to_string(profile.join("profile.folded")).expect("a profile");
    assert!(folded.contains(';'), "no stacks:\n{folded}");
    assert!(profile.join("flamegraph.svg").is_file());
    let env = json(&lab.path("out/env.json"));
    let testbed = &env["testbed"];
    assert_eq!(testbed["kind"], "qemu", "{env}");
    assert!(["kvm", "tcg"].iter().any(|accel| testbed["accel"] == *accel), "{testbed}");
    if testbed["accel"] == "tcg" {
        assert!(stderr(&output).contains("emulated (TCG)"), "{}", stderr(&output));
    }
    assert!(testbed["image"]["built"]["kernel"].is_string(), "{testbed}");
    assert!(lab.path("out/report.html").is_file());
    let log = fs::read_to_string(lab.path("out/host.log")).expect("host.log");
    assert!(log.contains("nft"), "no command of the machine is in host.log:\n{log}");
}

#[test]
fn a_search_on_a_machine_boots_it_for_its_trial() {
    if !can_run("a_search_on_a_machine_boots_it_for_its_trial") {
        return;
    }
    let image = image();
    let _slot = EMULATOR.take();
    let before = surroundings();
    // One trial: whatever it brings, there is no time for another boot.
    let search = "\n[search]\npreset = \"rfc2544\"\nloss = \"2%\"\ntrial = \"1s\"\n\
                  warmup = \"0s\"\nmin_load = 1000\nmax_load = 2000\ntrials_max = 1\n";
    let spec = spec(&image, "", 1, LINUX).replace("rate = \"5kpps\"\n", "") + search;
    let lab = Lab::new(&spec, &[]);
    let output = run(&["lab", "search", &lab.arg("lab.toml"), "--out", &lab.arg("out"), "--json"]);
    assert!(output.status.code().is_some_and(|code| code < 2), "{}", stderr(&output));
    assert_eq!(surroundings(), before, "something stayed behind");
    let summary: Value = serde_json::from_str(&stdout(&output)).expect("a JSON object");
    let item = &summary["items"][0];
    assert!(item["calibrated_pps"].as_f64().is_some_and(|pps| pps > 0.0), "{item}");
    assert_eq!(item["path"][0]["load_pps"], 2000.0, "{item}");
    let path = lab.path("out/items/linux.slow/throughput/0001/trial.json");
    let trial = json(&path);
    assert_ne!(trial["verdict"]["kind"], "invalid", "{}", trial["verdict"]);
    assert!(packets(&trial, "dut_forwarded") > 0, "{trial}");
    assert!(artefact(&path, "console.log").contains("login:"), "no console");
}

/// Processes that have this text in their command line.
fn processes_with(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}

/// Kills a child, whatever becomes of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Says when the file that it brings was there before the start, and only then.
const TREE: &str = r#"
[[dut]]
name = "configured"
kind = "generic"
tree = "tree"
check = "test \"$(cat /proc/sys/net/ipv4/ip_forward)\" = 1"
"#;

#[test]
fn a_configuration_tree_is_in_force_after_a_real_reboot() {
    if !can_run("a_configuration_tree_is_in_force_after_a_real_reboot") {
        return;
    }
    let image = image();
    let _slot = EMULATOR.take();
    let before = surroundings();
    let lab = Lab::new(&spec(&image, "", 1, TREE), &[]);
    fs::create_dir_all(lab.path("tree/etc/sysctl.d")).expect("a directory");
    fs::write(lab.path("tree/etc/sysctl.d/router.conf"), "net.ipv4.ip_forward = 1\n").expect("ok");
    let output = lab.run(&[]);
    assert_exit(&output, 0);
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 1);
    let (path, trial) = &trials[0];
    assert!(packets(trial, "delivered") > 0, "{}", trial["verdict"]);
    // Two starts of one machine, on one console.
    let starts = artefact(path, "console.log").matches("Linux version").count();
    assert_eq!(starts, 2, "{}", artefact(path, "console.log"));
    assert_eq!(surroundings(), before, "something stayed behind");
}

#[test]
fn a_machine_ends_with_a_lab_that_was_killed_or_told_to_stop() {
    if !can_run("a_machine_ends_with_a_lab_that_was_killed_or_told_to_stop") {
        return;
    }
    let image = image();
    let _slot = EMULATOR.take();
    let before = surroundings();
    for name in ["KILL", "INT"] {
        let lab = Lab::new(&spec(&image, "", 1, LINUX), &[]);
        let mut command = weir();
        command.args(["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("out")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Killed(command.spawn().expect("the binary starts"));
        // The directory of its record is on QEMU's command line.
        let mark = format!("/run/weir/lab/{}-", child.0.id());
        let deadline = Instant::now() + PATIENCE;
        while processes_with(&mark).is_empty() {
            assert!(Instant::now() < deadline, "no machine after {PATIENCE:?}");
            thread::sleep(Duration::from_millis(20));
        }
        let send = || signal(name, child.0.id());
        if name == "INT" {
            send();
            assert_eq!(child.0.wait().expect("it ends").code(), Some(130));
        } else {
            // Every lab that starts cleans up: those of other tests wait until it was looked.
            let records = fs::File::open("/run/weir/lab/lock").expect("the lock of the records");
            records.lock().expect("it is free");
            send();
            child.0.wait().expect("it ends");
            assert!(!processes_with(&mark).is_empty(), "there is nothing to clean up");
            drop(records);
            assert_exit(&run(&["lab", "clean"]), 0);
        }
        while !processes_with(&mark).is_empty() {
            assert!(Instant::now() < deadline, "a machine lives on after SIG{name}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(surroundings(), before, "something stayed behind after SIG{name}");
    }
}

/// More packets than the probes of a trial have, and fewer than all of three seconds.
const MEASURED_MIN: u64 = 1_000;
const MEASURED_MAX: u64 = 12_000;

/// How many packets a lab's generator has sent in the trial under way.
fn sent_packets(lab: u32) -> u64 {
    let sent = || {
        let stats = Netlink::open().ok()?.stats64("gen0").ok()?;
        Some(stats.tx_packets + stats.tx_dropped)
    };
    let netns = Netns::open(&format!("weir-{lab}-gen")).ok();
    netns.and_then(|netns| netns.run(sent).ok()?).unwrap_or(0)
}

fn signal(name: &str, pid: u32) {
    let status = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "SIG{name}");
}

#[test]
fn a_machine_that_ends_in_a_trial_voids_its_cell_alone() {
    if !can_run("a_machine_that_ends_in_a_trial_voids_its_cell_alone") {
        return;
    }
    let image = image();
    let _slot = EMULATOR.take();
    let before = surroundings();
    let spec = spec(&image, "", 2, LINUX).replace("duration = \"1s\"", "duration = \"3s\"");
    let lab = Lab::new(&spec, &[]);
    let mut command = weir();
    command.args(["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("out")]);
    let said = fs::File::create(lab.path("said")).expect("writable");
    command.stdout(Stdio::null()).stderr(said);
    let mut child = Killed(command.spawn().expect("the binary starts"));
    let said = || fs::read_to_string(lab.path("said")).expect("it was made");
    let pid = child.0.id();
    let mark = format!("/run/weir/lab/{pid}-");
    let machine = || {
        let emulators = processes_with("qemu-system-x86_64");
        processes_with(&mark).into_iter().find(|pid| emulators.contains(pid))
    };
    // As long as a machine may take to boot: the lab itself does not wait for ever.
    let machine = loop {
        if let Some(machine) = machine()
            && sent_packets(pid) > MEASURED_MIN
        {
            break machine;
        }
        let ended = child.0.try_wait().expect("a child");
        assert!(ended.is_none(), "nothing was measured: {ended:?}: {}", said());
        thread::sleep(Duration::from_millis(20));
    };
    // The lab stands still in the middle of its trial until the machine has ended, however long
    // that takes.
    signal("STOP", pid);
    assert!(sent_packets(pid) < MEASURED_MAX, "the trial was over before it was looked at");
    // It ends as if all were well with it.
    signal("TERM", machine);
    wait_until("QEMU has ended", || !left::runs(machine));
    signal("CONT", pid);
    let status = child.0.wait().expect("it ends");
    let said = said();
    assert_eq!(status.code(), Some(1), "{said}");
    assert_eq!(surroundings(), before, "something stayed behind");
    let trials = trials(&lab.path("out"));
    let kinds: Vec<&str> =
        trials.iter().filter_map(|(_, trial)| trial["verdict"]["kind"].as_str()).collect();
    assert_eq!(kinds.len(), 2, "{said}");
    assert_eq!(kinds[0], "invalid");
    assert_ne!(kinds[1], "invalid", "{}", trials[1].1["verdict"]);
    let why = trials[0].1["verdict"].to_string();
    assert!(why.contains("QEMU ended"), "{why}");
}

#[test]
fn a_machine_that_cannot_be_started_says_why() {
    if !can_run("a_machine_that_cannot_be_started_says_why") {
        return;
    }
    let _slot = EMULATOR.take();
    let before = surroundings();
    let refused = |code: i32, more: &str, image: &str, expected: &[&str]| {
        let lab = Lab::new(&spec(Path::new(image), more, 1, LINUX), &[]);
        // A disk with nothing on it.
        fs::write(lab.path("empty.raw"), vec![0; 1 << 20]).expect("writable");
        let output = lab.run(&[]);
        assert_exit(&output, code);
        for text in expected {
            assert!(stderr(&output).contains(text), "{text:?} is not in:\n{}", stderr(&output));
        }
        assert_eq!(surroundings(), before, "something stayed behind");
    };
    refused(2, "", "absent.qcow2", &["absent.qcow2", "weir lab image debian"]);
    let empty = "accel = \"tcg\"\nboot_timeout = \"4s\"\nconsole_ready = \"login:\"";
    // The campaign would go on with other cells.
    refused(1, empty, "empty.raw", &["did not come up in 4s", "serial console"]);
    refused(2, "nic = \"no-such-card\"", "empty.raw", &["QEMU ended", "no-such-card"]);
    refused(2, "memory = \"12\"", "empty.raw", &["`memory`", "at least 64Mi"]);
    refused(2, "ssh_key = \"id\"", "empty.raw", &["ssh_key:", "No such file"]);
}

#[test]
fn another_disk_or_accelerator_is_refused_when_the_campaign_goes_on() {
    if !can_run("another_disk_or_accelerator_is_refused_when_the_campaign_goes_on") {
        return;
    }
    let _slot = EMULATOR.take();
    let more = "accel = \"tcg\"\nboot_timeout = \"4s\"\nconsole_ready = \"login:\"";
    let lab = Lab::new(&spec(Path::new("empty.raw"), more, 1, LINUX), &[]);
    let disk = |byte: u8| fs::write(lab.path("empty.raw"), vec![byte; 1 << 20]).expect("writable");
    disk(0);
    // It does not come up, and its cell is finished as invalid.
    assert_exit(&lab.run(&[]), 1);
    let record = lab.path("out/images.json");
    let text = fs::read_to_string(&record).expect("a record");
    let kept: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(kept["accel"], "tcg");
    // As sha256sum(1) begins of a MiB of zeros, and of ones.
    let (zeros, ones) = ("30e14955ebf13522", "ee78cd29d3a53471");
    assert!(kept["files"]["image"]["sha256"].as_str().is_some_and(|s| s.starts_with(zeros)));
    let refused = |expected: &[&str]| {
        let output = run(&["lab", "resume", &lab.arg("out"), "-n", "2"]);
        assert_exit(&output, 2);
        for text in expected {
            assert!(stderr(&output).contains(text), "{text:?} is not in:\n{}", stderr(&output));
        }
        assert_eq!(trials(&lab.path("out")).len(), 1);
    };
    disk(1);
    refused(&["image is not the one", "empty.raw", zeros, ones, "put the old one back"]);
    disk(0);
    fs::write(&record, text.replace("\"tcg\"", "\"kvm\"")).expect("writable");
    refused(&["began with the accelerator kvm", "runs with tcg", "new results directory"]);
    fs::write(&record, text).expect("writable");
    assert_exit(&run(&["lab", "resume", &lab.arg("out"), "-n", "2"]), 1);
    assert_eq!(trials(&lab.path("out")).len(), 2);
}

#[test]
fn an_image_is_refused_or_given_up_without_a_trace() {
    if !can_run("an_image_is_refused_or_given_up_without_a_trace") {
        return;
    }
    let _turn = beside();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let out = dir.path().join("dut.qcow2").to_string_lossy().into_owned();
    let build = |more: &[&str]| {
        let mut arguments = vec!["lab", "image", "debian", "--out", &out];
        arguments.extend(more);
        run(&arguments)
    };
    let output = build(&["--package", "no-such-package-anywhere"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("no-such-package-anywhere"), "{}", stderr(&output));
    assert_exit(&build(&["--size", "1Mi"]), 2);
    assert_exit(&build(&["--package", "a b"]), 2);
    assert_exit(&build(&["--suite", "no-such-suite"]), 2);
    let left: Vec<_> = fs::read_dir(dir.path()).expect("a directory").flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}
