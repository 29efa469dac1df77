//! From a figure to a drawing: heading, body, note; and the SVG around it.

use plotters::prelude::*;

use super::area::{Area, Drawn, Layer, muted, part};
use super::page::{self, RowAbout, SVG_SCALE, escaped};
use super::pen::{self, Pen};
use super::{Body, Figure, Format};
use crate::palette;

/// Space around a figure that is a file of its own.
const MARGIN: f64 = 24.0;
/// Height of its heading.
const HEADING: f64 = 34.0;
/// Height of a line of the note.
const NOTE_LINE: f64 = 17.0;

/// Size of a figure that is a file of its own, in layout pixels.
pub(super) fn file_size(figure: &Figure, format: Format) -> (u32, u32) {
    let width = f64::from(format.width());
    let height = body_height(&figure.body, width) + note_height(figure, width);
    let outer = Pen(1.0);
    (outer.size(width + 2.0 * MARGIN), outer.size(height + 2.0 * MARGIN + HEADING))
}

fn note_height(figure: &Figure, width: f64) -> f64 {
    let lines = pen::wrap(&figure.note, width);
    lines.iter().fold(if lines.is_empty() { 0.0 } else { 8.0 }, |height, _| height + NOTE_LINE)
}

fn body_height(body: &Body, width: f64) -> f64 {
    match body {
        Body::Lines(panels) => super::lines::height(panels, width),
        Body::Strip(strip) => strip.height(width),
        Body::Stack(stack) => stack.height(width),
    }
}

fn draw_body<DB: DrawingBackend>(
    body: &Body,
    area: &Area<DB>,
    pen: Pen,
    width: f64,
    layer: Layer,
) -> Drawn<DB> {
    match body {
        Body::Lines(panels) => super::lines::draw(panels, area, pen, width, layer),
        Body::Strip(strip) => strip.draw(area, pen, width, layer),
        Body::Stack(stack) => stack.draw(area, pen, width, layer),
    }
}

/// Draws a figure that is a file of its own.
pub(super) fn file<DB: DrawingBackend>(
    figure: &Figure,
    format: Format,
    area: &Area<DB>,
    pen: Pen,
) -> Drawn<DB> {
    let width = f64::from(format.width());
    let height = body_height(&figure.body, width);
    let (ink, muted) = (pen::colour(palette::tone_named("ink")), muted());
    area.fill(&pen::colour(palette::BACKGROUND))?;
    let heading = pen::clip(&figure.title, width * 0.75);
    let at = (pen.at(MARGIN), pen.at(MARGIN + 6.0));
    area.draw_text(&heading, &pen.bold(pen::TITLE, ink), at)?;
    let inner = part(area, pen, (MARGIN, MARGIN + HEADING), (width, height));
    draw_body(&figure.body, &inner, pen, width, Layer::All)?;
    let mut y = MARGIN + HEADING + height + 16.0;
    for line in pen::wrap(&figure.note, width) {
        area.draw_text(&line, &pen.text(pen::SMALL, muted), (pen.at(MARGIN), pen.at(y)))?;
        y += NOTE_LINE;
    }
    area.present()
}

/// The drawing as plotters has it, in its own coordinates.
fn svg_text(size: (u32, u32), draw: impl FnOnce(&Area<SVGBackend<'_>>, Pen)) -> String {
    pen::fonts();
    let mut text = String::new();
    {
        let scaled = (size.0 * SVG_SCALE, size.1 * SVG_SCALE);
        let area = SVGBackend::with_string(&mut text, scaled).into_drawing_area();
        draw(&area, Pen(f64::from(SVG_SCALE)));
        // Nothing fails that is written to memory.
        drop(area.present());
    }
    text
}

/// What stands inside plotters' own element.
fn inside(text: &str) -> &str {
    let start = text.find('>').map_or(0, |at| at + 1);
    text[start..].trim_end().strip_suffix("</svg>").unwrap_or(&text[start..])
}

pub(super) fn svg_file(figure: &Figure, format: Format) -> String {
    let size = file_size(figure, format);
    let drawing = svg_text(size, |area, pen| {
        let drawn = file(figure, format, area, pen);
        debug_assert!(drawn.is_ok(), "nothing fails that is written to memory");
    });
    let style = palette::dark_rules("");
    element(
        &Element { size, namespace: true, class: "wp", data: "", id: "figure", figure },
        &format!("<style>{style}</style>\n{}", inside(&drawing)),
    ) + "\n"
}

/// What is drawn of one layer, in the coordinates of the whole.
fn layer(figure: &Figure, format: Format, layer: Layer) -> String {
    let width = f64::from(format.width());
    let drawing = svg_text(inline_size(figure, format), |area, pen| {
        let drawn = draw_body(&figure.body, area, pen, width, layer);
        debug_assert!(drawn.is_ok(), "nothing fails that is written to memory");
    });
    inside(&drawing).to_owned()
}

fn inline_size(figure: &Figure, format: Format) -> (u32, u32) {
    let width = f64::from(format.width());
    (format.width(), Pen(1.0).size(body_height(&figure.body, width)))
}

pub(super) fn inline_svg(
    figure: &Figure,
    format: Format,
    (id, class): (&str, &str),
    rows: &[RowAbout],
) -> String {
    let inner = match rows {
        [] => layer(figure, format, Layer::All),
        _ => {
            layer(figure, format, Layer::Base)
                + &page::groups(figure, format, rows, |index| {
                    layer(figure, format, Layer::Row(index))
                })
        }
    };
    // A figure that is of one thing alone is filtered as a whole.
    let data = match rows {
        [first, others @ ..] if others.iter().all(|row| row.tag == first.tag) => {
            page::attributes(&first.tag)
        }
        _ => String::new(),
    };
    let (size, class) = (inline_size(figure, format), format!("wp {class}"));
    let outer = Element { size, namespace: false, class: &class, data: &data, id, figure };
    element(&outer, &inner)
}

/// The outermost element.
struct Element<'a> {
    size: (u32, u32),
    namespace: bool,
    class: &'a str,
    /// Attributes for a page's filters.
    data: &'a str,
    id: &'a str,
    figure: &'a Figure,
}

fn element(e: &Element<'_>, inner: &str) -> String {
    let (width, height) = e.size;
    let view = (width * SVG_SCALE, height * SVG_SCALE);
    let namespace = if e.namespace { " xmlns=\"http://www.w3.org/2000/svg\"" } else { "" };
    let (title, description) = (escaped(&e.figure.title), escaped(&e.figure.description));
    let id = e.id;
    format!(
        "<svg{namespace} class=\"{}\"{} viewBox=\"0 0 {} {}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>\n\
         {inner}</svg>",
        e.class, e.data, view.0, view.1
    )
}
