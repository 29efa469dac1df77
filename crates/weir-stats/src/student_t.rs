//! Student's t distribution, computed.
//!
//! The distribution function is the regularised incomplete beta function, evaluated by its
//! continued fraction with Lentz's method (DLMF §8.17(v)); quantiles are found by bisection
//! between bounds, so that they always converge. For the normal distribution (infinitely many
//! degrees of freedom) the tail is a series near the middle and a continued fraction far out
//! (DLMF §7.6, §7.9).
//!
//! [`ministat_t`] gives the numbers of ministat's printed table, its rounding, its cut at 100
//! degrees of freedom and its misprints included; nothing else should use it.

/// The confidence levels that ministat knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Confidence {
    /// 80 %.
    P80,
    /// 90 %.
    P90,
    /// 95 %, the default.
    #[default]
    P95,
    /// 98 %.
    P98,
    /// 99 %.
    P99,
    /// What ministat calls 99.5 %. Its table has the quantiles of 99.8 % in that place, so that
    /// this level is stricter than its name.
    P99_5,
}

impl Confidence {
    /// All levels, ascending.
    pub const ALL: [Self; 6] = [Self::P80, Self::P90, Self::P95, Self::P98, Self::P99, Self::P99_5];

    /// The level as ministat names it, percent.
    #[must_use]
    pub const fn percent(self) -> f64 {
        match self {
            Self::P80 => 80.0,
            Self::P90 => 90.0,
            Self::P95 => 95.0,
            Self::P98 => 98.0,
            Self::P99 => 99.0,
            Self::P99_5 => 99.5,
        }
    }

    /// The level that ministat names so, if it has one: 80, 90, 95, 98, 99 or 99.5.
    #[must_use]
    pub fn from_percent(percent: f64) -> Option<Self> {
        // Exact comparison: these six numbers have no error in binary.
        Self::ALL.into_iter().find(|level| level.percent() == percent)
    }

    /// The one-sided probability of the quantile in ministat's table.
    const fn ministat_p(self) -> f64 {
        match self {
            Self::P80 => 0.9,
            Self::P90 => 0.95,
            Self::P95 => 0.975,
            Self::P98 => 0.99,
            Self::P99 => 0.995,
            Self::P99_5 => 0.999,
        }
    }
}

/// Beyond this many degrees of freedom the normal distribution stands in; the difference is under
/// 10^-7 of the quantile, less than the error of the beta function there.
const DF_MAX: f64 = 1e8;

/// The probability that a t-distributed value lies under `t`.
///
/// `df`, the degrees of freedom, is positive, whole or not; infinity gives the normal
/// distribution. NaN if `df` is not positive or an argument is NaN.
#[must_use]
pub(crate) fn cdf(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if t < 0.0 { upper_tail(-t, df) } else { 1.0 - upper_tail(t, df) }
}

/// The value under which a t-distributed value lies with probability `p`.
///
/// `df` as for [`cdf`]. The ends, `p` of 0 and 1, are the infinities. NaN if `p` is not a
/// probability or `df` is not positive.
#[must_use]
pub fn quantile(p: f64, df: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if p == 0.5 {
        return 0.0;
    }
    let (tail, sign) = if p < 0.5 { (p, -1.0) } else { (1.0 - p, 1.0) };
    sign * upper_quantile(tail, df)
}

/// The number that ministat's table has for `confidence` and `df` degrees of freedom.
///
/// Two-sided quantiles rounded to three decimals; more than 100 degrees of freedom count as
/// infinitely many. Seven entries of the 99.5 % column are misprinted there, and are kept. 0
/// degrees of freedom are taken as infinitely many too, which is that table's first row.
#[must_use]
pub fn ministat_t(confidence: Confidence, df: usize) -> f64 {
    const DF_LAST: usize = 100;
    const MISPRINTS: [(usize, f64); 7] =
        [(1, 318.313), (7, 4.782), (8, 4.499), (9, 4.296), (10, 4.143), (11, 4.024), (12, 3.929)];
    if confidence == Confidence::P99_5
        && let Some((_, printed)) = MISPRINTS.iter().find(|(row, _)| *row == df)
    {
        return *printed;
    }
    let df = if df == 0 || df > DF_LAST { f64::INFINITY } else { df as f64 };
    (quantile(confidence.ministat_p(), df) * 1000.0).round() / 1000.0
}

