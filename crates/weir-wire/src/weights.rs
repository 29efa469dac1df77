//! A repeating order of items that keeps exact ratios and spreads every item out.
//!
//! Smooth weighted round robin, as web servers use it to choose among backends: in every step each
//! item gains its weight, the one that has gained most (the first of equals) goes, and pays the sum
//! of all weights. After as many steps as that sum, every item has gone as often as its weight says
//! and the order repeats.

use alloc::vec;
use alloc::vec::Vec;

use crate::walk::gcd;

/// Longest period: the sum of the weights, after their common divisor is taken out.
pub(crate) const PERIOD_MAX: u64 = 65_536;

/// Weights that make no order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// There is no item.
    #[error("there is nothing to choose from")]
    Empty,
    /// An item would never go.
    #[error("weight 0 (of item {0}, counted from 1) would send nothing: leave the item out")]
    Zero(usize),
    /// The order would be too long.
    #[error(
        "the weights add up to {0}, more than {PERIOD_MAX}, after their common divisor is taken \
         out: use rounder ratios"
    )]
    Period(u64),
}

/// Which item goes at each place of one period.
///
/// # Errors
///
/// [`WeightsError`] if there is no item, a weight is 0, or the period is over [`PERIOD_MAX`].
pub fn smooth(weights: &[u32]) -> Result<Vec<usize>, WeightsError> {
    if weights.is_empty() {
        return Err(WeightsError::Empty);
    }
    if let Some(zero) = weights.iter().position(|weight| *weight == 0) {
        return Err(WeightsError::Zero(zero + 1));
    }
    let divisor = weights.iter().fold(0, |divisor, weight| gcd(divisor, u64::from(*weight)));
    let weights: Vec<u64> = weights.iter().map(|weight| u64::from(*weight) / divisor).collect();
    let period = weights.iter().sum();
    if period > PERIOD_MAX {
        return Err(WeightsError::Period(period));
    }
    // Offset by the period, what an item has gained never falls below zero.
    let mut gained = vec![period; weights.len()];
    let order = (0..period).map(|_| {
        let mut first = 0;
        for (item, weight) in weights.iter().enumerate() {
            gained[item] += weight;
            if gained[item] > gained[first] {
                first = item;
            }
        }
        gained[first] -= period;
        first
    });
    Ok(order.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden() {
        // The example in nginx's commit message that introduced the method: a a b a c a a.
        assert_eq!(smooth(&[5, 1, 1]), Ok(vec![0, 0, 1, 0, 2, 0, 0]));
        assert_eq!(smooth(&[100, 200]), Ok(vec![1, 0, 1]));
        assert_eq!(smooth(&[9]), Ok(vec![0]));
    }

    #[test]
    fn refusals() {
        let text = |weights: &[u32]| smooth(weights).unwrap_err().to_string();
        assert_eq!(text(&[]), "there is nothing to choose from");
        assert!(text(&[1, 0]).starts_with("weight 0 (of item 2, counted from 1)"));
        assert!(text(&[65_536, 1]).starts_with("the weights add up to 65537, more than 65536"));
        assert_eq!(smooth(&[u32::MAX, u32::MAX]).unwrap(), [0, 1]);
    }

    proptest! {
        #[test]
        fn ratios_are_exact_and_spread(weights in prop::collection::vec(1_u32..40, 1..6)) {
            let order = smooth(&weights).unwrap();
            let sum: u32 = weights.iter().sum();
            for (item, weight) in weights.iter().enumerate() {
                let mut count = 0;
                for (place, chosen) in (1..).zip(&order) {
                    count += u32::from(*chosen == item);
                    // Never a whole turn of all items away from its share.
                    let due = f64::from(place) * f64::from(*weight) / f64::from(sum);
                    let away = (f64::from(count) - due).abs();
                    prop_assert!(away < f64::from(u32::try_from(weights.len()).unwrap()));
                }
                prop_assert_eq!(u64::from(count) * u64::from(sum),
                    u64::from(*weight) * u64::try_from(order.len()).unwrap());
            }
        }
    }
}
