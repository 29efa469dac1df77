//! From a specification to a plan: files read, `${name}` substituted, the matrix multiplied, the
//! cells put in order.
//!
//! [`load`] and [`from_text`] are the way in. They report everything that is wrong in one go, and
//! return a plan only if nothing is. They look at the specification and its files alone: never at
//! this host, its CPUs or its privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;
use weir_net::CpuList;
use weir_results::matrix::Series;

use crate::diagnostic::{Diagnostic, Report, Source};
use crate::model::{Cell, Plan, SpecSource, TestbedSpec};
use crate::spec::files::FileSource;
use crate::spec::iterations::ITERATIONS_MAX;
use crate::{identity, spec};

mod backups;
mod connect;
pub mod estimate;
mod expand;
mod hosts;
mod http;
mod network;
mod order;
mod resolve;
mod senders;
mod toggles;
mod traffic;
mod value;
pub mod view;

#[cfg(test)]
mod tests;

/// The most cells of a campaign: more would run for months.
const CELLS_MAX: u64 = 1_000_000;

/// What the command line changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Iterations of every series (`-n`), 1 to 1000.
    pub iterations: Option<u32>,
    /// Only cells whose series, or `<series>/<iteration>`, matches this pattern (`--only`). `*`
    /// does not match the `/`.
    pub only: Option<String>,
}

/// Reads and resolves the specification at `path`; with the plan come warnings.
///
/// # Errors
/// Everything that is wrong with it, errors and warnings, in the order of the text.
pub fn load(
    path: &Path,
    files: &dyn FileSource,
    overrides: &Overrides,
) -> Result<(Plan, Vec<Diagnostic>), Vec<Diagnostic>> {
    match files.read(path) {
        Ok(text) => from_text(path, &text, files, overrides),
        Err(error) => {
            let source = Source { name: path.display().to_string(), text: String::new() };
            let message = format!("cannot read the specification: {error}");
            Err(vec![Diagnostic::error(&Arc::new(source), message)])
        }
    }
}

/// Resolves the specification `text`; `path` is where it would stand, for messages and as the
/// place that its files are relative to.
///
/// # Errors
/// As [`load`].
pub fn from_text(
    path: &Path,
    text: &str,
    files: &dyn FileSource,
    overrides: &Overrides,
) -> Result<(Plan, Vec<Diagnostic>), Vec<Diagnostic>> {
    let source = Source { name: path.display().to_string(), text: text.to_owned() };
    let mut report = Report::new(Arc::new(source));
    let plan = resolve_all(path.to_owned(), files, overrides, &mut report);
    match plan {
        Some(plan) if !report.has_errors() => Ok((plan, report.finish())),
        _ => Err(report.finish()),
    }
}

fn resolve_all(
    path: PathBuf,
    files: &dyn FileSource,
    overrides: &Overrides,
    report: &mut Report,
) -> Option<Plan> {
    let spec = spec::read(report)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let resolved = resolve::resolve(&spec, folder, files, report);
    hosts::check_duts(&spec, report);
    toggles::check(&spec, report);
    backups::check(&spec, report);
    let series = expand::expand(&spec, &resolved, report);
    toggles::check_traffics(&spec, &series, report);
    backups::check_traffics(&spec, &series, report);
    connect::check_spec(&spec, report);
    if let Some(TestbedSpec::Hosts(testbed)) = &spec.testbed {
        hosts::check_traffics(&spec, testbed, &series, report);
    }
    let places = expand::places(&spec, &series);
    if !report.has_errors() {
        for testbed in spec.places.all() {
            let here = |one: &&Series| places.get(&one.id).is_none_or(|place| place == testbed);
            senders::refuse_idle_cpus(testbed, series.iter().filter(here), report);
            senders::refuse_jumbo_frames(testbed, series.iter().filter(here), report);
        }
    }
    let mut campaign = spec.campaign?;
    if let Some(iterations) = overrides.iterations {
        if !(1..=ITERATIONS_MAX).contains(&u64::from(iterations)) {
            let message = format!("-n must be 1 to {ITERATIONS_MAX}, not {iterations}");
            report.push(Diagnostic::error(&report.spec, message));
            return None;
        }
        (campaign.iterations, campaign.auto) = (iterations, None);
    }
    if report.has_errors() {
        return None;
    }
    let cell_count = series.len() as u64 * u64::from(campaign.iterations);
    if cell_count > CELLS_MAX {
        let message = format!("the matrix has {cell_count} cells; {CELLS_MAX} are the limit");
        report.push(Diagnostic::error(&report.spec, message));
        return None;
    }
    let mut cells = order::cells(&campaign, &series);
    if let Some(pattern) = &overrides.only {
        cells = only(pattern, cells, &series, report)?;
    }
    let text = report.spec.text.clone();
    let source = SpecSource { path, text, files: resolved.files };
    let images = spec.images.into_iter().map(|image| image.image).collect();
    // What disturbs a trial disturbs both settings of a toggle: it is not repeated.
    let is_toggled = series.iter().any(|series| series.dut.toggle.is_some());
    let retries = if is_toggled { 0 } else { spec.retries };
    let (trial, search) = (spec.trial, spec.search);
    let testbed = spec.testbed?;
    Some(Plan { campaign, trial, retries, testbed, places, images, search, series, cells, source })
}

