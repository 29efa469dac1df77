//! What all runs of the lab have in common, campaigns, bisections and rate searches: preflight, the
//! store, the run, derived files, result.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use weir_bpf::probe;
use weir_lab::campaign::pending_cells;
use weir_lab::derive;
use weir_lab::material::{self, Material};
use weir_lab::model::{Plan, TestbedSpec};
use weir_lab::plan::estimate::Estimate;
use weir_lab::runner::{RunError, Runner};
use weir_lab::store::{Kind, PlanRecord, STORE_SCHEMA, Store};
use weir_lab::task::Task;
use weir_lab::testbed::Testbed;
use weir_lab::testbed::netns::NetnsTestbed;
use weir_lab::testbed::qemu::QemuTestbed;
use weir_machine::cancel::Cancel;
use weir_machine::environment;
use weir_wire::units::whole_ns;

use super::left::Left;
use super::show::Shown;
use super::watch::Progress;
use super::{absolute, check_place, hosts, outcome, placements, require_root, show, stored_plan};
use crate::cli::Selection;
use crate::exit::Outcome;
use crate::signals;

/// What each run of a campaign was to take, and what it took.
const DURATIONS: &str = "durations.json";

/// How a run is begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Nobody is asked.
    pub(super) yes: bool,
    /// How long it may wait for a quiet host.
    pub(super) wait: Duration,
    /// How its result is shown.
    pub(super) shown: Shown,
}

/// What is to be run.
pub(super) struct Asked<'a> {
    /// The command, for messages.
    pub(super) command: &'static str,
    /// Which part of which specification.
    pub(super) selection: &'a Selection,
    pub(super) plan: &'a Plan,
    /// What is asked of it.
    pub(super) task: Task,
    /// Where results go.
    pub(super) out: Option<PathBuf>,
    /// Go on with what is there.
    pub(super) resume: bool,
}

/// A run that may begin: its store is open, and what it needs is there.
pub(super) struct Begun {
    store: Store,
    task: Task,
    testbed: Box<dyn Testbed>,
    cancel: Cancel,
}

impl Begun {
    /// The directory of its store.
    pub(super) fn root(&self) -> &Path {
        self.store.root()
    }

    /// Runs it to its end, and shows what it comes to.
    pub(super) fn run(&self, plan: &Plan, how: How) -> anyhow::Result<Outcome> {
        let Self { store, task, testbed, .. } = self;
        keep_environment(store, testbed.as_ref())?;
        let (estimate, began) = (self.estimate(plan)?, Instant::now());
        let signal = match self.trials(plan, how.wait) {
            Ok(()) => None,
            Err(RunError::Cancelled { signal }) => Some(signal),
            Err(error) => {
                // What is finished is worth a report, but the error is what must be told.
                drop(derive::account(store, plan, task));
                return Err(error.into());
            }
        };
        let account = derive::account(store, plan, task)?;
        let Some(signal) = signal else {
            show::account(store, &account, how.shown)?;
            if let Some((cells, estimate)) = estimate {
                let took = Took::new(cells, estimate, began.elapsed());
                took.keep(store)?;
                show::took(how.shown, estimate, began.elapsed());
            }
            return Ok(outcome(&account));
        };
        // Where a terminal is gone, nobody reads the result, and the signal is still the reason.
        drop(show::account(store, &account, how.shown));
        show::interrupted(store);
        Ok(Outcome::Signal(signal))
    }

    /// What a campaign has left to run, cells, and how long that should take; `None` of what finds
    /// out by itself how much that is.
    fn estimate(&self, plan: &Plan) -> anyhow::Result<Option<(usize, Duration)>> {
        if self.task.kind() != Kind::Campaign || plan.campaign.auto.is_some() {
            return Ok(None);
        }
        let cells = pending_cells(plan, &self.store)?;
        let estimate = Estimate::of(plan, cells.iter()).total();
        Ok((!cells.is_empty()).then_some((cells.len(), estimate)))
    }

    fn trials(&self, plan: &Plan, wait: Duration) -> Result<(), RunError> {
        let Self { store, task, testbed, cancel } = self;
        let mut schedule = task.schedule(plan, store)?;
        let mut progress = Progress::new(task.kind());
        let (testbed, observer) = (testbed.as_ref(), &mut progress);
        let ran = Runner { plan, store, testbed, cancel, observer, wait }.run(schedule.as_mut());
        progress.finish();
        ran
    }
}

