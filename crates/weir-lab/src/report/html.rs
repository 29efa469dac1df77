//! `report.html`: one self-contained page.
//!
//! It holds its plots, its style and the script that sorts its tables; its links lead to the raw
//! records beside it, and nowhere else. It follows the reader's preference for light or dark,
//! prints in light, and fits a telephone. The answer stands first, everything that it rests on
//! below.

use maud::{Markup, PreEscaped, html};

use super::levels::{self, Levels};
use super::{
    Report, answer, environment, figures, markdown, page as pages, profile, sections, statistics,
    text,
};
use crate::plot::{Figure, Format};

/// Writes the page.
pub(super) fn page(report: &Report<'_>) -> String {
    let main = html! {
        (head(report))
        (key_figures(report))
        @if let Some(table) = sections::latency_table(report) {
            (section("latency", "Latency", &html! {
                (table)
                p class="note" { (answer::prose(text::LATENCY_NOTE)) }
            }))
        }
        (comparison(report))
        @if let Some(body) = statistics::html_body(report) {
            (section("statistics", "Statistics", &body))
        }
        @if let Some(levels) = Levels::of(&report.summary) {
            (section("levels", levels::TITLE, &html! {
                (statistics::table(&levels.header, &levels.rows))
                p class="note" { (levels::NOTE) }
            }))
        }
        (ledgers(report))
        @if let Some(body) = profile::html(&report.data.profiles) {
            (section("profiles", profile::TITLE, &body))
        }
        (samples(report))
        (details(report))
    };
    let title = format!("{} – weir lab report", report.summary.campaign.name);
    pages::page(&title, &main, &foot(report))
}

/// A section with its heading.
fn section(id: &str, title: &str, body: &Markup) -> Markup {
    html! { section id=(id) { h2 { (title) } (body) } }
}

/// The same figure for both widths; the style sheet shows one of them.
fn figure(figure: &Figure, id: &str) -> Markup {
    let (wide, narrow) = (format!("{id}-wide"), format!("{id}-narrow"));
    html! {
        figure {
            (PreEscaped(figure.inline_svg(Format::Wide, &wide, "wide")))
            (PreEscaped(figure.inline_svg(Format::Narrow, &narrow, "narrow")))
            figcaption { (figure.note) }
        }
    }
}

fn head(report: &Report<'_>) -> Markup {
    let summary = &report.summary;
    let leads = answer::leads(summary);
    let sentences = answer::sentences(summary);
    html! {
        header {
            p class="eyebrow" { "weir lab · campaign report" }
            h1 { (summary.campaign.name) }
            @for lead in &leads { p class="lead" { (lead.html()) } }
            @if sentences.is_empty() {
                p class="lead" { "No cell of this campaign is finished yet." }
            }
            ul class="answers" { @for sentence in &sentences { li { (sentence.html()) } } }
            (state(report))
        }
    }
}

/// How much of the campaign this is, and how it was run.
fn state(report: &Report<'_>) -> Markup {
    let summary = &report.summary;
    let counts = &summary.counts;
    let order = match summary.campaign.order {
        crate::model::Order::Interleaved => "interleaved",
        crate::model::Order::Sequential => "sequential",
    };
    let verdicts: Vec<String> =
        counts.verdicts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let trial = report.data.cells.first().map(|(r, _)| &r.times);
    let cells = format!("{} of {}", counts.finished_cells, counts.planned_cells);
    html! {
        @if !summary.complete {
            p class="notice" {
                strong { "Incomplete: " (cells) " cells." }
                " The missing ones are run by " code { "weir lab resume" } "."
            }
        }
        @if counts.invalid_cells > 0 {
            p class="notice" {
                strong { (text::counted_len(counts.invalid_cells, "invalid cell")) "." }
                " Shown below, and left out of every figure."
            }
        }
        dl class="facts" {
            div { dt { "Cells" } dd { (cells) } }
            div { dt { "Verdicts" } dd {
                @if verdicts.is_empty() { "none" } @else { (verdicts.join(", ")) }
            } }
            div { dt { "Iterations" } dd { (summary.campaign.iterations_text()) ", " (order) } }
            @if let Some(times) = trial {
                div { dt { "Trial" } dd {
                    (text::duration(times.duration_ns)) " after "
                    (text::duration(times.warmup_ns)) " warm-up"
                } }
            }
            @if let Some(ended) = &summary.finished_utc {
                div { dt { "Last run ended" } dd { (text::utc(ended)) } }
            }
        }
    }
}

