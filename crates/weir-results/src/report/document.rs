//! The report of a campaign, or of a bisection's cells, as a document: `report.html` and
//! `summary.md`.
//!
//! The answer stands first, everything that it rests on below. A page's links lead to the raw
//! records beside it, and nowhere else.

use super::{
    Report, about, answer, directions, figures, grounds, levels, profile, speedup, statistics,
    tables, toggles,
};
use crate::bisect;
use crate::document::{Block, Document, Figure, Fold, Line, Outputs, Voice, prose};
use crate::matrix::Order;
use crate::number;
use crate::plot::Format;
use crate::summary::CampaignData;
use crate::unit::Unit;

pub(super) fn document(report: &Report<'_>) -> Document {
    let summary = &report.summary;
    let counts = &summary.counts;
    let (records, left_out) = about::records(report);
    let foot = format!(
        "Derived from {} and {} by weir; the raw records are beside this page, in the store, and \
         are never rewritten. {}",
        number::counted_len(counts.finished_cells, "cell"),
        number::counted_len(counts.calibrations, "calibration"),
        held(records.len(), left_out)
    );
    let mut document = Document {
        records,
        kind: "weir lab · campaign report".to_owned(),
        title: summary.campaign.name.clone(),
        window: format!("{} – weir lab report", summary.campaign.name),
        answer: head(report),
        body: Vec::new(),
        foot: foot.into(),
    };
    if !summary.series.is_empty() {
        let key = Block::Only(Outputs::PAGE, key_figures(report));
        document.section("figures", "Key figures", vec![key]);
        document.section("throughput", "Throughput", throughput(report));
    }
    let more_cpus = speedup::table(report).map(Block::from).into_iter().collect();
    let more_cpus = explained(more_cpus, Block::note(prose(speedup::NOTE)));
    document.section("speed-up", speedup::TITLE, more_cpus);
    let each = explained(vec![directions::table(report).into()], Block::note(directions::NOTE));
    document.section("directions", "Each direction", each);
    document.section("toggles", "Two settings in turns", toggles::blocks(summary));
    let latency = vec![tables::latency(report).into()];
    let note = Block::note(prose(tables::latency_note(summary.unit())));
    document.folded("latency", "Latency", explained(latency, note));
    document.folded("statistics", "Statistics", statistics::blocks(report));
    let sizes = levels::table(summary).map(Block::from).into_iter().collect();
    document.folded("levels", levels::TITLE, explained(sizes, Block::note(levels::NOTE)));
    let went = format!("Where the {} went", summary.unit().things());
    document.folded("ledger", &went, ledgers(report));
    document.folded("profiles", profile::TITLE, profile::blocks(&report.data.profiles));
    document.folded("samples", "Over time", samples(report));
    let iterations = Block::Only(Outputs::PAGE, tables::iterations(report));
    document.folded("iterations", "Iterations", vec![iterations]);
    let thresholds = vec![grounds::thresholds(&summary.thresholds).into()];
    document.folded("thresholds", grounds::THRESHOLDS, thresholds);
    let environment = grounds::environment(&report.data.environment, &report.data.yardsticks);
    document.folded("environment", "Environment", environment);
    let specification = vec![Block::Preformatted(report.data.spec_text.clone())];
    let specification = Block::Only(Outputs::PAGE, specification);
    document.folded("specification", "Specification", vec![specification]);
    document.folded("ministat", "In ministat's layout", ministat(report));
    let commands = commands(report).into_iter();
    let commands = commands.map(|(name, what)| (Line::new().code(&name), prose(&what))).collect();
    document.folded("reproduce", "How to reproduce", vec![Block::Facts("list commands", commands)]);
    document
}

/// Series of which a page shows everything at once: they fit on two screens. Of more, it shows as
/// many sentences and rows of key figures, and folds the rest.
const SHOWN_MAX: usize = 6;

/// Whether there are more series than a page shows at once.
fn is_long(report: &Report<'_>) -> bool {
    report.summary.series.len() > SHOWN_MAX
}

/// The figures that are looked at first, and every iteration.
fn key_figures(report: &Report<'_>) -> Vec<Block> {
    let strip = figures::throughput(report);
    let strip = strip.telling("strip", &figures::throughput_about(report));
    let strip = Block::Figure(strip);
    let groups = report.summary.groups();
    if !is_long(report) {
        let table = tables::key_figures(report, &groups).into();
        return vec![Block::Beside(vec![table], vec![strip])];
    }
    let (shown, rest) = groups.split_at(groups.len().min(SHOWN_MAX));
    let mut blocks = vec![tables::key_figures(report, shown).into()];
    if !rest.is_empty() {
        let title = format!("{} more", rest.len()).into();
        let table = tables::key_figures(report, rest).into();
        blocks.push(Block::Titled(Fold::Closed, title, vec![table]));
    }
    let title = format!("Every iteration of all {} series", report.summary.series.len()).into();
    blocks.push(Block::Titled(Fold::Closed, title, vec![strip]));
    blocks
}

