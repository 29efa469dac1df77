//! Samples that wait for CPUs that are near each other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_machine::cancel::Cancel;

use crate::near::{LOOK, Look, Near, note};

fn near(patience: Duration, look: Look) -> Near {
    let mut near = Near::new([0, 1], patience);
    near.look = look;
    near
}

/// How many samples were taken, of which the last one counts.
fn taken(near: &Near) -> u32 {
    let mut count = 0;
    let sample = || -> Result<u32, &'static str> {
        count += 1;
        Ok(count)
    };
    near.sample(&Cancel::default(), sample).expect("it is taken")
}

#[test]
fn a_sample_in_which_cpus_were_moved_is_taken_again() {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    // Near before the first sample, far behind it, and near again.
    let near = near(Duration::from_secs(60), |_, _| {
        Some(if LOOKS.fetch_add(1, Ordering::Relaxed) == 1 { 165.0 } else { 27.0 })
    });
    assert_eq!((taken(&near), near.far_count()), (2, 0));
    assert_eq!(note(near.far_count()), "");
}

#[test]
fn where_they_stay_far_apart_one_sample_counts() {
    let near = near(LOOK * 2, |_, _| Some(165.0));
    assert_eq!((taken(&near), near.far_count()), (1, 1));
    assert!(note(near.far_count()).starts_with("1 sample was"));
}

#[test]
fn what_cannot_be_told_is_not_waited_for() {
    let near = near(Duration::from_secs(60), |_, _| None);
    assert_eq!((taken(&near), near.far_count()), (1, 0));
}
