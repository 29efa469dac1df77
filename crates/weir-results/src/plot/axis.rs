//! Axes: which scale, which ticks, how they are written.

use serde::Serialize;

use crate::collection::Unit;
use crate::number::Scale;

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

    /// A logarithmic scale: of base 2 if every position is a power of two.
    #[must_use]
    pub fn log(positions: &[f64]) -> Self {
        let is_power = |v: &f64| *v > 0.0 && (v.log2() - v.log2().round()).abs() < 1e-9;
        let base = if positions.iter().all(is_power) { Base::Two } else { Base::Ten };
        Self::Log(base)
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

/// What a figure's values are written in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// Values are divided by this.
    pub divisor: f64,
    /// What the quotients are.
    pub name: &'static str,
}

/// Millions of packets per second.
pub(crate) const MPPS: Quantity = Quantity { divisor: 1e6, name: "Mpps" };
/// Time as benchmarks of a machine write it.
pub const SECONDS: Quantity = Quantity { divisor: 1.0, name: "seconds" };

impl Quantity {
    /// The unit in which the largest value, `max`, is written.
    #[must_use]
    pub fn suited(max: f64, unit: Unit) -> Self {
        let Scale { divisor, name } = match unit {
            Unit::Pps => Scale::pps(max),
            Unit::Bps => Scale::bps(max),
        };
        Self { divisor, name }
    }

    /// A value with at least `digits` significant digits, and all of its whole ones, without the
    /// unit.
    #[must_use]
    pub fn text(self, value: f64, digits: u16) -> String {
        let value = value / self.divisor;
        let mut decimals = 0;
        let mut bound = (1..digits).fold(1.0, |bound, _| bound * 10.0);
        while value.abs() < bound * (1.0 - 0.5e-4) && decimals < usize::from(digits) + 1 {
            bound /= 10.0;
            decimals += 1;
        }
        if value.abs() < 1e-12 { "0".to_owned() } else { signed(value, decimals) }
    }
}

/// A number with a true minus.
#[must_use]
pub fn signed(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let is_zero = text.chars().all(|c| c == '0' || c == '.');
    if value < 0.0 && !is_zero { format!("\u{2212}{text}") } else { text }
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

/// The ticks of a horizontal axis from `range.0` to `range.1`, `width` pixels long.
/// `positions` are those of the points, with their labels as written.
#[must_use]
pub(crate) fn x_ticks(
    scale: AxisScale,
    positions: &[(f64, String)],
    range: (f64, f64),
    width: f64,
    character: f64,
) -> Ticks {
    match scale {
        AxisScale::Linear => linear_ticks(positions, range, width, character),
        AxisScale::Log(base) => log_ticks(base, range, width, character),
    }
}

/// Those of the points where they have room, round numbers otherwise.
fn linear_ticks(
    positions: &[(f64, String)],
    (low, high): (f64, f64),
    width: f64,
    character: f64,
) -> Ticks {
    let per_unit = width / (high - low).max(f64::MIN_POSITIVE);
    let half = |label: &str| label.chars().fold(0.0, |w, _| w + character) / 2.0 + 4.0;
    let has_room = positions
        .windows(2)
        .all(|pair| (pair[1].0 - pair[0].0) * per_unit >= half(&pair[0].1) + half(&pair[1].1));
    if !positions.is_empty() && has_room {
        return Ticks { labelled: positions.to_vec(), light: Vec::new() };
    }
    let count = (width / 70.0).clamp(2.0, 9.0);
    let step = step(high - low, count);
    let first = (low / step).ceil();
    let labelled = (0..50)
        .map(|n| (first + f64::from(n)) * step)
        .take_while(|value| *value <= high * (1.0 + 1e-9))
        .map(|value| (value, decimal(value)))
        .collect();
    Ticks { labelled, light: positions.iter().map(|(at, _)| *at).collect() }
}

fn log_ticks(base: Base, (low, high): (f64, f64), width: f64, character: f64) -> Ticks {
    let (factor, write): (f64, fn(f64) -> String) = match base {
        Base::Two => (2.0, binary),
        Base::Ten => (10.0, decimal),
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
    let widest = powers.iter().map(|v| write(*v).chars().fold(12.0, |w, _| w + character));
    let pitch = width * factor.ln() / (high / low).ln();
    let every = (widest.fold(0.0, f64::max) / pitch).ceil().max(1.0);
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
    let decimals = (0..6).find(|&d| is_written(step, d)).unwrap_or(6);
    (values, decimals)
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
