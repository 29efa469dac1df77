//! Strips: every raw point of every series in a row, with a box from quartile to quartile, the
//! median and whiskers from minimum to maximum.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

use super::area::{Area, Drawn, Layer, muted, part, rule};
use super::axis::{self, AxisScale, Quantity};
use super::lines::mark;
use super::pen::{self, Pen};
use super::ticked::Ticked;
use crate::collection::Unit;
use crate::palette;

/// Rows on one axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Strip {
    /// What values count.
    pub unit: Unit,
    /// What the axis shows, behind the unit.
    pub title: String,
    /// The rows, from top to bottom.
    pub rows: Vec<StripRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StripRow {
    /// A heading for the rows below.
    Heading {
        /// What they share.
        text: String,
        /// A value to hold them against.
        reference: Option<Reference>,
    },
    Series {
        name: String,
        /// Number of its colour and shape.
        colour: usize,
        /// Its points, in their order.
        marks: Vec<Mark>,
    },
}

/// A value to hold rows against.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// The value; drawn where the axis reaches it.
    pub value: f64,
    /// What it is.
    pub text: String,
}

/// A raw point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mark {
    pub value: f64,
    /// Whether it counts; one that does not is a cross.
    pub counts: bool,
}

/// From this many points on a box is drawn: quartiles of fewer say nothing.
const BOX_MIN: usize = 4;
/// A reference is drawn if it is at most this many times the largest value.
const REFERENCE_MAX: f64 = 1.5;

const AXIS: f64 = 42.0;
const HEADING: f64 = 28.0;
const RIGHT: f64 = 92.0;
/// Points are spread over this height, so that equal ones stay apart.
const SPREAD: f64 = 14.0;

/// Where things stand.
#[derive(Debug, Clone, Copy)]
struct Frame {
    width: f64,
    label: f64,
    row: f64,
    max: f64,
    height: f64,
}

impl Frame {
    fn is_narrow(&self) -> bool {
        self.width < 500.0
    }

    /// Where a row's name and its marks stand, from its top.
    fn middles(&self) -> (f64, f64) {
        if self.is_narrow() { (9.0, 29.0) } else { (16.0, 16.0) }
    }

    /// The pixel of a value.
    fn at(&self, value: f64) -> f64 {
        self.label + value / self.max * (self.width - self.label - RIGHT)
    }
}

