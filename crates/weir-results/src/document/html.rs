//! A document as a page of HTML: self-contained, readable on paper, in light and in dark.
//!
//! Style and script are of the files in `page/`, one for each concern, and part of the page; it is
//! complete without the script. Everything is escaped by maud, which has no way around it but for
//! what is a drawing already, and for the records that the page holds as data. Between a number and
//! its unit a line never breaks.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::line::{Line, Span};
use super::{Block, Document, Figure, Fold, Outputs, Record, Voice};
use crate::palette;

mod table;

use table::table;

const STYLES: [&str; 4] = [
    include_str!("page/base.css"),
    include_str!("page/tables.css"),
    include_str!("page/reading.css"),
    include_str!("page/widths.css"),
];

const SCRIPTS: [&str; 5] = [
    include_str!("page/sort.js"),
    include_str!("page/filter.js"),
    include_str!("page/csv.js"),
    include_str!("page/records.js"),
    include_str!("page/contents.js"),
];

/// What stands behind a number, and stays with it.
const UNITS: [&str; 23] = [
    "%", "±", "Mpps", "kpps", "pps", "Gbit/s", "Mbit/s", "kbit/s", "bit/s", "Mconn/s", "kconn/s",
    "conn/s", "Mconn", "kconn", "conn", "d", "h", "min", "s", "ms", "µs", "ns", "MiB",
];

pub(super) fn page(document: &Document) -> String {
    let style = STYLES.concat();
    let style = format!("{}{style}{}", palette::css(":root"), palette::dark_rules(".wp "));
    let script = format!("\"use strict\";\n{}", SCRIPTS.concat());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (document.window) }
                style { (PreEscaped(style)) }
            }
            body {
                (contents(document))
                div class="page" {
                    main {
                        header {
                            p class="eyebrow" { (document.kind) }
                            h1 { (document.title) }
                            (blocks(&document.answer))
                        }
                        (blocks(&document.body))
                    }
                    footer { p { (line(&document.foot)) } }
                }
                @if !document.records.is_empty() {
                    script type="application/json" id="records" {
                        (PreEscaped(records(&document.records)))
                    }
                }
                script { (PreEscaped(script)) }
            }
        }
    };
    page.into_string() + "\n"
}

/// Where the sections are; the script adds its filters to it.
fn contents(document: &Document) -> Markup {
    let sections = document.body.iter().filter_map(|block| match block {
        Block::Section(_, id, title, _) => Some((id, title)),
        _ => None,
    });
    html! {
        nav class="contents" aria-label="Contents" {
            ul { @for (id, title) in sections { li { a href={ "#" (id) } { (title) } } } }
        }
    }
}

/// The records as JSON that ends no script: by folder, the title, `trial.json` and `samples.csv`.
fn records(records: &[Record]) -> String {
    let entry = |record: &Record| {
        let Record { folder, title, trial, samples } = record;
        (folder.clone(), serde_json::json!([title, trial, samples]))
    };
    let all: serde_json::Map<_, _> = records.iter().map(entry).collect();
    serde_json::Value::Object(all).to_string().replace('<', "\\u003c")
}

/// Blocks in their order; figures that follow each other stand side by side where there is room.
fn blocks(blocks: &[Block]) -> Markup {
    let is_drawn = |block: &Block| matches!(block, Block::Figure(f) if !f.caption.is_empty());
    let runs = blocks.chunk_by(|a, b| is_drawn(a) && is_drawn(b));
    html! {
        @for run in runs {
            @if run.len() > 1 {
                div class="abreast" { @for one in run { (block(one)) } }
            } @else {
                @for one in run { (block(one)) }
            }
        }
    }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Section(Fold::Never, id, title, inner) => html! {
            section id=(id) { h2 { (title) } (blocks(inner)) }
        },
        Block::Section(fold, id, title, inner) => html! {
            section class="folded" {
                details id=(id) open[*fold == Fold::Open] {
                    summary { h2 { (title) } }
                    (blocks(inner))
                }
            }
        },
        Block::Titled(Fold::Never, title, inner) => html! { h3 { (line(title)) } (blocks(inner)) },
        Block::Titled(fold, title, inner) => html! {
            details open[*fold == Fold::Open] { summary { (line(title)) } (blocks(inner)) }
        },
        Block::Prose(voice, text) => html! { p class=[class(*voice)] { (line(text)) } },
        Block::List(_, items) if items.is_empty() => html! {},
        Block::List(voice, items) => html! {
            ul class=(list_class(*voice)) { @for item in items { li { (line(item)) } } }
        },
        Block::Facts(_, entries) if entries.is_empty() => html! {},
        Block::Facts(style, entries) => html! {
            dl class=(style) {
                @for (name, value) in entries {
                    div { dt { (line(name)) } dd { (line(value)) } }
                }
            }
        },
        Block::Table(one) if one.is_empty() => Markup::default(),
        Block::Table(one) => table(one),
        Block::Figure(one) => figure(one),
        Block::Preformatted(text) => html! { pre tabindex="0" { (text.trim_end()) } },
        Block::Only(outputs, inner) if outputs.has(Outputs::PAGE) => blocks(inner),
        Block::Only(..) => html! {},
        Block::Beside(one, other) => html! {
            div class="beside" { div { (blocks(one)) } div { (blocks(other)) } }
        },
        Block::Tagged(tag, inner) => html! {
            div data-dut=[&tag.dut] data-traffic=[&tag.traffic] { (blocks(inner)) }
        },
        Block::Anchored(id, tag, inner) => html! {
            div id=(id) data-dut=[&tag.dut] data-traffic=[&tag.traffic] { (blocks(inner)) }
        },
    }
}