/// The `t` of at least zero beyond which lies the probability `tail`, which is under one half.
fn upper_quantile(tail: f64, df: f64) -> f64 {
    if tail == 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while upper_tail(high, df) > tail {
        (low, high) = (high, high * 2.0);
        if high.is_infinite() {
            return high;
        }
    }
    // Every step halves the interval, so that neighbours in f64 are reached.
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if upper_tail(middle, df) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The probability beyond `t`, which is at least zero.
fn upper_tail(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    if df > DF_MAX {
        return normal_upper_tail(t);
    }
    // t² may overflow where t does not.
    let (x, y) =
        if t > 1e150 { (df / t / t, 1.0) } else { (df / (df + t * t), t * t / (df + t * t)) };
    0.5 * regularised_beta(x, y, df / 2.0, 0.5)
}

/// The regularised incomplete beta function I_x(a, b); `y` is 1 − x, given for its precision.
pub(crate) fn regularised_beta(x: f64, y: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let front = (a * x.ln() + b * y.ln() - ln_beta(a, b)).exp();
    // The fraction converges fast on this side of the mean only; the function is symmetric.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(x, a, b) / a
    } else {
        1.0 - front * beta_fraction(y, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    // Convergence takes about the square root of the larger parameter, which DF_MAX bounds.
    const STEPS_MAX: u32 = 100_000;
    const TINY: f64 = 1e-300;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    for step in 1..=STEPS_MAX {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            factor = c * d;
            value *= factor;
        }
        if (factor - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    value
}

/// ln B(a, b) = ln Γ(a) + ln Γ(b) − ln Γ(a + b).
fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// ln Γ(x) for positive x: Stirling's series (DLMF 5.11.1) after moving x up to where seven terms
/// are exact to the last digit.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 7] = [
        1.0 / 12.0,
        -1.0 / 360.0,
        1.0 / 1260.0,
        -1.0 / 1680.0,
        1.0 / 1188.0,
        -691.0 / 360_360.0,
        1.0 / 156.0,
    ];
    const LN_2_PI: f64 = 1.837_877_066_409_345_5;
    let (mut x, mut product) = (x, 1.0);
    while x < 12.0 {
        product *= x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = TERMS.iter().rev().fold(0.0, |sum, term| sum * square + term) / x;
    (x - 0.5) * x.ln() - x + 0.5 * LN_2_PI + series - f64::ln(product)
}

/// The probability of a standard normal value beyond `z`, which is at least zero.
fn normal_upper_tail(z: f64) -> f64 {
    // 200 steps of the fraction are exact from 3 up.
    normal_upper_tail_by(z, 200)
}

/// The same with so many steps of the continued fraction beyond 3: 25 of them are right to eight
/// digits.
pub(crate) fn normal_upper_tail_by(z: f64, fraction_steps: u32) -> f64 {
    let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z > 3.0 {
        // 1/(z + 1/(z + 2/(z + 3/(z + …)))), from the inside.
        let steps = (1..=fraction_steps).rev();
        return density / steps.fold(z, |below, step| z + f64::from(step) / below);
    }
    // z + z³/3 + z⁵/(3·5) + …, whose terms vanish for small z after some tens of steps.
    let (mut term, mut sum) = (z, z);
    for step in 1..=100 {
        term *= z * z / (2.0 * f64::from(step) + 1.0);
        if sum + term == sum {
            break;
        }
        sum += term;
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests;
