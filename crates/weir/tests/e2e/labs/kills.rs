//! A manager that is killed at random moments, over and over: at any time of a campaign, and while
//! it installs an image, uploads a configuration and waits for a reboot.
//!
//! The moments are drawn from a seed that is printed; `WEIR_KILL_SEED` gives it back. `WEIR_KILLS`
//! makes it more kills than usual: `make soak` asks for twenty.

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::hosts::{QUIET, TRAFFICS, machines, spec};
use super::ssh_hosts::SshHosts;
use crate::common::{Lab, assert_exit, json, run, tree, trials, weir};

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// As many as there are aims.
const KILLS_USUAL: usize = 5;
const KILLS: &str = "WEIR_KILLS";
/// How often a start may find the DUT on its way down, because the last kill came between the order
/// to reboot and its beginning.
const DOWN_MAX: usize = 5;
/// Iterations to begin with. When they are done before the last kill, there is one more to do.
const ITERATIONS: u32 = 4;
const SEED: &str = "WEIR_KILL_SEED";

/// What a manager is doing when it is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Anything,
    Image,
    Upload,
    Reboot,
    /// Another cell is finished.
    Cell,
}

impl Aim {
    /// Each of them by turns, most often what nobody has thought of; the first turns have each.
    const TURNS: [Self; 7] = [
        Self::Anything,
        Self::Image,
        Self::Upload,
        Self::Reboot,
        Self::Cell,
        Self::Anything,
        Self::Anything,
    ];

    /// How long it takes at most from its beginning, about.
    fn spread_ms(self) -> u64 {
        match self {
            Self::Anything => 4_000,
            Self::Image | Self::Upload => 300,
            Self::Reboot | Self::Cell => 600,
        }
    }
}

/// Numbers that look random (splitmix64).
struct Random(u64);

/// The number that a variable of the environment gives.
fn given(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{variable}: {text}: {e}")))
}

