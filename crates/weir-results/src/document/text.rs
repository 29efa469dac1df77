//! A document as text for a terminal.

use super::line::{Line, Span, printable};
use super::table::{Align, Table};
use super::{Block, Document, Outputs, Terminal, Voice};

/// Items of a list, and rows of a brief table, that are shown; the rest is counted. Files have all
/// of them.
const ITEMS_MAX: usize = 20;

/// Between two columns.
const GAP: &str = "  ";

pub(super) fn document(document: &Document, terminal: Terminal) -> String {
    let mut out = Out { terminal, parts: Vec::new() };
    out.blocks(&document.body);
    out.blocks(&document.answer);
    out.parts.join("\n")
}

impl Table {
    /// Text for a terminal: columns as wide as they must be. Heads without rows are nothing.
    #[must_use]
    pub fn text(&self, terminal: Terminal) -> String {
        if self.is_empty() { String::new() } else { table(self, terminal) }
    }
}

/// The table alone: heads and rows, each a line.
fn table(table: &Table, terminal: Terminal) -> String {
    let flat = table.flat(Outputs::TERMINAL);
    let mut lines = vec![(flat.heads.iter().map(plain).collect::<Vec<_>>(), None)];
    let rows_max = if table.is_brief { ITEMS_MAX } else { usize::MAX };
    for (cells, because) in flat.rows.iter().take(rows_max) {
        lines.push((cells.iter().map(plain).collect(), Some(*because)));
    }
    let width = |column: usize| {
        lines.iter().map(|(cells, _)| cells.get(column).map_or(0, |cell| columns(cell))).max()
    };
    let widths: Vec<usize> = (0..flat.heads.len()).filter_map(width).collect();
    let mut text = String::new();
    for (cells, because) in &lines {
        let mut row = String::new();
        for ((cell, width), align) in cells.iter().zip(&widths).zip(&flat.aligns) {
            let pad = " ".repeat(width - columns(cell));
            let (before, behind) = if *align == Align::Right { (&*pad, "") } else { ("", &*pad) };
            row.extend([before, cell, behind, GAP]);
        }
        row.truncate(row.trim_end().len());
        let is_head = because.is_none();
        text += &if is_head { bold(row, terminal) } else { row };
        text.push('\n');
        for reason in because.iter().copied().flatten() {
            text.extend(["    ", &plain(reason), "\n"]);
        }
    }
    if flat.rows.len() > rows_max {
        text += &more(flat.rows.len());
    }
    text
}

/// How many of `count` items are not shown.
fn more(count: usize) -> String {
    format!("… and {} more\n", count - ITEMS_MAX)
}

struct Out {
    terminal: Terminal,
    /// Each ends with a line's end; an empty line stands between two.
    parts: Vec<String>,
}

impl Out {
    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Section(_, _, title, inner) => self.titled(&title.as_str().into(), inner),
            Block::Titled(_, title, inner) => self.titled(title, inner),
            Block::Prose(Voice::Note, line) => {
                // Notes stand under what they explain.
                let text = self.wrapped(line, "");
                match self.parts.last_mut() {
                    Some(part) => part.push_str(&text),
                    None => self.parts.push(text),
                }
            }
            Block::Prose(_, line) => self.parts.push(self.wrapped(line, "")),
            Block::List(_, items) => self.list(items),
            Block::Facts(_, entries) => self.facts(entries),
            Block::Table(one) if one.is_empty() => {}
            Block::Table(one) => self.parts.push(one.text(self.terminal)),
            Block::Figure(_) => {}
            Block::Preformatted(text) => self.parts.push(format!("{}\n", text.trim_end())),
            Block::Only(outputs, inner) if outputs.has(Outputs::TERMINAL) => self.blocks(inner),
            Block::Only(..) => {}
            Block::Beside(one, other) => {
                self.blocks(one);
                self.blocks(other);
            }
            Block::Tagged(_, inner) | Block::Anchored(_, _, inner) => self.blocks(inner),
        }
    }

    /// Blocks right under their title; nothing if there is none for a terminal.
    fn titled(&mut self, title: &Line, inner: &[Block]) {
        let mut out = Self { terminal: self.terminal, parts: Vec::new() };
        out.blocks(inner);
        if !out.parts.is_empty() {
            out.parts[0].insert_str(0, &format!("{}\n", bold(plain(title), self.terminal)));
            self.parts.append(&mut out.parts);
        }
    }

    fn list(&mut self, items: &[Line]) {
        let shown = items.iter().take(ITEMS_MAX);
        let mut text: String = shown.map(|item| self.wrapped(item, GAP)).collect();
        if items.len() > ITEMS_MAX {
            text.extend([GAP, &more(items.len())]);
        }
        self.parts.push(text);
    }

    fn facts(&mut self, entries: &[(Line, Line)]) {
        let width = entries.iter().map(|(name, _)| columns(&plain(name))).max().unwrap_or(0);
        let line = |(name, value): &(Line, Line)| {
            let name = plain(name);
            format!("{name}{}{GAP}{}\n", " ".repeat(width - columns(&name)), plain(value))
        };
        self.parts.push(entries.iter().map(line).collect());
    }

    /// A line, broken where the terminal ends; what follows a break is indented as the beginning.
    fn wrapped(&self, line: &Line, indent: &str) -> String {
        let width = self.terminal.width.unwrap_or(usize::MAX);
        let (mut text, mut at) = (indent.to_owned(), columns(indent));
        for (index, (word, is_strong)) in words(line).into_iter().enumerate() {
            let wide = columns(&word);
            if index > 0 && at + 1 + wide > width {
                text.extend(["\n", indent]);
                at = columns(indent);
            } else if index > 0 {
                text.push(' ');
                at += 1;
            }
            at += wide;
            text += &if is_strong { bold(word, self.terminal) } else { word };
        }
        text + "\n"
    }
}

/// The words of a line, each with whether it stands out. A word in which that changes does so
/// as a whole.
fn words(line: &Line) -> Vec<(String, bool)> {
    let mut words = vec![(String::new(), false)];
    collect(line, false, &mut words);
    words.retain(|(word, _)| !word.is_empty());
    words
}

fn collect(line: &Line, is_strong: bool, words: &mut Vec<(String, bool)>) {
    for span in &line.0 {
        let text = match span {
            Span::Strong(inner) => {
                collect(inner, true, words);
                continue;
            }
            Span::Link(_, inner) | Span::Styled(_, inner) => {
                collect(inner, is_strong, words);
                continue;
            }
            Span::Swatch(_) => continue,
            Span::Text(text) => printable(text),
            Span::Code(text) => format!("`{}`", printable(text)),
        };
        for (index, part) in text.split(' ').enumerate() {
            if index > 0 {
                words.push((String::new(), false));
            }
            if let Some((word, strong)) = words.last_mut().filter(|_| !part.is_empty()) {
                word.push_str(part);
                *strong |= is_strong;
            }
        }
    }
}

fn plain(line: &Line) -> String {
    printable(&line.plain())
}

fn bold(text: String, terminal: Terminal) -> String {
    if terminal.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text }
}

fn columns(text: &str) -> usize {
    text.chars().count()
}
