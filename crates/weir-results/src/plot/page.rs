//! A figure in a page: every row and every curve in a group of its own, so that a page can fade
//! those that its reader does not look at, and over each point what it stands for.
//!
//! What is told of a point is an invisible shape with a title and a link. A browser shows the one
//! and follows the other without any script; the page's script makes both prettier.

use std::fmt::Write as _;

use super::{Body, Figure, Format, lines};
use crate::document::Tag;

/// What a page tells of a row of a strip or a stack, or of a curve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RowAbout {
    /// By what a reader filters it.
    pub(crate) tag: Tag,
    /// Of each of its points; empty where none is worth telling of.
    pub(crate) points: Vec<About>,
    /// Of a curve as a whole.
    pub(crate) whole: Option<About>,
}

/// What is told of a point.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// In lines.
    pub(crate) text: String,
    /// Where a click leads.
    pub(crate) to: Option<String>,
}

/// Pixels of an SVG's own coordinates for each of the layout: plotters' are whole numbers.
pub(super) const SVG_SCALE: u32 = 4;

/// Radius around a point in which it is meant, in layout pixels.
const REACH: f64 = 7.0;

/// Corners at most of the shape along a curve.
const CORNERS_MAX: usize = 60;

/// The groups of a figure, one for each of `rows`: what `draw` draws of it, and what is told.
pub(super) fn groups(
    figure: &Figure,
    format: Format,
    rows: &[RowAbout],
    draw: impl Fn(usize) -> String,
) -> String {
    let width = f64::from(format.width());
    let places = match &figure.body {
        Body::Lines(panels) => lines::places(panels, width),
        Body::Strip(strip) => strip.places(width),
        Body::Stack(_) => Vec::new(),
    };
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let places = places.get(index).map_or(&[][..], Vec::as_slice);
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "<g{}>{}{}</g>", attributes(&row.tag), draw(index), hits(row, places));
    }
    text
}

/// What a page's filters look at.
pub(super) fn attributes(tag: &Tag) -> String {
    let attribute = |(name, value): (&str, &Option<String>)| {
        let value = escaped(value.as_ref()?).replace('"', "&quot;");
        Some(format!(" data-{name}=\"{value}\""))
    };
    [("dut", &tag.dut), ("traffic", &tag.traffic)].into_iter().filter_map(attribute).collect()
}

fn hits(row: &RowAbout, places: &[(f64, f64)]) -> String {
    let mut text = String::new();
    if let Some(about) = &row.whole {
        let step = places.len().div_ceil(CORNERS_MAX).max(1);
        let corners: Vec<String> =
            places.iter().step_by(step).map(|(x, y)| format!("{},{}", at(*x), at(*y))).collect();
        text += &hit(about, &format!("<polyline points=\"{}\"/>", corners.join(" ")));
    }
    for (about, (x, y)) in row.points.iter().zip(places) {
        let shape = format!("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"/>", at(*x), at(*y), at(REACH));
        text += &hit(about, &shape);
    }
    text
}

fn hit(about: &About, shape: &str) -> String {
    let title = escaped(&about.text);
    match &about.to {
        Some(to) => format!(
            "<a class=\"hit\" href=\"{to}\" tabindex=\"-1\"><title>{title}</title>{shape}</a>"
        ),
        None => format!("<g class=\"hit\"><title>{title}</title>{shape}</g>"),
    }
}

/// As the text of an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A coordinate of the SVG.
fn at(pixels: f64) -> String {
    format!("{:.0}", pixels * f64::from(SVG_SCALE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::axis::{AxisScale, Base, Quantity};
    use crate::plot::{Curve, CurvePoint, LinePanel, Mark, Strip, StripRow, XAxis, draw};

    fn figure(body: Body) -> Figure {
        Figure { title: String::new(), description: String::new(), note: String::new(), body }
    }

    fn about(count: usize) -> RowAbout {
        let about = |n| About { text: format!("trial {n}"), to: Some(format!("cells/a/{n}")) };
        let tag = Tag { dut: Some("a\"<".into()), traffic: None };
        RowAbout { tag, points: (0..count).map(about).collect(), whole: None }
    }

    /// The centres of the circles in a group that are drawn, and of those that tell.
    fn circles(group: &str) -> [Vec<(i32, i32)>; 2] {
        let number = |text: &str, name: &str| -> i32 {
            let value = text.split(&format!(" {name}=\"")).nth(1).expect(name);
            value.split('"').next().expect("an end").parse().expect("a number")
        };
        let mut found = [Vec::new(), Vec::new()];
        for text in group.split("<circle").skip(1) {
            let text = text.split('>').next().expect("an end");
            let is_hit = number(text, "r") == 28;
            found[usize::from(is_hit)].push((number(text, "cx"), number(text, "cy")));
        }
        found
    }

    /// Every point that tells lies on one that is drawn.
    fn fits(body: Body, count: usize) {
        let figure = figure(body);
        for format in [Format::Wide, Format::Narrow] {
            let text = draw::inline_svg(&figure, format, ("x", ""), &[about(count)]);
            let [drawn, label] = circles(&text);
            assert_eq!(label.len(), count, "{text}");
            for (x, y) in &label {
                let near = |(a, b): &(i32, i32)| (a - x).abs() <= 4 && (b - y).abs() <= 4;
                assert!(drawn.iter().any(near), "{x}, {y}: {drawn:?}");
            }
            assert!(text.contains("<g data-dut=\"a&quot;&lt;\">"), "{text}");
            assert!(text.contains("href=\"cells/a/0\""), "{text}");
        }
    }

    #[test]
    fn what_tells_of_a_mark_lies_on_it() {
        let marks = [0.5e6, 0.52e6, 0.6e6].map(|value| Mark { value, counts: true }).to_vec();
        let heading = StripRow::Heading { text: "flows".into(), reference: None };
        let row = StripRow::Series { name: "a".into(), colour: 0, marks };
        let rows = vec![heading, row];
        let unit = crate::collection::Unit::Pps;
        fits(Body::Strip(Strip { unit, title: "delivered".into(), rows }), 3);
    }

    #[test]
    fn what_tells_of_a_point_lies_on_it_on_both_kinds_of_axis() {
        for scale in [AxisScale::Linear, AxisScale::Log(Base::Ten)] {
            let points = [(128.0, 0.5e6), (4_900.0, 0.4e6), (1e6, 0.2e6)];
            let points = points.map(|(x, y)| CurvePoint { x, y, bar: None }).to_vec();
            let x = XAxis { title: "flows".into(), quantity: None, scale, positions: Vec::new() };
            let curve = Curve { name: "a".into(), colour: 0, dash: 0, marks: true, points };
            let panel = LinePanel {
                title: Some("t".into()),
                x,
                y: Quantity::rates(0.5e6, crate::collection::Unit::Pps),
                y_scale: scale,
                values: false,
                legend: false,
                height: 200.0,
                reach: None,
                curves: vec![curve],
            };
            fits(Body::Lines(vec![panel]), 3);
        }
    }
}
