//! Back-to-back frames: the longest burst at the maximum rate of which nothing is lost (RFC 2544
//! section 26.4), and what that says about the device's buffer (RFC 9004).
//!
//! Each repetition halves the interval between a length that is lost from and one that is not; the
//! result is the mean of all repetitions. RFC 9004 asks for fifty of them, and for bursts of up to
//! two seconds.

use super::{ATTEMPTS_MAX, Budget, Measured, Reading, Stopped};

/// Bursts to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// The longest burst, packets, above 0.
    pub packets_max: u64,
    /// How close the two lengths are in the end, as a share of the longer one; they are at least a
    /// packet apart.
    pub width_ratio: f64,
    /// Repetitions, above 0.
    pub repeats: u32,
    /// What it may cost.
    pub budget: Budget,
}

/// Why bursts cannot be begun.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "bursts need a longest length and a number of repetitions above 0, and a width below 100 %"
)]
pub struct ConfigError;

/// Bursts under way.
#[derive(Debug, Clone)]
pub struct BackToBack {
    config: Config,
    /// The longest burst of this repetition that came through, and the shortest that did not.
    passed: u64,
    failed: Option<u64>,
    lengths: Vec<u64>,
    pending: Option<u64>,
    failures: u32,
    trials: u32,
    elapsed_s: f64,
    stopped: Option<Stopped>,
}

/// What the repetitions say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Finished repetitions.
    pub repeats: usize,
    /// Mean of the longest bursts without loss, packets.
    pub mean_packets: f64,
    /// The shortest of them.
    pub min_packets: u64,
    /// The longest.
    pub max_packets: u64,
    /// Their standard deviation; absent for one.
    pub stddev_packets: Option<f64>,
    /// In every repetition the longest burst that was tried came through: more may be possible.
    pub is_at_most: bool,
}

impl BackToBack {
    /// Begins.
    ///
    /// # Errors
    /// [`ConfigError`] if there is nothing to be done.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let is_width = (0.0..1.0).contains(&config.width_ratio);
        if config.packets_max == 0 || config.repeats == 0 || !is_width {
            return Err(ConfigError);
        }
        Ok(Self {
            config,
            passed: 0,
            failed: None,
            lengths: Vec::new(),
            pending: None,
            failures: 0,
            trials: 0,
            elapsed_s: 0.0,
            stopped: None,
        })
    }

    /// The length of the next burst, packets; `None` at the end. Asked again before
    /// [`BackToBack::feed`], it says the same.
    pub fn next_burst(&mut self) -> Option<u64> {
        let is_over = self.lengths.len() >= self.config.repeats as usize;
        if self.pending.is_none() && self.stopped.is_none() && !is_over {
            self.stopped = self.config.budget.exceeded(self.trials, self.elapsed_s);
            self.pending = self.stopped.is_none().then(|| match self.failed {
                None => self.config.packets_max,
                Some(failed) => self.passed + (failed - self.passed) / 2,
            });
        }
        self.pending
    }

    /// Takes the result of the burst that was asked for. A burst has no rate that it must keep: it
    /// is as fast as the sender.
    ///
    /// # Panics
    /// If none was asked for.
    pub fn feed(&mut self, measured: &Measured) {
        let packets = self.pending.take().expect("a result belongs to a burst that was asked for");
        self.trials += 1;
        self.elapsed_s += measured.elapsed_s.max(0.0);
        let is_whole = measured.offered_packets == packets;
        match measured.reading(0.0) {
            Reading::Loss(loss_ratio) if is_whole => {
                self.failures = 0;
                if loss_ratio > 0.0 {
                    self.failed = Some(packets);
                } else {
                    self.passed = packets;
                }
                self.close();
            }
            Reading::Loss(_) | Reading::NotOffered | Reading::Void => {
                self.failures += 1;
                if self.failures >= ATTEMPTS_MAX {
                    self.stopped = Some(Stopped::Void);
                }
            }
        }
    }

    /// Ends the repetition if its two lengths are close enough.
    fn close(&mut self) {
        let is_close = match self.failed {
            None => self.passed >= self.config.packets_max,
            Some(failed) => {
                #[expect(clippy::cast_precision_loss, reason = "bursts stay far below 2^53")]
                let width = failed as f64 * self.config.width_ratio;
                #[expect(clippy::cast_precision_loss, reason = "bursts stay far below 2^53")]
                let gap = (failed - self.passed) as f64;
                gap <= width.max(1.0)
            }
        };
        if is_close {
            self.lengths.push(self.passed);
            (self.passed, self.failed) = (0, None);
        }
    }

    /// The longest burst without loss of each finished repetition, packets.
    #[must_use]
    pub fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Why it ended before its end, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// What the finished repetitions say; `None` without one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn bursts(&self) -> Option<Bursts> {
        let lengths = &self.lengths;
        let (min, max) = (lengths.iter().min()?, lengths.iter().max()?);
        let count = lengths.len() as f64;
        let mean = lengths.iter().map(|&packets| packets as f64).sum::<f64>() / count;
        let squares: f64 = lengths.iter().map(|&p| (p as f64 - mean).powi(2)).sum();
        Some(Bursts {
            repeats: lengths.len(),
            mean_packets: mean,
            min_packets: *min,
            max_packets: *max,
            stddev_packets: (lengths.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            is_at_most: *min == self.config.packets_max,
        })
    }
}

