//! Values of known distributions, for tests that count how often a method is right.

use crate::shuffle::SplitMix64;

/// A source of values, the same ones for the same seed.
pub(crate) struct Source(SplitMix64);

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Uniform between 0 and 1, neither of them included.
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller (1958).
    pub(crate) fn normal(&mut self) -> f64 {
        let (radius, turn) = (self.uniform(), self.uniform());
        (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
    }

    /// `count` normal values.
    pub(crate) fn normals(&mut self, count: usize, mean: f64, stddev: f64) -> Vec<f64> {
        (0..count).map(|_| mean + stddev * self.normal()).collect()
    }

    /// An exponential value of mean 1: as skewed as a throughput can well be.
    pub(crate) fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}

/// How many of `runs` are true, as a share.
pub(crate) fn share(runs: u32, mut is_true: impl FnMut() -> bool) -> f64 {
    let hits = (0..runs).filter(|_| is_true()).count();
    hits as f64 / f64::from(runs)
}
