//! `weir lab run` and `weir lab resume`: preflight, campaign, derived files, result.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use weir_bpf::probe;
use weir_lab::bisect::{self, Question};
use weir_lab::campaign::{CampaignError, Run, pending_cells, to_run_max};
use weir_lab::cancel::Cancel;
use weir_lab::digest::Reader;
use weir_lab::material::{self, Material};
use weir_lab::model::{Cell, Image, Plan, TestbedSpec};
use weir_lab::store::{PlanRecord, STORE_SCHEMA, Store};
use weir_lab::testbed::Testbed;
use weir_lab::testbed::netns::NetnsTestbed;
use weir_lab::testbed::qemu::QemuTestbed;
use weir_lab::{derive, environment};

use super::{absolute, hosts, outcome, require_root, show, show_result, stored_plan};
use crate::cli::Selection;
use crate::exit::{Outcome, or_stopped};
use crate::progress::Progress;
use crate::signals;

/// How a campaign is begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// Nobody is asked.
    pub(super) yes: bool,
    /// The result is JSON.
    pub(super) json: bool,
}

/// A campaign that may begin: its store is open, and what it needs is there.
pub(super) struct Begun {
    store: Store,
    testbed: Box<dyn Testbed>,
    cancel: Cancel,
}

impl Begun {
    /// The directory of its store.
    pub(super) fn root(&self) -> &Path {
        self.store.root()
    }

    /// Runs it to its end.
    pub(super) fn run(&self, plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
        campaign(&self.store, plan, self.testbed.as_ref(), &self.cancel, json)
    }
}

/// `weir lab run`.
pub(super) fn new(
    selection: &Selection,
    plan: &Plan,
    out: Option<PathBuf>,
    resume: bool,
    how: How,
) -> anyhow::Result<Outcome> {
    let cancel = signals::listen().context("cannot listen to signals")?;
    begin(selection, plan, out, resume, (how.yes, cancel))?.run(plan, how.json)
}

/// Looks at everything that a campaign needs, asks whether to begin unless `yes`, and makes its
/// store, or opens the one that is there.
pub(super) fn begin(
    selection: &Selection,
    plan: &Plan,
    out: Option<PathBuf>,
    resume: bool,
    (yes, cancel): (bool, Cancel),
) -> anyhow::Result<Begun> {
    let spec = absolute(&selection.spec)?;
    let root = match out {
        Some(out) => out,
        None => default_out(&plan.campaign.name)?,
    };
    let earlier = match resume && root.join("campaign.toml").is_file() {
        true => Some(Store::open(&root)?),
        false => None,
    };
    let left = match &earlier {
        Some(store) => Left::of(plan, store)?,
        None => Left::all(plan),
    };
    let testbed = preflight("weir lab run", plan, &spec, (yes, &left), &cancel)?;
    let made_of = left.material(plan, testbed.as_ref(), &cancel)?;
    if earlier.is_some() {
        material::compare(&root, &made_of)?;
    }
    let record = PlanRecord {
        schema: STORE_SCHEMA,
        spec_path: absolute(&selection.spec)?.display().to_string(),
        iterations: selection.iterations,
        only: selection.only.clone(),
        weir: crate::VERSION.to_owned(),
    };
    let store = if let Some(store) = earlier {
        store.replace_specification(&plan.source, &record)?;
        store
    } else {
        Store::create(&root, &plan.source, &record)?
    };
    keep_material(&store, &made_of)?;
    Ok(Begun { store, testbed, cancel })
}

