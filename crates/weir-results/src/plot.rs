//! Figures: lines with error bars, small multiples, strips of raw points, stacked bars; as SVG,
//! PNG and gnuplot.
//!
//! What is shown is said by a [`Figure`], which knows nothing of pixels; plotters draws it. Here is
//! layout alone: where panels, labels and legends stand, which ticks an axis has, which colour a
//! curve. One drawing serves all formats. An SVG carries its light colours as attributes, for paper
//! and for converters, and its dark ones as a style for readers who prefer them; it holds no script
//! and loads nothing. A PNG is light, and its text is that of an embedded font, so that it looks
//! the same on a machine without any.

mod area;
pub mod axis;
pub mod collect;
mod draw;
mod lines;
mod page;
mod pen;
mod raster;
mod script;
mod stack;
mod strip;
mod ticked;

use crate::document;

pub use axis::{AxisScale, Base, Quantity};
pub use lines::{Curve, CurvePoint, LinePanel, XAxis};
pub(crate) use page::{About, RowAbout};
pub use script::Script;
pub use stack::{Part, Stack, StackRow, Tint};
pub use strip::{Mark, Reference, Strip, StripRow};

/// A figure: what it shows, in words and in marks.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it shows, as a heading.
    pub title: String,
    /// What it shows, for those who cannot see it.
    pub description: String,
    /// What marks and bars mean, under the figure.
    pub note: String,
    /// What is drawn.
    pub body: Body,
}

/// What a figure draws.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Curves along a numeric axis; several panels share both axes.
    Lines(Vec<LinePanel>),
    /// Every raw point of every series, in rows.
    Strip(Strip),
    /// Shares of a whole, in rows.
    Stack(Stack),
}

/// The widths that a figure is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A page or a screen.
    Wide,
    /// One of two beside each other.
    Half,
    /// A telephone.
    Narrow,
}

impl Format {
    /// Width in pixels.
    #[must_use]
    pub const fn width(self) -> u32 {
        match self {
            Self::Wide => 880,
            Self::Half => 424,
            Self::Narrow => 372,
        }
    }
}

impl Figure {
    /// As an SVG file.
    ///
    /// # Panics
    /// Never: memory is all that is written to.
    #[must_use]
    pub fn svg(&self, format: Format) -> String {
        draw::svg_file(self, format)
    }

    /// As an `svg` element of an HTML page, without the title, with identifiers that begin with
    /// `id` and a class in addition to `wp`. Every page
    /// of a document has the rules by which they follow a reader's preference for dark.
    ///
    /// # Panics
    /// Never: memory is all that is written to.
    #[must_use]
    pub(crate) fn inline_svg(
        &self,
        format: Format,
        id: &str,
        class: &str,
        rows: &[RowAbout],
    ) -> String {
        draw::inline_svg(self, format, (id, class), rows)
    }

    /// As a document shows it: for both widths, of which a page's style shows one.
    #[must_use]
    pub(crate) fn in_page(&self, id: &str) -> document::Figure {
        self.telling(id, &[])
    }

    /// The same, with what a page tells of each row or curve, in their order.
    #[must_use]
    pub(crate) fn telling(&self, id: &str, rows: &[RowAbout]) -> document::Figure {
        let drawing =
            |(format, width)| self.inline_svg(format, &format!("{id}-{width}"), width, rows);
        let drawings = [(Format::Wide, "wide"), (Format::Narrow, "narrow")].map(drawing).to_vec();
        document::Figure { style: "", drawings, caption: self.note.clone() }
    }

    /// As a PNG file, of two pixels for each one of the SVG.
    ///
    /// # Errors
    /// When the picture would be larger than [`PIXELS_MAX`].
    pub fn png(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        raster::png(self, format)
    }

    /// As a script for gnuplot and its data.
    #[must_use]
    pub fn gnuplot(&self) -> Script {
        script::write(self)
    }
}

/// The most pixels of a PNG.
pub(crate) const PIXELS_MAX: u64 = 100_000_000;

/// Why a figure cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// The picture is too large.
    #[error(
        "the figure would have {width} × {height} pixels, more than {PIXELS_MAX} in all: choose \
         fewer series, or write an SVG"
    )]
    TooLarge {
        /// Width in pixels.
        width: u64,
        /// Height in pixels.
        height: u64,
    },
    /// The picture cannot be encoded.
    #[error("the figure cannot be written as PNG: {0}")]
    Encode(String),
}

#[cfg(test)]
mod tests;
