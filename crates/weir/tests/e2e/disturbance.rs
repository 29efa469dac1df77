//! What else runs on the machine: it is named, and never taken for the DUT.

use std::process::{Child, Command, Stdio};

use crate::common::{Lab, assert_exit, can_run_lab, run, stderr, stdout, trials};
use crate::turns::alone;

const SPEC: &str = r#"
[campaign]
name = "twice"
iterations = 3

[trial]
warmup = "100ms"
duration = "1s"
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
    fn start() -> Self {
        let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
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

#[test]
fn two_equal_campaigns_of_which_one_has_a_hog_never_differ() {
    if !can_run_lab("two_equal_campaigns_of_which_one_has_a_hog_never_differ") {
        return;
    }
    let _turn = alone();
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
    assert_eq!(std::fs::read_dir(rejected).expect("a folder").count(), 3);
    let report = std::fs::read_to_string(busy.path("out/report.html")).expect("a report");
    assert!(report.contains("3 disturbed cells"), "the report says so");

    let (old, new) = (quiet.arg("out"), busy.arg("out"));
    for pair in [[&old, &new], [&new, &old]] {
        let output = run(&["lab", "compare", pair[0], pair[1], "--fail-on", "regression>1%"]);
        assert_exit(&output, 0);
        let printed = stdout(&output);
        assert!(printed.contains("not comparable: 0 values on a side"), "{printed}");
        assert!(printed.contains("no regression beyond 1 % is proven"), "{printed}");
        assert!(!printed.contains("slower") && !printed.contains("faster"), "{printed}");
    }
}
