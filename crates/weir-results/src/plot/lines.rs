//! Curves along a numeric axis, with error bars; one panel, or small multiples that share axes.

use plotters::prelude::*;

use super::area::{Area, Drawn, Layer, muted, part, rule};
use super::axis::{self, AxisScale, Quantity, Ticks};
use super::pen::{self, Pen};
use super::ticked::Ticked;
use crate::collection::Unit;
use crate::palette;

/// One panel.
#[derive(Debug, Clone, PartialEq)]
pub struct LinePanel {
    /// What sets it apart from the other panels.
    pub title: Option<String>,
    /// The axis along which it goes.
    pub x: XAxis,
    /// What values are, and what they are written in.
    pub y: Quantity,
    /// How values become heights.
    pub y_scale: AxisScale,
    /// Whether values are written at the points, where there is room.
    pub values: bool,
    /// Whether its curves have names worth a legend.
    pub legend: bool,
    /// Height of the plot itself, in pixels.
    pub height: f64,
    /// Position and value that both axes reach at least, so that figures can be held together.
    pub reach: Option<(f64, f64)>,
    pub curves: Vec<Curve>,
}

/// A horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct XAxis {
    /// Its name.
    pub title: String,
    /// What positions are, and what they are written in; absent where they are plain numbers.
    pub quantity: Option<Quantity>,
    /// How positions become distances.
    pub scale: AxisScale,
    /// Where points are, with the labels as written, in order; empty where there are many.
    pub positions: Vec<(f64, String)>,
}

impl XAxis {
    /// What stands beside it: `load, Mpps`, `flows, logarithmic`.
    pub(super) fn label(&self) -> String {
        // Each tick of a logarithmic axis has the unit that suits it.
        let unit = self.quantity.filter(|_| self.scale == AxisScale::Linear);
        let unit = unit.map_or_else(String::new, |quantity| format!(", {}", quantity.name()));
        format!("{}{unit}{}", self.title, self.scale.suffix())
    }
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Number of its colour and shape.
    pub colour: usize,
    /// Number of its dashes: curves of one colour differ by them.
    pub dash: usize,
    /// Whether points are marked.
    pub marks: bool,
    /// The points, in order.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Position.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Both ends of its error bar.
    pub bar: Option<(f64, f64)>,
}

impl CurvePoint {
    /// The highest that is drawn of it.
    pub(crate) fn high(&self) -> f64 {
        self.bar.map_or(self.y, |(_, high)| high.max(self.y))
    }
}

const TOP: f64 = 24.0;
/// The least room for the labels of a vertical axis.
const LEFT: f64 = 48.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 24.0;
const X_TITLE: f64 = 20.0;
const PANEL_TITLE: f64 = 20.0;
const GAP: f64 = 18.0;
const LEGEND_LINE: f64 = 20.0;
/// Radius of a mark.
const MARK: f64 = 3.6;

/// What all panels share.
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    y_scale: AxisScale,
    /// The ticks of the vertical axis.
    heights: Vec<(f64, String)>,
    ticks: Ticks,
    columns: usize,
    panel: (f64, f64),
    /// Room for the labels of the vertical axis.
    left: f64,
}

impl Frame {
    /// Where a point is, as shares of the axes from their lower ends.
    fn share(&self, x_scale: AxisScale, point: &CurvePoint) -> (f64, f64) {
        (x_scale.share(point.x, self.x), self.y_scale.share(point.y, self.y))
    }
}

/// Height of the panels with their legend.
pub(super) fn height(panels: &[LinePanel], width: f64) -> f64 {
    let (columns, panel) = grid(panels, width);
    let rows = panels.len().div_ceil(columns);
    let rows = (0..rows).fold(0.0, |n, _| n + 1.0);
    let (_, legend) = legend(panels, width);
    rows * (panel.1 + GAP) - GAP + legend
}

/// Columns, and the size of a panel.
fn grid(panels: &[LinePanel], width: f64) -> (usize, (f64, f64)) {
    let columns = match panels.len() {
        0 | 1 => 1,
        _ if width < 500.0 => 1,
        2 | 4 => 2,
        _ => 3,
    };
    let count = (0..columns).fold(0.0, |n, _| n + 1.0);
    let panel_width = (width - GAP * (count - 1.0)) / count;
    let title = if panels.iter().any(|p| p.title.is_some()) { PANEL_TITLE } else { 0.0 };
    let plot = panels.iter().map(|p| p.height).fold(0.0, f64::max);
    (columns, (panel_width, title + TOP + plot + BOTTOM + X_TITLE))
}

