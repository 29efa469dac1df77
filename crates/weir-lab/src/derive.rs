//! Between store and reports: what stands in a store, and the files that are derived from it.
//!
//! Derived files can be removed and rebuilt at any time. Nothing here changes a raw result.

use std::path::{Path, PathBuf};

use weir_machine::ssh::profile::{FLAME_GRAPH, FOLDED, LOG};
use weir_machine::ssh::quote;
use weir_results::collection::{Collection, Opened};
use weir_results::record::TrialRecord;
use weir_results::search::Terms;
use weir_results::search::record::ItemResult;
use weir_results::search::report::SearchReport;
use weir_results::search::show::SearchSummary;
use weir_results::summary::{CampaignData, CampaignSummary, Profile};
use weir_results::{bisect, report, verdict};

use crate::bisect::Bisection;
use crate::campaign::History;
use crate::diagnostic::Diagnostic;
use crate::model::Plan;
use crate::plan::{self, Overrides};
use crate::runner::RunError;
use crate::search::{self, Item};
use crate::spec::files::{DiskFiles, FileSource};
use crate::store::{Store, StoreError, StoredFiles};
use crate::task::Task;

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
    /// What stands in the store does not fit it.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The plan that a store was made for, all of it. `iterations` goes before what the store was made
/// with.
///
/// # Errors
/// When the store is damaged, or holds a specification that this version refuses.
pub fn stored_plan(store: &Store, iterations: Option<u32>) -> Result<Plan, StoredPlanError> {
    let kept = store.plan_record()?;
    let overrides = Overrides { iterations: iterations.or(kept.iterations), only: kept.only };
    let (plan, _) = plan::load(&store.spec_path(), &StoredFiles::new(store)?, &overrides)
        .map_err(StoredPlanError::Refused)?;
    Ok(plan)
}

/// The series of a store, whatever it was made for.
///
/// # Errors
/// When it cannot be read, or its specification is refused. Damaged cells are no error.
pub fn collection(root: &Path) -> Result<Opened, StoredPlanError> {
    let store = Store::open_to_read(root)?;
    store.check_begun()?;
    let plan = stored_plan(&store, None)?;
    let task = Task::of(&store)?;
    if let Task::Search(terms) = &task {
        let (found, _) = search::results(&plan, terms, &store)?;
        let environment = store.read_json(&store.root().join("env.json"))?;
        let mut collection = search::collection(&plan.campaign.name, environment, &found);
        collection.yardsticks = store.yardsticks()?;
        return Ok(Opened { collection, damaged: Vec::new() });
    }
    let (data, damaged) = campaign_data(&store, task.reported(&plan, &store)?.as_ref())?;
    let damaged = damaged.iter().map(ToString::to_string).collect();
    Ok(Opened { collection: Collection::of_campaign(&data), damaged })
}

/// Everything that reports are made from, and the results that cannot be read.
///
/// # Errors
/// When the store itself cannot be read.
pub(crate) fn campaign_data(
    store: &Store,
    plan: &Plan,
) -> Result<(CampaignData, Vec<StoreError>), StoreError> {
    let (calibrations, cells) = (store.read_calibrations()?, store.read_cells()?);
    let runs = store.read_profiles()?;
    let (mut rejected, unreadable) = store.read_rejected()?;
    // A profile that failed is told of where the others are.
    rejected.retain(|rejected| !rejected.folder.starts_with("rejected/profile."));
    let planned = History::of(plan, cells.trials.iter().map(|(record, _)| record));
    let data = CampaignData {
        campaign: plan.campaign.clone(),
        spec_text: plan.source.text.clone(),
        command: Task::of(store)?.command_line(&store.plan_record()?),
        store: quoted_root(store),
        environment: store.read_json(&store.root().join("env.json"))?,
        yardsticks: store.yardsticks()?,
        calibrations: calibrations.trials,
        rejected,
        cells: cells.trials,
        planned_cells: planned.planned_cells(),
        dut_cpus: plan.dut_cpus(),
        thresholds: verdict::THRESHOLDS.to_vec(),
        profiles: runs.trials.iter().map(|(record, _)| profile(store, record)).collect(),
    };
    let mut damaged = calibrations.damaged;
    damaged.extend(cells.damaged);
    damaged.extend(runs.damaged);
    damaged.extend(unreadable);
    Ok((data, damaged))
}

/// The directory of a store as a word of a command line, absolute: whoever reads it elsewhere is
/// not where it was written.
fn quoted_root(store: &Store) -> String {
    let root = std::path::absolute(store.root()).unwrap_or_else(|_| store.root().to_owned());
    quote(&root.to_string_lossy())
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

/// What a store comes to, by what was asked.
#[derive(Debug)]
pub enum Account {
    /// Every series.
    Campaign(Box<Derived>),
    /// The answer of a bisection, and the series that it measured.
    Bisection(Box<(bisect::Report, Derived)>),
    /// The rates that were found.
    Search(Box<SearchReport>),
}

/// Writes every derived file of a store, whatever it was made for.
///
/// # Errors
/// When a result cannot be read, allows no answer, or a file cannot be written.
pub fn account(store: &Store, plan: &Plan, task: &Task) -> Result<Account, RunError> {
    Ok(match task {
        Task::Campaign => Account::Campaign(Box::new(write(store, plan, None)?)),
        Task::Bisection(question) => {
            // The figures stand even where they allow no answer.
            let report = Bisection::new(plan, question, store).map(|b| b.report().clone());
            let derived = write(store, task.reported(plan, store)?.as_ref(), report.as_ref().ok())?;
            Account::Bisection(Box::new((report?, derived)))
        }
        Task::Search(terms) => Account::Search(Box::new(write_search(store, plan, terms)?)),
    })
}

/// Writes the derived files of a search.
fn write_search(store: &Store, plan: &Plan, terms: &Terms) -> Result<SearchReport, RunError> {
    let (found, planned_items) = search::results(plan, terms, store)?;
    let result = |(_, result): (Item, ItemResult)| result;
    let summary = SearchSummary {
        campaign: plan.campaign.name.clone(),
        terms: terms.clone(),
        planned_items,
        items: found.into_iter().map(result).collect(),
    };
    store.write_json("summary.json", &summary)?;
    let environment = store.read_json(&store.root().join("env.json"))?;
    let spec_text = plan.source.text.clone();
    let report = SearchReport {
        summary,
        environment,
        yardsticks: store.yardsticks()?,
        spec_text,
        command: Task::Search(Box::new(terms.clone())).command_line(&store.plan_record()?),
        store: quoted_root(store),
    };
    let document = report.document();
    store.write("summary.md", document.markdown().as_bytes())?;
    store.write("report.html", document.html().as_bytes())?;
    Ok(report)
}

/// Writes every derived file of a campaign, or of what a bisection ran, with its answer.
///
/// # Errors
/// When a result cannot be read or a file cannot be written.
pub fn write(
    store: &Store,
    plan: &Plan,
    bisection: Option<&bisect::Report>,
) -> Result<Derived, StoreError> {
    let (data, damaged) = campaign_data(store, plan)?;
    for file in report::files(&data, bisection) {
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