/// What of the records the page holds.
fn held(records: usize, left_out: usize) -> String {
    let bound = about::RECORDS_BYTES_MAX >> 20;
    match left_out {
        0 => "This page holds the records of all trials as well, and shows them wherever it lies."
            .to_owned(),
        _ => format!(
            "This page holds the first {records} records, {bound} MiB of them; links to the {} \
             lead into the store.",
            if left_out == 1 { "other".to_owned() } else { format!("other {left_out}") }
        ),
    }
}

/// The same for the cells that a bisection ran: its answer stands first, then every candidate. What
/// a campaign would say of the cells follows below.
pub(super) fn of_bisection(report: &Report<'_>, bisection: &bisect::Report) -> Document {
    let found = bisection.document();
    let cells = document(report);
    let series = vec![Block::List(Voice::Plain, answer::sentences(&report.summary))];
    let mut document = Document {
        kind: found.kind,
        answer: found.answer.into_iter().chain(state(report)).collect(),
        body: Vec::new(),
        ..cells
    };
    document.section("candidates", "Candidates", found.body);
    document.section("series", "Series", series);
    document.body.extend(cells.body);
    document
}

/// Blocks with what explains them; neither where there is nothing to explain.
fn explained(mut blocks: Vec<Block>, note: Block) -> Vec<Block> {
    blocks.retain(|block| !block.is_empty());
    if !blocks.is_empty() {
        blocks.push(note);
    }
    blocks
}

/// The answers, and how much of the campaign this is.
fn head(report: &Report<'_>) -> Vec<Block> {
    let summary = &report.summary;
    let mut blocks: Vec<Block> = answer::leads(summary).into_iter().map(Block::lead).collect();
    let sentences = answer::sentences(summary);
    if sentences.is_empty() {
        blocks.push(Block::lead("No cell of this campaign is finished yet."));
    }
    blocks.extend(listed(sentences, is_long(report)));
    blocks.extend(state(report));
    blocks
}

/// The sentences; of a long page, those that do not fit are folded away.
fn listed(mut sentences: Vec<Line>, is_long: bool) -> Vec<Block> {
    if !is_long || sentences.len() <= SHOWN_MAX {
        return vec![Block::List(Voice::Lead, sentences)];
    }
    let all = Block::Only(Outputs::TEXTS, vec![Block::List(Voice::Lead, sentences.clone())]);
    let rest = sentences.split_off(SHOWN_MAX);
    let title = format!("{} more", rest.len()).into();
    let rest = Block::Titled(Fold::Closed, title, vec![Block::List(Voice::Lead, rest)]);
    let shown = Block::List(Voice::Lead, sentences);
    vec![all, Block::Only(Outputs::PAGE, vec![shown, rest])]
}

/// How much of the campaign this is.
fn state(report: &Report<'_>) -> Vec<Block> {
    let summary = &report.summary;
    let mut blocks = Vec::new();
    let counts = &summary.counts;
    let cells = format!("{} of {}", counts.finished_cells, counts.planned_cells);
    if !summary.complete {
        let line = Line::new().strong(format!("Incomplete: {cells} cells."));
        let line = line.prose(" `weir lab resume` runs the missing ones.");
        blocks.push(Block::warning(line));
    }
    for (count, what) in
        [(counts.invalid_cells, "invalid cell"), (counts.disturbed_cells, "disturbed cell")]
    {
        if count > 0 {
            let line = Line::new().strong(format!("{}.", number::counted_len(count, what)));
            blocks.push(Block::warning(line.text(" Shown below, and left out of every figure.")));
        }
    }
    let repeated = report.data.rejected.iter().filter(|r| r.trial.0.dut.is_some()).count();
    if repeated > 0 {
        let line =
            Line::new().strong(format!("{}.", number::counted_len(repeated, "repeated trial")));
        let line =
            line.text(" Something else ran on the machine; shown as crosses in the figures.");
        blocks.push(Block::warning(line));
    }
    blocks.push(Block::List(Voice::Warning, statistics::warned(summary)));
    blocks.push(Block::Facts("facts", facts(report, cells)));
    blocks
}

fn facts(report: &Report<'_>, cells: String) -> Vec<(Line, Line)> {
    let summary = &report.summary;
    let order = match summary.campaign.order {
        Order::Interleaved => "interleaved",
        Order::Sequential => "sequential",
    };
    let verdicts = summary.counts.verdicts.iter();
    let verdicts: Vec<String> = verdicts.map(|(name, count)| format!("{count} {name}")).collect();
    let verdicts = if verdicts.is_empty() { "none".to_owned() } else { verdicts.join(", ") };
    let iterations = format!("{}, {order}", summary.campaign.iterations_text());
    let trial = report.data.cells.first().map(|(record, _)| {
        let times = &record.times;
        let (duration, warmup) =
            (number::duration(times.duration_ns), number::duration(times.warmup_ns));
        format!("{duration} after {warmup} warm-up")
    });
    let ended = summary.finished_utc.as_deref().map(number::utc);
    [
        ("Cells", Some(cells)),
        ("Verdicts", Some(verdicts)),
        ("Iterations", Some(iterations)),
        ("Trial", trial),
        ("Last run ended", ended),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.into(), value?.into())))
    .collect()
}

