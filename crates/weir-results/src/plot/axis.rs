//! Axes: which scale, which ticks, how they are written.

use serde::Serialize;

use crate::collection::Unit;
use crate::label::{self, Units};
use crate::number::{self, Scale};

/// From this ratio of the largest to the smallest position on, an axis is logarithmic unless it
/// is asked otherwise.
pub(crate) const LOG_RATIO: f64 = 100.0;

/// How positions become distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisScale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios; the base gives the ticks.
    Log(Base),
}

/// What the ticks of a logarithmic axis are powers of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// 32Ki, 64Ki, 128Ki, …
    Two,
    /// 1k, 10k, 100k, …
    Ten,
}

impl AxisScale {
    /// The scale that suits `positions`: logarithmic from a ratio of [`LOG_RATIO`] on.
    #[must_use]
    pub fn suited(positions: &[f64]) -> Self {
        let (low, high) = range(positions);
        if low > 0.0 && high / low >= LOG_RATIO { Self::log(positions) } else { Self::Linear }
    }

    /// The scale that suits rates which are looked for: logarithmic where they span more than a
    /// decade, so that the low ones can be told apart.
    #[must_use]
    pub(crate) fn of_loads(loads_pps: &[f64]) -> Self {
        let (low, high) = range(loads_pps);
        if low > 0.0 && high / low > 10.0 { Self::Log(Base::Ten) } else { Self::Linear }
    }

    /// A logarithmic scale: of base 2 if every position is a power of two.
    #[must_use]
    pub fn log(positions: &[f64]) -> Self {
        let is_power = |v: &f64| *v > 0.0 && (v.log2() - v.log2().round()).abs() < 1e-9;
        let base = if positions.iter().all(is_power) { Base::Two } else { Base::Ten };
        Self::Log(base)
    }

    /// How far along an axis of that range a value is, 0 to 1.
    #[must_use]
    pub(super) fn share(self, value: f64, (low, high): (f64, f64)) -> f64 {
        match self {
            Self::Linear => (value - low) / (high - low),
            Self::Log(_) => (value / low).ln() / (high / low).ln(),
        }
    }

    /// Its name behind an axis' title.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Linear => "",
            Self::Log(_) => ", logarithmic",
        }
    }
}

/// What a figure's values are, and the unit in which its axis writes them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    measure: Measure,
    unit: Scale,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    Rate(Unit),
    /// Nanoseconds.
    Delay,
    /// A share that was lost, 0 to 1.
    Loss,
    /// What a DUT reports of itself, in these units.
    Size(Units),
}

impl Quantity {
    /// Rates, on an axis in the unit in which the largest of them, `max`, is written.
    #[must_use]
    pub fn rates(max: f64, unit: Unit) -> Self {
        Self { measure: Measure::Rate(unit), unit: unit.scale(max) }
    }

    /// Delays in nanoseconds, on an axis in the unit in which the largest of them is written.
    #[must_use]
    pub(crate) fn delays(max_ns: f64) -> Self {
        Self { measure: Measure::Delay, unit: Scale::delay(max_ns) }
    }

    /// What DUTs report by a name, which ends with its unit if it has one, on an axis in the unit
    /// in which the largest of them is written.
    #[must_use]
    pub(crate) fn sizes(max: f64, name: &str) -> Self {
        let units = label::size_units(name);
        Self { measure: Measure::Size(units), unit: Scale::suited(max, units) }
    }

    /// Shares that were lost, in per cent.
    #[must_use]
    pub(crate) const fn losses() -> Self {
        Self { measure: Measure::Loss, unit: Scale { divisor: 0.01, name: "% lost" } }
    }

