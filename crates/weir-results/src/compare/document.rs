//! A comparison as a document: for a page, for Markdown, for a terminal.

use weir_stats::Summary;
use weir_stats::comparison::p_text;

use super::warnings::{advice, folded};
use super::{
    EnvironmentDifference, Figured, ITERATIONS, Matched, Report, difference_cell, figured, toggles,
    verdict_cell, words,
};
use crate::collection::{CollectedPoint, CollectedSeries};
use crate::document::{
    Block, Cell, Column, Document, Fold, Line, Outputs, Row, Table, Voice, link, linked,
};
use crate::plot::collect;
use crate::summary::analysis::also;

/// Blocks in ministat's layout that a page holds at most; the rest is counted.
const PAGE_BLOCKS_MAX: usize = 200;

/// Comparisons up to which each has a sentence beside its row in the table.
const SENTENCES_MAX: usize = 40;

/// What stands for a series without a figure.
const NO_RUN: &str = "no valid run";

/// The document; `roots` are the collections' stores as a page links them.
pub(super) fn document(report: &Report<'_>, roots: &[String]) -> Document {
    let names: Vec<&str> = report.collections.iter().map(|c| c.name.as_str()).collect();
    let title = names.join(" against ");
    let mut document = Document {
        records: Vec::new(),
        kind: "weir lab · comparison".to_owned(),
        window: format!("{title} – weir lab compare"),
        title,
        answer: answer(report),
        body: vec![Block::Only(Outputs::TERMINAL, subject(report))],
        foot: "Derived by weir from the stores named above; the raw records are there.".into(),
    };
    if !report.matched.is_empty() {
        let series = vec![table(report, roots).into(), Block::note(method(report))];
        document.section("series", "Series", series);
    }
    document.section("toggles", "Two settings in turns", toggles::blocks(report));
    document.section("cost", "CPU time per packet", super::costs::blocks(report));
    document.section("warnings", "Warnings", warnings(report));
    let figures = report.figures();
    let about = collect::strip_about(&report.plotted(), |owner, cell| address(roots, owner, cell));
    let figures = figures.iter().map(|(name, figure)| match *name {
        ITERATIONS => Block::Figure(figure.telling(name, &about)),
        _ => Block::Figure(figure.in_page(name)),
    });
    document.section("plots", "Plots", vec![Block::Only(Outputs::PAGE, figures.collect())]);
    document.section("environment", "Environments", environment(report));
    document.section("unmatched", "In one side only", vec![unmatched(report).into()]);
    document.section("ministat", "In ministat's layout", blocks(report));
    if !report.matched.is_empty() {
        document.section("raw", "Every iteration", vec![raw(report, roots)]);
    }
    document
}

fn answer(report: &Report<'_>) -> Vec<Block> {
    let differing = report.hosts.iter().filter(|host| host.change.is_another_machine());
    let mut blocks: Vec<Block> =
        differing.map(|host| Block::warning(host.line(report.collections))).collect();
    blocks.push(Block::lead(format!("{}.", report.answer())));
    if report.matched.len() + report.toggled.len() <= SENTENCES_MAX {
        let sentences = report.matched.iter().map(|m| sentence(report, m));
        let toggled = report.toggled.iter().map(|m| toggles::sentence(report, m));
        blocks.push(Block::List(Voice::Plain, sentences.chain(toggled).collect()));
    }
    if let Some(verdict) = report.verdict() {
        let line = Line::new().strong(format!("{verdict}."));
        blocks.push(if report.fails() { Block::warning(line) } else { Block::note(line) });
    }
    blocks.push(Block::Only(Outputs::FILES, subject(report)));
    blocks
}

/// One comparison in a sentence.
fn sentence(report: &Report<'_>, m: &Matched<'_>) -> Line {
    let (before, after) = (&report.collections[0].name, &report.collections[m.other_index].name);
    let line = Line::new().strong(&m.baseline.name);
    let line = match &m.result {
        Ok(comparison) => {
            let (value, interval) = comparison.relative.percent();
            let mean = |side: &Summary| m.baseline.unit.written(side.mean);
            line.text(format!(
                ": on average {} in {after} and {} in {before}, {value} ({interval}): ",
                mean(&comparison.other),
                mean(&comparison.baseline)
            ))
        }
        Err(_) => {
            let rate = |series: &CollectedSeries| match figured(series, report.asked.level) {
                Some(figured) => series.unit.written(figured.median),
                None => NO_RUN.to_owned(),
            };
            let (other, baseline) = (rate(m.other), rate(m.baseline));
            line.text(format!(": {other} in {after}, {baseline} in {before}; "))
        }
    };
    line.strong(words(&m.result, m.claim.as_ref())).text(".")
}

