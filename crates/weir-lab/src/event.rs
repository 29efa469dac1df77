//! What a campaign tells whoever watches it.
//!
//! The campaign emits events and never waits for an answer; how they look is the watcher's.

use crate::record::TrialRecord;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// The campaign begins or goes on.
    Started {
        /// Trials to run now, calibrations included.
        to_run: usize,
        /// Cells that stand in the store already.
        done: usize,
        /// Cells of the plan.
        planned: usize,
        /// Estimated time.
        estimate: std::time::Duration,
    },
    /// A trial begins.
    TrialStarted {
        /// Position among the trials of this run, from 1.
        position: usize,
        /// Trials of this run.
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