/// The curves that a legend names: one for each name.
fn legend(panels: &[LinePanel], width: f64) -> (Vec<(&Curve, f64, f64)>, f64) {
    let mut items: Vec<(&Curve, f64, f64)> = Vec::new();
    let (mut x, mut y) = (0.0, 16.0);
    for curve in panels.iter().filter(|p| p.legend).flat_map(|p| &p.curves) {
        if items.iter().any(|(c, ..)| c.name == curve.name) {
            continue;
        }
        let needed = (32.0 + pen::text_width(&curve.name) + 18.0).min(width);
        if x > 0.0 && x + needed > width {
            x = 0.0;
            y += LEGEND_LINE;
        }
        items.push((curve, x, y));
        x += needed;
    }
    let height = if items.is_empty() { 0.0 } else { y + 12.0 };
    (items, height)
}

fn frame(panels: &[LinePanel], width: f64) -> Frame {
    let points = || panels.iter().flat_map(|p| &p.curves).flat_map(|c| &c.points);
    let reach = || panels.iter().filter_map(|p| p.reach);
    let (columns, panel) = grid(panels, width);
    let scale = panels.first().map_or(AxisScale::Linear, |p| p.x.scale);
    let xs: Vec<f64> = points().map(|p| p.x).chain(reach().map(|(x, _)| x)).collect();
    let x = padded(axis::range(&xs), scale);
    let positions = positions(panels);
    let (y, heights) = heights(panels);
    let widest = heights.iter().map(|(_, label)| pen::text_width(label)).fold(0.0, f64::max);
    let left = LEFT.max(widest + 8.0);
    let along = axis::Along {
        scale,
        quantity: panels.first().and_then(|p| p.x.quantity),
        positions: &positions,
        range: x,
        width: panel.0 - left - RIGHT,
        character: 7.0,
    };
    Frame {
        x,
        y,
        y_scale: panels.first().map_or(AxisScale::Linear, |p| p.y_scale),
        heights,
        ticks: axis::x_ticks(&along),
        columns,
        panel,
        left,
    }
}

/// The range of the vertical axis, and its ticks.
fn heights(panels: &[LinePanel]) -> ((f64, f64), Vec<(f64, String)>) {
    let quantity = panels.first().map_or(Quantity::rates(1e6, Unit::Pps), |p| p.y);
    let points = || panels.iter().flat_map(|p| &p.curves).flat_map(|c| &c.points);
    let highs = points().map(CurvePoint::high);
    let highs = highs.chain(panels.iter().filter_map(|p| p.reach).map(|(_, y)| y));
    let plot = panels.iter().map(|p| p.height).fold(0.0, f64::max);
    // Values are written above the points.
    let room = if panels.iter().any(|p| p.values) { 1.0 + 16.0 / plot.max(50.0) } else { 1.0 };
    let top = axis::top(highs);
    if let Some(AxisScale::Log(base)) = panels.first().map(|p| p.y_scale) {
        let lowest = points().map(|p| p.y).filter(|y| *y > 0.0).fold(top, f64::min);
        let range = padded((lowest, top), AxisScale::Log(base));
        return (range, axis::y_log_ticks(base, quantity, range, plot));
    }
    let divisor = quantity.divisor();
    let (ticks, decimals) = axis::ticks(top * room / divisor, (plot / 52.0).max(2.0));
    let range = (0.0, axis::top(ticks.iter().copied()) * divisor);
    let tick = |value: f64| (value * divisor, quantity.tick(value * divisor, decimals));
    (range, ticks.into_iter().map(tick).collect())
}

