//! Where a figure or a part of it is drawn, and the colours of its frame.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use super::pen::{self, Pen};
use crate::palette;

/// Where a figure or a part of it is drawn.
pub(super) type Area<DB> = DrawingArea<DB, Shift>;

/// Whether a backend could.
pub(super) type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// What of a figure is drawn: a page sets every row into a group of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    All,
    /// Axes, headings and legends.
    Base,
    /// One row, or one curve, counted through the figure.
    Row(usize),
}

impl Layer {
    pub(super) fn has_base(self) -> bool {
        !matches!(self, Self::Row(_))
    }

    pub(super) fn has_row(self, index: usize) -> bool {
        match self {
            Self::All => true,
            Self::Base => false,
            Self::Row(only) => only == index,
        }
    }
}

/// A part of an area, in layout pixels.
pub(super) fn part<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
) -> Area<DB> {
    area.clone().shrink((pen.at(x), pen.at(y)), (pen.size(width), pen.size(height)))
}

/// The colour of what is not the data.
pub(super) fn muted() -> RGBColor {
    pen::colour(palette::tone_named("muted"))
}

/// The colour of rules.
pub(super) fn rule() -> RGBColor {
    pen::colour(palette::tone_named("rule"))
}
