//! How many random cases a run makes: all of them, or those of a quick check.
//!
//! This is the one place that reads `WEIR_QUICK`, which `make check` sets, and
//! `WEIR_RANDOM_PAIRS`, which asks for a number.

/// Pairs of a ruleset and a packet (or frames, or the like) of a quick run.
const QUICK_PAIR_COUNT: u64 = 10_000;

/// Pairs that a test runs where a full run takes `full` of them.
///
/// # Panics
///
/// If `WEIR_RANDOM_PAIRS` is not a number.
#[must_use]
pub fn pairs(full: u64) -> u64 {
    if let Ok(asked) = std::env::var("WEIR_RANDOM_PAIRS") {
        return asked.parse().expect("WEIR_RANDOM_PAIRS is a number of pairs");
    }
    if is_quick() { full.min(QUICK_PAIR_COUNT) } else { full }
}

/// Whether this is a quick run: `WEIR_QUICK` is set, and not to `0`.
#[must_use]
pub fn is_quick() -> bool {
    std::env::var_os("WEIR_QUICK").is_some_and(|value| value != "0")
}
