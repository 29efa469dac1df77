//! Tables of a page: what sorts, filters and exports them reads attributes of their cells.

use maud::{Markup, html};

use super::super::Outputs;
use super::super::table::{Align, Cell, Column, Group, Row, Table};
use super::line;

pub(super) fn table(table: &Table) -> Markup {
    let columns = || table.columns.iter().filter(|c| c.outputs.has(Outputs::PAGE));
    let width = columns().map(|c| 1 + usize::from(c.has_aside)).sum::<usize>();
    let class = classes([table.style, if table.is_sortable { "sortable" } else { "" }]);
    if table.is_empty() {
        return html! {};
    }
    let group_head = (!table.group_head.is_empty()).then_some(table.group_head);
    html! {
        div class="scroll" {
            table class=[class] data-groups=[group_head] {
                thead { tr { @for column in columns() { (head(column)) } } }
                @for group in &table.groups { tbody { (rows(table, group, width)) } }
            }
        }
    }
}

fn head(column: &Column) -> Markup {
    let span = column.has_aside.then_some("2");
    html! {
        th scope="col" class=[classes([align(column), column.style])] colspan=[span]
            data-raw=[column.raw] data-dut=[&column.dut] {
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
        tr class=[class] data-dut=[&row.tag.dut] data-traffic=[&row.tag.traffic] {
            @for (index, (column, cell)) in cells.enumerate() {
                @if index == 0 {
                    th scope="row" class=[cell_classes(column, cell)] data-value=[cell.key] {
                        (content(cell, !column.has_aside))
                    }
                } @else {
                    td class=[cell_classes(column, cell)] data-value=[cell.key]
                        data-dut=[&column.dut] { (content(cell, !column.has_aside)) }
                    @if column.has_aside {
                        td class="n share" data-dut=[&column.dut] { (line(&cell.under)) }
                    }
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