/// `weir lab resume`.
pub(super) fn resume(dir: &Path, iterations: Option<u32>, how: How) -> anyhow::Result<Outcome> {
    let store = Store::open(dir)?;
    let Some(plan) = stored_plan(&store, iterations)? else {
        return Ok(Outcome::Refused);
    };
    let left = Left::of(&plan, &store)?;
    let cancel = signals::listen().context("cannot listen to signals")?;
    let spec = PathBuf::from(store.plan_record()?.spec_path);
    let testbed = preflight("weir lab resume", &plan, &spec, (how.yes, &left), &cancel)?;
    keep_material(&store, &left.material(&plan, testbed.as_ref(), &cancel)?)?;
    if iterations.is_some() {
        let record = PlanRecord { iterations, ..store.plan_record()? };
        store.replace_plan_record(&record)?;
    }
    campaign(&store, &plan, testbed.as_ref(), &cancel, how.json)
}

/// What is left of a campaign.
#[derive(Debug, Clone)]
pub(super) struct Left {
    /// Cells that the store does not hold.
    cells: Vec<Cell>,
    /// How many of them are run at the most, as far as is known.
    pub(super) cell_count_max: usize,
}

impl Left {
    /// All of a plan, of which nothing was run.
    pub(super) fn all(plan: &Plan) -> Self {
        Self { cells: plan.cells.clone(), cell_count_max: plan.cells.len() }
    }

    /// What a store does not hold. One that the plan cannot go on in is refused here, before
    /// anything in it is replaced.
    fn of(plan: &Plan, store: &Store) -> anyhow::Result<Self> {
        refuse_bisect(store)?;
        refuse_fewer(plan, store)?;
        // It names the image, and a conflict of cells only the cell.
        material::compare(store.root(), &material::stated(plan))?;
        let cells = pending_cells(plan, store)?;
        let cell_count_max = to_run_max(plan, store, &cells)?;
        Ok(Self { cells, cell_count_max })
    }

    /// The images that these cells need. A run for a profile may need any.
    pub(super) fn images<'p>(&self, plan: &'p Plan) -> Vec<&'p Image> {
        let cells = if plan.testbed.profile() { &plan.cells } else { &self.cells };
        material::images_of(plan, cells)
    }

    /// What the testbed is made of now, if anything is to run on it.
    pub(super) fn material(
        &self,
        plan: &Plan,
        testbed: &dyn Testbed,
        cancel: &Cancel,
    ) -> anyhow::Result<Material> {
        if self.cells.is_empty() && !plan.testbed.profile() {
            return Ok(Material::default());
        }
        let reader = Reader { cancel, tell: &tell_reading };
        let read = testbed.material(&self.images(plan), &reader);
        read.map_err(|error| or_stopped(cancel, error.into()))
    }
}

/// Says why nothing happens for a while.
pub(super) fn tell_reading(path: &Path, size_bytes: u64) {
    let path = path.display();
    crate::progress::note(&format!("reading {path} for its SHA-256: {} MiB", size_bytes >> 20));
}

/// Keeps what the testbed is made of, unless it is something else than the campaign began with.
pub(super) fn keep_material(store: &Store, now: &Material) -> anyhow::Result<()> {
    let was_recorded = material::keep(store, now)?;
    if !was_recorded && *now != Material::default() && !store.read_cells()?.trials.is_empty() {
        crate::progress::warn(&format!(
            "{} does not say which images its finished iterations ran on: those of now are \
             recorded, and what was before cannot be compared",
            store.root().display()
        ));
    }
    Ok(())
}

/// Refuses a plan of fewer iterations than are finished: a finished one is never taken back.
fn refuse_fewer(plan: &Plan, store: &Store) -> anyhow::Result<()> {
    let cells = store.read_cells()?.trials;
    let Some((most, _)) = cells.iter().max_by_key(|(record, _)| record.iteration) else {
        return Ok(());
    };
    let (asked, finished) = (plan.campaign.iterations, most.iteration);
    if asked < finished {
        bail!(
            "{} holds {finished} iterations of `{}` already, and {asked} are asked for: finished \
             iterations are never taken back; ask for {finished} or more with -n",
            store.root().display(),
            most.series,
        );
    }
    Ok(())
}

