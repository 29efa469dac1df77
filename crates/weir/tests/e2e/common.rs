//! What the end-to-end tests share: running the binary, and seeing that nothing stays behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_net::{Netlink, Netns};

/// How long a test waits for something that happens within seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary under test, without colours. It is killed when the thread that started it ends, so
/// that a test that is killed leaves no manager behind.
pub(crate) fn weir() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", env!("CARGO_BIN_EXE_weir")]);
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    weir().args(arguments).output().expect("the binary starts")
}

/// A campaign that measured all there was to measure. On a busy machine each attempt at a trial may
/// have been disturbed, which the exit code says.
#[track_caller]
pub(crate) fn assert_measured(output: &Output, out: &Path) {
    let is_disturbed = |trial: &Value| trial["verdict"]["kind"] == "disturbed";
    assert_exit(output, i32::from(trials(out).iter().any(|(_, trial)| is_disturbed(trial))));
}

/// Its standard error as text.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Its standard output as text.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Fails unless it ended with this exit code, showing what it said.
#[track_caller]
pub(crate) fn assert_exit(output: &Output, code: i32) {
    assert_eq!(
        output.status.code(),
        Some(code),
        "standard output:\n{}\nstandard error:\n{}",
        stdout(output),
        stderr(output)
    );
}

/// Whether this test can run; notes that it was skipped if not.
pub(crate) fn can_run_lab(test: &str) -> bool {
    let root = fs::read_to_string("/proc/self/status")
        .is_ok_and(|s| s.lines().any(|l| l.starts_with("Uid:") && l.contains("\t0\t")));
    if !root {
        skipped(test, "not root");
    }
    root
}

/// Notes a skipped test, in the form that the test driver counts.
#[expect(clippy::print_stderr, reason = "the test driver reads a test's captured output")]
pub(crate) fn skipped(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}

/// Waits until something is so, or fails.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_or_show(what, is_so, String::new);
}

/// As [`wait_until`]; a failure shows the evidence, which is taken then.
#[track_caller]
pub(crate) fn wait_or_show(
    what: &str,
    mut is_so: impl FnMut() -> bool,
    evidence: impl Fn() -> String,
) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not after {PATIENCE:?}{}", evidence());
        thread::sleep(Duration::from_millis(20));
    }
}

/// How many packets sent to an interface have been received, or lost because its queue was full;
/// a veth counts them behind the XDP program.
pub(crate) fn arrived_packets(netns: &Netns, interface: &str) -> u64 {
    let count = || {
        let stats = Netlink::open().expect("netlink").stats64(interface).expect("counted");
        stats.rx_packets + stats.rx_dropped
    };
    netns.run(count).expect("entered")
}

/// Tries a few times what a busy machine may spoil, and skips the test if it did every time.
///
/// `attempt` fails by itself where the fault is weir's. It gives an error only with evidence that
/// the machine took the CPU from the traffic, and that is what is told.
pub(crate) fn unless_starved(test: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut found = Vec::new();
    for _ in 0..3 {
        match attempt() {
            Ok(()) => return,
            Err(evidence) => found.push(evidence),
        }
    }
    skipped(test, &format!("the machine is too busy for the traffic: {}", found.join("; ")));
}

/// What labs that have ended left behind, and the interfaces of the host's own namespace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Surroundings {
    namespaces: Vec<String>,
    interfaces: Vec<String>,
    records: Vec<String>,
}

/// What there is now. Namespaces and records of labs that run beside the tests do not count.
pub(crate) fn surroundings() -> Surroundings {
    let names = |dir: &str| {
        let mut names: Vec<String> = fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    // Those named after a process, perhaps behind a prefix. It may end while they are looked at:
    // what is still there after its end was left behind.
    let left = |dir: &str, prefix: &str| {
        let mut names = names(dir);
        names.retain(|name| {
            let owner = name.strip_prefix(prefix).and_then(|name| name.split('-').next());
            owner.is_some_and(|owner| {
                owner.bytes().all(|b| b.is_ascii_digit())
                    && !Path::new("/proc").join(owner).exists()
                    && Path::new(dir).join(name).exists()
            })
        });
        names
    };
    Surroundings {
        namespaces: left("/run/netns", "weir-"),
        interfaces: names("/sys/class/net"),
        records: left("/run/weir/lab", ""),
    }
}

/// A directory with a specification and its files.
pub(crate) struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    /// Writes `lab.toml` and other files.
    pub(crate) fn new(spec: &str, files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("lab.toml"), spec).expect("writable");
        for (name, text) in files {
            fs::write(dir.path().join(name), text).expect("writable");
        }
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The path as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// `weir lab run lab.toml --out out` with more arguments.
    pub(crate) fn run(&self, more: &[&str]) -> Output {
        let (spec, out) = (self.arg("lab.toml"), self.arg("out"));
        let mut arguments = vec!["lab", "run", &spec, "--out", &out];
        arguments.extend(more);
        run(&arguments)
    }
}

/// Whether a verdict is that of a trial that lost nothing, below what its generator can offer. A
/// shared machine may make its samples jump.
pub(crate) fn lost_nothing(kind: &str) -> bool {
    matches!(kind, "generator-bound" | "unstable")
}

/// A JSON file.
pub(crate) fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{} cannot be read: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every `trial.json` below `cells` of a store, sorted by path.
pub(crate) fn trials(out: &Path) -> Vec<(PathBuf, Value)> {
    trials_below(&out.join("cells"))
}

/// Every `trial.json` of what was disturbed and then repeated, sorted by path.
pub(crate) fn rejected(out: &Path) -> Vec<(PathBuf, Value)> {
    trials_below(&out.join("rejected"))
}

fn trials_below(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name() == "trial.json" {
                found.push((path.clone(), json(&path)));
            }
        }
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// The packets that a trial's ledger has at a counting point.
#[track_caller]
pub(crate) fn packets(trial: &Value, point: &str) -> u64 {
    let points = trial["ledger"]["points"].as_array().expect("points");
    let found = points.iter().find(|p| p["name"] == point);
    found.and_then(|p| p["packets"].as_u64()).unwrap_or_else(|| panic!("no point {point}"))
}

/// Trials that lost something of what they were offered, with how much arrived. Fails if one of
/// them is invalid, or delivered nothing.
#[track_caller]
pub(crate) fn lossy(trials: &[(PathBuf, Value)]) -> Vec<String> {
    let counts = trials.iter().map(|(path, trial)| {
        let name = path.display();
        assert_ne!(trial["verdict"]["kind"], "invalid", "{name}: {}", trial["verdict"]);
        let (offered, delivered) = (packets(trial, "offered"), packets(trial, "delivered"));
        assert!(delivered > 0, "{name}: nothing was delivered");
        (delivered < offered).then(|| format!("{name}: {delivered} of {offered} were delivered"))
    });
    counts.flatten().collect()
}

/// Name and bytes of every file below a directory, sorted.
pub(crate) fn tree(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                match fs::read(&path) {
                    Ok(content) => files.push((path, content)),
                    // A run that is still going on has put it in its place meanwhile.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => panic!("{}: {error}", path.display()),
                }
            }
        }
    }
    files.sort();
    files
}

/// A stateful ruleset whose rules count.
pub(crate) const STATEFUL: &str = "\
table inet filter {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related counter accept
        ct state new udp dport 2000-65535 counter accept
        counter drop
    }
}
";