/// Every position of every panel, once, in order.
fn positions(panels: &[LinePanel]) -> Vec<(f64, String)> {
    let mut all: Vec<(f64, String)> = Vec::new();
    for position in panels.iter().flat_map(|p| &p.x.positions) {
        if !all.iter().any(|(at, _)| at.total_cmp(&position.0).is_eq()) {
            all.push(position.clone());
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Room at both ends, so that marks and bars are whole.
fn padded((low, high): (f64, f64), scale: AxisScale) -> (f64, f64) {
    if low >= high {
        return match scale {
            AxisScale::Linear => (low - 1.0, high + 1.0),
            AxisScale::Log(_) => (low / 2.0, high * 2.0),
        };
    }
    match scale {
        AxisScale::Linear if low.abs() < f64::EPSILON => (low, high + (high - low) * 0.03),
        AxisScale::Linear => (low - (high - low) * 0.03, high + (high - low) * 0.03),
        AxisScale::Log(_) => {
            let pad = (high / low).powf(0.03);
            (low / pad, high * pad)
        }
    }
}

/// Draws the panels and their legend.
pub(super) fn draw<DB: DrawingBackend>(
    panels: &[LinePanel],
    area: &Area<DB>,
    pen: Pen,
    width: f64,
    layer: Layer,
) -> Drawn<DB> {
    let frame = frame(panels, width);
    let mut first = 0;
    for (panel, corner) in panels.iter().zip(corners(panels.len(), &frame)) {
        draw_panel(panel, &part(area, pen, corner, frame.panel), pen, &frame, (layer, first))?;
        first += panel.curves.len();
    }
    let bottom = corners(panels.len(), &frame).last().map_or(0.0, |(_, y)| y);
    let top = bottom + frame.panel.1;
    let items = if layer.has_base() { legend(panels, width).0 } else { Vec::new() };
    for (curve, x, y) in items {
        let colour = pen::series(curve.colour);
        let at = |x: f64| (pen.at(x), pen.at(top + y));
        let line = [at(x), at(x + 24.0)];
        stroke(&line, curve.dash, colour, pen, |piece| area.draw(&piece))?;
        if curve.marks {
            mark(area, pen, at(x + 12.0), curve.colour, (MARK, colour))?;
        }
        let name = pen::clip(&curve.name, width - x - 34.0);
        area.draw_text(&name, &pen.text(pen::SMALL, ink()), at(x + 31.0))?;
    }
    Ok(())
}

/// Where panels begin.
fn corners(count: usize, frame: &Frame) -> impl Iterator<Item = (f64, f64)> {
    let (columns, (width, height)) = (frame.columns, frame.panel);
    let steps = |n: usize| (0..n).fold(0.0, |sum, _| sum + 1.0);
    (0..count)
        .map(move |n| (steps(n % columns) * (width + GAP), steps(n / columns) * (height + GAP)))
}

/// Where the points of each curve are, in layout pixels.
pub(super) fn places(panels: &[LinePanel], width: f64) -> Vec<Vec<(f64, f64)>> {
    let frame = frame(panels, width);
    let mut places = Vec::new();
    for (panel, (left, top)) in panels.iter().zip(corners(panels.len(), &frame)) {
        let title = if panel.title.is_some() { PANEL_TITLE } else { 0.0 };
        let (high, low) = (top + title + TOP, top + frame.panel.1 - X_TITLE - BOTTOM);
        let (from, to) = (left + frame.left, left + frame.panel.0 - RIGHT);
        let place = |p: &CurvePoint| {
            let (along, up) = frame.share(panel.x.scale, p);
            (from + along * (to - from), low - up * (low - high))
        };
        places.extend(panel.curves.iter().map(|curve| curve.points.iter().map(place).collect()));
    }
    places
}

fn ink() -> RGBColor {
    pen::colour(palette::tone_named("ink"))
}

fn draw_panel<DB: DrawingBackend>(
    panel: &LinePanel,
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
    layer: (Layer, usize),
) -> Drawn<DB> {
    let top = if panel.title.is_some() { PANEL_TITLE } else { 0.0 };
    if layer.0.has_base() {
        titles(panel, area, pen, frame)?;
    }
    let mut builder = ChartBuilder::on(area);
    builder
        .margin_top(pen.at(top + TOP))
        .margin_bottom(pen.at(X_TITLE))
        .margin_right(pen.at(RIGHT))
        .x_label_area_size(pen.at(BOTTOM))
        .y_label_area_size(pen.at(frame.left));
    let labelled: Vec<f64> = frame.ticks.labelled.iter().map(|(at, _)| *at).collect();
    let x = Ticked::new(panel.x.scale, frame.x, labelled);
    let heights = frame.heights.iter().map(|(at, _)| *at).collect();
    let y = Ticked::new(frame.y_scale, frame.y, heights);
    plot(panel, &mut builder.build_cartesian_2d(x, y)?, pen, frame, layer)
}

/// What stands around a panel.
fn titles<DB: DrawingBackend>(
    panel: &LinePanel,
    area: &Area<DB>,
    pen: Pen,
    frame: &Frame,
) -> Drawn<DB> {
    let mut top = 0.0;
    if let Some(title) = &panel.title {
        let title = pen::clip(title, frame.panel.0);
        area.draw_text(&title, &pen.bold(pen::BODY, ink()), (0, pen.at(8.0)))?;
        top = PANEL_TITLE;
    }
    let unit = pen.text(pen::SMALL, muted());
    // Each tick of a logarithmic axis has the unit that suits it.
    let name = match frame.y_scale {
        AxisScale::Linear => panel.y.name(),
        AxisScale::Log(_) => "logarithmic",
    };
    area.draw_text(name, &unit, (0, pen.at(top + 6.0)))?;
    let title = panel.x.label();
    let right = (pen.at(frame.panel.0 - RIGHT), pen.at(frame.panel.1 - 9.0));
    area.draw_text(&pen::clip(&title, frame.panel.0 - frame.left), &pen::end(&unit), right)
}

type Chart<'a, DB> = ChartContext<'a, DB, Cartesian2d<Ticked, Ticked>>;

fn plot<'a, DB>(
    panel: &LinePanel,
    chart: &mut Chart<'a, DB>,
    pen: Pen,
    frame: &Frame,
    (layer, first): (Layer, usize),
) -> Drawn<DB>
where
    DB: DrawingBackend + 'a,
{
    if layer.has_base() {
        mesh(chart, pen, frame)?;
    }
    let drawn = || panel.curves.iter().zip(first..).filter(|(_, at)| layer.has_row(*at));
    for (curve, _) in drawn() {
        draw_curve(chart, curve, pen)?;
    }
    for (curve, _) in drawn().filter(|_| panel.values) {
        write_values(panel, chart, curve, (pen, frame))?;
    }
    Ok(())
}

/// Axes, grid and ticks.
fn mesh<'a, DB>(chart: &mut Chart<'a, DB>, pen: Pen, frame: &Frame) -> Drawn<DB>
where
    DB: DrawingBackend + 'a,
{
    let label = |ticks: &[(f64, String)], at: &f64| {
        let tick = ticks.iter().find(|(v, _)| v.total_cmp(at).is_eq());
        tick.map_or_else(String::new, |(_, label)| label.clone())
    };
    let written = |at: &f64| label(&frame.ticks.labelled, at);
    let height = |at: &f64| label(&frame.heights, at);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(pen.line(rule(), 1.0))
        .light_line_style(TRANSPARENT)
        .axis_style(pen.line(muted(), 1.0))
        .set_tick_mark_size(LabelAreaPosition::Bottom, pen.at(4.0))
        .set_tick_mark_size(LabelAreaPosition::Left, pen.at(6.0))
        .label_style(pen.text(pen::SMALL, muted()))
        .x_label_formatter(&written)
        .y_label_formatter(&height)
        .draw()?;
    minor_ticks(chart, pen, frame)
}

/// Short marks below the axis where no label stands.
fn minor_ticks<'a, DB>(chart: &mut Chart<'a, DB>, pen: Pen, frame: &Frame) -> Drawn<DB>
where
    DB: DrawingBackend + 'a,
{
    let style = pen.line(muted(), 1.0);
    let marks = frame.ticks.light.iter().map(|at| {
        EmptyElement::at((*at, frame.y.0))
            + PathElement::new(vec![(0, 0), (0, pen.at(-3.0))], style)
    });
    chart.draw_series(marks.collect::<Vec<_>>()).map(drop)
}

