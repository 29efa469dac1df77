//! The two levels: weights of the measurements, evidence for each place of the change, posterior.

use super::{
    CHANGE_SCALE, CLIP, Candidate, Change, MISFIT, NO_CHANGE_PRIOR, NOISE_MIN_RATIO, median,
    student_t,
};

/// Measurements of a candidate from which on their median is a level of its own: what repeats is no
/// bad boot.
const REPEATS_MIN: usize = 3;

/// Quantiles of the prior of the change's size, for each sign.
const QUANTILES: u32 = 12;

/// The part of the prior that one of them, with its sign, stands for.
const QUANTILE_SHARE: f64 = 0.5 / QUANTILES as f64;

/// How far apart quantiles may be, in standard errors of the change.
const SHARPEST: f64 = 2.5;

/// Deviations per median of absolute deviations of normal values.
const DEVIATION_PER_MEDIAN: f64 = 1.482_6;

/// Weighted sums of some measurements, in shares of the good level.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Group {
    pub(super) count: f64,
    pub(super) weight: f64,
    sum: f64,
    squares: f64,
}

impl Group {
    fn of(values: &[f64], weight: impl Fn(f64) -> f64) -> Self {
        let mut group = Self::default();
        for value in values {
            let w = weight(*value);
            group.count += 1.0;
            group.weight += w;
            group.sum += w * value;
            group.squares += w * value * value;
        }
        group
    }

    fn and(self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            weight: self.weight + other.weight,
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
        }
    }

    fn mean(&self) -> f64 {
        self.sum / self.weight
    }

    /// Weighted squares of the distances from the mean; rounding must not make it negative.
    fn residual(&self) -> f64 {
        (self.squares - self.sum * self.sum / self.weight).max(0.0)
    }
}

/// The posterior over all hypotheses.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Of each candidate, that it is the first bad one.
    pub(super) first_bad: Vec<f64>,
    /// That nothing changes.
    pub(super) no_change: f64,
}

/// Measurements with their weights, ready to be divided at any candidate.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    groups: Vec<Group>,
    /// `left[k]`: all before candidate `k`; `right[k]`: `k` and all after it.
    left: Vec<Group>,
    right: Vec<Group>,
    /// What a share of 1 is, in the unit of the measurements.
    unit: f64,
    /// What is subtracted from the figures, as a share: sums of squares keep their digits.
    origin: f64,
    margin: f64,
    /// The deviation of measurements of one candidate, robust.
    noise: f64,
    /// Quantiles of the prior of the change's size.
    quantiles: Vec<f64>,
}