    /// The unit of the axis.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.unit.name
    }

    /// How many of what values count make one of the axis' unit.
    #[must_use]
    pub(super) const fn divisor(self) -> f64 {
        self.unit.divisor
    }

    /// A value as tables write it, with the unit that suits it.
    #[must_use]
    pub fn text(self, value: f64) -> String {
        match self.measure {
            Measure::Rate(unit) => unit.written(value),
            Measure::Delay => number::delay(value),
            Measure::Loss => number::share(value),
            Measure::Size(units) => {
                number::in_scale(value, Scale::suited(value, units)).trim_end().to_owned()
            }
        }
    }

    /// Two values, the lower first.
    #[must_use]
    pub fn range(self, low: f64, high: f64) -> String {
        match self.measure {
            Measure::Rate(unit) => unit.range(low, high),
            Measure::Delay | Measure::Loss | Measure::Size(_) => {
                format!("{}–{}", self.text(low), self.text(high))
            }
        }
    }

    /// [`Self::text`] beside the axis: without the unit where that is the axis'.
    #[must_use]
    pub(super) fn beside_axis(self, value: f64) -> String {
        let text = self.text(value);
        match text.strip_suffix(self.unit.name).and_then(|digits| digits.strip_suffix(' ')) {
            Some(digits) => digits.to_owned(),
            None => text,
        }
    }

    /// A tick of a linear axis, which names its unit once.
    #[must_use]
    pub(super) fn tick(self, value: f64, decimals: usize) -> String {
        number::signed(value / self.unit.divisor, decimals)
    }

    /// A tick of a logarithmic axis, with the unit that suits it: `10 kpps`, `0.1 Mpps`.
    #[must_use]
    fn tick_with_unit(self, value: f64) -> String {
        let unit = match self.measure {
            Measure::Rate(unit) => unit.scale(value),
            Measure::Delay => Scale::delay(value),
            Measure::Loss => self.unit,
            Measure::Size(units) => Scale::suited(value, units),
        };
        let value = value / unit.divisor;
        format!("{} {}", number::signed(value, decimals(value)), unit.name)
    }
}

/// `1500` as `1.5k`, `10000000` as `10M`.
#[must_use]
pub fn decimal(value: f64) -> String {
    prefixed(value, 1000.0, ["", "k", "M", "G", "T"])
}

/// `32768` as `32Ki`, `16777216` as `16Mi`.
#[must_use]
pub fn binary(value: f64) -> String {
    prefixed(value, 1024.0, ["", "Ki", "Mi", "Gi", "Ti"])
}

fn prefixed(value: f64, base: f64, prefixes: [&str; 5]) -> String {
    let mut rest = value;
    let mut index = 0;
    while rest.abs() >= base * 0.999_999 && index + 1 < prefixes.len() {
        rest /= base;
        index += 1;
    }
    let text = format!("{rest:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{}", prefixes[index])
}

/// Ticks with labels, and those without.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ticks {
    /// Positions with what is written at them.
    pub labelled: Vec<(f64, String)>,
    /// Positions between.
    pub light: Vec<f64>,
}

/// A horizontal axis as its ticks need it.
pub(super) struct Along<'a> {
    pub(super) scale: AxisScale,
    /// What positions are written in, where they are more than numbers.
    pub(super) quantity: Option<Quantity>,
    /// Those of the points, with their labels as written.
    pub(super) positions: &'a [(f64, String)],
    pub(super) range: (f64, f64),
    /// Length in pixels.
    pub(super) width: f64,
    /// Width of a character in pixels.
    pub(super) character: f64,
}

/// The ticks of a horizontal axis.
#[must_use]
pub(super) fn x_ticks(axis: &Along<'_>) -> Ticks {
    let width = |label: &str| label.chars().fold(12.0, |w, _| w + axis.character);
    match axis.scale {
        AxisScale::Linear => linear_ticks(axis),
        AxisScale::Log(base) => log_ticks((base, axis.quantity), axis.range, axis.width, width),
    }
}

/// The ticks of a vertical logarithmic axis, so many pixels high.
#[must_use]
pub(super) fn y_log_ticks(
    base: Base,
    quantity: Quantity,
    range: (f64, f64),
    height: f64,
) -> Vec<(f64, String)> {
    let Ticks { mut labelled, light } = log_ticks((base, Some(quantity)), range, height, |_| LINE);
    // Between few powers there is room for twos and fives.
    let decade = height * 10_f64.ln() / (range.1 / range.0).ln();
    if labelled.len() < light.len() && decade >= 4.0 * LINE {
        let is_new = |v: &f64| [2.0, 5.0].contains(&leading(*v));
        let new: Vec<f64> = light.into_iter().filter(is_new).collect();
        labelled.retain(|(at, _)| !new.contains(at));
        labelled.extend(new.into_iter().map(|at| (at, quantity.tick_with_unit(at))));
        labelled.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    labelled
}

/// Height of a label with the room around it, in pixels.
const LINE: f64 = 18.0;

/// Those of the points where they have room, round numbers otherwise.
fn linear_ticks(axis: &Along<'_>) -> Ticks {
    let (positions, (low, high)) = (axis.positions, axis.range);
    let per_unit = axis.width / (high - low).max(f64::MIN_POSITIVE);
    let half = |label: &str| label.chars().fold(0.0, |w, _| w + axis.character) / 2.0 + 4.0;
    let has_room = positions
        .windows(2)
        .all(|pair| (pair[1].0 - pair[0].0) * per_unit >= half(&pair[0].1) + half(&pair[1].1));
    if !positions.is_empty() && has_room {
        return Ticks { labelled: positions.to_vec(), light: Vec::new() };
    }
    let step = step(high - low, (axis.width / 70.0).clamp(2.0, 9.0));
    let write = |value: f64| match axis.quantity {
        Some(quantity) => quantity.tick(value, decimals(step / quantity.divisor())),
        None => decimal(value),
    };
    let first = (low / step).ceil();
    let labelled = (0..50)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|value| *value <= high * (1.0 + 1e-9))
        .map(|value| (value, write(value)))
        .collect();
    Ticks { labelled, light: positions.iter().map(|(at, _)| *at).collect() }
}

