//! `iterations = "auto"` on real packets: a series that holds its rate has soon been measured
//! enough.

use serde_json::Value;

use crate::common::{
    Lab, assert_exit, assert_measured, can_run_lab, json, run, stderr, stdout, surroundings,
    trials, unless_starved,
};
use crate::turns::alone;

/// A rate so low that the kernel forwards all of it, so that iterations are much alike.
const AUTO: &str = r#"
[campaign]
name = "auto"
iterations = "auto"
half_width = "25%"
confidence = "90%"
min = 3
max = 8

[trial]
retries = 5
warmup = "100ms"
duration = "500ms"
sample = "50ms"

[testbed]
kind = "netns"

[[dut]]
name = "linux"
kind = "linux"

[[traffic]]
name = "at-20k"
src = "198.18.10.1:2000-198.18.10.70"
dst = "198.19.10.1:2000-198.19.10.70"
rate = "20kpps"
"#;

#[test]
fn a_quiet_series_stops_before_its_last_iteration() {
    const NAME: &str = "a_quiet_series_stops_before_its_last_iteration";
    if !can_run_lab(NAME) {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(AUTO, &[]);
    let plan = run(&["lab", "plan", &lab.arg("lab.toml"), "--json"]);
    assert_exit(&plan, 0);
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    assert_eq!((&plan["cell_count_min"], plan["cells"].as_array().unwrap().len()), (&3.into(), 8));
    assert!(plan["estimated_duration_min_ns"].as_u64() < plan["estimated_duration_ns"].as_u64());
    let shown = stdout(&run(&["lab", "plan", &lab.arg("lab.toml")]));
    assert!(shown.contains("1 series × 3 to 8 iterations = 3 to 8 cells"), "{shown}");
    unless_starved(NAME, || {
        let lab = Lab::new(AUTO, &[]);
        let output = lab.run(&[]);
        let out = lab.path("out");
        assert_measured(&output, &out);
        assert_eq!(surroundings(), before, "something stayed behind");
        let is_disturbed = |trial: &Value| trial["verdict"]["kind"] == "disturbed";
        if trials(&out).iter().any(|(_, trial)| is_disturbed(trial)) {
            return Err("trials were disturbed at every attempt".to_owned());
        }
        stops_early(&lab, &stderr(&output));
        Ok(())
    });
}

/// The series of a lab that has ended was soon narrow enough.
fn stops_early(lab: &Lab, said: &str) {
    let out = lab.path("out");
    let taken = trials(&out).len();
    assert!((3..8).contains(&taken), "{taken} iterations\n{said}");
    let decision = format!("linux.at-20k: known to ±25 % after {taken} iterations");
    assert!(said.contains(&decision), "{said}");
    let summary = json(&lab.path("out/summary.json"));
    assert_eq!(summary["complete"], true);
    assert_eq!(summary["counts"]["planned_cells"], taken);
    assert_eq!(summary["series"][0]["analysis"]["stopped"], "narrow-enough");

    // Nothing is left to do, until a number of iterations is asked for.
    assert_measured(&run(&["lab", "resume", &lab.arg("out")]), &out);
    assert_eq!(trials(&out).len(), taken);
    let more = (taken + 1).to_string();
    assert_measured(&run(&["lab", "resume", &lab.arg("out"), "-n", &more]), &out);
    assert_eq!(trials(&out).len(), taken + 1);
}
