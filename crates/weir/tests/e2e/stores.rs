//! One layout for what campaigns, bisections and searches leave: `report`, `resume`, `compare` and
//! `plot` on a store of each kind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, can_run_lab, json, run, stderr, stdout, surroundings, tree, weir,
};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "kinds"
iterations = 1

[trial]
retries = 5
warmup = "0ms"
duration = "200ms"
sample = "20ms"

[testbed]
kind = "netns"

[[dut]]
name = "one"
kind = "linux"

[[dut]]
name = "two"
kind = "linux"

[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"

[search]
preset = "rfc2544"
trial = "200ms"
width = "30%"
warmup = "0s"
sizes = [60, 590]
min_load = 1000
max_load = 8000
"#;

/// How long a test waits for something that happens within seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// What makes a store of each kind, and the file that marks it.
const KINDS: [(&[&str], Option<&str>); 3] = [
    (&["lab", "run"], None),
    (&["lab", "bisect", "--good", "one", "--bad", "two", "--max-runs", "6"], Some("bisect.json")),
    (&["lab", "search", "--only", "one.*"], Some("search.json")),
];

fn made(lab: &Lab, command: &[&str], out: &str) -> Vec<String> {
    let (spec, out) = (lab.arg("lab.toml"), lab.arg(out));
    let more = [spec.as_str(), "--out", out.as_str()];
    command.iter().chain(&more).map(|word| (*word).to_owned()).collect()
}

fn ran(arguments: &[String]) -> Output {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&arguments)
}

/// Raw trials: what no verb may change.
fn raw(out: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_raw = |path: &Path| {
        let path = path.to_string_lossy();
        (path.contains("/cells/") || path.contains("/items/")) && !path.contains("/.unfinished")
    };
    tree(out).into_iter().filter(|(path, _)| is_raw(path)).collect()
}

fn parsed(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|e| panic!("{e}: {}", stderr(output)))
}

#[test]
fn every_verb_works_on_every_kind_of_store() {
    if !can_run_lab("every_verb_works_on_every_kind_of_store") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(SPEC, &[]);
    for (index, (command, marker)) in KINDS.into_iter().enumerate() {
        let (name, figure) = (format!("out{index}"), format!("figure{index}.svg"));
        let (out, out_arg) = (lab.path(&name), lab.arg(&name));
        let first = ran(&made(&lab, command, &name));
        let code = first.status.code().expect("it ended by itself");
        assert!(code < 2, "{command:?}: {}", stderr(&first));
        for file in ["campaign.toml", "plan.json", "env.json", "summary.json", "report.html"] {
            assert!(out.join(file).is_file(), "{command:?}: no {file}");
        }
        for file in KINDS.iter().filter_map(|(_, file)| *file) {
            assert_eq!(out.join(file).is_file(), Some(file) == marker, "{command:?}: {file}");
        }
        let kept = raw(&out);
        assert!(kept.len() >= 4, "{command:?}: {} files", kept.len());

        // The same answer, from the store alone.
        let report = run(&["lab", "report", &out_arg]);
        assert_eq!((stdout(&report), report.status.code()), (stdout(&first), Some(code)));
        assert!(parsed(&run(&["lab", "report", &out_arg, "--json"])).is_object());
        // Nothing is left to do: the same answer again.
        let resumed = run(&["lab", "resume", &out_arg]);
        assert_eq!(stdout(&resumed), stdout(&first), "{}", stderr(&resumed));
        assert_eq!(raw(&out), kept, "{command:?}: a raw trial was changed");

        let compared = run(&["lab", "compare", &out_arg, &out_arg, "--json"]);
        assert_exit(&compared, 0);
        let series = parsed(&compared)["series"].as_array().map_or(0, Vec::len);
        assert_eq!(series, 2, "{command:?}: {}", stdout(&compared));
        let asked = ["--fail-on", "regression>1%", "--fail-on", "missing"];
        let same = run(&[&["lab", "compare", &out_arg, &out_arg][..], &asked].concat());
        assert_exit(&same, 0);
        assert!(stdout(&same).contains("no regression beyond 1 %"), "{}", stdout(&same));
        exports(&lab, &out_arg, index);
        let plotted = run(&["lab", "plot", &out_arg, "--out", &lab.arg(&figure), "--json"]);
        assert_exit(&plotted, 0);
        assert!(fs::read_to_string(lab.path(&figure)).expect("a figure").contains("</svg>"));
        if marker == Some("search.json") {
            // Two frame sizes are a curve.
            let points = &parsed(&plotted)["panels"][0]["curves"][0]["points"];
            assert_eq!(points.as_array().map(Vec::len), Some(2), "{}", stdout(&plotted));
            let more = run(&["lab", "resume", &out_arg, "-n", "3"]);
            assert_exit(&more, 2);
            assert!(stderr(&more).contains("-n is for campaigns"), "{}", stderr(&more));
        }
        // A store goes on with what it was made for, and with nothing else.
        for (other, (command, _)) in KINDS.into_iter().enumerate().filter(|(o, _)| *o != index) {
            let mut arguments = made(&lab, command, &name);
            arguments.push("--resume".to_owned());
            let refused = ran(&arguments);
            assert_exit(&refused, 2);
            let message = stderr(&refused);
            assert!(
                message.contains("continue with `weir lab resume"),
                "{other} on {index}: {message}"
            );
        }
        assert_eq!(raw(&out), kept, "{command:?}: a raw trial was changed");
    }
    assert_eq!(surroundings(), before, "something stayed behind");
}

