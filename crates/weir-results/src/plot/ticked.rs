//! plotters' linear and logarithmic coordinates with ticks of our choice.
//!
//! plotters can bind ticks to a coordinate, but not write those of a linear one by a function of
//! the caller; this type can.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use super::axis::AxisScale;

/// A coordinate with its labelled ticks.
pub(super) struct Ticked {
    inner: Inner,
    ticks: Vec<f64>,
}

enum Inner {
    Linear(RangedCoordf64),
    Log(LogCoord<f64>),
}

impl Ticked {
    /// From `range.0` to `range.1`.
    pub(super) fn new(scale: AxisScale, range: (f64, f64), ticks: Vec<f64>) -> Self {
        let range = range.0..range.1;
        let inner = match scale {
            AxisScale::Linear => Inner::Linear(range.into()),
            AxisScale::Log(_) => Inner::Log(range.log_scale().into()),
        };
        Self { inner, ticks }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match &self.inner {
            Inner::Linear(inner) => inner.map(value, limit),
            Inner::Log(inner) => inner.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        match &self.inner {
            Inner::Linear(inner) => inner.range(),
            Inner::Log(inner) => inner.range(),
        }
    }
}
