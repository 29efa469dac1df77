//! Whether the load is worth handing packets on: a switch that does not flutter.

/// Off again below this share of the rate at which it goes on,
const OFF_RATIO: f64 = 0.75;
/// for so many intervals in a row.
const OFF_AFTER: u32 = 5;

/// Judges by what an interface receives, interval after interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gate {
    from_pps: f64,
    /// Intervals in a row that had too little.
    quiet_count: u32,
}

impl Gate {
    /// On from this rate on; 0: always.
    pub(super) fn new(from_pps: f64) -> Self {
        Self { from_pps, quiet_count: 0 }
    }

    /// Whether it is to be on after an interval with this rate.
    pub(super) fn judge(&mut self, is_on: bool, rate_pps: f64) -> bool {
        let is_quiet = rate_pps < self.from_pps * OFF_RATIO;
        self.quiet_count = if is_on && is_quiet { self.quiet_count + 1 } else { 0 };
        if is_on { self.quiet_count < OFF_AFTER } else { rate_pps >= self.from_pps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_at_once_and_off_when_it_has_been_quiet() {
        let mut gate = Gate::new(600e3);
        let mut is_on = false;
        let mut after = |rate_pps: f64| {
            is_on = gate.judge(is_on, rate_pps);
            is_on
        };
        assert_eq!([599e3, 600e3, 451e3].map(&mut after), [false, true, true]);
        assert_eq!([449e3; 4].map(&mut after), [true; 4]);
        assert!(after(450e3), "one interval with enough begins anew");
        assert_eq!([449e3; 5].map(&mut after), [true, true, true, true, false]);
        assert_eq!([599e3, 600e3].map(&mut after), [false, true]);
    }

    #[test]
    fn from_zero_on_it_is_always_on() {
        let mut gate = Gate::new(0.0);
        assert!(gate.judge(false, 0.0));
        assert!((0..20).all(|_| gate.judge(true, 0.0)));
    }
}