impl Fit {
    /// Of a list whose ends are measured.
    pub(super) fn of(candidates: &[Candidate<'_>], margin: f64) -> Self {
        let (first, last) = (candidates[0].values, candidates[candidates.len() - 1].values);
        let good = median(first).unwrap_or_default();
        let all = candidates.iter().flat_map(|c| c.values);
        let unit = match good.abs() {
            0.0 => all.map(|v| v.abs()).fold(0.0, f64::max),
            level => level,
        };
        let unit = if unit > 0.0 { unit } else { 1.0 };
        let origin = good / unit;
        let share = |v: &f64| v / unit - origin;
        let shares: Vec<Vec<f64>> =
            candidates.iter().map(|c| c.values.iter().map(share).collect()).collect();
        let noise = noise(&shares).max(NOISE_MIN_RATIO);
        let mut levels = (0.0, median(last).unwrap_or_default() / unit - origin);
        let mut fit = Self {
            groups: Vec::new(),
            left: Vec::new(),
            right: Vec::new(),
            unit,
            origin,
            margin,
            noise,
            quantiles: quantiles(margin),
        };
        fit.weigh(&shares, levels);
        // Once more, with the levels of all that are on one side.
        let k = most_probable(&fit.posterior().first_bad);
        levels = (fit.left[k].mean(), fit.right[k].mean());
        fit.weigh(&shares, levels);
        fit
    }

    /// Weighs the measurements by their distance from the levels, and sums them up.
    fn weigh(&mut self, shares: &[Vec<f64>], levels: (f64, f64)) {
        let weigh = |values: &Vec<f64>| {
            let middle = (values.len() >= REPEATS_MIN).then(|| median(values)).flatten();
            let centres = [Some(levels.0), Some(levels.1), middle];
            let weight = |value: f64| {
                let distances = centres.iter().flatten().map(|c| (value - c).abs() / self.noise);
                (CLIP / distances.fold(f64::INFINITY, f64::min).max(CLIP)).powi(8)
            };
            Group::of(values, weight)
        };
        self.groups = shares.iter().map(weigh).collect();
        self.divide();
    }

    fn divide(&mut self) {
        let mut left = vec![Group::default()];
        for group in &self.groups {
            left.push(left[left.len() - 1].and(group));
        }
        let mut right = vec![Group::default()];
        for group in self.groups.iter().rev() {
            right.push(right[right.len() - 1].and(group));
        }
        right.reverse();
        (self.left, self.right) = (left, right);
    }

    pub(super) fn group(&self, index: usize) -> &Group {
        &self.groups[index]
    }

    /// The measurements before `k`, and those from `k` on.
    pub(super) fn sides(&self, k: usize) -> (&Group, &Group) {
        (&self.left[k], &self.right[k])
    }

    /// Squares that remain if the change is at `k`, with the noise that is believed at least.
    fn residual(&self, k: usize) -> f64 {
        let (good, bad) = self.sides(k);
        good.residual()
            + bad.residual()
            + self.effective_count() * NOISE_MIN_RATIO * NOISE_MIN_RATIO
    }

    /// Measurements, as far as they count.
    fn effective_count(&self) -> f64 {
        self.right[0].weight
    }

    /// How much the measurements speak for a change at `k` and against none: the logarithm of
    /// their probabilities' ratio, the levels, the noise and the size of the change integrated out.
    ///
    /// Of the integral over the size, the part near the estimate is the prior there times the
    /// posterior without a prior, and the part where most of the prior lies is a sum over its
    /// quantiles. The larger one counts: which it is depends on whether the estimate is sharper
    /// than the prior, and where both cover the same, both have it.
    fn ln_evidence(&self, k: usize) -> f64 {
        let (good, bad) = self.sides(k);
        let df = self.effective_count() - 2.0;
        let spread = (1.0 / good.weight + 1.0 / bad.weight).sqrt();
        let split = self.residual(k);
        let whole =
            self.right[0].residual() + self.effective_count() * NOISE_MIN_RATIO * NOISE_MIN_RATIO;
        let difference = bad.mean() - good.mean();
        let error = (split / df).sqrt() * spread;
        // That the change is at least the margin, by its posterior without a prior.
        let counts = student_t::cdf((-self.margin - difference) / error, df)
            + student_t::cdf((difference - self.margin) / error, df);
        let size = difference.abs().max(self.margin);
        let near = 0.5 * (2.0 * std::f64::consts::PI).ln()
            + spread.ln()
            + self.prior(size).ln()
            + counts.max(f64::MIN_POSITIVE).ln()
            - ln_gamma_step(df / 2.0)
            - 0.5 * df * (split / 2.0).ln()
            + 0.5 * (df + 1.0) * (whole / 2.0).ln();
        let likelihood = |change: f64| {
            let distance = (change - difference) / spread;
            (whole / (split + distance * distance)).powf(0.5 * (df + 1.0))
        };
        // A quantile stands for its surroundings only where the figures are not sharper.
        let stands = |size: &f64| QUANTILE_SHARE <= self.prior(*size) * error * SHARPEST;
        let bulk = self.quantiles.iter().filter(|size| stands(size));
        let bulk: f64 = bulk.map(|size| likelihood(*size) + likelihood(-size)).sum();
        near.max((bulk * QUANTILE_SHARE).max(f64::MIN_POSITIVE).ln())
    }

    /// Density of the prior of the change at `size`, which is at least the margin.
    fn prior(&self, size: f64) -> f64 {
        let cauchy = |x: f64| 1.0 / (std::f64::consts::PI * CHANGE_SCALE * (1.0 + x * x));
        let kept = 1.0 - 2.0 / std::f64::consts::PI * (self.margin / CHANGE_SCALE).atan();
        cauchy(size / CHANGE_SCALE) / kept
    }

    pub(super) fn posterior(&self) -> Posterior {
        let changes = self.groups.len() - 1;
        let prior = ((1.0 - NO_CHANGE_PRIOR) / changes as f64).ln();
        let logs: Vec<f64> = (1..=changes).map(|k| prior + self.ln_evidence(k)).collect();
        let none = NO_CHANGE_PRIOR.ln();
        let top = logs.iter().copied().fold(none, f64::max);
        let total = logs.iter().map(|l| (l - top).exp()).sum::<f64>() + (none - top).exp();
        let first_bad = logs.iter().map(|l| (l - top).exp() / total);
        Posterior {
            first_bad: std::iter::once(0.0).chain(first_bad).collect(),
            no_change: (none - top).exp() / total,
        }
    }

    /// The levels if the change is at `k`.
    pub(super) fn change(&self, k: usize, confidence: f64) -> Change {
        let (good, bad) = self.sides(k);
        let df = self.effective_count() - 2.0;
        let noise = (self.residual(k) / df).sqrt();
        let error = noise * (1.0 / good.weight + 1.0 / bad.weight).sqrt();
        let half = error * student_t::quantile(f64::midpoint(1.0, confidence), df);
        let ratio = bad.mean() - good.mean();
        Change {
            good: (good.mean() + self.origin) * self.unit,
            bad: (bad.mean() + self.origin) * self.unit,
            ratio,
            low_ratio: ratio - half,
            high_ratio: ratio + half,
            noise_ratio: noise,
        }
    }

    /// Candidates that are on neither level if the change is at `k`.
    pub(super) fn misfits(&self, k: usize) -> Vec<usize> {
        let (good, bad) = self.sides(k);
        let is_off = |index: &usize| {
            let group = self.group(*index);
            let side = if *index < k { good } else { bad };
            // Of the others on its side alone, where there are any.
            let rest = side.weight - group.weight;
            if group.count < 2.0 || rest <= 0.0 {
                return false;
            }
            let level = (side.sum - group.sum) / rest;
            let error = self.noise * (1.0 / group.weight + 1.0 / rest).sqrt();
            (group.mean() - level).abs() > MISFIT * error
        };
        (0..self.groups.len()).filter(is_off).collect()
    }
}

/// Quantiles of the prior of the change's size: a Cauchy distribution without what is under the
/// margin.
fn quantiles(margin: f64) -> Vec<f64> {
    let cut = (margin / CHANGE_SCALE).atan();
    let step = (std::f64::consts::FRAC_PI_2 - cut) / f64::from(QUANTILES);
    let size = |index| CHANGE_SCALE * (cut + step * (f64::from(index) + 0.5)).tan();
    (0..QUANTILES).map(size).collect()
}

/// The place of the largest probability, the first of equal ones.
pub(super) fn most_probable(first_bad: &[f64]) -> usize {
    let mut best = 1;
    for (index, probability) in first_bad.iter().enumerate().skip(2) {
        if *probability > first_bad[best] {
            best = index;
        }
    }
    best
}

/// ln Γ(x + 1/2) − ln Γ(x), for x of 1 or more, by its asymptotic series (from DLMF 5.11.13): the
/// error at 1 is under 0.001, and falls with the fifth power.
fn ln_gamma_step(x: f64) -> f64 {
    0.5 * x.ln() - 1.0 / (8.0 * x) + 1.0 / (192.0 * x * x * x)
}

/// The deviation of single measurements from their candidate's median, from candidates with three
/// or more: robust, and as large as the standard deviation of normal values.
fn noise(shares: &[Vec<f64>]) -> f64 {
    let mut distances = Vec::new();
    for values in shares.iter().filter(|values| values.len() >= 3) {
        let (centre, count) = (median(values).unwrap_or_default(), values.len() as f64);
        let widen = (count / (count - 1.0)).sqrt();
        let mut deviations: Vec<f64> = values.iter().map(|v| (v - centre).abs() * widen).collect();
        deviations.sort_by(f64::total_cmp);
        // The median is one of the values, or between two of them: the nearest is near by
        // construction, and says nothing about the noise.
        distances.extend_from_slice(&deviations[1..]);
    }
    median(&distances).unwrap_or_default() * DEVIATION_PER_MEDIAN
}
