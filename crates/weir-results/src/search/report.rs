//! The report of a search as a document: `report.html`, `summary.md` and what a terminal shows.
//!
//! The rates stand first, everything that they rest on below. A page's links lead to the raw
//! records beside it, and nowhere else.

use serde_json::Value;
use weir_stats::Threshold;
use weir_stats::search::OFFER_KEPT_MIN;

use super::figures::{self, Group};
use super::record::{GoalRecord, ItemResult, PathStep, StepOutcome};
use super::show::{self, SearchSummary, figure};
use crate::document::{
    self, Block, Cell, Column, Document, Fold, Line, Outputs, Row, Table, Voice, link, prose,
};
use crate::number::{or_dash, percent, share};
use crate::plot::{self, Format};
use crate::report::grounds;
use crate::search::Test;
use crate::unit::Unit;
use crate::verdict;
use crate::yardstick::Yardstick;

/// What a report of searches is written from.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchReport {
    /// What was asked for, and what was found.
    pub summary: SearchSummary,
    /// What is known of the machines, as the store keeps it.
    pub environment: Value,
    /// How fast the host was before and after.
    pub yardsticks: Vec<Yardstick>,
    /// The specification as it was written.
    pub spec_text: String,
    /// The command line that asks for the same again.
    pub command: String,
    /// The store's directory, as a word of a command line.
    pub store: String,
}

impl SearchReport {
    /// For people.
    #[must_use]
    pub fn document(&self) -> Document {
        let summary = &self.summary;
        let title = format!("{}: rate search", summary.campaign);
        let mut document = Document {
            kind: "weir lab · rate search".to_owned(),
            window: format!("{title} – weir lab report"),
            title,
            answer: self.answer(),
            foot: "Derived by weir; the raw records of every trial are beside this page.".into(),
            ..Document::default()
        };
        let groups = figures::groups(&summary.items);
        document.section("goals", "Rates", self.goals());
        document.section("path", "How the rates were found", paths(&summary.items));
        document.section("loss", "Loss by load", loss(&groups));
        document.section("latency", "Latency by load", latency(&groups));
        document.section("bursts", "Back-to-back frames", bursts(&summary.items));
        let notes = show::notes(&summary.items).into_iter();
        let notes = notes.map(|note| prose(&note)).collect();
        document.section("notes", "Notes", vec![Block::List(Voice::Plain, notes)]);
        let in_files = |blocks: Vec<Block>| vec![Block::Only(Outputs::FILES, blocks)];
        let thresholds: Vec<Threshold> =
            verdict::THRESHOLDS.into_iter().chain([OFFER_KEPT_MIN]).collect();
        let thresholds = in_files(vec![grounds::thresholds(&thresholds).into()]);
        document.folded("thresholds", grounds::THRESHOLDS, thresholds);
        let environment = grounds::environment(&self.environment, &self.yardsticks);
        document.folded("environment", "Environment", in_files(environment));
        let specification = vec![Block::Preformatted(self.spec_text.clone())];
        let specification = Block::Only(Outputs::PAGE, specification);
        document.folded("specification", "Specification", vec![specification]);
        let commands = in_files(vec![Block::Facts("list commands", self.commands())]);
        document.folded("reproduce", "How to reproduce", commands);
        document
    }

    /// The commands that lead to this report again, and what each does.
    fn commands(&self) -> Vec<(Line, Line)> {
        let SearchReport { command, store, summary, .. } = self;
        let again = "searches again, into a new store; this one keeps the specification as \
                     `campaign.toml`";
        let mut commands = vec![(command.clone(), again)];
        if summary.items.len() < summary.planned_items {
            commands.push((format!("weir lab resume {store}"), "does the missing searches"));
        }
        let rebuilt = "writes this report again from the raw records, without measuring";
        commands.push((format!("weir lab report {store}"), rebuilt));
        let shown = |(name, what): (String, &str)| (Line::new().code(name), prose(what));
        commands.into_iter().map(shown).collect()
    }

    /// A sentence for each item, and how much of the search this is.
    fn answer(&self) -> Vec<Block> {
        let SearchSummary { items, planned_items, .. } = &self.summary;
        let sentence = |item: &ItemResult| -> Line {
            let goal = |goal: &GoalRecord| {
                format!("{} {} ({})", goal.name, figure(goal, item.unit), goal.limit.name())
            };
            let goals: Vec<String> = item.goals.iter().map(goal).collect();
            Line::new().strong(item.name.clone()).text(format!(": {}", goals.join(", ")))
        };
        let found = items.iter().filter(|item| !item.goals.is_empty()).map(sentence).collect();
        let count = format!(
            "{} of {planned_items} searches done; frame sizes without FCS (with FCS)",
            items.len()
        );
        let mut blocks = vec![Block::List(Voice::Lead, found), Block::plain(count)];
        if items.len() < *planned_items {
            let line = Line::new().strong("Incomplete.");
            blocks.push(Block::warning(line.prose(" `weir lab resume` does the missing ones.")));
        }
        blocks
    }

