//! What a run tells whoever watches it: a campaign, a bisection or a rate search.
//!
//! It emits events and never waits for an answer; how they look is the watcher's.

use weir_results::bisect::Report;
use weir_results::record::TrialRecord;
use weir_results::search::record::ItemResult;
use weir_results::unit::Unit;
use weir_results::yardstick::Yardstick;

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A campaign begins or goes on.
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
    /// The host was looked at before the first trial.
    Looked(&'a Yardstick),
    /// The host is busy with this, and the run waits.
    Waiting(&'a str),
    /// A trial begins.
    TrialStarted {
        /// Position among the trials of this run, from 1.
        position: usize,
        /// Trials of this run, the most of them that are still possible; absent where what comes
        /// next depends on what is measured.
        to_run: Option<usize>,
        /// Name: `<series>/<iteration>` or `calibration/<traffic>`.
        name: &'a str,
    },
    /// The trial enters a phase.
    Phase { name: &'static str },
    /// Packets or connections per second between two samples.
    Live {
        /// Delivered.
        rx_pps: f64,
        /// Offered.
        tx_pps: f64,
        /// What the two count.
        unit: Unit,
    },
    /// A trial is in the store.
    TrialFinished {
        name: &'a str,
        record: &'a TrialRecord,
        /// It stood there already: an earlier run had done it.
        kept: bool,
    },
    /// A series has been measured often enough (`iterations = "auto"`).
    SeriesStopped {
        series: &'a str,
        /// Its last iteration.
        iterations: u32,
        /// The half width that its interval is within, in per cent of its mean.
        half_width_percent: f64,
    },
    /// Searches begin or go on.
    SearchStarted {
        items: usize,
        /// Those that are done already.
        done: usize,
    },
    /// An item of a search begins.
    ItemStarted {
        /// Position among the items that are to do, from 1.
        position: usize,
        /// Those.
        to_do: usize,
        name: &'a str,
    },
    /// An item of a search is done.
    ItemFinished(&'a ItemResult),
    /// What a bisection knows by now: before its first run, and after each.
    Assessed(&'a Report),
    /// Something worth knowing that stops nothing.
    Warning(String),
}

/// Somebody who watches a run.
pub trait Observer {
    /// Called for every event, on the run's thread.
    fn event(&mut self, event: &Event<'_>);
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: &Event<'_>) {}
}