/// What a run of a campaign that came to its end was to take, and what it took: with repeats of
/// disturbed trials, and with waiting for a quiet host.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Took {
    cell_count: usize,
    estimated_ns: u64,
    taken_ns: u64,
}

impl Took {
    fn new(cell_count: usize, estimate: Duration, taken: Duration) -> Self {
        Self { cell_count, estimated_ns: whole_ns(estimate), taken_ns: whole_ns(taken) }
    }

    /// Adds it to those of the store.
    fn keep(self, store: &Store) -> anyhow::Result<()> {
        let path = store.root().join(DURATIONS);
        let mut all: Vec<Self> = if path.exists() { store.read_json(&path)? } else { Vec::new() };
        all.push(self);
        Ok(store.write_json(DURATIONS, &all)?)
    }
}

/// Runs what is asked for, from the question whether to begin to the result.
pub(super) fn new(asked: Asked<'_>, how: How) -> anyhow::Result<Outcome> {
    let cancel = signals::listen().context("cannot listen to signals")?;
    let plan = asked.plan;
    begin(asked, how, cancel)?.run(plan, how)
}

/// Looks at everything that a run needs, asks whether to begin, and makes its store, or opens the
/// one that is there.
pub(super) fn begin(asked: Asked<'_>, how: How, cancel: Cancel) -> anyhow::Result<Begun> {
    let Asked { command, selection, plan, task, out, resume } = asked;
    if plan.is_toggled() && task.kind() != Kind::Campaign {
        bail!(
            "{} has a DUT with a toggle, whose settings `weir lab run` compares inside its \
             trials: `{command}` cannot; take the toggle out",
            selection.spec.display()
        );
    }
    let mut backups = plan.series.iter().filter_map(|series| series.dut.kind.backup());
    if backups.any(|backup| backup.takeover.is_some()) && task.kind() != Kind::Campaign {
        bail!(
            "{} has a DUT with a takeover in each trial, which loses packets: `{command}` cannot \
             find a rate with that; take `takeover` out",
            selection.spec.display()
        );
    }
    let other = plan.series.iter().find(|series| !series.traffic.kind.is_packets());
    if let Some(series) = other.filter(|_| task.kind() == Kind::Bisection) {
        bail!(
            "{} has traffic of {}, and a bisection compares packets per second: `{command}` is not \
             built for them",
            selection.spec.display(),
            series.traffic.kind.unit().things()
        );
    }
    placements(plan)?;
    let spec = absolute(&selection.spec)?;
    let root = match out {
        Some(out) => {
            check_place(&out)?;
            out
        }
        None => default_out(&plan.campaign.name, task.kind())?,
    };
    let earlier = match resume && root.join("campaign.toml").is_file() {
        true => Some(Store::open(&root)?),
        false => None,
    };
    let left = match &earlier {
        Some(store) => Left::of(plan, store, &task)?,
        None => Left::all(plan, task.kind()),
    };
    let testbed = preflight(command, plan, &spec, (how, &left), &cancel)?;
    let made_of = left.material(plan, testbed.as_ref(), &cancel)?;
    if earlier.is_some() {
        material::compare(&root, &made_of)?;
    }
    let record = PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: spec.display().to_string(),
        iterations: selection.iterations,
        only: selection.only.clone(),
        weir: crate::VERSION.to_owned(),
    };
    let store = if let Some(store) = earlier {
        task.replace(&store, &plan.source, &record)?;
        store
    } else {
        task.create(&root, &plan.source, &record)?
    };
    keep_material(&store, &made_of)?;
    Ok(Begun { store, task, testbed, cancel })
}