impl Random {
    fn seeded() -> Self {
        let seed = given(SEED).unwrap_or_else(|| RandomState::new().build_hasher().finish());
        print(&format!("{SEED}={seed}"));
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

#[expect(clippy::print_stderr, reason = "what a failed test needs to be repeated")]
fn print(line: &str) {
    eprintln!("{line}");
}

/// A campaign that has an image to install, files to upload, and a reboot for each cell.
fn campaign(hosts: &SshHosts) -> Lab {
    let only = TRAFFICS.split("[[traffic]]").nth(1).expect("a traffic");
    let rest = format!(
        r#"
[[image]]
name = "v1"
file = "image"
install = "touch /etc/installing; sleep 0.2; cat >/etc/image"
check = "test \"$(wc -c </etc/image)\" = 300000"

[[dut]]
name = "tree"
kind = "generic"
tree = "tree"

[[traffic]]{only}"#
    );
    let dut = "before_upload = \"touch /etc/uploading\"";
    let spec = spec(hosts, &format!("iterations = {ITERATIONS}"), dut, &rest);
    let lab = Lab::new(&spec.replace("\"1s\"", "\"500ms\""), &[]);
    fs::write(lab.path("image"), vec![b'i'; 300_000]).expect("writable");
    fs::create_dir_all(lab.path("tree/etc")).expect("a directory");
    let settings = format!("net.ipv4.ip_forward = 1\n{QUIET} = 1\n");
    fs::write(lab.path("tree/etc/sysctl.conf"), settings).expect("writable");
    lab
}

/// Starts the campaign, or goes on with it.
fn start(lab: &Lab, iterations: u32) -> Child {
    let out = lab.path("out");
    let begun = out.join("campaign.toml").exists();
    let mut command = weir();
    match begun {
        false => command.args(["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("out")]),
        true => command.args(["lab", "resume", &lab.arg("out")]),
    };
    let log = fs::File::create(lab.path("said")).expect("writable");
    command.args(["--yes", "-n", &iterations.to_string()]).stdout(Stdio::null()).stderr(log);
    command.spawn().expect("it starts")
}

/// Files of finished cells.
fn cells(out: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = tree(&out.join("cells"));
    files.retain(|(path, _)| !path.to_string_lossy().contains(".unfinished"));
    files
}

/// Whether what is aimed at goes on, seen from outside.
struct Seen<'a> {
    hosts: &'a SshHosts,
    boots: u32,
    out: PathBuf,
    cells: usize,
}

impl<'a> Seen<'a> {
    /// Takes away the traces of what went on before.
    fn before(hosts: &'a SshHosts, lab: &Lab, aim: Aim) -> Self {
        let mut traces = vec!["/etc/installing", "/etc/uploading"];
        // One that runs is not installed again.
        traces.extend((aim == Aim::Image).then_some("/etc/image"));
        for trace in traces {
            drop(fs::remove_file(hosts.dut().path(trace)));
        }
        let out = lab.path("out");
        let cells = cells(&out).len();
        Self { hosts, boots: hosts.dut().boots(), out, cells }
    }

    fn goes_on(&self, aim: Aim) -> bool {
        match aim {
            Aim::Anything => true,
            Aim::Image => self.hosts.dut().path("/etc/installing").exists(),
            Aim::Upload => self.hosts.dut().path("/etc/uploading").exists(),
            Aim::Reboot => self.hosts.dut().boots() > self.boots,
            Aim::Cell => cells(&self.out).len() > self.cells,
        }
    }
}

/// Kills a manager a moment after what is aimed at has begun. If it ends before, that is returned.
fn kill(child: &mut Child, seen: &Seen<'_>, aim: Aim, moment: Duration) -> Result<(), i32> {
    let deadline = Instant::now() + PATIENCE;
    let mut killed_at = None;
    while killed_at.is_none_or(|at| Instant::now() < at) {
        if let Some(status) = child.try_wait().expect("a child") {
            return Err(status.code().unwrap_or(-1));
        }
        if killed_at.is_none() && seen.goes_on(aim) {
            killed_at = Some(Instant::now() + moment);
        }
        assert!(Instant::now() < deadline, "no {aim:?}");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it ended");
    Ok(())
}

#[test]
fn a_manager_that_is_killed_again_and_again_resumes_to_the_same_cells() {
    let name = "a_manager_that_is_killed_again_and_again_resumes_to_the_same_cells";
    let Some(hosts) = machines(name) else { return };
    let (lab, mut random) = (campaign(&hosts), Random::seeded());
    let (out, mut iterations) = (lab.path("out"), ITERATIONS);
    let mut kept: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let mut killed: Vec<(Aim, Duration)> = Vec::new();
    let mut down = 0;
    let kills = given(KILLS).map_or(KILLS_USUAL, |kills| usize::try_from(kills).expect("a number"));
    while killed.len() < kills {
        let aim = Aim::TURNS[killed.len() % Aim::TURNS.len()];
        let moment = Duration::from_millis(random.below(aim.spread_ms()));
        // The DUT may have been left in the middle of a start.
        hosts.wait_for_sshd("dut");
        let seen = Seen::before(&hosts, &lab, aim);
        let mut child = start(&lab, iterations);
        match kill(&mut child, &seen, aim, moment) {
            Ok(()) => killed.push((aim, moment)),
            // All was done.
            Err(0) => iterations += 1,
            Err(code) => {
                let said = fs::read_to_string(lab.path("said")).expect("it was made");
                let is_down = code == 2 && said.contains("FAILED");
                down += 1;
                assert!(is_down && down <= DOWN_MAX, "after {killed:?}: {code}: {said}");
            }
        }
        let now = cells(&out);
        for file in &kept {
            assert!(now.contains(file), "{} was changed: {killed:?}", file.0.display());
        }
        kept = now;
    }
    print(&format!("{killed:?}"));
    assert!(!kept.is_empty(), "nothing was there that a kill could have changed");
    hosts.wait_for_sshd("dut");
    let last = run(&["lab", "resume", &lab.arg("out"), "--yes", "-n", &iterations.to_string()]);
    assert_exit(&last, 0);
    let cell = |trial: &serde_json::Value| {
        let (series, iteration) = (trial["series"].as_str(), trial["iteration"].as_u64());
        format!("{}/{}", series.expect("a name"), iteration.expect("a number"))
    };
    let mut finished: Vec<String> = trials(&out).iter().map(|(_, trial)| cell(trial)).collect();
    finished.sort();
    let mut expected: Vec<String> =
        (1..=iterations).map(|iteration| format!("v1.tree.few/{iteration}")).collect();
    expected.sort();
    assert_eq!(finished, expected);
    assert!(json(&out.join("summary.json"))["complete"].as_bool().expect("complete"));
    // What was cut off was done again, whole.
    let image = fs::read(hosts.dut().path("/etc/image")).expect("an image");
    assert!(image == vec![b'i'; 300_000]);
    let settings = fs::read(hosts.dut().path("/etc/sysctl.conf")).expect("settings");
    assert_eq!(settings, fs::read(lab.path("tree/etc/sysctl.conf")).expect("settings"));
}
