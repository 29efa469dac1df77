//! What is left of a run, and what it needs: cells, images, files of the testbed.

use std::path::Path;

use anyhow::bail;
use weir_lab::campaign::{pending_cells, to_run_max};
use weir_lab::material::{self, Material};
use weir_lab::model::{Cell, Image, Plan};
use weir_lab::store::{Kind, Store};
use weir_lab::task::Task;
use weir_lab::testbed::Testbed;
use weir_machine::cancel::Cancel;
use weir_machine::digest::Reader;

use crate::exit::or_stopped;

/// What is left of a run.
#[derive(Debug, Clone)]
pub(super) struct Left {
    /// Cells that the store does not hold.
    cells: Vec<Cell>,
    /// How many of them are run at the most, as far as is known.
    pub(super) cell_count_max: usize,
    /// Which trials run, and how many, follows from what they measure: the cells stand for series.
    pub(super) is_open: bool,
}

impl Left {
    /// All of a plan, of which nothing was run, for a task of this kind.
    pub(super) fn all(plan: &Plan, kind: Kind) -> Self {
        let is_open = kind != Kind::Campaign;
        Self { cells: plan.cells.clone(), cell_count_max: plan.cells.len(), is_open }
    }

    /// What a store does not hold. One that cannot be gone on in is refused here, before anything
    /// in it is replaced.
    pub(super) fn of(plan: &Plan, store: &Store, task: &Task) -> anyhow::Result<Self> {
        task.check(store)?;
        if task.kind() == Kind::Campaign {
            refuse_fewer(plan, store)?;
        }
        // It names the image, and a conflict of cells only the cell.
        material::compare(store.root(), &material::stated(plan))?;
        task.schedule(plan, store)?;
        if task.kind() != Kind::Campaign {
            // Which of them are needed is not known before they are measured.
            return Ok(Self::all(plan, task.kind()));
        }
        let cells = pending_cells(plan, store)?;
        let cell_count_max = to_run_max(plan, store, &cells)?;
        Ok(Self { cells, cell_count_max, is_open: false })
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
             iterations are never discarded; ask for {finished} or more with -n",
            store.root().display(),
            most.series,
        );
    }
    Ok(())
}
