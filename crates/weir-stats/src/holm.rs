//! Holm's correction: many questions asked of one campaign.
//!
//! Of twenty comparisons of things that do not differ, one is "significant" at 95 %. Holm's
//! procedure (*Scandinavian Journal of Statistics* 6, 1979) bounds the probability of even one such
//! claim, for any dependence between the comparisons, and never rejects less than Bonferroni's.

/// The p-values adjusted for being one family, in the order given: whatever is at most α after the
/// adjustment may be claimed, all of it together with an error probability of α.
///
/// A NaN stays one, and is not counted.
#[must_use]
pub fn adjusted(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).filter(|i| !p_values[*i].is_nan()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![f64::NAN; p_values.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.iter().enumerate() {
        let left = (order.len() - rank) as f64;
        largest = largest.max((p_values[*index] * left).min(1.0));
        adjusted[*index] = largest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{Source, share};
    use proptest::prelude::*;

    #[test]
    fn the_textbook_s_example() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let got = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (got, expected) in got.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - expected).abs() < 1e-12, "{got} {expected}");
        }
        assert_eq!(adjusted(&[0.9, 0.8]), [1.0, 1.0]);
        assert_eq!(adjusted(&[0.2]), [0.2]);
        assert!(adjusted(&[]).is_empty());
        let with_nan = adjusted(&[0.01, f64::NAN, 0.02]);
        assert!(with_nan[0] == 0.02 && with_nan[1].is_nan() && with_nan[2] == 0.02);
    }

    #[test]
    fn a_family_errs_as_seldom_as_one() {
        let mut source = Source::new(1);
        let (mut uncorrected, mut runs) = (0, 0);
        let errors = share(4000, || {
            let p_values: Vec<f64> = (0..10).map(|_| source.uniform()).collect();
            runs += 1;
            uncorrected += u32::from(p_values.iter().any(|p| *p <= 0.05));
            adjusted(&p_values).iter().any(|p| *p <= 0.05)
        });
        assert!((0.03..0.06).contains(&errors), "{errors}");
        assert!(f64::from(uncorrected) / f64::from(runs) > 0.35);
    }

    proptest! {
        #[test]
        fn between_nothing_and_bonferroni(p_values in prop::collection::vec(0.0_f64..=1.0, 1..30)) {
            let adjusted = adjusted(&p_values);
            for (p, adjusted) in p_values.iter().zip(&adjusted) {
                prop_assert!(p <= adjusted);
                prop_assert!(*adjusted <= (p * p_values.len() as f64).min(1.0) + 1e-15);
            }
            for (a, b) in p_values.iter().zip(&adjusted) {
                for (c, d) in p_values.iter().zip(&adjusted) {
                    prop_assert!(a > c || b <= d);
                }
            }
        }
    }
}
