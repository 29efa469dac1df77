//! What a campaign tells whoever watches it.
//!
//! The campaign emits events and never waits for an answer; how they look is the watcher's.

use crate::record::TrialRecord;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The campaign begins or goes on.
    Started {
        /// Trials to run now, calibrations included; with `iterations = "auto"` the most of them.
        to_run: usize,
        /// The least of them.
        to_run_min: usize,
        /// Cells that stand in the store already.
        done: usize,
        /// Cells of the plan, the most of them.
        planned: usize,
        /// Estimated time of all trials.
        estimate: std::time::Duration,
    },
    /// A trial begins.
    TrialStarted {
        /// Position among the trials of this run, from 1.
        position: usize,
        /// Trials of this run, the most of them that are still possible.
        to_run: usize,
        /// Name: `<series>/<iteration>` or `calibration/<traffic>`.
        name: &'a str,
    },
    /// The trial enters a phase.
    Phase {
        /// Its name.
        name: &'static str,
    },
    /// Packets per second between two samples.
    Live {
        /// Delivered.
        rx_pps: f64,
        /// Offered.
        tx_pps: f64,
    },
    /// A trial is in the store.
    TrialFinished {
        /// Its name.
        name: &'a str,
        /// Its record.
        record: &'a TrialRecord,
    },
    /// A series has been measured often enough (`iterations = "auto"`).
    SeriesStopped {
        /// Its name.
        series: &'a str,
        /// Its last iteration.
        iterations: u32,
        /// The half width that its interval is within, in per cent of its mean.
        half_width_percent: f64,
    },
    /// Something worth knowing that stops nothing.
    Warning(String),
}

/// Somebody who watches a campaign.
pub trait Observer {
    /// Called for every event, on the campaign's thread.
    fn event(&mut self, event: &Event<'_>);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) {}
}