/// What is compared with what.
fn subject(report: &Report<'_>) -> Vec<Block> {
    let changed = report.changed.iter().map(|change| {
        let other = &report.collections[change.other_index].name;
        let (a, b) = (&change.baseline, &change.other);
        let line = Line::new().text("Compared in ").strong(&change.dimension);
        Block::note(line.text(format!(": {a} with {b} of {other}.")))
    });
    let role = |index| if index == 0 { "Baseline" } else { "Against it" };
    let fact = |(index, c): (usize, &crate::collection::Collection)| {
        (role(index).into(), format!("{}, {} series", c.name, c.series.len()).into())
    };
    let facts = report.collections.iter().enumerate().map(fact).collect();
    changed.chain([Block::Facts("facts", facts)]).collect()
}

/// How figures and verdicts are reached.
fn method(report: &Report<'_>) -> String {
    let level = report.asked.level;
    format!(
        "Medians are shown with the bootstrap's {level} interval (of five values or more), over \
         the runs that count. Differences are between means, by Welch's t test and Fieller's \
         interval of the ratio. Verdicts, p-values (Holm) and intervals (Bonferroni) hold at \
         {level} for all comparisons together. Undecided is not the same as equal: that takes a \
         margin or more iterations."
    )
}

fn table(report: &Report<'_>, roots: &[String]) -> Table {
    let several = report.collections.len() > 2;
    let against = several.then(|| Column::words("Against"));
    let columns = [Column::words("Series")].into_iter().chain(against).chain([
        Column::numbers("Baseline"),
        Column::numbers("Other"),
        Column::numbers("Difference").unit("of means"),
        Column::numbers("p, adjusted"),
        Column::words("Verdict"),
    ]);
    let row = |m: &Matched<'_>| -> Row {
        let comparison = m.result.as_ref().ok();
        let against = several.then(|| Cell::from(&report.collections[m.other_index].name));
        let p =
            comparison.map(|c| Cell::from(p_text(c.adjusted_p_value)).sorted(c.adjusted_p_value));
        let cells = [Cell::from(&m.baseline.name)].into_iter().chain(against).chain([
            side(report, m.baseline, 0, roots),
            side(report, m.other, m.other_index, roots),
            difference_cell(&m.result),
            p.unwrap_or_else(|| "–".into()),
            verdict_cell(&m.result, m.claim.as_ref(), m.regressed),
        ]);
        cells.collect()
    };
    Table::new(columns.collect(), report.matched.iter().map(row)).style("compared").sortable()
}

/// The median of a series, linked to the raw cell of the run whose figure is nearest to it.
fn side(report: &Report<'_>, series: &CollectedSeries, owner: usize, roots: &[String]) -> Cell {
    let figured = figured(series, report.asked.level);
    let distance = |p: &CollectedPoint| figured.map_or(0.0, |f| (p.value - f.median).abs());
    let valid = series.points.iter().filter(|p| p.is_valid());
    let nearest = valid.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let cell = nearest.or(series.points.first()).and_then(|p| address(roots, owner, &p.cell));
    let Some(Figured { count, median, interval }) = figured else {
        return linked(cell.as_deref(), NO_RUN).into();
    };
    let interval = interval.map(|i| format!("{}, ", series.unit.range(i.low, i.high)));
    let steady = match series.proving().len() {
        all if all == count => format!("n = {count}"),
        some => format!("{some} of {count} steady"),
    };
    Cell::from(linked(cell.as_deref(), series.unit.written(median)))
        .under(format!("{}{steady}", interval.unwrap_or_default()))
        .sorted(median)
}

/// The link to a raw cell's record; `None` where there is no store to link to.
fn address(roots: &[String], owner: usize, cell: &str) -> Option<String> {
    let root = roots.get(owner).filter(|root| !root.is_empty())?;
    Some(link(&format!("{root}/{cell}/trial.json")))
}

/// What the series of both sides show, and what to do about it.
fn warnings(report: &Report<'_>) -> Vec<Block> {
    let warned = report.warnings();
    let columns = ["Series", "In", "Warning"].map(Column::words).to_vec();
    let folded = folded(&warned).into_iter();
    let rows = folded.map(|(w, others)| {
        let text = format!("{}: {}{}", w.warning.kind(), w.warning, also(&others));
        let owner = &report.collections[w.owner_index].name;
        Row::from(vec![w.series.into(), owner.into(), Cell::from(text).style("raw")])
    });
    let table = Table::new(columns, rows).sortable().brief();
    let advice = advice(&warned).into_iter().map(|(kind, advice)| {
        Block::note(Line::new().text("Advice on ").strong(kind).text(format!(": {advice}.")))
    });
    [table.into()].into_iter().chain(advice).collect()
}

