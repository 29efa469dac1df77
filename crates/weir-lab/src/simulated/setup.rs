//! What tests on the simulated testbed begin with: a specification, its plan, a store, a run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use super::simulator::{SAMPLE, Script, Simulator};
use crate::campaign::Campaign;
use crate::event::Observer;
use crate::model::Plan;
use crate::plan::{self, Overrides};
use crate::runner::{RunError, Runner};
use crate::spec::files::MemoryFiles;
use crate::store::{PlanRecord, STORE_SCHEMA, Store};
use weir_machine::cancel::Cancel;

pub(super) const SPEC: &str = r#"
[campaign]
name = "simulated"
iterations = 2
order = "sequential"
[trial]
warmup = "0ms"
duration = "100ms"
drain = "50ms"
sample = "10ms"
[testbed]
kind = "netns"
[[dut]]
name = "linux"
kind = "linux"
[[traffic]]
name = "t"
src = "198.18.10.1:2000-198.18.10.8"
dst = "198.19.10.1:2000-198.19.10.16"
"#;

pub(super) fn plan_of(spec: &str, iterations: Option<u32>) -> Plan {
    let files = MemoryFiles(BTreeMap::from([(PathBuf::from("lab.toml"), spec.to_owned())]));
    let overrides = Overrides { iterations, only: None };
    let (plan, _) = plan::load(Path::new("lab.toml"), &files, &overrides).expect("a good plan");
    assert_eq!(plan.trial.sample, SAMPLE);
    plan
}

/// What stores of tests say of their plan.
pub(super) fn record() -> PlanRecord {
    PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: "lab.toml".into(),
        iterations: None,
        only: None,
        weir: "test".into(),
    }
}

/// A new store, `out` in a directory.
pub(super) fn store(dir: &Path, plan: &Plan) -> Store {
    Store::create(&dir.join("out"), &plan.source, &record()).expect("a store")
}

/// Runs what a store lacks of a campaign.
pub(super) fn run(
    (plan, store): (&Plan, &Store),
    script: &Rc<Script>,
    cancel: &Cancel,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let testbed = Simulator { script: Rc::clone(script) };
    Runner { plan, store, testbed: &testbed, cancel, observer, wait: Duration::ZERO }
        .run(&mut Campaign::new(plan, store)?)
}