/// What a device's buffer holds, as time at the rate of the bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BufferTime {
    /// Seconds that the mean burst took (RFC 9004, "Implied DUT Buffer Time").
    pub implied_s: f64,
    /// The same without what the device forwarded meanwhile ("Corrected DUT Buffer Time").
    pub corrected_s: f64,
}

/// The buffer that a mean burst implies, where bursts came at `burst_pps` and the device forwards
/// `throughput_pps`. `None` if a rate is not positive, or nothing could fill the buffer because the
/// device forwards as fast as bursts come.
#[must_use]
pub fn buffer_time(mean_packets: f64, burst_pps: f64, throughput_pps: f64) -> Option<BufferTime> {
    let is_positive = burst_pps > 0.0 && burst_pps.is_finite() && throughput_pps > 0.0;
    if !is_positive || throughput_pps >= burst_pps || mean_packets.is_nan() || mean_packets < 0.0 {
        return None;
    }
    let implied_s = mean_packets / burst_pps;
    Some(BufferTime { implied_s, corrected_s: implied_s * (1.0 - throughput_pps / burst_pps) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Standing;
    use super::*;

    const CONFIG: Config = Config {
        packets_max: 1_000_000,
        width_ratio: 0.0,
        repeats: 5,
        budget: Budget { time_max_s: 1e6, trials_max: 10_000 },
    };

    fn measured(offered: u64, delivered: u64) -> Measured {
        Measured {
            offered_packets: offered,
            delivered_packets: delivered,
            offered_pps: 1e6,
            elapsed_s: 0.1,
            standing: Standing::Good,
        }
    }

    /// Runs bursts through a device that forwards so many of one.
    fn run(config: Config, mut room: impl FnMut(usize) -> u64) -> (BackToBack, usize) {
        let mut bursts = BackToBack::new(config).expect("bursts");
        let mut trials = 0;
        while let Some(packets) = bursts.next_burst() {
            assert_eq!(bursts.next_burst(), Some(packets), "asked twice");
            trials += 1;
            assert!(trials < 20_000, "it does not end");
            let repeat = bursts.lengths().len();
            bursts.feed(&measured(packets, packets.min(room(repeat))));
        }
        (bursts, trials)
    }

    #[test]
    fn every_repetition_finds_the_longest_burst_to_the_packet() {
        let (bursts, trials) = run(CONFIG, |repeat| 10_000 + repeat as u64);
        assert_eq!(bursts.lengths(), [10_000, 10_001, 10_002, 10_003, 10_004]);
        assert!(trials <= 5 * 22, "{trials}");
        let all = bursts.bursts().expect("repetitions");
        assert_eq!((all.min_packets, all.max_packets, all.repeats), (10_000, 10_004, 5));
        assert!((all.mean_packets - 10_002.0).abs() < 1e-9);
        assert!((all.stddev_packets.expect("five") - 2.5_f64.sqrt()).abs() < 1e-9);
        assert!(!all.is_at_most);
    }

    #[test]
    fn a_width_saves_bursts() {
        let (bursts, trials) = run(Config { width_ratio: 0.01, repeats: 1, ..CONFIG }, |_| 123_456);
        assert!(trials < 15, "{trials}");
        let found = bursts.lengths()[0];
        assert!(found <= 123_456 && found > 122_000, "{found}");
    }

    #[test]
    fn a_burst_that_never_fails_is_only_a_lower_bound() {
        let (bursts, trials) = run(CONFIG, |_| u64::MAX);
        assert_eq!(trials, 5);
        assert!(bursts.bursts().expect("repetitions").is_at_most);
        let (bursts, _) = run(CONFIG, |_| 0);
        assert_eq!(bursts.bursts().expect("repetitions").mean_packets, 0.0);
    }

    #[test]
    fn bursts_that_were_not_sent_whole_end_it() {
        let mut bursts = BackToBack::new(CONFIG).expect("bursts");
        while let Some(packets) = bursts.next_burst() {
            bursts.feed(&measured(packets - 1, packets - 1));
        }
        assert_eq!(bursts.stopped(), Some(Stopped::Void));
        assert_eq!(bursts.bursts(), None);
    }

    #[test]
    fn the_buffer_is_corrected_by_what_was_forwarded_meanwhile() {
        // 26,000 frames at 14.88 Mpps into a device of 10 Mpps.
        let time = buffer_time(26_000.0, 14.88e6, 10e6).expect("a buffer");
        assert!((time.implied_s - 0.001_747_3).abs() < 1e-6, "{time:?}");
        assert!((time.corrected_s - time.implied_s * 4.88 / 14.88).abs() < 1e-12);
        assert_eq!(buffer_time(26_000.0, 14.88e6, 14.88e6), None);
        assert_eq!(buffer_time(26_000.0, 0.0, 1.0), None);
    }

    #[test]
    fn what_is_nothing_to_do_is_refused() {
        for bad in [
            Config { packets_max: 0, ..CONFIG },
            Config { repeats: 0, ..CONFIG },
            Config { width_ratio: 1.0, ..CONFIG },
        ] {
            BackToBack::new(bad).expect_err("nothing to do");
        }
    }

    proptest! {
        #[test]
        fn any_device_is_found(room in 0_u64..2_000_000, packets_max in 1_u64..1_000_000) {
            let (bursts, _) = run(Config { packets_max, repeats: 2, ..CONFIG }, |_| room);
            let expected = room.min(packets_max);
            prop_assert_eq!(bursts.lengths(), [expected, expected]);
        }

        #[test]
        fn whatever_it_is_told_it_ends(
            answers in prop::collection::vec((0_u8..6, 0.0_f64..1.0), 1..50)
        ) {
            let mut bursts = BackToBack::new(CONFIG).expect("bursts");
            let mut answers = answers.iter().cycle();
            let mut trials = 0;
            while let Some(packets) = bursts.next_burst() {
                trials += 1;
                prop_assert!(trials <= 10_000 && packets <= CONFIG.packets_max);
                let &(kind, _) = answers.next().expect("endless");
                let mut result = measured(packets, packets);
                match kind {
                    0 => result.standing = Standing::Void,
                    1 | 2 => result.delivered_packets = 0,
                    3 => result.delivered_packets += 1,
                    _ => {}
                }
                bursts.feed(&result);
            }
        }
    }
}