    /// What was asked for, and what was found.
    fn goals(&self) -> Vec<Block> {
        let terms = self.summary.terms.goals.iter().map(|goal| {
            let terms = format!(
                "{}: full trials of {} s; {} s of them decide about a load, and {} of that may be \
                 bad; bounds at most {} apart",
                goal.name(),
                goal.final_trial_s,
                goal.duration_sum_s,
                percent(goal.exceed_ratio),
                percent(goal.width_ratio),
            );
            terms.into()
        });
        let unit = self.summary.items.first().map_or(Unit::Pps, |item| item.unit);
        let method = prose(&format!(
            "Rates are loads in {}, frame sizes in bytes without FCS (with FCS). `rate` is the \
             relevant lower bound of RFC 9971, `arrives` its conditional throughput; `>=` marks \
             figures that something other than the DUT limited. `CPU time` is the DUT's per packet \
             that it received, in the trials at that rate.",
            unit.title().to_lowercase()
        ));
        let terms = Block::List(Voice::Plain, terms.collect());
        let items = &self.summary.items;
        let mut blocks = vec![
            Block::Only(Outputs::FILES, vec![terms, Block::note(method)]),
            show::goals(items).into(),
        ];
        let repetitions: Block = show::repetitions(items).into();
        blocks.extend((!repetitions.is_empty()).then_some(repetitions));
        blocks
    }
}

/// The items of all groups that have a table, each under its name.
fn tables(group: &Group<'_>, table: impl Fn(&ItemResult) -> Option<Table>) -> Vec<Block> {
    let titled = |(_, item): &(usize, &ItemResult)| {
        let title = item.name.clone().into();
        Some(Block::Titled(Fold::Never, title, vec![table(item)?.into()]))
    };
    group.items.iter().filter_map(titled).collect()
}

fn loss(groups: &[Group<'_>]) -> Vec<Block> {
    let block = |(group, index): (&Group<'_>, u32)| {
        let figure = figures::loss(group).map(|it| it.in_page(&format!("loss-{index}")));
        let tables = tables(group, |item| Some(show::curve(item.loss_curve.as_ref()?, item.unit)));
        figure.map(Block::Figure).into_iter().chain(tables)
    };
    groups.iter().zip(1..).flat_map(block).collect()
}

fn latency(groups: &[Group<'_>]) -> Vec<Block> {
    let block = |(group, index): (&Group<'_>, u32)| {
        let drawing = |(figure, quantile): (plot::Figure, u32)| {
            let id = format!("latency-{index}-{quantile}");
            figure.inline_svg(Format::Half, &id, "multiple", &[])
        };
        let drawings: Vec<String> =
            figures::latency(group).into_iter().zip(1..).map(drawing).collect();
        let figure = document::Figure { style: "multiples", drawings, caption: String::new() };
        let figure = (!figure.drawings.is_empty()).then_some(Block::Figure(figure));
        let tables = tables(group, |item| item.latency.as_ref().map(show::latency));
        figure.into_iter().chain(tables)
    };
    let mut blocks: Vec<Block> = groups.iter().zip(1..).flat_map(block).collect();
    if !blocks.is_empty() {
        blocks.push(Block::note(
            "One-way latency at shares of the rate that was found, means over the repetitions of \
             each quantile.",
        ));
    }
    blocks
}

fn bursts(items: &[ItemResult]) -> Vec<Block> {
    let table = show::bursts(items);
    if table.is_empty() {
        return Vec::new();
    }
    let note = "The longest burst at the generator's full rate of which nothing was lost, mean \
                over the repetitions (RFC 9004); the buffer is the time that such a burst takes, \
                corrected without what was forwarded meanwhile.";
    vec![table.into(), Block::note(note)]
}

/// Paths that a page shows without being asked.
const PATHS_OPEN: u32 = 6;

/// The path of each search, in a page alone: its figure, and every trial.
fn paths(items: &[ItemResult]) -> Vec<Block> {
    let block = |(item, index): (&ItemResult, u32)| {
        let figure = figures::path(item)?.in_page(&format!("path-{index}"));
        let title = format!("{}: every trial", item.name).into();
        let trials = Block::Titled(Fold::Closed, title, vec![trials(item).into()]);
        let inner = vec![Block::Figure(figure), trials];
        let fold = if index <= PATHS_OPEN { Fold::Open } else { Fold::Closed };
        Some(Block::Titled(fold, item.name.clone().into(), inner))
    };
    let blocks: Vec<Block> = items.iter().zip(1..).filter_map(block).collect();
    if blocks.is_empty() { blocks } else { vec![Block::Only(Outputs::PAGE, blocks)] }
}

/// Every trial of a search for bounds.
fn trials(item: &ItemResult) -> Table {
    let mut columns = vec![
        Column::numbers("Trial"),
        Column::numbers("Load").raw(item.unit.name()),
        Column::numbers("Length"),
        Column::numbers("Lost"),
    ];
    columns.extend(item.goals.iter().map(|goal| Column::words(goal.name.clone())));
    let row = |(step, number): (&PathStep, u32)| -> Row {
        let folder = format!("items/{}/{}/{number:04}/", item.name, Test::Throughput.name());
        let lost = match step.outcome {
            StepOutcome::LossRatio(loss_ratio) => Cell::from(share(loss_ratio)).sorted(loss_ratio),
            StepOutcome::NotOffered => "not offered".into(),
            StepOutcome::Void => "void".into(),
            StepOutcome::WarmUp => "warm-up".into(),
        };
        let goal = |goal: &GoalRecord| -> Cell {
            let word = |is_good| if is_good { "forwarded" } else { "lost too much" };
            or_dash(figures::outcome(step.outcome, goal).map(word).map(str::to_owned)).into()
        };
        let cells = [
            Cell::from(Line::new().link(link(&folder), number.to_string())),
            Cell::from(item.unit.written(step.load_pps)).sorted(step.load_pps),
            format!("{} s", step.duration_s).into(),
            lost,
        ];
        cells.into_iter().chain(item.goals.iter().map(goal)).collect()
    };
    Table::new(columns, item.path.iter().zip(1..).map(row))
}