fn list_class(voice: Voice) -> &'static str {
    match voice {
        Voice::Lead => "answers",
        Voice::Warning => "words warnings",
        Voice::Plain | Voice::Note => "words",
    }
}

fn class(voice: Voice) -> Option<&'static str> {
    match voice {
        Voice::Lead => Some("lead"),
        Voice::Plain => None,
        Voice::Note => Some("note"),
        Voice::Warning => Some("notice"),
    }
}

fn figure(figure: &Figure) -> Markup {
    let drawings = || html! { @for one in &figure.drawings { (PreEscaped(one)) } };
    if figure.caption.is_empty() {
        return html! { div class=(figure.style) { (drawings()) } };
    }
    html! { figure { (drawings()) figcaption { (figure.caption) } } }
}

fn line(line: &Line) -> Markup {
    html! { @for span in &line.0 { (self::span(span)) } }
}

fn span(span: &Span) -> Markup {
    match span {
        Span::Text(text) => html! { (typeset(text)) },
        Span::Strong(inner) => html! { strong { (line(inner)) } },
        Span::Code(text) => html! { code { (text) } },
        Span::Link(to, inner) => html! { a href=(to) { (line(inner)) } },
        Span::Swatch(colour) => {
            html! { span class={ "swatch c-s" (colour % palette::SERIES_COLOURS) } {} }
        }
        Span::Styled(style, inner) => html! { span class=(style) { (line(inner)) } },
    }
}

/// Text as a page shows it: a true minus before numbers, no break between a number and its unit.
fn typeset(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        let rest = &text[at + character.len_utf8()..];
        let opens = before.is_whitespace() || before == '(';
        let is_sign = character == '-' && opens && rest.starts_with(|c: char| c.is_ascii_digit());
        let is_unit = character == ' ' && begins_with_unit(rest);
        let ends_number = before.is_ascii_digit() || matches!(before, '%' | '±');
        let is_kept = is_unit && ends_number || character == ' ' && before == '±';
        result.push(match character {
            _ if is_sign => '\u{2212}',
            _ if is_kept => '\u{a0}',
            other => other,
        });
        before = character;
    }
    result
}

fn begins_with_unit(text: &str) -> bool {
    UNITS.iter().any(|unit| {
        text.strip_prefix(unit).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

/// A path as a relative link: every byte but letters, digits and a few signs is escaped.
#[must_use]
pub fn link(path: &str) -> String {
    let mut link = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            link.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(link, "%{byte:02X}");
        }
    }
    // A first part with a colon would be a scheme; it is escaped above, as every colon is.
    link
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_kind_become_links() {
        assert_eq!(link("cells/a.b/1/trial.json"), "cells/a.b/1/trial.json");
        assert_eq!(link("cells/a b#c?d%é/1"), "cells/a%20b%23c%3Fd%25%C3%A9/1");
        assert_eq!(link("javascript:x\"<"), "javascript%3Ax%22%3C");
    }

    #[test]
    fn only_signs_become_minuses_and_units_stay_with_their_numbers() {
        for (text, expected) in [
            ("-3.1 % and (-4 %)", "\u{2212}3.1\u{a0}% and (\u{2212}4\u{a0}%)"),
            ("a trend of -12 of them", "a trend of \u{2212}12 of them"),
            ("CPUs 0-3, rx-1", "CPUs 0-3, rx-1"),
            ("a - b -c", "a - b -c"),
            ("38 % ± 4 % in 3 steps", "38\u{a0}%\u{a0}±\u{a0}4\u{a0}% in 3 steps"),
            ("14.3 µs, 2 s", "14.3\u{a0}µs, 2\u{a0}s"),
        ] {
            assert_eq!(typeset(text), expected);
        }
    }
}
