//! Why a run stopped before its end.

use std::error::Error;

use crate::store::StoreError;
use crate::trial::TrialError;

/// Why a run stopped before its end, whatever it ran.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trial could not be run.
    #[error("{name}: {source}")]
    Trial {
        name: String,
        /// The cause.
        source: TrialError,
    },
    /// Nothing can be judged without a calibration.
    #[error(
        "the calibration of traffic `{traffic}`, without which nothing can be judged, is unusable \
         ({}): {reason}; its records are in rejected/{traffic}; when the cause is removed, \
         `weir lab resume` goes on",
        attempted(*attempts)
    )]
    Calibration {
        traffic: String,
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt is unusable.
        reason: String,
    },
    /// The specification is not one for what is asked: it gives no list to bisect, say.
    #[error(transparent)]
    Unsuited(Box<dyn Error + Send + Sync>),
    /// A bisection with a setting out of its range, or with figures that are not numbers.
    #[error("cannot decide: {0}")]
    Decide(#[from] weir_stats::bisect::BisectError),
    /// Without its ends a list cannot be bisected.
    #[error(
        "`{name}`, one end of the list, cannot be measured: {invalid} of its {runs} runs are \
         invalid, the last one because: {reason}; fix it, or choose another end"
    )]
    End {
        /// The candidate.
        name: String,
        /// Its invalid runs.
        invalid: usize,
        /// All its runs.
        runs: usize,
        /// Why the last of them is invalid.
        reason: String,
    },
    /// A search has no loads to try.
    #[error("{name}: {reason}")]
    Loads {
        /// The item.
        name: String,
        /// Why.
        reason: String,
    },
    /// The host did not get quiet.
    #[error(
        "this host was busy for {}, and nothing was measured: {reason}; end what runs there, or \
         begin without --wait",
        weir_wire::units::format_duration(*waited)
    )]
    Busy {
        waited: std::time::Duration,
        /// What it did.
        reason: String,
    },
    /// Somebody asked to stop.
    #[error("stopped by signal {signal}; finished trials are kept")]
    Cancelled { signal: i32 },
}

fn attempted(attempts: u32) -> String {
    match attempts {
        1 => "one attempt".to_owned(),
        attempts => format!("the last of {attempts} attempts"),
    }
}
