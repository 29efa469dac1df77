//! `report.html` of an imported store: what a collection shows, with links to its raw cells.

use super::{answer, page};
use crate::collection::{CollectedSeries, Collection, Unit};
use crate::plot::collect::{self, Request};
use crate::plot::{Figure, Format, Quantity};
use crate::summary::{Spread, analysis};
use maud::{Markup, PreEscaped, html};

/// The page of a collection whose cells stand beside it. `notes` are told at its head.
pub(crate) fn html(collection: &Collection, notes: &[String]) -> String {
    let main = html! {
        header {
            p class="eyebrow" { "weir lab · imported results" }
            h1 { (collection.name) }
            @for note in notes { p class="note" { (note) } }
        }
        (section("series", "Series", &html! { (warnings(collection)) (table(collection)) }))
        (plots(collection))
        (section("iterations", "Iterations", &iterations(collection)))
        (section("environment", "Environment", &environment(collection)))
    };
    let foot = html! {
        footer { p { "Derived by weir; the raw records stand beside this page." } }
    };
    page::page(&format!("{} – weir lab report", collection.name), &main, &foot)
}

fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } (body) } }
}

/// A figure in its series' unit: `366.3 kpps`.
fn written(value: f64, unit: Unit) -> String {
    let quantity = Quantity::suited(value, unit);
    format!("{}\u{a0}{}", quantity.text(value, 4), quantity.name)
}

fn table(collection: &Collection) -> Markup {
    html! {
        div class="scroll" {
            table class="sortable" {
                thead { tr {
                    th scope="col" { "Series" }
                    th scope="col" class="n" { "Median" }
                    th scope="col" class="n" { "Minimum" }
                    th scope="col" class="n" { "Maximum" }
                    th scope="col" class="n" { "CV" }
                    th scope="col" class="n" { "Valid" }
                    th scope="col" { "Verdicts" }
                } }
                tbody { @for series in &collection.series { (row(series)) } }
            }
        }
    }
}

/// What the iterations of a series show beside its median, and what to do about it.
fn warnings(collection: &Collection) -> Markup {
    let of = |series| analysis::collected_warnings(series).into_iter().map(move |w| (series, w));
    let warnings: Vec<_> = collection.series.iter().flat_map(of).collect();
    html! {
        @if !warnings.is_empty() {
            ul class="warnings" {
                @for (series, warning) in &warnings {
                    li {
                        strong { (series.name) ": " (answer::keep_units(&warning.text)) }
                        ": " (warning.advice) "."
                    }
                }
            }
        }
    }
}

fn row(series: &CollectedSeries) -> Markup {
    let summary = Spread::of(&series.values());
    let raw = page::link(&format!("cells/{}/", series.name));
    let cell = |value: Option<f64>| {
        html! {
            td class="n" data-value=[value] {
                @if let Some(value) = value {
                    a href=(raw) { (written(value, series.unit)) }
                } @else { "–" }
            }
        }
    };
    let variation = summary.as_ref().and_then(Spread::variation_ratio);
    html! {
        tr {
            th scope="row" { (series.name) }
            (cell(summary.as_ref().map(|s| s.median)))
            (cell(summary.as_ref().map(|s| s.min)))
            (cell(summary.as_ref().map(|s| s.max)))
            td class="n" data-value=[variation] {
                (variation.map_or_else(|| "–".to_owned(), |v| format!("{:.2}\u{a0}%", v * 100.0)))
            }
            td class="n" { (series.values().len()) " of " (series.points.len()) }
            td { (verdicts(series)) }
        }
    }
}

/// How often each verdict was given; what the files do not tell is said as well.
fn verdicts(series: &CollectedSeries) -> String {
    let name = |p: &crate::collection::CollectedPoint| {
        p.verdict.as_ref().map_or("not told", |v| v.kind.name())
    };
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for point in &series.points {
        let name = name(point);
        match counts.iter_mut().find(|(n, _)| *n == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let parts: Vec<String> = counts.iter().map(|(n, count)| format!("{count} {n}")).collect();
    parts.join(", ")
}

fn plots(collection: &Collection) -> Markup {
    if collection.series.len() > collect::SERIES_MAX {
        return section(
            "plots",
            "Plots",
            &html! {
                p class="note" {
                    "More series than a page can show: " code { "weir lab plot --series GLOB" }
                    " draws those you choose."
                }
            },
        );
    }
    let one = std::slice::from_ref(collection);
    let figures: Vec<(&str, Figure)> =
        [("curves", collect::curves(one, &Request::default())), ("points", collect::strip(one))]
            .into_iter()
            .filter_map(|(name, figure)| Some((name, figure.ok()?)))
            .collect();
    if figures.is_empty() {
        return html! {};
    }
    section(
        "plots",
        "Plots",
        &html! {
            @for (name, figure) in &figures {
                figure {
                    (inline(figure, name, Format::Wide, "wide"))
                    (inline(figure, name, Format::Narrow, "narrow"))
                    figcaption { (figure.note) }
                }
            }
        },
    )
}

fn inline(figure: &Figure, name: &str, format: Format, class: &str) -> Markup {
    PreEscaped(figure.inline_svg(format, &format!("{name}-{class}"), class))
}

fn iterations(collection: &Collection) -> Markup {
    html! {
        div class="scroll" {
            table class="iterations sortable" {
                thead { tr {
                    th scope="col" { "Series" }
                    th scope="col" class="n" { "#" }
                    th scope="col" class="n" { "Figure" }
                    th scope="col" class="n" { "Offered" }
                    th scope="col" { "Verdict" }
                } }
                tbody {
                    @for series in &collection.series {
                        @for point in &series.points {
                            @let raw = page::link(&format!("{}/trial.json", point.cell));
                            tr class=(if point.is_valid() { "" } else { "void" }) {
                                th scope="row" { (series.name) }
                                td class="n" { a href=(raw) { (point.iteration) } }
                                td class="n" data-value=[point.figure()] {
                                    a href=(raw) {
                                        @if let Some(value) = point.figure() {
                                            (written(value, series.unit))
                                        } @else { "–" }
                                    }
                                }
                                td class="n" data-value=[point.offered] {
                                    @if let Some(offered) = point.offered {
                                        a href=(raw) { (written(offered, series.unit)) }
                                    } @else { "–" }
                                }
                                td {
                                    @if let Some(verdict) = &point.verdict {
                                        strong { (verdict.kind.name()) } " " (verdict.reason)
                                    } @else { "the files do not tell" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn environment(collection: &Collection) -> Markup {
    let text = serde_json::to_string_pretty(&collection.environment).unwrap_or_default();
    html! { pre tabindex="0" { (text) } }
}
