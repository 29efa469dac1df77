//! Figures of collections: which series makes which curve, and what its error bars are.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::Hash;

use serde::Serialize;
use weir_stats::interval::Level;
use weir_stats::{Summary, median};

use super::axis::{self, AxisScale, Quantity};
use super::{Body, Curve, CurvePoint, Figure, LinePanel, Mark, Strip, StripRow, XAxis};
use crate::collection::{CollectedSeries, Collection, DUT, IMAGE, TRAFFIC, Unit};
use crate::{label, number};

mod points;

pub(crate) use points::strip_about;

/// Series that a page's figures are drawn of at most; a figure that is asked for has no such limit.
pub const SERIES_MAX: usize = 400;

/// What is drawn.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The dimension of the horizontal axis; if not given, the one that suits best.
    pub x: Option<String>,
    /// The size that is drawn instead of the figure: something that DUTs report by that name.
    pub y: Option<String>,
    /// The dimension that is spread over panels.
    pub panels: Option<String>,
    /// The scale of the horizontal axis; what suits the positions, if not given.
    pub scale: Scale,
    /// What error bars span.
    pub bars: Bars,
    /// Whether each curve has the straight line from nothing through its first point beside it:
    /// what twice as many CPUs would bring at best.
    pub ideal: bool,
}

/// The scale of a horizontal axis, as it is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// What suits the positions.
    #[default]
    Suited,
    Linear,
    /// Logarithmic, of the base that suits the positions.
    Log,
}

/// What the error bars of a curve span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bars {
    /// Minimum to maximum of the iterations.
    #[default]
    Range,
    /// The 95 % interval of the median by the bootstrap, where there are values enough.
    Interval,
    /// There are none.
    None,
}

/// Why a figure cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FigureError {
    /// There is nothing to draw.
    #[error("no series has a figure that counts: nothing can be drawn")]
    Nothing,
    /// A dimension that no series has.
    #[error("no series has a dimension `{name}`; there are: {known}")]
    Unknown {
        /// As it was asked for.
        name: String,
        /// Those that occur.
        known: String,
    },
    /// A size that no DUT has reported.
    #[error("no DUT has reported `{name}` after a measurement; there are: {known}")]
    UnknownSize {
        /// As it was asked for.
        name: String,
        /// Those that occur.
        known: String,
    },
    /// A dimension with a level that is no number.
    #[error("`{name}` is not a numeric axis: series `{series}` has `{label}` there; {works}")]
    NotNumeric {
        /// The dimension.
        name: String,
        series: String,
        /// Its level as written.
        label: String,
        /// Options that draw a figure.
        works: String,
    },
    /// A logarithmic axis was asked for, and a position is not above 0.
    #[error(
        "`{name}` has a position of 0 or below, which a logarithmic axis cannot show: leave out \
         --log"
    )]
    NotAboveZero {
        /// The dimension.
        name: String,
    },
    /// No dimension can be the axis.
    #[error("no numeric dimension gives a curve of two points; dimensions are: {known}; {works}")]
    NoAxis {
        /// Those that occur.
        known: String,
        /// Options that draw a figure.
        works: String,
    },
    /// Two series at one place.
    #[error("`{first}` and `{second}` are at the same {dimension}: choose one by a pattern")]
    SamePlace {
        /// A series.
        first: String,
        /// Another one.
        second: String,
        /// The horizontal axis.
        dimension: String,
    },
    /// Packets and bits in one figure.
    #[error("`{first}` counts {a}, `{second}` {b}: choose by a pattern what to draw together")]
    MixedUnits {
        /// A series.
        first: String,
        /// Its unit.
        a: &'static str,
        /// Another one.
        second: String,
        /// Its unit.
        b: &'static str,
    },
}

/// A series of one of several collections, with the summary of its valid figures.
struct Item<'a> {
    owner: usize,
    series: &'a CollectedSeries,
    summary: Summary,
}