fn draw_curve<'a, DB>(chart: &mut Chart<'a, DB>, curve: &Curve, pen: Pen) -> Drawn<DB>
where
    DB: DrawingBackend + 'a,
{
    let colour = pen::series(curve.colour);
    let line: Vec<(f64, f64)> = curve.points.iter().map(|p| (p.x, p.y)).collect();
    let style = pen.line(colour, if curve.marks { 2.0 } else { 1.25 });
    match curve.dash % 3 {
        0 => chart.draw_series(LineSeries::new(line, style)).map(drop)?,
        dash => {
            let (on, off) = dashes(dash);
            let series = DashedLineSeries::new(line, pen.at(on), pen.at(off), style);
            chart.draw_series(series).map(drop)?;
        }
    }
    let thin = pen.line(colour, 1.4);
    let cap = pen.at(4.0);
    for point in &curve.points {
        if let Some((low, high)) = point.bar {
            let stem = PathElement::new(vec![(point.x, low), (point.x, high)], thin);
            chart.draw_series([stem])?;
            let end = |y: f64| {
                EmptyElement::at((point.x, y)) + PathElement::new(vec![(-cap, 0), (cap, 0)], thin)
            };
            chart.draw_series([end(low), end(high)])?;
        }
    }
    if curve.marks {
        let plot = chart.plotting_area();
        let (left, top) = plot.get_base_pixel();
        let pixels = plot.strip_coord_spec();
        for point in &curve.points {
            let (x, y) = plot.map_coordinate(&(point.x, point.y));
            mark(&pixels, pen, (x - left, y - top), curve.colour, (MARK, colour))?;
        }
    }
    Ok(())
}