/// `weir lab resume`: goes on with whatever the store was made for.
pub(super) fn resume(dir: &Path, iterations: Option<u32>, how: How) -> anyhow::Result<Outcome> {
    let store = Store::open(dir)?;
    let task = Task::of(&store)?;
    if iterations.is_some() && task.kind() != Kind::Campaign {
        bail!(
            "{} holds {}, which runs as many trials as it needs: -n is for campaigns; leave it out",
            dir.display(),
            task.kind().name()
        );
    }
    let Some(plan) = stored_plan(&store, iterations)? else {
        return Ok(Outcome::Refused);
    };
    let left = Left::of(&plan, &store, &task)?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let spec = PathBuf::from(store.plan_record()?.spec_path);
    let testbed = preflight("weir lab resume", &plan, &spec, (how, &left), &cancel)?;
    keep_material(&store, &left.material(&plan, testbed.as_ref(), &cancel)?)?;
    if iterations.is_some() {
        let record = PlanRecord { iterations, ..store.plan_record()? };
        store.replace_plan_record(&record)?;
    }
    Begun { store, task, testbed, cancel }.run(&plan, how)
}

/// Keeps what the testbed is made of, unless it is something else than the campaign began with.
fn keep_material(store: &Store, now: &Material) -> anyhow::Result<()> {
    let was_recorded = material::keep(store, now)?;
    if !was_recorded && *now != Material::default() && !store.read_cells()?.trials.is_empty() {
        crate::progress::warn(&format!(
            "{} does not say which images its finished iterations ran on: the present ones \
             are recorded, and earlier ones cannot be compared",
            store.root().display()
        ));
    }
    Ok(())
}

/// What must hold before anything is made. `spec` is where the specification stands, `left`
/// what is to run.
fn preflight(
    command: &str,
    plan: &Plan,
    spec: &Path,
    (how, left): (How, &Left),
    cancel: &Cancel,
) -> anyhow::Result<Box<dyn Testbed>> {
    // The plan may have been read from a copy in a store: files lie beside the original.
    let folder = spec.parent().unwrap_or(Path::new(""));
    if plan.testbed.has_direct_path() {
        require_root(command, "makes network namespaces and loads BPF programs (CAP_SYS_ADMIN)")?;
        probe::live_frames().context(
            "this kernel cannot send XDP live frames, which the generator is made of (Linux 5.18 \
             or later with CONFIG_BPF_SYSCALL): run `weir doctor`",
        )?;
    }
    let testbeds = plan.testbeds();
    let built: Box<dyn Testbed> = match testbeds.first().copied().unwrap_or(&plan.testbed) {
        TestbedSpec::Netns(netns) => Box::new(NetnsTestbed::new(netns, how.wait, cancel.clone())?),
        TestbedSpec::Qemu(qemu) => {
            Box::new(QemuTestbed::new(qemu, folder, how.wait, cancel.clone())?)
        }
        TestbedSpec::Hosts(machines) => {
            hosts::preflight(plan, machines, folder, (how.yes, left), cancel)?
        }
    };
    // What one of them is refused for shows before the first trial.
    for cell in plan.cells.iter().rev() {
        let series = &plan.series[cell.series_index];
        built.prepare(series, plan.testbed_of(&series.id))?;
    }
    Ok(built)
}

/// `results/<campaign>-<time>`, time in UTC; what is no campaign is named besides.
fn default_out(campaign: &str, kind: Kind) -> anyhow::Result<PathBuf> {
    let what = match kind {
        Kind::Campaign => "",
        Kind::Bisection => "-bisect",
        Kind::Search => "-search",
    };
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let path = PathBuf::from(format!("results/{campaign}{what}-{now}"));
    if path.exists() {
        bail!("{} exists already: choose another directory with --out", path.display());
    }
    Ok(path)
}

/// Writes `env.json`, or notes in it what has changed since the campaign began.
fn keep_environment(store: &Store, testbed: &dyn Testbed) -> anyhow::Result<()> {
    // The plan may have been read from the copy in the store, which has no revision of its own.
    let record = store.plan_record()?;
    let spec_dir = Path::new(&record.spec_path).parent().unwrap_or(Path::new("."));
    let now = environment::read(crate::VERSION, spec_dir, &testbed.environment());
    let path = store.root().join("env.json");
    if !path.exists() {
        return Ok(store.write_json("env.json", &now)?);
    }
    let mut first: serde_json::Value = store.read_json(&path)?;
    if let Some(note) = weir_results::environment::resumed(&mut first, &now) {
        crate::progress::warn(&note);
    }
    Ok(store.write_json("env.json", &first)?)
}
