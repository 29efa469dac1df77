//! Between store and reports: what stands in a store, and the files that are derived from it.
//!
//! Derived files can be removed and rebuilt at any time. Nothing here changes a raw result.

use std::path::{Path, PathBuf};

use crate::bisect;
use crate::campaign::History;
use crate::diagnostic::Diagnostic;
use crate::model::Plan;
use crate::plan::{self, Overrides};
use crate::record::TrialRecord;
use crate::report;
use crate::spec::files::{DiskFiles, FileSource};
use crate::ssh::profile::{FLAME_GRAPH, FOLDED, LOG};
use crate::store::{Store, StoreError, StoredFiles};
use crate::summary::{CampaignData, CampaignSummary, Profile, Threshold};
use crate::verdict;

impl FileSource for StoredFiles {
    fn locate(&self, _folder: &Path, name: &str) -> PathBuf {
        self.location(name)
    }

    fn read_bytes(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        DiskFiles.read_bytes(path)
    }
}

/// Why the plan of a store cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoredPlanError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its specification is refused, in words of their own.
    #[error("the specification in the store is refused")]
    Refused(Vec<Diagnostic>),
}

/// The plan of a campaign that stands in a store. `iterations` goes before what the store was
/// made with.
///
/// # Errors
/// When the store is damaged, or holds a specification that this version refuses.
pub fn stored_plan(store: &Store, iterations: Option<u32>) -> Result<Plan, StoredPlanError> {
    let kept = store.plan_record()?;
    let overrides = Overrides { iterations: iterations.or(kept.iterations), only: kept.only };
    let (plan, _) = plan::load(&store.spec_path(), &StoredFiles::new(store)?, &overrides)
        .map_err(StoredPlanError::Refused)?;
    // A search runs the cells that it needs, and is complete with those.
    match bisect::question(store)? {
        Some(_) => Ok(bisect::finished(&plan, store)?),
        None => Ok(plan),
    }
}

/// Everything that reports are made from, and the results that cannot be read.
///
/// # Errors
/// When the store itself cannot be read.
pub fn campaign_data(
    store: &Store,
    plan: &Plan,
) -> Result<(CampaignData, Vec<StoreError>), StoreError> {
    let threshold = |t: &verdict::Threshold| Threshold {
        name: t.name.to_owned(),
        value: t.value,
        unit: t.unit.to_owned(),
        meaning: t.meaning.to_owned(),
    };
    let (calibrations, cells) = (store.read_calibrations()?, store.read_cells()?);
    let runs = store.read_profiles()?;
    let planned = History::of(plan, cells.trials.iter().map(|(record, _)| record));
    let data = CampaignData {
        campaign: plan.campaign.clone(),
        spec_text: plan.source.text.clone(),
        environment: store.read_json(&store.root().join("env.json"))?,
        calibrations: calibrations.trials,
        cells: cells.trials,
        planned_cells: planned.planned_cells(),
        thresholds: verdict::THRESHOLDS.iter().map(threshold).collect(),
        profiles: runs.trials.iter().map(|(record, _)| profile(store, record)).collect(),
    };
    let mut damaged = calibrations.damaged;
    damaged.extend(cells.damaged);
    damaged.extend(runs.damaged);
    Ok((data, damaged))
}

/// What stands in the store of a profile.
fn profile(store: &Store, record: &TrialRecord) -> Profile {
    let mut files = store.profile_files(&record.series);
    // What the generators and the receiver said is there as well.
    files.retain(|path| [FLAME_GRAPH, FOLDED, LOG].iter().any(|name| path.ends_with(name)));
    let folded = files.iter().find(|path| path.ends_with(&format!("/{FOLDED}")));
    let folded = folded.and_then(|path| DiskFiles.read(&store.root().join(path)).ok());
    let why_not = folded.is_none().then(|| record.verdict.reason.clone());
    Profile { series: record.series.clone(), folded, files, why_not }
}

/// What a terminal shows of a campaign.
#[derive(Debug)]
pub struct Derived {
    /// The content of `summary.json`.
    pub summary: CampaignSummary,
    /// The answers, one sentence per traffic.
    pub answers: Vec<String>,
    /// The comparisons of the first two DUTs as ministat shows them: title and text.
    pub ministat: Vec<(String, String)>,
    /// What the comparisons come to: title and words.
    pub words: Vec<(String, String)>,
    /// Warnings about series, with advice.
    pub warnings: Vec<String>,
    /// Results that cannot be read, and are left out therefore.
    pub damaged: Vec<StoreError>,
}

/// Writes every derived file.
///
/// # Errors
/// When a result cannot be read or a file cannot be written.
pub fn write(store: &Store, plan: &Plan) -> Result<Derived, StoreError> {
    let (data, damaged) = campaign_data(store, plan)?;
    for file in report::files(&data) {
        store.write(&file.path, file.text.as_bytes())?;
    }
    let report = report::Report::new(&data);
    Ok(Derived {
        answers: report.answers(),
        ministat: report.ministat(),
        words: report.words(),
        warnings: report.warnings(),
        summary: report.summary,
        damaged,
    })
}