/// Refuses to run the whole matrix where a search has run a part of it.
fn refuse_bisect(store: &Store) -> anyhow::Result<()> {
    if let Some(question) = bisect::question(store)? {
        let (root, Question { good, bad, .. }) = (store.root().display(), question);
        bail!(
            "{root} holds a search between {good} and {bad}, not a campaign: go on with `weir lab \
             bisect SPEC --good {good} --bad {bad} --out {root} --resume`"
        );
    }
    Ok(())
}

/// What must hold before anything is made. `spec` is where the specification stands, `yes` that
/// nobody is to be asked, `left` what is to run.
pub(super) fn preflight(
    command: &str,
    plan: &Plan,
    spec: &Path,
    (yes, left): (bool, &Left),
    cancel: &Cancel,
) -> anyhow::Result<Box<dyn Testbed>> {
    // The plan may have been read from a copy in a store: files lie beside the original.
    let folder = spec.parent().unwrap_or(Path::new(""));
    if plan.testbed.has_direct_path() {
        require_root(command)?;
        probe::live_frames().context(
            "this kernel cannot send XDP live frames, which the generator is made of (Linux 5.18 \
             or later with CONFIG_BPF_SYSCALL): run `weir doctor`",
        )?;
    }
    match &plan.testbed {
        TestbedSpec::Netns(netns) => Ok(Box::new(NetnsTestbed::new(netns, cancel.clone())?)),
        TestbedSpec::Qemu(qemu) => Ok(Box::new(QemuTestbed::new(qemu, folder, cancel.clone())?)),
        TestbedSpec::Hosts(machines) => {
            hosts::preflight(plan, machines, folder, (yes, left), cancel)
        }
    }
}

/// `results/<campaign>-<time>`, time in UTC.
pub(super) fn default_out(campaign: &str) -> anyhow::Result<PathBuf> {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let path = PathBuf::from(format!("results/{campaign}-{now}"));
    if path.exists() {
        bail!("{} exists already: choose another directory with --out", path.display());
    }
    Ok(path)
}

fn campaign(
    store: &Store,
    plan: &Plan,
    testbed: &dyn Testbed,
    cancel: &Cancel,
    json: bool,
) -> anyhow::Result<Outcome> {
    keep_environment(store, testbed)?;
    let mut progress = Progress::new();
    let ran = run(store, plan, testbed, cancel, &mut progress);
    progress.finish();
    let signal = match ran {
        Ok(()) => None,
        Err(CampaignError::Cancelled { signal }) => Some(signal),
        Err(error) => {
            // What is finished is worth a report, but the error is what must be told.
            drop(derive::write(store, plan));
            return Err(error.into());
        }
    };
    let derived = derive::write(store, plan)?;
    let Some(signal) = signal else {
        show_result(store, &derived, json)?;
        return Ok(outcome(&derived));
    };
    // Where a terminal is gone, nobody reads the result, and the signal is still the reason.
    drop(show::result(store, &derived, json));
    show::interrupted(store);
    Ok(Outcome::Signal(signal))
}

fn run(
    store: &Store,
    plan: &Plan,
    testbed: &dyn Testbed,
    cancel: &Cancel,
    progress: &mut Progress,
) -> Result<(), CampaignError> {
    Run { plan, store, testbed, cancel, observer: progress }.run()
}

/// Writes `env.json`, or notes in it what has changed since the campaign began.
pub(super) fn keep_environment(store: &Store, testbed: &dyn Testbed) -> anyhow::Result<()> {
    // The plan may have been read from the copy in the store, which has no revision of its own.
    let record = store.plan_record()?;
    let spec_dir = Path::new(&record.spec_path).parent().unwrap_or(Path::new("."));
    let now = environment::read(crate::VERSION, spec_dir, &testbed.environment());
    let path = store.root().join("env.json");
    if !path.exists() {
        return Ok(store.write_json("env.json", &now)?);
    }
    let mut first: serde_json::Value = store.read_json(&path)?;
    if let Some(note) = environment::resumed(&mut first, &now) {
        crate::progress::warn(&note);
    }
    Ok(store.write_json("env.json", &first)?)
}
