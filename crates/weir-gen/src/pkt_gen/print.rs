//! pkt-gen's output lines.
//!
//! Scripts cut them at their spaces: of a report, packets per second are field 4, packets field 6
//! (after a parenthesis), bits per second field 8. Numbers are printed as pkt-gen's `norm` does,
//! including the space that stays behind a number without a prefix: `14842972 ` and `pps`.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::Function;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;

/// Reports over which `-A` takes mean and standard deviation.
pub(crate) const WINDOW_REPORTS: usize = 15;

/// Free slots of the receiving ring, as pkt-gen prints them where it has not looked. There is no
/// ring here.
pub(crate) const SPACE_UNKNOWN: u64 = 99_999;

/// Intervals under this are too short to be reported, microseconds.
const INTERVAL_US_MIN: u64 = 10_000;

/// What `-B` adds to each packet, bits: preamble, start delimiter, FCS and gap.
const FRAMING_BITS: u64 = 24 * 8;

/// Microseconds.
const US_PER_SECOND: f64 = 1e6;

/// How numbers are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// `-N`: plain numbers instead of `14.843 M`.
    pub plain: bool,
    /// `-A`: mean and standard deviation.
    pub averages: bool,
    /// `-B`: framing counts as bits.
    pub framing: bool,
}

impl Style {
    /// A number with its prefix and the space before it.
    fn number(self, value: f64) -> String {
        const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];
        if self.plain {
            return format!("{value:.0} ");
        }
        let (mut scaled, mut prefix) = (value, 0);
        while scaled >= 1000.0 && prefix < PREFIXES.len() - 1 {
            scaled /= 1000.0;
            prefix += 1;
        }
        format!("{scaled:.3} {}", PREFIXES[prefix])
    }

    const fn framing_bits(self) -> u64 {
        if self.framing { FRAMING_BITS } else { 0 }
    }

    /// Bits of frames, with framing if it counts.
    fn bits(self, counters: Counters) -> f64 {
        counters.bytes as f64 * 8.0 + (counters.packets * self.framing_bits()) as f64
    }
}

/// What was sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub packets: u64,
    /// Their bytes, without FCS.
    pub bytes: u64,
    /// Batches that they came or went in.
    pub batches: u64,
}

impl Counters {
    fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            batches: self.batches.saturating_sub(earlier.batches),
        }
    }

    /// Packets per batch, 0 if there was none.
    fn per_batch(self) -> f64 {
        if self.batches == 0 { 0.0 } else { self.packets as f64 / self.batches as f64 }
    }

    /// Packets per second, to the nearest whole one.
    fn rate_pps(self, elapsed_us: u64) -> u64 {
        let elapsed_us = u128::from(elapsed_us.max(1));
        let rate_pps = (u128::from(self.packets) * 1_000_000 + elapsed_us / 2) / elapsed_us;
        u64::try_from(rate_pps).unwrap_or(u64::MAX)
    }
}

/// Makes a report of each interval.
#[derive(Debug, Clone, Default)]
pub struct Reporter {
    style: Style,
    before: Counters,
    window: VecDeque<u64>,
}

impl Reporter {
    /// Begins with counters at zero.
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self { style, ..Self::default() }
    }

    /// The report of the time since the last one, `elapsed_us` microseconds; `None` if that is
    /// under 10 ms, which then counts with the next one.
    pub fn report(&mut self, now: Counters, elapsed_us: u64) -> Option<String> {
        if elapsed_us < INTERVAL_US_MIN {
            return None;
        }
        let counted = now.since(self.before);
        self.before = now;
        let spread = if self.style.averages {
            if self.window.len() == WINDOW_REPORTS {
                self.window.pop_front();
            }
            self.window.push_back(counted.rate_pps(elapsed_us));
            Some(mean_and_deviation(&self.window))
        } else {
            None
        };
        Some(report(self.style, counted, elapsed_us, spread, SPACE_UNKNOWN))
    }
}

/// Of the rates that are not zero, as pkt-gen has it.
fn mean_and_deviation(rates_pps: &VecDeque<u64>) -> (f64, f64) {
    let busy = || rates_pps.iter().filter(|rate_pps| **rate_pps > 0).map(|rate| *rate as f64);
    let count = busy().count().max(1) as f64;
    // `sum` of nothing is -0, which would be printed so.
    let mean = busy().fold(0.0, |sum, rate_pps| sum + rate_pps) / count;
    let squares = busy().fold(0.0, |sum, rate_pps| sum + (rate_pps - mean).powi(2));
    (mean, (squares / count).sqrt())
}

/// The text of a report.
fn report(
    style: Style,
    counted: Counters,
    elapsed_us: u64,
    spread: Option<(f64, f64)>,
    space: u64,
) -> String {
    let number = |value| style.number(value);
    let spread = spread.map_or_else(String::new, |(mean, deviation)| {
        format!("[avg/std {}/{} pps]", number(mean), number(deviation))
    });
    format!(
        "{}pps {spread}({}pkts {}bps in {elapsed_us} usec) {:.2} avg_batch {space} min_space",
        number(counted.rate_pps(elapsed_us) as f64),
        number(counted.packets as f64),
        number(US_PER_SECOND * style.bits(counted) / elapsed_us as f64),
        counted.per_batch(),
    )
}

/// The two lines at the end of rx and tx, or the one that says that there was nothing.
#[must_use]
pub fn totals(function: Function, style: Style, all: Counters, elapsed: Duration) -> String {
    let verb = if function == Function::Tx { "Sent" } else { "Received" };
    if all.packets == 0 {
        return format!("{verb} nothing.\n");
    }
    let elapsed_s = elapsed.as_secs_f64();
    let Counters { packets, bytes, batches } = all;
    let sentence = format!(
        "{verb} {packets} packets {bytes} bytes {batches} events {} bytes each in {elapsed_s:.2} \
         seconds.\n",
        bytes / packets
    );
    let elapsed_s = if elapsed.is_zero() { 1e-6 } else { elapsed_s };
    let number = |value| style.number(value);
    format!(
        "{sentence}Speed: {}pps Bandwidth: {}bps (raw {}bps). Average batch: {:.2} pkts\n",
        number(packets as f64 / elapsed_s),
        number(bytes as f64 * 8.0 / elapsed_s),
        number(style.bits(all) / elapsed_s),
        all.per_batch(),
    )
}

/// The line that opens standard output.
#[must_use]
pub fn opening(
    function: Function,
    interface: &str,
    queue_count: usize,
    threads: u16,
    cpu_count: u32,
) -> String {
    let doing = match function {
        Function::Tx => "Sending on",
        Function::Rx => "Receiving from",
        Function::Ping | Function::Pong => "Working on",
    };
    format!("{doing} {interface}: {queue_count} queues, {threads} threads and {cpu_count} cpus.\n")
}

/// The second line of tx: the ends as they were written.
#[must_use]
pub fn ends(src: &str, dst: &str, src_mac: &str, dst_mac: &str) -> String {
    format!("{src} -> {dst} ({src_mac} -> {dst_mac})\n")
}

/// A line on standard error: time of day, function and place in the program, text. Of the time,
/// pkt-gen prints seconds modulo 1000.
#[must_use]
pub fn log_line(
    since_epoch: Duration,
    function: &str,
    line: u32,
    text: &(impl fmt::Display + ?Sized),
) -> String {
    let (seconds, micros) = (since_epoch.as_secs() % 1000, since_epoch.subsec_micros());
    format!("{seconds:03}.{micros:06} {function} [{line}] {text}\n")
}
