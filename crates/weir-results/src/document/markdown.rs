//! A document as Markdown (GitHub's, for its tables).
//!
//! Tables are read as text too, so that their figures are no links; lists and prose keep theirs.

use super::line::{Line, Span, printable};
use super::table::{Align, Table};
use super::{Block, Document, Outputs, Voice};

pub(super) fn page(document: &Document) -> String {
    let mut page = Page::default();
    page.part(format!("# {}", escape(&document.title)));
    page.blocks(&document.answer);
    page.blocks(&document.body);
    page.0.join("\n\n") + "\n"
}

/// Parts of a page, with an empty line between them.
#[derive(Default)]
struct Page(Vec<String>);

impl Page {
    fn part(&mut self, text: String) {
        if !text.is_empty() {
            self.0.push(text);
        }
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            // A heading over nothing but what this output leaves out would stand alone.
            Block::Section(_, _, title, inner) => {
                let before = self.0.len();
                self.part(format!("## {}", escape(title)));
                self.blocks(inner);
                if self.0.len() == before + 1 {
                    self.0.truncate(before);
                }
            }
            Block::Titled(_, title, inner) => {
                self.part(format!("{}:", inline(title)));
                self.blocks(inner);
            }
            Block::Prose(Voice::Warning, line) => self.part(format!("> {}", inline(line))),
            Block::Prose(_, line) => self.part(inline(line)),
            Block::List(_, items) => self.part(list(items.iter().map(inline))),
            Block::Facts(_, entries) => {
                let entry =
                    |(name, value): &(Line, Line)| format!("{}: {}", inline(name), inline(value));
                self.part(list(entries.iter().map(entry)));
            }
            Block::Table(table) if table.is_empty() => {}
            Block::Table(table) => self.table(table),
            Block::Figure(_) => {}
            Block::Preformatted(text) => self.part(fenced(text.trim_end())),
            Block::Only(outputs, inner) if outputs.has(Outputs::MARKDOWN) => self.blocks(inner),
            Block::Only(..) => {}
            Block::Beside(one, other) => {
                self.blocks(one);
                self.blocks(other);
            }
            Block::Tagged(_, inner) | Block::Anchored(_, _, inner) => self.blocks(inner),
        }
    }

    fn table(&mut self, table: &Table) {
        if table.is_empty() {
            return;
        }
        let flat = table.flat(Outputs::MARKDOWN);
        let row = |cells: &[Line]| {
            let cells: Vec<String> = cells.iter().map(|cell| inline(&cell.unlinked())).collect();
            format!("| {} |", cells.join(" | "))
        };
        let rule = |align: &Align| if *align == Align::Right { " ---: |" } else { " --- |" };
        let rules: String = flat.aligns.iter().map(rule).collect();
        let mut lines = vec![row(&flat.heads), format!("|{rules}")];
        lines.extend(flat.rows.iter().map(|(cells, _)| row(cells)));
        self.part(lines.join("\n"));
        let names = 1 + usize::from(!table.group_head.is_empty());
        let because = flat.rows.iter().flat_map(|(cells, because)| {
            let name: Vec<String> = cells.iter().take(names).map(inline).collect();
            because.iter().map(move |line| format!("{}: {}", name.join(", "), inline(line)))
        });
        self.part(list(because));
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}")).collect::<Vec<_>>().join("\n")
}

fn inline(line: &Line) -> String {
    line.0.iter().map(span).collect()
}

fn span(span: &Span) -> String {
    match span {
        Span::Text(text) => escape(text),
        Span::Strong(inner) => format!("**{}**", inline(inner)),
        Span::Code(text) => code(text),
        Span::Link(to, inner) => format!("[{}]({to})", inline(inner)),
        Span::Styled(_, inner) => inline(inner),
        Span::Swatch(_) => String::new(),
    }
}

/// A name as code; one that would end it, or a table's cell, or begin a tag, as text.
fn code(text: &str) -> String {
    if text.contains(['`', '|', '<']) { escape(text) } else { format!("`{}`", printable(text)) }
}

fn fenced(text: &str) -> String {
    let mut fence = "```".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}text\n{text}\n{fence}")
}

/// Text that Markdown takes literally, on one line.
pub(super) fn escape(text: &str) -> String {
    let characters: Vec<char> = printable(text).chars().collect();
    let mut escaped = String::with_capacity(text.len());
    for (index, &c) in characters.iter().enumerate() {
        let is_word = |at: Option<usize>| {
            at.and_then(|i| characters.get(i)).is_some_and(|c| c.is_alphanumeric())
        };
        let is_inner = is_word(index.checked_sub(1)) && is_word(index.checked_add(1));
        match c {
            // An underscore or an asterisk marks nothing unless it opens or closes a word.
            '_' if is_inner => escaped.push(c),
            // Not every reader takes a backslash for the end of a tag's meaning.
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    escaped
}