fn key_figures(report: &Report<'_>) -> Markup {
    if report.summary.series.is_empty() {
        return html! {};
    }
    html! {
        (section("figures", "Key figures", &sections::key_figures(report)))
        (section("throughput", "Throughput", &html! {
            @if let Some(axis) = figures::along_axis(report) { (figure(&axis, "axis")) }
            (figure(&figures::throughput(report), "throughput"))
            (sections::series_table(report))
            p class="note" { (answer::method(report)) }
        }))
    }
}

fn comparison(report: &Report<'_>) -> Markup {
    let blocks = report.ministat();
    if blocks.is_empty() {
        return html! {};
    }
    section(
        "comparison",
        "Comparison",
        &html! {
            p class="note" {
                "In the layout of ministat, in packets per second; every set is tested against the \
                 first."
            }
            @for (title, block) in &blocks {
                h3 { (title) }
                pre tabindex="0" { (block.trim_end()) }
            }
        },
    )
}

fn ledgers(report: &Report<'_>) -> Markup {
    if report.summary.series.iter().all(|s| s.ledger.is_none()) {
        return html! {};
    }
    section(
        "ledger",
        "Where the packets went",
        &html! {
            (figure(&figures::ledger(report), "where"))
            (sections::ledger_tables(report))
            p class="note" {
                "Medians over the valid iterations, shares of offered; medians of entries need not \
                 add up to the packet, the ledgers of single iterations do."
            }
        },
    )
}

fn samples(report: &Report<'_>) -> Markup {
    if report.summary.series.is_empty() {
        return html! {};
    }
    section(
        "samples",
        "Over time",
        &html! {
            p class="note" {
                "Packets per second delivered during the measurement, one line per iteration. The \
                 series of a traffic share their scale; a dashed line does not count."
            }
            div class="multiples" {
                @for index in 0..report.summary.series.len() {
                    @let id = format!("samples-{index}");
                    (PreEscaped(
                        figures::samples(report, index).inline_svg(Format::Half, &id, "multiple")))
                }
            }
        },
    )
}

fn details(report: &Report<'_>) -> Markup {
    let environment_text =
        serde_json::to_string_pretty(&report.data.environment).unwrap_or_default();
    html! {
        @if !report.summary.series.is_empty() {
            (section("iterations", "Iterations", &sections::iterations(report)))
        }
        (section("thresholds", "Thresholds of the verdicts", &thresholds(report)))
        (section("environment", "Environment", &html! {
            dl class="list" {
                @for (name, value) in environment::short(&report.data.environment) {
                    dt { (name) } dd { (value) }
                }
            }
            details {
                summary { "All of it, as " code { "env.json" } " has it" }
                pre tabindex="0" { (environment_text) }
            }
        }))
        (section("specification", "Specification", &html! {
            pre tabindex="0" { (report.data.spec_text.trim_end()) }
        }))
        (section("reproduce", "How to reproduce", &html! {
            dl class="list commands" {
                @for (command, meaning) in markdown::commands(report) {
                    dt { code { (command) } } dd { (answer::prose(&meaning)) }
                }
            }
        }))
    }
}

fn thresholds(report: &Report<'_>) -> Markup {
    html! {
        div class="scroll" {
            table class="thresholds" {
                thead { tr {
                    th scope="col" { "Threshold" }
                    th scope="col" { "Meaning" }
                    th scope="col" class="n" { "Value" }
                } }
                tbody {
                    @for threshold in &report.summary.thresholds {
                        tr {
                            th scope="row" { code { (threshold.name) } }
                            td { (threshold.meaning) }
                            td class="n" {
                                (answer::keep_units(
                                    &markdown::threshold_value(threshold.value, &threshold.unit)))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn foot(report: &Report<'_>) -> Markup {
    let counts = &report.summary.counts;
    html! {
        footer {
            p {
                "Derived from " (text::counted_len(counts.finished_cells, "cell")) " and "
                (text::counted_len(counts.calibrations, "calibration"))
                " by weir; the raw records stand beside this page and are never rewritten."
            }
        }
    }
}
