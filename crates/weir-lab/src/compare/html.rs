//! A comparison as a page of its own, in the style of campaign reports.

use maud::{Markup, PreEscaped, html};
use weir_stats::comparison::p_text;

use super::text::{median_parts, title};
use super::warnings::advice;
use super::{Matched, Report, figured, markdown, relative_parts, words};
use crate::collection::{CollectedPoint, CollectedSeries};
use crate::plot::{Figure, Format};
use crate::report::page::{link, page as whole};

/// Blocks in ministat's layout that a page holds at most; the rest is counted.
const BLOCKS_MAX: usize = 200;

pub(super) fn page(report: &Report<'_>, roots: &[String]) -> String {
    let names: Vec<&str> = report.collections.iter().map(|c| c.name.as_str()).collect();
    let heading = names.join(" against ");
    let main = html! {
        (head(report, &heading))
        (section("series", "Series", &table(report, roots)))
        (warnings(report))
        (plots(report))
        (environment(report))
        (unmatched(report))
        (blocks(report))
        (raw(report, roots))
    };
    let foot = html! {
        footer { p { "Derived by weir from the stores named above; the raw records stand there." } }
    };
    whole(&format!("{heading} – weir lab compare"), &main, &foot)
}

fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } (body) } }
}

fn head(report: &Report<'_>, heading: &str) -> Markup {
    html! {
        header {
            p class="eyebrow" { "weir lab · comparison" }
            h1 { (heading) }
            p class="lead" { (report.answer()) "." }
            @if let Some(verdict) = report.verdict() {
                p class=(if report.fails() { "notice" } else { "note" }) {
                    strong { (verdict) "." }
                }
            }
            @for change in &report.changed {
                p class="note" {
                    "Compared in " strong { (change.dimension) } ": " (change.baseline) " with "
                    (change.other) " of " (report.collections[change.other_index].name) "."
                }
            }
            dl class="facts" {
                @for (index, collection) in report.collections.iter().enumerate() {
                    div {
                        dt { @if index == 0 { "Baseline" } @else { "Against it" } }
                        dd { (collection.name) ", " (collection.series.len()) " series" }
                    }
                }
            }
        }
    }
}

fn table(report: &Report<'_>, roots: &[String]) -> Markup {
    let several = report.collections.len() > 2;
    html! {
        div class="scroll" {
            table class="compared sortable" {
                thead { tr {
                    th scope="col" { "Series" }
                    @if several { th scope="col" { "Against" } }
                    th scope="col" class="n" { "Baseline" }
                    th scope="col" class="n" { "Other" }
                    th scope="col" class="n" { "Difference" }
                    th scope="col" class="n" { "p, adjusted" }
                    th scope="col" { "Verdict" }
                } }
                tbody {
                    @for m in &report.matched { (row(report, m, roots, several)) }
                }
            }
        }
        p class="note" { (markdown::method(&report.asked.level.to_string())) }
    }
}

fn row(report: &Report<'_>, m: &Matched<'_>, roots: &[String], several: bool) -> Markup {
    let comparison = m.result.as_ref().ok();
    html! {
        tr {
            th scope="row" { (m.baseline.name) }
            @if several { td { (report.collections[m.other_index].name) } }
            (side(report, m.baseline, 0, roots))
            (side(report, m.other, m.other_index, roots))
            td class="n" data-value=[comparison.map(|c| c.relative.value)] {
                @if let Some(c) = comparison {
                    @let (value, interval) = relative_parts(c);
                    strong { (value) } span class="under" { (interval) }
                } @else { "–" }
            }
            td class="n" data-value=[comparison.map(|c| c.adjusted_p_value)] {
                @if let Some(c) = comparison { (p_text(c.adjusted_p_value)) } @else { "–" }
            }
            td class=(if m.regressed { "regressed" } else { "" }) { (words(m)) }
        }
    }
}

/// The median of a series, linked to the raw cell of the run whose figure is nearest to it.
fn side(report: &Report<'_>, series: &CollectedSeries, owner: usize, roots: &[String]) -> Markup {
    let (text, under) = median_parts(report, series);
    let figured = figured(series, report.asked.level);
    let distance = |p: &CollectedPoint| figured.map_or(0.0, |f| (p.value - f.median).abs());
    let valid = series.points.iter().filter(|p| p.is_valid());
    let nearest = valid.min_by(|a, b| distance(a).total_cmp(&distance(b)));
    let cell = nearest.or(series.points.first()).and_then(|p| address(roots, owner, &p.cell));
    html! {
        td class="n" data-value=[figured.map(|f| f.median)] {
            @if let Some(cell) = cell { a href=(cell) { (text) } } @else { (text) }
            span class="under" { (under) }
        }
    }
}

/// The link to a raw cell's record; `None` where there is no store to link to.
fn address(roots: &[String], owner: usize, cell: &str) -> Option<String> {
    let root = roots.get(owner).filter(|root| !root.is_empty())?;
    Some(link(&format!("{root}/{cell}/trial.json")))
}

