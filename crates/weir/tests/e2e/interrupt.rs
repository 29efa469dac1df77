//! Interruptions: signals, a kill, a full disk. Finished iterations stay as they are, nothing is
//! left behind, and the campaign can be completed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{
    Lab, assert_exit, assert_measured, can_run_lab, run, skipped, surroundings, tree, trials, weir,
};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "interrupted"
iterations = 4

[trial]
retries = 5
warmup = "0ms"
duration = "300ms"
sample = "50ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "slow"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
rate = "20kpps"
"#;

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(lab: &Lab) -> Child {
    let mut command = weir();
    command.args(["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("out")]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts")
}

/// Waits until so many cells are finished.
fn wait_for_cells(out: &Path, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while trials(out).len() < count {
        assert!(Instant::now() < deadline, "no {count} cells after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a trial is under way.
fn wait_for_trial(child: &Child) {
    let netns = format!("/run/netns/weir-{}-dut", child.id());
    let deadline = Instant::now() + PATIENCE;
    while !Path::new(&netns).exists() {
        assert!(Instant::now() < deadline, "no trial after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.expect("kill(1) runs").success());
}

fn cells(out: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    tree(&out.join("cells"))
        .into_iter()
        .filter(|(path, _)| !path.to_string_lossy().contains(".unfinished"))
        .collect()
}

fn is_complete(out: &Path) {
    assert_eq!(trials(out).len(), 4);
    assert!(
        crate::common::json(&out.join("summary.json"))["complete"].as_bool().expect("complete")
    );
}

/// A campaign goes on to its end.
#[track_caller]
fn resume(out: &Path, more: &[&str]) {
    let path = out.to_string_lossy();
    let arguments: Vec<&str> = ["lab", "resume", &path].into_iter().chain(more.to_vec()).collect();
    assert_measured(&run(&arguments), out);
}

#[test]
fn after_a_kill_the_next_start_cleans_up_and_resume_completes() {
    if !can_run_lab("after_a_kill_the_next_start_cleans_up_and_resume_completes") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(SPEC, &[]);
    let out = lab.path("out");
    let mut child = start(&lab);
    wait_for_cells(&out, 2);
    wait_for_trial(&child);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    let finished = cells(&out);
    assert!(trials(&out).len() < 4, "the campaign was over before it was killed");

    resume(&out, &[]);
    let now = cells(&out);
    for file in &finished {
        assert!(now.contains(file), "{} was changed", file.0.display());
    }
    is_complete(&out);
    assert_eq!(surroundings(), before);
    // Once more with nothing to do, and once with two iterations more.
    resume(&out, &[]);
    assert_eq!(cells(&out), now);
    resume(&out, &["-n", "5"]);
    assert_eq!(trials(&out).len(), 5);
}

/// What it made, and the connection tracker's size: that belongs to no namespace, so that a lab
/// which is killed leaves it changed, and on record.
#[test]
fn clean_removes_what_a_killed_lab_left() {
    const NAME: &str = "clean_removes_what_a_killed_lab_left";
    if !can_run_lab(NAME) {
        return;
    }
    let _turn = alone();
    let setting = "/proc/sys/net/netfilter/nf_conntrack_max";
    let read = || fs::read_to_string(setting).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let before = surroundings();
    let size = read();
    let mut spec = SPEC.to_owned();
    if let Some(size) = size {
        let limit = format!("kind = \"netns\"\nconntrack_max = {}", size + 12_345);
        spec = spec.replace("kind = \"netns\"", &limit);
    } else {
        skipped(NAME, "the half of it that changes the connection tracker, which is not here");
    }
    let lab = Lab::new(&spec, &[]);
    let mut child = start(&lab);
    wait_for_cells(&lab.path("out"), 1);
    wait_for_trial(&child);
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    let left = read();
    assert_ne!(surroundings(), before, "it left nothing behind; nothing is shown");
    assert_exit(&run(&["lab", "clean"]), 0);
    assert_eq!(left, size.map(|size| size + 12_345), "the lab had changed it");
    assert_eq!(read(), size, "it is as it was");
    assert_eq!(surroundings(), before);
}

#[test]
fn signals_end_cleanly_with_their_exit_codes() {
    if !can_run_lab("signals_end_cleanly_with_their_exit_codes") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let lab = Lab::new(SPEC, &[]);
        let mut child = start(&lab);
        wait_for_cells(&lab.path("out"), 1);
        signal(&child, name);
        assert_eq!(child.wait().expect("it ended").code(), Some(code), "{name}");
        assert_eq!(surroundings(), before, "{name}");
        let kept = trials(&lab.path("out")).len();
        assert!((1..4).contains(&kept), "{kept} cells after {name}");
        let summary = crate::common::json(&lab.path("out/summary.json"));
        assert_eq!(summary["complete"], false);
    }
}

#[test]
fn a_signal_while_a_dut_does_not_get_ready_ends_at_once_and_keeps_nothing_false() {
    if !can_run_lab("a_signal_while_a_dut_does_not_get_ready_ends_at_once") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let spec = SPEC.replace(
        "name = \"linux\"\nkind = \"linux\"",
        "name = \"mute\"\nkind = \"command\"\nstart = \"sleep 3600\"\n\
         ready = \"touch asked; sleep 3600\"\nready_timeout = \"10m\"",
    );
    let lab = Lab::new(&spec, &[]);
    let mut child = start(&lab);
    let asked = Path::new("/run/weir/lab").join(format!("{}-0.d/asked", child.id()));
    let deadline = Instant::now() + PATIENCE;
    // The calibration is the first trial; the DUT's directory is that of the second.
    while !asked.exists() {
        assert!(Instant::now() < deadline, "the DUT was never asked whether it is ready");
        thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "-INT");
    assert_eq!(child.wait().expect("it ended").code(), Some(130));
    assert_eq!(trials(&lab.path("out")).len(), 0, "a trial that was interrupted is no result");
    assert_eq!(surroundings(), before);
}

/// A small file system for the results, unmounted in the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(dir.path())
            .status();
        assert!(status.expect("mount(8) runs").success());
        Self(dir)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_one_clear_message_and_keeps_what_is_finished() {
    if !can_run_lab("a_full_disk_is_one_clear_message_and_keeps_what_is_finished") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(SPEC, &[]);
    // With room for trials that something disturbs: they are kept, too.
    let disk = SmallDisk::new("8m");
    let out = disk.0.path().join("out");
    let out_text = out.to_string_lossy().into_owned();
    let spec = lab.arg("lab.toml");
    let mut command = weir();
    command.args(["lab", "run", &spec, "--out", &out_text]).stderr(Stdio::piped());
    let child = command.stdout(Stdio::null()).spawn().expect("the binary starts");
    wait_for_cells(&out, 1);
    // Everything that is left, to the last block.
    let filler = disk.0.path().join("filler");
    let full = fs::write(&filler, vec![0_u8; 16 << 20]);
    assert!(full.is_err(), "the disk is not full");
    let output = child.wait_with_output().expect("it ended");
    assert_exit(&output, 2);
    let said = crate::common::stderr(&output);
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("weir lab resume"), "{said}");
    assert_eq!(surroundings(), before);
    let finished = trials(&out);
    assert!(!finished.is_empty() && finished.len() < 4);

    fs::remove_file(&filler).expect("removable");
    resume(&out, &[]);
    is_complete(&out);
}
