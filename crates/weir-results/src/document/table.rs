//! Tables: columns, rows in groups, and what a row rests on.

use super::line::{Line, Span};
use super::{Outputs, Tag};

/// Where a column's cells stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub(super) head: Line,
    pub(super) unit: &'static str,
    pub(super) align: Align,
    pub(super) style: &'static str,
    pub(super) has_aside: bool,
    pub(super) is_strong: bool,
    pub(super) outputs: Outputs,
    /// What the keys of its cells are in.
    pub(super) raw: Option<&'static str>,
    /// The DUT that it is about.
    pub(super) dut: Option<String>,
}

impl Column {
    fn new(head: Line, align: Align) -> Self {
        Self {
            head,
            unit: "",
            align,
            style: "",
            has_aside: false,
            is_strong: false,
            outputs: Outputs::ALL,
            raw: None,
            dut: None,
        }
    }

    /// A column of words.
    pub fn words(head: impl Into<Line>) -> Self {
        Self::new(head.into(), Align::Left)
    }

    /// A column of numbers.
    pub fn numbers(head: impl Into<Line>) -> Self {
        Self::new(head.into(), Align::Right)
    }

    /// With what its numbers are in, or of.
    #[must_use]
    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// With a style of the page.
    #[must_use]
    pub fn style(self, style: &'static str) -> Self {
        Self { style, ..self }
    }

    /// What a reader looks for first.
    #[must_use]
    pub(crate) fn strong(self) -> Self {
        Self { is_strong: true, ..self }
    }

    /// A page sets what stands beside each figure in a column of its own, not under it.
    #[must_use]
    pub(crate) fn with_aside(self) -> Self {
        Self { has_aside: true, ..self }
    }

    /// In a file of a page's table, its cells are what they are sorted by, in this unit.
    #[must_use]
    pub(crate) fn raw(self, unit: &'static str) -> Self {
        Self { raw: Some(unit), ..self }
    }

    /// About one DUT, by which the reader of a page may filter.
    #[must_use]
    pub(crate) fn of_dut(self, dut: impl Into<String>) -> Self {
        Self { dut: Some(dut.into()), ..self }
    }

    /// In some outputs alone.
    #[must_use]
    pub fn only(self, outputs: Outputs) -> Self {
        Self { outputs, ..self }
    }
}

/// A cell: its content, and what explains it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cell {
    pub(super) line: Line,
    pub(super) under: Line,
    pub(super) key: Option<f64>,
    pub(super) style: &'static str,
}

impl Cell {
    /// With what explains it, in small print; in a text, in brackets.
    #[must_use]
    pub fn under(self, under: impl Into<Line>) -> Self {
        Self { under: under.into(), ..self }
    }

    /// By which a page sorts it, if not by its text.
    #[must_use]
    pub fn sorted(self, key: impl Into<Option<f64>>) -> Self {
        Self { key: key.into(), ..self }
    }

    /// With a style of the page.
    #[must_use]
    pub fn style(self, style: &'static str) -> Self {
        Self { style, ..self }
    }
}

impl<T: Into<Line>> From<T> for Cell {
    fn from(line: T) -> Self {
        Self { line: line.into(), ..Self::default() }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    /// One for each column.
    pub cells: Vec<Cell>,
    /// A style of the page.
    pub style: &'static str,
    /// Whether it belongs to the row above.
    pub is_inner: bool,
    /// Whether it stands out.
    pub is_strong: bool,
    /// What the row rests on, each under it.
    pub because: Vec<Line>,
    /// By what the reader of a page filters it.
    pub tag: Tag,
}

impl<T: Into<Cell>> FromIterator<T> for Row {
    fn from_iter<I: IntoIterator<Item = T>>(cells: I) -> Self {
        Self { cells: cells.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::default() }
    }
}

/// Rows that have something in common, which their title says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// What they have in common.
    pub title: Line,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// A style of the page.
    pub style: &'static str,
    /// Whether a page lets its reader sort it.
    pub is_sortable: bool,
    /// Whether a terminal shows its first rows and counts the rest.
    pub is_brief: bool,
    /// What the titles of its groups are; a page shows them as rows, a text as a column.
    pub group_head: &'static str,
    pub columns: Vec<Column>,
    /// Its rows; those of a table without groups are one that has no title.
    pub groups: Vec<Group>,
}

impl Table {
    /// A table without groups.
    pub fn new<R: Into<Row>>(columns: Vec<Column>, rows: impl IntoIterator<Item = R>) -> Self {
        let rows = rows.into_iter().map(Into::into).collect();
        Self { columns, groups: vec![Group { title: Line::new(), rows }], ..Self::default() }
    }

    /// A table whose rows are in groups.
    #[must_use]
    pub fn grouped(head: &'static str, columns: Vec<Column>, groups: Vec<Group>) -> Self {
        Self { group_head: head, columns, groups, ..Self::default() }
    }

    /// With a style of the page.
    #[must_use]
    pub fn style(self, style: &'static str) -> Self {
        Self { style, ..self }
    }

    /// Sorted by a page's reader.
    #[must_use]
    pub(crate) fn sortable(self) -> Self {
        Self { is_sortable: true, ..self }
    }

    /// Of which a terminal shows the first rows, and counts the rest.
    #[must_use]
    pub fn brief(self) -> Self {
        Self { is_brief: true, ..self }
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.iter().all(|group| group.rows.is_empty())
    }

    /// The table as text has it: heads and rows of lines, a group's title as a column of its own,
    /// and what stood under a figure in brackets.
    pub(super) fn flat(&self, output: Outputs) -> Flat<'_> {
        let shown = |column: &&Column| column.outputs.has(output);
        let mut heads: Vec<Line> = Vec::new();
        let mut aligns: Vec<Align> = Vec::new();
        let is_grouped = !self.group_head.is_empty();
        if is_grouped {
            heads.push(self.group_head.into());
            aligns.push(Align::Left);
        }
        for column in self.columns.iter().filter(shown) {
            let head = column.head.clone();
            let comma = if column.unit.is_empty() || head.is_empty() { "" } else { ", " };
            heads.push(head.text(comma).text(column.unit));
            aligns.push(column.align);
        }
        let mut rows = Vec::new();
        for group in &self.groups {
            for row in &group.rows {
                let title = is_grouped.then(|| group.title.clone());
                let cells = self.columns.iter().zip(&row.cells).filter(|(c, _)| shown(c));
                let cells = cells.enumerate().map(|(at, (c, cell))| flat_cell(row, at, c, cell));
                rows.push((title.into_iter().chain(cells).collect(), &row.because));
            }
        }
        Flat { heads, aligns, rows }
    }
}

/// A table as text has it.
pub(super) struct Flat<'a> {
    pub(super) heads: Vec<Line>,
    pub(super) aligns: Vec<Align>,
    pub(super) rows: Vec<(Vec<Line>, &'a Vec<Line>)>,
}

fn flat_cell(row: &Row, at: usize, column: &Column, cell: &Cell) -> Line {
    let mut line = cell.line.clone();
    if (column.is_strong && line.plain() != "–") || (row.is_strong && at == 0) {
        line = Line(vec![Span::Strong(line)]);
    }
    if row.is_inner && at == 0 {
        line = Line::new().text("– ").line(line);
    }
    if !cell.under.is_empty() {
        line = line.text(" (").line(cell.under.clone()).text(")");
    }
    line
}
