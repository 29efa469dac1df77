//! A document as a page of HTML: self-contained, readable on paper, in light and in dark.
//!
//! Its script is the only one, it is part of the page, sorts tables, and the page is complete
//! without it. Everything is escaped by maud, which has no way around it but for what is a drawing
//! already. Between a number and its unit a line never breaks.

use std::fmt::Write as _;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::line::{Line, Span};
use super::table::{Align, Cell, Column, Group, Row, Table};
use super::{Block, Document, Figure, Fold, Outputs, Voice};
use crate::palette;

const PAGE_CSS: &str = include_str!("page.css");
const SORT_JS: &str = include_str!("sort.js");

/// What stands behind a number, and stays with it.
const UNITS: [&str; 17] = [
    "%", "±", "Mpps", "kpps", "pps", "Gbit/s", "Mbit/s", "kbit/s", "bit/s", "d", "h", "min", "s",
    "ms", "µs", "ns", "MiB",
];

pub(super) fn page(document: &Document) -> String {
    let style = format!("{}{PAGE_CSS}{}", palette::css(":root"), palette::dark_rules(".wp "));
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
                main {
                    header {
                        p class="eyebrow" { (document.kind) }
                        h1 { (document.title) }
                        (blocks(&document.answer))
                    }
                    (blocks(&document.body))
                }
                footer { p { (line(&document.foot)) } }
                script { (PreEscaped(SORT_JS)) }
            }
        }
    };
    page.into_string() + "\n"
}

fn blocks(blocks: &[Block]) -> Markup {
    html! { @for one in blocks { (block(one)) } }
}

fn block(block: &Block) -> Markup {
    match block {
        Block::Section(id, title, inner) => html! {
            section id=(id) { h2 { (title) } (blocks(inner)) }
        },
        Block::Titled(Fold::Never, title, inner) => html! { h3 { (line(title)) } (blocks(inner)) },
        Block::Titled(fold, title, inner) => html! {
            details open[*fold == Fold::Open] { summary { (line(title)) } (blocks(inner)) }
        },
        Block::Prose(voice, text) => html! { p class=[class(*voice)] { (line(text)) } },
        Block::List(voice, items) => html! {
            ul class=(if *voice == Voice::Lead { "answers" } else { "words" }) {
                @for item in items { li { (line(item)) } }
            }
        },
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

fn table(table: &Table) -> Markup {
    let columns = || table.columns.iter().filter(|c| c.outputs.has(Outputs::PAGE));
    let width = columns().map(|c| 1 + usize::from(c.has_aside)).sum::<usize>();
    let class = classes([table.style, if table.is_sortable { "sortable" } else { "" }]);
    html! {
        div class="scroll" {
            table class=[class] {
                thead { tr { @for column in columns() { (head(column)) } } }
                @for group in &table.groups { tbody { (rows(table, group, width)) } }
            }
        }
    }
}

fn head(column: &Column) -> Markup {
    let span = column.has_aside.then_some("2");
    html! {
        th scope="col" class=[classes([align(column), column.style])] colspan=[span] {
            (line(&column.head))
            @if !column.unit.is_empty() { span class="unit" { (column.unit) } }
        }
    }
}

fn rows(table: &Table, group: &Group, width: usize) -> Markup {
    html! {
        @if !group.title.is_empty() {
            tr class="group" { th colspan=(width) scope="rowgroup" { (line(&group.title)) } }
        }
        @for row in &group.rows {
            (cells(table, row))
            @if !row.because.is_empty() { (because(table, row, width)) }
        }
    }
}

fn cells(table: &Table, row: &Row) -> Markup {
    let style = match (row.is_inner, row.is_strong, row.because.is_empty()) {
        (true, ..) => "drop",
        (_, true, _) => "matters",
        (.., false) => "figures",
        _ => "",
    };
    let class = classes([style, row.style]);
    let cells = table.columns.iter().zip(&row.cells);
    let cells = cells.filter(|(column, _)| column.outputs.has(Outputs::PAGE));
    html! {
        tr class=[class] {
            @for (index, (column, cell)) in cells.enumerate() {
                @if index == 0 {
                    th scope="row" class=[cell_classes(column, cell)] data-value=[cell.key] {
                        (content(cell, !column.has_aside))
                    }
                } @else {
                    td class=[cell_classes(column, cell)] data-value=[cell.key] {
                        (content(cell, !column.has_aside))
                    }
                    @if column.has_aside { td class="n share" { (line(&cell.under)) } }
                }
            }
        }
    }
}

fn content(cell: &Cell, has_under: bool) -> Markup {
    html! {
        (line(&cell.line))
        @if has_under && !cell.under.is_empty() { span class="under" { (line(&cell.under)) } }
    }
}

/// What a row rests on, under it; of numbered rows, behind the number.
fn because(table: &Table, row: &Row, width: usize) -> Markup {
    let is_numbered = table.columns.first().is_some_and(|c| c.align == Align::Right);
    html! {
        tr class="because" {
            @if is_numbered { td {} }
            td colspan=(width - usize::from(is_numbered)) {
                @for reason in &row.because { div class="reason" { (line(reason)) } }
            }
        }
    }
}

fn cell_classes(column: &Column, cell: &Cell) -> Option<String> {
    let strong = if column.is_strong { "strong" } else { "" };
    classes([align(column), strong, column.style, cell.style])
}

fn align(column: &Column) -> &'static str {
    if column.align == Align::Right { "n" } else { "" }
}

fn classes<const N: usize>(classes: [&str; N]) -> Option<String> {
    let classes: Vec<&str> = classes.into_iter().filter(|class| !class.is_empty()).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
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