/// A store's rates as netbenches has them. On a machine that did too much else there are none.
fn exports(lab: &Lab, store: &str, index: usize) {
    let name = format!("export{index}");
    let exported = run(&["lab", "export", store, "--netbenches", "--out", &lab.arg(&name)]);
    if exported.status.code() == Some(2) {
        assert!(stderr(&exported).contains("holds no figures"), "{}", stderr(&exported));
        return;
    }
    let files = fs::read_dir(lab.path(&name)).expect("a directory").flatten();
    let rates: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    let is_rates = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "pps");
    let rates: Vec<&PathBuf> = rates.iter().filter(is_rates).collect();
    assert!(!rates.is_empty(), "{}", stdout(&exported));
    for path in rates {
        let text = fs::read_to_string(path).expect("readable");
        assert!(text.lines().all(|line| line.parse::<f64>().is_ok()), "{text}");
    }
}

#[test]
fn what_was_stopped_goes_on_by_resume_whatever_it_is() {
    if !can_run_lab("what_was_stopped_goes_on_by_resume_whatever_it_is") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(SPEC, &[]);
    let trials = |out: &Path| -> Vec<PathBuf> {
        let files = raw(out).into_iter().map(|(path, _)| path);
        files.filter(|path| path.ends_with("trial.json")).collect()
    };
    for (index, (command, marker)) in KINDS.into_iter().enumerate().skip(1) {
        let name = format!("out{index}");
        let (out, out_arg) = (lab.path(&name), lab.arg(&name));
        let mut killed = weir();
        killed.args(made(&lab, command, &name)).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = killed.spawn().expect("the binary starts");
        let deadline = Instant::now() + PATIENCE;
        while trials(&out).is_empty() {
            assert!(Instant::now() < deadline, "{command:?}: no trial after {PATIENCE:?}");
            thread::sleep(Duration::from_millis(10));
        }
        child.kill().expect("SIGKILL");
        child.wait().expect("it ended");
        let kept = raw(&out);
        let finished = trials(&out).len();

        let resumed = run(&["lab", "resume", &out_arg]);
        assert!(resumed.status.code().is_some_and(|code| code < 2), "{}", stderr(&resumed));
        assert!(trials(&out).len() > finished, "{command:?}: it was over before it was killed");
        let now = raw(&out);
        for file in &kept {
            assert!(now.contains(file), "{} was changed", file.0.display());
        }
        if marker == Some("search.json") {
            let summary = json(&out.join("summary.json"));
            assert_eq!(summary["items"].as_array().map(Vec::len), Some(2), "{summary}");
        } else {
            let report = parsed(&run(&["lab", "report", &out_arg, "--json"]));
            assert_eq!(report["runs"].as_u64(), Some(trials(&out).len() as u64), "{report}");
            assert_ne!(report["answer"], "open");
        }
    }
    assert_eq!(surroundings(), before, "something stayed behind");
}
