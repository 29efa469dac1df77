//! Stacks: each row a bar of 100 %, cut into its named parts.

use plotters::prelude::*;

use super::area::{Area, Drawn, Layer, muted};
use super::pen::{self, Pen};
use crate::palette;

/// Rows of shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Stack {
    /// The rows, from top to bottom.
    pub rows: Vec<StackRow>,
    /// Every part that occurs, with its tone, in the order in which they stand.
    pub legend: Vec<(String, Tint)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StackRow {
    /// A heading for the rows below.
    Heading(String),
    /// A whole with its parts.
    Whole {
        name: String,
        /// Its parts; none where nothing is known.
        parts: Vec<Part>,
        /// What to say without parts.
        absent: &'static str,
    },
}

/// A part of a whole.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its tone.
    pub tint: Tint,
    /// Its share, 0 to 1.
    pub share: f64,
    /// What is written in it, where it has room.
    pub text: String,
}

/// How a part is filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tint {
    /// Name of its tone in the palette.
    pub tone: String,
    /// Whether it is hatched as well: what nothing explains must not rest on colour alone.
    pub hatched: bool,
}

const HEADING: f64 = 26.0;
const GAP: f64 = 12.0;
const BAR: f64 = 18.0;
const LEGEND_LINE: f64 = 20.0;

/// Where things stand.
struct Frame {
    width: f64,
    left: f64,
    row: f64,
}

impl Stack {
    fn frame(&self, width: f64) -> Frame {
        let names = self.rows.iter().filter_map(|row| match row {
            StackRow::Whole { name, .. } => Some(pen::text_width(name)),
            StackRow::Heading(_) => None,
        });
        if width < 500.0 {
            return Frame { width, left: 0.0, row: 40.0 };
        }
        let left = names.fold(60.0, f64::max).min(200.0) + 14.0;
        Frame { width, left, row: 26.0 }
    }

    /// Height in pixels.
    pub(super) fn height(&self, width: f64) -> f64 {
        let frame = self.frame(width);
        let (_, legend) = self.legend_places(width);
        self.rows_height(&frame) + GAP + legend
    }

    fn rows_height(&self, frame: &Frame) -> f64 {
        self.rows.iter().enumerate().fold(0.0, |height, (index, row)| match row {
            StackRow::Heading(_) if index > 0 => height + GAP + HEADING,
            StackRow::Heading(_) => height + HEADING,
            StackRow::Whole { .. } => height + frame.row,
        })
    }

    fn legend_places(&self, width: f64) -> (Vec<(f64, f64)>, f64) {
        let (mut x, mut y) = (0.0, 8.0);
        let mut places = Vec::new();
        for (name, _) in &self.legend {
            let needed = 18.0 + pen::text_width(name) + 16.0;
            if x > 0.0 && x + needed > width {
                x = 0.0;
                y += LEGEND_LINE;
            }
            places.push((x, y));
            x += needed;
        }
        (places, y + 14.0)
    }

    /// Draws rows and legend.
    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        pen: Pen,
        width: f64,
        layer: Layer,
    ) -> Drawn<DB> {
        let frame = self.frame(width);
        let ink = pen::colour(palette::tone_named("ink"));
        let (mut y, mut wholes) = (0.0, 0);
        for (index, row) in self.rows.iter().enumerate() {
            match row {
                StackRow::Heading(text) => {
                    y += if index > 0 { GAP } else { 0.0 };
                    if layer.has_base() {
                        let text = pen::clip(text, width);
                        let style = pen.bold(pen::BODY, ink);
                        area.draw_text(&text, &style, (0, pen.at(y + 11.0)))?;
                    }
                    y += HEADING;
                }
                StackRow::Whole { name, parts, absent } => {
                    if layer.has_row(wholes) {
                        whole(area, pen, &frame, (y, name, parts, absent))?;
                    }
                    y += frame.row;
                    wholes += 1;
                }
            }
        }
        if !layer.has_base() {
            return Ok(());
        }
        let top = self.rows_height(&frame) + GAP;
        for ((name, tint), (x, y)) in self.legend.iter().zip(self.legend_places(width).0) {
            let corner = (x, top + y - 6.0);
            fill(area, pen, tint, (corner, (11.0, 11.0)))?;
            let at = (pen.at(x + 17.0), pen.at(top + y));
            let name = pen::clip(name, width - x - 20.0);
            area.draw_text(&name, &pen.text(pen::SMALL, ink), at)?;
        }
        Ok(())
    }
}

fn whole<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
    (y, name, parts, absent): (f64, &str, &[Part], &str),
) -> Drawn<DB> {
    let is_narrow = frame.left < 1.0;
    let (text_y, bar_y) = if is_narrow { (y + 6.0, y + 15.0) } else { (y + 9.0, y) };
    let room = if is_narrow { frame.width } else { frame.left - 14.0 };
    let ink = pen::colour(palette::tone_named("ink"));
    let label = pen::clip(name, room);
    area.draw_text(&label, &pen.text(pen::BODY, ink), (0, pen.at(text_y)))?;
    if parts.is_empty() {
        let at = (pen.at(frame.left), pen.at(bar_y + 9.0));
        return area.draw_text(absent, &pen.text(pen::SMALL, muted()), at);
    }
    let background = pen::colour(palette::BACKGROUND);
    let mut x = frame.left;
    for part in parts {
        let width = part.share * (frame.width - frame.left);
        fill(area, pen, &part.tint, ((x, bar_y), (width, BAR)))?;
        if width >= pen::text_width(&part.text) + 6.0 && !part.tint.hatched {
            let style = pen::middle(&pen.bold(pen::SMALL, background));
            let at = (pen.at(x + width / 2.0), pen.at(bar_y + BAR / 2.0));
            area.draw_text(&part.text, &style, at)?;
        }
        x += width;
    }
    Ok(())
}

/// A filled rectangle of layout pixels, with a thin gap to the next one where it is wide enough.
fn fill<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    tint: &Tint,
    ((x, y), (width, height)): ((f64, f64), (f64, f64)),
) -> Drawn<DB> {
    let gap = if width < 3.0 { 0.0 } else { 1.0 };
    let colour = pen::colour(palette::tone_named(&tint.tone));
    let corners = [(pen.at(x), pen.at(y)), (pen.at(x + width - gap), pen.at(y + height))];
    area.draw(&Rectangle::new(corners, colour.filled()))?;
    if tint.hatched {
        let style = pen.line(pen::colour(palette::BACKGROUND), 1.5);
        let mut at = -height;
        while at < width {
            let (from, to) = (at.max(0.0), (at + height).min(width - gap));
            if to > from {
                let point = |dx: f64| (pen.at(x + dx), pen.at(y + height - (dx - at)));
                area.draw(&PathElement::new(vec![point(from), point(to)], style))?;
            }
            at += 6.0;
        }
    }
    Ok(())
}
