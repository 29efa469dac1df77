//! The report of an imported store: what a collection shows, with links to its raw cells.

use crate::collection::{self, CollectedPoint, CollectedSeries, Collection, Unit};
use crate::document::{
    Block, Cell, Column, Document, Line, Outputs, Row, Table, Voice, link, linked, prose,
};
use crate::number::or_dash;
use crate::plot::collect::{self, Request};
use crate::summary::Spread;
use crate::summary::analysis::SeriesWarning;

/// The report of a collection whose cells stand beside it. `notes` stand at its head, `lists`
/// with their headings in Markdown alone: they may be long.
#[must_use]
pub fn document(
    collection: &Collection,
    notes: &[String],
    lists: Vec<(&'static str, Vec<Line>)>,
) -> Document {
    let mut document = Document {
        kind: "weir lab · imported results".to_owned(),
        title: collection.name.clone(),
        window: format!("{} – weir lab report", collection.name),
        answer: notes.iter().map(|note| Block::note(prose(note))).collect(),
        foot: "Derived by weir; the raw records are beside this page.".into(),
        ..Document::default()
    };
    let series = vec![Block::List(Voice::Plain, warnings(collection)), series(collection).into()];
    document.section("series", "Series", series);
    document.section("plots", "Plots", vec![Block::Only(Outputs::PAGE, plots(collection))]);
    let iterations = Block::Only(Outputs::PAGE, vec![iterations(collection).into()]);
    document.section("iterations", "Iterations", vec![iterations]);
    for (title, items) in lists {
        let list = Block::Only(Outputs::TEXTS, vec![Block::List(Voice::Plain, items)]);
        document.section(title.to_lowercase().replace(' ', "-"), title, vec![list]);
    }
    let environment = serde_json::to_string_pretty(&collection.environment).unwrap_or_default();
    let environment = Block::Only(Outputs::PAGE, vec![Block::Preformatted(environment)]);
    document.section("environment", "Environment", vec![environment]);
    document
}

/// A figure in its series' unit, linked to its record: `366.3 kpps`.
fn figure(raw: &str, value: Option<f64>, unit: Unit) -> Cell {
    let Some(value) = value else { return "–".into() };
    Cell::from(linked(Some(raw), unit.written(value))).sorted(value)
}

fn series(collection: &Collection) -> Table {
    let columns = vec![
        Column::words("Series"),
        Column::numbers("Median"),
        Column::numbers("Minimum"),
        Column::numbers("Maximum"),
        Column::numbers("CV"),
        Column::numbers("Valid"),
        Column::words("Verdicts"),
    ];
    let row = |series: &CollectedSeries| -> Row {
        let spread = Spread::of(&series.values());
        let raw = link(&format!("cells/{}/", series.name));
        let cell = |of: fn(&Spread) -> f64| figure(&raw, spread.as_ref().map(of), series.unit);
        let variation = spread.as_ref().and_then(Spread::variation_ratio);
        let percent = variation.map(|ratio| format!("{:.2} %", ratio * 100.0));
        Row::from(vec![
            (&series.name).into(),
            cell(|s| s.median),
            cell(|s| s.min),
            cell(|s| s.max),
            Cell::from(or_dash(percent)).sorted(variation),
            format!("{} of {}", series.values().len(), series.points.len()).into(),
            verdicts(series).into(),
        ])
    };
    Table::new(columns, collection.series.iter().map(row)).sortable()
}

/// What the iterations of a series show beside its median, and what to do about it.
fn warnings(collection: &Collection) -> Vec<Line> {
    let of = |series| collection::collected_warnings(series).into_iter().map(move |w| (series, w));
    let warnings = collection.series.iter().flat_map(of);
    let line = |(series, warning): (&CollectedSeries, SeriesWarning)| {
        let what = format!("{}: {}", series.name, warning.text);
        Line::new().strong(what).text(format!(": {}.", warning.advice))
    };
    warnings.map(line).collect()
}

/// How often each verdict was given; what the files do not tell is said as well.
fn verdicts(series: &CollectedSeries) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for point in &series.points {
        let name = point.verdict.as_ref().map_or("not recorded", |v| v.kind.name());
        match counts.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let parts: Vec<String> = counts.iter().map(|(n, count)| format!("{count} {n}")).collect();
    parts.join(", ")
}

fn plots(collection: &Collection) -> Vec<Block> {
    if collection.series.len() > collect::SERIES_MAX {
        let note = "More series than a page can show: `weir lab plot --series GLOB` draws those \
                    you choose.";
        return vec![Block::note(prose(note))];
    }
    let one = std::slice::from_ref(collection);
    let curves = collect::curves(one, &Request::default()).ok();
    let curves = curves.map(|figure| Block::Figure(figure.in_page("curves")));
    let about = || collect::strip_about(one, |_, cell| Some(link(&format!("{cell}/trial.json"))));
    let strip = collect::strip(one).ok();
    let strip = strip.map(|figure| Block::Figure(figure.telling("points", &about())));
    curves.into_iter().chain(strip).collect()
}

fn iterations(collection: &Collection) -> Table {
    let columns = vec![
        Column::words("Series"),
        Column::numbers("#"),
        Column::numbers("Figure"),
        Column::numbers("Offered"),
        Column::words("Verdict"),
    ];
    let row = |series: &CollectedSeries, point: &CollectedPoint| {
        let raw = link(&format!("{}/trial.json", point.cell));
        let verdict = match &point.verdict {
            Some(v) => Line::new().strong(v.kind.name()).text(": ").prose(&v.reason),
            None => "the files do not say".into(),
        };
        let cells = vec![
            (&series.name).into(),
            linked(Some(&raw), point.iteration.to_string()).into(),
            figure(&raw, point.figure(), series.unit),
            figure(&raw, point.offered, series.unit),
            verdict.into(),
        ];
        Row { style: if point.is_valid() { "" } else { "void" }, ..Row::from(cells) }
    };
    let rows = collection.series.iter().flat_map(|s| s.points.iter().map(move |p| row(s, p)));
    Table::new(columns, rows).style("iterations").sortable()
}