/// What the series of both sides show, and what to do about it.
fn warnings(report: &Report<'_>) -> Markup {
    let warned = report.warnings();
    if warned.is_empty() {
        return html! {};
    }
    section(
        "warnings",
        "Warnings",
        &html! {
            div class="scroll" {
                table class="sortable" {
                    thead { tr {
                        th scope="col" { "Series" }
                        th scope="col" { "In" }
                        th scope="col" { "Warning" }
                    } }
                    tbody {
                        @for w in &warned {
                            tr {
                                th scope="row" { (w.series) }
                                td { (report.collections[w.owner_index].name) }
                                td class="raw" { (w.warning.kind()) ": " (w.warning.to_string()) }
                            }
                        }
                    }
                }
            }
            @for (kind, advice) in advice(&warned) {
                p class="note" { "Advice on " strong { (kind) } ": " (advice) "." }
            }
        },
    )
}

fn plots(report: &Report<'_>) -> Markup {
    let figures = report.figures();
    if figures.is_empty() {
        return html! {};
    }
    section(
        "plots",
        "Plots",
        &html! {
            @for (name, figure) in &figures { (inline(name, figure)) }
        },
    )
}

fn inline(name: &str, figure: &Figure) -> Markup {
    let (wide, narrow) = (format!("{name}-wide"), format!("{name}-narrow"));
    html! {
        figure {
            (PreEscaped(figure.inline_svg(Format::Wide, &wide, "wide")))
            (PreEscaped(figure.inline_svg(Format::Narrow, &narrow, "narrow")))
            figcaption { (figure.note) }
        }
    }
}

fn environment(report: &Report<'_>) -> Markup {
    section(
        "environment",
        "Environments",
        &html! {
            @if report.environment.is_empty() {
                p class="note" { "Nothing that the stores keep of their environments differs." }
            } @else {
                p class="note" {
                    "What differs. Entries in bold are known to change figures: differences "
                    "between the series may be theirs."
                }
                div class="scroll" {
                    table class="sortable" {
                        thead { tr {
                            th scope="col" { "Entry" }
                            @for c in report.collections { th scope="col" { (c.name) } }
                        } }
                        tbody {
                            @for d in &report.environment {
                                tr class=(if d.matters { "matters" } else { "" }) {
                                    th scope="row" { code { (d.path) } }
                                    @for value in &d.values {
                                        td class="raw" { (value.as_deref().unwrap_or("–")) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        },
    )
}

fn unmatched(report: &Report<'_>) -> Markup {
    if report.unmatched.is_empty() {
        return html! {};
    }
    section(
        "unmatched",
        "In one side only",
        &html! {
            div class="scroll" {
                table class="sortable" {
                    thead { tr {
                        th scope="col" { "Series" }
                        th scope="col" { "In" }
                        th scope="col" { "Why it has no partner" }
                    } }
                    tbody {
                        @for u in &report.unmatched {
                            tr {
                                th scope="row" { (u.series) }
                                td { (report.collections[u.owner_index].name) }
                                td { (u.reason) }
                            }
                        }
                    }
                }
            }
        },
    )
}

fn blocks(report: &Report<'_>) -> Markup {
    let blocks: Vec<(String, String)> =
        report.matched.iter().filter_map(|m| Some((title(report, m), m.ministat()?))).collect();
    let note = report.zero_note();
    if blocks.is_empty() && note.is_none() {
        return html! {};
    }
    section(
        "ministat",
        "In ministat's layout",
        &html! {
            @for (title, block) in blocks.iter().take(BLOCKS_MAX) {
                details {
                    summary { (title) }
                    pre tabindex="0" { (block.trim_end()) }
                }
            }
            @if let Some(note) = note { p class="note" { (note) "." } }
            @if blocks.len() > BLOCKS_MAX {
                p class="note" {
                    (blocks.len() - BLOCKS_MAX) " more are in the Markdown that "
                    code { "--out FILE.md" } " writes."
                }
            }
        },
    )
}

/// Every figure of every matched series, each linked to its raw cell.
fn raw(report: &Report<'_>, roots: &[String]) -> Markup {
    section(
        "raw",
        "Every iteration",
        &html! {
            details {
                summary { "Figures of the iterations, with links to their raw records" }
                div class="scroll" {
                    table class="iterations" {
                        thead { tr {
                            th scope="col" { "Series" }
                            th scope="col" { "In" }
                            th scope="col" { "Iterations" }
                        } }
                        tbody {
                            @for m in &report.matched {
                                (raw_row(report, m.baseline, 0, roots))
                                (raw_row(report, m.other, m.other_index, roots))
                            }
                        }
                    }
                }
            }
        },
    )
}

fn raw_row(
    report: &Report<'_>,
    series: &CollectedSeries,
    owner: usize,
    roots: &[String],
) -> Markup {
    html! {
        tr {
            th scope="row" { (series.name) }
            td { (report.collections[owner].name) }
            td {
                @for point in &series.points {
                    @let figure = point.figure().map(weir_stats::number::g8);
                    @let value = figure.unwrap_or_else(|| "–".to_owned());
                    @let text = format!("{}: {value}", point.iteration);
                    @if let Some(cell) = address(roots, owner, &point.cell) {
                        a href=(cell) { (text) }
                    } @else { (text) }
                    @if !point.is_valid() { " (invalid)" }
                    " "
                }
            }
        }
    }
}