fn environment(report: &Report<'_>) -> Vec<Block> {
    // Those that differ stand at the top.
    let equal = report.hosts.iter().filter(|host| !host.change.is_another_machine());
    let hosts = equal.map(|host| Block::note(host.line(report.collections)));
    hosts.chain(entries(report)).collect()
}

/// The entries of the environments that differ.
fn entries(report: &Report<'_>) -> Vec<Block> {
    if report.environment.is_empty() {
        let note = Block::note("The environments recorded in the stores do not differ.");
        return vec![Block::Only(Outputs::FILES, vec![note])];
    }
    let table = |differences: &[&EnvironmentDifference]| -> Block {
        let names = report.collections.iter().map(|c| Column::words(&c.name));
        let columns = [Column::words("Entry")].into_iter().chain(names).collect();
        let row = |d: &&EnvironmentDifference| {
            let value = |v: &Option<String>| Cell::from(v.as_deref().unwrap_or("–")).style("raw");
            let path = Cell::from(Line::new().code(&d.path));
            let cells = [path].into_iter().chain(d.values.iter().map(value)).collect();
            Row { cells, is_strong: d.matters, ..Row::default() }
        };
        Table::new(columns, differences.iter().map(row)).sortable().brief().into()
    };
    let all: Vec<&EnvironmentDifference> = report.environment.iter().collect();
    let (known, rest): (Vec<_>, Vec<_>) = all.iter().partition(|d| d.matters);
    let mut short = vec![table(&known)];
    if !rest.is_empty() {
        short.push(Block::note(format!("{} more entries differ: --out lists them.", rest.len())));
    }
    let note = "What differs. Entries in bold are known to change figures: differences between \
                the series may be theirs.";
    vec![
        Block::Only(Outputs::FILES, vec![Block::note(note), table(&all)]),
        Block::Only(Outputs::TERMINAL, short),
    ]
}

fn unmatched(report: &Report<'_>) -> Table {
    let columns = ["Series", "In", "Why it has no partner"].map(Column::words).to_vec();
    let row = |u: &super::Unmatched| -> Row {
        let owner = &report.collections[u.owner_index].name;
        [&u.series, owner, &u.reason].into_iter().collect()
    };
    Table::new(columns, report.unmatched.iter().map(row)).sortable().brief()
}

fn blocks(report: &Report<'_>) -> Vec<Block> {
    let block = |(title, block): (String, String)| {
        Block::Titled(Fold::Closed, title.into(), vec![Block::Preformatted(block)])
    };
    let mut blocks: Vec<Block> = ministat(report).into_iter().map(block).collect();
    let rest = blocks.split_off(blocks.len().min(PAGE_BLOCKS_MAX));
    let more = (!rest.is_empty()).then(|| {
        let line = Line::new().text(format!("{} more are in the Markdown that ", rest.len()));
        let note = Block::note(line.code("--out FILE.md").text(" writes."));
        Block::Only(Outputs::PAGE, vec![note])
    });
    let zero = report.zero_note().map(|note| Block::note(format!("{note}.")));
    blocks.extend([Block::Only(Outputs::MARKDOWN, rest)].into_iter().chain(zero).chain(more));
    vec![Block::Only(Outputs::FILES, blocks)]
}

/// Every comparison in ministat's layout, where it has one: title and text.
pub(super) fn ministat(report: &Report<'_>) -> Vec<(String, String)> {
    let name = |index: usize| report.collections[index].name.as_str();
    let block = |m: &Matched<'_>| {
        let title =
            format!("{}, {} (x) against {} (+)", m.baseline.name, name(0), name(m.other_index));
        Some((title, m.ministat()?))
    };
    report.matched.iter().filter_map(block).collect()
}

/// Every figure of every matched series, each linked to its raw cell.
fn raw(report: &Report<'_>, roots: &[String]) -> Block {
    let row = |(series, owner): (&CollectedSeries, usize)| -> Row {
        let mut line = Line::new();
        for point in &series.points {
            let value = point.figure().map_or_else(|| "–".to_owned(), weir_stats::number::g8);
            let text = format!("{}: {value}", point.iteration);
            line = line.line(linked(address(roots, owner, &point.cell).as_deref(), text));
            line = line.text(if point.is_valid() { " " } else { " (invalid) " });
        }
        let owner = Line::from(&report.collections[owner].name);
        [Line::from(&series.name), owner, line].into_iter().collect()
    };
    let sides = |m: &Matched<'_>| [(m.baseline, 0), (m.other, m.other_index)].map(row);
    let columns = ["Series", "In", "Iterations"].map(Column::words).to_vec();
    let table = Table::new(columns, report.matched.iter().flat_map(sides)).style("iterations");
    let title = "Figures of the iterations, with links to their raw records".into();
    Block::Only(Outputs::PAGE, vec![Block::Titled(Fold::Closed, title, vec![table.into()])])
}
