//! One document, three outputs: a page of HTML, Markdown, text for a terminal.
//!
//! Whoever has something to report says it once, as a [`Document`] of headings, prose, tables,
//! figures and preformatted text, and never writes markup. Each renderer has the one table writer
//! and the one escape function of its output; text reaches them as it was measured or named, with
//! nothing escaped. Where an output has no room for something (a page's folded raw records on a
//! terminal, say), the document says so with [`Block::Only`] and [`Column::only`].
//!
//! Nothing here knows what is reported, and nothing asks a terminal: its width and whether it has
//! colours are arguments.

mod html;
mod line;
mod markdown;
mod table;
mod text;

pub use html::link;
pub(crate) use line::prose;
pub use line::{Line, Span, linked, printable};
pub use table::{Cell, Column, Group, Row, Table};

/// What is reported, for all outputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// Above the title of a page: what kind of document it is.
    pub kind: String,
    pub title: String,
    /// The title of a page's window.
    pub window: String,
    /// What it comes to. It stands first in a page, and last in a terminal, where the end is what
    /// is seen.
    pub answer: Vec<Block>,
    /// Everything that the answer rests on.
    pub body: Vec<Block>,
    /// At the end of a page: where it comes from.
    pub foot: Line,
    /// What links of the page lead to, as far as the page holds it itself.
    pub records: Vec<Record>,
}

/// Files that a page holds, so that its links lead somewhere wherever it lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The folder that a link leads to, as the link has it, without a `/` at its end.
    pub folder: String,
    pub title: String,
    /// `trial.json`.
    pub trial: String,
    /// `samples.csv`.
    pub samples: String,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Blocks under a heading, which links reach by its identifier.
    Section(Fold, String, String, Vec<Self>),
    /// Blocks under a title of their own, inside of a section.
    Titled(Fold, Line, Vec<Self>),
    /// A paragraph.
    Prose(Voice, Line),
    /// Items, one line each.
    List(Voice, Vec<Line>),
    /// Names and what stands for each of them. The word is the page's style of it.
    Facts(&'static str, Vec<(Line, Line)>),
    Table(Table),
    /// Drawings, which a page alone shows.
    Figure(Figure),
    /// Text whose lines and spaces stay as they are.
    Preformatted(String),
    /// Blocks of some outputs alone.
    Only(Outputs, Vec<Self>),
    /// Two parts that a wide page shows side by side, the first as wide as it must be.
    Beside(Vec<Self>, Vec<Self>),
    /// Blocks that the reader of a page may filter away.
    Tagged(Tag, Vec<Self>),
    /// The same, and links reach them by an identifier.
    Anchored(String, Tag, Vec<Self>),
}

/// How a paragraph or a list speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Voice {
    /// The answer.
    Lead,
    /// As any text.
    Plain,
    /// What explains what stands above.
    Note,
    /// What nobody may overlook.
    Warning,
}

/// Whether a page folds a titled part away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// It is always there.
    Never,
    /// It can be folded, and is not.
    Open,
    /// It is folded until it is asked for.
    Closed,
}

/// A figure as SVG.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// A style of the page, for drawings without a caption.
    pub style: &'static str,
    /// Complete `svg` elements; of several, the page's style shows the one that fits.
    pub drawings: Vec<String>,
    /// What its marks mean; empty where its neighbours say it.
    pub caption: String,
}

/// By what the reader of a page filters it; absent of what is always shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tag {
    pub dut: Option<String>,
    pub traffic: Option<String>,
}

/// A set of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outputs(u8);

impl Outputs {
    /// A page of HTML.
    pub const PAGE: Self = Self(1);
    pub(crate) const MARKDOWN: Self = Self(2);
    pub(crate) const TERMINAL: Self = Self(4);
    /// Page and Markdown: what is kept in files.
    pub const FILES: Self = Self(3);
    /// Markdown and terminal: what has no room for figures.
    pub(crate) const TEXTS: Self = Self(6);
    /// All of them.
    pub const ALL: Self = Self(7);

    /// Whether `output` is one of them.
    const fn has(self, output: Self) -> bool {
        self.0 & output.0 != 0
    }
}

impl Block {
    /// The answer, as a paragraph.
    pub fn lead(line: impl Into<Line>) -> Self {
        Self::Prose(Voice::Lead, line.into())
    }

    /// A paragraph.
    pub fn plain(line: impl Into<Line>) -> Self {
        Self::Prose(Voice::Plain, line.into())
    }

    /// A paragraph that explains what stands above.
    pub fn note(line: impl Into<Line>) -> Self {
        Self::Prose(Voice::Note, line.into())
    }

    /// A paragraph that nobody may overlook.
    pub fn warning(line: impl Into<Line>) -> Self {
        Self::Prose(Voice::Warning, line.into())
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Section(_, _, _, blocks)
            | Self::Only(_, blocks)
            | Self::Tagged(_, blocks)
            | Self::Anchored(_, _, blocks) => blocks.iter().all(Self::is_empty),
            Self::Beside(one, other) => one.iter().chain(other).all(Self::is_empty),
            Self::Prose(_, line) => line.is_empty(),
            Self::List(_, items) => items.is_empty(),
            Self::Facts(_, entries) => entries.is_empty(),
            Self::Table(table) => table.is_empty(),
            Self::Titled(..) | Self::Figure(_) | Self::Preformatted(_) => false,
        }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl Document {
    /// Adds a section; one without content is left out.
    pub fn section(&mut self, id: impl Into<String>, title: impl Into<String>, blocks: Vec<Block>) {
        self.add(Block::Section(Fold::Never, id.into(), title.into(), blocks));
    }

    /// Adds a section that a page folds away until it is asked for.
    pub(crate) fn folded(&mut self, id: &str, title: &str, blocks: Vec<Block>) {
        self.add(Block::Section(Fold::Closed, id.to_owned(), title.to_owned(), blocks));
    }

    fn add(&mut self, section: Block) {
        if !section.is_empty() {
            self.body.push(section);
        }
    }

    /// A self-contained page: style and script are part of it, and it is complete without the
    /// script, which filters, sorts and exports tables, and shows records.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// A page of Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::page(self)
    }

    /// Text for a terminal, without the title. Prose is broken at `width` columns, tables and
    /// preformatted text are not.
    #[must_use]
    pub fn text(&self, terminal: Terminal) -> String {
        text::document(self, terminal)
    }
}

/// What a terminal shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Terminal {
    /// Columns at which prose is broken; without one, it is not.
    pub width: Option<usize>,
    /// Whether emphasis is in colour; the caller judges `NO_COLOR`.
    pub colour: bool,
}

#[cfg(test)]
mod tests;