/// Ticks at powers of the base; `room` is what a label takes of the axis, in pixels.
fn log_ticks(
    (base, quantity): (Base, Option<Quantity>),
    (low, high): (f64, f64),
    length: f64,
    room: impl Fn(&str) -> f64,
) -> Ticks {
    let factor: f64 = match base {
        Base::Two => 2.0,
        Base::Ten => 10.0,
    };
    let write = |value: f64| match (quantity, base) {
        (Some(quantity), _) => quantity.tick_with_unit(value),
        (None, Base::Two) => binary(value),
        (None, Base::Ten) => decimal(value),
    };
    let first = (low.ln() / factor.ln() - 1e-9).ceil();
    let powers: Vec<f64> = (0..400)
        .map(|n| factor.powf(first + f64::from(n)))
        .take_while(|value| *value <= high * (1.0 + 1e-9))
        .collect();
    let between: Vec<f64> = match base {
        Base::Two => Vec::new(),
        Base::Ten => (-1..400)
            .map(|n| factor.powf(first + f64::from(n)))
            .take_while(|power| *power <= high)
            .flat_map(|power| (2..10).map(move |digit| power * f64::from(digit)))
            .filter(|value| *value >= low && *value <= high)
            .collect(),
    };
    if powers.len() < 2 {
        let few = |v: &f64| [1.0, 2.0, 5.0].contains(&leading(*v));
        let mut labelled: Vec<f64> = powers;
        labelled.extend(between.iter().filter(|v| few(v)));
        labelled.sort_by(f64::total_cmp);
        return Ticks {
            labelled: labelled.iter().map(|v| (*v, write(*v))).collect(),
            light: between,
        };
    }
    let widest = powers.iter().map(|v| room(&write(*v))).fold(0.0, f64::max);
    let pitch = length * factor.ln() / (high / low).ln();
    let every = (widest / pitch).ceil().max(1.0);
    let is_labelled =
        |index: usize| (0..).step_by(steps(every)).find(|n| *n >= index) == Some(index);
    let mut ticks = Ticks { labelled: Vec::new(), light: between };
    for (index, value) in powers.iter().enumerate() {
        if is_labelled(index) {
            ticks.labelled.push((*value, write(*value)));
        } else {
            ticks.light.push(*value);
        }
    }
    ticks
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive count"
)]
fn steps(every: f64) -> usize {
    every.clamp(1.0, 1e6) as usize
}

/// The first digit of a positive number.
fn leading(value: f64) -> f64 {
    (value / 10_f64.powf((value.log10() + 1e-12).floor())).round()
}

/// Round numbers from 0 to at least `max`, about `count` of them, and their decimals.
#[must_use]
pub fn ticks(max: f64, count: f64) -> (Vec<f64>, usize) {
    let step = step(max, count);
    let mut values = vec![0.0];
    while values.last().is_some_and(|last| *last < max * 0.9999) && values.len() < 50 {
        values.push(step * values.iter().fold(0.0, |n, _| n + 1.0));
    }
    (values, decimals(step))
}

/// Decimals that write multiples of `step` in full.
fn decimals(step: f64) -> usize {
    (0..6).find(|&d| is_written(step, d)).unwrap_or(6)
}

/// A round step by which `span` is about `count` long.
fn step(span: f64, count: f64) -> f64 {
    let raw = span / count;
    let power = 10_f64.powf(raw.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(10.0 * power)
}

/// Whether `decimals` of them write `step` in full.
fn is_written(step: f64, decimals: usize) -> bool {
    let scaled = step * (0..decimals).fold(1.0, |power, _| power * 10.0);
    (scaled - scaled.round()).abs() < 1e-6 && scaled >= 0.5
}

/// The largest of `values` that is finite; something to draw against if none is positive.
pub fn top(values: impl IntoIterator<Item = f64>) -> f64 {
    let max = values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max);
    if max > 0.0 { max } else { 1.0 }
}

/// The smallest and the largest.
#[must_use]
pub fn range(positions: &[f64]) -> (f64, f64) {
    let low = positions.iter().copied().fold(f64::INFINITY, f64::min);
    let high = positions.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if low <= high { (low, high) } else { (0.0, 1.0) }
}
