//! What else runs on the machine: it is named, and never taken for the DUT.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::common::{Lab, assert_exit, can_run_lab, run, stderr, stdout, trials, wait_until, weir};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "twice"
iterations = 3

[trial]
warmup = "100ms"
duration = "500ms"
drain = "100ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "flows"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
"#;

/// Programs that take all that they can get of every CPU, until they are dropped.
struct Hogs(Vec<Child>);

impl Hogs {
    /// One, on this CPU alone.
    fn on(cpu: usize) -> Self {
        let hog = move || {
            // A child keeps the CPUs of the thread that starts it.
            let cpus = weir_net::CpuList::new([cpu]).expect("a CPU");
            weir_net::cpu::pin_current_thread(&cpus).expect("it is there");
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("a shell starts")
        };
        Self(vec![thread::spawn(hog).join().expect("a hog")])
    }

    fn start() -> Self {
        let count = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let hog = || {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().expect("a shell starts")
        };
        Self((0..count).map(|_| hog()).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// How often the next test is done: once, or as `WEIR_HOGS` says.
fn repetitions() -> u32 {
    let asked = std::env::var("WEIR_HOGS").ok();
    asked.map_or(1, |count| count.parse().expect("WEIR_HOGS is a number"))
}

#[test]
fn two_equal_campaigns_of_which_one_has_a_hog_never_differ() {
    if !can_run_lab("two_equal_campaigns_of_which_one_has_a_hog_never_differ") {
        return;
    }
    let _turn = alone();
    for _ in 0..repetitions() {
        one_of_two_has_a_hog();
    }
}

fn one_of_two_has_a_hog() {
    let quiet = Lab::new(SPEC, &[]);
    let output = quiet.run(&[]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", stderr(&output));
    let busy = Lab::new(SPEC, &[]);
    let output = {
        let _hogs = Hogs::start();
        busy.run(&[])
    };
    assert_exit(&output, 1);
    let printed = stdout(&output) + &stderr(&output);
    assert!(printed.contains("3 of them disturbed"), "{printed}");
    let trials = trials(&busy.path("out"));
    assert_eq!(trials.len(), 3);
    for (_, trial) in &trials {
        assert_eq!(trial["verdict"]["kind"], "disturbed", "{}", trial["verdict"]);
        let reason = trial["verdict"]["reason"].as_str().expect("a reason");
        assert!(reason.contains("went to something else: sh (process"), "{reason}");
    }
    // Each was repeated once, and the first attempts are on record.
    let rejected = busy.path("out/rejected/linux.flows");
    assert_eq!(std::fs::read_dir(rejected).expect("a directory").count(), 3);
    let report = std::fs::read_to_string(busy.path("out/report.html")).expect("a report");
    assert!(report.contains("3 disturbed cells"), "the report says so");

    let (old, new) = (quiet.arg("out"), busy.arg("out"));
    for pair in [[&old, &new], [&new, &old]] {
        let output = run(&["lab", "compare", pair[0], pair[1], "--fail-on", "regression>1%"]);
        assert_exit(&output, 0);
        let printed = stdout(&output);
        assert!(printed.contains("not comparable: 0 values on a side"), "{printed}");
        assert!(printed.contains("no regression beyond 1 % is proven"), "{printed}");
        assert!(!printed.contains("slower by") && !printed.contains("faster by"), "{printed}");
    }
}

#[test]
fn a_hog_on_any_cpu_of_the_testbed_disturbs_a_trial() {
    if !can_run_lab("a_hog_on_any_cpu_of_the_testbed_disturbs_a_trial") {
        return;
    }
    let _turn = alone();
    let placed = "kind = \"netns\"\ngenerator_cpus = \"0\"\ndut_cpus = \"1\"";
    let spec = SPEC.replace("iterations = 3", "iterations = 1");
    let spec = spec.replace("kind = \"netns\"", placed);
    let spec = spec.replace("drain = \"100ms\"", "drain = \"100ms\"\nretries = 0");
    for cpu in [0, 1] {
        let lab = Lab::new(&spec, &[]);
        let _hog = Hogs::on(cpu);
        assert_exit(&lab.run(&[]), 1);
        let (_, trial) = &trials(&lab.path("out"))[0];
        assert_eq!(trial["verdict"]["kind"], "disturbed", "{}", trial["verdict"]);
        let used = &trial["machine"]["cpus"][cpu.to_string()];
        let ratio = used["foreign_ratio"].as_f64();
        assert!(ratio.is_some_and(|ratio| ratio > 0.05), "CPU {cpu}: {used}");
        // Interrupts are traced, and a part of it.
        let interrupted = used["interrupted_ratio"].as_f64();
        assert!(interrupted.is_some_and(|part| Some(part) <= ratio), "CPU {cpu}: {used}");
    }
}

/// A lab that runs beside the test; it is killed if the test ends first.
struct Running(Child);

impl Running {
    fn start(lab: &Lab) -> Self {
        let mut command = weir();
        command.args(["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("out")]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the binary starts"))
    }

    fn code(&mut self) -> Option<i32> {
        self.0.wait().expect("a child").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_hog_that_starts_in_mid_trial_is_seen_and_the_trial_repeated() {
    if !can_run_lab("a_hog_that_starts_in_mid_trial_is_seen_and_the_trial_repeated") {
        return;
    }
    let _turn = alone();
    let spec = SPEC.replace("iterations = 3", "iterations = 1").replace("500ms", "2s");
    let lab = Lab::new(&spec, &[]);
    let mut running = Running::start(&lab);
    let namespace = format!("/run/netns/weir-{}-dut", running.0.id());
    wait_until("the path is calibrated", || lab.path("out/calibration/flows").is_dir());
    wait_until("the DUT is there", || Path::new(&namespace).exists());
    // Into the measurement.
    thread::sleep(Duration::from_millis(800));
    let hogs = Hogs::start();
    thread::sleep(Duration::from_millis(800));
    drop(hogs);
    assert!(running.code().is_some_and(|code| code <= 1));
    let first = lab.path("out/rejected/linux.flows/1/trial.json");
    let first = std::fs::read_to_string(&first).unwrap_or_else(|e| panic!("{first:?}: {e}"));
    let first: serde_json::Value = serde_json::from_str(&first).expect("JSON");
    assert_eq!(first["verdict"]["kind"], "disturbed", "{}", first["verdict"]);
    let trials = trials(&lab.path("out"));
    assert_eq!(trials.len(), 1, "it was repeated");
    assert_ne!(trials[0].1["times"]["started_utc"], first["times"]["started_utc"]);
}

#[test]
fn a_lab_waits_for_its_neighbour_and_for_a_quiet_host() {
    if !can_run_lab("a_lab_waits_for_its_neighbour_and_for_a_quiet_host") {
        return;
    }
    let _turn = alone();
    let spec = SPEC.replace("iterations = 3", "iterations = 1");
    // Long enough for another one to start meanwhile.
    let first = Lab::new(&spec.replace("500ms", "1s"), &[]);
    let mut running = Running::start(&first);
    wait_until("the neighbour measures", || first.path("out/calibration/flows").is_dir());
    let second = Lab::new(&spec, &[]);
    let output = second.run(&[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("another lab is measuring"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--wait"), "{}", stderr(&output));
    let output = second.run(&["--wait", "2m"]);
    assert!(output.status.code().is_some_and(|code| code <= 1), "{}", stderr(&output));
    assert!(running.code().is_some_and(|code| code <= 1));
    let times = |lab: &Lab, which: &str| {
        let time = trials(&lab.path("out"))[0].1["times"][which].clone();
        time.as_str().expect("a time").parse::<jiff::Timestamp>().expect("RFC 3339")
    };
    assert!(times(&second, "started_utc") > times(&first, "finished_utc"));
    // Before and after.
    let yardsticks = crate::common::json(&second.path("out/yardsticks.json"));
    assert_eq!(yardsticks.as_array().map(Vec::len), Some(2), "{yardsticks}");

    let third = Lab::new(&spec, &[]);
    let output = {
        let _hogs = Hogs::start();
        third.run(&["--wait", "1s"])
    };
    assert_exit(&output, 2);
    for part in
        ["waiting for a quiet host", "was busy for 1s, and nothing was measured", "sh (process"]
    {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
    assert!(trials(&third.path("out")).is_empty());
}

const TOGGLE: &str = r#"
[campaign]
name = "turns"
iterations = 1

[trial]
warmup = "100ms"
duration = "9s"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

# Two hundred rules that every packet is held against, one by one.
[dut.toggle]
off = "nft delete table inet slow 2>/dev/null || true"
on = """nft delete table inet slow 2>/dev/null
{ echo 'table inet slow { chain f { type filter hook forward priority filter; policy accept;'
for rule in $(seq 200); do echo 'ip daddr 203.0.113.1 counter drop'; done
echo '}'; echo '}'; } | nft -f -"""

[[traffic]]
name = "flows"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
"#;

#[test]
fn settings_that_take_turns_are_told_apart_beside_hogs() {
    if !can_run_lab("settings_that_take_turns_are_told_apart_beside_hogs") {
        return;
    }
    let _turn = alone();
    let lab = Lab::new(TOGGLE, &[]);
    let output = {
        let _hogs = Hogs::start();
        lab.run(&["--json"])
    };
    let summary: serde_json::Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    let toggle = &summary["series"][0]["toggle"];
    assert_eq!(toggle["word"], "dearer", "{toggle}");
    assert!(toggle["cost"]["low_percent"].as_f64().is_some_and(|low| low > 20.0), "{toggle}");
    assert_eq!((&toggle["cost"]["pairs"], &toggle["control"]["pairs"]), (&6.into(), &3.into()));
    let trials = trials(&lab.path("out"));
    let windows = trials[0].1["windows"].as_array().expect("windows");
    assert_eq!(windows.len(), 18);
    assert!(windows.iter().all(|w| w["elapsed_ns"].as_u64().is_some_and(|ns| ns >= 400_000_000)));
    let report = std::fs::read_to_string(lab.path("out/report.html")).expect("a report");
    assert!(report.contains("Two settings in turns") && report.contains("A/A control"));

    // Derived again from the windows, it is the same, and a search is refused.
    let again = run(&["lab", "report", &lab.arg("out"), "--json"]);
    let again: serde_json::Value = serde_json::from_str(&stdout(&again)).expect("JSON");
    assert_eq!(again["series"][0]["toggle"], *toggle);
    let search = run(&["lab", "search", &lab.arg("lab.toml"), "--ndr", "--out", &lab.arg("s")]);
    assert_exit(&search, 2);
    assert!(stderr(&search).contains("has a DUT with a toggle"), "{}", stderr(&search));
}

#[test]
fn a_line_of_a_toggle_that_fails_is_named() {
    if !can_run_lab("a_line_of_a_toggle_that_fails_is_named") {
        return;
    }
    let _turn = alone();
    let spec = TOGGLE.replace("| nft -f -", "| cat >&2; exit 3");
    let lab = Lab::new(&spec, &[]);
    let output = lab.run(&[]);
    assert_exit(&output, 2);
    for part in ["`on` of its toggle", "ended with exit code 3: table inet slow"] {
        assert!(stderr(&output).contains(part), "{part}: {}", stderr(&output));
    }
}
