//! Connections that stay open: they are opened once, and counted in the end.
//!
//! Whether the DUT still knows them is its own to say, where it can.

use std::time::Duration;

use weir_results::record::{Check, Ledger};
use weir_results::samples::Reading;
use weir_results::traffic::connect::HELD_CHECK;
use weir_wire::units::{Rate, format_count, format_duration};

use super::{Runner, TrialError, host_of, packets};
use crate::dut::DutDriver;
use crate::testbed::{Burst, Rig, TestbedError};

impl Runner<'_> {
    /// Opens so many connections, and takes readings meanwhile.
    pub(super) fn open(
        &mut self,
        rig: &mut dyn Rig,
        count: u64,
    ) -> Result<Vec<Vec<Reading>>, TrialError> {
        self.phase("measure");
        let burst = Burst { packet_limit: Some(count), ..Burst::of(self.trial.traffic) };
        let Rate::Pps(rate_cps) = burst.rate else {
            return Err(TestbedError::new("connections that stay open need a rate").into());
        };
        let time = Duration::from_secs_f64(packets(count) / rate_cps.max(1.0));
        let mut readings = vec![rig.readings()?];
        rig.start(burst)?;
        let watched = self.watch(rig, time * 2 + self.patience.burst, &mut readings);
        rig.stop()?;
        watched?;
        Ok(readings)
    }

    /// Takes readings until all are opened.
    fn watch(
        &mut self,
        rig: &mut dyn Rig,
        patience: Duration,
        readings: &mut Vec<Vec<Reading>>,
    ) -> Result<(), TrialError> {
        let (sample, cancel) = (self.trial.times.sample, self.trial.cancel);
        let start = cancel.now();
        let mut next = start + sample;
        while !rig.finished() {
            if cancel.now() > start + patience {
                let patience = format_duration(patience);
                return Err(TestbedError::voids_trial(format!(
                    "the client has not opened its connections after {patience}"
                ))
                .into());
            }
            if !cancel.sleep_until(next) {
                return Err(TrialError::Cancelled);
            }
            self.add_reading(readings, rig.readings()?);
            // A moment that was missed is left out.
            while next <= cancel.now() {
                next += sample;
            }
        }
        Ok(())
    }

    /// Checks that the DUT knows as many connections more than before as came through, where it
    /// tells how many it has.
    pub(super) fn check_held(&mut self, ledger: &Ledger, before: Option<u64>, after: Option<u64>) {
        let (Some(before), Some(after)) = (before, after) else { return };
        let held = ledger.points.last().map_or(0, |point| point.packets);
        // Those of the probes are among the ones before.
        let known = after.saturating_sub(before);
        self.checks.push(Check {
            name: HELD_CHECK.to_owned(),
            passed: known >= held,
            detail: format!(
                "{} connections came through, and the DUT knows {} more than before",
                format_count(held),
                format_count(known)
            ),
        });
    }
}

/// How many connections the DUT knows now, where it tells.
pub(super) fn known(
    rig: &dyn Rig,
    dut: Option<&(dyn DutDriver + 'static)>,
) -> Result<Option<u64>, TrialError> {
    let Some(dut) = dut else { return Ok(None) };
    Ok(dut.flows(host_of(rig)?)?)
}
