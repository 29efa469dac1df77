//! What all plots share: the frame, scales, ticks, text and marks.
//!
//! A [`Chart`] is drawn once and used twice: inline in the HTML report, whose style sheet it
//! takes, and as a file of its own that brings its style along. It holds no script, loads
//! nothing, and names itself to screen readers.

use maud::{Markup, PreEscaped, html};

use super::palette;

/// Rules for the elements of a plot; colours are the variables of [`palette::css`].
pub(super) const PLOT_CSS: &str = include_str!("plot.css");

/// Width of one character of a label, in pixels, on the safe side for system fonts.
const CHARACTER_WIDTH: f64 = 7.0;

/// Space around a plot that is a file of its own.
const MARGIN: f64 = 24.0;
/// Height of its heading.
const HEADING: f64 = 34.0;

/// The two widths that every plot is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// A page or a screen.
    Wide,
    /// A telephone.
    Narrow,
}

impl Format {
    /// Width of a plot, in pixels.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Wide => 880.0,
            Self::Narrow => 372.0,
        }
    }

    /// What makes the identifiers of the two unique, and what a style sheet shows them by.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }
}

/// A drawn plot.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Unique in a page: ASCII letters, digits and hyphens.
    pub(super) id: String,
    /// What it shows, as a heading.
    pub(super) title: String,
    /// What it shows, for those who cannot see it.
    pub(super) description: String,
    /// Width in pixels.
    pub(super) width: f64,
    /// Height in pixels.
    pub(super) height: f64,
    /// Its elements.
    pub(super) body: Markup,
}

impl Chart {
    /// As part of an HTML page, with an additional class.
    pub(super) fn inline(&self, class: &str) -> Markup {
        let view_box = format!("0 0 {} {}", px(self.width), px(self.height));
        html! {
            svg class={ "wp " (class) } viewBox=(view_box) width=(px(self.width))
                height=(px(self.height)) role="img"
                aria-labelledby={ (self.id) "-t " (self.id) "-d" } {
                title id={ (self.id) "-t" } { (self.title) }
                desc id={ (self.id) "-d" } { (self.description) }
                (self.body)
            }
        }
    }

    /// As a file of its own.
    pub(super) fn standalone(&self) -> String {
        let (width, height) = (self.width + 2.0 * MARGIN, self.height + 2.0 * MARGIN + HEADING);
        let view_box = format!("0 0 {} {}", px(width), px(height));
        let style = format!("{}{PLOT_CSS}", palette::css(".wp"));
        let heading = clip(&self.title, self.width * 0.85);
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class="wp" viewBox=(view_box)
                width=(px(width)) height=(px(height)) role="img"
                aria-labelledby={ (self.id) "-t " (self.id) "-d" } {
                title id={ (self.id) "-t" } { (self.title) }
                desc id={ (self.id) "-d" } { (self.description) }
                style { (PreEscaped(style)) }
                rect class="bg" width="100%" height="100%" {}
                text class="h" x=(px(MARGIN)) y=(px(MARGIN + 10.0)) { (heading) }
                g transform={ "translate(" (px(MARGIN)) " " (px(MARGIN + HEADING)) ")" } {
                    (self.body)
                }
            }
        }
        .into_string()
            + "\n"
    }
}

/// A linear or logarithmic map from values to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Values at both ends.
    pub(super) domain: (f64, f64),
    /// Pixels at both ends.
    pub(super) range: (f64, f64),
    /// Whether equal distances are equal ratios.
    pub(super) log: bool,
}

impl Scale {
    /// A linear scale from 0.
    pub(super) fn from_zero(max: f64, range: (f64, f64)) -> Self {
        Self { domain: (0.0, max), range, log: false }
    }

    /// The pixel of `value`.
    pub(super) fn at(&self, value: f64) -> f64 {
        let map = |v: f64| {
            if self.log { v.max(f64::MIN_POSITIVE).ln() } else { v }
        };
        let (low, high) = (map(self.domain.0), map(self.domain.1));
        let share = if high > low { (map(value) - low) / (high - low) } else { 0.5 };
        self.range.0 + share * (self.range.1 - self.range.0)
    }
}

/// Round numbers from 0 to at least `max`, about `count` of them, and their decimals.
pub(super) fn ticks(max: f64, count: f64) -> (Vec<f64>, usize) {
    let raw = max / count;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(10.0 * power);
    let mut values = vec![0.0];
    while values.last().is_some_and(|last| *last < max * 0.9999) && values.len() < 50 {
        values.push(step * values.iter().fold(0.0, |n, _| n + 1.0));
    }
    let decimals = (0..6).find(|&d| is_written(step, d)).unwrap_or(6);
    (values, decimals)
}

/// Whether `decimals` of them write `step` in full.
fn is_written(step: f64, decimals: usize) -> bool {
    let scaled = step * (0..decimals).fold(1.0, |power, _| power * 10.0);
    (scaled - scaled.round()).abs() < 1e-6 && scaled >= 0.5
}

/// The largest of `values` that is finite; something to draw against if none is positive.
pub(super) fn top(values: impl IntoIterator<Item = f64>) -> f64 {
    let max = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
    if max > 0.0 { max } else { 1.0 }
}

/// A coordinate with at most one decimal.
pub(super) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
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
    let mut kept = characters.len();
    while kept > 2
        && text_width("x") * f64::from(u16::try_from(kept + 1).unwrap_or(u16::MAX)) > width
    {
        kept -= 1;
    }
    let tail = kept / 2;
    let head: String = characters[..kept - tail].iter().collect();
    let tail: String = characters[characters.len() - tail..].iter().collect();
    format!("{head}…{tail}")
}

/// A mark at a point: one shape per DUT, so that colour is never the only difference.
pub(super) fn mark(shape: usize, x: f64, y: f64, title: &str) -> Markup {
    let (left, right, above, below) = (px(x - 3.2), px(x + 3.2), px(y - 3.2), px(y + 3.2));
    html! {
        g class="dot" {
            title { (title) }
            @match shape % 4 {
                0 => { circle cx=(px(x)) cy=(px(y)) r="2.8" {} }
                1 => { path d=(format!("M{0} {3}L{2} {4}L{0} {5}L{1} {4}Z",
                    px(x), left, right, above, px(y), below)) {} }
                2 => { rect x=(px(x - 2.5)) y=(px(y - 2.5)) width="5" height="5" {} }
                _ => { path d=(format!("M{} {above}L{right} {below}L{left} {below}Z", px(x))) {} }
            }
        }
    }
}

/// A cross: an iteration that does not count.
pub(super) fn cross(x: f64, y: f64, title: &str) -> Markup {
    let (left, right, above, below) = (px(x - 3.5), px(x + 3.5), px(y - 3.5), px(y + 3.5));
    let d = format!("M{left} {above}L{right} {below}M{left} {below}L{right} {above}");
    html! { path class="void" d=(d) { title { (title) } } }
}

/// A straight line of a class.
pub(super) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> Markup {
    html! {
        line class=(class) x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {}
    }
}

/// A text of a class at a point.
pub(super) fn label(class: &str, x: f64, y: f64, text: &str) -> Markup {
    html! { text class=(class) x=(px(x)) y=(px(y)) { (text) } }
}

/// An identifier out of any text: ASCII letters and digits, everything else a hyphen.
pub(super) fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
