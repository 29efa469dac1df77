//! For how long a worker stood still: stopped, or without its CPU. It looks at clocks alone, and
//! judges nothing.

use std::io;

use crate::limits;

/// A worker that looks later than this stood still, unless it had work to do.
const FROM_NS: u64 = 10_000_000;
/// Less than this in a run is none.
const LEAST_NS: u64 = 100_000_000;

/// What regular looks have found.
#[derive(Debug, Default)]
pub(super) struct Still {
    /// When it last looked, and for how long it had run and waited for a CPU by then.
    last_ns: (u64, u64),
    sum_ns: u64,
}

impl Still {
    /// It looks now, and was to look at `due_ns`; whether that is in a run. What it worked or
    /// waited for a CPU since it last looked is something else.
    pub(super) fn look(&mut self, now: u64, due_ns: u64, is_running: bool) -> io::Result<()> {
        let (ran_ns, waited_ns) = limits::scheduled_ns()?;
        let busy_ns = ran_ns + waited_ns;
        let late_ns = now.saturating_sub(due_ns);
        if late_ns >= FROM_NS && is_running {
            let worked_ns = busy_ns.saturating_sub(self.last_ns.1);
            let idle_ns = now.saturating_sub(self.last_ns.0).saturating_sub(worked_ns);
            self.sum_ns += late_ns.min(idle_ns);
        }
        self.last_ns = (now, busy_ns);
        Ok(())
    }

    /// All together.
    pub(super) const fn sum_ns(&self) -> u64 {
        if self.sum_ns < LEAST_NS { 0 } else { self.sum_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_without_work_stood_still() {
        let mut still = Still::default();
        still.look(1_000_000_000, 1_000_000_000, false).unwrap();
        // The thread has hardly run since, whatever the clock says.
        still.look(1_900_000_000, 1_100_000_000, true).unwrap();
        assert!((700_000_000..=800_000_000).contains(&still.sum_ns()), "{still:?}");
        still.look(2_500_000_000, 2_000_000_000, false).unwrap();
        assert!(still.sum_ns() <= 800_000_000, "outside of a run nobody asks");
        let mut short = Still::default();
        short.look(1_000_000_000, 1_000_000_000, true).unwrap();
        short.look(1_150_000_000, 1_100_000_000, true).unwrap();
        assert_eq!(short.sum_ns(), 0, "{short:?}");
    }
}
