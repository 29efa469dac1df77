//! The look at this host before and after what a run measures: what else runs there, and how fast
//! it is at the moment.
//!
//! It is as long as the run is worth: a twentieth of its estimated time, within bounds. What it
//! finds is kept in the store, and never stops a run unless it was asked to wait for a quiet host.

use std::time::Duration;

use weir_machine::environment::yardstick;
use weir_results::verdict;
use weir_results::yardstick::Yardstick;

use super::{RunError, Runner};
use crate::event::Event;
use crate::plan::estimate::{LOOK_AFTER_MAX, LOOK_BEFORE_MAX, look};
use crate::plan::view::estimated_duration;

impl Runner<'_> {
    /// Looks at this host before the first trial, again and again while it is to wait.
    pub(super) fn look_before(&mut self) -> Result<(), RunError> {
        self.observer.event(&Event::Phase { name: "look" });
        let deadline = self.cancel.now() + self.wait;
        while let Some(reading) = self.look_for(LOOK_BEFORE_MAX)? {
            let busy = verdict::disturbance(&[("", &reading.machine)]);
            match busy {
                Some(reason) if self.wait.is_zero() => {
                    self.observer.event(&Event::Warning(format!(
                        "this host is busy: {reason}; trials that this disturbs are repeated and \
                         left out of the figures; --wait 10m waits until the host is quiet"
                    )));
                }
                Some(reason) if self.cancel.now() >= deadline => {
                    return Err(RunError::Busy { waited: self.wait, reason });
                }
                Some(reason) => {
                    self.observer.event(&Event::Waiting(&reason));
                    continue;
                }
                None => {}
            }
            self.observer.event(&Event::Looked(&reading));
            return Ok(self.store.keep_yardstick(reading)?);
        }
        Ok(())
    }

    /// Looks at this host after the last trial.
    pub(super) fn look_after(&mut self) -> Result<(), RunError> {
        match self.look_for(LOOK_AFTER_MAX)? {
            Some(reading) => Ok(self.store.keep_yardstick(reading)?),
            None => Ok(()),
        }
    }

    /// `None` where nothing is measured on this host, or it cannot be looked at.
    fn look_for(&mut self, most: Duration) -> Result<Option<Yardstick>, RunError> {
        let Some((cpu, cpus)) = self.testbed.cpus() else { return Ok(None) };
        let length = look(estimated_duration(self.plan), most);
        let reading = yardstick::measure(cpu, &cpus, length, self.cancel);
        if let Some(signal) = self.cancel.signal() {
            return Err(RunError::Cancelled { signal });
        }
        reading.or_else(|error| {
            self.observer.event(&Event::Warning(format!(
                "{error}; comparisons will not know how fast this host was"
            )));
            Ok(None)
        })
    }
}