impl Strip {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.rows
            .iter()
            .flat_map(|row| match row {
                StripRow::Heading { .. } => [].iter(),
                StripRow::Series { marks, .. } => marks.iter(),
            })
            .map(|mark| mark.value)
    }

    /// What its axis is in.
    pub(super) fn quantity(&self) -> Quantity {
        Quantity::rates(axis::top(self.values()), self.unit)
    }

    /// The largest value, and the references that are near enough.
    fn domain(&self) -> f64 {
        let max = axis::top(self.values());
        let near = self.rows.iter().filter_map(|row| match row {
            StripRow::Heading { reference: Some(reference), .. } => Some(reference.value),
            _ => None,
        });
        axis::top(near.filter(|v| *v <= max * REFERENCE_MAX).chain([max]))
    }

    fn frame(&self, width: f64) -> Frame {
        let names = self.rows.iter().filter_map(|row| match row {
            StripRow::Series { name, .. } => Some(pen::text_width(name)),
            StripRow::Heading { .. } => None,
        });
        let is_narrow = width < 500.0;
        let widest = names.fold(60.0, f64::max).min(width * 0.36) + 14.0;
        let (label, row) = if is_narrow { (10.0, 46.0) } else { (widest, 32.0) };
        let (ticks, _) = axis::ticks(self.domain() / self.quantity().divisor(), count(width));
        let height = self.rows.iter().fold(4.0, |height, r| match r {
            StripRow::Heading { .. } => height + HEADING,
            StripRow::Series { .. } => height + row,
        });
        let max = axis::top(ticks) * self.quantity().divisor();
        Frame { width, label, row, max, height }
    }

    /// Height in pixels.
    pub(super) fn height(&self, width: f64) -> f64 {
        self.frame(width).height + AXIS
    }

    /// Draws the rows and their axis.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        pen: Pen,
        width: f64,
        layer: Layer,
    ) -> Drawn<DB> {
        let frame = self.frame(width);
        if layer.has_base() {
            self.draw_axis(area, pen, &frame)?;
        }
        let (mut y, mut index) = (0.0, 0);
        let mut reference = None;
        for row in &self.rows {
            match row {
                StripRow::Heading { text, reference: new } => {
                    reference = new.as_ref().map(|r| r.value).filter(|v| *v <= frame.max);
                    if layer.has_base() {
                        heading(area, pen, &frame, (y, text, new.as_ref()))?;
                    }
                    y += HEADING;
                }
                StripRow::Series { name, colour, marks } => {
                    if let Some(value) = reference.filter(|_| layer.has_base()) {
                        let x = pen.at(frame.at(value));
                        let ends = [(x, pen.at(y)), (x, pen.at(y + frame.row))];
                        let style = pen.line(muted(), 1.2);
                        let (on, off) = (pen.at(4.0), pen.at(3.0));
                        area.draw(&DashedPathElement::new(ends, on, off, style))?;
                    }
                    if layer.has_row(index) {
                        let room = part(area, pen, (0.0, y), (frame.width, frame.row));
                        series(&room, pen, &frame, self.unit, (name, *colour, marks))?;
                    }
                    y += frame.row;
                    index += 1;
                }
            }
        }
        Ok(())
    }

    /// Where the marks of each row are, in layout pixels.
    pub(super) fn places(&self, width: f64) -> Vec<Vec<(f64, f64)>> {
        let frame = self.frame(width);
        let mut y = 0.0;
        let mut places = Vec::new();
        for row in &self.rows {
            match row {
                StripRow::Heading { .. } => y += HEADING,
                StripRow::Series { marks, .. } => {
                    let heights = heights(frame.middles().1, marks.len());
                    let of_row = marks.iter().zip(heights);
                    places.push(of_row.map(|(m, dy)| (frame.at(m.value), y + dy)).collect());
                    y += frame.row;
                }
            }
        }
        places
    }

    /// plotters' axis: grid, ticks and their labels.
    fn draw_axis<DB: DrawingBackend>(&self, area: &Area<DB>, pen: Pen, frame: &Frame) -> Drawn<DB> {
        let quantity = self.quantity();
        let divisor = quantity.divisor();
        let (ticks, decimals) = axis::ticks(self.domain() / divisor, count(frame.width));
        let points: Vec<f64> = ticks.iter().map(|v| v * divisor).collect();
        let mut chart = ChartBuilder::on(area)
            .margin_left(pen.at(frame.label))
            .margin_right(pen.at(RIGHT))
            .margin_bottom(pen.at(AXIS - 24.0))
            .x_label_area_size(pen.at(24.0))
            .build_cartesian_2d(
                Ticked::new(AxisScale::Linear, (0.0, frame.max), points),
                Ticked::new(AxisScale::Linear, (0.0, 1.0), Vec::new()),
            )?;
        let written = |value: &f64| quantity.tick(*value, decimals);
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .axis_style(pen.line(rule(), 1.0))
            .bold_line_style(pen.line(rule(), 1.0))
            .light_line_style(TRANSPARENT)
            .set_all_tick_mark_size(pen.at(4.0))
            .label_style(pen.text(pen::SMALL, muted()))
            .x_label_formatter(&written)
            .draw()?;
        let title = format!("{} {}", quantity.name(), self.title);
        let at = (pen.at(frame.width - RIGHT), pen.at(frame.height + AXIS - 9.0));
        area.draw_text(&title, &pen::end(&pen.text(pen::SMALL, muted())), at)
    }
}

/// Ticks on an axis of that width.
fn count(width: f64) -> f64 {
    (width / 120.0).clamp(3.0, 7.0)
}

fn ink() -> RGBColor {
    pen::colour(palette::tone_named("ink"))
}

fn heading<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
    (y, text, reference): (f64, &str, Option<&Reference>),
) -> Drawn<DB> {
    let note = reference.map_or("", |r| r.text.as_str());
    let room = (frame.width - pen::text_width(note) - 12.0).max(60.0);
    let top_left = (0, pen.at(y));
    let bottom_right = (pen.at(frame.width), pen.at(y + HEADING - 4.0));
    let background = pen::colour(palette::BACKGROUND).filled();
    area.draw(&Rectangle::new([top_left, bottom_right], background))?;
    let middle = pen.at(y + 13.0);
    let text = pen::clip(text, room);
    area.draw_text(&text, &pen.bold(pen::BODY, ink()), (0, middle))?;
    let style = pen::end(&pen.text(pen::SMALL, muted()));
    area.draw_text(note, &style, (pen.at(frame.width), middle))
}

