//! Bad input: one clear message with its place, exit code 2, and nothing touched.

use crate::common::{
    Lab, STATEFUL, assert_exit, assert_measured, can_run_lab, run, stderr, stdout, surroundings,
};
use crate::turns::alone;

const SPEC: &str = r#"[campaign]
name = "bad"
iterations = 1

[trial]
warmup = "0ms"
duration = "500ms"

[testbed]
kind = "netns"

[[dut]]
name = "nft"
kind = "linux"
files = { nft = "rules.nft" }

[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
rate = "5kpps"
"#;

/// Runs a specification that is refused, and returns what was said.
#[track_caller]
fn refused(spec: &str) -> String {
    let lab = Lab::new(spec, &[("rules.nft", STATEFUL)]);
    let output = run(&["lab", "plan", &lab.arg("lab.toml")]);
    assert_exit(&output, 2);
    let planned = stderr(&output);
    let output = lab.run(&[]);
    assert_exit(&output, 2);
    assert!(!lab.path("out").exists(), "a store was made for a campaign that was refused");
    planned
}

/// The message names the file and the line that `needle` stands in.
#[track_caller]
fn assert_place(said: &str, spec: &str, needle: &str) {
    let line = spec.lines().position(|l| l.contains(needle)).expect("it is there") + 1;
    assert!(said.contains(&format!("lab.toml:{line}:")), "no line {line} in:\n{said}");
}

#[test]
fn an_unknown_field_is_refused_with_its_line() {
    let spec = SPEC.replace("rate =", "raet =");
    let said = refused(&spec);
    assert_place(&said, &spec, "raet");
    assert!(said.contains("raet") && said.contains("`rate`"), "{said}");
}

#[test]
fn an_impossible_address_is_refused() {
    let spec = SPEC.replace("198.18.10.1:2000-", "300.1.1.1:2000-");
    let said = refused(&spec);
    assert_place(&said, &spec, "300.1.1.1");
    assert!(said.contains("300.1.1.1"), "{said}");
}

#[test]
fn a_plan_is_refused_for_what_this_host_lacks_as_a_run_is() {
    let cpus = SPEC.replace("kind = \"netns\"", "kind = \"netns\"\ndut_cpus = \"4095\"");
    let said = refused(&cpus);
    assert_place(&said, &cpus, "4095");
    assert!(said.contains("dut_cpus = \"4095\": CPU 4095"), "{said}");
    let image = SPEC.replace("kind = \"netns\"", "kind = \"qemu\"\nimage = \"nowhere.qcow2\"");
    let said = refused(&image);
    assert!(said.contains("nowhere.qcow2: No such file"), "{said}");
}

#[test]
fn results_make_one_folder_and_not_a_path() {
    let lab = Lab::new(SPEC, &[("rules.nft", STATEFUL)]);
    let output = run(&["lab", "run", &lab.arg("lab.toml"), "--out", &lab.arg("slip/out")]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("/slip does not exist"), "{said}");
    assert!(!lab.path("slip").exists());
    // That of an image is made for it, but not the one above.
    let (medium, disk) = (lab.arg("medium.iso"), lab.arg("slip/more/disk.qcow2"));
    let output = run(&["lab", "image", "freebsd", &medium, "--out", &disk]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("/slip does not exist"), "{said}");
    assert!(!lab.path("slip").exists());
}

#[test]
fn a_store_without_a_trial_is_told_alike_by_all_who_read_it() {
    if !can_run_lab("a_store_without_a_trial_is_told_alike_by_all_who_read_it") {
        return;
    }
    let _turn = alone();
    let lab = Lab::new(SPEC, &[("rules.nft", STATEFUL)]);
    lab.run(&[]);
    // As a run leaves it that was killed before its first trial was whole.
    for trials in ["cells", "rejected"] {
        drop(std::fs::remove_dir_all(lab.path("out").join(trials)));
    }
    let (out, figure) = (lab.arg("out"), lab.arg("figure.svg"));
    let plot = ["plot", &out, "--strip", "--out", &figure];
    for command in [&["report", &out][..], &["compare", &out, &out], &plot] {
        let output = run(&[&["lab"], command].concat());
        assert_exit(&output, 2);
        let said = stderr(&output);
        assert!(said.contains(&format!("{out} holds no finished trial")), "{command:?}: {said}");
        assert!(said.contains(&format!("weir lab resume {out}")), "{command:?}: {said}");
    }
}

#[test]
fn the_least_number_of_iterations_is_told() {
    let lab = Lab::new(SPEC, &[("rules.nft", STATEFUL)]);
    let output = run(&["lab", "plan", &lab.arg("lab.toml"), "-n", "0"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("the least is 1"), "{}", stderr(&output));
}

#[test]
fn a_plan_says_who_has_which_cpu_and_what_a_search_takes() {
    let spec = SPEC.replace("rate = \"5kpps\"\n", "");
    let lab = Lab::new(&(spec + "[search]\ntrial = \"100ms\"\n"), &[("rules.nft", STATEFUL)]);
    let output = run(&["lab", "plan", &lab.arg("lab.toml")]);
    assert_exit(&output, 0);
    let said = stdout(&output);
    assert!(said.contains("on this host: generator on CPU 0, DUT on CPU"), "{said}");
    assert!(said.contains(": 1 in all, with about "), "{said}");
    let output = run(&["lab", "plan", &lab.arg("lab.toml"), "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert!(plan["search"]["estimated_duration_ns"].as_u64().is_some_and(|ns| ns > 0), "{plan}");
    assert_eq!(plan["placements"][0]["generator_cpus"], "0");
}

#[test]
fn a_network_boot_is_refused_on_an_interface_outside_of_the_range() {
    let lab = Lab::new("", &[("pxe.toml", PXE)]);
    let check = |more: &[&str]| run(&[&["pxe", "check", "--dir", &lab.arg("")], more].concat());
    let output = check(&["--interface", "lo", "--json"]);
    assert_exit(&output, 1);
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let trouble = answer["interface_trouble"].as_str().expect("trouble");
    assert!(trouble.contains("no address in the network of the range 192.0.2.100"), "{trouble}");
    assert!(stdout(&check(&["--interface", "lo"])).contains("WRONG    `lo` has no address"));
    assert!(!stdout(&check(&[])).contains("WRONG"));
}

const PXE: &str = r#"[serve]
range = "192.0.2.100-192.0.2.150"

[[entry]]
name = "local"
kind = "local"
"#;

#[test]
fn a_reversed_range_is_swapped_with_a_warning() {
    let lab = Lab::new(
        &SPEC.replace("198.18.10.1:2000-198.18.10.8", "198.18.10.8:2000-198.18.10.1"),
        &[("rules.nft", STATEFUL)],
    );
    let output = run(&["lab", "plan", &lab.arg("lab.toml"), "--json"]);
    assert_exit(&output, 0);
    assert!(
        stderr(&output).contains("are reversed; it is read as 198.18.10.1:2000-198.18.10.8"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains("128"), "{}", stdout(&output));
}

#[test]
fn a_duration_of_zero_is_refused() {
    let spec = SPEC.replace("duration = \"500ms\"", "duration = \"0s\"");
    let said = refused(&spec);
    assert_place(&said, &spec, "duration = ");
}

#[test]
fn overlapping_cpus_are_refused() {
    let spec = SPEC.replace(
        "kind = \"netns\"",
        "kind = \"netns\"\ngenerator_cpus = \"0\"\ndut_cpus = \"0-1\"",
    );
    let said = refused(&spec);
    assert_place(&said, &spec, "dut_cpus");
    assert!(said.contains("shares CPU 0 with `generator_cpus`"), "{said}");
}

#[test]
fn cpus_that_are_not_there_are_refused() {
    let said = refused(&SPEC.replace("kind = \"netns\"", "kind = \"netns\"\ndut_cpus = \"1023\""));
    assert!(said.contains("CPU 1023 does not exist"), "{said}");
}

#[test]
fn a_missing_ruleset_is_refused_with_the_line_that_names_it() {
    let spec = SPEC.replace("rules.nft", "absent.nft");
    let said = refused(&spec);
    assert_place(&said, &spec, "absent.nft");
}

#[test]
fn a_missing_specification_is_named() {
    let output = run(&["lab", "run", "/nonexistent/lab.toml"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("/nonexistent/lab.toml"), "{}", stderr(&output));
}

#[test]
fn a_ruleset_that_does_not_load_is_quoted_and_nothing_stays() {
    if !can_run_lab("a_ruleset_that_does_not_load_is_quoted_and_nothing_stays") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let lab = Lab::new(SPEC, &[("rules.nft", "table inet f {\n    chian c { }\n}\n")]);
    let output = lab.run(&[]);
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("rules.nft:2:"), "{said}");
    assert!(said.contains("chian"), "{said}");
    assert_eq!(surroundings(), before);
}

#[test]
fn a_dut_that_never_gets_ready_is_invalid_and_the_campaign_goes_on() {
    if !can_run_lab("a_dut_that_never_gets_ready_is_invalid_and_the_campaign_goes_on") {
        return;
    }
    let _turn = alone();
    let before = surroundings();
    let spec = SPEC.replace(
        "[[traffic]]",
        "[[dut]]\nname = \"sleepy\"\nkind = \"command\"\nstart = \"sleep 3600\"\n\
         ready = \"echo not yet; false\"\nready_timeout = \"1s\"\n\n[[traffic]]",
    );
    let lab = Lab::new(&spec, &[("rules.nft", STATEFUL)]);
    let output = lab.run(&[]);
    assert_exit(&output, 1);
    let said = stderr(&output);
    assert!(said.contains("`sleepy` did not get ready") && said.contains("not yet"), "{said}");
    let trials = crate::common::trials(&lab.path("out"));
    let verdicts: Vec<_> = trials.iter().map(|(_, t)| t["verdict"]["kind"].clone()).collect();
    let [measured, refused] = &verdicts[..] else { panic!("{verdicts:?}") };
    // Whether the other one is disturbed is the machine's affair.
    assert!(measured == "generator-bound" || measured == "disturbed", "{measured}");
    assert_eq!(refused, "invalid");
    assert_eq!(surroundings(), before);
}

#[test]
fn a_dut_that_dies_at_once_is_invalid_with_its_exit_code() {
    if !can_run_lab("a_dut_that_dies_at_once_is_invalid_with_its_exit_code") {
        return;
    }
    let _turn = alone();
    let spec = SPEC.replace(
        "kind = \"linux\"\nfiles = { nft = \"rules.nft\" }",
        "kind = \"command\"\nstart = \"echo cannot open device >&2; exit 7\"\nready = \"false\"",
    );
    let lab = Lab::new(&spec, &[]);
    let output = lab.run(&[]);
    assert_exit(&output, 1);
    assert!(stderr(&output).contains("exit code 7"), "{}", stderr(&output));
    let log = lab.path("out/cells/nft.t/1/artefacts/nft.log");
    assert_eq!(std::fs::read_to_string(log).expect("the DUT's log"), "cannot open device\n");
}

#[test]
fn without_root_the_lab_says_so_and_makes_nothing() {
    if !can_run_lab("without_root_the_lab_says_so_and_makes_nothing") {
        return;
    }
    let _turn = alone();
    let lab = Lab::new(SPEC, &[("rules.nft", STATEFUL)]);
    // An unprivileged user must be able to reach binary and specification.
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]);
    command.args(["--bounding-set=-all"]).arg(env!("CARGO_BIN_EXE_weir"));
    let spec = lab.arg("lab.toml");
    let world = |path: &std::path::Path| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("chmod");
    };
    world(lab.path("lab.toml").parent().expect("a directory"));
    let out = lab.arg("out");
    let output = command.args(["lab", "run", &spec, "--out", &out]).output();
    let output = output.expect("setpriv(1) runs");
    assert_exit(&output, 2);
    let said = stderr(&output);
    assert!(said.contains("root") && said.contains("sudo"), "{said}");
    assert!(!lab.path("out").exists());
}

#[test]
fn a_store_is_not_overwritten_and_other_configurations_are_not_mixed_in() {
    if !can_run_lab("a_store_is_not_overwritten_and_other_configurations_are_not_mixed_in") {
        return;
    }
    let _turn = alone();
    let lab = Lab::new(SPEC, &[("rules.nft", STATEFUL)]);
    let out = lab.path("out");
    assert_measured(&lab.run(&[]), &out);
    let output = lab.run(&[]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("weir lab resume"), "{}", stderr(&output));
    assert_measured(&lab.run(&["--resume"]), &out);
    // Another ruleset under the same name is another configuration.
    let other = STATEFUL.replace("counter drop", "");
    std::fs::write(lab.path("rules.nft"), other).expect("writable");
    let output = lab.run(&["--resume"]);
    assert_exit(&output, 2);
    assert!(stderr(&output).contains("another configuration"), "{}", stderr(&output));
    let output = run(&["lab", "report", "/nonexistent"]);
    assert_exit(&output, 2);
}