/// The cells that `pattern` selects; none is an error.
fn only(
    pattern: &str,
    cells: Vec<Cell>,
    series: &[Series],
    report: &mut Report,
) -> Option<Vec<Cell>> {
    let glob = globset::GlobBuilder::new(pattern).literal_separator(true).build();
    let matcher = match glob {
        Ok(glob) => glob.compile_matcher(),
        Err(error) => {
            let message = format!("--only `{pattern}` is not a pattern: {}", error.kind());
            report.push(Diagnostic::error(&report.spec, message));
            return None;
        }
    };
    let selected: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| {
            let name = &series[cell.series_index].name;
            matcher.is_match(name) || matcher.is_match(cell_name(name, cell.iteration))
        })
        .collect();
    if selected.is_empty() {
        let names: Vec<&str> = series.iter().take(8).map(|series| series.name.as_str()).collect();
        let more = if series.len() > names.len() { ", …" } else { "" };
        let help = format!(
            "it is matched against `<series>` and `<series>/<iteration>`; series are: \
             {}{more}",
            names.join(", ")
        );
        let message = format!("--only `{pattern}` matches no cell");
        report.push(Diagnostic::error(&report.spec, message).help(help));
        return None;
    }
    Some(selected)
}

fn cell_name(series: &str, iteration: u32) -> String {
    format!("{series}/{iteration}")
}

impl Plan {
    /// `<series>/<iteration>`, as a cell is called everywhere.
    #[must_use]
    pub fn cell_name(&self, cell: &Cell) -> String {
        cell_name(&self.series[cell.series_index].name, cell.iteration)
    }

    /// Whether its DUTs have a toggle each: their settings are compared inside the trials.
    #[must_use]
    pub fn is_toggled(&self) -> bool {
        self.series.iter().any(|series| series.dut.toggle.is_some())
    }

    /// Where a field of `[testbed]` stands, `lab.toml:9:12`: for what only shows on a host.
    #[must_use]
    pub fn place_in_testbed(&self, field: &str) -> String {
        let SpecSource { path, text, .. } = &self.source;
        let (document, _) = DeTable::parse_recoverable(text);
        let testbed =
            document.get_ref().get("testbed").and_then(|value| value.get_ref().as_table());
        let span = testbed.and_then(|testbed| Some(testbed.get(field)?.span()));
        let source = Source { name: path.display().to_string(), text: text.clone() };
        let place = Diagnostic { span, ..Diagnostic::error(&Arc::new(source), "") };
        match place.position() {
            Some((line, column)) => format!("{}:{line}:{column}", place.source.name),
            None => place.source.name.clone(),
        }
    }

    /// Where a series runs, by its id.
    #[must_use]
    pub fn testbed_of(&self, series_id: &str) -> &TestbedSpec {
        self.places.get(series_id).unwrap_or(&self.testbed)
    }

    /// How many CPUs the DUT has, by the names of series, where their testbeds state it.
    #[must_use]
    pub(crate) fn dut_cpus(&self) -> BTreeMap<String, usize> {
        let count = |series: &Series| {
            let count = match self.testbed_of(&series.id) {
                TestbedSpec::Netns(netns) => {
                    netns.dut_cpus.as_ref()?.parse::<CpuList>().ok()?.iter().count()
                }
                TestbedSpec::Qemu(qemu) => qemu.cpus as usize,
                TestbedSpec::Hosts(_) => return None,
            };
            Some((series.name.clone(), count))
        };
        self.series.iter().filter_map(count).collect()
    }

    /// Every testbed that the plan's cells run on.
    #[must_use]
    pub fn testbeds(&self) -> Vec<&TestbedSpec> {
        let mut used = Vec::new();
        for cell in &self.cells {
            let testbed = self.testbed_of(&self.series[cell.series_index].id);
            if !used.contains(&testbed) {
                used.push(testbed);
            }
        }
        used
    }

    /// The calibrations that the plan's cells need, one for each traffic id: a series that has it,
    /// in their order. Another series finds its own by that id: the name may be another's, where
    /// two traffics ask for the same. None where there is no path without a DUT.
    #[must_use]
    pub fn calibrations(&self) -> Vec<&Series> {
        // Settings that take turns are held against each other, not against the path.
        if !self.testbed.has_direct_path() || self.is_toggled() {
            return Vec::new();
        }
        let used: BTreeSet<usize> = self.cells.iter().map(|cell| cell.series_index).collect();
        let mut seen = BTreeSet::new();
        let mut calibrations = Vec::new();
        for index in used {
            let series = &self.series[index];
            if seen.insert(series.traffic.id.as_str()) {
                calibrations.push(series);
            }
        }
        calibrations
    }
}

/// Id of a cell of `series`.
fn cell(series_index: usize, series: &Series, iteration: u32) -> Cell {
    Cell { series_index, iteration, id: identity::cell_id(&series.id, iteration) }
}
