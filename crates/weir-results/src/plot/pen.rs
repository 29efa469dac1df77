//! What every drawing uses: a scale from layout pixels to those of a backend, colours, text.

use std::sync::Once;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::palette::{self, Tone};

/// The font of all text; a browser that has not the first takes the next.
const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// plotters divides the size of a font by this to get that of its em square.
const EM: f64 = 1.24;

/// Width of one character of a label, in pixels, on the safe side for sans-serif fonts.
const CHARACTER_WIDTH: f64 = 7.0;

/// Sizes of text, in pixels.
pub(super) const TITLE: f64 = 15.0;
pub(super) const BODY: f64 = 12.0;
pub(super) const SMALL: f64 = 11.0;

/// Makes the embedded font known to plotters, once for the process.
pub(super) fn fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let faces: [(FontStyle, &'static [u8]); 2] = [
            (FontStyle::Normal, include_bytes!("fonts/DejaVuSans.ttf")),
            (FontStyle::Bold, include_bytes!("fonts/DejaVuSans-Bold.ttf")),
        ];
        for (style, bytes) in faces {
            assert!(register_font(FONT, style, bytes).is_ok(), "the embedded font is a font");
        }
    });
}

/// From layout to a backend: how many of its pixels make one of the layout.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen(pub(super) f64);

impl Pen {
    /// A coordinate.
    #[expect(clippy::cast_possible_truncation, reason = "coordinates of a picture are small")]
    pub(super) fn at(self, pixels: f64) -> i32 {
        (pixels * self.0).round() as i32
    }

    /// A width or a height; never negative.
    pub(super) fn size(self, pixels: f64) -> u32 {
        self.at(pixels.max(0.0)).unsigned_abs()
    }

    /// A line of a colour.
    pub(super) fn line(self, colour: RGBColor, width: f64) -> ShapeStyle {
        colour.stroke_width(self.size(width).max(1))
    }

    /// Text of a size and colour, from the left, its middle at the coordinate's height.
    pub(super) fn text(self, size: f64, colour: RGBColor) -> TextStyle<'static> {
        let font = (FONT, size * EM * self.0).into_font();
        TextStyle { color: colour.to_backend_color(), ..TextStyle::from(font) }
            .pos(Pos::new(HPos::Left, VPos::Center))
    }

    /// The same in bold.
    pub(super) fn bold(self, size: f64, colour: RGBColor) -> TextStyle<'static> {
        let font = (FONT, size * EM * self.0, FontStyle::Bold).into_font();
        TextStyle { color: colour.to_backend_color(), ..TextStyle::from(font) }
            .pos(Pos::new(HPos::Left, VPos::Center))
    }
}

/// Text that ends at its coordinate.
pub(super) fn end(style: &TextStyle<'static>) -> TextStyle<'static> {
    style.pos(Pos::new(HPos::Right, VPos::Center))
}

/// Text around its coordinate.
pub(super) fn middle(style: &TextStyle<'static>) -> TextStyle<'static> {
    style.pos(Pos::new(HPos::Center, VPos::Center))
}

/// A tone as it is on paper.
pub(super) fn colour(tone: Tone) -> RGBColor {
    let channel = |at: usize| u8::from_str_radix(&tone.light[at..at + 2], 16).unwrap_or(0);
    RGBColor(channel(1), channel(3), channel(5))
}

/// The colour of the series with that number.
pub(super) fn series(index: usize) -> RGBColor {
    colour(palette::series(index))
}

/// How wide a text may become, in pixels.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().fold(0.0, |width, _| width + CHARACTER_WIDTH)
}

/// `text`, shortened in the middle so that it fits: names differ at both ends.
pub(super) fn clip(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let characters: Vec<char> = text.chars().collect();
    let room = (0..characters.len()).take_while(|n| fits(*n + 2, width)).count().max(2);
    let tail = room / 2;
    let head: String = characters[..room - tail].iter().collect();
    let tail: String = characters[characters.len() - tail..].iter().collect();
    format!("{head}…{tail}")
}

fn fits(count: usize, width: f64) -> bool {
    (0..count).fold(0.0, |w, _| w + CHARACTER_WIDTH) <= width
}

/// `text` in lines that fit.
pub(super) fn wrap(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(word) + CHARACTER_WIDTH <= width * 1.1 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
