//! Reports: what a campaign's store holds beside its raw records, all of it derived.
//!
//! Every function here is pure: text out of a [`CampaignData`], the same text for the same data.
//! The time that a report speaks of is that of the last run in it. Nothing is written here, and
//! nothing is fetched by what is written: pages and plots are self-contained, and readable on
//! paper, in light and in dark. A page holds one script, which tells of the points of its figures,
//! filters, sorts and saves its tables, and shows the records that it holds; it is complete without
//! it. Plots hold none. Links are relative and lead to the raw records.

mod about;
mod answer;
mod collected;
mod directions;
mod document;
mod environment;
mod figures;
pub(crate) mod grounds;
mod levels;
mod profile;
mod speedup;
mod statistics;
mod tables;
mod toggles;
mod words;

pub use collected::document as of_collection;

use crate::bisect;
use crate::document::{Document, Line};
use crate::gnuplot;
use crate::number;
use crate::plot::Format;
use crate::summary::{CampaignData, CampaignSummary, SeriesSummary, Trial};

/// A derived file: its path inside the store, and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedFile {
    /// Path with `/`, relative to the store.
    pub path: String,
    /// Content.
    pub text: String,
}

/// Every derived file of a store: `summary.json`, `summary.md`, `gnuplot.data`, `plots/*.svg`,
/// `report.html`. Where a bisection ran the cells, its answer stands first in the texts.
#[must_use]
pub fn files(data: &CampaignData, bisection: Option<&bisect::Report>) -> Vec<DerivedFile> {
    let report = Report::new(data);
    let document = match bisection {
        Some(bisection) => document::of_bisection(&report, bisection),
        None => report.document(),
    };
    let file = |path: &str, text: String| DerivedFile { path: path.to_owned(), text };
    let mut files = vec![
        file("summary.json", report.summary.to_json()),
        file("summary.md", document.markdown()),
        file("gnuplot.data", gnuplot::data(&report.summary)),
    ];
    files.extend(report.plots());
    files.push(file("report.html", document.html()));
    files
}

/// A campaign with its summary: what every report is written from.
#[derive(Debug)]
pub struct Report<'a> {
    /// The records.
    pub data: &'a CampaignData,
    /// What was derived from them.
    pub summary: CampaignSummary,
}

impl<'a> Report<'a> {
    /// Summarises the campaign.
    #[must_use]
    pub fn new(data: &'a CampaignData) -> Self {
        Self { data, summary: CampaignSummary::of(data) }
    }

    /// The content of `report.html` and `summary.md`.
    #[must_use]
    pub fn document(&self) -> Document {
        document::document(self)
    }

    /// The plots, each a file of its own.
    #[must_use]
    pub fn plots(&self) -> Vec<DerivedFile> {
        let mut figures = vec![
            ("throughput".to_owned(), figures::throughput(self), Format::Wide),
            ("ledger".to_owned(), figures::ledger(self), Format::Wide),
        ];
        if let Some(figure) = figures::along_axis(self) {
            figures.push(("axis".to_owned(), figure, Format::Wide));
        }
        for (index, series) in self.summary.series.iter().enumerate() {
            let mut name = format!("samples-{}", file_name(&series.name));
            if figures.iter().any(|(n, ..)| *n == name) {
                name = format!("{name}-{index}");
            }
            figures.push((name, figures::samples(self, index), Format::Half));
        }
        figures
            .into_iter()
            .map(|(name, figure, format)| DerivedFile {
                path: format!("plots/{name}.svg"),
                text: figure.svg(format),
            })
            .collect()
    }

    /// Comparisons of the first two DUTs, in ministat's layout: a title and the text of each.
    #[must_use]
    pub fn ministat(&self) -> Vec<(String, String)> {
        answer::ministat(self)
    }

    /// What the comparisons come to: a title and the words of each.
    #[must_use]
    pub fn words(&self) -> Vec<(String, String)> {
        let words = statistics::words(&self.summary).into_iter();
        words.map(|(title, text)| (title, text.to_owned())).collect()
    }

    /// Warnings about series, with advice.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let warnings = statistics::warnings(&self.summary).into_iter();
        warnings.map(|(series, what, advice)| format!("{series}: {what}; {advice}")).collect()
    }

    /// The answers of the campaign, one sentence per traffic.
    #[must_use]
    pub fn answers(&self) -> Vec<String> {
        answer::sentences(&self.summary).iter().map(Line::plain).collect()
    }

    /// The cells of a series, in the order of their iterations.
    fn cells(&self, series: &SeriesSummary) -> Vec<&'a Trial> {
        let mut cells: Vec<&Trial> =
            self.data.cells.iter().filter(|(r, _)| r.series == series.name).collect();
        cells.sort_by_key(|(record, _)| record.iteration);
        cells
    }

    /// The link to the iterations of a series in the page.
    fn iterations_link(&self, series: &SeriesSummary) -> String {
        let index = self.summary.series.iter().position(|s| s.name == series.name);
        format!("#iterations-{}", index.unwrap_or(0))
    }

    /// Colour and shape of a series: those of its DUT, or of its image where one DUT has several.
    fn colour(&self, series: &SeriesSummary) -> usize {
        let mut keys: Vec<(Option<&str>, &str)> = Vec::new();
        for s in &self.summary.series {
            let key = (s.image.as_deref(), s.dut.as_str());
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let key = (series.image.as_deref(), series.dut.as_str());
        keys.iter().position(|k| *k == key).unwrap_or(0)
    }
}

/// Whether an iteration counts.
fn is_valid(trial: &Trial) -> bool {
    !trial.0.verdict.kind.is_void()
}

/// The DUT of a series, with its image where it has one.
fn dut_label(series: &SeriesSummary) -> String {
    match &series.image {
        Some(image) => format!("{image} {}", series.dut),
        None => series.dut.clone(),
    }
}

/// What the members of a group share: traffic, sweep values, flows.
fn group_label(series: &SeriesSummary) -> String {
    let sweeps = series.sweep.iter().map(|(name, value)| format!("{name}={}", value.label));
    let parts: Vec<String> = [series.traffic_base.clone()].into_iter().chain(sweeps).collect();
    format!("{} · {}", parts.join(" · "), number::counted(series.flow_count, "flow"))
}

/// A name as a file name: whatever a file system or a shell may not like is a `_`.
fn file_name(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || "-_.=".contains(c);
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

#[cfg(test)]
#[path = "report/browser/tests.rs"]
mod browser;
#[cfg(test)]
mod tests;
