//! The example campaign with echo servers (labs/echo), short.

use std::fs;
use std::path::Path;

use crate::common::{
    Lab, can_run_lab, lossy, packets, stderr, surroundings, trials, unless_starved,
};
use crate::turns::alone;

/// The example with one iteration of one point for each server, at a rate that all can return.
fn short() -> Lab {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/echo");
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("an example");
    let mut spec = read("lab.toml");
    for (from, to) in [
        ("iterations = 5", "iterations = 1"),
        ("warmup = \"500ms\"", "retries = 0\nwarmup = \"100ms\""),
        ("duration = \"3s\"", "duration = \"500ms\""),
        ("values = [1, 16, 250]", "values = [16]"),
        ("dst = \"198.19.10.1:7007\"", "dst = \"198.19.10.1:7007\"\nrate = \"4kpps\""),
    ] {
        assert!(spec.contains(from), "{from}");
        spec = spec.replace(from, to);
    }
    // The weir that is tested, and not one that happens to be installed.
    let program = format!("weir={}", env!("CARGO_BIN_EXE_weir"));
    let script = read("serve.sh").replace("weir=$(command -v weir)", &program);
    assert!(script.contains(&program));
    Lab::new(&spec, &[("serve.sh", &script)])
}

#[test]
fn what_each_server_of_the_example_returns_reaches_the_sink() {
    const NAME: &str = "what_each_server_of_the_example_returns_reaches_the_sink";
    if !can_run_lab(NAME) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    unless_starved(NAME, || {
        let lab = short();
        let output = lab.run(&[]);
        // The exit code is 1 where something else on the machine disturbed a trial.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        assert_eq!(surroundings(), before, "something stayed behind");
        let trials = trials(&lab.path("out"));
        assert_eq!(trials.len(), 8, "{}", stderr(&output));
        let lost = lossy(&trials);
        for (path, trial) in &trials {
            let name = path.display();
            let level = |name: &str| trial["levels"][name].as_u64().expect("a count");
            let buckets = (0..4).map(|bucket| level(&format!("bucket_{bucket}_arrived_packets")));
            assert_eq!(buckets.sum::<u64>(), level("arrived_packets"), "{name}");
            // Probes and what is sent before the measurement come on top.
            let delivered = packets(trial, "delivered");
            assert!(level("sent_packets") >= delivered, "{name}: {}", trial["levels"]);
        }
        // Disturbed trials are in no table.
        if output.status.code() == Some(0) {
            let report = fs::read_to_string(lab.path("out/report.html")).expect("a report");
            assert!(report.contains("Bucket 3 arrived packets"), "no table by bucket");
        }
        if lost.is_empty() { Ok(()) } else { Err(lost.join(", ")) }
    });
}