fn throughput(report: &Report<'_>) -> Vec<Block> {
    let axis = figures::along_axis(report)
        .map(|figure| Block::Figure(figure.telling("axis", &figures::along_axis_about(report))));
    let method = Block::note(answer::method(report));
    if !is_long(report) {
        return axis.into_iter().chain([tables::series(report).into(), method]).collect();
    }
    let title = format!("All figures of {} series", report.summary.series.len()).into();
    let folded = Block::Titled(Fold::Closed, title, vec![tables::series(report).into()]);
    let blocks = [
        Block::Only(Outputs::PAGE, vec![folded]),
        Block::Only(Outputs::TEXTS, vec![tables::series(report).into()]),
        method,
    ];
    axis.into_iter().chain(blocks).collect()
}

fn ministat(report: &Report<'_>) -> Vec<Block> {
    let block = |(title, block): (String, String)| {
        Block::Titled(Fold::Closed, title.into(), vec![Block::Preformatted(block)])
    };
    let blocks: Vec<Block> = report.ministat().into_iter().map(block).collect();
    if blocks.is_empty() {
        return blocks;
    }
    let note = format!(
        "In {}. ministat tests every set against the first, alone, by Student's t with one pooled \
         spread: the comparisons above decide, not this.",
        match report.summary.unit() {
            Unit::Connections => "connections".to_owned(),
            unit => unit.title().to_lowercase(),
        }
    );
    [Block::note(note)].into_iter().chain(blocks).collect()
}

fn ledgers(report: &Report<'_>) -> Vec<Block> {
    let tables = tables::ledgers(report);
    if tables.is_empty() {
        return tables;
    }
    let note = match report.summary.unit() {
        Unit::Pps | Unit::Bps => {
            "Medians over the valid iterations, shares of offered; medians of entries need not add \
             up to the packet, the ledgers of single iterations do."
        }
        Unit::Rps => {
            "What became of the requests, as the client counts: medians over the valid iterations, \
             shares of those that were due. A packet that is lost is sent again by the kernel, and \
             costs time; a request is lost if it has no whole, good answer within its timeout."
        }
        Unit::Cps | Unit::Connections => {
            "The steps of a connection, each counted by one of the ends, and what was lost between \
             them: medians over the valid iterations, shares of the SYNs. Each packet that was \
             lost is one connection. Of what counters of devices and of the DUT name, no counter \
             says which step it was: it is taken from the first steps that lack something."
        }
    };
    let figure = figures::ledger(report);
    let figure = Block::Figure(figure.telling("where", &figures::ledger_about(report)));
    let each = directions::ledgers(report);
    [figure].into_iter().chain(tables).chain(each).chain([Block::note(note)]).collect()
}

fn samples(report: &Report<'_>) -> Vec<Block> {
    let count = report.summary.series.len();
    if count == 0 {
        return Vec::new();
    }
    let what = match report.summary.unit() {
        Unit::Pps | Unit::Bps => "Packets per second delivered",
        Unit::Cps | Unit::Connections => "Connections per second that came through",
        Unit::Rps => "Requests per second that were answered",
    };
    let note = format!(
        "{what} during the measurement, one line per iteration. The series of a traffic share \
         their scale; a dashed line does not count."
    );
    let drawing = |index: usize| {
        let id = format!("samples-{index}");
        let about = about::of_samples(report, &report.summary.series[index]);
        figures::samples(report, index).inline_svg(Format::Half, &id, "multiple", &about)
    };
    let drawings = (0..count).map(drawing).collect();
    let figure = Figure { style: "multiples", drawings, caption: String::new() };
    vec![Block::Only(Outputs::PAGE, vec![Block::note(note), Block::Figure(figure)])]
}

/// The commands that lead to this report again, and what each does.
fn commands(report: &Report<'_>) -> Vec<(String, String)> {
    let campaign = &report.summary.campaign;
    let order = match campaign.order {
        Order::Interleaved => {
            format!("interleaved in randomised blocks, seed {}", campaign.seed)
        }
        Order::Sequential => "series by series".to_owned(),
    };
    let CampaignData { command, store, .. } = report.data;
    let run = format!(
        "{}, {order}, into a new store; this one keeps the specification as `campaign.toml`",
        number::counted_len(report.summary.counts.planned_cells, "cell")
    );
    let mut commands = vec![(command.clone(), run)];
    if !report.summary.complete {
        commands.push((format!("weir lab resume {store}"), "runs the missing cells".to_owned()));
    }
    commands.push((
        format!("weir lab report {store}"),
        "writes this report again from the raw records, without measuring".to_owned(),
    ));
    commands
}
