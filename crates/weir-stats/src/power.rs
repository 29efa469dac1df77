//! What so many iterations can show, and how many it takes.
//!
//! A test that found nothing says little unless it says what it could have found: the *minimum
//! detectable effect*, the smallest true difference that it would prove with a stated probability,
//! its *power*. The distribution of Student's t under a true difference is the non-central one
//! (Cohen, *Statistical Power Analysis*, 2nd ed. 1988, ch. 2), computed here as the mean of normal
//! tails over the distribution of the estimated deviation.
//!
//! All of it takes the spread that was measured as the true one. With five values that is a guess:
//! their standard deviation is between 0.6 and 2.9 times itself with 95 %.

use crate::interval::Level;
use crate::student_t::{self, ln_gamma, normal_upper_tail_by};
use crate::welch::Welch;

/// The power that a minimum detectable effect is stated for.
pub const POWER: f64 = 0.8;

/// Most values that [`values_for_half_width`] answers with.
pub const VALUES_MAX: usize = 1_000_000;

/// The probability that a two-sided t test of `df` degrees of freedom proves a true difference of
/// `effect` standard errors at `level`.
///
/// `df` is at least 1, `effect` finite and not negative.
#[must_use]
pub fn power(effect: f64, df: f64, level: Level) -> f64 {
    let t = student_t::quantile(1.0 - level.alpha() / 2.0, df);
    upper_tail(t, df, effect) + upper_tail(t, df, -effect)
}

/// The true difference, in standard errors, that a two-sided t test of `df` degrees of freedom
/// proves at `level` with probability `power`.
///
/// `power` is above `1 − level` and below 1; NaN otherwise.
#[must_use]
pub(crate) fn detectable_effect(df: f64, level: Level, power: f64) -> f64 {
    const PRECISION: f64 = 1e-5;
    if !(power > level.alpha() && power < 1.0) {
        return f64::NAN;
    }
    let t = student_t::quantile(1.0 - level.alpha() / 2.0, df);
    let is_enough = |effect: f64| upper_tail(t, df, effect) + upper_tail(t, df, -effect) >= power;
    let (mut low, mut high) = (0.0, t + 1.0);
    while !is_enough(high) {
        (low, high) = (high, high * 2.0);
    }
    while high - low > PRECISION * high {
        let middle = (low + high) / 2.0;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// The smallest true difference, as a share of the baseline's mean, that Welch's test of these two
/// series would prove at `level` with probability `power`; see [`detectable_effect`].
#[must_use]
pub fn detectable_ratio(welch: &Welch, level: Level, power: f64) -> f64 {
    let error = welch.standard_error();
    if error == 0.0 {
        return 0.0;
    }
    detectable_effect(welch.degrees_of_freedom(), level, power) * error / welch.baseline_mean()
}

/// Half of the width of Student's interval for the mean of `count` values of standard deviation
/// `stddev`, in its unit; infinite for fewer than two values.
#[must_use]
pub fn half_width(count: usize, stddev: f64, level: Level) -> f64 {
    if count < 2 {
        return f64::INFINITY;
    }
    let count = count as f64;
    student_t::quantile(1.0 - level.alpha() / 2.0, count - 1.0) * stddev / count.sqrt()
}

/// How many values of standard deviation `stddev` it takes until the interval of their mean is no
/// wider than `half_width` to either side, both in the same unit: at least 2; `None` if more than
/// [`VALUES_MAX`] are needed, or `half_width` is not above zero.
#[must_use]
pub fn values_for_half_width(stddev: f64, half_width: f64, level: Level) -> Option<usize> {
    if !(half_width > 0.0 && stddev >= 0.0) {
        return None;
    }
    let is_enough = |count: usize| self::half_width(count, stddev, level) <= half_width;
    // The half width falls with the count: double, then bisect.
    let mut high = 2;
    while !is_enough(high) {
        if high >= VALUES_MAX {
            return None;
        }
        high = (high * 2).min(VALUES_MAX);
    }
    let mut low = 1;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// The probability that a non-central t value lies beyond `t`: the normal tail beyond `t · s −
/// effect`, averaged over s, the estimated deviation as a share of the true one, by Simpson's rule.
fn upper_tail(t: f64, df: f64, effect: f64) -> f64 {
    /// Nodes less one, an even number; the integrand is as smooth as a normal density.
    const STEPS: u32 = 128;
    /// Standard deviations of s to either side.
    const REACH: f64 = 10.0;
    let spread = REACH / (2.0 * df).sqrt();
    let (low, high) = ((1.0 - spread).max(0.0), 1.0 + spread);
    let scale = std::f64::consts::LN_2 + df / 2.0 * (df / 2.0).ln() - ln_gamma(df / 2.0);
    let density = |s: f64| {
        if s == 0.0 {
            return if df > 1.0 { 0.0 } else { scale.exp() };
        }
        (scale + (df - 1.0) * s.ln() - df * s * s / 2.0).exp()
    };
    let node = |step: u32| {
        let s = low + (high - low) * f64::from(step) / f64::from(STEPS);
        let weight = match step {
            0 | STEPS => 1.0,
            _ if step.is_multiple_of(2) => 2.0,
            _ => 4.0,
        };
        weight * density(s) * normal_tail(t * s - effect)
    };
    let sum: f64 = (0..=STEPS).map(node).sum();
    (sum * (high - low) / (3.0 * f64::from(STEPS))).clamp(0.0, 1.0)
}

fn normal_tail(z: f64) -> f64 {
    /// Farther out lies less than the rule's own error.
    const FAR: f64 = 6.0;
    const FRACTION_STEPS: u32 = 25;
    match z {
        _ if z > FAR => 0.0,
        _ if z < -FAR => 1.0,
        _ if z < 0.0 => 1.0 - normal_upper_tail_by(-z, FRACTION_STEPS),
        _ => normal_upper_tail_by(z, FRACTION_STEPS),
    }
}

#[cfg(test)]
mod tests;
