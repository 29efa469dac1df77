//! What a plan says that it takes, against what its trials took: by a clock that only waits
//! advance, so that what the machine of the test is busy with does not matter.

use std::rc::Rc;
use std::time::Duration;

use weir_machine::cancel::Cancel;

use super::setup::{SPEC, plan_of, run, store};
use crate::event::Silent;
use crate::plan::estimate::Estimate;

/// What a plan says that its trials take, and what they took, by their phases.
fn planned_and_real(spec: &str) -> (Duration, Duration) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let plan = plan_of(spec, None);
    let store = store(dir.path(), &plan);
    run((&plan, &store), &Rc::default(), &Cancel::simulated(), &mut Silent).expect("it runs");
    let (calibrations, cells) = (store.read_calibrations(), store.read_cells());
    let found = [calibrations.expect("readable").trials, cells.expect("readable").trials];
    let phases = found.iter().flatten().flat_map(|(record, _)| &record.times.phases);
    let took_ns: u64 = phases.map(|phase| phase.duration_ns).sum();
    let estimate = Estimate::of(&plan, plan.cells.iter());
    (estimate.total() - estimate.run, Duration::from_nanos(took_ns))
}

#[test]
fn three_campaigns_take_what_their_plans_say() {
    let short = SPEC.replace("duration = \"100ms\"", "duration = \"2s\"");
    let long = SPEC
        .replace("warmup = \"0ms\"", "warmup = \"500ms\"")
        .replace("duration = \"100ms\"", "duration = \"5s\"")
        .replace("iterations = 2", "iterations = 3");
    let latency = short.replace("sample = \"10ms\"", "sample = \"10ms\"\nlatency = \"1s\"");
    let several = latency.replace(
        "[[traffic]]",
        "[[sweep]]\nname = \"n\"\nvalues = [1, 2, 3]\n[[dut]]\nname = \"other\"\n\
         kind = \"linux\"\n[[traffic]]",
    );
    let several = several.replace("198.18.10.8", "198.18.10.${n}");
    for spec in [&short, &long, &several] {
        let (planned, took) = planned_and_real(spec);
        let off = planned.as_secs_f64() / took.as_secs_f64() - 1.0;
        assert!(off.abs() < 0.25, "planned {planned:?}, took {took:?}");
    }
}

#[test]
fn generators_that_probe_in_turn_are_counted() {
    let eight = SPEC
        .replace("kind = \"netns\"", "kind = \"netns\"\nlinks = 4")
        .replace("name = \"t\"", "name = \"t\"\ndirection = \"both\"");
    let (planned, took) = planned_and_real(&eight);
    let one = planned_and_real(SPEC);
    let (planned, took) = (planned - one.0, took - one.1);
    let off = planned.as_secs_f64() / took.as_secs_f64() - 1.0;
    assert!(off.abs() < 0.25, "seven more are planned to take {planned:?}, took {took:?}");
}