impl Item<'_> {
    fn label(&self, dimension: &str) -> &str {
        self.series.level(dimension).map_or("", |l| l.label.as_str())
    }

    fn number(&self, dimension: &str) -> Option<f64> {
        self.series.level(dimension)?.number.filter(|n| n.is_finite())
    }
}

/// The series that have a figure, or a size of the name that is asked for, and the names of those
/// that have none.
fn items<'a>(collections: &'a [Collection], size: Option<&str>) -> (Vec<Item<'a>>, Vec<&'a str>) {
    let (mut items, mut without) = (Vec::new(), Vec::new());
    for (owner, collection) in collections.iter().enumerate() {
        for series in &collection.series {
            let values = size.map_or_else(|| series.values(), |name| series.sizes(name));
            match Summary::of(&values) {
                Some(summary) => items.push(Item { owner, series, summary }),
                None => without.push(series.name.as_str()),
            }
        }
    }
    (items, without)
}

/// What is drawn: its title, its name inside a sentence, and how its axis writes it.
struct Drawn {
    title: String,
    name: String,
    quantity: Quantity,
}

impl Drawn {
    fn of(items: &[Item<'_>], size: Option<&str>) -> Result<Self, FigureError> {
        let highest = axis::top(items.iter().map(|i| i.summary.max));
        let Some(size) = size else {
            let unit = check_units(items)?;
            let (title, name) = (unit.title().to_owned(), unit.name().to_owned());
            return Ok(Self { title, name, quantity: Quantity::rates(highest, unit) });
        };
        let title = label::size_title(size);
        Ok(Self { title, name: size.to_owned(), quantity: Quantity::sizes(highest, size) })
    }
}

/// Refuses a size that no DUT has reported.
fn check_size(collections: &[Collection], name: &str) -> Result<(), FigureError> {
    let points = collections.iter().flat_map(|c| &c.series).flat_map(|series| &series.points);
    let known: BTreeSet<&str> = points.flat_map(|p| p.sizes.keys().map(String::as_str)).collect();
    if known.contains(name) {
        return Ok(());
    }
    let known = match known.is_empty() {
        true => "none".to_owned(),
        false => known.into_iter().collect::<Vec<_>>().join(", "),
    };
    Err(FigureError::UnknownSize { name: name.to_owned(), known })
}

fn check_units(items: &[Item<'_>]) -> Result<Unit, FigureError> {
    let first = items.first().ok_or(FigureError::Nothing)?.series;
    match items.iter().find(|i| i.series.unit != first.unit) {
        None => Ok(first.unit),
        Some(other) => Err(FigureError::MixedUnits {
            first: first.name.clone(),
            a: first.unit.name(),
            second: other.series.name.clone(),
            b: other.series.unit.name(),
        }),
    }
}

/// The dimensions of all collections, in the order in which they occur first.
#[must_use]
pub fn dimensions(collections: &[Collection]) -> Vec<&str> {
    let mut names = Vec::new();
    for name in collections.iter().flat_map(Collection::dimensions) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The numeric dimension along which curves have the most positions, on average; the first of
/// several. `None` if none gives a curve of two points: what sets collections as wholes apart is
/// no axis.
fn suited_axis<'a>(items: &[Item<'_>], known: &[&'a str], panels: Option<&str>) -> Option<&'a str> {
    let mut best: Option<(&'a str, f64)> = None;
    for name in known.iter().filter(|name| Some(**name) != panels) {
        let length = curve_length(items, known, name, panels);
        if let Some(length) = length.filter(|l| best.is_none_or(|(_, most)| *l > most)) {
            best = Some((name, length));
        }
    }
    best.map(|(name, _)| name)
}

/// The options that draw a figure of these: along a dimension that is numeric for all of them, or
/// without an axis.
fn what_works(items: &[Item<'_>], known: &[&str]) -> String {
    let is_numeric = |name: &&&str| items.iter().all(|item| item.number(name).is_some());
    let axes = known.iter().filter(is_numeric).map(|name| format!("--x {name}, "));
    format!("what works: {}--strip", axes.collect::<String>())
}

/// Positions per curve along a dimension; `None` if it is not numeric for every series, or gives
/// single points alone.
#[expect(clippy::cast_precision_loss, reason = "counts of series are small")]
fn curve_length(items: &[Item<'_>], known: &[&str], x: &str, panels: Option<&str>) -> Option<f64> {
    let keys = Keys::of(items, known, x, panels);
    let mut curves: HashMap<(usize, Vec<&str>), HashSet<u64>> = HashMap::new();
    for item in items {
        let at = item.number(x)?;
        let labels = keys.of_curve(item).iter().copied().chain(panels);
        let labels = labels.map(|key| item.label(key)).collect();
        curves.entry((item.owner, labels)).or_default().insert(at.to_bits());
    }
    let points: usize = curves.values().map(HashSet::len).sum();
    let is_curve = curves.values().any(|positions| positions.len() > 1);
    is_curve.then(|| points as f64 / curves.len() as f64)
}

/// The curves of `collections` along a numeric dimension.
///
/// # Errors
/// When nothing can be drawn along it: see [`FigureError`].
pub fn curves(collections: &[Collection], request: &Request) -> Result<Figure, FigureError> {
    let size = request.y.as_deref();
    size.map_or(Ok(()), |name| check_size(collections, name))?;
    let (mut items, without) = items(collections, size);
    let known = dimensions(collections);
    let check = |name: &String| match known.contains(&name.as_str()) {
        true => Ok(()),
        false => Err(FigureError::Unknown { name: name.clone(), known: known.join(", ") }),
    };
    request.x.iter().chain(&request.panels).try_for_each(check)?;
    let asked: Vec<&str> = request.x.iter().chain(&request.panels).map(String::as_str).collect();
    let left_out = left_out(&mut items, &asked);
    let drawn = Drawn::of(&items, size)?;
    let panels_by = request.panels.as_deref();
    let x = request.x.as_deref().or_else(|| suited_axis(&items, &known, panels_by));
    let works = || what_works(&items, &known);
    let x = x.ok_or_else(|| FigureError::NoAxis { known: known.join(", "), works: works() })?;
    let not_numeric = items.iter().find(|i| i.number(x).is_none());
    if let Some(item) = not_numeric {
        return Err(FigureError::NotNumeric {
            name: x.to_owned(),
            series: item.series.name.clone(),
            label: item.label(x).to_owned(),
            works: works(),
        });
    }
    let keys = Keys::of(&items, &known, x, panels_by);
    let mut panels = panels(&items, collections, x, request, &keys)?;
    let scale = scale_of(&items, x, request.scale)?;
    let positions = positions(&items, x);
    let is_alone = panels.len() == 1;
    let one_level = panels_by.filter(|_| is_alone).map_or_else(String::new, |dimension| {
        let level = items.first().map_or("", |i| i.label(dimension));
        format!(" There is one panel: {dimension} is {level} everywhere.")
    });
    let subject = (panels.len() == 1 && panels[0].curves.len() == 1).then(|| subject(&items));
    for panel in &mut panels {
        if panel.curves.iter().all(|curve| curve.name.is_empty()) && panel.title.is_none() {
            panel.title = subject.clone().flatten();
        }
        let (title, positions) = (x.to_owned(), positions.clone());
        panel.x = XAxis { title, quantity: None, scale, positions };
        panel.y = drawn.quantity;
        panel.values = panel.curves.len() == 1 && is_alone;
        panel.height = if is_alone { 280.0 } else { 170.0 };
        panel.legend = panel.curves.iter().any(|c| !c.name.is_empty());
    }
    let ideal = if request.ideal { add_ideals(&mut panels, x) } else { String::new() };
    let title = format!("{} by {x}", drawn.title);
    Ok(Figure {
        description: format!(
            "Median {} of the iterations against {x}, one curve for each of: {}.",
            drawn.name,
            panels.first().map_or_else(String::new, |p| {
                p.curves.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")
            }),
        ),
        title: with_names(&title, collections),
        note: note(&items, request.bars)
            + &not_drawn(&without, size)
            + &left_out
            + &one_level
            + &ideal,
        body: Body::Lines(panels),
    })
}

/// Takes away the series that lack a dimension that was asked for, and says so.
fn left_out(items: &mut Vec<Item<'_>>, asked: &[&str]) -> String {
    let mut text = String::new();
    for dimension in asked {
        let (with, without): (Vec<Item<'_>>, Vec<Item<'_>>) =
            items.drain(..).partition(|i| i.series.level(dimension).is_some());
        *items = with;
        if let Some(first) = without.first() {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                " Left out because they have no {dimension}: {} series, {} first.",
                without.len(),
                first.series.name
            );
        }
    }
    text
}

fn with_names(title: &str, collections: &[Collection]) -> String {
    let names: Vec<&str> = collections.iter().map(|c| c.name.as_str()).collect();
    format!("{title}: {}", names.join(", "))
}

fn scale_of(items: &[Item<'_>], x: &str, scale: Scale) -> Result<AxisScale, FigureError> {
    let positions: Vec<f64> = items.iter().filter_map(|i| i.number(x)).collect();
    let (low, _) = axis::range(&positions);
    match scale {
        Scale::Suited => Ok(AxisScale::suited(&positions)),
        Scale::Log if low > 0.0 => Ok(AxisScale::log(&positions)),
        Scale::Log => Err(FigureError::NotAboveZero { name: x.to_owned() }),
        Scale::Linear => Ok(AxisScale::Linear),
    }
}

/// The dimensions that name the curves of each collection. Collections are looked at one by one: a
/// name that only says again where a series stands on the axis in an archive does so beside a
/// campaign as well, whose names do not.
struct Keys<'a>(Vec<Vec<&'a str>>);

impl<'a> Keys<'a> {
    fn of(items: &[Item<'_>], known: &[&'a str], x: &str, panels: Option<&str>) -> Self {
        let owners = items.iter().map(|i| i.owner + 1).max().unwrap_or(0);
        let known: Vec<&'a str> =
            known.iter().copied().filter(|name| *name != x && Some(*name) != panels).collect();
        let keys = (0..owners).map(|owner| {
            let of_owner: Vec<&Item<'_>> = items.iter().filter(|i| i.owner == owner).collect();
            let apart = curve_dimensions(&of_owner, &known, x, panels);
            let tells = |name: &&'a str| apart.contains(name) || is_subject(items, &of_owner, name);
            known.iter().copied().filter(tells).collect()
        });
        Self(keys.collect())
    }

    fn of_curve(&self, item: &Item<'_>) -> &[&'a str] {
        self.0.get(item.owner).map_or(&[], Vec::as_slice)
    }
}

/// Whether a dimension says what was measured in one collection, and something else in another.
fn is_subject(items: &[Item<'_>], of_owner: &[&Item<'_>], name: &str) -> bool {
    let Some(label) = of_owner.first().map(|i| i.label(name)) else { return false };
    [IMAGE, DUT].contains(&name)
        && of_owner.iter().all(|i| i.label(name) == label)
        && items.iter().any(|i| i.label(name) != label)
}

/// The dimensions that set the curves of one collection apart: those that vary, but follow neither
/// from the axis nor from each other.
fn curve_dimensions<'a>(
    of_owner: &[&Item<'_>],
    known: &[&'a str],
    x: &str,
    panels: Option<&str>,
) -> Vec<&'a str> {
    let mut keys = known.to_vec();
    keys.retain(|name| !follows(of_owner, name, |item| item.number(x).map(f64::to_bits)));
    for name in keys.clone() {
        if repeats_axis(of_owner, &keys, name, x, panels) {
            keys.retain(|key| *key != name);
        }
    }
    for name in keys.clone().into_iter().rev() {
        let others: Vec<&str> =
            keys.iter().copied().filter(|key| *key != name).chain(panels).collect();
        let place = |item: &Item<'_>| -> Vec<String> {
            others.iter().map(|key| item.label(key).to_owned()).collect()
        };
        if follows(of_owner, name, place) {
            keys.retain(|key| *key != name);
        }
    }
    keys
}

/// Whether the label of a dimension is known once `place` is.
fn follows<P: Eq + Hash>(
    of_owner: &[&Item<'_>],
    name: &str,
    place: impl Fn(&Item<'_>) -> P,
) -> bool {
    let mut labels: HashMap<P, &str> = HashMap::new();
    of_owner.iter().all(|item| {
        let label = item.label(name);
        *labels.entry(place(item)).or_insert(label) == label
    })
}

/// Whether the labels of a dimension say again where a series stands on the axis, in numbers of
/// their own: states for flows, or names such as `flows-4900`, which differ between stores. They
/// do if they grow with it in all that would be one curve without them.
fn repeats_axis(
    of_owner: &[&Item<'_>],
    keys: &[&str],
    name: &str,
    x: &str,
    panels: Option<&str>,
) -> bool {
    let mut curves: HashMap<Vec<&str>, Vec<(f64, f64)>> = HashMap::new();
    for item in of_owner {
        let (Some(at), Some(number)) = (item.number(x), label::at_the_end(item.label(name))) else {
            return false;
        };
        let others = keys.iter().copied().filter(|key| *key != name).chain(panels);
        let labels = others.map(|key| item.label(key)).collect();
        curves.entry(labels).or_default().push((at, number));
    }
    curves.values_mut().all(|places| {
        places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        places.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1)
    })
}

/// What a curve that needs no name is of, as tables say it: image, DUT, traffic, where all series
/// have the same.
fn subject(items: &[Item<'_>]) -> Option<String> {
    let of_all = |name: &&str| {
        let label = items.first().map_or("", |item| item.label(name));
        (!label.is_empty() && items.iter().all(|item| item.label(name) == label)).then_some(label)
    };
    let labels: Vec<&str> = [IMAGE, DUT, TRAFFIC].iter().filter_map(of_all).collect();
    (!labels.is_empty()).then(|| labels.join(" · "))
}

fn positions(items: &[Item<'_>], x: &str) -> Vec<(f64, String)> {
    let mut positions: Vec<(f64, String)> = Vec::new();
    for item in items {
        let Some(at) = item.number(x) else { continue };
        if !positions.iter().any(|(p, _)| p.total_cmp(&at).is_eq()) {
            positions.push((at, item.label(x).to_owned()));
        }
    }
    positions.sort_by(|a, b| a.0.total_cmp(&b.0));
    positions
}

/// One panel per level of the dimension that is spread, with the curves in it.
fn panels(
    items: &[Item<'_>],
    collections: &[Collection],
    x: &str,
    request: &Request,
    keys: &Keys<'_>,
) -> Result<Vec<LinePanel>, FigureError> {
    let mut panels: Vec<LinePanel> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    let mut places: Vec<(usize, usize, f64, &str)> = Vec::new();
    for item in items {
        let panel = request.panels.as_ref().map(|p| format!("{p} {}", item.label(p)));
        let index = panels.iter().position(|p| p.title == panel).unwrap_or_else(|| {
            panels.push(empty_panel(panel.clone()));
            panels.len() - 1
        });
        let name = curve_name(item, items, collections, keys, (x, request.panels.as_deref()));
        let number = names.iter().position(|n| *n == name).unwrap_or_else(|| {
            names.push(name.clone());
            names.len() - 1
        });
        let at = item.number(x).unwrap_or_default();
        let place = |p: &&(usize, usize, f64, &str)| {
            (p.0, p.1) == (index, number) && p.2.total_cmp(&at).is_eq()
        };
        if let Some((.., first)) = places.iter().find(place) {
            return Err(FigureError::SamePlace {
                first: (*first).to_owned(),
                second: item.series.name.clone(),
                dimension: x.to_owned(),
            });
        }
        places.push((index, number, at, &item.series.name));
        let curves = &mut panels[index].curves;
        let curve = curves.iter().position(|c| c.name == name).unwrap_or_else(|| {
            curves.push(empty_curve(&name, number));
            curves.len() - 1
        });
        curves[curve].points.push(point(item, at, request.bars));
    }
    for curve in panels.iter_mut().flat_map(|p| &mut p.curves) {
        curve.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Ok(panels)
}

/// Puts the straight line beside each curve, and says what it is and how near the curve gets.
fn add_ideals(panels: &mut [LinePanel], x: &str) -> String {
    let mut text = format!(
        " The lines without marks are straight, from nothing through the first point: what it \
         would be if it grew as {x} does."
    );
    for panel in panels {
        let mut lines = Vec::new();
        for curve in &panel.curves {
            let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else {
                continue;
            };
            if first.x <= 0.0 || first.y <= 0.0 || first.x.total_cmp(&last.x).is_eq() {
                continue;
            }
            let at = |point: &CurvePoint| CurvePoint {
                x: point.x,
                y: first.y * point.x / first.x,
                bar: None,
            };
            lines.push(Curve {
                name: format!("{} straight", curve.name).trim_start().to_owned(),
                dash: curve.dash + 1,
                marks: false,
                points: curve.points.iter().map(at).collect(),
                ..curve.clone()
            });
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                " {}: {:.2} times as much at {x} {} as at {}, {:.0} % of the straight line.",
                if curve.name.is_empty() { "It is" } else { &curve.name },
                last.y / first.y,
                last.x,
                first.x,
                100.0 * (last.y / first.y) / (last.x / first.x)
            );
        }
        panel.legend |= !lines.is_empty();
        panel.curves.extend(lines);
    }
    text
}

fn empty_panel(title: Option<String>) -> LinePanel {
    let (y, y_scale, curves) = (Quantity::rates(0.0, Unit::Pps), AxisScale::Linear, Vec::new());
    let x = XAxis { title: String::new(), quantity: None, scale: y_scale, positions: Vec::new() };
    LinePanel {
        title,
        x,
        y,
        y_scale,
        values: false,
        legend: true,
        height: 0.0,
        reach: None,
        curves,
    }
}

fn empty_curve(name: &str, number: usize) -> Curve {
    let dash = number / crate::palette::SERIES_COLOURS;
    Curve { name: name.to_owned(), colour: number, dash, marks: true, points: Vec::new() }
}

fn curve_name(
    item: &Item<'_>,
    items: &[Item<'_>],
    collections: &[Collection],
    keys: &Keys<'_>,
    (x, panels): (&str, Option<&str>),
) -> String {
    let owner = collections.get(item.owner).map(|c| c.name.as_str());
    let owner = owner.filter(|_| collections.len() > 1);
    let of_curve = keys.of_curve(item);
    let places: Vec<&str> = of_curve.iter().copied().chain(panels).collect();
    let labels = of_curve.iter().map(|key| match item.series.level(key) {
        Some(level) => level.label.as_str(),
        None => label_of_neighbours(item, items, &places, key, x),
    });
    let labels = labels.filter(|label| !label.is_empty());
    owner.into_iter().chain(labels).collect::<Vec<_>>().join(" · ")
}

/// The label that a series would have in a dimension that it lacks: that of the only curve which it
/// can be a point of, because the collection has no other there, and that one none at its position.
/// Empty if there is no such curve.
fn label_of_neighbours<'a>(
    item: &Item<'a>,
    items: &[Item<'a>],
    places: &[&str],
    key: &str,
    x: &str,
) -> &'a str {
    let is_near = |other: &&Item<'a>| {
        other.owner == item.owner
            && other.series.level(key).is_some()
            && places.iter().all(|place| *place == key || other.label(place) == item.label(place))
    };
    let near: Vec<&Item<'a>> = items.iter().filter(is_near).collect();
    let Some(level) = near.first().and_then(|first| first.series.level(key)) else { return "" };
    let is_one = near
        .iter()
        .all(|other| other.label(key) == level.label && other.number(x) != item.number(x));
    if is_one { &level.label } else { "" }
}

fn point(item: &Item<'_>, x: f64, bars: Bars) -> CurvePoint {
    let bar = match bars {
        Bars::Range => Some((item.summary.min, item.summary.max)),
        Bars::Interval => median::bootstrap(&item.series.values(), Level::P95)
            .ok()
            .map(|interval| (interval.low, interval.high)),
        Bars::None => None,
    };
    CurvePoint { x, y: item.summary.median, bar }
}

/// What points and bars are, over how many iterations, and what is not there.
fn note(items: &[Item<'_>], bars: Bars) -> String {
    let counts = || items.iter().map(|i| i.summary.count);
    let (low, high) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let count = if low == high { low.to_string() } else { format!("{low} to {high}") };
    let mut note =
        format!("A point is the median of {}", number::counted_text(&count, "iteration"));
    // Writing to a String cannot fail.
    let _ = match bars {
        Bars::Range => write!(note, "; bars span their minimum to their maximum."),
        Bars::Interval => write!(
            note,
            "; bars span the {} interval of the median (bootstrap, of {} iterations or more).",
            Level::P95,
            median::BOOTSTRAP_VALUES_MIN
        ),
        Bars::None => write!(note, "."),
    };
    note
}

/// The series that are not drawn, and why.
fn not_drawn(without: &[&str], size: Option<&str>) -> String {
    let why = size.map_or("Without a figure that counts", |_| "Their DUTs do not report it");
    if without.is_empty() { String::new() } else { format!(" {why}: {}.", without.join(", ")) }
}

/// Every raw point of every series, in rows; those of several collections beside each other.
///
/// # Errors
/// When nothing can be drawn: see [`FigureError`].
pub fn strip(collections: &[Collection]) -> Result<Figure, FigureError> {
    let (items, _) = items(collections, None);
    let unit = check_units(&items)?;
    let mut strip_rows = Vec::new();
    for of_name in rows(collections) {
        if let (true, Some((.., series))) = (collections.len() > 1, of_name.first()) {
            strip_rows.push(StripRow::Heading { text: series.name.clone(), reference: None });
        }
        for (colour, collection, series) in of_name {
            let name = if collections.len() > 1 { &collection.name } else { &series.name };
            // A run without a figure has no place on the axis.
            let mark = |p: &crate::collection::CollectedPoint| {
                Some(Mark { value: p.figure()?, counts: p.is_valid() })
            };
            let marks = series.points.iter().filter_map(mark).collect();
            strip_rows.push(StripRow::Series { name: name.clone(), colour, marks });
        }
    }
    let strip = Strip { unit, title: "delivered".to_owned(), rows: strip_rows };
    Ok(Figure {
        title: with_names("Every iteration", collections),
        description: STRIP_NOTE.to_owned(),
        note: STRIP_NOTE.to_owned(),
        body: Body::Strip(strip),
    })
}

/// A row of a strip: the number of its collection, that, and the series.
type Row<'a> = (usize, &'a Collection, &'a CollectedSeries);

/// The rows of a strip: those of one name together.
fn rows(collections: &[Collection]) -> Vec<Vec<Row<'_>>> {
    let mut names: Vec<&str> = Vec::new();
    for series in collections.iter().flat_map(|c| &c.series) {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    let of_name = |name: &str| {
        let all = collections.iter().enumerate();
        all.filter_map(|(owner, c)| Some((owner, c, c.series_named(name)?))).collect()
    };
    names.into_iter().map(of_name).collect()
}

/// What the marks of a strip are.
pub(crate) const STRIP_NOTE: &str = "Each mark is one iteration, in order from top to bottom; \
    the thick line is their median, the box (of four or more) spans the quartiles, the whiskers \
    minimum to maximum. A cross does not count.";

#[cfg(test)]
mod tests;