/// Lengths of a dash and of the gap behind it.
const fn dashes(dash: usize) -> (f64, f64) {
    if dash % 3 == 1 { (8.0, 4.0) } else { (2.0, 3.0) }
}

/// A straight line in its dashes, for a legend.
fn stroke<E>(
    line: &[(i32, i32); 2],
    dash: usize,
    colour: RGBColor,
    pen: Pen,
    mut draw: impl FnMut(PathElement<(i32, i32)>) -> Result<(), E>,
) -> Result<(), E> {
    let style = pen.line(colour, 2.0);
    if dash.is_multiple_of(3) {
        return draw(PathElement::new(line.to_vec(), style));
    }
    let (on, off) = dashes(dash);
    let mut x = line[0].0;
    while x < line[1].0 {
        let end = (x + pen.at(on)).min(line[1].0);
        draw(PathElement::new(vec![(x, line[0].1), (end, line[0].1)], style))?;
        x = end + pen.at(off);
    }
    Ok(())
}

/// A mark at a point: one shape per series, so that colour is never the only difference.
pub(super) fn mark<DB: DrawingBackend>(
    area: &Area<DB>,
    pen: Pen,
    (x, y): (i32, i32),
    number: usize,
    (radius, colour): (f64, RGBColor),
) -> Drawn<DB> {
    let r = pen.at(radius);
    let polygon = |corners: &[(i32, i32)]| {
        let corners: Vec<(i32, i32)> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        area.draw(&Polygon::new(corners, colour))
    };
    match number % 4 {
        0 => area.draw(&Circle::new((x, y), r, colour.filled())),
        1 => polygon(&[(-r, 0), (0, -r), (r, 0), (0, r)]),
        2 => {
            let r = pen.at(radius * 0.85);
            area.draw(&Rectangle::new([(x - r, y - r), (x + r, y + r)], colour.filled()))
        }
        _ => polygon(&[(-r, r), (0, -r), (r, r)]),
    }
}

/// Values above their points, where they have room: the last one first, then from the left.
fn write_values<'a, DB>(
    panel: &LinePanel,
    chart: &mut Chart<'a, DB>,
    curve: &Curve,
    (pen, frame): (Pen, &Frame),
) -> Drawn<DB>
where
    DB: DrawingBackend + 'a,
{
    let style = pen::middle(&pen.text(pen::SMALL, ink()));
    let mut taken: Vec<(i32, i32)> = Vec::new();
    let floor = chart.backend_coord(&(frame.x.0, frame.y.0)).1 - pen.at(24.0);
    let last = curve.points.len().checked_sub(1);
    let order = last.into_iter().chain(0..last.unwrap_or(0));
    for point in order.map(|index| &curve.points[index]) {
        let text = panel.y.beside_axis(point.y);
        let half = pen.at(pen::text_width(&text) / 2.0 + 2.0);
        let (x, _) = chart.backend_coord(&(point.x, point.y));
        if taken.iter().any(|(left, right)| x - half < *right && x + half > *left) {
            continue;
        }
        taken.push((x - half, x + half));
        let high = point.bar.map_or(point.y, |(_, high)| high);
        let low = point.bar.map_or(point.y, |(low, _)| low);
        let is_below = rises(curve, point) && chart.backend_coord(&(point.x, low)).1 < floor;
        let (y, offset) = if is_below { (low, 12.0) } else { (high, -11.0) };
        let label =
            EmptyElement::at((point.x, y)) + Text::new(text, (0, pen.at(offset)), style.clone());
        chart.draw_series([label])?;
    }
    Ok(())
}

/// Whether the curve goes up steeply behind its first point, through what would be written above.
fn rises(curve: &Curve, point: &CurvePoint) -> bool {
    let is_first = curve.points.first() == Some(point);
    is_first && curve.points.get(1).is_some_and(|next| next.y > point.y * 1.1)
}