/// One series: name, box, median, whiskers, points and the median in figures.
fn series<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
    unit: Unit,
    (name, number, marks): (&str, usize, &[Mark]),
) -> Drawn<DB> {
    let (text_y, middle) = frame.middles();
    let room = if frame.is_narrow() { frame.width - 12.0 } else { frame.label - 12.0 };
    let label = pen::clip(name, room);
    area.draw_text(&label, &pen.text(pen::BODY, ink()), (0, pen.at(text_y)))?;
    let colour = pen::series(number);
    let mut values: Vec<f64> = marks.iter().filter(|m| m.counts).map(|m| m.value).collect();
    values.sort_by(f64::total_cmp);
    let point = |value: f64, y: f64| (pen.at(frame.at(value)), pen.at(y));
    let end = match (values.first(), values.last()) {
        (Some(low), Some(high)) => {
            if values.len() >= BOX_MIN {
                let corner = |p: f64, y: f64| point(quantile(&values, p), y);
                let quartiles = [corner(0.25, middle - 9.0), corner(0.75, middle + 9.0)];
                area.draw(&Rectangle::new(quartiles, colour.mix(0.18).filled()))?;
            }
            let thin = pen.line(colour, 1.2);
            let wide = pen.line(colour, 3.0);
            let rows = [
                (thin, vec![point(*low, middle), point(*high, middle)]),
                (thin, vec![point(*low, middle - 4.0), point(*low, middle + 4.0)]),
                (thin, vec![point(*high, middle - 4.0), point(*high, middle + 4.0)]),
            ];
            for (style, line) in rows {
                area.draw(&PathElement::new(line, style))?;
            }
            let median = quantile(&values, 0.5);
            let line = vec![point(median, middle - 10.0), point(median, middle + 10.0)];
            area.draw(&PathElement::new(line, wide))?;
            (*high, unit.written(median), pen.bold(pen::BODY, ink()))
        }
        _ => (0.0, "no point counts".to_owned(), pen.text(pen::SMALL, muted())),
    };
    points(area, pen, frame, (marks, number, middle))?;
    let (high, text, style) = end;
    area.draw_text(&text, &style, (pen.at(frame.at(high) + 10.0), pen.at(middle)))
}

/// The points, from top to bottom in their order.
fn points<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
    (marks, number, middle): (&[Mark], usize, f64),
) -> Drawn<DB> {
    let colour = pen::series(number);
    let background = pen::colour(palette::BACKGROUND);
    for (point, y) in marks.iter().zip(heights(middle, marks.len())) {
        let at = (pen.at(frame.at(point.value)), pen.at(y));
        if point.counts {
            mark(area, pen, at, number, (3.8, background))?;
            mark(area, pen, at, number, (3.0, colour))?;
        } else {
            area.draw(&Cross::new(at, pen.at(3.2), pen.line(muted(), 1.4)))?;
        }
    }
    Ok(())
}

/// Heights of so many points around the middle of their row.
fn heights(middle: f64, count: usize) -> impl Iterator<Item = f64> {
    (0..count).map(move |n| middle + ((index(n) + 0.5) / index(count) - 0.5) * SPREAD)
}

/// A quantile of sorted values, between neighbours in proportion (type 7 of Hyndman and Fan 1996);
/// that of a half is the median.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let position = (0..last).fold(0.0, |n, _| n + 1.0) * p;
    let below = (0..=last).rev().find(|n| index(*n) <= position).unwrap_or(0);
    let above = (below + 1).min(last);
    let share = position - index(below);
    sorted[below] + (sorted[above] - sorted[below]) * share
}

#[expect(clippy::cast_precision_loss, reason = "counts of points are small")]
fn index(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let values = [1.0, 2.0, 4.0, 8.0];
        for (p, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 3.0), (0.75, 5.0), (1.0, 8.0)] {
            assert!((quantile(&values, p) - expected).abs() < 1e-12, "{p}");
        }
        assert!((quantile(&[7.0], 0.5) - 7.0).abs() < 1e-12);
    }
}
